/* Tests that products with the same left factor run as one step, and that their values are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/ops.h"
#include "graph/plan.h"
#include "team_testing.h"

enum { MOST_ROWS = 40, IN = 5, OUT = 6, PARAMS = 6, MOST_SEEN = 32 };
enum { X, FIRST, SECOND, THIRD, LATE, BIAS };

/* Returns a small integer. Every type holds it exactly, and sums do not depend on the order. */
static float number(int param, int64_t i) {
  return (float)((i * 7 + param * 3) % 5 - 2);
}

typedef struct seen {
  const ch_node *node[MOST_SEEN];
  int count;
  double share;
} seen;

static ch_status note(void *context, const ch_run *run, const ch_node *node) {
  seen *s = context;
  assert_true(s->count < MOST_SEEN);
  assert_true(ch_run_share(run) > s->share && ch_run_share(run) < 1);
  s->share = ch_run_share(run);
  s->node[s->count++] = node;
  return CH_OK;
}

static int place_of(const seen *s, const ch_node *node) {
  int found = -1;
  for (int i = 0; i < s->count; i++)
    if (s->node[i] == node) {
      assert_int_equal(found, -1); /* each node runs once */
      found = i;
    }
  assert_true(found >= 0);
  return found;
}

typedef struct lab {
  int64_t rows;
  ch_tensor params[PARAMS];
  ch_node *first, *second, *made, *other, *third, *root;
  ch_plan *plan;
  seen seen;
} lab;

static void add_param(lab *l, int param, ch_dtype dtype, int rank, int64_t rows, int64_t columns) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  float values[MOST_ROWS * IN];
  l->params[param] = (ch_tensor){dtype, rank, {rows, columns}, NULL};
  int64_t count = ch_tensor_count(&l->params[param]);
  for (int64_t i = 0; i < count; i++) values[i] = number(param, i);
  l->params[param].data = malloc(ch_tensor_bytes(&l->params[param]));
  assert_non_null(l->params[param].data);
  kernels->convert_to(all_threads(), count, values, dtype, l->params[param].data);
}

/* Builds three products of x with parameters. Before the third are a product of x with a computed matrix and a
   product of p[X]. */
static ch_graph *build(lab *l) {
  ch_graph *graph = ch_graph_create(CH_F32, 1, l->rows);
  ch_node *p[PARAMS];
  for (int i = 0; i < PARAMS; i++)
    p[i] = ch_graph_param(graph, i, "p", l->params[i].rank, l->params[i].shape, false);
  ch_node *x = ch_op_scale(graph, p[X], 2);
  l->first = ch_op_linear(graph, x, p[FIRST], p[BIAS]);
  ch_node *sum = ch_op_scale(graph, l->first, 3);
  l->second = ch_op_linear(graph, x, p[SECOND], NULL);
  sum = ch_op_add(graph, sum, l->second);
  l->made = ch_op_linear(graph, x, ch_op_scale(graph, p[LATE], 4), NULL);
  l->other = ch_op_linear(graph, p[X], p[THIRD], NULL);
  l->third = ch_op_linear(graph, x, p[THIRD], p[BIAS]);
  sum = ch_op_add(graph, sum, ch_op_add(graph, l->made, l->other));
  l->root = ch_op_add(graph, sum, l->third);
  return graph;
}

static double expected(int64_t r, int64_t o) {
  double sum = (3 + 1) * number(BIAS, o);
  for (int64_t i = 0; i < IN; i++) {
    double x = number(X, r * IN + i), first = number(FIRST, o * IN + i), second = number(SECOND, o * IN + i);
    sum +=
        2 * x * (3 * first + second + 4 * number(LATE, o * IN + i)) + (1 + 2) * x * number(THIRD, o * IN + i);
  }
  return sum;
}

