/* Tests the kernels of factors, exclusive contexts and weights of heads on every table against their
 * equations. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

static ch_random randomness;

/* --- exclusive contexts ------------------------------------------------------------------------------------- */

enum { ROWS = 37, HEADS = 6, GROUPS = 3, MOST_DIM = 40 };

static void call_exclude(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  int64_t dim = *(const int64_t *)data;
  (void)scratch;
  k->exclude_forward(all_threads(), ROWS, HEADS, GROUPS, dim, in[0], in[1], out[0]);
  k->exclude_backward(all_threads(), ROWS, HEADS, GROUPS, dim, in[0], in[1], in[2], out[1], true, out[2],
                      false);
}

/* Computes z = y - (y . u) u, u = v / |v|, for one head, and the gradients from dz. */
static void exclude_head(int64_t n, const double *y, const double *v, const double *dz, double *z, double *dy,
                         double *dv) {
  double norm = 0, of_y = 0, of_z = 0, along = 0, u[MOST_DIM], du[MOST_DIM];
  for (int64_t i = 0; i < n; i++) norm += v[i] * v[i];
  norm = sqrt(norm);
  for (int64_t i = 0; i < n; i++) {
    u[i] = v[i] / norm;
    of_y += y[i] * u[i];
    of_z += dz[i] * u[i];
  }
  for (int64_t i = 0; i < n; i++) {
    z[i] = y[i] - of_y * u[i];
    dy[i] += dz[i] - of_z * u[i];
    du[i] = -of_z * y[i] - of_y * dz[i];
    along += du[i] * u[i];
  }
  for (int64_t i = 0; i < n; i++) dv[i] += (du[i] - along * u[i]) / norm;
}

static double *loose(const double *values, int64_t n, double factor) {
  double *bound = zeros(n);
  for (int64_t i = 0; i < n; i++) bound[i] = factor * (1 + fabs(values[i]));
  return bound;
}

static void contexts_lose_their_part_along_a_value(void **state) {
  (void)state;
  static const int64_t dims[] = {1, 5, 16, 40};
  for (int c = 0; c < 4; c++) {
    int64_t d = dims[c], ny = ROWS * HEADS * d, nv = ROWS * GROUPS * d;
    double *y = random_values(&randomness, ny, 1), *v = random_values(&randomness, nv, 1),
           *dz = random_values(&randomness, ny, 1), *old = random_values(&randomness, ny, 1);
    double *z = zeros(ny), *dy = zeros(ny), *dv = zeros(nv);
    memcpy(dy, old, (size_t)ny * sizeof *dy);
    for (int64_t i = 0; i < nv; i++) v[i] += v[i] < 0 ? -1 : 1; /* no value is nearly zero */
    for (int64_t r = 0; r < ROWS; r++)
      for (int64_t h = 0; h < HEADS; h++) {
        int64_t at = (r * HEADS + h) * d, of = (r * GROUPS + h * GROUPS / HEADS) * d;
        exclude_head(d, y + at, v + of, dz + at, z + at, dy + at, dv + of);
      }
    double *bz = loose(z, ny, 200), *by = loose(dy, ny, 200), *bv = loose(dv, nv, 2000);
    run_check(&(kernel_check){.what = "exclude",
                              .call = call_exclude,
                              .data = &d,
                              .inputs = 3,
                              .in_size = {ny, nv, ny},
                              .in = {y, v, dz},
                              .outputs = 3,
                              .out_size = {ny, ny, nv},
                              .initial = {NULL, old, NULL},
                              .expected = {z, dy, dv},
                              .bound = {bz, by, bv}});
    free(y), free(v), free(dz), free(old), free(z), free(dy), free(dv), free(bz), free(by), free(bv);
  }
}

/* A value of zero changes nothing and gives no NaN. */
static void a_value_of_zero_leaves_contexts_alone(void **state) {
  (void)state;
  for (int t = 0; t < TABLE_COUNT; t++) {
    const ch_kernels *k = table_number(t);
    if (!k) continue;
    double y[5] = {1, -2, 3, 0.5, 4}, v[5] = {0};
    void *in = reals_from(k, 5, y), *value = reals_from(k, 5, v), *z = reals_from(k, 5, NULL),
         *dv = reals_from(k, 5, NULL);
    k->exclude_forward(all_threads(), 1, 1, 1, 5, in, value, z);
    k->exclude_backward(all_threads(), 1, 1, 1, 5, in, value, in, NULL, false, dv, false);
    for (int64_t i = 0; i < 5; i++) {
      assert_true(real_at(k, z, i) == y[i]);
      assert_true(isfinite(real_at(k, dv, i)));
    }
    free(in), free(value), free(z), free(dv);
  }
}

/* --- products of factors ------------------------------------------------------------------------------------ */

typedef struct factors {
  int64_t rows, heads, rank, dim;
} factors;

