/* Lists the matrices to compress, and lays out the tensors of the new model. */
#include "compress/matrices.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/memory.h"
#include "model/transformer.h"
#include "config_file/config_json.h"
#include "tensor/kernels.h"

enum { PIECE = 4096, ALIGNMENT = 64 };

/* --- matrices to compress ---------------------------------------------------------------------------------------- */

static bool names(const char *const *list, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(list[i], name) == 0) return true;
  return false;
}

static ch_status check_keep(const ch_compress_options *options, const ch_projection_shapes *shapes,
                            const char *where, ch_error *error) {
  for (int k = 0; k < options->keep_count; k++) {
    bool known = false;
    for (int i = 0; i < shapes->count; i++)
      known = known || strcmp(shapes->rows[i].name, options->keep[k]) == 0;
    if (known) continue;
    char all[CH_MAX_PROJECTIONS * (CH_PROJECTION_NAME_SIZE + 2)] = "";
    size_t used = 0;
    for (int i = 0; i < shapes->count; i++)
      used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", shapes->rows[i].name);
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s has no projection %s to keep; it has %s", where,
                   options->keep[k], all);
  }
  return CH_OK;
}

static void add_matrices(const ch_model *model, const char *name, ch_matrices *list) {
  char full[160];
  int before = list->count;
  for (int layer = 0; layer < model->config.num_hidden_layers; layer++) {
    snprintf(full, sizeof full, "model.layers.%d.self_attn.%s.weight", layer, name);
    int row = ch_params_find(&model->params, full);
    if (row < 0) continue;
    ch_matrix *m = &list->rows[list->count++];
    const int64_t *shape = model->params.rows[row].shape;
    *m = (ch_matrix){.layer = layer, .row = row, .out = shape[0], .in = shape[1]};
    snprintf(m->name, sizeof m->name, "%s", name);
    list->others -= shape[0] * shape[1];
  }
  if (list->count > before) snprintf(list->names[list->name_count++], CH_PROJECTION_NAME_SIZE, "%s", name);
}

static int by_layer(const void *a, const void *b) {
  const ch_matrix *x = a, *y = b;
  return x->layer != y->layer ? x->layer - y->layer : x->row - y->row;
}

/* Fails if the ratio is above the largest possible one, which leaves rank one for every matrix. */
static ch_status check_budget(const ch_matrices *list, const ch_compress_options *options, const char *where,
                              ch_error *error) {
  int64_t least = list->others;
  for (int i = 0; i < list->count; i++) least += list->rows[i].out + list->rows[i].in;
  if (list->others + list->budget >= least) return CH_OK;
  double most = 1 - (double)least / (double)list->before;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s cannot lose %g of its attention parameters: matrices of rank one would still be larger; "
                 "at most %.3f is possible",
                 where, options->ratio, most > 0 ? most : 0);
}

static ch_status fill_matrices(const ch_model *model, const ch_compress_options *options, ch_matrices *list,
                               ch_error *error) {
  ch_projection_shapes shapes;
  CH_TRY(ch_list_projections(&model->config, &shapes, error));
  CH_TRY(check_keep(options, &shapes, model->directory, error));
  for (int i = 0; i < model->params.count; i++)
    if (model->params.rows[i].kind == CH_PARAM_ATTENTION)
      list->before += ch_param_figure(&model->params.rows[i]);
  list->others = list->before;
  if (options->before) list->before = options->before;
  list->rows = calloc((size_t)(shapes.count * model->config.num_hidden_layers) + 1, sizeof *list->rows);
  if (!list->rows) return ch_no_memory(error);
  for (int i = 0; i < shapes.count; i++)
    /* A projection with fewer matrices than layers is shared by groups of layers. */
    if (!names(options->keep, options->keep_count, shapes.rows[i].name) &&
        shapes.rows[i].layers == model->config.num_hidden_layers)
      add_matrices(model, shapes.rows[i].name, list);
  if (!list->count)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "every projection of %s is in {keep}, so nothing remains to compress", model->directory);
  qsort(list->rows, (size_t)list->count, sizeof *list->rows, by_layer);
  list->budget = (int64_t)((1 - options->ratio) * (double)list->before + 1e-6) - list->others;
  if (options->ratio == 0) list->budget = INT64_MAX / 4; /* no limit, so the result is exact */
  return check_budget(list, options, model->directory, error);
}

