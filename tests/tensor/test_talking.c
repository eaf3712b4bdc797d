/* Tests talking-heads attention, forward and backward, against naive attention in double, for all tables,
 * shapes, masks and state types. */
#include "tensor/attend_testing.h"

/* Results of one query for all heads and tokens, [heads, tokens] each. */
typedef struct pair_tables {
  double *scores, *weights, *mixed, *size, *dmixed, *dmixed_size, *dweights, *dweights_size, *dlogits,
      *dlogits_size;
} pair_tables;

enum { PAIR_TABLES = sizeof(pair_tables) / sizeof(double *), GRADIENTS = 5 };

/* A case, its mixes (NULL: off), and the expected gradients of q, k, v, the mix of logits and the mix of weights. */
typedef struct talking_case {
  attend_data *d;
  int64_t heads;
  double *mix[2], *dout;
  double *g[GRADIENTS], *bound[GRADIENTS];
  int64_t size[GRADIENTS];
} talking_case;

static double entry(const double *mix, int64_t heads, int64_t i, int64_t j) {
  return mix ? mix[i * heads + j] : i == j;
}

/* Computes scores, weights and mixed weights of query i. Returns the largest error of a logit, in units of eps. */
static double expect_weights(const talking_case *t, int64_t s, int64_t i, const pair_tables *p) {
  const attend_data *d = t->d;
  int64_t heads = t->heads, tokens = d->tokens, keys = d->past[s] + d->shape.queries;
  double error = 0;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t j = 0; j < keys; j++)
      p->scores[h * tokens + j] = score_of(d, s, i, h, j, &p->size[h * tokens + j]);
  for (int64_t g = 0; g < heads; g++) {
    double *weights = p->weights + g * tokens, max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
      double logit = 0, size = 0;
      for (int64_t h = 0; h < heads; h++) {
        logit += entry(t->mix[0], heads, g, h) * p->scores[h * tokens + j];
        size += fabs(entry(t->mix[0], heads, g, h)) * p->size[h * tokens + j];
      }
      bool seen = sees(d, s, i, j);
      weights[j] = seen ? logit : -INFINITY;
      if (seen && logit > max) max = logit;
      if (seen && size > error) error = size;
    }
    for (int64_t j = 0; j < keys; j++) {
      weights[j] = weights[j] == -INFINITY ? 0 : exp(weights[j] - max);
      sum += weights[j];
    }
    for (int64_t j = 0; j < keys && sum > 0; j++) weights[j] /= sum;
    d->lse[(s * heads + g) * d->shape.queries + i] = sum > 0 ? max + log(sum) : -INFINITY;
  }
  error = 2 * error * (2 + sqrt((double)d->shape.key_dim) + (double)heads) + 16 + sqrt((double)keys);
  for (int64_t g = 0; g < heads; g++) d->lse_bound[(s * heads + g) * d->shape.queries + i] = 2 * error;
  for (int64_t o = 0; o < heads; o++)
    for (int64_t j = 0; j < keys; j++) {
      double *mixed = p->mixed + o * tokens + j, *size = p->size + o * tokens + j;
      *mixed = *size = 0;
      for (int64_t g = 0; g < heads; g++) {
        *mixed += entry(t->mix[1], heads, o, g) * p->weights[g * tokens + j];
        *size += fabs(entry(t->mix[1], heads, o, g)) * p->weights[g * tokens + j];
      }
    }
  return error + (double)heads;
}

static const double *state_row(const attend_data *d, int part, int64_t s, int64_t j, int64_t h, int64_t dim) {
  return d->state[part] + s * d->sequence_stride[part] + j * d->token_stride[part] + h * dim;
}

static void expect_context(const talking_case *t, int64_t s, int64_t i, const pair_tables *p, double error) {
  const attend_data *d = t->d;
  int64_t dim = d->shape.value_dim;
  for (int64_t h = 0; h < t->heads; h++)
    for (int64_t e = 0; e < dim; e++) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < d->past[s] + d->shape.queries; j++) {
        double v = state_row(d, 1, s, j, h, dim)[e];
        sum += p->mixed[h * d->tokens + j] * v;
        size += p->size[h * d->tokens + j] * fabs(v);
      }
      int64_t at = ((s * d->shape.queries + i) * t->heads + h) * dim + e;
      d->out[at] = sum;
      d->out_bound[at] = error * size;
    }
}

static void add_to(talking_case *t, int which, int64_t at, double value, double bound) {
  t->g[which][at] += value;
  t->bound[which][at] += fabs(bound);
}

