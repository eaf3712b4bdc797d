/* Tests mixtures of experts: choices, weights, loads and the balance loss, against plain loops. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "graph/ops.h"
#include "graph/plan.h"
#include "team_testing.h"

enum { SEQUENCES = 3, LENGTH = 7, ROWS = SEQUENCES * LENGTH, EXPERTS = 5, WIDTH = 6, HIDDEN = 4 };
enum { X, LOGITS, BIAS, MATRICES, LEAVES = MATRICES + 3 * EXPERTS };

/* A graph of one mixture of experts, and the inputs and outputs of its runs. */
typedef struct mixture {
  double x[ROWS * WIDTH], logits[ROWS * EXPERTS], bias[EXPERTS], matrix[3 * EXPERTS][HIDDEN * WIDTH];
  double gradient_of[LEAVES][ROWS * WIDTH]; /* gradient of each leaf; the largest has ROWS * WIDTH elements */
  void *gradients[LEAVES];
  ch_tensor params[LEAVES];
  ch_plan *plan;
  ch_gemm *gemm;
  ch_workspace workspace;
  ch_routing routing;
  int64_t load[2 * EXPERTS];
} mixture;

typedef struct spec {
  int64_t active;
  bool renormalise, biased, backward;
  double coefficient;
} spec;

static ch_error error;

static void fill(mixture *m) {
  ch_random random;
  ch_random_seed(&random, 31, 0);
  memset(m, 0, sizeof *m);
  for (int i = 0; i < ROWS * WIDTH; i++) m->x[i] = ch_random_normal(&random);
  for (int i = 0; i < ROWS * EXPERTS; i++) m->logits[i] = 1.5 * ch_random_normal(&random);
  for (int k = 0; k < 3 * EXPERTS; k++)
    for (int i = 0; i < HIDDEN * WIDTH; i++) m->matrix[k][i] = ch_random_normal(&random);
  m->params[X] = (ch_tensor){CH_F64, 2, {ROWS, WIDTH}, m->x};
  m->params[LOGITS] = (ch_tensor){CH_F64, 2, {ROWS, EXPERTS}, m->logits};
  m->params[BIAS] = (ch_tensor){CH_F64, 1, {EXPERTS}, m->bias};
  for (int k = 0; k < 3 * EXPERTS; k++) {
    bool down = k >= 2 * EXPERTS;
    m->params[MATRICES + k] =
        (ch_tensor){CH_F64, 2, {down ? WIDTH : HIDDEN, down ? HIDDEN : WIDTH}, m->matrix[k]};
  }
  for (int i = 0; i < LEAVES; i++) m->gradients[i] = m->gradient_of[i];
  assert_int_equal(ch_gemm_create(ch_kernels_best(CH_F64), all_threads(), &m->gemm, &error), CH_OK);
}

static void plan(mixture *m, spec s) {
  ch_graph *g = ch_graph_create(CH_F64, SEQUENCES, LENGTH);
  ch_node *leaf[LEAVES];
  for (int i = 0; i < LEAVES; i++)
    leaf[i] = ch_graph_param(g, i, "leaf", m->params[i].rank, m->params[i].shape, s.backward && i != BIAS);
  ch_node *chosen = ch_op_choose_experts(g, leaf[LOGITS], s.biased ? leaf[BIAS] : NULL,
                                         &(ch_choice_spec){.active = s.active}, 1);
  ch_node *weights = ch_op_route(
      g, leaf[LOGITS], chosen,
      &(ch_route_spec){.renormalise = s.renormalise, .scale = 1, .balance_coefficient = s.coefficient});
  ch_node *const *matrices = leaf + MATRICES;
  ch_node *root = ch_op_experts(
      g, leaf[X], weights, chosen,
      &(ch_expert_weights){
          .experts = EXPERTS, .gate = matrices, .up = matrices + EXPERTS, .down = matrices + 2 * EXPERTS});
  ch_plan_options options = {.backward = s.backward};
  ch_plan_free(m->plan);
  if (ch_plan_create(g, root, ch_kernels_best(CH_F64), all_threads(), &options, &m->plan, &error) != CH_OK)
    fail_msg("%s", error.message);
  assert_int_equal(ch_workspace_reserve(&m->workspace, &ch_host_memory, ch_plan_bytes(m->plan), &error),
                   CH_OK);
  memset(m->workspace.data, 0xff, m->workspace.bytes);
}

