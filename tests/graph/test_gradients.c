/* Tests the gradients of operations on rows, losses, sums of atoms, and several compositions. */
#include "graph/gradient_testing.h"

static ch_node *build_linear(ch_graph *g, ch_node *const *p) {
  return ch_op_linear(g, p[0], p[1], p[2]);
}

static ch_node *build_rmsnorm(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_rmsnorm(g, p[0], p[1], 1e-5));
}

static ch_node *build_layernorm(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_layernorm(g, p[0], p[1], p[2], 1e-5));
}

static ch_node *build_swiglu(ch_graph *g, ch_node *const *p) {
  return ch_op_swiglu(g, p[0], p[1]);
}

static ch_node *build_relu(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_relu(g, ch_op_scale(g, p[0], 2)), p[1]);
}

static ch_node *build_relu_squared(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_relu_squared(g, p[0]), p[0]);
}

/* Uses one value as both inputs of an operation, and in two more operations. */
static ch_node *build_fan_out(ch_graph *g, ch_node *const *p) {
  ch_node *x = ch_op_gelu(g, p[0]);
  ch_node *y = ch_op_add(g, x, x);
  return ch_op_add(g, ch_op_swiglu(g, y, x), ch_op_swiglu(g, x, y));
}

static ch_node *build_soft_cap(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_soft_cap(g, ch_op_scale(g, p[0], 2), 1.5), p[1]);
}

static ch_node *build_gelu_tanh(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_gelu_tanh(g, ch_op_scale(g, p[0], 2)), p[1]);
}

static ch_node *build_embedding(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_embedding(g, ch_graph_input(g, CH_INPUT_TOKENS), p[0]));
}

static ch_node *build_last_rows(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_sequence_row(g, ch_op_add(g, p[0], p[1]), LENGTH - 1));
}

static ch_node *build_image_tokens(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_image_tokens(g, p[0], p[1], p[2]));
}

/* Uses patches and their tokens twice. */
static ch_node *build_image_tokens_shared(ch_graph *g, ch_node *const *p) {
  ch_node *patches = ch_op_gelu(g, p[0]);
  ch_node *once = ch_op_image_tokens(g, patches, p[1], p[2]);
  ch_node *twice = ch_op_image_tokens(g, ch_op_scale(g, patches, 0.5), p[1], p[2]);
  return ch_op_swiglu(g, once, twice);
}

/* Passes images of 2 x 4 x 4 in patches of 2 through a matrix. */
static ch_node *build_patches(ch_graph *g, ch_node *const *p) {
  ch_node *patches = ch_op_patches(g, ch_graph_pixels(g, 2, 4), 2);
  return ch_op_gelu(g, ch_op_linear(g, patches, p[0], p[1]));
}

static ch_node *build_cross_entropy(ch_graph *g, ch_node *const *p) {
  return ch_op_cross_entropy(g, p[0], ch_graph_input(g, CH_INPUT_TARGETS), 0);
}

static ch_node *build_cross_entropy_smoothed(ch_graph *g, ch_node *const *p) {
  ch_node *logits = ch_op_gelu(g, p[0]);
  ch_node *loss = ch_op_cross_entropy(g, logits, ch_graph_input(g, CH_INPUT_TARGETS), 0.3);
  return ch_op_add(g, ch_op_gelu(g, loss), ch_op_slice_heads(g, logits, 1, (ch_head_slice){0, 1, 1}));
}

static ch_node *build_labels(ch_graph *g, ch_node *const *p) {
  ch_node *first = ch_op_sequence_row(g, p[0], 0);
  return ch_op_cross_entropy(g, first, ch_graph_input(g, CH_INPUT_LABELS), 0.1);
}

static ch_node *build_lm_loss_capped(ch_graph *g, ch_node *const *p) {
  return ch_op_lm_loss(g, p[0], p[1], ch_graph_input(g, CH_INPUT_TARGETS), 0.9);
}

static ch_node *build_lm_loss(ch_graph *g, ch_node *const *p) {
  return ch_op_lm_loss(g, p[0], p[1], ch_graph_input(g, CH_INPUT_TARGETS), 0);
}

