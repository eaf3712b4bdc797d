/* Tests the gated delta rule and its short convolutions, on every table, against their recurrences. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

static ch_random randomness;

/* The sizes of a case. If `split` is above 0, one call reads the first `split` tokens, and a second one continues from
   its state. */
typedef struct rule {
  int64_t sequences, length, heads, value_heads, key_dim, value_dim, split;
  bool documents;
  const int32_t *starts; /* [sequences, length] start of each token's document; NULL: no documents */
} rule;

enum { Q, K, V, DECAY, BETA, OPERANDS };

static int64_t rows_of(const rule *r) {
  return r->sequences * r->length;
}

static void sizes_of(const rule *r, int64_t sizes[OPERANDS]) {
  const int64_t rows = rows_of(r);
  sizes[Q] = sizes[K] = rows * r->heads * r->key_dim;
  sizes[V] = rows * r->value_heads * r->value_dim;
  sizes[DECAY] = sizes[BETA] = rows * r->value_heads;
}

/* --- the recurrence ----------------------------------------------------------------------------------------- */

/* Processes one token: S = a S, then S += k (b (v - S^T k))^T, then o = S^T q. */
static void recur(const rule *r, const double *q, const double *k, const double *v, double decay, double beta,
                  double *state, double *out) {
  for (int64_t i = 0; i < r->key_dim * r->value_dim; i++) state[i] *= decay;
  for (int64_t j = 0; j < r->value_dim; j++) {
    double held = 0;
    for (int64_t i = 0; i < r->key_dim; i++) held += state[i * r->value_dim + j] * k[i];
    out[j] = 0;
    for (int64_t i = 0; i < r->key_dim; i++) {
      state[i * r->value_dim + j] += k[i] * beta * (v[j] - held);
      out[j] += state[i * r->value_dim + j] * q[i];
    }
  }
}

/* Computes the outputs [sequences, length, value_heads, value_dim], and the states after the last token. */
static void recurrence(const rule *r, const double *const in[OPERANDS], double *out, double *states) {
  const int64_t size = r->key_dim * r->value_dim;
  memset(states, 0, (size_t)(r->sequences * r->value_heads * size) * sizeof *states);
  for (int64_t row = 0; row < rows_of(r); row++)
    for (int64_t h = 0; h < r->value_heads; h++) {
      const int64_t key = (row * r->heads + h * r->heads / r->value_heads) * r->key_dim,
                    gate = row * r->value_heads + h;
      const bool begins = r->starts && r->starts[row] == row % r->length;
      recur(r, in[Q] + key, in[K] + key, in[V] + gate * r->value_dim, begins ? 0 : exp(in[DECAY][gate]),
            in[BETA][gate], states + (row / r->length * r->value_heads + h) * size,
            out + gate * r->value_dim);
    }
}

/* --- the kernels -------------------------------------------------------------------------------------------- */

static ch_delta_rule describe(const rule *r) {
  return (ch_delta_rule){.team = all_threads(),
                         .sequences = r->sequences,
                         .length = r->length,
                         .heads = r->heads,
                         .value_heads = r->value_heads,
                         .key_dim = r->key_dim,
                         .value_dim = r->value_dim,
                         .document_start = r->starts};
}

static void *poisoned(size_t bytes) {
  void *memory = malloc(bytes + 1);
  assert_non_null(memory);
  return memset(memory, 0xff, bytes);
}

/* Runs a whole pass without storing a state. */
static void call_forward(const ch_kernels *kernels, void *const *in, void **out, void *unused,
                         const void *data) {
  ch_delta_rule a = describe(data);
  (void)unused;
  a.q = in[Q], a.k = in[K], a.v = in[V], a.decay = in[DECAY], a.beta = in[BETA], a.out = out[0];
  a.scratch = poisoned(kernels->delta_rule_scratch(&a, false));
  kernels->delta_rule_forward(&a);
  free(a.scratch);
}