static const double *run(mixture *m, bool routed) {
  ch_run r = {.kernels = ch_kernels_best(CH_F64),
              .team = all_threads(),
              .gemm = m->gemm,
              .workspace = &m->workspace,
              .params = m->params,
              .gradients = m->gradients,
              .seed = 1,
              .routing = routed ? &m->routing : NULL,
              .error = &error};
  if (ch_plan_run(m->plan, &r) != CH_OK) fail_msg("%s", error.message);
  return ch_run_value(&r, ch_plan_root(m->plan));
}

static void release(mixture *m) {
  ch_plan_free(m->plan);
  ch_gemm_free(m->gemm);
  ch_workspace_free(&m->workspace);
}

/* --- expected values ---------------------------------------------------------------------------------------- */

static void softmax(const double *logits, double p[EXPERTS]) {
  double sum = 0;
  for (int e = 0; e < EXPERTS; e++) sum += p[e] = exp(logits[e]);
  for (int e = 0; e < EXPERTS; e++) p[e] /= sum;
}

/* Returns true if expert e is among the `active` best of a row. */
static bool is_chosen(const mixture *m, const spec *s, int row, int e) {
  double p[EXPERTS];
  int64_t better = 0;
  softmax(m->logits + row * EXPERTS, p);
  for (int o = 0; o < EXPERTS && s->biased; o++) p[o] += m->bias[o];
  for (int o = 0; o < EXPERTS; o++) better += p[o] > p[e] || (p[o] == p[e] && o < e);
  return better < s->active;
}

static void expected_row(const mixture *m, const spec *s, int row, double y[WIDTH]) {
  double p[EXPERTS], total = 0;
  const double *x = m->x + row * WIDTH;
  softmax(m->logits + row * EXPERTS, p);
  for (int e = 0; e < EXPERTS; e++) total += is_chosen(m, s, row, e) ? p[e] : 0;
  memset(y, 0, WIDTH * sizeof *y);
  for (int e = 0; e < EXPERTS; e++) {
    if (!is_chosen(m, s, row, e)) continue;
    double weight = s->renormalise ? p[e] / total : p[e];
    for (int f = 0; f < HIDDEN; f++) {
      double gate = 0, up = 0;
      for (int i = 0; i < WIDTH; i++) gate += m->matrix[e][f * WIDTH + i] * x[i];
      for (int i = 0; i < WIDTH; i++) up += m->matrix[EXPERTS + e][f * WIDTH + i] * x[i];
      for (int i = 0; i < WIDTH; i++)
        y[i] += weight * m->matrix[2 * EXPERTS + e][i * HIDDEN + f] * gate / (1 + exp(-gate)) * up;
    }
  }
}

static double balance_loss(const mixture *m, const spec *s) {
  double loss = 0;
  for (int q = 0; q < SEQUENCES; q++)
    for (int e = 0; e < EXPERTS; e++) {
      double share = 0, mean = 0, p[EXPERTS];
      int64_t length = m->routing.text ? m->routing.text[q] : LENGTH;
      for (int64_t row = q * LENGTH; row < q * LENGTH + length; row++) {
        softmax(m->logits + row * EXPERTS, p);
        share += is_chosen(m, s, (int)row, e) / (double)(length * s->active);
        mean += p[e] / (double)length;
      }
      loss += s->coefficient * EXPERTS * share * mean;
    }
  return loss;
}

/* --- tests -------------------------------------------------------------------------------------------------- */

static void every_token_goes_through_its_best_experts(void **state) {
  (void)state;
  static const spec specs[] = {{1, false, false, false, 0}, {2, true, false, false, 0},
                               {2, false, false, true, 0},  {3, true, true, true, 0},
                               {1, false, true, false, 0},  {EXPERTS, true, false, false, 0}};
  for (size_t c = 0; c < sizeof specs / sizeof *specs; c++) {
    static mixture m;
    fill(&m);
    for (int e = 0; e < EXPERTS; e++) m.bias[e] = 0.4 * (e % 3) - 0.2;
    plan(&m, specs[c]);
    const double *value = run(&m, false);
    for (int row = 0; row < ROWS; row++) {
      double y[WIDTH];
      expected_row(&m, &specs[c], row, y);
      for (int i = 0; i < WIDTH; i++)
        if (!(fabs(value[row * WIDTH + i] - y[i]) <= 1e-12 * (1 + fabs(y[i]))))
          fail_msg("case %d, row %d: %.15g where %.15g is right", (int)c, row, value[row * WIDTH + i], y[i]);
    }
    release(&m);
  }
}

