/* Tests graphs that compute in BF16: values and gradients against those of the graph in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "graph/ops.h"
#include "graph/plan.h"
#include "team_testing.h"

/* ROWS rows are enough for the kernels of large products. The logits of VOCABULARY words are computed in two chunks
   of 256 rows and a remainder. */
enum { ROWS = 600, WIDTH = 21, HIDDEN = 34, VOCABULARY = 70001, LEAVES = 6, SHORT_ROWS = 45 };
enum { EMBEDDED, NORM, GATE, UP, DOWN, BIAS };

static ch_error error;

typedef struct leaf {
  int64_t rows, columns; /* shape; columns = 0: a vector */
} leaf;

typedef ch_node *(*builder)(ch_graph *graph, ch_node *const *p);

typedef struct lab {
  const ch_kernels *kernels;
  const leaf *leaves;
  builder build;
  int64_t rows;
  ch_tensor params[LEAVES];
  void *gradients[LEAVES];
  double *value;
  int32_t targets[ROWS];
} lab;

static double at(const ch_tensor *tensor, const void *data, int64_t i) {
  return tensor->dtype == CH_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Fills the leaves with random values, which BF16 holds exactly if `exact`. */
static void fill(lab *l, bool exact) {
  ch_random random;
  ch_random_seed(&random, 5, 0);
  for (int i = 0; i < LEAVES && l->leaves[i].rows; i++) {
    int64_t rows = l->leaves[i].rows, columns = l->leaves[i].columns;
    l->params[i] = (ch_tensor){l->kernels->dtype, columns ? 2 : 1, {rows, columns}, NULL};
    int64_t count = ch_tensor_count(&l->params[i]);
    size_t bytes = ch_tensor_bytes(&l->params[i]);
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t j = 0; j < count; j++) {
      values[j] = ch_random_normal(&random) * (columns ? 0.5 : 0.2) + (columns ? 0 : 1);
      if (exact) values[j] = round(fmin(fmax(values[j], -2), 2) * 16) / 16;
    }
    l->params[i].data = malloc(bytes);
    l->gradients[i] = malloc(bytes);
    l->kernels->convert_from(all_threads(), count, values, CH_F64, l->params[i].data);
    memset(l->gradients[i], 0xff, bytes);
    free(values);
  }
  for (int i = 0; i < ROWS; i++) l->targets[i] = i % 7 == 3 ? -1 : (int32_t)((i * 7919) % VOCABULARY);
}

/* Runs a step of one micro-batch, or of two with `accumulation`. */
static void run(lab *l, ch_dtype compute, bool recompute, bool accumulation) {
  ch_graph *graph = ch_graph_create(l->kernels->dtype, 1, l->rows);
  graph->compute = compute;
  graph->trainable = true;
  ch_node *leaf_nodes[LEAVES] = {0};
  for (int i = 0; i < LEAVES && l->leaves[i].rows; i++)
    leaf_nodes[i] = ch_graph_param(graph, i, "leaf", l->params[i].rank, l->params[i].shape, true);
  ch_node *root = l->build(graph, leaf_nodes);
  ch_plan_options options = {.backward = true, .recompute = recompute, .accumulation = accumulation};
  ch_plan *plan;
  ch_gemm *gemm;
  ch_workspace workspace = {0};
  if (ch_plan_create(graph, root, l->kernels, all_threads(), &options, &plan, &error) != CH_OK)
    fail_msg("%s", error.message);
  assert_int_equal(ch_gemm_create(l->kernels, all_threads(), &gemm, &error), CH_OK);
  assert_int_equal(ch_workspace_reserve(&workspace, &ch_host_memory, ch_plan_bytes(plan), &error), CH_OK);
  memset(workspace.data, 0xff, workspace.bytes); /* NaN shows reads of unwritten memory */
  ch_run call = {.kernels = l->kernels,
                 .team = all_threads(),
                 .gemm = gemm,
                 .workspace = &workspace,
                 .params = l->params,
                 .gradients = l->gradients,
                 .seed = 0.75,
                 .inputs = {[CH_INPUT_TARGETS] = l->targets},
                 .error = &error};
  for (int i = 0; i < (accumulation ? 2 : 1); i++) {
    call.accumulate = call.follows_micro_batch = i > 0;
    call.more_micro_batches = accumulation && i == 0;
    if (ch_plan_run(plan, &call) != CH_OK) fail_msg("%s", error.message);
  }
  int64_t count = ch_node_count(root);
  l->value = malloc((size_t)count * sizeof *l->value);
  l->kernels->convert_to(all_threads(), count, ch_run_value(&call, root), CH_F64, l->value);
  ch_plan_free(plan);
  ch_gemm_free(gemm);
  ch_workspace_free(&workspace);
}

static void forget(lab *l) {
  for (int i = 0; i < LEAVES && l->leaves[i].rows; i++) {
    free(l->params[i].data);
    free(l->gradients[i]);
  }
  free(l->value);
}

/* Returns the distance from `got` to `expected`, divided by the norm of `expected`. */
static double distance(const ch_tensor *a, const void *got, const ch_tensor *b, const void *expected) {
  double far = 0, size = 0;
  for (int64_t i = 0; i < ch_tensor_count(a); i++) {
    double difference = at(a, got, i) - at(b, expected, i);
    far += difference * difference;
    size += at(b, expected, i) * at(b, expected, i);
  }
  return sqrt(far / size);
}

/* --- a linear layer ----------------------------------------------------------------------------------------- */

static ch_node *build_linear(ch_graph *g, ch_node *const *p) {
  return ch_op_linear(g, p[0], p[1], p[2]);
}

