/* A planned model graph with what it needs to run: training steps, evaluation, prefill and decoding all go through it. */
#ifndef CH_MODEL_RUNNER_H
#define CH_MODEL_RUNNER_H

#include "graph/plan.h"
#include "model/transformer.h"

/* What runners of one thread share: kernels, prepared products, work memory. */
typedef struct ch_engine {
  const ch_kernels *kernels;
  ch_gemm *gemm;
  ch_workspace workspace;
  ch_dtype
      compute; /* ch_graph's, of runners made from now on: CH_BF16, or the engine's own type (as it begins) */
  struct ch_token_groups *groups; /* of the cache of the last run that needed them */
  ch_profile *profile;            /* filled by every run when not NULL; owned by the caller */
} ch_engine;

/* dtype: CH_F32 (the fastest kernels this processor has) or CH_F64 (the reference path). */
ch_status ch_engine_init(ch_engine *engine, ch_dtype dtype, ch_error *error);
void ch_engine_free(ch_engine *engine);

typedef struct ch_runner ch_runner;

/* Plans the model for a shape; reserves the engine's memory. recompute: see ch_plan_options. */
ch_status ch_runner_create(ch_engine *engine, const ch_config *config, const ch_params *params,
                           const ch_model_graph *shape, bool recompute, ch_runner **runner, ch_error *error);
void ch_runner_free(ch_runner *runner);

typedef struct ch_runner_call {
  const ch_tensor *weights; /* [params->count] */
  const int32_t *tokens;    /* [sequences, length]; checked against the vocabulary */
  const int32_t
      *targets; /* [sequences, length], -1 = not predicted; heads with a loss only. Of images: labels */
  const float *pixels; /* [sequences, channels, size, size] in place of tokens, in models of images */
  const int32_t *document_start; /* [sequences, length] or NULL; graphs with documents only */
  ch_cache *cache;               /* graphs that remember; its lengths advance by `length` after a good run */
  void *const *gradients;        /* [params->count]; trainable graphs only */
  bool accumulate;               /* add to the gradients */
  bool continues, more;          /* ch_run's; graphs for series only */
  ch_routing *routing;           /* loads of experts to count, a balance loss to take along; or NULL */
  const ch_observer *observer;   /* looks at what is computed, or NULL */
  double seed;                   /* gradient of each row's loss, e.g. 1 / predicted tokens */
} ch_runner_call;

/* Runs once; allocates nothing after the first call. *value (of the engine's type, owned by the engine) holds the
   root until the next run of any runner of the engine. */
ch_status ch_runner_run(ch_runner *runner, const ch_runner_call *call, const void **value, ch_error *error);

/* Columns of the root. */
int64_t ch_runner_columns(const ch_runner *runner);
/* Bytes of work memory, and FLOPs of one forward pass. */
size_t ch_runner_bytes(const ch_runner *runner);
double ch_runner_flops(const ch_runner *runner);

#endif
