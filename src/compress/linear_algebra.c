/* Calls LAPACK and BLAS. */
#include "compress/linear_algebra.h"

#include <math.h>
#include <string.h>

#include <cblas.h>
#include <lapacke.h>

void ch_multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const double *a,
                 int64_t lda, const double *b, int64_t ldb, double *c, bool accumulate) {
  if (m < 1 || n < 1) return;
  if (k < 1) { /* an empty sum */
    if (!accumulate) memset(c, 0, (size_t)(m * n) * sizeof *c);
    return;
  }
  cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
              (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, accumulate ? 1 : 0, c, (int)n);
}

void ch_multiply_self(int64_t n, int64_t k, const double *x, double *c) {
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, (int)n, (int)k, 1, x, (int)k, 1, c, (int)n);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) c[i * n + j] = c[j * n + i];
}

static void swap(double *a, double *b, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    double kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
}

/* LAPACK returns eigenvectors as the columns of a column-major matrix, which are the rows of a row-major one, with
 * the smallest eigenvalue first. The order is then reversed. */
ch_status ch_eigen(int64_t n, double *a, double *values, bool vectors, ch_error *error) {
  int failed = (int)LAPACKE_dsyevd(LAPACK_COL_MAJOR, vectors ? 'V' : 'N', 'L', (lapack_int)n, a,
                                   (lapack_int)n, values);
  if (failed == LAPACK_WORK_MEMORY_ERROR) return ch_no_memory(error);
  if (failed)
    return ch_fail(
        error, CH_ERROR_NUMERIC,
        "LAPACK finds no eigenvalues of a %lld x %lld matrix (%d); a weight or an input of it is not finite",
        (long long)n, (long long)n, failed);
  for (int64_t i = 0, j = n - 1; i < j; i++, j--) {
    swap(&values[i], &values[j], 1);
    if (vectors) swap(a + i * n, a + j * n, n);
  }
  return CH_OK;
}

/* Pivots below this share of the mean diagonal are rounding: the matrix comes from sums in single precision. */
static const double least_pivot = 1e-7;

static bool factor(int64_t n, const double *a, double added, double floor, double *r) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) r[i * n + j] = j > i ? 0 : a[i * n + j] + (i == j ? added : 0);
  if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', (lapack_int)n, r, (lapack_int)n)) return false;
  for (int64_t i = 0; i < n; i++)
    if (!(r[i * n + i] * r[i * n + i] > floor)) return false;
  return true;
}

ch_status ch_cholesky(int64_t n, const double *a, double *r, double *ridge, ch_error *error) {
  double mean = 0;
  for (int64_t i = 0; i < n; i++) mean += a[i * n + i] / (double)n;
  *ridge = 0;
  if (!(mean > 0) || !isfinite(mean))
    return ch_fail(
        error, CH_ERROR_NUMERIC,
        "the inputs of a projection are %s on the calibration text; give a longer text of the model's kind",
        mean == 0 ? "all zero" : "not finite");
  if (factor(n, a, 0, least_pivot * mean, r)) return CH_OK;
  for (double share = 1e-6; share < 10; share *= 10) {
    *ridge = share * mean;
    if (factor(n, a, *ridge, least_pivot * mean, r)) return CH_OK;
  }
  return ch_fail(error, CH_ERROR_NUMERIC,
                 "the autocorrelation of a projection's inputs has no Cholesky factor; the calibration text "
                 "is too short");
}

void ch_divide_by_factor(int64_t m, int64_t n, const double *r, double *x) {
  cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)m, (int)n, 1, r, (int)n,
              x, (int)n);
}