/* Three heads per row pass through one matrix, so the product has three times as many rows. */
static const leaf linear_leaves[LEAVES] = {{SHORT_ROWS, 3 * WIDTH}, {HIDDEN, WIDTH}, {HIDDEN, 0}};

static void what_bf16_holds_is_multiplied_without_an_error(void **state) {
  (void)state;
  const ch_kernels *tables[] = {ch_kernels_for(CH_F64, CH_ISA_PLAIN), ch_kernels_best(CH_F32)};
  for (int t = 0; t < 2; t++) {
    lab rounded = {.kernels = tables[t], .leaves = linear_leaves, .build = build_linear, .rows = SHORT_ROWS};
    lab exact = rounded;
    exact.kernels = tables[0];
    fill(&rounded, true);
    fill(&exact, true);
    run(&rounded, CH_BF16, false, false);
    run(&exact, CH_F64, false, false);
    for (int64_t i = 0; i < SHORT_ROWS * 3 * HIDDEN; i++)
      assert_true(fabs(rounded.value[i] - exact.value[i]) <= 1e-5);
    for (int i = 0; i < 3; i++)
      assert_true(distance(&rounded.params[i], rounded.gradients[i], &exact.params[i], exact.gradients[i]) <
                  (t ? 1e-6 : 1e-14));
    forget(&rounded);
    forget(&exact);
  }
}

/* --- a small network ---------------------------------------------------------------------------------------- */

static ch_node *build_network(ch_graph *g, ch_node *const *p) {
  ch_node *x = ch_op_rmsnorm(g, ch_op_gelu(g, p[EMBEDDED]), p[NORM], 1e-5);
  ch_node *hidden = ch_op_swiglu(g, ch_op_linear(g, x, p[GATE], NULL), ch_op_linear(g, x, p[UP], NULL));
  ch_node *y = ch_op_linear(g, hidden, p[DOWN], p[BIAS]);
  return ch_op_lm_loss(g, y, p[EMBEDDED], ch_graph_input(g, CH_INPUT_TARGETS), 0);
}

static const leaf network_leaves[LEAVES] = {{ROWS, WIDTH},   {WIDTH, 0},      {HIDDEN, WIDTH},
                                            {HIDDEN, WIDTH}, {WIDTH, HIDDEN}, {WIDTH, 0}};

/* Compares a network in BF16 with the network in double. The tied embedding has ROWS words. */
static void check_network(bool recompute, bool accumulation, lab *rounded) {
  lab exact = {.kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN),
               .leaves = network_leaves,
               .build = build_network,
               .rows = ROWS};
  *rounded = exact;
  rounded->kernels = ch_kernels_best(CH_F32);
  fill(&exact, false);
  fill(rounded, false);
  for (int i = 0; i < ROWS; i++) exact.targets[i] = rounded->targets[i] = i % 7 == 3 ? -1 : (i * 31) % ROWS;
  run(rounded, CH_BF16, recompute, accumulation);
  run(&exact, CH_F64, false, accumulation);
  double far = 0, size = 0;
  for (int64_t i = 0; i < ROWS; i++) {
    far += fabs(rounded->value[i] - exact.value[i]);
    size += fabs(exact.value[i]);
  }
  assert_true(far / size > 1e-6); /* values were rounded */
  assert_true(far / size < 0.004);
  for (int i = 0; i < LEAVES; i++) {
    double share = distance(&rounded->params[i], rounded->gradients[i], &exact.params[i], exact.gradients[i]);
    if (!(share > 1e-5 && share < 0.02)) fail_msg("leaf %d: the gradient is off by %g of its norm", i, share);
  }
  forget(&exact);
}

static void a_networks_gradients_are_near_those_in_double(void **state) {
  (void)state;
  lab rounded;
  check_network(false, false, &rounded);
  forget(&rounded);
  check_network(false, true, &rounded);
  forget(&rounded);
}

static void values_computed_again_give_the_same_bits(void **state) {
  (void)state;
  lab kept, again;
  check_network(false, false, &kept);
  check_network(true, false, &again);
  for (int i = 0; i < LEAVES; i++)
    assert_memory_equal(kept.gradients[i], again.gradients[i], ch_tensor_bytes(&kept.params[i]));
  forget(&kept);
  forget(&again);
}

/* --- the head alone ----------------------------------------------------------------------------------------- */

static ch_node *build_head(ch_graph *g, ch_node *const *p) {
  return ch_op_lm_loss(g, p[0], p[1], ch_graph_input(g, CH_INPUT_TARGETS), 0);
}

static void logits_in_several_chunks_are_summed_up(void **state) {
  (void)state;
  static const leaf leaves[LEAVES] = {{ROWS, 5}, {VOCABULARY, 5}};
  lab rounded = {.kernels = ch_kernels_best(CH_F32), .leaves = leaves, .build = build_head, .rows = ROWS};
  lab narrow = rounded;
  fill(&rounded, true);
  fill(&narrow, true);
  run(&rounded, CH_BF16, false, false);
  run(&narrow, CH_F32, false, false);
  for (int i = 0; i < ROWS; i++)
    assert_true(fabs(rounded.value[i] - narrow.value[i]) <= 1e-5 * (1 + fabs(narrow.value[i])));
  for (int i = 0; i < 2; i++)
    assert_true(distance(&rounded.params[i], rounded.gradients[i], &narrow.params[i], narrow.gradients[i]) <
                0.004);
  forget(&rounded);
  forget(&narrow);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_bf16_holds_is_multiplied_without_an_error),
      cmocka_unit_test(a_networks_gradients_are_near_those_in_double),
      cmocka_unit_test(values_computed_again_give_the_same_bits),
      cmocka_unit_test(logits_in_several_chunks_are_summed_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
