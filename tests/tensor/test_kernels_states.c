/* Tests states quantised in blocks of 32: values of 8 bits are the nearest to the given ones, values of 4 bits are
 * at least as close as with a plain scale, and unpacking returns the stored values. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

enum { BLOCK_VALUES = 32 };

static double half_value(const unsigned char *p) {
  int bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return exponent ? sign * ldexp(1024 + fraction, exponent - 25) : sign * ldexp(fraction, -24);
}

/* Decodes a block by ggml's definition. Returns its scale. */
static double decode(ch_dtype dtype, const unsigned char *block, double y[BLOCK_VALUES]) {
  double scale = half_value(block);
  for (int i = 0; i < BLOCK_VALUES; i++) {
    int q = dtype == CH_Q8_0 ? (int8_t)block[2 + i]
            : i < 16         ? (block[2 + i] & 15) - 8
                             : (block[2 + i - 16] >> 4) - 8;
    y[i] = scale * q;
  }
  return scale;
}

static const ch_dtype types[] = {CH_Q8_0, CH_Q4_0};

/* Fills rows with values of magnitudes from tiny to large. One row is all zeros. */
static void fill(double *x, int64_t rows, int64_t n) {
  ch_random random;
  ch_random_seed(&random, 3, 0);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++)
      x[r * n + i] = r == 2 ? 0 : (double)(float)(ch_random_normal(&random) * pow(10, (double)(r % 9) - 5));
}

/* Returns the sum of squared errors of a 4-bit block whose value of largest magnitude is stored as -8. */
static double plain_error(const double *x) {
  double extreme = 0, sum = 0;
  for (int i = 0; i < BLOCK_VALUES; i++)
    if (fabs(x[i]) > fabs(extreme)) extreme = x[i];
  double scale = extreme / -8;
  for (int i = 0; i < BLOCK_VALUES && scale != 0; i++) {
    double q = fmin(7, fmax(-8, rint(x[i] / scale)));
    sum += (x[i] - scale * q) * (x[i] - scale * q);
  }
  return sum;
}

static void check_block(const ch_kernels *kernels, ch_dtype dtype, const double *x,
                        const unsigned char *block) {
  double y[BLOCK_VALUES], scale = decode(dtype, block, y), largest = 0, error = 0, rounded = 0;
  for (int i = 0; i < BLOCK_VALUES; i++) {
    largest = fmax(largest, fabs(x[i]));
    error += (x[i] - y[i]) * (x[i] - y[i]);
    rounded += pow(ldexp(fabs(x[i]), -10) + ldexp(8, -25), 2); /* error of the scale in F16 */
  }
  if (dtype == CH_Q4_0) {
    if (!(sqrt(error) <= sqrt(plain_error(x)) + sqrt(rounded)))
      fail_msg("%s: 4 bits lose %g where a plain scale loses %g", kernels->name, error, plain_error(x));
    return;
  }
  if (!(fabs(scale - largest / 127) <= ldexp(largest / 127, -10) + ldexp(1, -25)))
    fail_msg("%s: the scale is %g for a largest value of %g", kernels->name, scale, largest);
  for (int i = 0; i < BLOCK_VALUES; i++)
    if (!(fabs(x[i] - y[i]) <= 0.5001 * scale + ldexp(64, -24)))
      fail_msg("%s: %g became %g in steps of %g", kernels->name, x[i], y[i], scale);
}

static void rows_of_any_width_come_back_within_half_a_step(void **state) {
  (void)state;
  enum { ROWS = 40, MOST = 200 };
  static const int64_t widths[] = {1, 5, 16, 31, 32, 33, 64, 80, 96, 129, 200};
  double *x = malloc(sizeof(double) * ROWS * MOST), padded[MOST + BLOCK_VALUES];
  void *given = malloc(sizeof(double) * ROWS * MOST),
       *read = malloc(sizeof(double) * ROWS * (MOST + BLOCK_VALUES));
  unsigned char *blocks = malloc((size_t)ROWS * (MOST + BLOCK_VALUES) * 2);
  assert_true(x && given && read && blocks);
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    for (size_t w = 0; kernels && w < 2 * sizeof widths / sizeof *widths; w++) {
      int64_t n = widths[w / 2], whole = (n + BLOCK_VALUES - 1) / BLOCK_VALUES * BLOCK_VALUES;
      ch_dtype dtype = types[w % 2];
      int64_t row = (int64_t)ch_dtype_bytes(dtype, whole),
              block = (int64_t)ch_dtype_bytes(dtype, BLOCK_VALUES);
      fill(x, ROWS, n);
      for (int64_t i = 0; i < ROWS * n; i++) {
        if (kernels->dtype == CH_F64)
          ((double *)given)[i] = x[i];
        else
          ((float *)given)[i] = (float)x[i];
      }
      kernels->pack_states(all_threads(), ROWS, n, given, dtype, blocks);
      kernels->unpack_states(ROWS, whole, blocks, row, dtype, read);
      for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t i = 0; i < whole; i++) padded[i] = i < n ? x[r * n + i] : 0;
        for (int64_t k = 0; k < whole; k += BLOCK_VALUES) {
          const unsigned char *at = blocks + r * row + k / BLOCK_VALUES * block;
          double y[BLOCK_VALUES];
          check_block(kernels, dtype, padded + k, at);
          decode(dtype, at, y);
          for (int i = 0; i < BLOCK_VALUES; i++) {
            double got = real_at(kernels, read, r * whole + k + i);
            if (!(fabs(got - y[i]) <= 1e-6 * fabs(y[i])))
              fail_msg("%s: element %lld reads %g and is %g", kernels->name, (long long)(k + i), got, y[i]);
            if (k + i >= n) assert_true(got == 0);
          }
        }
      }
      /* Unpacks every second row, from its second block on. */
      if (whole < 2 * BLOCK_VALUES) continue;
      int64_t left = whole - BLOCK_VALUES;
      void *again = calloc((size_t)(ROWS / 2 * left), sizeof(double));
      assert_non_null(again);
      kernels->unpack_states(ROWS / 2, left, blocks + block, 2 * row, dtype, again);
      for (int64_t r = 0; r < ROWS / 2; r++)
        for (int64_t i = 0; i < left; i++)
          assert_true(real_at(kernels, again, r * left + i) ==
                      real_at(kernels, read, 2 * r * whole + BLOCK_VALUES + i));
      free(again);
    }
  }
  free(x), free(given), free(read), free(blocks);
}

static void what_is_not_finite_stays_visible(void **state) {
  (void)state;
  static const float wrong[] = {NAN, INFINITY, -INFINITY};
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    for (int i = 0; kernels && i < 6; i++) {
      double x[64], y[64];
      unsigned char blocks[128];
      for (int k = 0; k < 64; k++) {
        float value = k == 5 + i ? wrong[i / 2] : (float)k;
        if (kernels->dtype == CH_F64)
          ((double *)x)[k] = (double)value;
        else
          memcpy((char *)x + (size_t)k * sizeof value, &value, sizeof value);
      }
      kernels->pack_states(all_threads(), 1, 64, x, types[i % 2], blocks);
      kernels->unpack_states(1, 64, blocks, 0, types[i % 2], y);
      assert_true(isnan(real_at(kernels, y, 5 + i)));
      assert_true(isfinite(real_at(kernels, y, 40))); /* a value of the other block */
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_of_any_width_come_back_within_half_a_step),
      cmocka_unit_test(what_is_not_finite_stays_visible),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
