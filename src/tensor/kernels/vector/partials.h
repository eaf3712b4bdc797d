/* Sums over rows that several threads share. Each thread adds up its own rows and then finishes some of the
 * elements. */
#ifndef CH_KERNELS_VECTOR_PARTIALS_H
#define CH_KERNELS_VECTOR_PARTIALS_H

#include "tensor/kernels/vector/variant.h"

/* out[i] = (+=) the sum of `parts` adjacent vectors of n reals, in their order, for elements first …
   last-1. */
static inline void sum_partials(int parts, int64_t n, const real *partial, int64_t first, int64_t last,
                                real *out, bool accumulate) {
  for (int64_t i = first; i < last; i++) {
    real sum = 0;
    for (int t = 0; t < parts; t++) sum += partial[t * n + i];
    out[i] = accumulate ? out[i] + sum : sum;
  }
}

#endif
