/* Tests that shared matrices start as large as unshared ones, and coefficients with a variance of 1 / S. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/reference/private.h"
#include "harness/specimen.h"
#include "config_file/config_json.h"
#include "train/initialise.h"

enum { SEEDS = 12 };

/* An initialised model, with its configuration and weights for the reference. */
typedef struct fresh {
  ch_config config;
  ch_params params;
  reference_config definition;
  reference_weights weights;
  ch_tensor *tensors;
  double *data;
} fresh;

static void start(const char *sizes, const char *attention, uint64_t seed, fresh *f) {
  combination_list *list = calloc(1, sizeof *list);
  ch_error error = {0};
  *f = (fresh){0};
  add_combination(list, sizes, "gqa", attention);
  reference_config_parse(list->items[0].json, &f->definition);
  if (ch_config_parse(list->items[0].json, "config.json", &f->config, &error) != CH_OK ||
      ch_model_declare(&f->config, &f->params, &error) != CH_OK)
    fail_msg("%s", error.message);
  free(list);
  int64_t total = 0, at = 0;
  for (int p = 0; p < f->params.count; p++) total += ch_param_count(&f->params.rows[p]);
  float *narrow = calloc((size_t)total, sizeof *narrow);
  f->data = calloc((size_t)total, sizeof *f->data);
  f->tensors = calloc((unsigned)f->params.count, sizeof *f->tensors);
  f->weights =
      (reference_weights){calloc((unsigned)f->params.count, sizeof *f->weights.tensors), f->params.count};
  for (int p = 0; p < f->params.count; p++) {
    const ch_param *row = &f->params.rows[p];
    f->tensors[p] = (ch_tensor){.dtype = CH_F32, .rank = row->rank, .data = narrow + at};
    f->weights.tensors[p] = (reference_tensor){.name = row->name, .rank = row->rank, .data = f->data + at};
    memcpy(f->tensors[p].shape, row->shape, sizeof row->shape);
    memcpy(f->weights.tensors[p].shape, row->shape, sizeof f->weights.tensors[p].shape);
    at += ch_param_count(row);
  }
  ch_initialise(&f->params, seed, f->tensors);
  for (int64_t i = 0; i < total; i++) f->data[i] = (double)narrow[i];
  free(narrow);
}

static void finish(fresh *f) {
  ch_params_free(&f->params);
  free(f->weights.tensors);
  free(f->tensors);
  free(f->data);
}

/* Adds the mean square of a projection's matrix in each layer to `squares` [layers]. */
static void add_squares(fresh *f, const char *name, int64_t out, int64_t in, double *squares) {
  ch_arena arena = {0};
  reference_run run = {.config = &f->definition, .weights = &f->weights, .arena = &arena, .length = 1};
  for (run.layer = 0; run.layer < f->definition.layers; run.layer++) {
    const double *weight = reference_projection(&run, name, out, in);
    for (int64_t i = 0; i < out * in; i++) squares[run.layer] += weight[i] * weight[i] / (double)(out * in);
  }
  ch_arena_free(&arena);
}

static const struct {
  const char *name;
  int64_t out, in;
} projections[] = {{"q_proj", 32, 32}, {"k_proj", 16, 32}, {"v_proj", 16, 32}, {"o_proj", 32, 32}};

#define SIZES                                                                                                \
  "'hidden_size': 32, 'num_hidden_layers': 8, 'num_key_value_heads': 2, 'intermediate_size': 8, "            \
  "'head_dim': 8"
#define QKVO "'projections': ['q', 'k', 'v', 'o']"

/* Computes the mean squares of each layer's matrices, summed over seeds: [projections][layers]. */
static void measure(const char *sizes, double squares[4][REFERENCE_MAX_LAYERS]) {
  memset(squares, 0, 4 * sizeof *squares);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    fresh f;
    start(sizes, "", seed, &f);
    for (int p = 0; p < 4; p++)
      add_squares(&f, projections[p].name, projections[p].out, projections[p].in, squares[p]);
    finish(&f);
  }
}

