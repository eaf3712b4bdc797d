/* Helpers of the gradient tests, which compare the backward pass with central differences in double. A test lists its
 * cases and runs the two tests at the end of this file. */
#ifndef GRADIENT_TESTING_H
#define GRADIENT_TESTING_H

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

enum { MAX_LEAVES = 20, SEQUENCES = 2, LENGTH = 5, ROWS = SEQUENCES * LENGTH, VOCABULARY = 7 };

/* A graph over parameters (leaves). Leaves of rank 2 with ROWS rows are used as activations. */
typedef struct gradient_case {
  const char *name;
  int leaves;
  int64_t shape[MAX_LEAVES][3]; /* dimensions of each leaf: one, two or three, then zeros */
  ch_node *(*build)(ch_graph *graph, ch_node *const *p);
} gradient_case;

/* --- running a case ----------------------------------------------------------------------------------------- */

typedef struct bench {
  const gradient_case *c;
  ch_plan *plan;
  ch_gemm *gemm;
  ch_workspace workspace;
  ch_tensor params[MAX_LEAVES];
  void *gradients[MAX_LEAVES];
  int32_t ids[ROWS], targets[ROWS], positions[ROWS], starts[ROWS];
  float pixels[SEQUENCES * 2 * 4 * 4];
} bench;

static ch_error error;

static inline void plan_case(bench *b, bool backward, bool recompute, bool accumulation) {
  ch_graph *graph = ch_graph_create(CH_F64, SEQUENCES, LENGTH);
  ch_node *leaf[MAX_LEAVES];
  for (int i = 0; i < b->c->leaves; i++)
    leaf[i] = ch_graph_param(graph, i, "leaf", b->params[i].rank, b->params[i].shape, backward);
  ch_node *root = b->c->build(graph, leaf);
  ch_plan_options options = {.backward = backward, .recompute = recompute, .accumulation = accumulation};
  if (ch_plan_create(graph, root, ch_kernels_best(CH_F64), all_threads(), &options, &b->plan, &error) !=
      CH_OK)
    fail_msg("%s: %s", b->c->name, error.message);
  assert_int_equal(ch_workspace_reserve(&b->workspace, &ch_host_memory, ch_plan_bytes(b->plan), &error),
                   CH_OK);
  memset(b->workspace.data, 0xff, b->workspace.bytes); /* NaN shows reads of unwritten memory */
}

static inline const double *run_part(bench *b, bool accumulate, bool follows, bool more) {
  ch_run run = {.kernels = ch_kernels_best(CH_F64),
                .team = all_threads(),
                .gemm = b->gemm,
                .workspace = &b->workspace,
                .params = b->params,
                .gradients = b->gradients,
                .accumulate = accumulate,
                .follows_micro_batch = follows,
                .more_micro_batches = more,
                .seed = 0.7,
                .inputs = {b->ids, b->positions, b->targets, b->starts, b->targets, b->pixels},
                .error = &error};
  if (ch_plan_run(b->plan, &run) != CH_OK) fail_msg("%s: %s", b->c->name, error.message);
  return ch_run_value(&run, ch_plan_root(b->plan));
}

static inline const double *run_case(bench *b, bool accumulate) {
  return run_part(b, accumulate, false, false);
}

static inline double objective(bench *b) {
  const double *value = run_case(b, false);
  double sum = 0;
  for (int64_t i = 0; i < ch_node_count(ch_plan_root(b->plan)); i++) sum += 0.7 * value[i];
  return sum;
}

static inline void compare_with_differences(bench *b) {
  const double step = 1e-5;
  for (int p = 0; p < b->c->leaves; p++) {
    double *x = b->params[p].data, *g = b->gradients[p];
    for (int64_t i = 0; i < ch_tensor_count(&b->params[p]); i++) {
      double kept = x[i];
      x[i] = kept + step;
      double up = objective(b);
      x[i] = kept - step;
      double down = objective(b);
      x[i] = kept;
      double expected = (up - down) / (2 * step);
      if (!(fabs(g[i] - expected) <= 1e-6 * (1 + fabs(expected))))
        fail_msg("%s: gradient %lld of leaf %d is %.10g, differences say %.10g", b->c->name, (long long)i, p,
                 g[i], expected);
    }
  }
}