/* Uses the loss in another operation, so that its forward pass cannot be left to the backward pass. */
static ch_node *build_lm_loss_inside(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, build_lm_loss(g, p));
}

static ch_node *build_joined_rows(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_gelu(g, ch_op_joined_rows(g, ch_graph_input(g, CH_INPUT_TOKENS), p[0], 3)), p[1]);
}

/* Uses one matrix as embedding and as LM head. */
static ch_node *build_tied(ch_graph *g, ch_node *const *p) {
  ch_node *x = ch_op_embedding(g, ch_graph_input(g, CH_INPUT_TOKENS), p[0]);
  return ch_op_lm_loss(g, ch_op_rmsnorm(g, x, p[1], 1e-5), p[0], ch_graph_input(g, CH_INPUT_TARGETS), 0);
}

static ch_node *build_mul(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_mul(g, p[0], p[1]));
}

static ch_node *build_scale(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_scale(g, p[0], -0.7));
}

/* Two layers share three atoms. The coefficients of the first are a row of a matrix, those of the second a vector. */
static ch_node *build_atoms(ch_graph *g, ch_node *const *p) {
  ch_node *first = ch_op_combine_atoms(g, p[1], p[2], 1), *second = ch_op_combine_atoms(g, p[1], p[3], 0);
  return ch_op_linear(g, ch_op_gelu(g, ch_op_linear(g, p[0], first, NULL)), second, NULL);
}

static ch_node *build_picked_atoms(ch_graph *g, ch_node *const *p) {
  ch_node *last = ch_op_combine_atoms(g, p[1], NULL, 2), *first = ch_op_combine_atoms(g, p[1], NULL, 0);
  ch_node *x = ch_op_gelu(g, ch_op_linear(g, p[0], last, NULL));
  return ch_op_linear(g, ch_op_linear(g, x, first, NULL), last, NULL);
}

static ch_node *build_matrix_product(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_linear(g, p[0], ch_op_matrix_product(g, p[1], p[2]), NULL));
}

/* Builds one operation twice. It is one node, and its gradient counts twice. */
static ch_node *build_made_twice(ch_graph *g, ch_node *const *p) {
  ch_node *once = ch_op_linear(g, p[0], p[1], NULL), *twice = ch_op_linear(g, p[0], p[1], NULL);
  if (once != twice) return NULL;
  return ch_op_swiglu(g, once, twice);
}

/* Builds two layers of norms, SwiGLU and residuals with the same weights. */
static ch_node *build_block(ch_graph *g, ch_node *const *p) {
  ch_node *x = p[0];
  for (int i = 0; i < 2; i++) {
    ch_node *h = ch_op_rmsnorm(g, x, p[1], 1e-5);
    ch_node *up = ch_op_linear(g, h, p[2], NULL), *gate = ch_op_linear(g, h, p[3], NULL);
    x = ch_op_add(g, x, ch_op_linear(g, ch_op_swiglu(g, gate, up), p[4], NULL));
  }
  return ch_op_gelu(g, x);
}

static ch_node *build_silu(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_short_conv(g, p[0], NULL, NULL, NULL), p[0]);
}

static ch_node *build_sigmoid(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_sigmoid(g, p[0], 2), p[0]);
}