static void assert_ratio(const char *text, const char *name, double a, double b, double tolerance) {
  if (!(fabs(log(a / b)) <= log(1 + tolerance)))
    fail_msg("%s: %s starts %.3f times as large in square", text, name, a / b);
}

/* Compares the mean square of each projection, over all layers, with that of unshared matrices. Projections of one
   dictionary have one scale, although output projections would start smaller. `pooled` compares the sums of projections
   of one shape. */
static void check_scale(const char *sharing, const char *init, bool pooled, double tolerance) {
  double shared[4][REFERENCE_MAX_LAYERS], dense[4][REFERENCE_MAX_LAYERS], a[4] = {0}, b[4] = {0};
  crossing sizes[1], with[1];
  cross((const char *const[]){SIZES, NULL}, (const char *const[]){init, NULL}, sizes, 1);
  cross((const char *const[]){sizes[0].text, NULL}, (const char *const[]){sharing, NULL}, with, 1);
  measure(sizes[0].text, dense);
  measure(with[0].text, shared);
  for (int p = 0; p < 4; p++)
    for (int layer = 0; layer < 8; layer++) {
      a[p] += shared[p][layer];
      b[p] += dense[p][layer];
    }
  for (int p = 0; p < 4 && !pooled; p++)
    assert_ratio(with[0].text, projections[p].name, a[p], b[p], tolerance);
  if (!pooled) return;
  assert_ratio(with[0].text, "q_proj and o_proj", a[0] + a[3], b[0] + b[3], tolerance);
  assert_ratio(with[0].text, "k_proj and v_proj", a[1] + a[2], b[1] + b[2], tolerance);
}

static void shared_matrices_start_as_large_as_own_ones(void **state) {
  (void)state;
  static const char *const inits[] = {"", "'init': 'deepseek'", "'init': 'fan_in'",
                                      "'parametrization': 'spectral'"};
  for (int i = 0; i < 4; i++) {
    check_scale("'sharing': {'type': 'masa', " QKVO ", 'atoms': 3}", inits[i], false, 0.3);
    check_scale("'sharing': {'type': 'masa', " QKVO ", 'atoms': 8, 'common_dictionary': true}", inits[i],
                true, 0.2);
    check_scale("'sharing': {'type': 'masa', " QKVO ", 'atoms': 3, 'coefficients': 'mlp'}", inits[i], false,
                0.5);
    check_scale("'sharing': {'type': 'sequential', " QKVO ", 'atoms': 3}", inits[i], false, 0.1);
    check_scale("'sharing': {'type': 'repeat', " QKVO ", 'atoms': 3}", inits[i], false, 0.1);
  }
}

/* Compares products of two factors with the matrices that they replace, for every rule of initial weights. */
static void products_of_factors_start_as_large_as_the_matrices_they_replace(void **state) {
  (void)state;
  static const char *const rules[] = {"", "'init': 'deepseek'", "'init': 'fan_in'",
                                      "'parametrization': 'spectral'"};
  for (int i = 0; i < 4; i++) {
    check_scale("'sharing': {'type': 'low_rank', " QKVO ", 'rank': 5}", rules[i], false, 0.15);
    check_scale("'sharing': {'type': 'low_rank', " QKVO ", 'rank': 40}", rules[i], false, 0.1);
    check_scale("'sharing': {'type': 'low_rank', " QKVO ", 'rank': 5, 'groups': [[0, 2], [3, 5], [6, 7]]}",
                rules[i], false, 0.2);
  }
}

/* The first factor starts like a dense matrix. The second has a deviation of 1 / sqrt(rank), so that the product also
   starts like a dense matrix. In output projections, the second factor is also divided by the root of twice the layer's
   number. */
