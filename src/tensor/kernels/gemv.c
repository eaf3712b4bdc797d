/* Few rows times a matrix from memory: y = x W^T at the speed the weights can be read. */
#include "tensor/kernels/few_rows.h"

#ifdef CH_KERNEL_SPLITS
enum { MOST_SPLIT = 1 << 16 }; /* elements of x, on the stack */

/* Of every two vectors the even elements, then the odd ones. */
static void split(int64_t rows, int64_t in, const real *x, real *to) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  for (int64_t r = 0; r < rows; r++, x += in)
    for (int64_t i = 0; i < in; i += 2 * VL, to += 2 * VL) {
      const __m512 first = (__m512)load_some(x + i, in - i),
                   second = in - i > VL ? (__m512)load_some(x + i + VL, in - i - VL) : _mm512_setzero_ps();
      store(to, (vec)_mm512_permutex2var_ps(first, even, second));
      store(to + VL, (vec)_mm512_permutex2var_ps(first, odd, second));
    }
}

/* Weights of BF16, as many rows of x at a time as there is room for: 32 of 2048 elements. */
static void split_range(const few_call *call, int64_t first, int64_t last) {
  _Alignas(64) real room[MOST_SPLIT];
  const int64_t padded = (call->in + 2 * VL - 1) / (2 * VL) * (2 * VL);
  few_call some = *call;
  some.x = (const char *)room;
  some.x_bytes = (size_t)padded * sizeof(real);
  for (int64_t r = 0; r < call->rows; r += some.rows) {
    some.rows = call->rows - r < MOST_SPLIT / padded ? call->rows - r : MOST_SPLIT / padded;
    some.y = call->y + r * call->out;
    split(some.rows, call->in, (const real *)(const void *)call->x + r * call->in, room);
    few_range(FEW_SPLIT, &some, first, last);
  }
}
#endif

static void gemv_range(const few_call *call, ch_dtype weight_dtype, int64_t first, int64_t last) {
  if (weight_dtype == CH_F16) few_range(FEW_F16, call, first, last);
#ifdef CH_KERNEL_SPLITS
  else if (weight_dtype == CH_BF16 && call->in > 0 && call->in + 2 * VL <= MOST_SPLIT)
    split_range(call, first, last);
#endif
  else if (weight_dtype == CH_BF16)
    few_range(FEW_BF16, call, first, last);
  else
    few_range(FEW_REAL, call, first, last);
}

void KERNEL(gemv)(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                  ch_dtype weight_dtype, const void *bias, void *y, bool accumulate) {
  const few_call call = {.rows = rows,
                         .in = in,
                         .out = out,
                         .x = x,
                         .weight = weight,
                         .x_bytes = (size_t)in * sizeof(real),
                         .weight_bytes = (size_t)in * ch_dtype_size(weight_dtype),
                         .bias = bias,
                         .y = y,
                         .accumulate = accumulate};
  FOR_RANGE(out, rows * in * out >= CH_PARALLEL_ELEMENTS, gemv_range(&call, weight_dtype, first, last));
}
