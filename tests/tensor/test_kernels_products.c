/* Tests products of few rows and of tiles on every table, with many small sizes and strides. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

/* --- gemv ----------------------------------------------------------------------------------------------- */

/* Functions for products of few rows: gemv, gemv_bf16, and gemv_split with x in the table's type or in BF16. Some
   tables lack some of them. */
typedef enum gemv_way { PLAIN, PAIRS, SPLIT, SPLIT_HALVES, WAYS } gemv_way;

typedef struct gemv_case {
  int64_t rows, in, out;
  bool accumulate, with_bias;
  ch_dtype dtype; /* type of the weights; CH_F32: the table's own type */
  gemv_way way;
} gemv_case;

static bool has_way(const ch_kernels *kernels, gemv_way way) {
  return way == PLAIN || (way == PAIRS ? kernels->gemv_bf16 != NULL : kernels->gemv_split != NULL);
}

/* Returns aligned memory for rows in another layout. */
static void *lines(size_t bytes) {
  void *room = aligned_alloc(64, bytes + 64);
  assert_non_null(room);
  return room;
}

static void call_gemv(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                      const void *data) {
  const gemv_case *c = data;
  ch_product p = {c->out, in[1], c->with_bias ? in[2] : NULL, out[0]};
  if (c->dtype != CH_F32) { /* the values are exact in 16 bits */
    kernels->convert_to(all_threads(), c->in * c->out, in[1], c->dtype, scratch);
    p.weight = scratch;
  }
  uint16_t *x = (uint16_t *)scratch + c->in * c->out;
  if (c->way == PAIRS || c->way == SPLIT_HALVES)
    kernels->convert_to(all_threads(), c->rows * c->in, in[0], CH_BF16, x);
  if (c->way >= SPLIT && kernels->gemv_split) {
    void *room = lines((size_t)all_threads()->threads * ch_gemv_split_room(c->rows, c->in));
    const bool halves = c->way == SPLIT_HALVES;
    kernels->gemv_split(all_threads(), c->rows, c->in, halves ? x : in[0], halves ? CH_BF16 : kernels->dtype,
                        room, 1, &p, c->accumulate);
    free(room);
    return;
  }
  if (c->way == PAIRS && kernels->gemv_bf16) {
    void *room = lines((size_t)all_threads()->threads * ch_gemv_room(c->rows, c->in));
    kernels->gemv_bf16(all_threads(), c->rows, c->in, x, room, 1, &p, c->accumulate);
    free(room);
    return;
  }
  kernels->gemv(all_threads(), c->rows, c->in, in[0], c->dtype == CH_F32 ? kernels->dtype : c->dtype, 1, &p,
                c->accumulate);
}

static void check_gemv(ch_random *random, gemv_case c) {
  double *x = random_values(random, c.rows * c.in, 1), *w = random_values(random, c.in * c.out, 1);
  double *bias = random_values(random, c.out, 1), *y0 = random_values(random, c.rows * c.out, 1);
  double *y = zeros(c.rows * c.out), *bound = zeros(c.rows * c.out);
  /* Weights are multiples of 1/64 below 2, which are exact in BF16. */
  for (int64_t i = 0; i < c.in * c.out; i++) w[i] = round(w[i] * 64) / 64;
  for (int64_t i = 0; i < c.in * c.out; i++) w[i] = fabs(w[i]) < 2 ? w[i] : (w[i] > 0 ? 1.5 : -1.5);
  if (c.dtype == CH_BF16)
    for (int64_t i = 0; i < c.in * c.out; i++) w[i] = round(w[i] * 16) / 16;
  for (int64_t i = 0; (c.way == PAIRS || c.way == SPLIT_HALVES) && i < c.rows * c.in; i++) {
    x[i] = round(x[i] * 16) / 16;
    x[i] = fabs(x[i]) < 2 ? x[i] : (x[i] > 0 ? 1.5 : -1.5);
  }
  for (int64_t r = 0; r < c.rows; r++)
    for (int64_t o = 0; o < c.out; o++) {
      double sum = 0, magnitude = fabs(y0[r * c.out + o]) + fabs(bias[o]);
      for (int64_t i = 0; i < c.in; i++) {
        sum += x[r * c.in + i] * w[o * c.in + i];
        magnitude += fabs(x[r * c.in + i] * w[o * c.in + i]);
      }
      y[r * c.out + o] = sum + (c.with_bias ? bias[o] : 0) + (c.accumulate ? y0[r * c.out + o] : 0);
      bound[r * c.out + o] = (double)(4 + c.in) * magnitude;
    }
  char what[120];
  snprintf(what, sizeof what, "gemv rows %lld in %lld out %lld %s%s", (long long)c.rows, (long long)c.in,
           (long long)c.out, ch_dtype_name(c.dtype),
           (const char *[]){"", " pairs", " split", " split halves"}[c.way]);
  kernel_check check = {.what = what,
                        .call = call_gemv,
                        .data = &c,
                        .inputs = 3,
                        .outputs = 1,
                        .in_size = {c.rows * c.in, c.in * c.out, c.out},
                        .in = {x, w, bias},
                        .out_size = {c.rows * c.out},
                        .initial = {c.accumulate ? y0 : NULL},
                        .expected = {y},
                        .bound = {bound},
                        .scratch_size = c.in * c.out + c.rows * c.in};
  run_check(&check);
  free(x), free(w), free(bias), free(y0), free(y), free(bound);
}

