/* Tests block-quantised weights on every table: their values, and products with them. */
#include "tensor/kernel_testing.h"

#include "tensor/encode_blocks.h"
#include "tensor/quantised.h"
#include "team_testing.h"

enum { GROUP = 32, SUPER = 256, MOST_IN = 1024, MOST_OUT = 5, MOST_ROWS = 9 };

static const ch_dtype types[] = {CH_Q8_0, CH_Q4_0, CH_Q4_K, CH_Q6_K};

/* --- the formats by definition ------------------------------------------------------------------------------ */

static double half(const unsigned char *p) {
  unsigned bits = p[0] | (unsigned)p[1] << 8;
  return ldexp((bits & 1023) + 1024.0, (int)(bits >> 10 & 31) - 25) * (bits >> 15 ? -1 : 1);
}

static int scale_of_q4_k(const unsigned char *p, int g, bool minimum) {
  if (g < 4) return p[g + (minimum ? 4 : 0)] & 63;
  int low = minimum ? p[g + 4] >> 4 : p[g + 4] & 15;
  return low | (p[g - (minimum ? 0 : 4)] >> 6) << 4;
}

static double value_of(ch_dtype dtype, const unsigned char *row, int64_t i) {
  int at = (int)(i % ch_dtype_block(dtype));
  const unsigned char *b = row + ch_dtype_bytes(dtype, i - at);
  if (dtype == CH_Q8_0) return half(b) * (signed char)b[2 + at];
  if (dtype == CH_Q4_0) return half(b) * ((at < 16 ? b[2 + at] & 15 : b[2 + at - 16] >> 4) - 8);
  if (dtype == CH_Q4_K) {
    int g = at / 32, q = b[16 + g / 2 * 32 + at % 32] >> (g % 2 * 4) & 15;
    return half(b) * scale_of_q4_k(b + 4, g, false) * q - half(b + 2) * scale_of_q4_k(b + 4, g, true);
  }
  int h = at / 128, l = at % 128;
  int low = b[64 * h + l % 64] >> (l / 64 * 4) & 15, high = b[128 + 32 * h + l % 32] >> (l / 32 * 2) & 3;
  return half(b + 208) * (signed char)b[192 + at / 16] * ((low | high << 4) - 32);
}

/* Returns a matrix of random blocks with scales of usual size. Its memory ends with the last block. */
static unsigned char *random_blocks(ch_random *random, ch_dtype dtype, int64_t count) {
  size_t bytes = ch_dtype_bytes(dtype, count), block = ch_dtype_bytes(dtype, ch_dtype_block(dtype));
  unsigned char *data = malloc(bytes);
  assert_non_null(data);
  for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)ch_random_below(random, 256);
  for (size_t b = 0; b < bytes; b += block) {
    size_t scale = b + (dtype == CH_Q6_K ? 208 : 0);
    data[scale + 1] = (unsigned char)(0x20 | (data[scale + 1] & 0x83)); /* an exponent around 2^-6 */
    if (dtype == CH_Q4_K) data[scale + 3] = (unsigned char)(0x20 | (data[scale + 3] & 0x83));
  }
  return data;
}

/* --- tests -------------------------------------------------------------------------------------------------- */

static void blocks_become_the_values_they_stand_for(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 5, 0);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (int table = 0; table < TABLE_COUNT; table++) {
      const ch_kernels *kernels = table_number(table);
      if (!kernels) continue;
      int64_t count = 3 * SUPER;
      unsigned char *blocks = random_blocks(&random, types[t], count);
      void *values = reals_from(kernels, count, NULL);
      kernels->convert_from(all_threads(), count, blocks, types[t], values);
      for (int64_t i = 0; i < count; i++)
        if (fabs(real_at(kernels, values, i) - value_of(types[t], blocks, i)) >
            1e-7 * fabs(value_of(types[t], blocks, i)))
          fail_msg("%s, %s: value %lld", kernels->name, ch_dtype_name(types[t]), (long long)i);
      int32_t ids[] = {2, 0};
      void *rows = reals_from(kernels, 2 * SUPER, NULL);
      kernels->embedding_forward(all_threads(), 2, SUPER, ids, blocks, types[t], rows);
      for (int64_t i = 0; i < SUPER; i++) {
        assert_true(real_at(kernels, rows, i) == real_at(kernels, values, 2 * SUPER + i));
        assert_true(real_at(kernels, rows, SUPER + i) == real_at(kernels, values, i));
      }
      free(blocks), free(values), free(rows);
    }
}

