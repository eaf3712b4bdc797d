/* Dense linear algebra in double, by LAPACK and BLAS: products, eigenvectors of symmetric matrices, Cholesky factors.
 * Matrices are row-major. */
#ifndef CH_COMPRESS_LINEAR_ALGEBRA_H
#define CH_COMPRESS_LINEAR_ALGEBRA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Computes C [m, n] = op(A) op(B) (+ C if accumulate), with op by the transpose flags and row strides lda,
 * ldb and n. */
void ch_multiply(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const double *a,
                 int64_t lda, const double *b, int64_t ldb, double *c, bool accumulate);
/* Adds X X^T of X [n, k] to a symmetric C [n, n]. */
void ch_multiply_self(int64_t n, int64_t k, const double *x, double *c);
/* Computes the eigenvalues [n] of a symmetric matrix, the largest first. With `vectors`, a [n, n] becomes its
   eigenvectors, one per row in that order; else it is destroyed. */
ch_status ch_eigen(int64_t n, double *a, double *values, bool vectors, ch_error *error);
/* Computes the lower R [n, n], zeros above, with A = R R^T. If A is singular, a ridge in proportion to the mean of
 * its diagonal is added to the diagonal. *ridge receives the number added, or 0. */
ch_status ch_cholesky(int64_t n, const double *a, double *r, double *ridge, ch_error *error);
/* Replaces X [m, n] by X R^-1 with a lower R [n, n]. */
void ch_divide_by_factor(int64_t m, int64_t n, const double *r, double *x);

#endif
