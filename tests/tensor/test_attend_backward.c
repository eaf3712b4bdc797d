/* Tests streaming attention, backward, against naive gradients in double and against finite differences. */
#include "tensor/attend_testing.h"

/* Gradients of sum(out * dout), and their allowed errors. Elements between heads must not be written; their bound is
   UNTOUCHED. */
#define UNTOUCHED (-1.0)
typedef struct gradients {
  double *dout;
  double *d[3], *bound[3]; /* gradients of q, k, v, in their layout, and allowed errors in units of eps */
  /* additional errors if all weights and dS are rounded, in units of their relative rounding error */
  double *rounding[3];
  int64_t size[3];
} gradients;

/* Adds the part of one score to all gradients. `p` is the score's weight, `delta` the row's dout . out. */
static void add_score(const attend_data *a, gradients *g, int64_t s, int64_t i, int64_t h, int64_t j,
                      double p, double delta, double delta_size, double delta_rounding, double error) {
  const attend_case *c = &a->shape;
  int64_t kv = h * c->kv_heads / c->heads;
  int64_t q_row = query_at(a, s, i, h), k_row = state_at(a, 0, s, j, kv), v_row = state_at(a, 1, s, j, kv);
  const double *q = a->q + q_row, *k = a->state[0] + k_row, *v = a->state[1] + v_row;
  const double *dout = g->dout + ((s * c->queries + i) * c->heads + h) * c->value_dim;
  double dp = 0, size = delta_size;
  for (int64_t e = 0; e < c->value_dim; e++) {
    dp += dout[e] * v[e];
    size += fabs(dout[e] * v[e]);
    g->d[2][v_row + e] += p * dout[e];
    g->bound[2][v_row + e] += error * p * fabs(dout[e]);
    g->rounding[2][v_row + e] += p * fabs(dout[e]);
  }
  double slope = 1;
  if (c->soft_cap > 0) {
    double score = 0;
    for (int64_t e = 0; e < c->key_dim; e++) score += q[e] * k[e];
    slope = 1 - pow(tanh(score * a->scale / c->soft_cap), 2);
  }
  double ds = p * (dp - delta) * slope * a->scale, ds_size = error * p * size * a->scale;
  double ds_rounding = fabs(ds) + p * delta_rounding * a->scale;
  for (int64_t e = 0; e < c->key_dim; e++) {
    g->rounding[0][q_row + e] += ds_rounding * fabs(k[e]);
    g->rounding[1][k_row + e] += ds_rounding * fabs(q[e]);
    g->d[0][q_row + e] += ds * k[e];
    g->bound[0][q_row + e] += ds_size * fabs(k[e]);
    g->d[1][k_row + e] += ds * q[e];
    g->bound[1][k_row + e] += ds_size * fabs(q[e]);
  }
}

/* Sets the bounds of elements that belong to heads to 0, and the others to UNTOUCHED. */
static void bound_heads(const attend_data *a, gradients *g) {
  const attend_case *c = &a->shape;
  for (int t = 0; t < 3; t++)
    for (int64_t i = 0; i < g->size[t]; i++) g->bound[t][i] = UNTOUCHED;
  for (int64_t s = 0; s < c->sequences; s++)
    for (int64_t i = 0; i < c->queries; i++) {
      for (int64_t h = 0; h < c->heads; h++)
        for (int64_t e = 0; e < c->key_dim; e++) g->bound[0][query_at(a, s, i, h) + e] = 0;
      for (int64_t h = 0; h < c->kv_heads; h++) {
        for (int64_t e = 0; e < c->key_dim; e++) g->bound[1][state_at(a, 0, s, i, h) + e] = 0;
        for (int64_t e = 0; e < c->value_dim; e++) g->bound[2][state_at(a, 1, s, i, h) + e] = 0;
      }
    }
}

