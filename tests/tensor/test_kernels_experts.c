/* Tests the kernels of mixtures of experts on every table against their equations. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

typedef struct routing_case {
  int64_t rows, experts, active;
  bool renormalise, biased, pulled, accumulate;
  const int32_t *chosen;
  bool sigmoid;
  int64_t groups, active_groups;
} routing_case;

enum { PULL_ROWS = 7 };

static const routing_case cases[] = {
    {1, 1, 1, false, false, false, false, .chosen = NULL},
    {9, 5, 2, true, false, true, false, .chosen = NULL},
    {20, 17, 3, false, true, true, true, .chosen = NULL},
    {33, 64, 6, true, true, false, true, .chosen = NULL},
    {300, 256, 8, true, true, true, false, .chosen = NULL},
    {15, CH_MAX_EXPERTS, 4, false, false, true, true, .chosen = NULL},
    {40, 8, 8, true, false, true, false, .chosen = NULL},
    {25, 16, 4, true, true, false, false, .sigmoid = true},
    {30, 24, 3, false, true, true, true, .sigmoid = true, .groups = 4, .active_groups = 2},
    {300, 64, 6, true, true, false, true, .sigmoid = true, .groups = 8, .active_groups = 3},
    {35, 20, 2, false, false, true, false, .groups = 5, .active_groups = 2},
};
enum { CASES = sizeof cases / sizeof *cases };

static void softmax(int64_t n, const double *logits, double *p) {
  double most = logits[0], sum = 0;
  for (int64_t e = 0; e < n; e++) most = fmax(most, logits[e]);
  for (int64_t e = 0; e < n; e++) sum += p[e] = exp(logits[e] - most);
  for (int64_t e = 0; e < n; e++) p[e] /= sum;
}

static void probabilities(const routing_case *c, const double *logits, double *p) {
  if (!c->sigmoid) softmax(c->experts, logits, p);
  for (int64_t e = 0; e < c->experts && c->sigmoid; e++) p[e] = 1 / (1 + exp(-logits[e]));
}

/* Excludes the experts of all but the best groups. Of equal groups, the first is the best. */
static void leave_worse_groups_out(const routing_case *c, double *score) {
  double of_group[64];
  if (c->groups < 2) return;
  int64_t size = c->experts / c->groups;
  for (int64_t g = 0; g < c->groups; g++) {
    of_group[g] = -INFINITY;
    for (int64_t i = g * size; i < (g + 1) * size; i++) {
      if (!c->sigmoid) of_group[g] = fmax(of_group[g], score[i]);
      for (int64_t j = g * size; j < i && c->sigmoid; j++)
        of_group[g] = fmax(of_group[g], score[i] + score[j]);
    }
  }
  for (int64_t g = 0; g < c->groups; g++) {
    int64_t better = 0;
    for (int64_t h = 0; h < c->groups; h++)
      better += of_group[h] > of_group[g] || (of_group[h] == of_group[g] && h < g);
    for (int64_t e = g * size; e < (g + 1) * size && better >= c->active_groups; e++) score[e] = -INFINITY;
  }
}

static ch_routing_rule rule_of(const routing_case *c) {
  return (ch_routing_rule){c->experts, c->active, c->renormalise,  1.5,
                           c->sigmoid, c->groups, c->active_groups};
}

/* Chooses the best experts by repeated search. */
static void choose(const routing_case *c, const double *logits, const double *bias, int32_t *chosen) {
  double *score = zeros(c->experts);
  for (int64_t r = 0; r < c->rows; r++) {
    probabilities(c, logits + r * c->experts, score);
    for (int64_t e = 0; e < c->experts; e++) score[e] += bias ? bias[e] : 0;
    leave_worse_groups_out(c, score);
    for (int64_t j = 0; j < c->active; j++) {
      int64_t best = 0;
      for (int64_t e = 1; e < c->experts; e++)
        if (score[e] > score[best]) best = e;
      chosen[r * c->active + j] = (int32_t)best;
      score[best] = -INFINITY;
    }
  }
  free(score);
}