static inline void fill(bench *b, const gradient_case *c) {
  ch_random random;
  ch_random_seed(&random, 7, ch_random_stream_of(c->name));
  b->c = c;
  for (int i = 0; i < c->leaves; i++) {
    const int64_t *shape = c->shape[i];
    int rank = shape[2] ? 3 : shape[1] ? 2 : 1;
    b->params[i] = (ch_tensor){CH_F64, rank, {shape[0], shape[1], shape[2]}, NULL};
    int64_t count = ch_tensor_count(&b->params[i]);
    double *x = b->params[i].data = malloc((size_t)count * sizeof *x);
    b->gradients[i] = malloc((size_t)count * sizeof *x);
    memset(b->gradients[i], 0xff, (size_t)count * sizeof *x);
    for (int64_t j = 0; j < count; j++) x[j] = 0.6 * ch_random_normal(&random) + (rank == 1 ? 1 : 0);
  }
  for (size_t i = 0; i < sizeof b->pixels / sizeof *b->pixels; i++)
    b->pixels[i] = (float)ch_random_normal(&random);
  for (int i = 0; i < ROWS; i++) {
    b->ids[i] = (int32_t)ch_random_below(&random, VOCABULARY);
    b->targets[i] = i % 4 == 3 ? -1 : (int32_t)ch_random_below(&random, VOCABULARY);
    b->positions[i] = i % LENGTH;
    b->starts[i] = i % LENGTH >= 3 ? 3 : 0;
  }
}

/* Checks that three micro-batches of one step give three times the gradient, although values that depend only on
   parameters are computed once. */
static inline void compare_with_accumulation(bench *b, bool recompute, double *const *once) {
  plan_case(b, true, recompute, true);
  for (int i = 0; i < b->c->leaves; i++) memset(b->gradients[i], 0xff, ch_tensor_bytes(&b->params[i]));
  run_part(b, false, false, true);
  run_part(b, true, true, true);
  run_part(b, true, true, false);
  for (int i = 0; i < b->c->leaves; i++)
    for (int64_t j = 0; j < ch_tensor_count(&b->params[i]); j++) {
      double *thrice = &((double *)b->gradients[i])[j];
      if (!(fabs(*thrice - 3 * once[i][j]) <= 1e-12 * (1 + fabs(*thrice))))
        fail_msg("%s: accumulation gave %.17g for three times %.17g", b->c->name, *thrice, once[i][j]);
      *thrice = once[i][j];
    }
  ch_plan_free(b->plan);
}

static inline void check(const gradient_case *c, bool recompute) {
  static bench b;
  memset(&b, 0, sizeof b);
  fill(&b, c);
  assert_int_equal(ch_gemm_create(ch_kernels_best(CH_F64), all_threads(), &b.gemm, &error), CH_OK);
  plan_case(&b, true, recompute, false);
  run_case(&b, false);
  double *once[MAX_LEAVES];
  for (int i = 0; i < c->leaves; i++) {
    size_t bytes = ch_tensor_bytes(&b.params[i]);
    once[i] = malloc(bytes);
    memcpy(once[i], b.gradients[i], bytes);
  }
  run_case(&b, true);
  for (int i = 0; i < c->leaves; i++)
    for (int64_t j = 0; j < ch_tensor_count(&b.params[i]); j++) {
      double twice = ((double *)b.gradients[i])[j];
      if (!(fabs(twice - 2 * once[i][j]) <= 1e-12 * (1 + fabs(twice))))
        fail_msg("%s: accumulating gave %.17g for twice %.17g", c->name, twice, once[i][j]);
      ((double *)b.gradients[i])[j] = once[i][j];
    }
  ch_plan_free(b.plan);
  compare_with_accumulation(&b, recompute, once);
  plan_case(&b, false, false, false);
  compare_with_differences(&b);
  ch_plan_free(b.plan);
  ch_gemm_free(b.gemm);
  ch_workspace_free(&b.workspace);
  for (int i = 0; i < c->leaves; i++) {
    free(b.params[i].data);
    free(b.gradients[i]);
    free(once[i]);
  }
}

/* The cases of a program, passed as the state of its tests (cmocka_unit_test_prestate). */
typedef struct gradient_cases {
  const gradient_case *cases;
  size_t count;
} gradient_cases;

static inline void check_all(const gradient_cases *list, bool recompute) {
  for (size_t i = 0; i < list->count; i++) check(&list->cases[i], recompute);
}

static inline void backward_agrees_with_differences(void **state) {
  check_all(*state, false);
}

static inline void dropping_and_recomputing_changes_no_gradient(void **state) {
  check_all(*state, true);
}

#endif
