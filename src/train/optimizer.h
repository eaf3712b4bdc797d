/* AdamW over a model's parameters, with the global gradient norm. */
#ifndef CH_TRAIN_OPTIMIZER_H
#define CH_TRAIN_OPTIMIZER_H

#include "config/params.h"
#include "tensor/kernels.h"
#include "train/options.h"

/* The elements of a tensor that a rank updates. */
typedef struct ch_parameter_piece {
  int64_t first, count;
} ch_parameter_piece;

/* Weights, gradients and both moments of a model: four blocks of memory with the same layout. Each of several ranks that train
   one model updates an equal part of the block, and has moments for that part alone (ZeRO stage 1, Rajbhandari et al.
   2020). */
typedef struct ch_parameter_set {
  const ch_params *params; /* must outlive the set */
  ch_dtype dtype;
  ch_tensor *weights, *gradients, *m, *v; /* [params->count] views; the moments of the own piece alone */
  void **gradient_data;                   /* [params->count] the data of `gradients`, for ch_run.gradients */
  size_t *places;                         /* [params->count] bytes of the block before each */
  ch_parameter_piece *pieces; /* [params->count] of each tensor the elements that are updated here */
  int rank, ranks;
  void *block[4];
  size_t block_bytes;            /* of weights, and of gradients; a multiple of part_bytes */
  size_t part_bytes;             /* of each moment: what a rank updates, from rank * part_bytes on */
  const ch_value_memory *memory; /* where they lie */
} ch_parameter_set;

/* All zero, of the kernels' type, in their memory. Release with ch_parameter_set_free. */
ch_status ch_parameter_set_create(ch_parameter_set *set, const ch_params *params, const ch_kernels *kernels,
                                  ch_error *error);
/* The same for one of several ranks. */
ch_status ch_parameter_set_create_part(ch_parameter_set *set, const ch_params *params,
                                       const ch_kernels *kernels, int rank, int ranks, ch_error *error);
/* The elements of a tensor that `rank` updates. */
ch_parameter_piece ch_parameter_piece_of(const ch_parameter_set *set, int parameter, int rank);
void ch_parameter_set_free(ch_parameter_set *set);

/* The norm of all gradients together: a sum of squares in double, tensor by tensor. Not finite when a gradient is
   not. */
double ch_gradient_norm(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team);
/* The name of the first of `tensors` [params->count] with a value that is not finite, or NULL. Of moments, pieces are looked at. */
const char *ch_first_not_finite(const ch_parameter_set *set, const ch_tensor *tensors,
                                const ch_kernels *kernels, const ch_team *team);

/* Of the own pieces alone, AdamW's update number `step` (1 for the first) with the gradients times `scale`. Weights decay only where the
   parameter table says so. */
void ch_adamw_step(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                   const ch_train_options *options, int64_t step, double lr, double scale);

#endif
