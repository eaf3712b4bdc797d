/* A planned model graph that is ready to run. Training steps, evaluation, prefill and decoding all use it. */
#ifndef CH_MODEL_RUNNER_H
#define CH_MODEL_RUNNER_H

#include "graph/plan.h"
#include "model/engine_copies.h"
#include "model/transformer.h"
#include "tensor/watch.h"

/* The resources that the runners of one thread share: kernels and their memory, threads, prepared products, work
   memory. To add a kind of engine, add a table of kernels with its memory and its products. */
typedef struct ch_engine {
  const ch_kernels *kernels;
  ch_team team;         /* threads for which the engine's runners are planned */
  ch_governor governor; /* decides how many threads of the team compute now */
  ch_watch watch;       /* callbacks of ch_engine_watch */
  ch_gemm *gemm;
  ch_workspace workspace;
  /* ch_graph.compute of runners created from now on: CH_BF16, or the engine's own type (default) */
  ch_dtype compute;
  struct ch_token_groups *groups; /* token groups of the cache of the last run that needed them */
  ch_engine_copies placed;        /* copies of weights and inputs in the kernels' memory */
  ch_profile *profile;            /* filled by every run if not NULL; belongs to the caller */
} ch_engine;

/* Initialises an engine. dtype: CH_F32 (the fastest kernels) or CH_F64 (the reference path). The team has the number
   of threads that OpenMP would give the calling thread now (ch_team_of). */
ch_status ch_engine_init(ch_engine *engine, ch_dtype dtype, ch_error *error);
/* Initialises an engine with a team of `threads` threads; 0: as ch_engine_init. */
ch_status ch_engine_init_threads(ch_engine *engine, ch_dtype dtype, int threads, ch_error *error);
/* Initialises an engine that computes in the host's memory, for work that reads values during a run. */
ch_status ch_engine_init_host(ch_engine *engine, ch_dtype dtype, ch_error *error);
void ch_engine_free(ch_engine *engine);
/* Sets callbacks for the engine's runs; each may be NULL. A run ends with CH_ERROR_INTERRUPTED when `stop` returns
   true, and reports its progress to `share`. While a callback is set, the engine must not move in memory. */
void ch_engine_watch(ch_engine *engine, ch_stop_test stop, void (*share)(void *context, double share),
                     void *context);

/* Creates a cache for models of this configuration in the memory of the engine's kernels. Release it with
   ch_cache_free. */
ch_status ch_engine_cache(const ch_engine *engine, const ch_config *config, int64_t sequences,
                          int64_t capacity, const ch_cache_types *types, ch_cache **cache, ch_error *error);
/* Creates a cache in which layers with a sliding window store all tokens, so that sequences can go back to any token.
   The graphs that use it have a `capacity` of 0. */
ch_status ch_engine_whole_cache(const ch_engine *engine, const ch_config *config, int64_t sequences,
                                int64_t capacity, const ch_cache_types *types, ch_cache **cache,
                                ch_error *error);

typedef struct ch_runner ch_runner;

/* Plans the model for a shape and reserves the engine's memory. recompute: see ch_plan_options. */
ch_status ch_runner_create(ch_engine *engine, const ch_config *config, const ch_params *params,
                           const ch_model_graph *shape, bool recompute, ch_runner **runner, ch_error *error);
void ch_runner_free(ch_runner *runner);

typedef struct ch_runner_call {
  /* [params->count] in the kernels' memory, or in the host's if they never change */
  const ch_tensor *weights;
  const int32_t *tokens; /* [sequences, length] ids, checked against the vocabulary */
  /* heads with a loss: [sequences, length] targets, -1 = not predicted; models of images: labels */
  const int32_t *targets;
  const void *states;            /* [sequences * length, hidden] only input of CH_HEAD_OF_STATES */
  const float *pixels;           /* models of images: [sequences, channels, size, size] instead of tokens */
  const int32_t *document_start; /* graphs with documents: [sequences, length], or NULL */
  ch_cache *cache;               /* graphs with a cache; a successful run adds `length` to its lengths */
  void *const *gradients;        /* trainable graphs: [params->count] */
  bool accumulate;               /* true to add to the gradients */
  bool follows_micro_batch, more_micro_batches; /* see ch_run; with ch_model_graph.accumulation */
  bool elsewhere;                               /* see ch_run */
  ch_routing *routing;                  /* counts the loads of experts and adds a balance loss; or NULL */
  const ch_observer *observer;          /* observes computed values; or NULL */
  const ch_gradient_listener *listener; /* learns that gradients are final; or NULL */
  double seed;                          /* gradient of each row's loss, for example 1 / predicted tokens */
} ch_runner_call;

/* Runs the graph. Calls after the first allocate nothing, unless the engine must group the tokens of a cache of another
   size. *value, the root's value in the engine's type, is in the host's memory. It belongs to the engine and is valid
   until the next run of any of its runners. */
ch_status ch_runner_run(ch_runner *runner, const ch_runner_call *call, const void **value, ch_error *error);

/* Returns the sums to which every micro-batch adds, and their number in *count (ch_plan_gradient_sums). */
const ch_gradient_sum *ch_runner_gradient_sums(const ch_runner *runner, int *count);
/* Returns the address of the sum with index `sum` in ch_runner_gradient_sums. */
void *ch_runner_gradient_sum(const ch_runner *runner, void *const *gradients, int sum);

/* Returns the number of columns of the root. */
int64_t ch_runner_columns(const ch_runner *runner);
/* Returns the FLOPs of one forward pass. */
double ch_runner_flops(const ch_runner *runner);

#endif