/* Adds query i's part to all gradients. There are no past tokens. */
static void expect_gradients(talking_case *t, int64_t s, int64_t i, const pair_tables *p, double error) {
  const attend_data *d = t->d;
  const attend_case *c = &d->shape;
  int64_t heads = t->heads, tokens = d->tokens, keys = c->queries;
  error *= 4;
  for (int64_t o = 0; o < heads; o++) {
    const double *dout = t->dout + ((s * c->queries + i) * heads + o) * c->value_dim;
    for (int64_t j = 0; j < keys; j++) {
      double *dmixed = p->dmixed + o * tokens + j, *size = p->dmixed_size + o * tokens + j;
      const double *v = state_row(d, 1, s, j, o, c->value_dim);
      *dmixed = *size = 0;
      for (int64_t e = 0; e < c->value_dim; e++) {
        *dmixed += dout[e] * v[e];
        *size += fabs(dout[e] * v[e]);
        add_to(t, 2, ((s * c->queries + j) * heads + o) * c->value_dim + e,
               p->mixed[o * tokens + j] * dout[e], error * p->size[o * tokens + j] * dout[e]);
      }
    }
  }
  for (int64_t g = 0; g < heads; g++) {
    double delta = 0, delta_size = 0;
    for (int64_t j = 0; j < keys; j++) {
      double sum = 0, size = 0, weight = p->weights[g * tokens + j];
      for (int64_t o = 0; o < heads; o++) {
        double b = entry(t->mix[1], heads, o, g), dmixed = p->dmixed[o * tokens + j];
        sum += b * dmixed;
        size += fabs(b) * p->dmixed_size[o * tokens + j];
        if (t->mix[1])
          add_to(t, 4, o * heads + g, weight * dmixed, error * weight * p->dmixed_size[o * tokens + j]);
      }
      p->dweights[g * tokens + j] = sum;
      p->dweights_size[g * tokens + j] = size;
      delta += weight * sum;
      delta_size += weight * size;
    }
    for (int64_t j = 0; j < keys; j++) {
      int64_t at = g * tokens + j;
      p->dlogits[at] = p->weights[at] * (p->dweights[at] - delta);
      p->dlogits_size[at] = p->weights[at] * (p->dweights_size[at] + delta_size);
      for (int64_t h = 0; h < heads && t->mix[0]; h++)
        add_to(t, 3, g * heads + h, p->dlogits[at] * p->scores[h * tokens + j],
               error * p->dlogits_size[at] * (fabs(p->scores[h * tokens + j]) + 1));
    }
  }
  for (int64_t h = 0; h < heads; h++)
    for (int64_t j = 0; j < keys; j++) {
      double ds = 0, size = 0;
      for (int64_t g = 0; g < heads; g++) {
        ds += entry(t->mix[0], heads, g, h) * p->dlogits[g * tokens + j];
        size += fabs(entry(t->mix[0], heads, g, h)) * p->dlogits_size[g * tokens + j];
      }
      int64_t q_at = ((s * c->queries + i) * heads + h) * c->key_dim;
      int64_t k_at = ((s * c->queries + j) * heads + h) * c->key_dim;
      const double *k = state_row(d, 0, s, j, h, c->key_dim);
      for (int64_t e = 0; e < c->key_dim; e++) {
        add_to(t, 0, q_at + e, ds * d->scale * k[e], error * size * d->scale * k[e]);
        add_to(t, 1, k_at + e, ds * d->scale * d->q[q_at + e], error * size * d->scale * d->q[q_at + e]);
      }
    }
}

static void expect_all(talking_case *t, bool gradients) {
  const attend_case *c = &t->d->shape;
  pair_tables p;
  double **table = (double **)&p;
  for (int i = 0; i < (int)PAIR_TABLES; i++) table[i] = zeros(t->heads * t->d->tokens);
  for (int64_t s = 0; s < c->sequences; s++)
    for (int64_t i = 0; i < c->queries; i++) {
      double error = expect_weights(t, s, i, &p);
      expect_context(t, s, i, &p, error);
      if (gradients) expect_gradients(t, s, i, &p, error);
    }
  for (int i = 0; i < (int)PAIR_TABLES; i++) free(table[i]);
}

