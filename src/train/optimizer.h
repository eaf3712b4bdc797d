/* AdamW over a model's parameters, with the global gradient norm. */
#ifndef CH_TRAIN_OPTIMIZER_H
#define CH_TRAIN_OPTIMIZER_H

#include "train/options.h"
#include "train/parameter_set.h"

/* Fills the own part of set->table_squares, for tables that are kept by columns; then all ranks' parts are gathered. */
void ch_square_own_columns(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team);
/* The norm of all gradients together: a sum of squares in double, tensor by tensor. Lookup tables of gates are added up column by
   column, so that the bits are the same whoever has which columns. Not finite when a gradient is not. */
double ch_gradient_norm(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team);
/* The name of the first of `tensors` [params->count] of the set's type with a value that is not finite, or NULL. */
const char *ch_first_not_finite(const ch_parameter_set *set, const ch_tensor *tensors,
                                const ch_kernels *kernels, const ch_team *team);
/* The same of the weights that are here. */
const char *ch_first_weight_not_finite(const ch_parameter_set *set, const ch_kernels *kernels,
                                       const ch_team *team);
/* And of the gradients; of tables that are kept by columns, those whose squares were gathered. */
const char *ch_first_gradient_not_finite(const ch_parameter_set *set, const ch_kernels *kernels,
                                         const ch_team *team);

/* Of the own pieces alone, AdamW's update number `step` (1 for the first) with the gradients times `scale`. Weights decay only where the
   parameter table says so. */
void ch_adamw_step(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                   const ch_train_options *options, int64_t step, double lr, double scale);
/* Rounds the own part of the weights that are kept in BF16 to where graphs read them. */
void ch_round_own_weights(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team);

#endif
