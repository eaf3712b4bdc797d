/* Computes the truncated SVD from the eigenvectors of the smaller product. */
#include "compress/truncation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/linear_algebra.h"

static double *room(int64_t rows, int64_t columns) {
  return malloc((size_t)(rows * columns + 1) * sizeof(double));
}

static double *widen_to_double(const ch_autocorrelation *c) {
  double *wide = room(c->n, c->n);
  for (int64_t i = 0; wide && i < c->n * c->n; i++) wide[i] = (double)c->c[i];
  return wide;
}

/* Returns M E[x x^T] [out, in]; NULL when out of memory. */
static double *times_autocorrelation(int64_t out, int64_t in, const double *m, const ch_autocorrelation *c) {
  double *wide = widen_to_double(c), *product = room(out, in);
  if (wide && product) ch_multiply(false, false, out, in, in, m, in, wide, in, product, false);
  free(wide);
  if (wide) return product;
  free(product);
  return NULL;
}

double ch_whitened_square(int64_t out, int64_t in, const double *m, const ch_autocorrelation *c) {
  double sum = 0;
  double *product = c ? times_autocorrelation(out, in, m, c) : NULL;
  if (c && !product) return -1;
  const double *other = c ? product : m;
  for (int64_t i = 0; i < out * in; i++) sum += m[i] * other[i];
  free(product);
  return sum > 0 ? sum : 0;
}

/* Computes M E[x x^T] M^T [out, out]. */
static ch_status square_by_rows(int64_t out, int64_t in, const double *m, const ch_autocorrelation *c,
                                double *square, ch_error *error) {
  if (!c) {
    memset(square, 0, (size_t)(out * out) * sizeof *square);
    ch_multiply_self(out, in, m, square);
    return CH_OK;
  }
  double *product = times_autocorrelation(out, in, m, c);
  if (!product) return ch_no_memory(error);
  ch_multiply(false, true, out, out, in, product, in, m, in, square, false);
  for (int64_t i = 0; i < out; i++) /* makes the rounded product symmetric */
    for (int64_t j = 0; j < i; j++)
      square[i * out + j] = square[j * out + i] = (square[i * out + j] + square[j * out + i]) / 2;
  free(product);
  return CH_OK;
}

/* Computes R^T M^T M R [in, in], and saves M R and R. */
static ch_status square_by_columns(const double *m, const ch_autocorrelation *c, ch_truncation *t,
                                   double *square, ch_error *error) {
  t->whitened = room(t->out, t->in);
  if (!t->whitened) return ch_no_memory(error);
  if (c) {
    double ridge, *wide = widen_to_double(c);
    t->r = room(t->in, t->in);
    ch_status status = wide && t->r ? ch_cholesky(t->in, wide, t->r, &ridge, error) : ch_no_memory(error);
    free(wide);
    CH_TRY(status);
    ch_multiply(false, false, t->out, t->in, t->in, m, t->in, t->r, t->in, t->whitened, false);
  } else {
    memcpy(t->whitened, m, (size_t)(t->out * t->in) * sizeof *m);
  }
  ch_multiply(true, false, t->in, t->in, t->out, t->whitened, t->in, t->whitened, t->in, square, false);
  return CH_OK;
}

static ch_status find_truncation(const double *m, const ch_autocorrelation *c, bool vectors, ch_truncation *t,
                                 ch_error *error) {
  double *square = t->vectors = room(t->most, t->most);
  t->values = room(t->most, 1);
  if (!square || !t->values) return ch_no_memory(error);
  if (t->out <= t->in)
    CH_TRY(square_by_rows(t->out, t->in, m, c, square, error));
  else
    CH_TRY(square_by_columns(m, c, t, square, error));
  for (int64_t i = 0; i < t->most; i++) t->error += square[i * t->most + i];
  if (!isfinite(t->error))
    return ch_fail(error, CH_ERROR_NUMERIC,
                   "a %lld x %lld matrix or its inputs are not finite; the model is damaged",
                   (long long)t->out, (long long)t->in);
  CH_TRY(ch_eigen(t->most, square, t->values, vectors, error));
  for (int64_t i = 0; i < t->most; i++) t->values[i] = fmax(t->values[i], 0);
  return CH_OK;
}

ch_status ch_truncation_find(int64_t out, int64_t in, const double *m, const ch_autocorrelation *c,
                             bool vectors, ch_truncation *truncation, ch_error *error) {
  *truncation = (ch_truncation){.out = out, .in = in, .most = out < in ? out : in};
  if (c && c->n != in)
    return ch_fail(error, CH_ERROR_ARGUMENT, "calibration has %lld inputs, but the matrix has %lld",
                   (long long)c->n, (long long)in);
  ch_status status = find_truncation(m, c, vectors, truncation, error);
  if (status != CH_OK) ch_truncation_free(truncation);
  if (status == CH_OK && !vectors) {
    free(truncation->vectors), free(truncation->whitened), free(truncation->r);
    truncation->vectors = truncation->whitened = truncation->r = NULL;
  }
  return status;
}

void ch_truncation_free(ch_truncation *t) {
  free(t->values), free(t->vectors), free(t->whitened), free(t->r);
  *t = (ch_truncation){0};
}

void ch_truncation_factors(const ch_truncation *t, const double *m, int64_t rank, double *a, double *b) {
  if (t->out <= t->in) { /* b = U, a = U^T M */
    for (int64_t o = 0; o < t->out; o++)
      for (int64_t r = 0; r < rank; r++) b[o * rank + r] = t->vectors[r * t->most + o];
    ch_multiply(false, false, rank, t->in, t->out, t->vectors, t->most, m, t->in, a, false);
    return;
  }
  /* b = M R V */
  ch_multiply(false, true, t->out, rank, t->in, t->whitened, t->in, t->vectors, t->most, b, false);
  memcpy(a, t->vectors, (size_t)(rank * t->in) * sizeof *a);
  if (t->r) ch_divide_by_factor(rank, t->in, t->r, a);
}
