/* Tests conversion between element types: every 16-bit value, rounding ties, packed factors, and values that are
 * not finite. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

/* Returns the value of a 16-bit pattern by the definition of the format. */
static double meaning(uint16_t bits, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1),
      fraction = bits & ((1 << fraction_bits) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
  return sign * ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

typedef struct half_format {
  ch_dtype dtype;
  int exponent_bits;
} half_format;
static const half_format formats[] = {{CH_F16, 5}, {CH_BF16, 8}};

static void every_16_bit_value_is_widened_exactly_and_comes_back(void **state) {
  (void)state;
  enum { N = 1 << 16 };
  uint16_t *halves = malloc(N * sizeof *halves), *back = malloc(N * sizeof *back);
  void *reals = malloc(N * sizeof(double));
  assert_true(halves && back && reals);
  for (int i = 0; i < N; i++) halves[i] = (uint16_t)i;
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    for (int f = 0; f < 2; f++) {
      kernels->convert_from(all_threads(), N, halves, formats[f].dtype, reals);
      kernels->convert_to(all_threads(), N, reals, formats[f].dtype, back);
      for (int i = 0; i < N; i++) {
        double got = real_at(kernels, reals, i), expected = meaning(halves[i], formats[f].exponent_bits);
        if (isnan(expected)) {
          assert_true(isnan(got));
          assert_true(!!signbit(got) == (i >> 15));
          int quiet = formats[f].dtype == CH_F16 ? 0x200 : 0x40;
          assert_int_equal(back[i], i | quiet);
        } else {
          assert_true(got == expected && !!signbit(got) == (i >> 15));
          assert_int_equal(back[i], i);
        }
      }
    }
  }
  free(halves), free(back), free(reals);
}

/* Rounds to the nearest value of the format, ties to the even pattern, by search. */
static uint16_t nearest(double value, int exponent_bits) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  value = fabs(value);
  uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << (15 - exponent_bits));
  uint16_t low = 0, high = infinity;
  while (high - low > 1) { /* finds the last pattern whose value is at most `value` */
    uint16_t middle = (uint16_t)((low + high) / 2);
    if (meaning(middle, exponent_bits) <= value)
      low = middle;
    else
      high = middle;
  }
  double below = meaning(low, exponent_bits), above = meaning((uint16_t)(low + 1), exponent_bits);
  /* after the largest finite value, the next value if exponents were not limited */
  if (low + 1 == infinity) above = below + (below - meaning((uint16_t)(low - 1), exponent_bits));
  if (isinf(value)) return infinity | sign;
  bool up = value - below > above - value || (value - below == above - value && (low & 1));
  return (uint16_t)((low + up) | sign);
}

static void values_between_are_rounded_to_nearest_even(void **state) {
  (void)state;
  enum { MOST = 40000 };
  double *values = malloc(MOST * sizeof *values);
  uint16_t *got = malloc(MOST * sizeof *got);
  assert_true(values && got);
  ch_random random;
  ch_random_seed(&random, 41, 0);
  for (int f = 0; f < 2; f++) {
    int bits = formats[f].exponent_bits, n = 0;
    uint16_t infinity = (uint16_t)(((1 << bits) - 1) << (15 - bits));
    /* Tests ties and their neighbours, at the smallest, the largest and random patterns. */
    for (int c = 0; c < 3000; c++) {
      uint16_t low = c < 500    ? (uint16_t)c
                     : c < 1000 ? (uint16_t)(infinity - 1 - (c - 500))
                                : (uint16_t)ch_random_below(&random, infinity - 1);
      double a = meaning(low, bits);
      double b = low + 1 == infinity ? 2 * a - meaning((uint16_t)(low - 1), bits)
                                     : meaning((uint16_t)(low + 1), bits);
      double tie = (a + b) / 2;
      const double candidates[] = {tie, nextafterf((float)tie, 0), nextafterf((float)tie, INFINITY),
                                   a + (b - a) * (float)ch_random_uniform(&random)};
      for (int i = 0; i < 4; i++) values[n++] = c & 1 ? -(float)candidates[i] : (float)candidates[i];
    }
    const double special[] = {0,
                              -0.0,
                              1e-45,
                              -1e-45,
                              FLT_MAX,
                              -FLT_MAX,
                              INFINITY,
                              -INFINITY,
                              65504,
                              65519.996,
                              65520,
                              65535.9,
                              65536,
                              1e10,
                              FLT_MIN,
                              FLT_MIN / 2,
                              5.9604644775390625e-8,
                              2.98023223876953125e-8,
                              2.9802325e-8,
                              1e-10};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) values[n++] = (float)special[i];
    assert_true(n <= MOST);
    for (int number = 0; number < TABLE_COUNT; number++) {
      const ch_kernels *kernels = table_number(number);
      if (!kernels) continue;
      void *reals = reals_from(kernels, n, values);
      kernels->convert_to(all_threads(), n, reals, formats[f].dtype, got);
      for (int i = 0; i < n; i++) {
        uint16_t expected = nearest(values[i], bits);
        if (got[i] != expected)
          fail_msg("%s to %s: %.9g became %04x instead of %04x", kernels->name,
                   ch_dtype_name(formats[f].dtype), values[i], got[i], expected);
      }
      free(reals);
    }
  }
  free(values), free(got);
}

