/* Whether a product of the library has the same bits with fewer threads.
 *
 * The library divides a product among threads as it likes: some shapes it divides along the sum, which changes the order of
 * additions. A team that has fewer workers for a while (tensor/governor.h) must not change results, so the first product of
 * each shape is computed both ways and compared. A shape that differs keeps all threads. */
#ifndef CH_TENSOR_GEMM_TRIALS_H
#define CH_TENSOR_GEMM_TRIALS_H

#include "tensor/gemm_library.h"

enum { CH_GEMM_TRIALS = 256 };

typedef enum ch_gemm_verdict { CH_GEMM_UNTRIED, CH_GEMM_SAME, CH_GEMM_DIFFERS } ch_gemm_verdict;

typedef struct ch_gemm_trial {
  ch_gemm_shape shape;
  int workers;
  ch_gemm_verdict verdict;
} ch_gemm_trial;

/* The last shapes that were tried; the oldest makes room. Zero-initialised. */
typedef struct ch_gemm_trials {
  ch_gemm_trial trials[CH_GEMM_TRIALS];
  int count, next;
} ch_gemm_trials;

ch_gemm_verdict ch_gemm_trials_find(const ch_gemm_trials *trials, const ch_gemm_shape *shape, int workers);
/* Compares results c and other [m, n], rows ldc apart, and keeps the verdict. If most of the numbers are zero the comparison
   says nothing: the shape stays untried. */
void ch_gemm_trials_judge(ch_gemm_trials *trials, const ch_gemm_shape *shape, int workers, const float *c,
                          const float *other);

#endif
