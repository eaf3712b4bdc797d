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

static ch_tensor view_of(const ch_parameter_set *set, const ch_param *param, void *data) {
  ch_tensor view = {.dtype = set->dtype, .rank = param->rank, .data = data};
  for (int i = 0; i < param->rank; i++) view.shape[i] = param->shape[i];
  return view;
}

static ch_tensor moment_of(const ch_parameter_set *set, int p, void *block) {
  const ch_param *param = &set->params->rows[p];
  ch_parameter_piece piece = set->pieces[p];
  size_t begin = (size_t)set->rank * set->part_bytes,
         from = set->places[p] + (size_t)piece.first * ch_dtype_size(set->dtype);
  void *data = piece.count > 0 ? (char *)block + (from - begin) : block;
  if (piece.count == ch_param_count(param)) return view_of(set, param, data);
  return (ch_tensor){.dtype = set->dtype, .rank = 1, .shape = {piece.count}, .data = data};
}

static void place(ch_parameter_set *set) {
  for (int p = 0; p < set->params->count; p++) {
    const ch_param *param = &set->params->rows[p];
    set->pieces[p] = ch_parameter_piece_of(set, p, set->rank);
    set->weights[p] = view_of(set, param, (char *)set->block[0] + set->places[p]);
    set->gradients[p] = view_of(set, param, (char *)set->block[1] + set->places[p]);
    set->m[p] = moment_of(set, p, set->block[2]);
    set->v[p] = moment_of(set, p, set->block[3]);
    set->gradient_data[p] = set->gradients[p].data;
  }
}

ch_parameter_piece ch_parameter_piece_of(const ch_parameter_set *set, int parameter, int rank) {
  size_t size = ch_dtype_size(set->dtype), begin = (size_t)rank * set->part_bytes,
         end = begin + set->part_bytes;
  size_t from = set->places[parameter],
         to = from + (size_t)ch_param_count(&set->params->rows[parameter]) * size,
         first = from > begin ? from : begin, last = to < end ? to : end;
  if (first >= last) return (ch_parameter_piece){0};
  return (ch_parameter_piece){.first = (int64_t)((first - from) / size),
                              .count = (int64_t)((last - first) / size)};
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
  return ch_parameter_set_create_part(set, params, kernels, 0, 1, error);
}

ch_status ch_parameter_set_create_part(ch_parameter_set *set, const ch_params *params,
                                       const ch_kernels *kernels, int rank, int ranks, ch_error *error) {
  *set = (ch_parameter_set){
      .params = params, .dtype = kernels->dtype, .memory = kernels->memory, .rank = rank, .ranks = ranks};
  size_t whole = 0, count = (size_t)params->count, lines = (size_t)ranks * ALIGNMENT;
  for (int p = 0; p < params->count; p++) whole += place_bytes(&params->rows[p], set->dtype);
  set->part_bytes = (whole + lines - 1) / lines * ALIGNMENT;
  set->block_bytes = (size_t)ranks * set->part_bytes;
  CH_TRY(check_room(2 * (set->block_bytes + set->part_bytes), error));
  set->weights = calloc(4 * count, sizeof *set->weights);
  set->gradient_data = calloc(count, sizeof *set->gradient_data);
  set->places = calloc(count, sizeof *set->places);
  set->pieces = calloc(count, sizeof *set->pieces);
  bool enough = set->weights && set->gradient_data && set->places && set->pieces;
  for (int b = 0; b < 4 && enough; b++)
    enough = (set->block[b] = set->memory->allocate(b < 2 ? set->block_bytes : set->part_bytes)) != NULL;
  if (!enough) {
    size_t mebibytes = 2 * ((set->block_bytes + set->part_bytes) >> 20);
    ch_parameter_set_free(set);
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for weights, gradients and two moments (%zu MiB)",
                   mebibytes);
  }
  set->gradients = set->weights + count;
  set->m = set->gradients + count;
  set->v = set->m + count;
  for (size_t p = 1; p < count; p++)
    set->places[p] = set->places[p - 1] + place_bytes(&params->rows[p - 1], set->dtype);
  place(set);
  return CH_OK;
}

void ch_parameter_set_free(ch_parameter_set *set) {
  for (int b = 0; b < 4; b++)
    if (set->block[b]) set->memory->release(set->block[b], b < 2 ? set->block_bytes : set->part_bytes);
  free(set->weights);
  free(set->places);
  free(set->pieces);
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

/* Decay by I - W instead of -W: the missing part is on the diagonal, of every matrix of a weight [heads, d, d]. Elements that
   another rank updates change too, and are replaced by that rank's. */
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
    const ch_parameter_piece piece = set->pieces[p];
    if (set->params->rows[p].frozen || piece.count == 0) continue;
    size_t from = (size_t)piece.first * ch_dtype_size(set->dtype);
    double factor = set->params->rows[p].lr_factor;
    /* Decay is per step, lr * weight_decay, whatever the tensor's own rate. */
    double decay = set->params->rows[p].decay ? options->weight_decay / factor : 0;
    kernels->adamw(team, piece.count, (char *)set->weights[p].data + from,
                   (char *)set->gradients[p].data + from, set->m[p].data, set->v[p].data, scale, lr * factor,
                   options->beta1, options->beta2, options->eps, decay, correction1, correction2);
    if (set->params->rows[p].decay_to_identity) add_identity(kernels, &set->weights[p], lr * factor * decay);
  }
}