static void a_bias_moves_the_choice_and_nothing_else(void **state) {
  (void)state;
  static mixture m;
  const spec s = {1, false, true, false, 0};
  fill(&m);
  plan(&m, s);
  m.bias[3] = 2; /* above any probability: every row chooses expert 3, weighted by its probability */
  const double *value = run(&m, true);
  double p[EXPERTS], y[WIDTH];
  for (int row = 0; row < ROWS; row++) {
    softmax(m.logits + row * EXPERTS, p);
    expected_row(&m, &s, row, y);
    for (int i = 0; i < WIDTH; i++) assert_true(fabs(value[row * WIDTH + i] - y[i]) < 1e-12);
    assert_true(is_chosen(&m, &s, row, 3));
  }
  release(&m);
}

static void loads_are_counted_in_the_layers_row_and_add_up(void **state) {
  (void)state;
  static mixture m;
  const spec s = {2, true, false, true, 0};
  fill(&m);
  plan(&m, s);
  m.routing.load = m.load;
  run(&m, true);
  run(&m, true);
  run(&m, false); /* without routing, loads are not counted */
  for (int e = 0; e < EXPERTS; e++) {
    int64_t count = 0;
    for (int row = 0; row < ROWS; row++) count += is_chosen(&m, &s, row, e);
    assert_int_equal(m.load[EXPERTS + e], 2 * count);
    assert_int_equal(m.load[e], 0); /* layer 0; the graph is of layer 1 */
  }
  release(&m);
}

static void what_fills_sequences_up_is_no_load(void **state) {
  (void)state;
  static mixture m;
  static const int64_t text[SEQUENCES] = {4, LENGTH, 0};
  const spec s = {2, true, false, false, 0};
  fill(&m);
  plan(&m, s);
  m.routing = (ch_routing){.load = m.load, .text = text};
  run(&m, true);
  for (int e = 0; e < EXPERTS; e++) {
    int64_t count = 0;
    for (int row = 0; row < ROWS; row++)
      count += row % LENGTH < text[row / LENGTH] && is_chosen(&m, &s, row, e);
    assert_int_equal(m.load[EXPERTS + e], count);
  }
  release(&m);
}

static void the_balance_loss_joins_gradients_where_asked_and_only_there(void **state) {
  (void)state;
  static const int64_t text[SEQUENCES] = {LENGTH, 3, 1}; /* tokens of each sequence, without padding */
  for (int c = 0; c < 4; c++) {
    static mixture m;
    const spec s = {2, c % 2, false, true, 0.3};
    static double without[ROWS * EXPERTS], value[ROWS * WIDTH];
    fill(&m);
    plan(&m, s);
    memcpy(value, run(&m, false), sizeof value);
    memcpy(without, m.gradient_of[LOGITS], sizeof without);
    m.routing = (ch_routing){.balance_seed = 0.25, .text = c < 2 ? NULL : text};
    assert_memory_equal(value, run(&m, true), sizeof value);
    assert_true(fabs(m.routing.balance_loss - 0.25 * balance_loss(&m, &s)) < 1e-14);
    double most = 0;
    for (int i = 0; i < ROWS * EXPERTS; i++) {
      double kept = m.logits[i], step = 1e-5, joined = m.gradient_of[LOGITS][i] - without[i];
      m.logits[i] = kept + step;
      double up = balance_loss(&m, &s);
      m.logits[i] = kept - step;
      double down = balance_loss(&m, &s);
      m.logits[i] = kept;
      double expected = 0.25 * (up - down) / (2 * step);
      assert_true(fabs(joined - expected) < 1e-9);
      most = fmax(most, fabs(joined));
    }
    assert_true(most > 1e-4);
    release(&m);
  }
}

static void an_expert_that_nobody_chose_has_a_gradient_of_zero(void **state) {
  (void)state;
  static mixture m;
  fill(&m);
  for (int row = 0; row < ROWS; row++) m.logits[row * EXPERTS + 2] = -50;
  plan(&m, (spec){2, true, false, true, 0});
  memset(m.gradient_of, 0xff, sizeof m.gradient_of);
  run(&m, false);
  for (int kind = 0; kind < 3; kind++)
    for (int i = 0; i < HIDDEN * WIDTH; i++) {
      assert_true(m.gradient_of[MATRICES + kind * EXPERTS + 2][i] == 0);
      assert_true(isfinite(m.gradient_of[MATRICES + kind * EXPERTS + 1][i]));
    }
  release(&m);
}

/* Matrices that are not needed must not be read in decoding, because they may be in a file whose pages are slow to
   load. */