/* Returns values that are exact as 8-bit integers with one scale for each 32. The largest of each 32 is 127 times its
   scale. */
static double *exact_rows(ch_random *random, int64_t rows, int64_t in) {
  double *x = zeros(rows * in);
  for (int64_t i = 0; i < rows * in; i += GROUP) {
    double scale = ldexp(1, (int)ch_random_below(random, 5) - 3);
    for (int j = 0; j < GROUP; j++) x[i + j] = scale * ((double)ch_random_below(random, 255) - 127);
    x[i + (int64_t)ch_random_below(random, GROUP)] = 127 * scale;
  }
  return x;
}

typedef struct product {
  int64_t rows, in, out;
  ch_dtype dtype;
  bool accumulate, with_bias;
} product;

static void run_product(const ch_kernels *kernels, const product *p, const double *x, const unsigned char *w,
                        const double *bias, const double *expected, const double *bound) {
  void *reals = reals_from(kernels, p->rows * p->in, x), *added = reals_from(kernels, p->out, bias);
  void *y = reals_from(kernels, p->rows * p->out, p->accumulate ? expected : NULL);
  void *quantised = aligned_alloc(64, (size_t)p->rows * ch_quantised_bytes(p->in));
  assert_non_null(quantised);
  kernels->quantise_rows(all_threads(), p->rows, p->in, reals, p->dtype, quantised);
  const ch_product one = {p->out, w, p->with_bias ? added : NULL, y};
  kernels->gemv_blocks(all_threads(), p->rows, p->in, quantised, p->dtype, 1, &one, p->accumulate);
  for (int64_t i = 0; i < p->rows * p->out; i++) {
    double wanted = (p->accumulate ? 2 : 1) * expected[i];
    if (!(fabs(real_at(kernels, y, i) - wanted) <= bound[i]))
      fail_msg("%s, %s: %lld rows, %lld x %lld, value %lld is %.9g, not %.9g", kernels->name,
               ch_dtype_name(p->dtype), (long long)p->rows, (long long)p->out, (long long)p->in, (long long)i,
               real_at(kernels, y, i), wanted);
  }
  free(reals), free(added), free(y), free(quantised);
}

static void check_product(ch_random *random, const product *p) {
  unsigned char *w = random_blocks(random, p->dtype, p->in * p->out);
  double *x = exact_rows(random, p->rows, p->in), *bias = random_values(random, p->out, 1);
  double *expected = zeros(p->rows * p->out), *bound = zeros(p->rows * p->out);
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t o = 0; o < p->out; o++) {
      double sum = p->with_bias ? bias[o] : 0, magnitude = fabs(sum);
      for (int64_t i = 0; i < p->in; i++) {
        double term = x[r * p->in + i] * value_of(p->dtype, w + ch_dtype_bytes(p->dtype, o * p->in), i);
        sum += term;
        magnitude += fabs(term);
      }
      expected[r * p->out + o] = sum;
      bound[r * p->out + o] = 16 * FLT_EPSILON * magnitude;
    }
  for (int table = 0; table < TABLE_COUNT; table++)
    if (table_number(table)) run_product(table_number(table), p, x, w, bias, expected, bound);
  free(w), free(x), free(bias), free(expected), free(bound);
}