static const gradient_case cases[] = {
    {"linear", 3, {{ROWS, 4}, {6, 4}, {6}}, build_linear},
    {"rmsnorm of rows", 2, {{ROWS, 6}, {6}}, build_rmsnorm},
    {"rmsnorm of heads", 2, {{ROWS, 6}, {3}}, build_rmsnorm},
    {"layernorm", 3, {{ROWS, 6}, {6}, {6}}, build_layernorm},
    {"swiglu", 2, {{ROWS, 3}, {ROWS, 3}}, build_swiglu},
    {"relu", 2, {{ROWS, 3}, {ROWS, 3}}, build_relu},
    {"relu squared", 1, {{ROWS, 3}}, build_relu_squared},
    {"fan-out", 1, {{ROWS, 3}}, build_fan_out},
    {"soft cap", 2, {{ROWS, 12}, {ROWS, 12}}, build_soft_cap},
    {"gelu with a tanh", 2, {{ROWS, 12}, {ROWS, 12}}, build_gelu_tanh},
    {"embedding", 1, {{VOCABULARY, 3}}, build_embedding},
    {"joined rows", 2, {{ROWS, 7}, {ROWS, 7}}, build_joined_rows},
    {"image tokens", 3, {{SEQUENCES * (LENGTH - 1), 3}, {3}, {LENGTH, 3}}, build_image_tokens},
    {"image tokens, shared", 3, {{SEQUENCES * (LENGTH - 1), 3}, {3}, {LENGTH, 3}}, build_image_tokens_shared},
    {"patches", 2, {{3, 8}, {3}}, build_patches},
    {"cross entropy", 1, {{ROWS, VOCABULARY}}, build_cross_entropy},
    {"cross entropy, smoothed, inside", 1, {{ROWS, VOCABULARY}}, build_cross_entropy_smoothed},
    {"labels of the first row", 1, {{ROWS, VOCABULARY}}, build_labels},
    {"last rows", 2, {{ROWS, 3}, {ROWS, 3}}, build_last_rows},
    {"loss", 2, {{ROWS, 4}, {VOCABULARY, 4}}, build_lm_loss},
    {"lm loss of capped logits", 2, {{ROWS, 4}, {VOCABULARY, 4}}, build_lm_loss_capped},
    {"loss inside", 2, {{ROWS, 4}, {VOCABULARY, 4}}, build_lm_loss_inside},
    {"tied embeddings", 2, {{VOCABULARY, 4}, {4}}, build_tied},
    {"mul", 2, {{ROWS, 3}, {ROWS, 3}}, build_mul},
    {"mul by a vector", 2, {{ROWS, 6}, {3}}, build_mul},
    {"scale", 1, {{ROWS, 3}}, build_scale},
    {"combined atoms", 4, {{ROWS, 5}, {3, 5, 5}, {2, 3}, {3}}, build_atoms},
    {"picked atoms", 2, {{ROWS, 5}, {3, 5, 5}}, build_picked_atoms},
    {"matrix product", 3, {{ROWS, 5}, {4, 2}, {2, 5}}, build_matrix_product},
    {"made twice", 2, {{ROWS, 4}, {3, 4}}, build_made_twice},
    {"block", 5, {{ROWS, 4}, {4}, {6, 4}, {6, 4}, {4, 6}}, build_block},
    {"silu", 1, {{ROWS, 6}}, build_silu},
    {"sigmoid", 1, {{ROWS, 4}}, build_sigmoid},
};

static gradient_cases all = {cases, sizeof cases / sizeof *cases};

/* Computes the `count` elements of a root that does not depend on any parameter. */
static void run_inputs(ch_graph *graph, ch_node *root, const void *const *inputs, int64_t count,
                       double *value) {
  ch_plan *plan;
  ch_plan_options options = {0};
  ch_workspace workspace = {0};
  assert_int_equal(
      ch_plan_create(graph, root, ch_kernels_best(CH_F64), all_threads(), &options, &plan, &error), CH_OK);
  assert_int_equal(ch_workspace_reserve(&workspace, &ch_host_memory, ch_plan_bytes(plan), &error), CH_OK);
  ch_run run = {
      .kernels = ch_kernels_best(CH_F64), .team = all_threads(), .workspace = &workspace, .error = &error};
  memcpy(run.inputs, inputs, sizeof run.inputs);
  assert_int_equal(ch_plan_run(plan, &run), CH_OK);
  memcpy(value, ch_run_value(&run, root), (size_t)count * sizeof *value);
  ch_plan_free(plan);
  ch_workspace_free(&workspace);
}