static void doubles_are_rounded_once_and_not_by_way_of_floats(void **state) {
  (void)state;
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  ch_random random;
  ch_random_seed(&random, 42, 0);
  for (int f = 0; f < 2; f++)
    for (int c = 0; c < 20000; c++) {
      int bits = formats[f].exponent_bits;
      uint16_t infinity = (uint16_t)(((1 << bits) - 1) << (15 - bits));
      uint16_t low = (uint16_t)ch_random_below(&random, (uint64_t)infinity - 1), got;
      double tie = (meaning(low, bits) + meaning((uint16_t)(low + 1), bits)) / 2;
      /* The value is so near a tie that F32 rounds it to the tie. */
      double value = c & 1 ? nextafter(tie, 0) : nextafter(tie, INFINITY);
      kernels->convert_to(all_threads(), 1, &value, formats[f].dtype, &got);
      assert_int_equal(got, nearest(value, bits));
    }
  const double large[] = {1e39, -1e300, 1e-60, -1e-60, DBL_MAX};
  for (int f = 0; f < 2; f++)
    for (int i = 0; i < 5; i++) {
      uint16_t got;
      kernels->convert_to(all_threads(), 1, &large[i], formats[f].dtype, &got);
      assert_int_equal(got, nearest(large[i], formats[f].exponent_bits));
    }
}

static void floats_and_doubles_convert_as_c_does(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 43, 0);
  enum { N = 20003 };
  double *doubles = random_values(&random, N, 1), *doubles_back = zeros(N);
  float *floats = malloc(N * sizeof *floats), *floats_back = malloc(N * sizeof *floats);
  assert_true(floats && floats_back);
  for (int i = 0; i < N; i++) doubles[i] *= 1 + 1e-9 * i; /* no longer exact in F32 */
  doubles[0] = INFINITY, doubles[1] = -0.0, doubles[2] = 1e300, doubles[3] = 1e-300;
  for (int i = 0; i < N; i++) floats[i] = (float)doubles[i];
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    void *reals = malloc(N * sizeof(double));
    assert_non_null(reals);
    kernels->convert_from(all_threads(), N, doubles, CH_F64, reals);
    kernels->convert_to(all_threads(), N, reals, CH_F32, floats_back);
    assert_memory_equal(floats, floats_back, N * sizeof *floats);
    kernels->convert_to(all_threads(), N, reals, CH_F64, doubles_back);
    for (int i = 0; i < N; i++)
      assert_true(doubles_back[i] == (kernels->dtype == CH_F64 ? doubles[i] : (double)floats[i]));
    kernels->convert_from(all_threads(), N, floats, CH_F32, reals);
    for (int i = 0; i < N; i++) assert_true(real_at(kernels, reals, i) == (double)floats[i]);
    free(reals);
  }
  free(doubles), free(doubles_back), free(floats), free(floats_back);
}