static void call_product(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  const factors *f = data;
  (void)scratch;
  k->factor_product(all_threads(), f->rows, f->heads, f->rank, f->dim, 0.5, in[0], in[1], out[0], false);
  k->factor_product_backward(all_threads(), f->rows, f->heads, f->rank, f->dim, 0.5, in[0], in[1], in[2],
                             out[1], true, out[2], false);
}

static void products_of_factors_follow_their_equations(void **state) {
  (void)state;
  static const factors cases[] = {{1, 1, 1, 1}, {33, 5, 2, 24}, {70, 12, 6, 64}, {9, 3, 7, 130}};
  for (int c = 0; c < 4; c++) {
    factors f = cases[c];
    int64_t na = f.rows * f.heads * f.rank, nb = f.rows * f.rank * f.dim, ny = f.rows * f.heads * f.dim;
    double *a = random_values(&randomness, na, 1), *b = random_values(&randomness, nb, 1),
           *dy = random_values(&randomness, ny, 1), *old = random_values(&randomness, na, 1);
    double *y = zeros(ny), *da = zeros(na), *db = zeros(nb);
    memcpy(da, old, (size_t)na * sizeof *da);
    for (int64_t r = 0; r < f.rows; r++)
      for (int64_t h = 0; h < f.heads; h++)
        for (int64_t k = 0; k < f.rank; k++)
          for (int64_t i = 0; i < f.dim; i++) {
            int64_t of_a = (r * f.heads + h) * f.rank + k, of_b = (r * f.rank + k) * f.dim + i,
                    of_y = (r * f.heads + h) * f.dim + i;
            y[of_y] += 0.5 * a[of_a] * b[of_b];
            da[of_a] += 0.5 * dy[of_y] * b[of_b];
            db[of_b] += 0.5 * dy[of_y] * a[of_a];
          }
    double *by = loose(y, ny, 60), *ba = loose(da, na, 400), *bb = loose(db, nb, 100);
    run_check(&(kernel_check){.what = "product of factors",
                              .call = call_product,
                              .data = &f,
                              .inputs = 3,
                              .in_size = {na, nb, ny},
                              .in = {a, b, dy},
                              .outputs = 3,
                              .out_size = {ny, na, nb},
                              .initial = {NULL, old, NULL},
                              .expected = {y, da, db},
                              .bound = {by, ba, bb}});
    free(a), free(b), free(dy), free(old), free(y), free(da), free(db), free(by), free(ba), free(bb);
  }
}

/* --- attention over factors --------------------------------------------------------------------------------- */

typedef struct attended {
  int64_t sequences, queries, heads, dim, k_rank, v_rank, past;
  bool alibi, documents;
} attended;

static int64_t width_of(const attended *s, int factor) {
  int64_t rank = factor == CH_FACTOR_A_K || factor == CH_FACTOR_B_K ? s->k_rank : s->v_rank;
  return rank * (factor == CH_FACTOR_A_K || factor == CH_FACTOR_A_V ? s->heads : s->dim);
}

/* Attends with one query of one head over factors [token][width] of its sequence. */
static void attend_one(const attended *s, const double *const factor[CH_FACTORS], int64_t first, int64_t end,
                       int64_t head, const double *q, double slope, double *out) {
  double sum = 0, *weight = zeros(end), most = -INFINITY;
  for (int64_t t = first; t < end; t++) {
    double score = 0;
    for (int64_t r = 0; r < s->k_rank; r++)
      for (int64_t i = 0; i < s->dim; i++)
        score += factor[CH_FACTOR_A_K][t * width_of(s, CH_FACTOR_A_K) + head * s->k_rank + r] * q[i] *
                 factor[CH_FACTOR_B_K][t * width_of(s, CH_FACTOR_B_K) + r * s->dim + i];
    weight[t] = 0.3 * score - slope * (double)(end - 1 - t);
    most = fmax(most, weight[t]);
  }
  for (int64_t t = first; t < end; t++) sum += weight[t] = exp(weight[t] - most);
  for (int64_t i = 0; i < s->dim; i++) {
    out[i] = 0;
    for (int64_t t = first; t < end; t++)
      for (int64_t r = 0; r < s->v_rank; r++)
        out[i] += weight[t] / sum *
                  factor[CH_FACTOR_A_V][t * width_of(s, CH_FACTOR_A_V) + head * s->v_rank + r] *
                  factor[CH_FACTOR_B_V][t * width_of(s, CH_FACTOR_B_V) + r * s->dim + i];
  }
  free(weight);
}