static void a_matrix_vector_product_is_right_for_all_row_counts_and_sizes(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 31, 0);
  static const int64_t lengths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 257};
  static const ch_dtype dtypes[] = {CH_F32, CH_F16, CH_BF16};
  for (int64_t rows = 1; rows <= 11; rows++)
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      int64_t out = lengths[ch_random_below(&random, sizeof lengths / sizeof *lengths)];
      gemv_case c = {rows,
                     lengths[i],
                     out,
                     ch_random_below(&random, 2),
                     ch_random_below(&random, 2),
                     dtypes[ch_random_below(&random, 3)],
                     PLAIN};
      check_gemv(&random, c);
      c.dtype = CH_BF16;
      for (c.way = PAIRS; c.way < WAYS; c.way++) check_gemv(&random, c);
    }
  for (int d = 0; d < 3; d++) { /* sizes that are large enough for several threads */
    for (gemv_way way = PLAIN; way < (dtypes[d] == CH_BF16 ? WAYS : PAIRS); way++) {
      check_gemv(&random, (gemv_case){1, 301, 203, false, true, dtypes[d], way});
      check_gemv(&random, (gemv_case){3, 513, 67, true, false, dtypes[d], way});
      check_gemv(&random, (gemv_case){8, 200, 131, true, true, dtypes[d], way});
      check_gemv(&random, (gemv_case){29, 70, 241, false, false, dtypes[d], way});
      /* The next three products have rows in pieces, several blocks of strips, and blocks of the fewest strips. */
      check_gemv(&random, (gemv_case){17, 2100, 19, true, true, dtypes[d], way});
      check_gemv(&random, (gemv_case){32, 100, 1201, true, true, dtypes[d], way});
      check_gemv(&random, (gemv_case){9, 3001, 29, false, true, dtypes[d], way});
    }
  }
}

/* Rows of x in F32 and in BF16, and working memory. */
typedef struct gemv_rows {
  const float *x;
  const uint16_t *halves;
  void *room;
} gemv_rows;

static gemv_rows rows_from(const gemv_rows *all, int64_t row, int64_t in) {
  return (gemv_rows){all->x + row * in, all->halves + row * in, all->room};
}

static void multiply(const ch_kernels *kernels, gemv_way way, int64_t rows, int64_t in, const gemv_rows *x,
                     ch_dtype dtype, int count, const ch_product *products) {
  if (way == PAIRS)
    kernels->gemv_bf16(all_threads(), rows, in, x->halves, x->room, count, products, false);
  else if (way == SPLIT)
    kernels->gemv_split(all_threads(), rows, in, x->x, CH_F32, x->room, count, products, false);
  else if (way == SPLIT_HALVES)
    kernels->gemv_split(all_threads(), rows, in, x->halves, CH_BF16, x->room, count, products, false);
  else
    kernels->gemv(all_threads(), rows, in, x->x, dtype, count, products, false);
}

enum { MOST_ROWS = 33, IN = 1500, OUT = 53 };

/* A table, one of its functions for products of few rows, and operands in the function's layout. */
typedef struct gemv_setting {
  const ch_kernels *kernels;
  gemv_way way;
  ch_dtype dtype;
  gemv_rows x; /* [MOST_ROWS, IN] */
  const char *weight;
} gemv_setting;

