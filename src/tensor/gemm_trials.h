/* Remembers which products of the library have the same bits with fewer threads.
 *
 * The library chooses how it divides a product among threads. It divides some shapes along the sum, which changes the
 * order of additions. A team that has fewer workers for a while (tensor/governor.h) must not change results, so
 * gemm.c tries each shape with both numbers of threads, on arbitrary factors. A shape whose results differ always
 * uses all threads. */
#ifndef CH_TENSOR_GEMM_TRIALS_H
#define CH_TENSOR_GEMM_TRIALS_H

#include <stddef.h>

#include "tensor/gemm_library.h"

/* Number of shapes that are remembered. The gradients of experts alone have up to a hundred: one for each
   number of tokens left after the pieces. */
enum { CH_GEMM_TRIALS = 1 << 11 };

typedef enum ch_gemm_verdict { CH_GEMM_UNTRIED, CH_GEMM_SAME, CH_GEMM_DIFFERS } ch_gemm_verdict;

typedef struct ch_gemm_trial {
  ch_gemm_shape shape;
  int workers;
  ch_gemm_verdict verdict;
} ch_gemm_trial;

/* Shapes that were tried, in a hash table: each is in one of a few elements that follow from the shape.
   Zero-initialise it. */
typedef struct ch_gemm_trials {
  ch_gemm_trial trials[CH_GEMM_TRIALS];
} ch_gemm_trials;

ch_gemm_verdict ch_gemm_trials_find(const ch_gemm_trials *trials, const ch_gemm_shape *shape, int workers);
/* Stores a verdict. If all elements for the shape are in use, the verdict replaces that of another shape, which is
   then untried. */
void ch_gemm_trials_keep(ch_gemm_trials *trials, const ch_gemm_shape *shape, int workers,
                         ch_gemm_verdict verdict);
/* Fills a matrix of F32, or of BF16, with numbers between -2 and 2, none of them zero: sums in different
   orders round differently. */
void ch_gemm_trials_fill(bool bf16, size_t bytes, uint32_t seed, void *matrix);

#endif