ch_status ch_matrices_list(const ch_model *model, const ch_compress_options *options, ch_matrices *matrices,
                           ch_error *error) {
  *matrices = (ch_matrices){0};
  if (!(options->ratio >= 0 && options->ratio < 1))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a ratio of %g removes nothing or everything; it must be between 0 and 1", options->ratio);
  if (ch_materialise_changes(&model->config, &model->params, CH_MATERIALISE_DENSE))
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s shares matrices; expand them before compressing it",
                   model->directory);
  ch_status status = fill_matrices(model, options, matrices, error);
  if (status != CH_OK) ch_matrices_free(matrices);
  return status;
}

void ch_matrices_free(ch_matrices *matrices) {
  free(matrices->rows);
  *matrices = (ch_matrices){0};
}

double ch_matrix_work(const ch_matrix *matrix) {
  int64_t smaller = matrix->out < matrix->in ? matrix->out : matrix->in;
  return (double)matrix->out * (double)matrix->in * (double)smaller;
}

static void read_elements(const ch_tensor *tensor, int64_t first, int64_t count, double *values) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  float piece[PIECE];
  for (int64_t i = 0, n; i < count; i += n) {
    n = count - i < PIECE ? count - i : PIECE;
    const char *from = (const char *)tensor->data + (size_t)(first + i) * ch_dtype_size(tensor->dtype);
    if (tensor->dtype == CH_F32)
      memcpy(piece, from, (size_t)n * sizeof *piece);
    else
      kernels->convert_from(ch_team_here(), n, from, tensor->dtype, piece);
    for (int64_t k = 0; k < n; k++) values[i + k] = (double)piece[k];
  }
}

void ch_matrix_read(const ch_model *model, const ch_matrix *matrix, int64_t first, int64_t count,
                    double *values) {
  const ch_tensor *tensor = &model->weights.tensors[matrix->row];
  size_t size = ch_dtype_size(tensor->dtype);
  read_elements(tensor, first, count, values);
  if (ch_model_file_bytes(model) > CH_LARGE_WEIGHTS)
    ch_weights_forget(&model->weights, (const char *)tensor->data + (size_t)first * size,
                      (size_t)count * size);
}

/* --- the new model ----------------------------------------------------------------------------------------------- */

void ch_shape_list_add(ch_shape_list *list, int rank, int64_t first, const char *format, ...) {
  if (list->known.count == list->capacity) {
    int64_t capacity = list->capacity ? 2 * list->capacity : 64;
    ch_known_shape *rows = realloc(list->known.rows, (size_t)capacity * sizeof *rows);
    list->failed = list->failed || !rows;
    if (!rows) return;
    list->known.rows = rows;
    list->capacity = capacity;
  }
  char name[160];
  va_list args;
  va_start(args, format);
  vsnprintf(name, sizeof name, format, args);
  va_end(args);
  const char *copy = ch_arena_strdup(&list->arena, name);
  list->failed = list->failed || !copy;
  if (copy)
    list->known.rows[list->known.count++] = (ch_known_shape){.name = copy, .rank = rank, .shape = {first}};
}

void ch_shape_list_free(ch_shape_list *list) {
  free(list->known.rows);
  ch_arena_free(&list->arena);
  *list = (ch_shape_list){0};
}

