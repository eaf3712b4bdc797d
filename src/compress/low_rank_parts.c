/* Factors of one matrix, and their errors. */
#include "compress/low_rank_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/linear_algebra.h"

ch_status ch_compress_tell(const ch_compress_options *options, const char *what, double done, double total,
                           ch_error *error) {
  return options->step ? options->step(options->context, what, done, total, error) : CH_OK;
}

void ch_first_factor_name(const ch_matrix *matrix, const char *stem, char name[CH_TENSOR_NAME_SIZE]) {
  snprintf(name, CH_TENSOR_NAME_SIZE, "model.layers.%d.self_attn.%s%s.a.weight", matrix->layer, matrix->name,
           stem);
}

/* Writes a factor and reads back its rounded values. */
static ch_status store(const char *name, int64_t count, double *values, ch_compressed_model *compressed,
                       ch_error *error) {
  CH_TRY(ch_compressed_put(compressed, name, 0, count, values, error));
  return ch_compressed_get(compressed, name, 0, count, values, error);
}

/* Stores b [count * out, rank], layer by layer. */
static ch_status store_second(const ch_matrix *const *matrices, int count, const char *stem, int64_t rank,
                              double *b, ch_compressed_model *compressed, ch_error *error) {
  for (int l = 0; l < count; l++) {
    char name[CH_TENSOR_NAME_SIZE];
    int64_t size = matrices[l]->out * rank;
    snprintf(name, sizeof name, "model.layers.%d.self_attn.%s%s.b.weight", matrices[l]->layer,
             matrices[l]->name, stem);
    CH_TRY(store(name, size, b, compressed, error));
    b += size;
  }
  return CH_OK;
}

ch_status ch_write_factors(const ch_matrix *const *matrices, int count, const char *first, const char *stem,
                           int64_t rank, const ch_autocorrelation *c, double *m,
                           ch_compressed_model *compressed, ch_error *error) {
  int64_t rows = 0, in = matrices[0]->in;
  for (int l = 0; l < count; l++) rows += matrices[l]->out;
  double *a = malloc((size_t)(rank * in) * sizeof *a), *b = malloc((size_t)(rows * rank) * sizeof *b);
  ch_truncation truncation = {0};
  ch_status status = a && b ? CH_OK : ch_no_memory(error);
  if (status == CH_OK) status = ch_truncation_find(rows, in, m, c, true, &truncation, error);
  if (status == CH_OK) {
    ch_truncation_factors(&truncation, m, rank, a, b);
    status = store(first, rank * in, a, compressed, error);
  }
  if (status == CH_OK) status = store_second(matrices, count, stem, rank, b, compressed, error);
  if (status == CH_OK) {
    for (int64_t i = 0; i < rows * rank; i++) b[i] = -b[i];
    ch_multiply(false, false, rows, in, rank, b, rank, a, in, m, true);
  }
  ch_truncation_free(&truncation);
  free(a), free(b);
  return status;
}

ch_status ch_note_matrix(const ch_model *model, const ch_matrix *matrix, const double *missing,
                         const ch_autocorrelation *c, int64_t after, int64_t rank,
                         ch_compressed_model *compressed, ch_error *error) {
  int64_t out = matrix->out, in = matrix->in;
  double *whole = malloc((size_t)(out * in) * sizeof *whole);
  if (!whole) return ch_no_memory(error);
  ch_matrix_read(model, matrix, 0, out * in, whole);
  ch_compressed_matrix *row = &compressed->matrices[compressed->matrix_count++];
  *row = (ch_compressed_matrix){
      .layer = matrix->layer, .before = out * in, .after = after, .rank = rank, .whitened_error = -1};
  snprintf(row->projection, sizeof row->projection, "%s", matrix->name);
  double all = ch_whitened_square(out, in, whole, NULL), left = ch_whitened_square(out, in, missing, NULL);
  row->error = all > 0 ? sqrt(left / all) : 0;
  if (c) {
    all = ch_whitened_square(out, in, whole, c);
    left = ch_whitened_square(out, in, missing, c);
    row->whitened_error = all > 0 ? sqrt(left / all) : 0;
  }
  free(whole);
  return all < 0 || left < 0 ? ch_no_memory(error) : CH_OK;
}

int ch_order_of_matrices(const void *a, const void *b) {
  const ch_compressed_matrix *x = a, *y = b;
  int order = x->layer - y->layer;
  return order ? order : strcmp(x->projection, y->projection);
}