/* Runs a sequence in two passes, the second from the state of the first. Writes the output and the last state. */
static void call_split(const ch_kernels *kernels, void *const *in, void **out, void *unused,
                       const void *data) {
  const rule *r = data;
  const size_t size = ch_dtype_size(kernels->dtype);
  int32_t before[1] = {0};
  (void)unused;
  for (int64_t first = 0, count; first < r->length; first += count) {
    ch_delta_rule a = describe(r);
    count = first == 0 ? r->split : r->length - r->split;
    a.length = count;
    a.q = (char *)in[Q] + (size_t)(first * r->heads * r->key_dim) * size;
    a.k = (char *)in[K] + (size_t)(first * r->heads * r->key_dim) * size;
    a.v = (char *)in[V] + (size_t)(first * r->value_heads * r->value_dim) * size;
    a.decay = (char *)in[DECAY] + (size_t)(first * r->value_heads) * size;
    a.beta = (char *)in[BETA] + (size_t)(first * r->value_heads) * size;
    a.out = (char *)out[0] + (size_t)(first * r->value_heads * r->value_dim) * size;
    a.states = out[1];
    a.state_stride = r->value_heads * r->key_dim * r->value_dim;
    a.tokens_before = before;
    a.scratch = poisoned(kernels->delta_rule_scratch(&a, false));
    kernels->delta_rule_forward(&a);
    free(a.scratch);
    before[0] += (int32_t)count;
  }
}

/* Runs the forward and the backward pass. in[OPERANDS] is the gradient of the output. */
static void call_backward(const ch_kernels *kernels, void *const *in, void **out, void *unused,
                          const void *data) {
  const rule *r = data;
  ch_delta_rule a = describe(r);
  const size_t size = ch_dtype_size(kernels->dtype);
  const int64_t states = r->sequences * r->value_heads * (ch_delta_chunks(r->length) - 1) * r->key_dim *
                         r->value_dim,
                values = rows_of(r) * r->value_heads * r->value_dim;
  (void)unused;
  a.q = in[Q], a.k = in[K], a.v = in[V], a.decay = in[DECAY], a.beta = in[BETA];
  a.out = poisoned((size_t)values * size);
  a.kept_states = poisoned((size_t)states * size);
  a.kept_errors = poisoned((size_t)values * size);
  a.scratch = poisoned(kernels->delta_rule_scratch(&a, false));
  kernels->delta_rule_forward(&a);
  free(a.scratch);
  a.scratch = poisoned(kernels->delta_rule_scratch(&a, true));
  const ch_delta_rule_gradient g = {.out = in[OPERANDS],
                                    .q = out[Q],
                                    .k = out[K],
                                    .v = out[V],
                                    .decay = out[DECAY],
                                    .beta = out[BETA],
                                    .add_k = true,
                                    .add_beta = true};
  kernels->delta_rule_backward(&a, &g);
  free(a.scratch), free(a.out), free(a.kept_states), free(a.kept_errors);
}

/* --- cases -------------------------------------------------------------------------------------------------- */

static const rule rules[] = {{1, 1, 1, 1, 3, 5, 0, false, NULL},    {2, 7, 2, 2, 6, 8, 0, true, NULL},
                             {2, 20, 2, 4, 6, 10, 0, true, NULL},   {1, 64, 1, 2, 16, 32, 0, false, NULL},
                             {2, 65, 1, 1, 5, 3, 0, true, NULL},    {1, 150, 2, 4, 19, 33, 0, false, NULL},
                             {2, 150, 1, 2, 32, 48, 0, true, NULL}, {3, 200, 2, 2, 7, 40, 0, true, NULL}};

/* Fills a case with keys of length 1, decays that are mostly slow and sometimes near zero, steps between 0 and 2, and
   documents of different lengths. */
static void fill(rule *r, double *in[OPERANDS]) {
  int64_t sizes[OPERANDS];
  sizes_of(r, sizes);
  for (int i = 0; i < OPERANDS; i++) in[i] = random_values(&randomness, sizes[i], 1);
  for (int64_t i = 0; i < sizes[K]; i += r->key_dim) {
    double square = 0;
    for (int64_t j = 0; j < r->key_dim; j++) square += in[K][i + j] * in[K][i + j];
    for (int64_t j = 0; j < r->key_dim; j++) in[K][i + j] = (float)(in[K][i + j] / sqrt(square));
  }
  for (int64_t i = 0; i < sizes[DECAY]; i++) {
    in[DECAY][i] = (float)(i % 29 == 7 ? -40 * fabs(in[DECAY][i]) : -0.05 * fabs(in[DECAY][i]));
    in[BETA][i] = (float)(2 / (1 + exp(-in[BETA][i])));
  }
  if (!r->documents) return;
  int32_t *starts = malloc((size_t)rows_of(r) * sizeof *starts);
  assert_non_null(starts);
  for (int64_t row = 0; row < rows_of(r); row++) {
    const int32_t t = (int32_t)(row % r->length);
    starts[row] = t == 0 ? 0 : t % 11 == 3 || t % 64 == 40 ? t : starts[row - 1];
  }
  r->starts = starts;
}

