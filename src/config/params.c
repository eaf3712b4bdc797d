/* The parameter table: rows in checkpoint order, found by name through a small hash index. */
#include "config/params.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* Returns the slot where `name` is or would be. `index` has a power of two of slots, is never full, and holds
   row + 1. */
static size_t slot_of(const ch_params *params, const char *name) {
  size_t mask = params->index_size - 1, slot = (size_t)ch_random_stream_of(name) & mask;
  while (params->index[slot] && strcmp(params->rows[params->index[slot] - 1].name, name) != 0)
    slot = (slot + 1) & mask;
  return slot;
}

/* Makes room for one more row. The index stays at most half full. */
static bool reserve_row(ch_params *params) {
  if (params->count < params->capacity) return true;
  int capacity = params->capacity ? params->capacity * 2 : 64;
  ch_param *rows = realloc(params->rows, (size_t)capacity * sizeof *rows);
  if (!rows) return false;
  params->rows = rows;
  int32_t *index = calloc((size_t)capacity * 2, sizeof *index);
  if (!index) return false;
  free(params->index);
  params->index = index;
  params->index_size = (size_t)capacity * 2;
  params->capacity = capacity;
  for (int i = 0; i < params->count; i++) index[slot_of(params, rows[i].name)] = i + 1;
  return true;
}

static char *format_name(ch_arena *arena, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  char *name = length < 0 ? NULL : ch_arena_alloc(arena, (size_t)length + 1);
  if (name) vsnprintf(name, (size_t)length + 1, format, again);
  va_end(again);
  return name;
}

/* Appends `row` under the formatted name. A name that exists already is an error of the caller. */
static int append(ch_params *params, ch_param row, const char *format, va_list args) {
  char *name = params->failed ? NULL : format_name(&params->arena, format, args);
  if (!name || !reserve_row(params) || params->index[slot_of(params, name)]) {
    params->failed = true;
    return -1;
  }
  row.name = name;
  params->index[slot_of(params, name)] = params->count + 1;
  params->rows[params->count] = row;
  return params->count++;
}

int ch_params_matrix(ch_params *params, ch_param_kind kind, double std, int64_t rows, int64_t columns,
                     const char *name, ...) {
  ch_param row = {.rank = 2,
                  .shape = {rows, columns},
                  .kind = kind,
                  .init = CH_PARAM_INIT_NORMAL,
                  .std = std,
                  .role = CH_PARAM_HIDDEN,
                  .lr_factor = 1,
                  .decay = true,
                  .block_quantisable = kind == CH_PARAM_ATTENTION || kind == CH_PARAM_FFN ||
                                       kind == CH_PARAM_EXPERT || kind == CH_PARAM_EMBEDDING};
  va_list args;
  va_start(args, name);
  int index = append(params, row, name, args);
  va_end(args);
  return index;
}

int ch_params_vector(ch_params *params, ch_param_kind kind, double start, int64_t n, const char *name, ...) {
  ch_param row = {.rank = 1,
                  .shape = {n},
                  .kind = kind,
                  .init = CH_PARAM_INIT_CONSTANT,
                  .start = start,
                  .role = CH_PARAM_VECTOR,
                  .lr_factor = 1,
                  .always_real = true};
  va_list args;
  va_start(args, name);
  int index = append(params, row, name, args);
  va_end(args);
  return index;
}

void ch_params_set_role(ch_params *params, int index, ch_param_role role) {
  if (index >= 0) params->rows[index].role = role;
}

void ch_params_fail(ch_params *params, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!params->failed) vsnprintf(params->problem, sizeof params->problem, format, args);
  va_end(args);
  params->failed = true;
}

ch_status ch_params_status(const ch_params *params, ch_error *error) {
  if (!params->failed) return CH_OK;
  if (params->problem[0]) return ch_fail(error, CH_ERROR_CONFIG, "%s", params->problem);
  return ch_no_memory(error);
}

static int by_name(const void *name, const void *row) {
  return strcmp(name, ((const ch_known_shape *)row)->name);
}

const ch_known_shape *ch_known_shape_of(const ch_known_shapes *shapes, const char *name) {
  if (!shapes || !shapes->count) return NULL;
  return bsearch(name, shapes->rows, (size_t)shapes->count, sizeof *shapes->rows, by_name);
}

int ch_known_shape_order(const void *a, const void *b) {
  return strcmp(((const ch_known_shape *)a)->name, ((const ch_known_shape *)b)->name);
}

int ch_params_find(const ch_params *params, const char *name) {
  return params->index_size ? params->index[slot_of(params, name)] - 1 : -1;
}

int64_t ch_param_figure(const ch_param *param) {
  return param->training_only ? param->stands_for : ch_param_count(param);
}

int64_t ch_param_count(const ch_param *param) {
  int64_t count = 1;
  for (int i = 0; i < param->rank; i++) count *= param->shape[i];
  return count;
}

size_t ch_param_place_bytes(const ch_param *param, ch_dtype dtype) {
  return ((size_t)ch_param_count(param) * ch_dtype_size(dtype) + 63) & ~(size_t)63;
}

void ch_params_free(ch_params *params) {
  free(params->rows);
  free(params->index);
  ch_arena_free(&params->arena);
  *params = (ch_params){0};
}
