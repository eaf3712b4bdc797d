/* Tests matrix products and linear layers against sums in double. */
#include "tensor/kernel_testing.h"

#include "tensor/encode_blocks.h"
#include "tensor/gemm.h"
#include "tensor/watch.h"
#include "team_testing.h"

typedef struct product {
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  int64_t extra; /* elements between two rows */
  bool rounded;  /* true if factors are BF16, and the second one is packed */
} product;

/* F64, F32 in plain C, and F32 with the best instructions of this processor. */
enum { TABLES = 3, BEST = 2 };
static const ch_kernels *tables[TABLES];

static int choose_tables(void **state) {
  (void)state;
  tables[0] = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  tables[1] = ch_kernels_for(CH_F32, CH_ISA_PLAIN);
  for (int isa = 0; isa < CH_ISA_COUNT; isa++)
    if (ch_kernels_for(CH_F32, (ch_isa)isa)) tables[BEST] = ch_kernels_for(CH_F32, (ch_isa)isa);
  return tables[0] && tables[1] && tables[BEST] ? 0 : -1;
}

/* Rounds values to BF16. */
static void round_values(int64_t n, double *values) {
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  uint16_t *narrow = malloc((size_t)n * sizeof *narrow + 1);
  assert_non_null(narrow);
  kernels->convert_to(all_threads(), n, values, CH_BF16, narrow);
  kernels->convert_from(all_threads(), n, narrow, CH_BF16, values);
  free(narrow);
}

/* Returns a factor in BF16 if `rounded`, or else in the table's type. */
static void *factor_from(const ch_kernels *kernels, int64_t n, const double *values, bool rounded) {
  void *reals = reals_from(kernels, n, values);
  if (!rounded) return reals;
  void *narrow = malloc((size_t)n * sizeof(uint16_t) + 1);
  assert_non_null(narrow);
  kernels->convert_to(all_threads(), n, reals, CH_BF16, narrow);
  free(reals);
  return narrow;
}

/* Computes C from A in BF16 and B, which is packed first. */
static void run_packed(ch_gemm *gemm, const ch_kernels *kernels, const product *p, const void *a, int64_t lda,
                       const double *b, int64_t b_size, int64_t ldb, void *c, int64_t ldc) {
  void *b_real = reals_from(kernels, b_size, b);
  /* The packed matrix [rows, columns] is B or its transpose. */
  int64_t rows = p->transpose_b ? p->n : p->k, columns = p->transpose_b ? p->k : p->n;
  size_t count = (size_t)ch_gemm_packed_count(p->k, p->n);
  uint16_t *packed = aligned_alloc(64, (count * sizeof *packed + 64) / 64 * 64);
  ch_error error;
  assert_non_null(packed);
  assert_int_equal(ch_gemm_pack(gemm, rows, columns, b_real, kernels->dtype, ldb,
                                p->transpose_b ? NULL : packed, p->transpose_b ? packed : NULL, &error),
                   CH_OK);
  assert_int_equal(ch_gemm_run_packed(gemm, p->transpose_a, p->m, p->n, p->k, a, lda, packed, c, ldc,
                                      p->accumulate, &error),
                   CH_OK);
  free(b_real);
  free(packed);
}

