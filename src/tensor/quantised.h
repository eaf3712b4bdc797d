/* Rows of x as small integers, for products with block-quantised weights: eight bits per value and a scale
 * for every 32. In each table of kernels, quantise_rows and gemv_blocks use the same memory layout. This file
 * describes the plain layout.
 *
 * A product of such a row with a block is a sum of products of small integers. Weights come as unsigned bytes
 * w + zero, because the instructions multiply unsigned with signed bytes. `start`, the initial value of the
 * sum in each of its lanes of four products, subtracts `zero` again. */
#ifndef CH_TENSOR_QUANTISED_H
#define CH_TENSOR_QUANTISED_H

#include "tensor/kernels.h"

typedef struct ch_quantised_row {
  int8_t *q;      /* [n] x = scale * q */
  int32_t *start; /* [n / 4] -zero * (the sum of four q) */
  float *scale;   /* [n / 4] scale of each four values, equal for all fours of 32 values */
  float *sum;     /* [n / 32] scale * (the sum of 32 q) */
} ch_quantised_row;

/* Returns the number that makes weights of this type unsigned when added to them. */
static inline int ch_quantised_zero(ch_dtype weights) {
  return weights == CH_Q8_0 ? 128 : weights == CH_Q4_0 ? 8 : weights == CH_Q6_K ? 32 : 0;
}

/* Returns the bytes of a row of n values, n a multiple of 32, for every table. Each part starts at a multiple
   of 64 bytes. */
static inline size_t ch_quantised_bytes(int64_t n) {
  return ((size_t)n + 127) / 128 * 128 * 4;
}

/* Returns row r of contiguous rows. `rows` is at a multiple of 64 bytes. */
static inline ch_quantised_row ch_quantised_row_of(void *rows, int64_t n, int64_t r) {
  size_t values = ((size_t)n + 127) / 128 * 128;
  char *at = (char *)rows + (size_t)r * ch_quantised_bytes(n);
  return (ch_quantised_row){(int8_t *)at, (int32_t *)(void *)(at + values),
                            (float *)(void *)(at + 2 * values), (float *)(void *)(at + 3 * values)};
}

#endif
