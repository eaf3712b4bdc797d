/* AdamW over a model's parameters, with the global gradient norm. */
#ifndef CH_TRAIN_OPTIMIZER_H
#define CH_TRAIN_OPTIMIZER_H

#include "train/options.h"
#include "train/parameter_set.h"

/* Fills this rank's part of set->table_squares, for tables divided by columns; the caller then gathers all
   ranks' parts. */
void ch_square_own_columns(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team);
/* Returns the norm of all gradients together. It is the root of a sum of squares in double, tensor by tensor.
 * Lookup tables of gates are added up column by column, so that the bits do not depend on the division of
 * columns. The norm is not finite if a gradient is not. */
double ch_gradient_norm(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team);
/* Returns the name of the first of `tensors` [params->count] of the set's type with a value that is not
 * finite, or NULL. */
const char *ch_first_not_finite(const ch_parameter_set *set, const ch_tensor *tensors,
                                const ch_kernels *kernels, const ch_team *team);
/* Checks the weights that this rank holds as ch_first_not_finite does. */
const char *ch_first_weight_not_finite(const ch_parameter_set *set, const ch_kernels *kernels,
                                       const ch_team *team);
/* Checks the gradients as ch_first_not_finite does. Tables divided by columns are checked by their gathered
 * squares. */
const char *ch_first_gradient_not_finite(const ch_parameter_set *set, const ch_kernels *kernels,
                                         const ch_team *team);

/* Applies AdamW's update number `step` (1 for the first) to this rank's pieces, with the gradients times
 * `scale`. Weights decay only if the parameter table says so. */
void ch_adamw_step(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                   const ch_train_options *options, int64_t step, double lr, double scale);
/* Rounds this rank's part of the weights that graphs read in BF16. */
void ch_round_own_weights(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team);

#endif