static double *tolerances(int64_t n, const double *expected, double eps) {
  double *bound = zeros(n), most = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(expected[i]));
  for (int64_t i = 0; i < n; i++) bound[i] = eps * (most + 1e-3);
  return bound;
}

static void chunks_are_the_recurrence(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof rules / sizeof *rules; c++) {
    rule r = rules[c];
    double *in[OPERANDS];
    fill(&r, in);
    const int64_t values = rows_of(&r) * r.value_heads * r.value_dim;
    double *out = zeros(values), *states = zeros(r.sequences * r.value_heads * r.key_dim * r.value_dim);
    recurrence(&r, (const double *const *)in, out, states);
    double *bound = tolerances(values, out, 200);
    kernel_check check = {.what = "the delta rule",
                          .call = call_forward,
                          .data = &r,
                          .inputs = OPERANDS,
                          .in = {in[Q], in[K], in[V], in[DECAY], in[BETA]},
                          .outputs = 1,
                          .out_size = {values},
                          .expected = {out},
                          .bound = {bound}};
    sizes_of(&r, check.in_size);
    run_check(&check);
    for (int i = 0; i < OPERANDS; i++) free(in[i]);
    free(out), free(states), free(bound), free((void *)(uintptr_t)r.starts);
  }
}

/* Cuts a text after its first token, before its last one, at the end of a chunk, and elsewhere. */
static void a_state_goes_on_where_it_was_left(void **state) {
  (void)state;
  static const int64_t splits[] = {1, 3, 10, 63, 64, 65, 70};
  for (size_t c = 0; c < sizeof splits / sizeof *splits; c++) {
    rule r = {1, 71, 2, 4, 9, 21, splits[c], false, NULL};
    double *in[OPERANDS];
    fill(&r, in);
    const int64_t values = rows_of(&r) * r.value_heads * r.value_dim,
                  size = r.value_heads * r.key_dim * r.value_dim;
    double *out = zeros(values), *states = zeros(size);
    recurrence(&r, (const double *const *)in, out, states);
    double *bound = tolerances(values, out, 200), *state_bound = tolerances(size, states, 200);
    kernel_check check = {.what = "the delta rule in two passes",
                          .call = call_split,
                          .data = &r,
                          .inputs = OPERANDS,
                          .in = {in[Q], in[K], in[V], in[DECAY], in[BETA]},
                          .outputs = 2,
                          .out_size = {values, size},
                          .expected = {out, states},
                          .bound = {bound, state_bound}};
    sizes_of(&r, check.in_size);
    run_check(&check);
    for (int i = 0; i < OPERANDS; i++) free(in[i]);
    free(out), free(states), free(bound), free(state_bound);
  }
}

/* --- gradients against differences of the recurrence -------------------------------------------------------- */

static double objective(const rule *r, const double *const in[OPERANDS], const double *weights, double *out,
                        double *states) {
  double sum = 0;
  recurrence(r, in, out, states);
  for (int64_t i = 0; i < rows_of(r) * r->value_heads * r->value_dim; i++) sum += weights[i] * out[i];
  return sum;
}

/* Compares the gradients of up to 60 elements of every operand with differences. Those of k and beta were added to
   `old`. */
static void compare_with_differences(const rule *r, double *const in[OPERANDS], const double *weights,
                                     void *const got[OPERANDS], const double *const old[OPERANDS]) {
  int64_t sizes[OPERANDS];
  double *out = zeros(rows_of(r) * r->value_heads * r->value_dim),
         *states = zeros(r->sequences * r->value_heads * r->key_dim * r->value_dim);
  sizes_of(r, sizes);
  for (int o = 0; o < OPERANDS; o++)
    for (int64_t i = 0; i < sizes[o]; i += 1 + sizes[o] / 60) {
      const double kept = in[o][i], step = 1e-5;
      in[o][i] = kept + step;
      double up = objective(r, (const double *const *)in, weights, out, states);
      in[o][i] = kept - step;
      double down = objective(r, (const double *const *)in, weights, out, states);
      in[o][i] = kept;
      double slope = (up - down) / (2 * step) + (old[o] ? old[o][i] : 0),
             gradient = ((const double *)got[o])[i];
      if (!(fabs(slope - gradient) <= 1e-6 * (1 + fabs(slope))))
        fail_msg("length %lld: gradient %lld of operand %d is %.10g, differences say %.10g",
                 (long long)r->length, (long long)i, o, gradient, slope);
    }
  free(out), free(states);
}

