/* AdamW (Loshchilov & Hutter): moments with bias correction, and decay decoupled from the gradient. Also the
   norm of the gradients and checks for numbers that are not finite. */
#include "train/optimizer.h"

#include <math.h>

/* --- norms ---------------------------------------------------------------------------------------------- */

void ch_square_own_columns(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team) {
  double *to = set->table_squares + set->rank * set->squares_each;
  for (int p = 0; p < set->params->count; p++) {
    ch_parameter_piece piece = set->pieces[p];
    if (set->keeping[p] != CH_KEPT_COLUMNS || piece.columns == 0) continue;
    kernels->column_squares(team, piece.count / piece.columns, piece.columns, set->gradients[p].data, to);
    to += piece.columns;
  }
}

/* Adds up the squares of a table that this rank holds whole, column by column. */
static double table_squares(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                            int p) {
  const ch_tensor *gradient = &set->gradients[p];
  kernels->column_squares(team, gradient->shape[0], gradient->shape[1], gradient->data, set->table_squares);
  double sum = 0;
  for (int64_t i = 0; i < gradient->shape[1]; i++) sum += set->table_squares[i];
  return sum;
}

/* Adds up the gathered squares of a divided table. Its columns of rank r begin at `before`. */
static double gathered_squares(const ch_parameter_set *set, int p) {
  double sum = 0;
  for (int r = 0; r < set->ranks; r++) {
    int64_t before = r * set->squares_each, columns = ch_parameter_piece_of(set, p, r).columns;
    for (int q = 0; q < p; q++)
      if (set->keeping[q] == CH_KEPT_COLUMNS) before += ch_parameter_piece_of(set, q, r).columns;
    for (int64_t c = 0; c < columns; c++) sum += set->table_squares[before + c];
  }
  return sum;
}

static double squares_of(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team, int p) {
  if (set->keeping[p] == CH_KEPT_COLUMNS) return gathered_squares(set, p);
  if (ch_parameter_is_table(&set->params->rows[p])) return table_squares(set, kernels, team, p);
  return kernels->sum_squares(team, ch_tensor_count(&set->gradients[p]), set->gradients[p].data);
}

double ch_gradient_norm(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team) {
  double sum = 0;
  for (int p = 0; p < set->params->count; p++) sum += squares_of(set, kernels, team, p);
  return sqrt(sum);
}

static bool is_finite(const ch_kernels *kernels, const ch_team *team, const ch_tensor *tensor) {
  return isfinite(kernels->sum_squares(team, ch_tensor_count(tensor), tensor->data));
}

const char *ch_first_not_finite(const ch_parameter_set *set, const ch_tensor *tensors,
                                const ch_kernels *kernels, const ch_team *team) {
  for (int p = 0; p < set->params->count; p++)
    if (!is_finite(kernels, team, &tensors[p])) return set->params->rows[p].name;
  return NULL;
}

const char *ch_first_weight_not_finite(const ch_parameter_set *set, const ch_kernels *kernels,
                                       const ch_team *team) {
  for (int p = 0; p < set->params->count; p++) {
    bool rounded = set->keeping[p] == CH_KEPT_ROUNDED;
    if (!is_finite(kernels, team, rounded ? &set->masters[p] : &set->weights[p]))
      return set->params->rows[p].name;
  }
  return NULL;
}

const char *ch_first_gradient_not_finite(const ch_parameter_set *set, const ch_kernels *kernels,
                                         const ch_team *team) {
  for (int p = 0; p < set->params->count; p++)
    if (!isfinite(squares_of(set, kernels, team, p))) return set->params->rows[p].name;
  return NULL;
}

/* --- the update ----------------------------------------------------------------------------------------- */

/* Adds `by` to the diagonal of every matrix of a weight [heads, d, d], so that it decays towards I, not 0.
 * Elements that other ranks own change too. Gathering the weights replaces these elements later. */
static void add_identity(const ch_kernels *kernels, const ch_tensor *weight, double by) {
  int64_t rows = weight->shape[weight->rank - 2], columns = weight->shape[weight->rank - 1];
  int64_t count = ch_tensor_count(weight) / (rows * columns);
  for (int64_t i = 0; i < count; i++)
    kernels->add_to_diagonal(rows, columns, by,
                             (char *)weight->data + ch_dtype_bytes(weight->dtype, i * rows * columns));
}

/* Returns this rank's piece of a gradient. Of a table divided by columns, it is everything that this rank holds. */
static void *own_gradient(const ch_parameter_set *set, int p) {
  int64_t before = set->keeping[p] == CH_KEPT_COLUMNS ? 0 : set->pieces[p].first;
  return (char *)set->gradients[p].data + before * (int64_t)ch_dtype_size(set->dtype);
}

void ch_adamw_step(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                   const ch_train_options *options, int64_t step, double lr, double scale) {
  double correction1 = 1 / (1 - pow(options->beta1, (double)step));
  double correction2 = 1 / (1 - pow(options->beta2, (double)step));
  for (int p = 0; p < set->params->count; p++) {
    const ch_parameter_piece piece = set->pieces[p];
    if (set->params->rows[p].frozen || piece.count == 0) continue;
    double factor = set->params->rows[p].lr_factor;
    /* Decay is lr * weight_decay per step and does not depend on the tensor's rate factor. */
    double decay = set->params->rows[p].decay ? options->weight_decay / factor : 0;
    kernels->adamw(team, piece.count, set->masters[p].data, own_gradient(set, p), set->m[p].data,
                   set->v[p].data, scale, lr * factor, options->beta1, options->beta2, options->eps, decay,
                   correction1, correction2);
    if (set->params->rows[p].decay_to_identity) add_identity(kernels, &set->weights[p], lr * factor * decay);
  }
}

void ch_round_own_weights(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team) {
  const ch_parameter_region *region = &set->regions[CH_KEPT_ROUNDED];
  if (region->part > 0)
    kernels->convert_to(team, region->part, region->masters, CH_BF16,
                        (char *)region->weights + set->rank * region->part * (int64_t)ch_dtype_size(CH_BF16));
}
