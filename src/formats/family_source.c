/* Converts a Crosshead model to the tensors of its family: other names, several matrices in one tensor, transposed
   matrices, norm weights as differences from 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/source.h"
#include "io/tensor_layout.h"

typedef struct part {
  int of; /* index of the family's tensor that holds the part */
  ch_tensor_place place;
} part;

typedef struct family_source {
  ch_source inner;
  part *parts;  /* [inner.params.count] */
  float *whole; /* values of tensor `held`, which has several parts or is transposed; or NULL */
  int held;
} family_source;

/* --- values --------------------------------------------------------------------------------------------- */

/* Puts a part at its place in the whole tensor. */
static void scatter(const part *p, const ch_param *own, const float *values, float *whole) {
  const ch_tensor_place *place = &p->place;
  int64_t rows = own->shape[0], columns = own->rank > 1 ? own->shape[1] : 1,
          step = place->step ? place->step : 1;
  whole += place->expert * place->rows * columns;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) {
      int64_t row = place->first + r * step;
      whole[place->transposed ? c * place->rows + row : row * columns + c] = values[r * columns + c];
    }
}

static ch_status put_part(family_source *f, int index, float *whole, ch_error *error) {
  const ch_param *own = &f->inner.params.rows[index];
  int64_t rows, columns;
  ch_rows_of(own, &rows, &columns);
  float *values = malloc((size_t)(rows * columns) * sizeof *values);
  if (!values) return ch_no_memory(error);
  ch_status status = f->inner.rows(&f->inner, index, 0, rows, values, error);
  if (status == CH_OK) scatter(&f->parts[index], own, values, whole);
  free(values);
  return status;
}

static ch_status hold(family_source *f, const ch_source *source, int index, ch_error *error) {
  if (f->whole && f->held == index) return CH_OK;
  free(f->whole);
  f->whole = malloc((size_t)ch_param_count(&source->params.rows[index]) * sizeof *f->whole);
  if (!f->whole) return ch_no_memory(error);
  f->held = index;
  ch_status status = CH_OK;
  for (int i = 0; i < f->inner.params.count && status == CH_OK; i++)
    if (f->parts[i].of == index) status = put_part(f, i, f->whole, error);
  if (status == CH_OK) return CH_OK;
  free(f->whole);
  f->whole = NULL;
  return status;
}

static ch_status rows(const ch_source *source, int index, int64_t first, int64_t count, float *values,
                      ch_error *error) {
  family_source *f = source->context;
  int own = 0; /* the first part of the tensor */
  while (f->parts[own].of != index) own++;
  int64_t all, columns;
  ch_rows_of(&source->params.rows[index], &all, &columns);
  const ch_tensor_place *place = &f->parts[own].place;
  /* true if the part is its whole tensor */
  bool in_order = !place->transposed && !place->experts && place->first == 0 &&
                  place->rows == f->inner.params.rows[own].shape[0];
  if (!in_order) {
    CH_TRY(hold(f, source, index, error));
    memcpy(values, f->whole + first * columns, (size_t)(count * columns) * sizeof *values);
    return CH_OK;
  }
  CH_TRY(f->inner.rows(&f->inner, own, first, count, values, error));
  for (int64_t i = 0; place->plus_one && i < count * columns; i++) values[i] -= 1;
  return CH_OK;
}

/* --- opening -------------------------------------------------------------------------------------------- */

static void shape(ch_param *outer, const ch_tensor_place *place, const ch_param *own) {
  outer->rank = 0;
  if (place->experts) outer->shape[outer->rank++] = place->experts;
  if (own->rank > 1 && place->transposed) outer->shape[outer->rank++] = own->shape[1];
  outer->shape[outer->rank++] = place->rows;
  if (own->rank > 1 && !place->transposed) outer->shape[outer->rank++] = own->shape[1];
}

static ch_status declare(family_source *f, const char *family, ch_source *source, ch_error *error) {
  ch_config config = f->inner.config;
  memset(config.layout, 0, sizeof config.layout);
  snprintf(config.layout, sizeof config.layout, "%s", family);
  for (int i = 0; i < f->inner.params.count; i++) {
    const ch_param *own = &f->inner.params.rows[i];
    part *p = &f->parts[i];
    if (!ch_tensor_place_of(&config, own, &p->place)) {
      p->place = (ch_tensor_place){.rows = own->shape[0]};
      snprintf(p->place.name, sizeof p->place.name, "%s", own->name);
    }
    p->of = ch_params_find(&source->params, p->place.name);
    if (p->of >= 0) continue;
    p->of = ch_params_vector(&source->params, own->kind, 0, own->shape[0], "%s", p->place.name);
    if (p->of < 0) break;
    shape(&source->params.rows[p->of], &p->place, own);
    source->dtypes[p->of] = f->inner.dtypes[i];
  }
  return ch_params_status(&source->params, error);
}

static void close_family(void *context) {
  family_source *f = context;
  ch_source_close(&f->inner);
  free(f->parts);
  free(f->whole);
  free(f);
}

ch_status ch_family_source_open(ch_source *inner, const char *family, ch_text *config_json, ch_source *source,
                                ch_error *error) {
  *source =
      (ch_source){.format = inner->format, .config = inner->config, .rows = rows, .close = close_family};
  family_source *f = calloc(1, sizeof *f);
  if (!f) return ch_no_memory(error);
  source->context = f;
  f->parts = calloc((size_t)inner->params.count + 1, sizeof *f->parts);
  source->dtypes = calloc((size_t)inner->params.count + 1, sizeof *source->dtypes);
  source->companions = inner->companions;
  source->config_json = *config_json;
  *config_json = (ch_text){0};
  inner->companions = NULL;
  f->inner = *inner;
  *inner = (ch_source){0};
  ch_status status = f->parts && source->dtypes ? declare(f, family, source, error) : ch_no_memory(error);
  if (status != CH_OK) ch_source_close(source);
  return status;
}