static gradients expect_backward(ch_random *random, const attend_data *a) {
  const attend_case *c = &a->shape;
  gradients g = {.dout = random_values(random, a->out_size, 1)};
  g.size[0] = a->q_size;
  g.size[1] = a->state_size[0];
  g.size[2] = a->state_size[1];
  for (int64_t i = 0; i < a->out_size && c->may_round; i++) g.dout[i] = as_stored(CH_BF16, g.dout[i]);
  for (int t = 0; t < 3; t++)
    g.d[t] = zeros(g.size[t]), g.bound[t] = zeros(g.size[t]), g.rounding[t] = zeros(g.size[t]);
  bound_heads(a, &g);
  for (int64_t s = 0; s < c->sequences; s++)
    for (int64_t i = 0; i < c->queries; i++)
      for (int64_t h = 0; h < c->heads; h++) {
        int64_t row = (s * c->queries + i) * c->heads + h, lse = (s * c->heads + h) * c->queries + i;
        double delta = 0, size = 0, rounding = 0;
        for (int64_t e = row * c->value_dim; e < (row + 1) * c->value_dim; e++) {
          delta += g.dout[e] * a->out[e];
          size += fabs(g.dout[e] * a->out[e]);
          rounding += fabs(g.dout[e]) * a->out_rounding[e];
        }
        for (int64_t j = 0; j < c->queries; j++)
          if (sees(a, s, i, j))
            add_score(a, &g, s, i, h, j, exp(score_of(a, s, i, h, j, NULL) - a->lse[lse]), delta, size,
                      rounding, 4 * a->lse_bound[lse] + 16);
      }
  return g;
}

static void free_gradients(gradients *g) {
  for (int t = 0; t < 3; t++) free(g->d[t]), free(g->bound[t]), free(g->rounding[t]);
  free(g->dout);
}

/* Bits of the requested gradients, and of gradients that are added to existing ones: 1 for q, 2 for k, 4 for v. */
typedef struct backward_mode {
  int wanted, accumulate;
} backward_mode;

static void run_backward(const ch_kernels *kernels, ch_attend *args, const attend_data *d, const gradients *g,
                         backward_mode mode, int threads, void *result[3], size_t offset) {
  void *dout = reals_from(kernels, d->out_size, g->dout);
  for (int t = 0; t < 3; t++) {
    result[t] = reals_from(kernels, g->size[t], NULL);
    for (int64_t i = 0; i < g->size[t]; i++)
      if (kernels->dtype == CH_F64)
        ((double *)result[t])[i] = 0.5;
      else
        ((float *)result[t])[i] = 0.5f;
  }
  ch_attend_gradient gradient = {.dout = dout,
                                 .dq = mode.wanted & 1 ? result[0] : NULL,
                                 .dk = mode.wanted & 2 ? result[1] : NULL,
                                 .dv = mode.wanted & 4 ? result[2] : NULL,
                                 .accumulate_q = mode.accumulate & 1,
                                 .accumulate_k = mode.accumulate >> 1 & 1,
                                 .accumulate_v = mode.accumulate >> 2 & 1};
  test_scratch scratch;
  args->scratch = open_scratch(&scratch, kernels, args, true, offset);
  kernels->attend_backward(args, &gradient);
  close_scratch(&scratch, describe(&d->shape));
  free(dout);
  static const char *const names[] = {"dq", "dk", "dv"};
  for (int t = 0; t < 3; t++) {
    if (!(mode.wanted >> t & 1)) continue;
    double *expected = malloc((size_t)g->size[t] * sizeof *expected),
           *bound = malloc((size_t)g->size[t] * sizeof *bound);
    for (int64_t i = 0; i < g->size[t]; i++) {
      bool untouched = g->bound[t][i] == UNTOUCHED;
      double start = untouched || mode.accumulate >> t & 1 ? 0.5 : 0;
      expected[i] = start + g->d[t][i];
      bound[i] = untouched ? 0 : g->bound[t][i] + 2 * start;
      if (d->shape.may_round && has_bf16_dots(kernels))
        bound[i] += ldexp(g->rounding[t][i], -8) / table_eps(kernels);
    }
    compare_values(describe(&d->shape), kernels, threads, names[t], g->size[t], result[t], expected, bound);
    free(expected), free(bound);
  }
}