static void backward_agrees_with_differences(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof rules / sizeof *rules; c++) {
    rule r = rules[c];
    double *in[OPERANDS];
    int64_t sizes[OPERANDS];
    fill(&r, in);
    sizes_of(&r, sizes);
    double *weights = random_values(&randomness, sizes[V], 1),
           *old[OPERANDS] = {[K] = random_values(&randomness, sizes[K], 1),
                             [BETA] = random_values(&randomness, sizes[BETA], 1)};
    const ch_kernels *wide = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
    void *inputs[OPERANDS + 1], *got[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) inputs[i] = in[i], got[i] = reals_from(wide, sizes[i], old[i]);
    inputs[OPERANDS] = weights;
    call_backward(wide, inputs, got, NULL, &r);
    compare_with_differences(&r, in, weights, got, (const double *const *)old);
    kernel_check check = {.what = "the delta rule backwards",
                          .call = call_backward,
                          .data = &r,
                          .inputs = OPERANDS + 1,
                          .in = {in[Q], in[K], in[V], in[DECAY], in[BETA], weights},
                          .outputs = OPERANDS,
                          .initial = {[K] = old[K], [BETA] = old[BETA]}};
    sizes_of(&r, check.in_size);
    sizes_of(&r, check.out_size);
    check.in_size[OPERANDS] = sizes[V];
    for (int i = 0; i < OPERANDS; i++) {
      check.expected[i] = got[i];
      check.bound[i] = tolerances(sizes[i], got[i], 500);
    }
    run_check(&check);
    for (int i = 0; i < OPERANDS; i++)
      free(in[i]), free(got[i]), free(old[i]), free((void *)(uintptr_t)check.bound[i]);
    free(weights), free((void *)(uintptr_t)r.starts);
  }
}

/* --- short convolutions ------------------------------------------------------------------------------------- */

typedef struct conv {
  int64_t sequences, length, channels, taps, split;
  bool weighted, documents;
} conv;

/* Returns the filtered value of one token, whose own tap is the last. The token's document begins at `start`. */
static double filtered(const conv *c, const double *x, const double *weight, int64_t row, int64_t channel,
                       int64_t start) {
  double z = 0;
  if (!c->weighted) return x[row * c->channels + channel];
  for (int64_t s = 0; s < c->taps; s++) {
    int64_t back = c->taps - 1 - s;
    if (row % c->length - back >= start)
      z += weight[channel * c->taps + s] * x[(row - back) * c->channels + channel];
  }
  return z;
}

static int32_t start_of(const conv *c, int64_t t) {
  return c->documents ? (int32_t)(t / 4 * 4) : 0;
}

static double silu(double z) {
  return z / (1 + exp(-z));
}

static ch_short_conv describe_conv(const conv *c, const int32_t *starts) {
  return (ch_short_conv){.team = all_threads(),
                         .sequences = c->sequences,
                         .length = c->length,
                         .channels = c->channels,
                         .taps = c->taps,
                         .document_start = c->documents ? starts : NULL};
}

static int32_t *starts_of(const conv *c) {
  int32_t *starts = malloc((size_t)(c->sequences * c->length) * sizeof *starts);
  assert_non_null(starts);
  for (int64_t row = 0; row < c->sequences * c->length; row++) starts[row] = start_of(c, row % c->length);
  return starts;
}

/* Runs the forward pass, and the backward pass from in[2]. Writes y, adds dx, and writes dw. */
static void call_conv(const ch_kernels *kernels, void *const *in, void **out, void *unused,
                      const void *data) {
  const conv *c = data;
  int32_t *starts = starts_of(c);
  ch_short_conv a = describe_conv(c, starts);
  (void)unused;
  a.x = in[0];
  a.weight = c->weighted ? in[1] : NULL;
  a.y = out[0];
  a.scratch = poisoned(kernels->short_conv_scratch(&a, true));
  kernels->short_conv_forward(&a);
  kernels->short_conv_backward(
      &a, &(ch_short_conv_gradient){
              .y = in[2], .x = out[1], .weight = c->weighted ? out[2] : NULL, .add_x = true});
  free(a.scratch), free(starts);
}