/* Creates a case. `mixes`: 1 mixes logits, 2 mixes weights, 3 mixes both. */
static talking_case make_case(ch_random *random, attend_case c, int mixes) {
  c.kv_heads = c.heads;
  talking_case t = {.d = make_attend_data(random, c), .heads = c.heads};
  for (int m = 0; m < 2; m++)
    if (mixes >> m & 1) t.mix[m] = random_values(random, c.heads * c.heads, 1 / sqrt((double)c.heads));
  t.dout = random_values(random, t.d->out_size, 1);
  const int64_t tokens = c.sequences * c.queries * c.heads, square = c.heads * c.heads;
  const int64_t sizes[GRADIENTS] = {t.d->q_size, tokens * c.key_dim, tokens * c.value_dim, square, square};
  for (int i = 0; i < GRADIENTS; i++) {
    t.size[i] = sizes[i];
    t.g[i] = zeros(sizes[i]), t.bound[i] = zeros(sizes[i]);
  }
  return t;
}

static void free_case(talking_case *t) {
  for (int i = 0; i < GRADIENTS; i++) free(t->g[i]), free(t->bound[i]);
  free(t->mix[0]), free(t->mix[1]), free(t->dout);
  free_attend_data(t->d);
}

typedef struct mix_values {
  void *value[2];
} mix_values;

static mix_values make_mixes(const talking_case *t, const ch_kernels *kernels) {
  mix_values m = {{NULL, NULL}};
  for (int i = 0; i < 2; i++)
    if (t->mix[i]) m.value[i] = reals_from(kernels, t->heads * t->heads, t->mix[i]);
  return m;
}

static void free_mixes(mix_values *m) {
  free(m->value[0]), free(m->value[1]);
}

static void run_forward(const talking_case *t, const ch_kernels *kernels, ch_attend *args,
                        const mix_values *m, size_t offset) {
  test_scratch scratch;
  args->scratch = open_bytes(&scratch, kernels, kernels->talking_scratch(args, false), offset);
  memset(args->out, 0xff, (size_t)t->d->out_size * ch_dtype_size(kernels->dtype));
  kernels->talking_forward(args, &(ch_head_mixes){m->value[0], m->value[1]});
  close_scratch(&scratch, describe(&t->d->shape));
}

/* Checks that every sequence has the same result in a batch and alone, bit for bit. */
static void check_alone(const talking_case *t, const ch_kernels *kernels, const ch_attend *batch,
                        const mix_values *m) {
  const attend_data *d = t->d;
  size_t element = ch_dtype_size(kernels->dtype), part = (size_t)(d->out_size / batch->sequences) * element;
  for (int64_t s = 0; s < batch->sequences; s++) {
    ch_attend one = *batch;
    test_scratch scratch;
    one.sequences = 1;
    one.q = (const char *)batch->q + (size_t)(s * batch->queries * batch->heads * batch->key_dim) * element;
    one.out = malloc(part);
    one.lse = NULL;
    if (batch->past) one.past = batch->past + s;
    for (int p = 0; p < 2; p++)
      one.parts[p].data = (const char *)batch->parts[p].data +
                          ch_dtype_bytes(batch->parts[p].dtype, s * batch->parts[p].sequence_stride);
    one.scratch = open_bytes(&scratch, kernels, kernels->talking_scratch(&one, false), 0);
    kernels->talking_forward(&one, &(ch_head_mixes){m->value[0], m->value[1]});
    close_scratch(&scratch, describe(&d->shape));
    if (memcmp(one.out, (const char *)batch->out + (size_t)s * part, part) != 0)
      fail_msg("%s, table %s: sequence %lld is another one alone", describe(&d->shape), kernels->name,
               (long long)s);
    free(one.out);
  }
}

static void check_forward(ch_random *random, attend_case c, int mixes) {
  talking_case t = make_case(random, c, mixes);
  expect_all(&t, false);
  const attend_data *d = t.d;
  int usual_threads = omp_get_max_threads();
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    size_t bytes = (size_t)d->out_size * ch_dtype_size(kernels->dtype);
    ch_attend args = make_attend_args(d, kernels);
    mix_values m = make_mixes(&t, kernels);
    void *first = malloc(bytes);
    for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
      omp_set_num_threads(threads);
      run_forward(&t, kernels, &args, &m, 0);
      memcpy(first, args.out, bytes);
      run_forward(&t, kernels, &args, &m, 5);
      compare_values(describe(&d->shape), kernels, threads, "out", d->out_size, args.out, d->out,
                     d->out_bound);
      compare_values(describe(&d->shape), kernels, threads, "lse", d->lse_size, args.lse, d->lse,
                     d->lse_bound);
      if (memcmp(first, args.out, bytes) != 0)
        fail_msg("%s, table %s, %d threads: two runs differ", describe(&d->shape), kernels->name, threads);
      if (c.sequences > 1 && !c.produced && !d->document_start) check_alone(&t, kernels, &args, &m);
    }
    free(first);
    free_mixes(&m);
    free_attend_args(&args);
  }
  omp_set_num_threads(usual_threads);
  free_case(&t);
}