static void for_all_ways(void (*check)(const gemv_setting *setting)) {
  static const ch_dtype dtypes[] = {CH_F32, CH_F16, CH_BF16, CH_BF16, CH_BF16, CH_BF16};
  static const gemv_way ways[] = {PLAIN, PLAIN, PLAIN, PAIRS, SPLIT, SPLIT_HALVES};
  static float weight[IN * OUT];
  static uint16_t halves[MOST_ROWS * IN];
  ch_random random;
  ch_random_seed(&random, 5, 0);
  double *x = random_values(&random, MOST_ROWS * IN, 1), *w = random_values(&random, IN * OUT, 1);
  void *room = lines(3 * ch_gemv_split_room(MOST_ROWS, IN));
  int usual_threads = omp_get_max_threads();
  for (int number = 1; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    float *xs = reals_from(kernels, MOST_ROWS * IN, x), *ws = reals_from(kernels, IN * OUT, w);
    kernels->convert_to(all_threads(), MOST_ROWS * IN, xs, CH_BF16, halves);
    for (int d = 0; d < 6; d++) {
      if (!has_way(kernels, ways[d])) continue;
      kernels->convert_to(all_threads(), IN * OUT, ws, dtypes[d], weight);
      check(&(gemv_setting){kernels, ways[d], dtypes[d], {xs, halves, room}, (const char *)weight});
    }
    free(xs), free(ws);
  }
  omp_set_num_threads(usual_threads);
  free(x), free(w), free(room);
}

/* Compares the last row of a product with the product of this row alone, bit for bit: results of sequences must not
   depend on their batch. */
static void check_rows_alone(const gemv_setting *s) {
  static float together[MOST_ROWS * OUT], alone[OUT];
  for (int64_t rows = 1; rows <= MOST_ROWS; rows++) {
    const int64_t r = rows - 1;
    const gemv_rows last = rows_from(&s->x, r, IN);
    multiply(s->kernels, s->way, rows, IN, &s->x, s->dtype, 1, &(ch_product){OUT, s->weight, NULL, together});
    omp_set_num_threads(1 + (int)(rows % 3));
    multiply(s->kernels, s->way, 1, IN, &last, s->dtype, 1, &(ch_product){OUT, s->weight, NULL, alone});
    assert_memory_equal(alone, together + r * OUT, sizeof alone);
  }
}

static void a_row_of_a_product_does_not_depend_on_the_rows_beside_it(void **state) {
  (void)state;
  for_all_ways(check_rows_alone);
}

/* Compares products in one call with products in calls of their own, bit for bit. The matrices have different sizes,
   and another order than in memory. */
static void check_products_alone(const gemv_setting *s) {
  enum { COUNT = 4 };
  static const int64_t first[COUNT] = {21, 20, 0, 23}, outs[COUNT] = {2, 1, 20, 30};
  static float together[COUNT][MOST_ROWS * OUT], alone[MOST_ROWS * OUT], bias[OUT];
  for (int i = 0; i < OUT; i++) bias[i] = (float)i;
  for (int64_t rows = 1; rows <= MOST_ROWS; rows += rows < 9 ? 1 : 8) {
    ch_product products[COUNT];
    for (int p = 0; p < COUNT; p++)
      products[p] = (ch_product){outs[p], s->weight + ch_dtype_bytes(s->dtype, first[p] * IN),
                                 p % 2 ? bias + first[p] : NULL, together[p]};
    omp_set_num_threads(1 + (int)(rows % 3));
    multiply(s->kernels, s->way, rows, IN, &s->x, s->dtype, COUNT, products);
    for (int p = 0; p < COUNT; p++) {
      products[p].y = alone;
      multiply(s->kernels, s->way, rows, IN, &s->x, s->dtype, 1, &products[p]);
      assert_memory_equal(alone, together[p], (size_t)(rows * outs[p]) * sizeof *alone);
    }
  }
}

static void a_product_does_not_depend_on_the_products_beside_it(void **state) {
  (void)state;
  for_all_ways(check_products_alone);
}

/* --- tile_product --------------------------------------------------------------------------------------- */

typedef struct tile_case {
  int64_t m, n, k;
  bool transposed, accumulate;
  int64_t a_extra, b_extra, c_extra; /* elements between two rows */
} tile_case;