static void check_product(ch_gemm *gemm, const ch_kernels *kernels, ch_random *random, product p) {
  int64_t lda = (p.transpose_a ? p.m : p.k) + p.extra, ldb = (p.transpose_b ? p.k : p.n) + p.extra;
  int64_t ldc = p.n + p.extra;
  int64_t a_size = (p.transpose_a ? p.k : p.m) * lda, b_size = (p.transpose_b ? p.n : p.k) * ldb;
  int64_t c_size = p.m * ldc;
  double *a = random_values(random, a_size, 1), *b = random_values(random, b_size, 1);
  double *c0 = random_values(random, c_size, 1);
  if (p.rounded) round_values(a_size, a), round_values(b_size, b);
  void *a_real = factor_from(kernels, a_size, a, p.rounded);
  void *b_real = factor_from(kernels, b_size, b, p.rounded);
  void *c_real[2];
  ch_error error;
  for (int run = 0; run < 2; run++) {
    c_real[run] = reals_from(kernels, c_size, c0);
    if (p.rounded)
      run_packed(gemm, kernels, &p, a_real, lda, b, b_size, ldb, c_real[run], ldc);
    else
      assert_int_equal(ch_gemm_run(gemm, p.transpose_a, p.transpose_b, p.m, p.n, p.k, a_real, lda, b_real,
                                   ldb, c_real[run], ldc, p.accumulate, &error),
                       CH_OK);
  }
  assert_memory_equal(c_real[0], c_real[1], (size_t)c_size * ch_dtype_size(kernels->dtype));
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < ldc; j++) {
      double got = real_at(kernels, c_real[0], i * ldc + j), sum = c0[i * ldc + j], magnitude = 0;
      if (j < p.n) {
        if (!p.accumulate) sum = 0;
        magnitude = fabs(sum);
        for (int64_t q = 0; q < p.k; q++) {
          double term =
              a[p.transpose_a ? q * lda + i : i * lda + q] * b[p.transpose_b ? j * ldb + q : q * ldb + j];
          sum += term;
          magnitude += fabs(term);
        }
      }
      double allowed = table_eps(kernels) * (double)(p.k + 2) * magnitude; /* between rows: 0 */
      if (!(fabs(got - sum) <= allowed))
        fail_msg("%s m %lld n %lld k %lld transposes %d %d accumulate %d: [%lld, %lld] is %.9g "
                 "instead of %.9g",
                 kernels->name, (long long)p.m, (long long)p.n, (long long)p.k, p.transpose_a, p.transpose_b,
                 p.accumulate, (long long)i, (long long)j, got, sum);
    }
  free(a), free(b), free(c0), free(a_real), free(b_real), free(c_real[0]), free(c_real[1]);
}

static void products_of_all_shapes_transposes_and_strides_are_right(void **state) {
  (void)state;
  static const int64_t odd[] = {1, 2, 3, 7, 17, 33, 63, 64, 65, 130};
  ch_error error;
  for (int t = 0; t < TABLES; t++) {
    ch_random random;
    ch_random_seed(&random, 71, 0);
    ch_gemm *gemm;
    assert_int_equal(ch_gemm_create(tables[t], all_threads(), &gemm, &error), CH_OK);
    for (int c = 0; c < 240; c++) /* more shapes than the cache of primitives holds */
      check_product(gemm, tables[t], &random,
                    (product){odd[ch_random_below(&random, 10)], odd[ch_random_below(&random, 10)],
                              odd[ch_random_below(&random, 10)], c & 1, c & 2, c & 4, c % 3, c & 8});
    /* Tests both sides of the boundaries at which another function computes the product. */
    check_product(gemm, tables[t], &random, (product){513, 65, 40, false, true, true, 0, false});
    check_product(gemm, tables[t], &random, (product){513, 40, 65, false, true, true, 0, false});
    check_product(gemm, tables[t], &random, (product){512, 1024, 9, false, true, false, 0, false});
    check_product(gemm, tables[t], &random, (product){513, 1024, 9, false, true, false, 0, false});
    check_product(gemm, tables[t], &random, (product){513, 1023, 9, false, true, true, 0, false});
    check_product(gemm, tables[t], &random, (product){70, 50, 600, true, false, true, 0, false});
    check_product(gemm, tables[t], &random, (product){50, 70, 600, true, false, true, 0, false});
    ch_gemm_free(gemm);
  }
}