static void patches_are_rows_by_channel_and_line(void **state) {
  (void)state;
  /* The digits of a pixel's value are its image, channel, line and column. */
  float pixels[2 * 2 * 4 * 4];
  for (int i = 0; i < 64; i++) pixels[i] = (float)(i / 32 * 1000 + i / 16 % 2 * 100 + i / 4 % 4 * 10 + i % 4);
  const void *inputs[CH_INPUT_COUNT] = {[CH_INPUT_PIXELS] = pixels};
  double rows[8 * 8];
  ch_graph *graph = ch_graph_create(CH_F64, 2, 5);
  run_inputs(graph, ch_op_patches(graph, ch_graph_pixels(graph, 2, 4), 2), inputs, 64, rows);
  /* patch 1 of image 0, and patches 1 and 3 of image 1 */
  static const double second[] = {2, 3, 12, 13, 102, 103, 112, 113};
  static const double sixth[] = {1002, 1003, 1012, 1013, 1102, 1103, 1112, 1113};
  static const double last[] = {1022, 1023, 1032, 1033, 1122, 1123, 1132, 1133};
  assert_memory_equal(rows + 8, second, sizeof second);
  assert_memory_equal(rows + 5 * 8, sixth, sizeof sixth);
  assert_memory_equal(rows + 7 * 8, last, sizeof last);
  graph = ch_graph_create(CH_F64, 2, 5);
  assert_null(ch_op_patches(graph, ch_graph_pixels(graph, 2, 4), 3));
  assert_non_null(strstr(graph->error.message, "whose side patches of 3 divide"));
  ch_graph_free(graph);
}

static void impossible_shapes_are_explained(void **state) {
  (void)state;
  ch_graph *graph = ch_graph_create(CH_F64, 1, 4);
  int64_t wrong[] = {6, 5}, x[] = {4, 3};
  ch_node *root = ch_op_linear(graph, ch_graph_param(graph, 0, "x", 2, x, false),
                               ch_graph_param(graph, 1, "w", 2, wrong, false), NULL);
  assert_null(root);
  ch_plan *plan;
  ch_plan_options options = {0};
  assert_int_equal(
      ch_plan_create(graph, root, ch_kernels_best(CH_F64), all_threads(), &options, &plan, &error),
      CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "linear: x [4, 3] does not fit weight [6, 5]"));
}

static void columns_that_do_not_fit_are_explained(void **state) {
  (void)state;
  static const struct {
    ch_head_columns q, values;
    const char *message;
  } wrong[] = {
      {{1, 0}, {0, 0}, "attend: 2 queries of 4 from column 1, 4 apart, do not fit 8 columns"},
      {{0, 3}, {0, 0}, "attend: 2 queries of 4 from column 0, 3 apart, do not fit 8 columns"},
      {{0, 0}, {-4, 0}, "attend: 2 values of 4 from column -4, 4 apart, do not fit 8 columns"},
      {{0, 0}, {0, 0}, "attend: keys and values share columns"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ch_graph *graph = ch_graph_create(CH_F64, 1, 4);
    int64_t shape[] = {4, 8}, wide[] = {4, 12};
    ch_node *q = ch_graph_param(graph, 0, "q", 2, shape, false);
    ch_node *k = ch_graph_param(graph, 1, "k", 2, i == 3 ? wide : shape, false);
    ch_attend_spec spec = {.heads = 2,
                           .kv_heads = 2,
                           .key_dim = 4,
                           .value_dim = 4,
                           .q_columns = wrong[i].q,
                           .value_columns = wrong[i].values};
    if (i == 3) spec.key_columns.offset = 2, spec.value_columns.stride = 6;
    assert_null(ch_op_attend(graph, q, k, k, NULL, NULL, &spec));
    if (!strstr(graph->error.message, wrong[i].message)) fail_msg("%s", graph->error.message);
    ch_graph_free(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(backward_agrees_with_differences, &all),
      cmocka_unit_test_prestate(dropping_and_recomputing_changes_no_gradient, &all),
      cmocka_unit_test(patches_are_rows_by_channel_and_line),
      cmocka_unit_test(impossible_shapes_are_explained),
      cmocka_unit_test(columns_that_do_not_fit_are_explained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