static void call_tile(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                      const void *data) {
  (void)scratch;
  const tile_case *c = data;
  int64_t lda = (c->transposed ? c->m : c->k) + c->a_extra;
  kernels->tile_product(c->m, c->n, c->k, in[0], c->transposed ? 1 : lda, c->transposed ? lda : 1, in[1],
                        c->n + c->b_extra, out[0], c->n + c->c_extra, c->accumulate);
}

static void check_tile(ch_random *random, tile_case c) {
  int64_t lda = (c.transposed ? c.m : c.k) + c.a_extra, ldb = c.n + c.b_extra, ldc = c.n + c.c_extra;
  /* The memory ends with the last element, so that a sanitizer detects reads after it. */
  int64_t a_size = c.transposed ? (c.k - 1) * lda + c.m : (c.m - 1) * lda + c.k;
  int64_t b_size = (c.k - 1) * ldb + c.n, c_size = (c.m - 1) * ldc + c.n;
  double *a = random_values(random, a_size, 1), *b = random_values(random, b_size, 1);
  double *c0 = random_values(random, c_size, 1), *expected = zeros(c_size), *bound = zeros(c_size);
  memcpy(expected, c0, (size_t)c_size * sizeof *c0); /* elements between rows must not change */
  for (int64_t i = 0; i < c.m; i++)
    for (int64_t j = 0; j < c.n; j++) {
      double sum = c.accumulate ? c0[i * ldc + j] : 0, magnitude = fabs(sum);
      for (int64_t p = 0; p < c.k; p++) {
        double term = a[c.transposed ? p * lda + i : i * lda + p] * b[p * ldb + j];
        sum += term;
        magnitude += fabs(term);
      }
      expected[i * ldc + j] = sum;
      bound[i * ldc + j] = (double)(2 + c.k) * magnitude;
    }
  char what[120];
  snprintf(what, sizeof what, "tile_product m %lld n %lld k %lld", (long long)c.m, (long long)c.n,
           (long long)c.k);
  kernel_check check = {.what = what,
                        .call = call_tile,
                        .data = &c,
                        .inputs = 2,
                        .outputs = 1,
                        .in_size = {a_size, b_size},
                        .in = {a, b},
                        .out_size = {c_size},
                        .initial = {c0},
                        .expected = {expected},
                        .bound = {bound}};
  run_check(&check);
  free(a), free(b), free(c0), free(expected), free(bound);
}

static void a_tile_product_is_right_for_all_sizes_and_strides(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 32, 0);
  for (int64_t m = 1; m <= 17; m++)
    for (int64_t n = 1; n <= 70; n += 1 + (int64_t)ch_random_below(&random, 4)) {
      tile_case c = {m,
                     n,
                     1 + (int64_t)ch_random_below(&random, 20),
                     ch_random_below(&random, 2),
                     ch_random_below(&random, 2),
                     (int64_t)ch_random_below(&random, 4),
                     (int64_t)ch_random_below(&random, 4),
                     (int64_t)ch_random_below(&random, 4)};
      check_tile(&random, c);
    }
  static const int64_t odd[] = {1, 3, 7, 17, 63, 64, 65, 129};
  for (int c = 0; c < 60; c++)
    check_tile(&random, (tile_case){odd[ch_random_below(&random, 8)], odd[ch_random_below(&random, 8)],
                                    odd[ch_random_below(&random, 8)], ch_random_below(&random, 2),
                                    ch_random_below(&random, 2), 1, 2, 3});
}

static void a_tile_product_over_nothing_clears_or_keeps(void **state) {
  (void)state;
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    const double start[6] = {1, 2, 3, 4, 5, 6};
    void *c = reals_from(kernels, 6, start);
    kernels->tile_product(2, 3, 0, NULL, 1, 1, NULL, 3, c, 3, true);
    for (int i = 0; i < 6; i++) assert_true(real_at(kernels, c, i) == start[i]);
    kernels->tile_product(2, 3, 0, NULL, 1, 1, NULL, 3, c, 3, false);
    for (int i = 0; i < 6; i++) assert_true(real_at(kernels, c, i) == 0);
    free(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_matrix_vector_product_is_right_for_all_row_counts_and_sizes),
      cmocka_unit_test(a_row_of_a_product_does_not_depend_on_the_rows_beside_it),
      cmocka_unit_test(a_product_does_not_depend_on_the_products_beside_it),
      cmocka_unit_test(a_tile_product_is_right_for_all_sizes_and_strides),
      cmocka_unit_test(a_tile_product_over_nothing_clears_or_keeps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