static void products_with_blocks_are_those_of_their_values(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 6, 0);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (int64_t in = ch_dtype_block(types[t]); in <= MOST_IN; in += ch_dtype_block(types[t]))
      for (int64_t out = 1; out <= MOST_OUT; out += 2) {
        int64_t rows = 1 + (in / 32 + out) % MOST_ROWS;
        check_product(&random, &(product){rows, in, out, types[t], in % 3 == 0, in % 5 == 0});
        check_product(&random, &(product){1, in, out, types[t], false, false});
      }
}

/* Tests matrices large enough for all threads, for several passes over a block of rows, and for sums in several
   parts. */
static void large_products_are_right_too(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 7, 0);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    int64_t odd = 1024 + ch_dtype_block(types[t]);
    check_product(&random, &(product){7, 1024, 701, types[t], false, true});
    check_product(&random, &(product){1, 1024, 701, types[t], false, true});
    check_product(&random, &(product){2, 1024, 702, types[t], true, false});
    check_product(&random, &(product){3, odd, 35, types[t], true, true});
    check_product(&random, &(product){21, 2048 + odd, 33, types[t], false, true});
    check_product(&random, &(product){67, odd, 48, types[t], true, false});
  }
}

/* Compares the last row, or the last three, with those of a product of these rows alone, bit for bit. With VNNI,
   products of three rows or more use panels. */
static void a_row_of_a_product_with_blocks_does_not_depend_on_the_rows_beside_it(void **state) {
  (void)state;
  enum { ROWS = 33, IN = 1024, OUT = 53 };
  ch_random random;
  ch_random_seed(&random, 9, 0);
  double *x = random_values(&random, ROWS * IN, 1);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    unsigned char *w = random_blocks(&random, types[t], IN * OUT);
    for (int table = 0; table < TABLE_COUNT; table++) {
      const ch_kernels *kernels = table_number(table);
      if (!kernels) continue;
      const size_t real = ch_dtype_size(kernels->dtype), row = OUT * real;
      char *xs = reals_from(kernels, ROWS * IN, x), *together = reals_from(kernels, ROWS * OUT, NULL),
           *few = reals_from(kernels, 3 * OUT, NULL);
      void *quantised = aligned_alloc(64, (size_t)ROWS * ch_quantised_bytes(IN));
      assert_non_null(quantised);
      for (int64_t rows = 1; rows <= ROWS; rows += rows < 18 ? 1 : 5) {
        const int64_t least = rows < 3 ? 1 : 3;
        char *last = xs + (size_t)(rows - least) * IN * real;
        kernels->quantise_rows(all_threads(), rows, IN, xs, types[t], quantised);
        kernels->gemv_blocks(all_threads(), rows, IN, quantised, types[t], 1,
                             &(ch_product){OUT, w, NULL, together}, false);
        kernels->quantise_rows(all_threads(), least, IN, last, types[t], quantised);
        kernels->gemv_blocks(all_threads(), least, IN, quantised, types[t], 1,
                             &(ch_product){OUT, w, NULL, few}, false);
        if (memcmp(few, together + (size_t)(rows - least) * row, (size_t)least * row))
          fail_msg("%s, %s: the last of %d rows are not what they are by themselves", kernels->name,
                   ch_dtype_name(types[t]), (int)rows);
      }
      free(xs), free(together), free(few), free(quantised);
    }
    free(w);
  }
  free(x);
}