static void check_backward(ch_random *random, attend_case c, backward_mode mode) {
  c.state_type[0] = c.state_type[1] = CH_F64;
  c.past = 0;
  attend_data *d = make_attend_data(random, c);
  gradients g = expect_backward(random, d);
  int usual_threads = omp_get_max_threads();
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    ch_attend args = make_attend_args(d, kernels);
    test_scratch scratch;
    args.scratch = open_scratch(&scratch, kernels, &args, false, 0);
    kernels->attend_forward(&args);
    close_scratch(&scratch, describe(&c));
    for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
      omp_set_num_threads(threads);
      void *result[2][3];
      for (int run = 0; run < 2; run++)
        run_backward(kernels, &args, d, &g, mode, threads, result[run], (size_t)run * 3);
      for (int t = 0; t < 3; t++) {
        if (memcmp(result[0][t], result[1][t], (size_t)g.size[t] * ch_dtype_size(kernels->dtype)) != 0)
          fail_msg("%s, table %s, %d threads: two runs differ", describe(&c), kernels->name, threads);
        free(result[0][t]), free(result[1][t]);
      }
    }
    free_attend_args(&args);
  }
  omp_set_num_threads(usual_threads);
  free_gradients(&g);
  free_attend_data(d);
}

static void gradients_of_training_shapes_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 11, 0);
  static const attend_case cases[] = {
      {.sequences = 1, .queries = 1, .heads = 1, .kv_heads = 1, .key_dim = 1, .value_dim = 1, .causal = true},
      {.sequences = 2,
       .queries = 200,
       .heads = 2,
       .kv_heads = 2,
       .key_dim = 64,
       .value_dim = 64,
       .causal = true},
      {.sequences = 1,
       .queries = 150,
       .heads = 6,
       .kv_heads = 2,
       .key_dim = 64,
       .value_dim = 64,
       .causal = true},
      {.sequences = 1,
       .queries = 90,
       .heads = 5,
       .kv_heads = 1,
       .key_dim = 128,
       .value_dim = 64,
       .causal = true},
      {.sequences = 1, .queries = 130, .heads = 3, .kv_heads = 3, .key_dim = 48, .value_dim = 80},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_backward(&random, cases[i], (backward_mode){7, 0});
}

static void check_random_shapes(uint64_t seed, int count, bool may_round) {
  ch_random random;
  ch_random_seed(&random, seed, 0);
  static const int64_t dims[] = {1, 2, 3, 5, 8, 15, 16, 17, 24, 31, 33, 48, 64, 65, 96, 257};
  enum { DIMS = sizeof dims / sizeof *dims };
  for (int n = 0; n < (SANITIZED ? count / 2 : count); n++) {
    attend_case c = {.may_round = may_round,
                     .sequences = pick(&random, 1, 3),
                     .queries = pick(&random, 1, n % 2 ? 150 : 40),
                     .kv_heads = pick(&random, 1, 3),
                     .causal = ch_random_below(&random, 4) > 0,
                     .alibi = ch_random_below(&random, 3) == 0,
                     .documents = ch_random_below(&random, 3) == 0,
                     .extra = pick(&random, 0, 2),
                     .q_scale = ch_random_below(&random, 4) == 0 ? 8 : 1};
    for (int i = 0; i < 3 && n % 4 == 0; i++) c.apart[i] = pick(&random, 0, 20);
    c.heads = c.kv_heads * pick(&random, 1, 4);
    c.key_dim = dims[ch_random_below(&random, DIMS)];
    c.value_dim = ch_random_below(&random, 2) ? c.key_dim : dims[ch_random_below(&random, DIMS)];
    if (c.key_dim + c.value_dim > 130) c.queries = c.queries / 4 + 1;
    int wanted = n % 3 ? 7 : (int)pick(&random, 1, 7);
    check_backward(&random, c, (backward_mode){wanted, (int)pick(&random, 0, 7)});
  }
}

static void gradients_of_random_shapes_and_masks_are_right(void **state) {
  (void)state;
  check_random_shapes(12, 120, false);
}