/* Returns the index of element (k, n) of a factor of `factor_rows` rows in blocks of 32 x 64, in which pairs of rows
   are interleaved. */
static int64_t packed_place(int64_t factor_rows, int64_t k, int64_t n) {
  int64_t blocks = (factor_rows + 31) / 32;
  return ((n / 64 * blocks + k / 32) * 16 + k % 32 / 2) * 128 + n % 64 * 2 + k % 2;
}

static int64_t packed_size(int64_t k, int64_t n) {
  return (k + 31) / 32 * 32 * ((n + 63) / 64 * 64);
}

/* Checks W [rows, columns] packed as a factor, and packed as the factor W^T. Elements after the ends are zero. */
static void check_packed(const ch_kernels *kernels, const uint16_t *rounded, int64_t rows, int64_t columns,
                         int64_t ld, const uint16_t *factor, const uint16_t *transposed) {
  for (int64_t r = 0; r < (rows + 63) / 64 * 64; r++)
    for (int64_t c = 0; c < (columns + 63) / 64 * 64; c++) {
      uint16_t expected = r < rows && c < columns ? rounded[r * ld + c] : 0;
      bool in_factor = r < (rows + 31) / 32 * 32, in_transposed = c < (columns + 31) / 32 * 32;
      if ((in_factor && factor[packed_place(rows, r, c)] != expected) ||
          (in_transposed && transposed[packed_place(columns, c, r)] != expected))
        fail_msg("%s: [%lld, %lld] of [%lld, %lld]", kernels->name, (long long)r, (long long)c,
                 (long long)rows, (long long)columns);
    }
}

static void packed_factors_hold_every_element_in_its_place(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{1, 1},   {2, 33},  {16, 32},  {17, 31},
                                     {33, 65}, {64, 64}, {130, 97}, {200, 256}};
  ch_random random;
  ch_random_seed(&random, 7, 0);
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      int64_t rows = sizes[i][0], columns = sizes[i][1], ld = columns + (int64_t)(i % 3), count = rows * ld;
      size_t bytes =
          (size_t)(packed_size(rows, columns) > packed_size(columns, rows) ? packed_size(rows, columns)
                                                                           : packed_size(columns, rows)) *
          sizeof(uint16_t);
      double *values = random_values(&random, count, 1);
      void *w = reals_from(kernels, count, values);
      uint16_t *rounded = malloc((size_t)count * sizeof *rounded);
      uint16_t *factor = aligned_alloc(64, bytes), *transposed = aligned_alloc(64, bytes);
      assert_true(rounded && factor && transposed);
      kernels->convert_to(all_threads(), count, w, CH_BF16, rounded);
      for (int from_halves = 0; from_halves < 2; from_halves++) {
        const void *from = from_halves ? (const void *)rounded : w;
        ch_dtype dtype = from_halves ? CH_BF16 : kernels->dtype;
        memset(factor, 0xa5, bytes), memset(transposed, 0xa5, bytes);
        kernels->pack_bf16(all_threads(), rows, columns, from, dtype, ld, factor, transposed);
        check_packed(kernels, rounded, rows, columns, ld, factor, transposed);
        memset(factor, 0xa5, bytes), memset(transposed, 0xa5, bytes);
        kernels->pack_bf16(all_threads(), rows, columns, from, dtype, ld, factor, NULL);
        kernels->pack_bf16(all_threads(), rows, columns, from, dtype, ld, NULL, transposed);
        check_packed(kernels, rounded, rows, columns, ld, factor, transposed);
      }
      free(values), free(w), free(rounded), free(factor), free(transposed);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_16_bit_value_is_widened_exactly_and_comes_back),
      cmocka_unit_test(values_between_are_rounded_to_nearest_even),
      cmocka_unit_test(doubles_are_rounded_once_and_not_by_way_of_floats),
      cmocka_unit_test(floats_and_doubles_convert_as_c_does),
      cmocka_unit_test(packed_factors_hold_every_element_in_its_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