static void the_best_experts_are_chosen_the_first_of_equals(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 41, 0);
  int usual_threads = omp_get_max_threads();
  for (int i = 0; i < CASES; i++) {
    const routing_case *c = &cases[i];
    double *logits = random_values(&random, c->rows * c->experts, 2);
    double *bias = zeros(c->experts);
    for (int64_t e = 0; e < c->experts; e++) bias[e] = 0.25 * (double)(e % 5);
    for (int64_t e = 0; e < c->experts; e++) logits[e] = 1; /* a row of equal logits */
    int64_t choices = c->rows * c->active;
    int32_t *expected = malloc((size_t)choices * sizeof *expected),
            *got = malloc((size_t)choices * sizeof *got);
    choose(c, logits, c->biased ? bias : NULL, expected);
    for (int number = 0; number < TABLE_COUNT; number++) {
      const ch_kernels *kernels = table_number(number);
      if (!kernels) continue;
      void *real_logits = reals_from(kernels, c->rows * c->experts, logits);
      void *real_bias = reals_from(kernels, c->experts, bias);
      for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
        omp_set_num_threads(threads);
        memset(got, 0xff, (size_t)choices * sizeof *got);
        const ch_routing_rule rule = rule_of(c);
        kernels->choose_experts(all_threads(), c->rows, &rule, real_logits, c->biased ? real_bias : NULL,
                                got);
        if (memcmp(got, expected, (size_t)choices * sizeof *got) != 0)
          fail_msg("case %d, table %s, %d threads chose otherwise", i, kernels->name, threads);
      }
      free(real_logits), free(real_bias);
    }
    omp_set_num_threads(usual_threads);
    free(logits), free(bias), free(expected), free(got);
  }
}

static void call_route(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                       const void *data) {
  (void)scratch;
  const routing_case *c = data;
  const ch_routing_rule rule = rule_of(c);
  kernels->route_forward(all_threads(), c->rows, &rule, in[0], c->chosen, out[0]);
  kernels->route_backward(all_threads(), c->rows, &rule, in[0], c->chosen, in[1], c->pulled ? in[2] : NULL,
                          PULL_ROWS, out[1], out[2], c->accumulate);
}

/* Returns dp_i / dl_e for probabilities p of logits l. */
static double slope(const routing_case *c, const double *p, int32_t i, int64_t e) {
  return c->sigmoid ? (i == e) * p[i] * (1 - p[i]) : p[i] * ((i == e) - p[e]);
}

/* Computes the weights of one row, its pulled sum, and the gradient of its logits. */
static void expected_row(const routing_case *c, const double *logits, const int32_t *chosen,
                         const double *dweights, const double *pull, double *weights, double *pulled,
                         double *dlogits) {
  double *p = zeros(c->experts), *soft = zeros(c->experts), total = 0;
  probabilities(c, logits, p);
  softmax(c->experts, logits, soft); /* probabilities that `pull` weights */
  for (int64_t j = 0; j < c->active; j++) total += c->renormalise ? p[chosen[j]] : 1;
  if (!c->renormalise) total = 1;
  *pulled = 0;
  for (int64_t e = 0; e < c->experts; e++) *pulled += pull ? pull[e] * soft[e] : 0;
  for (int64_t j = 0; j < c->active; j++) weights[j] = 1.5 * p[chosen[j]] / total;
  for (int64_t e = 0; e < c->experts; e++) {
    double of_total = 0; /* d total / d l_e */
    for (int64_t j = 0; j < c->active && c->renormalise; j++) of_total += slope(c, p, chosen[j], e);
    for (int64_t j = 0; j < c->active; j++) {
      double own = p[chosen[j]], of_own = slope(c, p, chosen[j], e);
      dlogits[e] += 1.5 * dweights[j] * (of_own / total - own * of_total / (total * total));
    }
    if (pull) dlogits[e] += soft[e] * (pull[e] - *pulled);
  }
  free(p), free(soft);
}

static void weights_and_their_gradients_follow_the_softmax(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 42, 0);
  for (int i = 0; i < CASES; i++) {
    routing_case c = cases[i];
    int64_t all = c.rows * c.experts, choices = c.rows * c.active;
    int64_t pulls = (c.rows + PULL_ROWS - 1) / PULL_ROWS * c.experts;
    double *logits = random_values(&random, all, 2), *dweights = random_values(&random, choices, 1);
    double *pull = random_values(&random, pulls, 1), *old = random_values(&random, all, 1);
    int32_t *chosen = malloc((size_t)choices * sizeof *chosen);
    choose(&c, logits, NULL, chosen);
    c.chosen = chosen;
    double *weights = zeros(choices), *pulled = zeros(c.rows), *dlogits = zeros(all);
    double *bounds[3] = {zeros(choices), zeros(c.rows), zeros(all)};
    for (int64_t k = 0; k < all && c.accumulate; k++) dlogits[k] = old[k];
    for (int64_t r = 0; r < c.rows; r++) {
      expected_row(&c, logits + r * c.experts, chosen + r * c.active, dweights + r * c.active,
                   c.pulled ? pull + r / PULL_ROWS * c.experts : NULL, weights + r * c.active, pulled + r,
                   dlogits + r * c.experts);
      bounds[1][r] = 100;
      if (!c.pulled) pulled[r] = NAN; /* route_backward does not write it */
    }
    for (int64_t k = 0; k < choices; k++) bounds[0][k] = 40 * fabs(weights[k]);
    for (int64_t k = 0; k < all; k++) bounds[2][k] = 100;
    kernel_check check = {.what = "routing",
                          .call = call_route,
                          .data = &c,
                          .inputs = 3,
                          .outputs = 3,
                          .in_size = {all, choices, pulls},
                          .in = {logits, dweights, pull},
                          .out_size = {choices, c.rows, all},
                          .initial = {NULL, NULL, c.accumulate ? old : NULL},
                          .expected = {weights, pulled, dlogits},
                          .bound = {bounds[0], bounds[1], bounds[2]}};
    run_check(&check);
    free(logits), free(dweights), free(pull), free(old), free(chosen), free(weights), free(pulled),
        free(dlogits);
    for (int b = 0; b < 3; b++) free(bounds[b]);
  }
}