/* Checks the products of a layer whose number of rows changes from call to call. */
static void check_some(ch_gemm *gemm, const ch_kernels *kernels, ch_random *random, int64_t rows, int64_t in,
                       int64_t out, bool accumulate) {
  double *x = random_values(random, rows * in, 1), *w = random_values(random, in * out, 1);
  double *dy = random_values(random, rows * out, 1);
  void *x_real = reals_from(kernels, rows * in, x), *w_real = reals_from(kernels, in * out, w);
  void *dy_real = reals_from(kernels, rows * out, dy), *y_real = reals_from(kernels, rows * out, NULL);
  void *dw_real = reals_from(kernels, in * out, accumulate ? w : NULL);
  uint16_t *narrow = malloc((size_t)(in * out) * sizeof *narrow);
  void *y_narrow = reals_from(kernels, rows * out, NULL);
  ch_error error;
  kernels->convert_to(all_threads(), in * out, w_real, CH_BF16, narrow);
  assert_int_equal(ch_gemm_linear_some(gemm, rows, in, out, x_real, kernels->dtype, w_real, kernels->dtype,
                                       y_real, &error),
                   CH_OK);
  assert_int_equal(
      ch_gemm_linear_some(gemm, rows, in, out, x_real, kernels->dtype, narrow, CH_BF16, y_narrow, &error),
      CH_OK);
  assert_int_equal(ch_gemm_gradient_some(gemm, rows, in, out, dy_real, x_real, dw_real, accumulate, &error),
                   CH_OK);
  for (int64_t i = 0; i < rows * out; i++) {
    double sum = 0, size = 0, far = real_at(kernels, y_narrow, i) - real_at(kernels, y_real, i);
    for (int64_t k = 0; k < in; k++) {
      double term = x[i / out * in + k] * w[i % out * in + k];
      sum += term, size += fabs(term);
    }
    if (!(fabs(real_at(kernels, y_real, i) - sum) <= table_eps(kernels) * (double)(in + 2) * size) ||
        !(fabs(far) <= 0.005 * size))
      fail_msg("%lld rows of [%lld, %lld]: y %lld is wrong", (long long)rows, (long long)out, (long long)in,
               (long long)i);
  }
  for (int64_t i = 0; i < in * out; i++) {
    double sum = accumulate ? w[i] : 0, size = fabs(sum);
    for (int64_t r = 0; r < rows; r++) {
      double term = dy[r * out + i / in] * x[r * in + i % in];
      sum += term, size += fabs(term);
    }
    if (!(fabs(real_at(kernels, dw_real, i) - sum) <= table_eps(kernels) * (double)(rows + 2) * size))
      fail_msg("%lld rows of [%lld, %lld]: dW %lld is wrong", (long long)rows, (long long)out, (long long)in,
               (long long)i);
  }
  free(x), free(w), free(dy), free(narrow), free(y_narrow);
  free(x_real), free(w_real), free(dy_real), free(y_real), free(dw_real);
}

static void a_changing_number_of_rows_goes_through_in_pieces(void **state) {
  (void)state;
  static const int64_t rows[] = {0, 1, 5, 63, 64, 65, 127, 130, 319, 576, 700};
  for (int t = 0; t < TABLES; t++) {
    ch_gemm *gemm;
    ch_error error;
    ch_random random;
    ch_random_seed(&random, 76, 0);
    assert_int_equal(ch_gemm_create(tables[t], all_threads(), &gemm, &error), CH_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      check_some(gemm, tables[t], &random, rows[i], 24, 40, i & 1);
      check_some(gemm, tables[t], &random, rows[i], 40, 24, !(i & 1));
    }
    ch_gemm_free(gemm);
  }
}

static void empty_products_clear_or_keep(void **state) {
  (void)state;
  for (int t = 0; t < TABLES; t++) {
    ch_gemm *gemm;
    ch_error error;
    assert_int_equal(ch_gemm_create(tables[t], all_threads(), &gemm, &error), CH_OK);
    ch_random random;
    ch_random_seed(&random, 72, 0);
    check_product(gemm, tables[t], &random, (product){3, 5, 0, false, true, true, 1, false});
    check_product(gemm, tables[t], &random, (product){3, 5, 0, false, false, false, 1, false});
    check_product(gemm, tables[t], &random, (product){3, 5, 0, false, false, false, 1, true});
    check_product(gemm, tables[t], &random, (product){0, 5, 4, false, false, false, 0, false});
    check_product(gemm, tables[t], &random, (product){5, 0, 4, true, false, false, 0, false});
    ch_gemm_free(gemm);
  }
}

