/* The best approximation of low rank: it minimises |(M - b a) R|, the error of M's outputs, with E[x x^T] = R R^T.
 *
 * It is the truncated SVD of M R = U S V^T, multiplied by R^-1. U comes from the eigenvectors of M E[x x^T] M^T, and
 * b = U, a = U^T M needs no R at all. If M is taller than wide, the smaller matrix R^T M^T M R gives V instead. */
#ifndef CH_COMPRESS_TRUNCATION_H
#define CH_COMPRESS_TRUNCATION_H

#include "compress/compress.h"

typedef struct ch_truncation {
  int64_t out, in, most; /* rows, columns and full rank, min(out, in) */
  double *values;  /* [most]: squared singular values of M R, the errors that units of rank remove; falling */
  double *vectors; /* [most, most]: U^T or V^T; NULL unless requested */
  double *whitened, *r; /* M R [out, in] and R [in, in] of tall matrices; else NULL */
  double error;         /* |M R|^2 */
} ch_truncation;

/* Decomposes M [out, in]; c NULL: R = 1. Release with ch_truncation_free. */
ch_status ch_truncation_find(int64_t out, int64_t in, const double *m, const ch_autocorrelation *c,
                             bool vectors, ch_truncation *truncation, ch_error *error);
void ch_truncation_free(ch_truncation *truncation);
/* Computes a [rank, in] and b [out, rank] of `m`, the matrix that the truncation was found for. */
void ch_truncation_factors(const ch_truncation *truncation, const double *m, int64_t rank, double *a,
                           double *b);
/* Returns |M R|^2 of any M, tr(M E[x x^T] M^T); |M|^2 if c is NULL. Returns -1 when out of memory. */
double ch_whitened_square(int64_t out, int64_t in, const double *m, const ch_autocorrelation *c);

#endif