/* Returns factors as a cache of `dtype` stores them, and replaces `values` by the stored ones. */
static void *store_factor(const ch_kernels *k, const attended *s, int factor, ch_dtype dtype,
                          double *values) {
  int64_t tokens = s->past + s->queries, rows = s->sequences * tokens, width = width_of(s, factor);
  int64_t stored = ch_dtype_is_block_quantised(dtype) ? (width + 31) / 32 * 32 : width;
  void *real = reals_from(k, rows * width, values), *wide = reals_from(k, rows * stored, NULL);
  char *data = calloc(1, ch_dtype_bytes(dtype, rows * stored) + 64);
  assert_non_null(data);
  if (ch_dtype_is_block_quantised(dtype))
    k->pack_states(all_threads(), rows, width, real, dtype, data);
  else
    k->convert_to(all_threads(), rows * width, real, dtype, data);
  k->convert_from(all_threads(), rows * stored, data, dtype, wide);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < width; i++) values[r * width + i] = real_at(k, wide, r * stored + i);
  free(real), free(wide);
  return data;
}

static void try_attention(const ch_kernels *k, const attended *s, ch_dtype dtype) {
  int64_t tokens = s->past + s->queries, n = s->sequences * s->queries * s->heads * s->dim;
  double *values[CH_FACTORS], *q = random_values(&randomness, n, 1), slopes[32];
  int32_t past[4], starts[32];
  ch_factor_attend args = {.team = all_threads(),
                           .sequences = s->sequences,
                           .queries = s->queries,
                           .heads = s->heads,
                           .dim = s->dim,
                           .k_rank = s->k_rank,
                           .v_rank = s->v_rank,
                           .scale = 0.3,
                           .slopes = s->alibi ? slopes : NULL,
                           .past = past,
                           .document_start = s->documents ? starts : NULL};
  for (int64_t h = 0; h < 32; h++) slopes[h] = 1 / (double)(h + 3);
  for (int64_t i = 0; i < s->sequences; i++) past[i] = (int32_t)s->past;
  for (int64_t i = 0; i < s->sequences * s->queries; i++) starts[i] = (int32_t)(i * 7 % (s->past + 1));
  for (int f = 0; f < CH_FACTORS; f++) {
    int64_t width = width_of(s, f),
            stored = ch_dtype_is_block_quantised(dtype) ? (width + 31) / 32 * 32 : width;
    values[f] = random_values(&randomness, s->sequences * tokens * width, 1);
    args.factor[f] = (ch_state_view){.data = store_factor(k, s, f, dtype, values[f]),
                                     .dtype = dtype,
                                     .token_stride = stored,
                                     .sequence_stride = stored * tokens};
  }
  void *queries = reals_from(k, n, q), *out = reals_from(k, n, NULL),
       *scratch = malloc(k->factor_attend_scratch(&args));
  args.q = queries;
  args.out = out;
  args.scratch = scratch;
  memset(scratch, 0xff, k->factor_attend_scratch(&args));
  k->factor_attend(&args);
  for (int64_t i = 0; i < s->sequences * s->queries; i++)
    for (int64_t h = 0; h < s->heads; h++) {
      const double *own[CH_FACTORS];
      double expected[64];
      for (int f = 0; f < CH_FACTORS; f++) own[f] = values[f] + i / s->queries * tokens * width_of(s, f);
      attend_one(s, own, s->documents ? starts[i] : 0, s->past + i % s->queries + 1, h,
                 q + (i * s->heads + h) * s->dim, s->alibi ? slopes[h] : 0, expected);
      for (int64_t d = 0; d < s->dim; d++) {
        double got = real_at(k, out, (i * s->heads + h) * s->dim + d);
        if (!(fabs(got - expected[d]) <= 2000 * table_eps(k) * (1 + fabs(expected[d]))))
          fail_msg("%s: query %lld, head %lld, element %lld is %.9g and should be %.9g", k->name,
                   (long long)i, (long long)h, (long long)d, got, expected[d]);
      }
    }
  for (int f = 0; f < CH_FACTORS; f++) free(values[f]), free((void *)args.factor[f].data);
  free(q), free(queries), free(out), free(scratch);
}

static void attention_over_factors_is_that_over_their_products(void **state) {
  (void)state;
  static const attended cases[] = {
      {1, 1, 1, 1, 1, 1, 0, false, false},  {2, 1, 12, 24, 2, 2, 150, false, false},
      {1, 3, 5, 10, 3, 1, 70, true, false}, {3, 2, 17, 16, 4, 2, 40, false, true},
      {1, 1, 4, 33, 1, 4, 700, true, true}, {2, 1, 20, 8, 6, 5, 64, false, false}};
  for (int t = 0; t < TABLE_COUNT; t++) {
    const ch_kernels *k = table_number(t);
    if (!k) continue;
    const ch_dtype dtypes[] = {k->dtype, CH_F16, CH_BF16, CH_Q8_0, CH_Q4_0};
    for (int c = 0; c < 6; c++)
      for (int d = 0; d < 5; d++) try_attention(k, &cases[c], dtypes[d]);
  }
}

int main(void) {
  ch_random_seed(&randomness, 29, 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contexts_lose_their_part_along_a_value),
      cmocka_unit_test(a_value_of_zero_leaves_contexts_alone),
      cmocka_unit_test(products_of_factors_follow_their_equations),
      cmocka_unit_test(attention_over_factors_is_that_over_their_products),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
