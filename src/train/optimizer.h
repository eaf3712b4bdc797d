/* AdamW over a model's parameters, with the global gradient norm. */
#ifndef CH_TRAIN_OPTIMIZER_H
#define CH_TRAIN_OPTIMIZER_H

#include "config/params.h"
#include "tensor/kernels.h"
#include "train/options.h"

/* Weights, gradients and both moments of a model: four blocks of memory with the same layout. */
typedef struct ch_parameter_set {
  const ch_params *params; /* must outlive the set */
  ch_dtype dtype;
  ch_tensor *weights, *gradients, *m, *v; /* [params->count] views */
  void **gradient_data;                   /* [params->count] the data of `gradients`, for ch_run.gradients */
  void *block[4];
  size_t block_bytes;            /* of each */
  const ch_value_memory *memory; /* where they lie */
} ch_parameter_set;

/* All zero, of the kernels' type, in their memory. Release with ch_parameter_set_free. */
ch_status ch_parameter_set_create(ch_parameter_set *set, const ch_params *params, const ch_kernels *kernels,
                                  ch_error *error);
void ch_parameter_set_free(ch_parameter_set *set);

/* The norm of all gradients together: a sum of squares in double, tensor by tensor. Not finite when a gradient is
   not. */
double ch_gradient_norm(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team);
/* The name of the first of `tensors` [params->count] with a value that is not finite, or NULL. */
const char *ch_first_not_finite(const ch_parameter_set *set, const ch_tensor *tensors,
                                const ch_kernels *kernels, const ch_team *team);

/* AdamW's update number `step` (1 for the first) with the gradients times `scale`. Weights decay only where the
   parameter table says so. */
void ch_adamw_step(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                   const ch_train_options *options, int64_t step, double lr, double scale);

#endif
