/* Conversion between element types, round to nearest even. */
#include "tensor/kernels/vector/variant.h"
#include "tensor/kernels/vector/halves.h"

/* Few elements, such as one token's state, are converted without a parallel region: see FOR_RANGE. */
#define FOR_EACH(n, statement)                                                                               \
  do {                                                                                                       \
    if ((n) >= CH_PARALLEL_ELEMENTS && team->workers > 1 && !omp_in_parallel())                              \
      _Pragma("omp parallel for simd schedule(static) num_threads(team->workers)") for (int64_t i = 0;       \
                                                                                        i < (n); i++)        \
          statement;                                                                                         \
    else                                                                                                     \
      _Pragma("omp simd") for (int64_t i = 0; i < (n); i++) statement;                                       \
  } while (0)

void KERNEL(convert_from)(const ch_team *team, int64_t n, const void *x, ch_dtype from, void *y) {
  real *restrict out = y;
  const float *floats = x;
  const double *doubles = x;
  const uint16_t *halves = x;
  switch (from) {
  case CH_F32:
    FOR_EACH(n, out[i] = (real)floats[i]);
    break;
  case CH_F64:
    FOR_EACH(n, out[i] = (real)doubles[i]);
    break;
  case CH_F16:
    FOR_EACH(n, out[i] = (real)float_from_f16(halves[i]));
    break;
  case CH_BF16:
    FOR_EACH(n, out[i] = (real)float_from_bf16(halves[i]));
    break;
  default: /* block-quantised types; tensors of whole numbers are never converted */
    if (ch_dtype_is_block_quantised(from)) KERNEL(widen_blocks)(team, n, x, from, y);
  }
}

void KERNEL(convert_to)(const ch_team *team, int64_t n, const void *x, ch_dtype to, void *y) {
  const real *restrict in = x;
  float *floats = y;
  double *doubles = y;
  uint16_t *halves = y;
  switch (to) {
  case CH_F32:
    FOR_EACH(n, floats[i] = (float)in[i]);
    break;
  case CH_F64:
    FOR_EACH(n, doubles[i] = (double)in[i]);
    break;
  case CH_F16:
    FOR_EACH(n, halves[i] = f16_from_float(narrow_odd(in[i])));
    break;
  case CH_BF16:
    FOR_EACH(n, halves[i] = bf16_from_float(narrow_odd(in[i])));
    break;
  default:
    break;
  }
}