static void the_same_shapes_give_the_same_bits_in_another_object_and_other_order(void **state) {
  (void)state;
  enum { M = 130, N = 190, K = 210 };
  ch_random random;
  ch_random_seed(&random, 73, 0);
  double *a = random_values(&random, M * K, 1), *b = random_values(&random, N * K, 1);
  int usual_threads = omp_get_max_threads();
  for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
    omp_set_num_threads(threads);
    const ch_kernels *kernels = tables[BEST];
    void *a_real = reals_from(kernels, M * K, a), *b_real = reals_from(kernels, N * K, b);
    float *c[2];
    for (int o = 0; o < 2; o++) {
      ch_gemm *gemm;
      ch_error error;
      assert_int_equal(ch_gemm_create(kernels, all_threads(), &gemm, &error), CH_OK);
      c[o] = malloc(M * N * sizeof(float));
      assert_non_null(c[o]);
      if (o == 1) /* another product first */
        assert_int_equal(
            ch_gemm_run(gemm, true, false, K, 7, M, a_real, K, b_real, 7, c[o], 7, false, &error), CH_OK);
      assert_int_equal(ch_gemm_run(gemm, false, true, M, N, K, a_real, K, b_real, K, c[o], N, false, &error),
                       CH_OK);
      ch_gemm_free(gemm);
    }
    assert_memory_equal(c[0], c[1], M * N * sizeof(float));
    free(a_real), free(b_real), free(c[0]), free(c[1]);
  }
  omp_set_num_threads(usual_threads);
  free(a), free(b);
}

static void one_object_serves_changing_numbers_of_threads(void **state) {
  (void)state;
  ch_gemm *gemm;
  ch_error error;
  assert_int_equal(ch_gemm_create(tables[BEST], all_threads(), &gemm, &error), CH_OK);
  ch_random random;
  int usual_threads = omp_get_max_threads();
  for (int round = 0; round < 2; round++)
    for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
      omp_set_num_threads(threads);
      ch_random_seed(&random, 74, 0);
      check_product(gemm, tables[BEST], &random, (product){100, 90, 80, false, true, true, 0, false});
      check_product(gemm, tables[BEST], &random, (product){100, 90, 80, false, false, false, 0, false});
      check_product(gemm, tables[BEST], &random, (product){100, 90, 80, true, false, true, 0, false});
    }
  omp_set_num_threads(usual_threads);
  ch_gemm_free(gemm);
}

/* --- linear layers ------------------------------------------------------------------------------------------ */

static void check_linear(ch_gemm *gemm, const ch_kernels *kernels, ch_random *random, int64_t rows,
                         int64_t in, int64_t out, ch_dtype weight_dtype, bool with_bias, bool accumulate,
                         bool rounded) {
  double *x = random_values(random, rows * in, 1), *w = random_values(random, in * out, 1);
  double *bias = random_values(random, out, 1), *y0 = random_values(random, rows * out, 1);
  /* weights that are exact in 16 bits */
  for (int64_t i = 0; i < in * out; i++) w[i] = round(fmin(fmax(w[i], -2), 2) * 16) / 16;
  if (rounded) round_values(rows * in, x);
  void *x_real = factor_from(kernels, rows * in, x, rounded), *w_real = reals_from(kernels, in * out, w);
  void *bias_real = reals_from(kernels, out, bias),
       *y_real = reals_from(kernels, rows * out, accumulate ? y0 : NULL);
  void *weight = malloc((size_t)(in * out) * sizeof(double) + 1);
  assert_non_null(weight);
  kernels->convert_to(all_threads(), in * out, w_real, weight_dtype, weight);
  ch_error error;
  assert_int_equal(ch_gemm_linear(gemm, rows, in, out, x_real, rounded ? CH_BF16 : kernels->dtype, weight,
                                  weight_dtype, with_bias ? bias_real : NULL, y_real, accumulate, &error),
                   CH_OK);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t o = 0; o < out; o++) {
      double sum = (with_bias ? bias[o] : 0) + (accumulate ? y0[r * out + o] : 0), magnitude = fabs(bias[o]);
      magnitude += fabs(y0[r * out + o]);
      for (int64_t i = 0; i < in; i++) {
        sum += x[r * in + i] * w[o * in + i];
        magnitude += fabs(x[r * in + i] * w[o * in + i]);
      }
      double got = real_at(kernels, y_real, r * out + o);
      if (!(fabs(got - sum) <= table_eps(kernels) * (double)(in + 4) * magnitude))
        fail_msg("%s linear rows %lld in %lld out %lld %s: [%lld, %lld] is %.9g instead of %.9g",
                 kernels->name, (long long)rows, (long long)in, (long long)out, ch_dtype_name(weight_dtype),
                 (long long)r, (long long)o, got, sum);
    }
  free(x), free(w), free(bias), free(y0), free(x_real), free(w_real), free(bias_real), free(y_real),
      free(weight);
}