static void second_factors_start_with_what_makes_the_product_a_linear_weight(void **state) {
  (void)state;
  fresh f;
  start(SIZES ", 'sharing': {'type': 'low_rank', " QKVO ", 'rank': 5}", "", 1, &f);
  for (int layer = 0; layer < f.config.num_hidden_layers; layer++) {
    char name[80];
    const ch_param *rows = f.params.rows;
    snprintf(name, sizeof name, "model.layers.%d.self_attn.o_proj.a.weight", layer);
    assert_true(rows[ch_params_find(&f.params, name)].std == 0.02);
    snprintf(name, sizeof name, "model.layers.%d.self_attn.o_proj.b.weight", layer);
    assert_true(fabs(rows[ch_params_find(&f.params, name)].std - 1 / sqrt(5 * 2.0 * (layer + 1))) < 1e-12);
    snprintf(name, sizeof name, "model.layers.%d.self_attn.q_proj.b.weight", layer);
    assert_true(fabs(rows[ch_params_find(&f.params, name)].std - 1 / sqrt(5)) < 1e-12);
  }
  finish(&f);
}

static void assert_std(const fresh *f, const char *name, double std) {
  int index = ch_params_find(&f->params, name);
  if (index < 0 || !(fabs(f->params.rows[index].std - std) < 1e-12))
    fail_msg("%s starts with %g, not %g", name, index < 0 ? 0 : f->params.rows[index].std, std);
}

/* Matrices have different numbers of inputs: 32 (hidden size, heads), 8 (feed-forward network), 5 (rank). */
static void fan_in_spreads_weights_by_their_inputs(void **state) {
  (void)state;
  fresh f;
  start(SIZES ", 'init': 'fan_in', 'sharing': {'type': 'low_rank', 'projections': ['q', 'o'], 'rank': 5}", "",
        1, &f);
  assert_std(&f, "model.embed_tokens.weight", 1 / sqrt(32));
  assert_std(&f, "model.layers.2.self_attn.k_proj.weight", 1 / sqrt(32));
  assert_std(&f, "model.layers.2.self_attn.q_proj.a.weight", 1 / sqrt(32));
  assert_std(&f, "model.layers.2.self_attn.q_proj.b.weight", 1 / sqrt(5));
  assert_std(&f, "model.layers.2.self_attn.o_proj.b.weight", 1 / sqrt(5) / sqrt(6));
  assert_std(&f, "model.layers.2.mlp.up_proj.weight", 1 / sqrt(32));
  assert_std(&f, "model.layers.2.mlp.down_proj.weight", 1 / sqrt(8) / sqrt(6));
  finish(&f);
}

/* Atoms start like dense matrices, so the mean square of coefficients is 1 / S. */
static void coefficients_start_with_a_variance_of_one_over_atoms(void **state) {
  (void)state;
  enum { ATOMS = 4 };
  double squares = 0, sum = 0;
  int count = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    fresh f;
    start(SIZES ", 'sharing': {'type': 'masa', " QKVO ", 'atoms': 4}", "", seed, &f);
    for (int p = 0; p < f.params.count; p++) {
      const char *end = strrchr(f.params.rows[p].name, '.');
      if (!end || strcmp(end, ".coefficients") != 0 || strstr(f.params.rows[p].name, "o_proj")) continue;
      for (int s = 0; s < ATOMS; s++, count++) {
        sum += f.weights.tensors[p].data[s];
        squares += f.weights.tensors[p].data[s] * f.weights.tensors[p].data[s];
      }
    }
    finish(&f);
  }
  assert_int_equal(count, SEEDS * 3 * 8 * ATOMS);
  double deviation = sqrt(1.0 / ATOMS / count);
  assert_true(fabs(sum / count) < 4 * deviation);
  assert_true(fabs(ATOMS * squares / count - 1) < 4 * sqrt(2.0 / count));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shared_matrices_start_as_large_as_own_ones),
      cmocka_unit_test(products_of_factors_start_as_large_as_the_matrices_they_replace),
      cmocka_unit_test(second_factors_start_with_what_makes_the_product_a_linear_weight),
      cmocka_unit_test(fan_in_spreads_weights_by_their_inputs),
      cmocka_unit_test(coefficients_start_with_a_variance_of_one_over_atoms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
