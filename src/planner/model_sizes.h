/* A model's memory and its speed on a device, from its configuration: the formulas of docs/plan.md. */
#ifndef CH_PLANNER_MODEL_SIZES_H
#define CH_PLANNER_MODEL_SIZES_H

#include <crosshead/plan.h>

#include "model/accounting.h"

/* The question, the same for every model. */
typedef struct ch_capacity_question {
  int64_t context, users; /* tokens of context of each user, and number of users */
  ch_cache_types cache;
  bool typed;       /* true if matrices are stored as `weights`; else as in the files, or as BF16 */
  ch_dtype weights; /* F32, F16, BF16 or a block-quantised type, as `crosshead quantize` would store them */
} ch_capacity_question;

/* The memory and arithmetic of a model. Sizes are in bytes. */
typedef struct ch_capacity_sizes {
  ch_account account; /* parameters, cache and FLOPs per token at the end of the context */
  /* bytes of all weights, of those that a decoding step reads, and of those that a pass over a prompt reads */
  double weights, step_weights, pass_weights;
  ch_dtype type;               /* type of most elements of matrices */
  double token;                /* cache of one token of a user, with scalars and ids */
  double fixed;                /* states of constant size of a user */
  double ring;                 /* part of `token` that is in rings of `window` tokens */
  double window;               /* number of tokens of a ring, sinks included */
  double gate_row;             /* row of a token id in models with embedding gates; else 0 */
  int64_t vocabulary;          /* number of ids that can have a gate_row */
  double prompt_work;          /* work memory of a pass over a prompt */
  double step_work, user_work; /* work memory of a decoding step of one user, and that of each further user */
  /* FLOPs of a prompt of the context's length: all, and those of attention over the context */
  double prompt_flops, prompt_attention_flops;
  int64_t passes; /* passes over a prompt of the context's length */
  int64_t layers;
} ch_capacity_sizes;

/* Computes the sizes of a configuration as it is served, with shared matrices materialised. path: NULL, or a
 * model directory. Its tensors decide what the configuration leaves open and, unless the question has a type,
 * how matrices are stored. */
ch_status ch_capacity_sizes_of(const ch_config *config, const char *path,
                               const ch_capacity_question *question, ch_capacity_sizes *sizes,
                               ch_error *error);

/* Return the bytes of so many users with contexts of this length: the cache, rows of gates, work memory, and the sum
 * of these and the weights. */
double ch_capacity_cache(const ch_capacity_sizes *sizes, double users, double context);
double ch_capacity_gates(const ch_capacity_sizes *sizes, double users, double context);
double ch_capacity_work(const ch_capacity_sizes *sizes, double users);
double ch_capacity_needed(const ch_capacity_sizes *sizes, double users, double context);

/* Return the maximum number of users with contexts of this length, and the maximum context of each of `users` users,
 * in `memory` bytes. Return 0 if none fits. */
int64_t ch_capacity_users(const ch_capacity_sizes *sizes, int64_t context, double memory);
int64_t ch_capacity_context(const ch_capacity_sizes *sizes, int64_t users, double memory);

/* Sets the speeds of *expected and its `bound`. */
void ch_capacity_speed(const ch_capacity_sizes *sizes, const ch_capacity_question *question,
                       const ch_device *device, ch_capacity_estimate *expected);

#endif
