/* A planned model graph with what it needs to run: training steps, evaluation, prefill and decoding all go
   through it. */
#ifndef CH_MODEL_RUNNER_H
#define CH_MODEL_RUNNER_H

#include "graph/plan.h"
#include "model/engine_copies.h"
#include "model/transformer.h"
#include "tensor/watch.h"

/* Shared by the runners of one thread: kernels and their memory, threads, prepared products, work memory.
   Another kind of engine is another table of kernels, with its memory, and its products. */
typedef struct ch_engine {
  const ch_kernels *kernels;
  ch_team team;         /* the threads that everything of this engine is planned for and computed by */
  ch_governor governor; /* and how many of them compute now */
  ch_watch watch;       /* while ch_engine_watch is in force */
  ch_gemm *gemm;
  ch_workspace workspace;
  /* ch_graph's, of runners created from now on: CH_BF16, or the engine's own type (as it begins) */
  ch_dtype compute;
  struct ch_token_groups *groups; /* of the cache of the last run that needed them */
  ch_engine_copies placed;        /* weights of files, where the kernels' memory is not the host's */
  ch_profile *profile;            /* filled by every run when not NULL; owned by the caller */
} ch_engine;

/* Initialises an engine. dtype: CH_F32 (the fastest kernels) or CH_F64 (the reference path). The team has as
   many threads as OpenMP would give the calling thread now (ch_team_of). ch_engine_init_threads has a
   parameter for it. */
ch_status ch_engine_init(ch_engine *engine, ch_dtype dtype, ch_error *error);
ch_status ch_engine_init_threads(ch_engine *engine, ch_dtype dtype, int threads, ch_error *error);
/* Initialises an engine that computes in the host's memory, for work that reads values during a run. */
ch_status ch_engine_init_host(ch_engine *engine, ch_dtype dtype, ch_error *error);
void ch_engine_free(ch_engine *engine);
/* Sets callbacks for the engine's runs. A run ends with CH_ERROR_INTERRUPTED when `stop` (or NULL) returns
   true, and reports its progress to `share` (or NULL). While one is set, the engine must not move in
   memory. */
void ch_engine_watch(ch_engine *engine, ch_stop_test stop, void (*share)(void *context, double share),
                     void *context);

/* Creates a cache for models of this configuration in the memory of the engine's kernels. Release it with
   ch_cache_free. */
ch_status ch_engine_cache(const ch_engine *engine, const ch_config *config, int64_t sequences,
                          int64_t capacity, const ch_cache_types *types, ch_cache **cache, ch_error *error);
/* Like ch_engine_cache, but layers with a sliding window store all tokens, so that sequences can go back to
   any of them. For graphs whose `capacity` is 0. */
ch_status ch_engine_whole_cache(const ch_engine *engine, const ch_config *config, int64_t sequences,
                                int64_t capacity, const ch_cache_types *types, ch_cache **cache,
                                ch_error *error);

typedef struct ch_runner ch_runner;

/* Plans the model for a shape; reserves the engine's memory. recompute: see ch_plan_options. */
ch_status ch_runner_create(ch_engine *engine, const ch_config *config, const ch_params *params,
                           const ch_model_graph *shape, bool recompute, ch_runner **runner, ch_error *error);
void ch_runner_free(ch_runner *runner);

typedef struct ch_runner_call {
  const ch_tensor *weights; /* [params->count], in the kernels' memory; or the host's, if they never change */
  const int32_t *tokens;    /* [sequences, length]; checked against the vocabulary */
  /* [sequences, length], -1 = not predicted; heads with a loss only. In models of images: labels */
  const int32_t *targets;
  const void *states;  /* CH_HEAD_OF_STATES: its only input */
  const float *pixels; /* [sequences, channels, size, size] in place of tokens, in models of images */
  const int32_t *document_start; /* [sequences, length] or NULL; graphs with documents only */
  ch_cache *cache;               /* graphs with a cache; its lengths advance by `length` after a good run */
  void *const *gradients;        /* [params->count]; trainable graphs only */
  bool accumulate;               /* add to the gradients */
  bool follows_micro_batch, more_micro_batches; /* ch_run's; with ch_model_graph.accumulation */
  bool elsewhere;                               /* ch_run's */
  ch_routing *routing;                  /* loads of experts to count, a balance loss to add; or NULL */
  const ch_observer *observer;          /* observes the values that are computed, or NULL */
  const ch_gradient_listener *listener; /* learns which gradients are final, or NULL */
  double seed;                          /* gradient of each row's loss, e.g. 1 / predicted tokens */
} ch_runner_call;

/* Runs once; allocates nothing after the first call. *value (of the engine's type, owned by the engine, for
   the host) holds the root until the next run of any runner of the engine. */
ch_status ch_runner_run(ch_runner *runner, const ch_runner_call *call, const void **value, ch_error *error);

/* Returns the sums to which every micro-batch adds (ch_plan_gradient_sums). ch_runner_gradient_sum returns
   the address of one of them. */
const ch_gradient_sum *ch_runner_gradient_sums(const ch_runner *runner, int *count);
void *ch_runner_gradient_sum(const ch_runner *runner, void *const *gradients, int sum);

/* Returns the columns of the root. */
int64_t ch_runner_columns(const ch_runner *runner);
/* Returns the FLOPs of one forward pass. */
double ch_runner_flops(const ch_runner *runner);

#endif