/* Bits of the requested gradients, and of gradients that are added to 0.5: bit i is talking_case.g[i]. */
typedef struct backward_mode {
  int wanted, accumulate;
} backward_mode;

static void run_backward(const talking_case *t, const ch_kernels *kernels, ch_attend *args,
                         const mix_values *m, backward_mode mode, void *result[GRADIENTS], size_t offset) {
  void *dout = reals_from(kernels, t->d->out_size, t->dout), *to[GRADIENTS];
  bool add[GRADIENTS];
  for (int i = 0; i < GRADIENTS; i++) {
    add[i] = mode.accumulate >> i & 1;
    double *start = zeros(t->size[i]);
    for (int64_t e = 0; e < t->size[i]; e++) start[e] = 0.5;
    result[i] = reals_from(kernels, t->size[i], add[i] ? start : NULL);
    free(start);
    to[i] = mode.wanted >> i & 1 ? result[i] : NULL;
  }
  ch_attend_gradient gradient = {.dout = dout,
                                 .dq = to[0],
                                 .dk = to[1],
                                 .dv = to[2],
                                 .accumulate_q = add[0],
                                 .accumulate_k = add[1],
                                 .accumulate_v = add[2]};
  ch_head_mixes_gradient mixes = {t->mix[0] ? to[3] : NULL, t->mix[1] ? to[4] : NULL, add[3], add[4]};
  test_scratch scratch;
  args->scratch = open_bytes(&scratch, kernels, kernels->talking_scratch(args, true), offset);
  kernels->talking_backward(args, &gradient, &(ch_head_mixes){m->value[0], m->value[1]}, &mixes);
  close_scratch(&scratch, describe(&t->d->shape));
  free(dout);
}

static void compare_gradients(const talking_case *t, const ch_kernels *kernels, int threads,
                              backward_mode mode, void *const result[GRADIENTS]) {
  static const char *const names[GRADIENTS] = {"dq", "dk", "dv", "dlogits", "dweights"};
  for (int i = 0; i < GRADIENTS; i++) {
    if (!(mode.wanted >> i & 1) || (i > 2 && !t->mix[i - 3])) continue;
    double start = mode.accumulate >> i & 1 ? 0.5 : 0, *expected = zeros(t->size[i]),
           *bound = zeros(t->size[i]);
    for (int64_t e = 0; e < t->size[i]; e++) {
      expected[e] = t->g[i][e] + start;
      bound[e] = t->bound[i][e] + 2 * start;
    }
    compare_values(describe(&t->d->shape), kernels, threads, names[i], t->size[i], result[i], expected,
                   bound);
    free(expected), free(bound);
  }
}

static void check_backward(ch_random *random, attend_case c, int mixes, backward_mode mode) {
  c.state_type[0] = c.state_type[1] = CH_F64;
  c.past = 0;
  talking_case t = make_case(random, c, mixes);
  expect_all(&t, true);
  int usual_threads = omp_get_max_threads();
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    ch_attend args = make_attend_args(t.d, kernels);
    mix_values m = make_mixes(&t, kernels);
    run_forward(&t, kernels, &args, &m, 0);
    for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
      omp_set_num_threads(threads);
      void *result[2][GRADIENTS];
      for (int run = 0; run < 2; run++)
        run_backward(&t, kernels, &args, &m, mode, result[run], (size_t)run * 3);
      compare_gradients(&t, kernels, threads, mode, result[0]);
      for (int i = 0; i < GRADIENTS; i++) {
        if (memcmp(result[0][i], result[1][i], (size_t)t.size[i] * ch_dtype_size(kernels->dtype)) != 0)
          fail_msg("%s, table %s, %d threads: two runs differ", describe(&c), kernels->name, threads);
        free(result[0][i]), free(result[1][i]);
      }
    }
    free_mixes(&m);
    free_attend_args(&args);
  }
  omp_set_num_threads(usual_threads);
  free_case(&t);
}

