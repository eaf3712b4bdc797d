/* A model's memory and its speed on a device, from its configuration: the formulas of docs/plan.md. */
#ifndef CH_PLANNER_MODEL_SIZES_H
#define CH_PLANNER_MODEL_SIZES_H

#include <crosshead/plan.h>

#include "model/accounting.h"

/* The question, the same for every model. */
typedef struct ch_capacity_question {
  int64_t context, users;
  ch_cache_types cache;
  bool typed;       /* matrices are stored as `weights`; else as files hold them, or as BF16 */
  ch_dtype weights; /* F32, F16, BF16 or a block-quantised type, as `crosshead quantize` would store them */
} ch_capacity_question;

/* Sizes in bytes, and arithmetic. */
typedef struct ch_capacity_sizes {
  ch_account account; /* at the context's end */
  double weights, step_weights,
      pass_weights; /* all tensors; read by a decoding step; by a pass over a prompt */
  ch_dtype type;    /* of most elements of matrices */
  double token;     /* that a token of a user adds to the cache, with scalars and ids */
  double fixed;     /* of a user, whatever the context: states of constant size */
  double ring;      /* the part of it in rings of `window` tokens (sinks too) */
  double window;
  double gate_row;                             /* of a token id, in models with embedding gates; else 0 */
  int64_t vocabulary;                          /* ids that can have such a row */
  double prompt_work;                          /* of a pass over a prompt; */
  double step_work, user_work;                 /* of a decoding step of one user, and of each further one */
  double prompt_flops, prompt_attention_flops; /* of a prompt of the context's length */
  int64_t passes;                              /* over it */
  int64_t layers;
} ch_capacity_sizes;

/* Computes the sizes of a configuration as it is served, with shared matrices materialised. path: NULL, or a
 * model directory. Its tensors decide what the configuration leaves open and, unless the question has a type,
 * how matrices are stored. */
ch_status ch_capacity_sizes_of(const ch_config *config, const char *path,
                               const ch_capacity_question *question, ch_capacity_sizes *sizes,
                               ch_error *error);

/* Bytes of so many users with so long contexts: cache, rows of gates, work memory, and with the weights all of it. */
double ch_capacity_cache(const ch_capacity_sizes *sizes, double users, double context);
double ch_capacity_gates(const ch_capacity_sizes *sizes, double users, double context);
double ch_capacity_work(const ch_capacity_sizes *sizes, double users);
double ch_capacity_needed(const ch_capacity_sizes *sizes, double users, double context);

/* Return the most users with so long contexts, and the longest contexts of so many users, in `memory` bytes;
 * 0: not one. */
int64_t ch_capacity_users(const ch_capacity_sizes *sizes, int64_t context, double memory);
int64_t ch_capacity_context(const ch_capacity_sizes *sizes, int64_t users, double memory);

/* Fills the speeds of *expected, and `bound`. */
void ch_capacity_speed(const ch_capacity_sizes *sizes, const ch_capacity_question *question,
                       const ch_device *device, ch_capacity_estimate *expected);

#endif
