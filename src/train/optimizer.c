/* AdamW (Loshchilov & Hutter): moments with bias correction, decay apart from the gradient. */
#include "train/optimizer.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

/* Tensors start on cache lines, so that two threads never write one line. */
enum { ALIGNMENT = 64 };

static size_t place_bytes(const ch_param *param, ch_dtype dtype) {
  size_t bytes = (size_t)ch_param_count(param) * ch_dtype_size(dtype);
  return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static void place(ch_parameter_set *set) {
  ch_tensor *views[4] = {set->weights, set->gradients, set->m, set->v};
  size_t offset = 0;
  for (int p = 0; p < set->params->count; p++) {
    const ch_param *param = &set->params->rows[p];
    for (int b = 0; b < 4; b++) {
      ch_tensor *view = &views[b][p];
      *view = (ch_tensor){.dtype = set->dtype, .rank = param->rank, .data = (char *)set->block[b] + offset};
      for (int i = 0; i < param->rank; i++) view->shape[i] = param->shape[i];
    }
    set->gradient_data[p] = set->gradients[p].data;
    offset += place_bytes(param, set->dtype);
  }
}

/* The system may grant more memory than there is and kill the program later, so a model that cannot fit is refused
   here. */
static ch_status check_room(size_t bytes, ch_error *error) {
  double machine = ch_machine_memory();
  if ((double)bytes <= machine) return CH_OK;
  return ch_fail(
      error, CH_ERROR_MEMORY,
      "weights, gradients and two moments take %.1f GB where this machine has %.1f GB; train a smaller model",
      (double)bytes / 1e9, machine / 1e9);
}

ch_status ch_parameter_set_create(ch_parameter_set *set, const ch_params *params, const ch_kernels *kernels,
                                  ch_error *error) {
  *set = (ch_parameter_set){.params = params, .dtype = kernels->dtype, .memory = kernels->memory};
  for (int p = 0; p < params->count; p++) set->block_bytes += place_bytes(&params->rows[p], set->dtype);
  CH_TRY(check_room(4 * set->block_bytes, error));
  size_t count = (size_t)params->count;
  set->weights = calloc(4 * count, sizeof *set->weights);
  set->gradient_data = calloc(count, sizeof *set->gradient_data);
  bool enough = set->weights && set->gradient_data;
  for (int b = 0; b < 4 && enough; b++)
    enough = (set->block[b] = set->memory->allocate(set->block_bytes)) != NULL;
  if (!enough) {
    size_t mebibytes = 4 * (set->block_bytes >> 20);
    ch_parameter_set_free(set);
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for weights, gradients and two moments (%zu MiB)",
                   mebibytes);
  }
  set->gradients = set->weights + count;
  set->m = set->gradients + count;
  set->v = set->m + count;
  place(set);
  return CH_OK;
}

void ch_parameter_set_free(ch_parameter_set *set) {
  for (int b = 0; b < 4; b++)
    if (set->block[b]) set->memory->release(set->block[b], set->block_bytes);
  free(set->weights);
  free(set->gradient_data);
  *set = (ch_parameter_set){0};
}

double ch_gradient_norm(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team) {
  double sum = 0;
  for (int p = 0; p < set->params->count; p++)
    sum += kernels->sum_squares(team, ch_tensor_count(&set->gradients[p]), set->gradients[p].data);
  return sqrt(sum);
}

const char *ch_first_not_finite(const ch_parameter_set *set, const ch_tensor *tensors,
                                const ch_kernels *kernels, const ch_team *team) {
  for (int p = 0; p < set->params->count; p++)
    if (!isfinite(kernels->sum_squares(team, ch_tensor_count(&tensors[p]), tensors[p].data)))
      return set->params->rows[p].name;
  return NULL;
}

/* Decay by I - W instead of -W: the missing part is on the diagonal, of every matrix of a weight [heads, d, d]. */
static void add_identity(const ch_kernels *kernels, const ch_tensor *weight, double by) {
  int64_t rows = weight->shape[weight->rank - 2], columns = weight->shape[weight->rank - 1];
  int64_t count = ch_tensor_count(weight) / (rows * columns);
  for (int64_t i = 0; i < count; i++)
    kernels->add_to_diagonal(rows, columns, by,
                             (char *)weight->data + ch_dtype_bytes(weight->dtype, i * rows * columns));
}

void ch_adamw_step(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                   const ch_train_options *options, int64_t step, double lr, double scale) {
  double correction1 = 1 / (1 - pow(options->beta1, (double)step));
  double correction2 = 1 / (1 - pow(options->beta2, (double)step));
  for (int p = 0; p < set->params->count; p++) {
    if (set->params->rows[p].frozen) continue;
    double factor = set->params->rows[p].lr_factor;
    /* Decay is per step, lr * weight_decay, whatever the tensor's own rate. */
    double decay = set->params->rows[p].decay ? options->weight_decay / factor : 0;
    kernels->adamw(team, ch_tensor_count(&set->weights[p]), set->weights[p].data, set->gradients[p].data,
                   set->m[p].data, set->v[p].data, scale, lr * factor, options->beta1, options->beta2,
                   options->eps, decay, correction1, correction2);
    if (set->params->rows[p].decay_to_identity) add_identity(kernels, &set->weights[p], lr * factor * decay);
  }
}