static size_t padded(const ch_tensor *tensor) {
  return (ch_tensor_bytes(tensor) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static ch_status lay_out_materialised(const ch_model *model, ch_dtype dtype, ch_materialised_model *to,
                                      ch_error *error) {
  to->tensors = calloc((size_t)to->params.count + 1, sizeof *to->tensors);
  if (!to->tensors) return ch_no_memory(error);
  for (int i = 0; i < to->params.count; i++) {
    const ch_param *row = &to->params.rows[i];
    int from = ch_params_find(&model->params, row->name);
    to->tensors[i] = (ch_tensor){.dtype = row->always_real ? CH_F32 : dtype, .rank = row->rank};
    memcpy(to->tensors[i].shape, row->shape, sizeof row->shape);
    if (from >= 0)
      to->tensors[i] = model->weights.tensors[from];
    else
      to->data_bytes += padded(&to->tensors[i]);
  }
  char *place = to->data = ch_pages_alloc(to->data_bytes + 1);
  if (!place) return ch_no_memory(error);
  for (int i = 0; i < to->params.count; i++) {
    if (to->tensors[i].data) continue;
    to->tensors[i].data = place;
    place += padded(&to->tensors[i]);
  }
  return CH_OK;
}

ch_status ch_compressed_begin(const ch_model *model, const ch_config *config, ch_shape_list *shapes,
                              const ch_compress_options *options, ch_compressed_model *compressed,
                              ch_error *error) {
  ch_materialised_model *to = &compressed->model;
  to->config = *config;
  ch_compressed_config(&to->config);
  CH_TRY(ch_config_validate(&to->config, model->directory, error));
  if (shapes->failed) return ch_no_memory(error);
  qsort(shapes->known.rows, (size_t)shapes->known.count, sizeof *shapes->known.rows, ch_known_shape_order);
  to->params.known = &shapes->known;
  ch_status status = ch_model_declare(&to->config, &to->params, error);
  to->params.known = NULL;
  CH_TRY(status);
  return lay_out_materialised(model, options->dtype, to, error);
}

static ch_status tensor_of(const ch_compressed_model *compressed, const char *name, const ch_tensor **tensor,
                           ch_error *error) {
  int row = ch_params_find(&compressed->model.params, name);
  if (row < 0)
    return ch_fail(error, CH_ERROR_CONFIG, "%s was not declared; this is a bug in Crosshead", name);
  *tensor = &compressed->model.tensors[row];
  return CH_OK;
}

ch_status ch_compressed_put(ch_compressed_model *compressed, const char *name, int64_t first, int64_t count,
                            const double *values, ch_error *error) {
  const ch_tensor *tensor = NULL;
  CH_TRY(tensor_of(compressed, name, &tensor, error));
  float piece[PIECE];
  for (int64_t i = 0, n; i < count; i += n) {
    n = count - i < PIECE ? count - i : PIECE;
    for (int64_t k = 0; k < n; k++) piece[k] = (float)values[i + k];
    char *to = (char *)tensor->data + (size_t)(first + i) * ch_dtype_size(tensor->dtype);
    ch_kernels_best(CH_F32)->convert_to(ch_team_here(), n, piece, tensor->dtype, to);
  }
  return CH_OK;
}

ch_status ch_compressed_get(const ch_compressed_model *compressed, const char *name, int64_t first,
                            int64_t count, double *values, ch_error *error) {
  const ch_tensor *tensor = NULL;
  CH_TRY(tensor_of(compressed, name, &tensor, error));
  read_elements(tensor, first, count, values);
  return CH_OK;
}

ch_status ch_compressed_end(const ch_matrices *matrices, ch_compressed_model *compressed, ch_error *error) {
  compressed->before = matrices->before;
  compressed->after = 0;
  for (int i = 0; i < compressed->model.params.count; i++) {
    const ch_param *row = &compressed->model.params.rows[i];
    if (row->kind == CH_PARAM_ATTENTION) compressed->after += ch_param_figure(row);
  }
  if (compressed->after <= matrices->others + matrices->budget) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "the compressed model has %lld attention parameters and may have %lld; this is a bug in Crosshead",
      (long long)compressed->after, (long long)(matrices->others + matrices->budget));
}
