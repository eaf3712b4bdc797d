/* AdamW over a model's parameters, with the global gradient norm. */
#ifndef CH_TRAIN_OPTIMIZER_H
#define CH_TRAIN_OPTIMIZER_H

#include "config/params.h"
#include "tensor/kernels.h"
#include "train/options.h"

/* Weights, gradients and both moments of a model: four blocks of memory in which every tensor has the same place. */
typedef struct ch_parameter_set {
  const ch_params *params; /* must outlive the set */
  ch_dtype dtype;
  ch_tensor *weights, *gradients, *m, *v; /* [params->count] views */
  void **gradient_data;                   /* [params->count], as a run wants them */
  void *block[4];
  size_t block_bytes; /* of each */
} ch_parameter_set;

/* All zero. Release with ch_parameter_set_free. */
ch_status ch_parameter_set_create(ch_parameter_set *set, const ch_params *params, ch_dtype dtype,
                                  ch_error *error);
void ch_parameter_set_free(ch_parameter_set *set);

/* The norm of all gradients together: a sum of squares in double, tensor by tensor. NaN or infinite when one is. */
double ch_gradient_norm(const ch_parameter_set *set, const ch_kernels *kernels);
/* The name of the first of `tensors` [params->count] that holds a value that is not finite, or NULL. */
const char *ch_first_not_finite(const ch_parameter_set *set, const ch_tensor *tensors,
                                const ch_kernels *kernels);

/* AdamW's update number `step` (1 for the first) with gradients times `scale`; decay only where the table says so. */
void ch_adamw_step(const ch_parameter_set *set, const ch_kernels *kernels, const ch_train_options *options,
                   int64_t step, double lr, double scale);

#endif