/* Compares products in one call with products in calls of their own, bit for bit. */
static void products_with_blocks_do_not_depend_on_those_beside_them(void **state) {
  (void)state;
  enum { ROWS = 9, IN = 512, OUT = 70, COUNT = 3 };
  static const int64_t first[COUNT] = {33, 0, 37}, outs[COUNT] = {4, 33, 33};
  ch_random random;
  ch_random_seed(&random, 6, 0);
  double *x = random_values(&random, ROWS * IN, 1), *b = random_values(&random, OUT, 1);
  for (int t = 0; t < 4; t++) {
    unsigned char *w = random_blocks(&random, types[t], IN * OUT);
    for (int table = 0; table < TABLE_COUNT; table++) {
      const ch_kernels *kernels = table_number(table);
      if (!kernels) continue;
      const size_t real = ch_dtype_size(kernels->dtype);
      char *xs = reals_from(kernels, ROWS * IN, x), *bias = reals_from(kernels, OUT, b),
           *together = reals_from(kernels, ROWS * OUT, NULL), *alone = reals_from(kernels, ROWS * OUT, NULL);
      void *quantised = aligned_alloc(64, (size_t)ROWS * ch_quantised_bytes(IN));
      assert_non_null(quantised);
      for (int64_t rows = 1; rows <= ROWS; rows++) {
        ch_product products[COUNT];
        for (int p = 0; p < COUNT; p++)
          products[p] = (ch_product){outs[p], w + ch_dtype_bytes(types[t], first[p] * IN),
                                     p % 2 ? bias + (size_t)first[p] * real : NULL,
                                     together + (size_t)(first[p] * rows) * real};
        kernels->quantise_rows(all_threads(), rows, IN, xs, types[t], quantised);
        kernels->gemv_blocks(all_threads(), rows, IN, quantised, types[t], COUNT, products, false);
        for (int p = 0; p < COUNT; p++) {
          const void *of_all = products[p].y;
          products[p].y = alone;
          kernels->gemv_blocks(all_threads(), rows, IN, quantised, types[t], 1, &products[p], false);
          assert_memory_equal(alone, of_all, (size_t)(rows * outs[p]) * real);
        }
      }
      free(xs), free(bias), free(together), free(alone), free(quantised);
    }
    free(w);
  }
  free(x), free(b);
}

static void rows_are_rounded_to_their_groups_largest(void **state) {
  (void)state;
  enum { ROWS = 2, N = 160 };
  ch_random random;
  ch_random_seed(&random, 8, 0);
  double *x = random_values(&random, ROWS * N, 3);
  float plain[N];
  unsigned char w[2][N * (N / GROUP) * 34];
  for (int i = 0; i < GROUP; i++) x[GROUP + i] = 0;
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) plain[j] = i == j ? -8 : 0; /* exact in Q4_0 */
    ch_encode_blocks(CH_Q8_0, plain, N, w[0] + ch_dtype_bytes(CH_Q8_0, i * N));
    ch_encode_blocks(CH_Q4_0, plain, N, w[1] + ch_dtype_bytes(CH_Q4_0, i * N));
  }
  for (int table = 0; table < TABLE_COUNT; table++)
    for (int t = 0; t < 2; t++) {
      const ch_kernels *kernels = table_number(table);
      if (!kernels) continue;
      ch_dtype dtype = t ? CH_Q4_0 : CH_Q8_0;
      void *reals = reals_from(kernels, ROWS * N, x), *y = reals_from(kernels, ROWS * N, NULL);
      void *quantised = aligned_alloc(64, ROWS * ch_quantised_bytes(N));
      kernels->quantise_rows(all_threads(), ROWS, N, reals, dtype, quantised);
      kernels->gemv_blocks(all_threads(), ROWS, N, quantised, dtype, 1, &(ch_product){N, w[t], NULL, y},
                           false);
      for (int i = 0; i < ROWS * N; i++) {
        double most = 0;
        for (int j = 0; j < GROUP; j++) most = fmax(most, fabs(x[i / GROUP * GROUP + j]));
        if (!(fabs(real_at(kernels, y, i) / -8 - x[i]) <= most * (1 / 253.0 + 1e-3)))
          fail_msg("%s, %s: %g is %g", kernels->name, ch_dtype_name(dtype), x[i],
                   real_at(kernels, y, i) / -8);
      }
      free(reals), free(y), free(quantised);
    }
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_become_the_values_they_stand_for),
      cmocka_unit_test(products_with_blocks_are_those_of_their_values),
      cmocka_unit_test(large_products_are_right_too),
      cmocka_unit_test(a_row_of_a_product_with_blocks_does_not_depend_on_the_rows_beside_it),
      cmocka_unit_test(products_with_blocks_do_not_depend_on_those_beside_them),
      cmocka_unit_test(rows_are_rounded_to_their_groups_largest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