static void linear_layers_are_right_for_few_and_many_rows_and_all_weight_types(void **state) {
  (void)state;
  static const int64_t all_rows[] = {1, 2, 5, 7, 8, 9, 16, 17, 31, 32, 33, 65};
  ch_error error;
  for (int t = 0; t < TABLES; t++) {
    const ch_dtype dtypes[] = {tables[t]->dtype, CH_F16, CH_BF16};
    ch_gemm *gemm;
    assert_int_equal(ch_gemm_create(tables[t], all_threads(), &gemm, &error), CH_OK);
    ch_random random;
    ch_random_seed(&random, 75, 0);
    for (size_t r = 0; r < sizeof all_rows / sizeof *all_rows; r++)
      for (int d = 0; d < 3; d++)
        for (int flags = 0; flags < 8; flags++)
          check_linear(gemm, tables[t], &random, all_rows[r], 1 + (int64_t)ch_random_below(&random, 140),
                       1 + (int64_t)ch_random_below(&random, 140), dtypes[d], flags & 1, flags & 2,
                       flags & 4);
    /* These layers are so wide that weights are widened in several panels. The last panel is not full. */
    check_linear(gemm, tables[t], &random, 34, 9000, 150, CH_BF16, true, false, false);
    check_linear(gemm, tables[t], &random, 34, 9000, 150, CH_F16, false, true, false);
    check_linear(gemm, tables[t], &random, 34, 9000, 150, CH_F16, false, true, true);
    check_linear(gemm, tables[t], &random, 34, 9000, 150, tables[t]->dtype, true, false, true);
    check_linear(gemm, tables[t], &random, 33, 1025, 3, CH_F16, false, true, false);
    check_linear(gemm, tables[t], &random, 34, 1, 3, CH_F16, false, true, false);
    ch_gemm_free(gemm);
  }
}

/* Compares a product of many rows with products of few rows, bit for bit. Tables with VNNI use integers for both. */
static void check_many_rows_with_blocks(const ch_kernels *kernels, ch_dtype type) {
  enum { FEW = 8, ROWS = CH_SKINNY_ROWS + FEW, IN = 64, OUT = 48 };
  static float values[IN * OUT], many[ROWS * OUT], few[FEW * OUT];
  static unsigned char weight[IN * OUT * 2];
  ch_random random;
  ch_random_seed(&random, 77, 0);
  double *x = random_values(&random, ROWS * IN, 1), *w = random_values(&random, IN * OUT, 1);
  float *rows = reals_from(kernels, ROWS * IN, x);
  for (int64_t i = 0; i < IN * OUT; i++) values[i] = (float)w[i];
  ch_encode_blocks(type, values, IN * OUT, weight);
  ch_gemm *gemm;
  ch_error error;
  assert_int_equal(ch_gemm_create(kernels, all_threads(), &gemm, &error), CH_OK);
  assert_int_equal(ch_gemm_linear(gemm, ROWS, IN, OUT, rows, CH_F32, weight, type, NULL, many, false, &error),
                   CH_OK);
  for (int64_t r = 0; r < ROWS; r += FEW) {
    assert_int_equal(
        ch_gemm_linear(gemm, FEW, IN, OUT, rows + r * IN, CH_F32, weight, type, NULL, few, false, &error),
        CH_OK);
    assert_memory_equal(few, many + r * OUT, sizeof few);
  }
  ch_gemm_free(gemm);
  free(x), free(w), free(rows);
}