static void an_expert_that_nobody_chose_is_not_read(void **state) {
  (void)state;
  static mixture m;
  const spec s = {2, true, false, false, 0};
  fill(&m);
  for (int row = 0; row < ROWS; row++) m.logits[row * EXPERTS + 2] = -50;
  plan(&m, s);
  for (int kind = 0; kind < 3; kind++) m.params[MATRICES + kind * EXPERTS + 2].data = NULL;
  const double *value = run(&m, false);
  double y[WIDTH];
  expected_row(&m, &s, ROWS - 1, y);
  for (int i = 0; i < WIDTH; i++) assert_true(fabs(value[(ROWS - 1) * WIDTH + i] - y[i]) < 1e-12);
  release(&m);
}

static void matrices_of_16_bits_work_as_their_values_do(void **state) {
  (void)state;
  static mixture m;
  static uint16_t narrow[3 * EXPERTS][HIDDEN * WIDTH];
  static double wide[ROWS * WIDTH];
  const ch_kernels *kernels = ch_kernels_best(CH_F64);
  fill(&m);
  plan(&m, (spec){2, true, false, false, 0});
  for (int k = 0; k < 3 * EXPERTS; k++) {
    kernels->convert_to(all_threads(), HIDDEN * WIDTH, m.matrix[k], CH_BF16, narrow[k]);
    kernels->convert_from(all_threads(), HIDDEN * WIDTH, narrow[k], CH_BF16, m.matrix[k]);
  }
  memcpy(wide, run(&m, false), sizeof wide);
  for (int k = 0; k < 3 * EXPERTS; k++) {
    m.params[MATRICES + k].dtype = CH_BF16;
    m.params[MATRICES + k].data = narrow[k];
  }
  const double *value = run(&m, false);
  for (int i = 0; i < ROWS * WIDTH; i++) assert_true(fabs(value[i] - wide[i]) <= 1e-12 * (1 + fabs(wide[i])));
  release(&m);
}

static void equal_or_broken_logits_still_choose_different_experts(void **state) {
  (void)state;
  static mixture m;
  fill(&m);
  for (int i = 0; i < ROWS * EXPERTS; i++) m.logits[i] = i < EXPERTS ? 0 : NAN;
  m.routing.load = m.load;
  plan(&m, (spec){3, true, true, false, 0});
  run(&m, true);
  for (int e = 0; e < EXPERTS; e++) assert_int_equal(m.load[EXPERTS + e], e < 3 ? ROWS : 0);
  release(&m);
}

static void refuse(ch_graph *graph, ch_node *root, const char *part) {
  ch_plan *made;
  ch_plan_options options = {0};
  assert_int_equal(
      ch_plan_create(graph, root, ch_kernels_best(CH_F64), all_threads(), &options, &made, &error),
      CH_ERROR_CONFIG);
  if (!strstr(error.message, part)) fail_msg("\"%s\" lacks \"%s\"", error.message, part);
}

static void impossible_mixtures_are_explained(void **state) {
  (void)state;
  int64_t rows[] = {4, 3}, other[] = {4, 5};
  for (int c = 0; c < 4; c++) {
    ch_graph *g = ch_graph_create(CH_F64, 1, 4);
    ch_node *x = ch_graph_param(g, 0, "x", 2, rows, false), *w = ch_graph_param(g, 1, "w", 2, other, false);
    ch_node *chosen = ch_op_choose_experts(g, x, NULL, &(ch_choice_spec){.active = c == 0 ? 4 : 2}, 0);
    const ch_route_spec plain = {.renormalise = true, .scale = 1};
    ch_node *weights = ch_op_route(g, x, c == 1 ? x : chosen, &plain);
    ch_expert_weights experts = {.experts = c == 2 ? 0 : 1, .gate = &w, .up = &w, .down = &w};
    ch_node *root = ch_op_experts(g, x, weights, chosen, &experts);
    assert_null(root);
    refuse(g, root,
           c == 0   ? "choose: 4 of 3 experts"
           : c == 1 ? "route: needs the integers"
           : c == 2 ? "0 experts"
                    : "experts: matrix 0 of expert 0 has shape [4, 5]; it must be [4, 3]");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_token_goes_through_its_best_experts),
      cmocka_unit_test(a_bias_moves_the_choice_and_nothing_else),
      cmocka_unit_test(loads_are_counted_in_the_layers_row_and_add_up),
      cmocka_unit_test(what_fills_sequences_up_is_no_load),
      cmocka_unit_test(the_balance_loss_joins_gradients_where_asked_and_only_there),
      cmocka_unit_test(an_expert_that_nobody_chose_has_a_gradient_of_zero),
      cmocka_unit_test(an_expert_that_nobody_chose_is_not_read),
      cmocka_unit_test(matrices_of_16_bits_work_as_their_values_do),
      cmocka_unit_test(equal_or_broken_logits_still_choose_different_experts),
      cmocka_unit_test(impossible_mixtures_are_explained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