/* Tests products that may round their factors. The inputs are exact in BF16, so only weights and dS are rounded. */
static void gradients_of_rounded_products_are_right(void **state) {
  (void)state;
  check_random_shapes(15, 50, true);
}

/* Computes attention and its gradients into one block of memory: out, dq, dk, dv. */
static void *run_both(const attend_data *d, const double *dout, const ch_kernels *kernels, bool may_round) {
  size_t size = ch_dtype_size(kernels->dtype);
  int64_t q = d->q_size, k = d->state_size[0], v = d->state_size[1], out = d->out_size;
  char *all = calloc((size_t)(out + q + k + v), size);
  ch_attend args = make_attend_args(d, kernels);
  args.may_round = may_round;
  test_scratch scratch;
  args.scratch = open_scratch(&scratch, kernels, &args, false, 0);
  kernels->attend_forward(&args);
  close_scratch(&scratch, "rounding");
  memcpy(all, args.out, (size_t)out * size);
  void *reals = reals_from(kernels, out, dout);
  ch_attend_gradient to = {.dout = reals,
                           .dq = all + (size_t)out * size,
                           .dk = all + (size_t)(out + q) * size,
                           .dv = all + (size_t)(out + q + k) * size};
  args.scratch = open_scratch(&scratch, kernels, &args, true, 0);
  kernels->attend_backward(&args, &to);
  close_scratch(&scratch, "rounding");
  free(reals);
  free_attend_args(&args);
  return all;
}

/* A table with BF16 dots that may round gives the same bits if queries, keys, values and output gradients are rounded
   beforehand. Other calls round nothing. */
static void every_factor_is_rounded_or_none(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 16, 0);
  attend_case c = {.sequences = 2,
                   .queries = 150,
                   .heads = 4,
                   .kv_heads = 2,
                   .key_dim = 35,
                   .value_dim = 47,
                   .causal = true,
                   .state_type = {CH_F64, CH_F64}};
  attend_data *d = make_attend_data(&random, c);
  d->scale = 0.125; /* with a power of two, the order of rounding and scaling does not matter */
  double *dout = random_values(&random, d->out_size, 1);
  int64_t all = d->out_size + d->q_size + d->state_size[0] + d->state_size[1];
  void *raw[TABLE_COUNT][2], *exact[TABLE_COUNT][2];
  for (int rounding = 0; rounding < 2; rounding++) {
    for (int number = 0; number < TABLE_COUNT; number++)
      for (int may = 0; may < 2 && table_number(number); may++)
        (rounding ? exact : raw)[number][may] = run_both(d, dout, table_number(number), may);
    for (int64_t i = 0; i < d->q_size; i++) d->q[i] = as_stored(CH_BF16, d->q[i]);
    for (int64_t i = 0; i < d->out_size; i++) dout[i] = as_stored(CH_BF16, dout[i]);
    for (int p = 0; p < 2; p++)
      for (int64_t i = 0; i < d->state_size[p]; i++) d->state[p][i] = as_stored(CH_BF16, d->state[p][i]);
  }
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    size_t bytes = (size_t)all * ch_dtype_size(kernels->dtype);
    bool pairs = has_bf16_dots(kernels);
    assert_int_equal(memcmp(raw[number][1], exact[number][1], bytes) == 0, pairs);
    assert_int_equal(memcmp(raw[number][0], raw[number][1], bytes) != 0, pairs);
    assert_int_not_equal(memcmp(raw[number][0], exact[number][0], bytes), 0);
    for (int may = 0; may < 2; may++) free(raw[number][may]), free(exact[number][may]);
  }
  free(dout);
  free_attend_data(d);
}

/* The loss sum(out * dout) as a function of x, which has q, k and v one after the other. */
typedef struct loss_data {
  const attend_data *d;
  const double *dout;
  ch_attend args;
} loss_data;