/* Runs calls of `split` tokens. Each starts from the state that the one before stores. */
static void call_conv_split(const ch_kernels *kernels, void *const *in, void **out, void *unused,
                            const void *data) {
  const conv *c = data;
  const size_t size = ch_dtype_size(kernels->dtype);
  int32_t before[1] = {0};
  void *states = poisoned((size_t)((c->taps - 1) * c->channels) * size);
  (void)unused;
  for (int64_t first = 0, count; first < c->length; first += count) {
    ch_short_conv a = describe_conv(c, NULL);
    count = first == 0 ? c->split : c->length - first < c->split ? c->length - first : c->split;
    a.length = count;
    a.x = (char *)in[0] + (size_t)(first * c->channels) * size;
    a.weight = in[1];
    a.y = (char *)out[0] + (size_t)(first * c->channels) * size;
    a.states = states;
    a.tokens_before = before;
    a.scratch = poisoned(kernels->short_conv_scratch(&a, false));
    kernels->short_conv_forward(&a);
    kernels->short_conv_keep(&a);
    free(a.scratch);
    before[0] += (int32_t)count;
  }
  free(states);
}

static const conv convs[] = {{2, 9, 5, 4, 0, true, false},  {2, 9, 37, 4, 0, true, true},
                             {1, 3, 16, 1, 0, true, false}, {3, 40, 21, 7, 0, true, true},
                             {2, 5, 19, 1, 0, false, true}, {1, 1, 3, 4, 0, true, false}};

static void convolutions_follow_their_equation_both_ways(void **state) {
  (void)state;
  for (size_t n = 0; n < sizeof convs / sizeof *convs; n++) {
    const conv *c = &convs[n];
    const int64_t count = c->sequences * c->length * c->channels, weights = c->channels * c->taps;
    double *x = random_values(&randomness, count, 1), *w = random_values(&randomness, weights, 1),
           *d = random_values(&randomness, count, 1), *old = random_values(&randomness, count, 1);
    double *y = zeros(count), *dx = zeros(count), *dw = zeros(weights);
    memcpy(dx, old, (size_t)count * sizeof *dx);
    for (int64_t i = 0; i < count; i++) {
      const int64_t row = i / c->channels, channel = i % c->channels, t = row % c->length,
                    start = start_of(c, t);
      const double z = filtered(c, x, w, row, channel, start), s = 1 / (1 + exp(-z)),
                   dz = d[i] * s * (1 + z * (1 - s));
      y[i] = silu(z);
      if (!c->weighted) dx[i] += dz;
      for (int64_t back = 0; c->weighted && back < c->taps && t - back >= start; back++) {
        dx[i - back * c->channels] += dz * w[channel * c->taps + c->taps - 1 - back];
        dw[channel * c->taps + c->taps - 1 - back] += dz * x[i - back * c->channels];
      }
    }
    double *bounds[] = {tolerances(count, y, 20), tolerances(count, dx, 20), tolerances(weights, dw, 40)};
    kernel_check check = {.what = "short convolutions",
                          .call = call_conv,
                          .data = c,
                          .inputs = 3,
                          .in_size = {count, weights, count},
                          .in = {x, w, d},
                          .outputs = c->weighted ? 3 : 2,
                          .out_size = {count, count, weights},
                          .initial = {NULL, old, NULL},
                          .expected = {y, dx, dw},
                          .bound = {bounds[0], bounds[1], bounds[2]}};
    run_check(&check);
    for (int i = 0; i < 3; i++) free(bounds[i]);
    free(x), free(w), free(d), free(old), free(y), free(dx), free(dw);
  }
}

static void convolutions_go_on_where_they_were_left(void **state) {
  (void)state;
  for (int64_t split = 1; split < 7; split++) {
    const conv c = {1, 11, 21, 4, split, true, false};
    const int64_t count = c.length * c.channels, weights = c.channels * c.taps;
    double *x = random_values(&randomness, count, 1), *w = random_values(&randomness, weights, 1),
           *y = zeros(count);
    for (int64_t i = 0; i < count; i++) y[i] = silu(filtered(&c, x, w, i / c.channels, i % c.channels, 0));
    double *bound = tolerances(count, y, 20);
    kernel_check check = {.what = "short convolutions in passes",
                          .call = call_conv_split,
                          .data = &c,
                          .inputs = 2,
                          .in_size = {count, weights},
                          .in = {x, w},
                          .outputs = 1,
                          .out_size = {count},
                          .expected = {y},
                          .bound = {bound}};
    run_check(&check);
    free(x), free(w), free(y), free(bound);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_are_the_recurrence),
      cmocka_unit_test(a_state_goes_on_where_it_was_left),
      cmocka_unit_test(backward_agrees_with_differences),
      cmocka_unit_test(convolutions_follow_their_equation_both_ways),
      cmocka_unit_test(convolutions_go_on_where_they_were_left),
  };
  ch_random_seed(&randomness, 23, 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