static void many_rows_with_blocks_are_small_integers_wherever_those_are_fast(void **state) {
  (void)state;
  for (int isa = CH_ISA_AVX512_VNNI; isa < CH_ISA_COUNT; isa++) {
    const ch_kernels *kernels = ch_kernels_for(CH_F32, (ch_isa)isa);
    if (!kernels) continue;
    check_many_rows_with_blocks(kernels, CH_Q8_0);
    check_many_rows_with_blocks(kernels, CH_Q4_0);
  }
}

/* A product of several seconds on a slow processor. */
enum { LONG_M = 2048, LONG_N = 8192, LONG_K = 8192 };

static bool always(void *context) {
  (void)context;
  return true;
}

/* Computes C = A B with a diagonal A and a B of ones, so that every element of row r is r + 1. */
static ch_status run_long_product(const ch_team *team, float *c) {
  float *a = calloc((size_t)LONG_M * LONG_K, sizeof *a), *b = malloc((size_t)LONG_K * LONG_N * sizeof *b);
  ch_gemm *gemm;
  ch_error error;
  assert_true(a && b);
  for (int64_t i = 0; i < (int64_t)LONG_K * LONG_N; i++) b[i] = 1;
  for (int64_t r = 0; r < LONG_M; r++) a[r * LONG_K + r] = (float)(r + 1);
  for (int64_t i = 0; i < (int64_t)LONG_M * LONG_N; i++) c[i] = -1;
  assert_int_equal(ch_gemm_create(tables[BEST], team, &gemm, &error), CH_OK);
  ch_status status =
      ch_gemm_run(gemm, false, false, LONG_M, LONG_N, LONG_K, a, LONG_K, b, LONG_N, c, LONG_N, false, &error);
  ch_gemm_free(gemm);
  free(a), free(b);
  return status;
}

static void a_long_product_can_be_stopped_and_is_whole_otherwise(void **state) {
  (void)state;
  ch_team team = ch_team_of(0);
  ch_watch watch;
  float *c = malloc((size_t)LONG_M * LONG_N * sizeof *c);
  assert_non_null(c);
  assert_int_equal(run_long_product(&team, c), CH_OK);
  for (int64_t i = 0; i < (int64_t)LONG_M * LONG_N; i++) assert_true(c[i] == (float)(i / LONG_N + 1));
  ch_watch_begin(&watch, always, NULL, NULL);
  team.watch = &watch;
  assert_int_equal(run_long_product(&team, c), CH_OK);
  assert_true(c[0] == 1);
  assert_true(c[(int64_t)LONG_M * LONG_N - 1] == -1); /* the last rows were not computed */
  free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_all_shapes_transposes_and_strides_are_right),
      cmocka_unit_test(a_changing_number_of_rows_goes_through_in_pieces),
      cmocka_unit_test(empty_products_clear_or_keep),
      cmocka_unit_test(the_same_shapes_give_the_same_bits_in_another_object_and_other_order),
      cmocka_unit_test(one_object_serves_changing_numbers_of_threads),
      cmocka_unit_test(linear_layers_are_right_for_few_and_many_rows_and_all_weight_types),
      cmocka_unit_test(many_rows_with_blocks_are_small_integers_wherever_those_are_fast),
      cmocka_unit_test(a_long_product_can_be_stopped_and_is_whole_otherwise),
  };
  return cmocka_run_group_tests(tests, choose_tables, NULL);
}