static attend_case random_shape(ch_random *random, int n) {
  static const ch_dtype types[] = {CH_F64, CH_F64, CH_F16, CH_BF16};
  static const int64_t dims[] = {1, 2, 3, 5, 8, 15, 16, 17, 24, 31, 33, 64, 65};
  enum { DIMS = sizeof dims / sizeof *dims };
  attend_case c = {.sequences = pick(random, 1, 4),
                   .heads = pick(random, 1, 9),
                   .queries = pick(random, 1,
                                   n % 3 == 0   ? 100
                                   : n % 3 == 1 ? 20
                                                : 3),
                   .past = n % 2 ? pick(random, 0, 200) : 0,
                   .causal = ch_random_below(random, 4) > 0,
                   .alibi = ch_random_below(random, 3) == 0,
                   .documents = ch_random_below(random, 3) == 0,
                   .extra = pick(random, 0, 2),
                   .q_scale = ch_random_below(random, 4) == 0 ? 6 : 1};
  c.key_dim = dims[ch_random_below(random, DIMS)];
  c.value_dim = ch_random_below(random, 2) ? c.key_dim : dims[ch_random_below(random, DIMS)];
  for (int p = 0; p < 2; p++) c.state_type[p] = types[ch_random_below(random, 4)];
  return c;
}

static void outputs_of_random_shapes_masks_and_types_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 21, 0);
  for (int n = 0; n < 50; n++) check_forward(&random, random_shape(&random, n), n % 5 ? 3 : n / 5 % 4);
}

static void gradients_of_random_shapes_and_masks_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 22, 0);
  for (int n = 0; n < 36; n++) {
    attend_case c = random_shape(&random, n);
    if (c.sequences * c.queries > 150) c.sequences = 1;
    int wanted = n % 3 ? 31 : (int)pick(&random, 1, 31);
    check_backward(&random, c, n % 4 ? 3 : n / 4 % 4, (backward_mode){wanted, (int)pick(&random, 0, 31)});
  }
}

/* Tests more keys than there are stored logits. The other logits are computed again. */
static void long_texts_are_right(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 23, 0);
  attend_case c = {.sequences = 1,
                   .queries = 9,
                   .heads = 64,
                   .key_dim = 3,
                   .value_dim = 2,
                   .past = 620,
                   .causal = true,
                   .state_type = {CH_F64, CH_F64}};
  check_forward(&random, c, 3);
  c.queries = 210;
  check_backward(&random, c, 3, (backward_mode){31, 0});
}

static void queries_that_see_no_key_get_zeros_and_no_gradient(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 24, 0);
  attend_case c = {.sequences = 2,
                   .queries = 70,
                   .heads = 3,
                   .key_dim = 20,
                   .value_dim = 16,
                   .causal = true,
                   .documents = true,
                   .state_type = {CH_F64, CH_F64}};
  talking_case t = make_case(&random, c, 3);
  for (int64_t i = 0; i < c.sequences * c.queries; i++)
    /* no key for all queries of the first sequence, and for some of the second */
    if (i < c.queries || i % 3 == 0) t.d->document_start[i] = 1000;
  expect_all(&t, true);
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    ch_attend args = make_attend_args(t.d, kernels);
    mix_values m = make_mixes(&t, kernels);
    run_forward(&t, kernels, &args, &m, 0);
    compare_values("unseeing queries", kernels, 0, "out", t.d->out_size, args.out, t.d->out, t.d->out_bound);
    compare_values("unseeing queries", kernels, 0, "lse", t.d->lse_size, args.lse, t.d->lse, t.d->lse_bound);
    void *result[GRADIENTS];
    run_backward(&t, kernels, &args, &m, (backward_mode){31, 0}, result, 0);
    compare_gradients(&t, kernels, 0, (backward_mode){31, 0}, result);
    for (int i = 0; i < GRADIENTS; i++) free(result[i]);
    free_mixes(&m);
    free_attend_args(&args);
  }
  free_case(&t);
}

static void a_nan_among_the_keys_reaches_every_head(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 25, 0);
  attend_case c = {.sequences = 1,
                   .queries = 1,
                   .heads = 2,
                   .key_dim = 8,
                   .value_dim = 8,
                   .past = 100,
                   .causal = true,
                   .state_type = {CH_F64, CH_F64}};
  talking_case t = make_case(&random, c, 3);
  t.d->state[0][50 * t.d->token_stride[0] + 9] = NAN; /* token 50, head 1 */
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    ch_attend args = make_attend_args(t.d, kernels);
    mix_values m = make_mixes(&t, kernels);
    run_forward(&t, kernels, &args, &m, 0);
    for (int64_t i = 0; i < t.d->out_size; i++) assert_true(isnan(real_at(kernels, args.out, i)));
    free_mixes(&m);
    free_attend_args(&args);
  }
  free_case(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_of_random_shapes_masks_and_types_are_right),
      cmocka_unit_test(gradients_of_random_shapes_and_masks_are_right),
      cmocka_unit_test(long_texts_are_right),
      cmocka_unit_test(queries_that_see_no_key_get_zeros_and_no_gradient),
      cmocka_unit_test(a_nan_among_the_keys_reaches_every_head),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