static void run(lab *l, ch_profile *profile) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  ch_error error;
  ch_gemm *gemm;
  ch_workspace workspace = {0};
  const ch_plan_options options = {.backward = false};
  const ch_observer observer = {note, &l->seen};
  ch_graph *graph = build(l);
  if (ch_plan_create(graph, l->root, kernels, all_threads(), &options, &l->plan, &error) != CH_OK)
    fail_msg("%s", error.message);
  assert_int_equal(ch_gemm_create(kernels, all_threads(), &gemm, &error), CH_OK);
  assert_int_equal(ch_workspace_reserve(&workspace, &ch_host_memory, ch_plan_bytes(l->plan), &error), CH_OK);
  memset(workspace.data, 0xff, workspace.bytes); /* NaN shows reads of unwritten memory */
  ch_run call = {.kernels = kernels,
                 .team = all_threads(),
                 .gemm = gemm,
                 .workspace = &workspace,
                 .params = l->params,
                 .observer = &observer,
                 .profile = profile,
                 .error = &error};
  if (ch_plan_run(l->plan, &call) != CH_OK) fail_msg("%s", error.message);
  const float *value = ch_run_value(&call, l->root);
  for (int64_t r = 0; r < l->rows; r++)
    for (int64_t o = 0; o < OUT; o++)
      if (value[r * OUT + o] != (float)expected(r, o))
        fail_msg("row %d, column %d is %g instead of %g", (int)r, (int)o, value[r * OUT + o], expected(r, o));
  ch_gemm_free(gemm);
  ch_workspace_free(&workspace);
}

static lab lab_of(int64_t rows, ch_dtype second) {
  lab l = {.rows = rows};
  add_param(&l, X, CH_F32, 2, rows, IN);
  add_param(&l, FIRST, CH_F32, 2, OUT, IN);
  add_param(&l, SECOND, second, 2, OUT, IN);
  add_param(&l, THIRD, CH_F32, 2, OUT, IN);
  add_param(&l, LATE, CH_F32, 2, OUT, IN);
  add_param(&l, BIAS, CH_F32, 1, OUT, 0);
  return l;
}

static void forget(lab *l) {
  ch_plan_free(l->plan);
  for (int i = 0; i < PARAMS; i++) free(l->params[i].data);
}

/* Tests one, few and many rows. The second matrix has each of three types. */
static void values_are_those_of_products_one_by_one(void **state) {
  (void)state;
  static const int64_t rows[] = {1, 3, 16, MOST_ROWS};
  static const ch_dtype second[] = {CH_F32, CH_F16, CH_BF16};
  for (int r = 0; r < 4; r++)
    for (int d = 0; d < 3; d++) {
      lab l = lab_of(rows[r], second[d]);
      run(&l, NULL);
      forget(&l);
    }
}

static void products_of_one_value_with_parameters_run_one_after_the_other(void **state) {
  (void)state;
  lab l = lab_of(3, CH_BF16);
  run(&l, NULL);
  int first = place_of(&l.seen, l.first);
  assert_int_equal(place_of(&l.seen, l.second), first + 1);
  assert_int_equal(place_of(&l.seen, l.third), first + 2);
  assert_true(place_of(&l.seen, l.made) > first + 2);  /* the matrix of `made` is computed later */
  assert_true(place_of(&l.seen, l.other) > first + 2); /* the left factor of `other` is another node */
  assert_int_equal(place_of(&l.seen, l.root), l.seen.count - 1);
  forget(&l);
}

/* A profile has an event for each product. The products of one step have equal times. */
static void a_profile_counts_each_product(void **state) {
  (void)state;
  ch_profile profile = {.keep_events = true};
  lab l = lab_of(3, CH_F32);
  run(&l, &profile);
  assert_int_equal(profile.event_count, l.seen.count);
  int first = place_of(&l.seen, l.first);
  const ch_profile_event *event = profile.events + first;
  for (int i = 0; i < 3; i++) {
    assert_string_equal(event[i].name, "linear");
    assert_true(event[i].flops == 2.0 * 3 * IN * OUT);
    assert_true(event[i].seconds == event[0].seconds);
    if (i > 0) assert_true(event[i].start >= event[i - 1].start);
  }
  forget(&l);
  ch_profile_release(&profile);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_those_of_products_one_by_one),
      cmocka_unit_test(products_of_one_value_with_parameters_run_one_after_the_other),
      cmocka_unit_test(a_profile_counts_each_product),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