/* --- rows --------------------------------------------------------------------------------------------------- */

typedef struct rows_case {
  int64_t rows, n, count;
  bool accumulate;
  const int32_t *places;
} rows_case;

static void call_rows(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                      const void *data) {
  (void)scratch;
  const rows_case *c = data;
  size_t bytes = (size_t)(c->rows * c->n) * ch_dtype_size(kernels->dtype);
  kernels->swiglu_rows_forward(all_threads(), c->rows, c->n, in[0], in[1], in[2], out[0]);
  memcpy(out[1], in[0], bytes); /* experts run the kernel in place */
  memcpy(out[2], in[1], bytes);
  kernels->swiglu_rows_backward(all_threads(), c->rows, c->n, out[1], out[2], in[2], in[3], out[1], out[2],
                                out[3]);
  kernels->sum_places(all_threads(), c->rows, c->count, c->n, c->places, in[3], out[4], c->accumulate);
}

static void rows_are_weighted_and_brought_back(void **state) {
  (void)state;
  static const rows_case shapes[] = {{1, 1, 1, false, NULL},    {3, 5, 2, true, NULL},
                                     {7, 16, 3, false, NULL},   {10, 33, 1, true, NULL},
                                     {200, 130, 2, true, NULL}, {5, 64, 8, false, NULL}};
  ch_random random;
  ch_random_seed(&random, 43, 0);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    rows_case c = shapes[i];
    int64_t all = c.rows * c.n;
    double *in[4] = {random_values(&random, all, 2), random_values(&random, all, 1),
                     random_values(&random, c.rows, 1), random_values(&random, all, 1)};
    double *old = random_values(&random, all, 1), *values[5], *bounds[5];
    const int64_t out_size[5] = {all, all, all, c.rows, all};
    int32_t *places = malloc((size_t)(c.rows * c.count) * sizeof *places);
    for (int64_t k = 0; k < c.rows * c.count; k++)
      places[k] = (int32_t)ch_random_below(&random, (uint64_t)c.rows);
    c.places = places;
    for (int o = 0; o < 5; o++) values[o] = zeros(out_size[o]), bounds[o] = zeros(out_size[o]);
    for (int64_t k = 0; k < all; k++) {
      int64_t r = k / c.n;
      double g = in[0][k], u = in[1][k], w = in[2][r], d = in[3][k], s = 1 / (1 + exp(-g));
      values[0][k] = w * g * s * u;
      values[1][k] = w * d * u * (s + g * s * (1 - s));
      values[2][k] = w * d * g * s;
      values[3][r] += d * g * s * u;
      bounds[3][r] += 8 * (double)c.n * fabs(d * g * s * u) + 1e-20;
      values[4][k] = c.accumulate ? old[k] : 0;
      for (int64_t j = 0; j < c.count; j++) values[4][k] += in[3][places[r * c.count + j] * c.n + k % c.n];
      for (int o = 0; o < 3; o++) bounds[o][k] = 16 * (1 + fabs(g)) * (1 + fabs(u)) * (1 + fabs(d)) * fabs(w);
      bounds[4][k] = 40;
    }
    kernel_check check = {
        .what = "rows of experts", .call = call_rows, .data = &c, .inputs = 4, .outputs = 5};
    for (int k = 0; k < 4; k++) check.in[k] = in[k], check.in_size[k] = k == 2 ? c.rows : all;
    for (int o = 0; o < 5; o++)
      check.out_size[o] = out_size[o], check.expected[o] = values[o], check.bound[o] = bounds[o];
    check.initial[4] = c.accumulate ? old : NULL;
    run_check(&check);
    for (int k = 0; k < 4; k++) free(in[k]);
    for (int o = 0; o < 5; o++) free(values[o]), free(bounds[o]);
    free(old), free(places);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_best_experts_are_chosen_the_first_of_equals),
      cmocka_unit_test(weights_and_their_gradients_follow_the_softmax),
      cmocka_unit_test(rows_are_weighted_and_brought_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