static double loss_of(const double *x, const void *data) {
  const loss_data *l = data;
  const attend_data *d = l->d;
  ch_attend args = l->args;
  args.q = x;
  args.parts[0].data = x + d->q_size;
  args.parts[1].data = x + d->q_size + d->state_size[0];
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  test_scratch scratch;
  args.scratch = open_scratch(&scratch, kernels, &args, false, 0);
  kernels->attend_forward(&args);
  close_scratch(&scratch, "differences");
  double sum = 0;
  for (int64_t i = 0; i < d->out_size; i++) sum += ((double *)args.out)[i] * l->dout[i];
  return sum;
}

static void gradients_agree_with_finite_differences(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 13, 0);
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  static const attend_case cases[] = {
      {.sequences = 2,
       .queries = 19,
       .heads = 4,
       .kv_heads = 2,
       .key_dim = 5,
       .value_dim = 3,
       .causal = true},
      {.sequences = 1, .queries = 70, .heads = 2, .kv_heads = 1, .key_dim = 3, .value_dim = 4, .alibi = true},
      {.sequences = 1,
       .queries = 67,
       .heads = 2,
       .kv_heads = 2,
       .key_dim = 2,
       .value_dim = 2,
       .causal = true,
       .documents = true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attend_case c = cases[i];
    c.state_type[0] = c.state_type[1] = CH_F64;
    attend_data *d = make_attend_data(&random, c);
    double *dout = random_values(&random, d->out_size, 1);
    int64_t n = d->q_size + d->state_size[0] + d->state_size[1];
    double *x = zeros(n), *gradient = zeros(n);
    memcpy(x, d->q, (size_t)d->q_size * sizeof *x);
    memcpy(x + d->q_size, d->state[0], (size_t)d->state_size[0] * sizeof *x);
    memcpy(x + d->q_size + d->state_size[0], d->state[1], (size_t)d->state_size[1] * sizeof *x);
    loss_data l = {.d = d, .dout = dout, .args = make_attend_args(d, kernels)};
    loss_of(x, &l); /* computes out and lse */
    ch_attend_gradient to = {.dout = dout,
                             .dq = gradient,
                             .dk = gradient + d->q_size,
                             .dv = gradient + d->q_size + d->state_size[0]};
    ch_attend args = l.args;
    test_scratch scratch;
    args.scratch = open_scratch(&scratch, kernels, &args, true, 0);
    kernels->attend_backward(&args, &to);
    close_scratch(&scratch, "differences");
    check_gradient(describe(&c), loss_of, &l, n, x, gradient);
    free(x), free(gradient), free(dout);
    free_attend_args(&l.args);
    free_attend_data(d);
  }
}

static void queries_that_see_no_key_have_no_gradient(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 14, 0);
  attend_case c = {.sequences = 2,
                   .queries = 80,
                   .heads = 2,
                   .kv_heads = 2,
                   .key_dim = 20,
                   .value_dim = 16,
                   .causal = true,
                   .documents = true,
                   .state_type = {CH_F64, CH_F64}};
  attend_data *d = make_attend_data(&random, c);
  for (int64_t i = 0; i < c.sequences * c.queries; i++)
    /* no key for all queries of the first sequence, and for some of the second */
    if (i < c.queries || i % 3 == 0) d->document_start[i] = 1000;
  expect_forward(d);
  gradients g = expect_backward(&random, d);
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    ch_attend args = make_attend_args(d, kernels);
    test_scratch scratch;
    args.scratch = open_scratch(&scratch, kernels, &args, false, 0);
    kernels->attend_forward(&args);
    close_scratch(&scratch, "unseeing queries");
    void *result[3];
    run_backward(kernels, &args, d, &g, (backward_mode){7, 0}, 0, result, 0);
    for (int t = 0; t < 3; t++) free(result[t]);
    free_attend_args(&args);
  }
  free_gradients(&g);
  free_attend_data(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_of_training_shapes_are_right),
      cmocka_unit_test(gradients_of_random_shapes_and_masks_are_right),
      cmocka_unit_test(gradients_of_rounded_products_are_right),
      cmocka_unit_test(every_factor_is_rounded_or_none),
      cmocka_unit_test(gradients_agree_with_finite_differences),
      cmocka_unit_test(queries_that_see_no_key_have_no_gradient),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
