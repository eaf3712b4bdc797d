/* Every operation and several compositions: backward against central differences, in double. */
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

/* Parameters of these shapes, composed into a root. Rank-2 leaves of ROWS rows serve as activations. */
typedef struct gradient_case {
  const char *name;
  int leaves;
  int64_t shape[MAX_LEAVES][3]; /* second 0: a vector; third 0: a matrix */
  ch_node *(*build)(ch_graph *graph, ch_node *const *p);
} gradient_case;

/* --- running a case ------------------------------------------------------------------------------------------ */

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

static void plan_case(bench *b, bool backward, bool recompute, bool accumulation) {
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
  memset(b->workspace.data, 0xff, b->workspace.bytes); /* NaN: nothing may read what nobody wrote */
}

static const double *run_part(bench *b, bool accumulate, bool follows, bool more) {
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

static const double *run_case(bench *b, bool accumulate) {
  return run_part(b, accumulate, false, false);
}

static double objective(bench *b) {
  const double *value = run_case(b, false);
  double sum = 0;
  for (int64_t i = 0; i < ch_node_count(ch_plan_root(b->plan)); i++) sum += 0.7 * value[i];
  return sum;
}

static void compare_with_differences(bench *b) {
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

static void fill(bench *b, const gradient_case *c) {
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

/* Three micro-batches of one step, which compute once what parameters alone determine, give three times the gradient. */
static void compare_with_accumulation(bench *b, bool recompute, double *const *once) {
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

static void check(const gradient_case *c, bool recompute) {
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

/* --- the cases ----------------------------------------------------------------------------------------------- */

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

/* The same value as both inputs, and used twice more: gradients must add up. */
static ch_node *build_relu(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_relu(g, ch_op_scale(g, p[0], 2)), p[1]);
}

static ch_node *build_relu_squared(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_relu_squared(g, p[0]), p[0]);
}

static ch_node *build_fan_out(ch_graph *g, ch_node *const *p) {
  ch_node *x = ch_op_gelu(g, p[0]);
  ch_node *y = ch_op_add(g, x, x);
  return ch_op_add(g, ch_op_swiglu(g, y, x), ch_op_swiglu(g, x, y));
}

static const double frequencies[] = {1, 0.3, 0.07};

static ch_node *rope(ch_graph *g, ch_node *x, int64_t rotary, int64_t head_dim, bool leading,
                     bool interleaved) {
  ch_node *table = ch_op_rope_table(g, ch_graph_input(g, CH_INPUT_POSITIONS), rotary, frequencies);
  return ch_op_gelu(g, ch_op_rope(g, x, table, head_dim, leading, interleaved));
}

static ch_node *build_rope_half(ch_graph *g, ch_node *const *p) {
  return rope(g, p[0], 6, 6, false, false);
}

static ch_node *build_rope_leading(ch_graph *g, ch_node *const *p) {
  return rope(g, p[0], 4, 6, true, false);
}

static ch_node *build_soft_cap(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_soft_cap(g, ch_op_scale(g, p[0], 2), 1.5), p[1]);
}

static ch_node *build_gelu_tanh(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_gelu_tanh(g, ch_op_scale(g, p[0], 2)), p[1]);
}

static ch_node *build_rope_interleaved_partial(ch_graph *g, ch_node *const *p) {
  return rope(g, p[0], 4, 6, false, true);
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

/* Patches and their tokens used twice. */
static ch_node *build_image_tokens_shared(ch_graph *g, ch_node *const *p) {
  ch_node *patches = ch_op_gelu(g, p[0]);
  ch_node *once = ch_op_image_tokens(g, patches, p[1], p[2]);
  ch_node *twice = ch_op_image_tokens(g, ch_op_scale(g, patches, 0.5), p[1], p[2]);
  return ch_op_swiglu(g, once, twice);
}

/* Images of 2 x 4 x 4 in patches of 2, through a matrix. */
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

/* The loss used by something else: its forward pass can no longer be left to the backward pass. */
static ch_node *build_lm_loss_inside(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, build_lm_loss(g, p));
}

static ch_node *build_joined_rows(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_gelu(g, ch_op_joined_rows(g, ch_graph_input(g, CH_INPUT_TOKENS), p[0], 3)), p[1]);
}

/* One matrix as embedding and as LM head. */
static ch_node *build_tied(ch_graph *g, ch_node *const *p) {
  ch_node *x = ch_op_embedding(g, ch_graph_input(g, CH_INPUT_TOKENS), p[0]);
  return ch_op_lm_loss(g, ch_op_rmsnorm(g, x, p[1], 1e-5), p[0], ch_graph_input(g, CH_INPUT_TARGETS), 0);
}

static ch_node *attend(ch_graph *g, ch_node *const *p, bool causal, const double *slopes, bool documents) {
  ch_node *start = documents ? ch_graph_input(g, CH_INPUT_DOCUMENT_START) : NULL;
  return ch_op_attend(g, p[0], p[1], p[2], start, NULL,
                      &(ch_attend_spec){.heads = 4,
                                        .kv_heads = 2,
                                        .key_dim = 3,
                                        .value_dim = 5,
                                        .scale = 0.6,
                                        .causal = causal,
                                        .slopes = slopes});
}

static ch_node *build_attend(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, attend(g, p, true, NULL, false));
}

static ch_node *build_attend_alibi(ch_graph *g, ch_node *const *p) {
  static const double slopes[] = {0.5, 0.25, 0.125, 0.0625};
  return ch_op_gelu(g, attend(g, p, true, slopes, false));
}

static ch_node *build_attend_documents(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, attend(g, p, true, NULL, true));
}

/* A window, its sinks, and logits of sinks, in documents. */
static ch_node *build_attend_window(ch_graph *g, ch_node *const *p) {
  ch_attend_spec spec = {
      .heads = 4, .kv_heads = 2, .key_dim = 3, .value_dim = 5, .scale = 0.6, .causal = true, .window = 2};
  ch_node *alone = ch_op_attend(g, p[0], p[1], p[2], NULL, p[3], &spec);
  spec.sinks = 1;
  ch_node *start = ch_graph_input(g, CH_INPUT_DOCUMENT_START),
          *inside = ch_op_attend(g, p[0], p[1], p[2], start, NULL, &spec);
  return ch_op_gelu(g, ch_op_add(g, alone, ch_op_gelu(g, inside)));
}

/* Soft caps that scores come near, with a bias behind them. */
static ch_node *build_attend_capped(ch_graph *g, ch_node *const *p) {
  static const double slopes[] = {0.5, 0.25, 0.125, 0.0625};
  ch_attend_spec spec = {.heads = 4,
                         .kv_heads = 2,
                         .key_dim = 3,
                         .value_dim = 5,
                         .scale = 0.6,
                         .soft_cap = 0.8,
                         .causal = true,
                         .slopes = slopes};
  return ch_op_gelu(g, ch_op_attend(g, p[0], p[1], p[2], NULL, NULL, &spec));
}

static ch_node *build_attend_encoder(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, attend(g, p, false, NULL, false));
}

/* Queries and values lie apart in wider nodes, keys among the values. */
static ch_node *build_attend_apart(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_attend(g, p[0], p[1], p[1], NULL, NULL,
                                    &(ch_attend_spec){.heads = 4,
                                                      .kv_heads = 2,
                                                      .key_dim = 3,
                                                      .value_dim = 5,
                                                      .q_columns = {1, 4},
                                                      .key_columns = {0, 9},
                                                      .value_columns = {4, 9},
                                                      .scale = 0.6,
                                                      .causal = true}));
}

/* Each value is the beginning of its key, in one node that is also used beside. */
static ch_node *build_attend_shared(ch_graph *g, ch_node *const *p) {
  ch_node *attended = ch_op_attend(g, p[0], p[1], p[1], NULL, NULL,
                                   &(ch_attend_spec){.heads = 4,
                                                     .kv_heads = 2,
                                                     .key_dim = 3,
                                                     .value_dim = 2,
                                                     .value_columns = {0, 3},
                                                     .scale = 0.6,
                                                     .causal = true});
  return ch_op_gelu(g, ch_op_add(g, ch_op_gelu(g, attended), p[2]));
}

/* Two operations, each on its own heads of the same queries. */
static ch_node *build_attend_pairs(ch_graph *g, ch_node *const *p) {
  ch_node *half[2];
  for (int i = 0; i < 2; i++)
    half[i] = ch_op_attend(g, p[0], p[1], p[2], NULL, NULL,
                           &(ch_attend_spec){.heads = 2,
                                             .kv_heads = 2,
                                             .key_dim = 3,
                                             .value_dim = 6,
                                             .q_columns = {3 * i, 6},
                                             .key_columns = {3 * i, 6},
                                             .scale = 0.6,
                                             .causal = true});
  return ch_op_gelu(g, ch_op_add(g, half[0], ch_op_gelu(g, half[1])));
}

static ch_node *talk(ch_graph *g, ch_node *const *p, bool logits, bool weights, const double *slopes,
                     bool documents) {
  ch_node *start = documents ? ch_graph_input(g, CH_INPUT_DOCUMENT_START) : NULL;
  ch_attend_spec spec = {.heads = 3,
                         .kv_heads = 3,
                         .key_dim = 4,
                         .value_dim = 2,
                         .scale = 0.6,
                         .causal = true,
                         .slopes = slopes};
  return ch_op_gelu(g, ch_op_talking_attend(g, p[0], p[1], p[2], logits ? p[3] : NULL, weights ? p[4] : NULL,
                                            start, &spec));
}

static ch_node *build_talking(ch_graph *g, ch_node *const *p) {
  return talk(g, p, true, true, NULL, false);
}

static ch_node *build_talking_logits(ch_graph *g, ch_node *const *p) {
  return talk(g, p, true, false, NULL, true);
}

static ch_node *build_talking_alibi(ch_graph *g, ch_node *const *p) {
  static const double slopes[] = {0.5, 0.25, 0.125};
  return talk(g, p, true, true, slopes, true);
}

/* Weights alone, and one matrix as both mixes. */
static ch_node *build_talking_weights(ch_graph *g, ch_node *const *p) {
  ch_node *const one[] = {p[0], p[1], p[2], p[3], p[3]};
  return ch_op_add(g, talk(g, one, false, true, NULL, false), talk(g, one, true, true, NULL, false));
}

static ch_node *build_mul(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_mul(g, p[0], p[1]));
}

static ch_node *build_exclude(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_exclude(g, ch_op_gelu(g, p[0]), p[1], 4));
}

/* Values that are contexts too, and a context used beside. */
static ch_node *build_exclude_itself(ch_graph *g, ch_node *const *p) {
  ch_node *x = ch_op_gelu(g, p[0]);
  return ch_op_add(g, ch_op_exclude(g, ch_op_mul(g, x, p[1]), x, 2), x);
}

static ch_node *build_factor_product(ch_graph *g, ch_node *const *p) {
  ch_node *a = ch_op_gelu(g, p[0]);
  return ch_op_add(g, ch_op_gelu(g, ch_op_factor_product(g, a, p[1], 3, 0.5)), p[2]);
}

/* One value as both factors. */
static ch_node *build_factor_square(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_factor_product(g, p[0], p[0], 3, 1));
}

static ch_node *build_tag_heads(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_mul(g, ch_op_tag_heads(g, ch_op_gelu(g, p[0]), 2), p[1]));
}

static ch_node *build_sliced_norm(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_rmsnorm_sliced(g, p[0], p[1], 3, 1e-3));
}

static ch_node *head_weights(ch_graph *g, ch_node *const *p, int64_t shared) {
  ch_node *chosen = ch_op_choose_experts(g, p[0], NULL, &(ch_choice_spec){.active = 2}, -1);
  ch_node *weights = ch_op_route(g, p[0], chosen, &(ch_route_spec){.renormalise = true, .scale = 2});
  ch_node *all = ch_op_head_weights(g, weights, chosen, shared ? p[1] : NULL, shared > 1 ? p[2] : NULL,
                                    ch_node_columns(p[0]), shared);
  return ch_op_gelu(g, all);
}

static ch_node *build_head_weights(ch_graph *g, ch_node *const *p) {
  return head_weights(g, p, 0);
}

static ch_node *build_head_weights_of_one(ch_graph *g, ch_node *const *p) {
  return head_weights(g, p, 1);
}

static ch_node *build_head_weights_of_three(ch_graph *g, ch_node *const *p) {
  return head_weights(g, p, 3);
}

static ch_node *build_scale(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_scale(g, p[0], -0.7));
}

static ch_node *build_sigmoid_gate(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_sigmoid_gate(g, p[0], p[1], 2));
}

static ch_node *build_linear_of_heads(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_linear(g, p[0], p[1], p[2]));
}

/* Two layers that share three atoms, one coefficients by row of a matrix and one by a vector. */
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

static ch_node *build_head_mix(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_head_mix(g, p[0], p[1]));
}

/* One part of each head of p[0], one that all share from p[1], and one from elsewhere in p[0]. */
static ch_node *build_join_heads(ch_graph *g, ch_node *const *p) {
  ch_node *in[] = {p[0], p[1], p[0]};
  const ch_head_slice slices[] = {{4, 1, 2}, {0, 1, 3}, {4, 3, 1}};
  return ch_op_gelu(g, ch_op_join_heads(g, 2, 3, in, slices));
}

/* Two heads three times and three heads twice. */
static ch_node *build_repeat_heads(ch_graph *g, ch_node *const *p) {
  return ch_op_swiglu(g, ch_op_repeat_heads(g, p[0], 2, 3), ch_op_repeat_heads(g, p[1], 2, 2));
}

static ch_node *build_slice_heads(ch_graph *g, ch_node *const *p) {
  ch_node *first = ch_op_slice_heads(g, p[0], 2, (ch_head_slice){4, 0, 3});
  return ch_op_swiglu(g, first, ch_op_slice_heads(g, p[0], 2, (ch_head_slice){4, 1, 3}));
}

/* Two heads of 3, each through its own [4, 3], and back to heads of 3 through the transposes of another's. */
static ch_node *build_head_product(ch_graph *g, ch_node *const *p) {
  ch_node *up = ch_op_head_product(g, p[0], p[1], (ch_head_rows){2, 4, 0, 4, false});
  return ch_op_gelu(g, ch_op_head_product(g, up, p[2], (ch_head_rows){2, 4, 0, 4, true}));
}

static ch_node *build_subtract_scaled(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_subtract_scaled(g, p[0], p[1], p[2], 2));
}

static ch_node *build_diff_lambda(ch_graph *g, ch_node *const *p) {
  ch_node *small = ch_op_scale(g, p[2], 0.3), *also = ch_op_scale(g, p[5], 0.3);
  ch_node *lambda = ch_op_diff_lambda(g, small, p[3], p[4], also, 0.2);
  return ch_op_gelu(g, ch_op_subtract_scaled(g, p[0], p[1], lambda, 2));
}

/* The same value made twice is one node: its gradient counts twice. */
static ch_node *build_made_twice(ch_graph *g, ch_node *const *p) {
  ch_node *once = ch_op_linear(g, p[0], p[1], NULL), *twice = ch_op_linear(g, p[0], p[1], NULL);
  if (once != twice) return NULL;
  return ch_op_swiglu(g, once, twice);
}

/* A block in miniature: norms, a shared weight used twice, residuals, SwiGLU. */
static ch_node *build_block(ch_graph *g, ch_node *const *p) {
  ch_node *x = p[0];
  for (int i = 0; i < 2; i++) {
    ch_node *h = ch_op_rmsnorm(g, x, p[1], 1e-5);
    ch_node *up = ch_op_linear(g, h, p[2], NULL), *gate = ch_op_linear(g, h, p[3], NULL);
    x = ch_op_add(g, x, ch_op_linear(g, ch_op_swiglu(g, gate, up), p[4], NULL));
  }
  return ch_op_gelu(g, x);
}

/* x, router logits, then gate, up and down of three experts, of which each row takes `active`. */
static ch_node *experts(ch_graph *g, ch_node *const *p, int64_t active, bool renormalise, bool sigmoid) {
  ch_node *chosen =
      ch_op_choose_experts(g, p[1], NULL, &(ch_choice_spec){.active = active, .sigmoid = sigmoid}, 0);
  ch_node *weights = ch_op_route(
      g, p[1], chosen, &(ch_route_spec){.renormalise = renormalise, .scale = 1.5, .sigmoid = sigmoid});
  return ch_op_gelu(
      g, ch_op_experts(g, p[0], weights, chosen,
                       &(ch_expert_weights){.experts = 3, .gate = p + 2, .up = p + 5, .down = p + 8}));
}

/* With a bias for each matrix, and clamps that some values reach. */
static ch_node *build_experts_clamped(ch_graph *g, ch_node *const *p) {
  const ch_swiglu_clamps clamps = {1.3, 0.7};
  const ch_expert_weights weights = {.experts = 3,
                                     .gate = p + 2,
                                     .up = p + 5,
                                     .down = p + 8,
                                     .gate_bias = p + 11,
                                     .up_bias = p + 14,
                                     .down_bias = p + 17,
                                     .clamps = &clamps};
  ch_node *chosen = ch_op_choose_experts(g, p[1], NULL, &(ch_choice_spec){.active = 2}, 0);
  ch_node *shares = ch_op_route(g, p[1], chosen, &(ch_route_spec){.renormalise = true, .scale = 1});
  return ch_op_gelu(g, ch_op_experts(g, p[0], shares, chosen, &weights));
}

static ch_node *build_clamped_swiglu(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_clamped_swiglu(g, p[0], p[1], &(ch_swiglu_clamps){1.7, 0.8}), p[0]);
}

static ch_node *build_experts(ch_graph *g, ch_node *const *p) {
  return experts(g, p, 2, true, false);
}

static ch_node *build_experts_by_sigmoids(ch_graph *g, ch_node *const *p) {
  return experts(g, p, 2, true, true);
}

static ch_node *build_experts_at_their_sigmoid(ch_graph *g, ch_node *const *p) {
  return experts(g, p, 2, false, true);
}

static ch_node *build_experts_at_their_probability(ch_graph *g, ch_node *const *p) {
  return experts(g, p, 2, false, false);
}

static ch_node *build_one_expert(ch_graph *g, ch_node *const *p) {
  return experts(g, p, 1, false, false);
}

/* Twelve experts with the same matrices, under a value that is used elsewhere too: more inputs than a word has bits,
   and each adds to what the one before it left. */
static ch_node *build_experts_alike(ch_graph *g, ch_node *const *p) {
  ch_node *gate[12], *up[12], *down[12];
  for (int e = 0; e < 12; e++) gate[e] = p[2], up[e] = p[3], down[e] = p[4];
  ch_node *x = ch_op_gelu(g, p[0]),
          *chosen = ch_op_choose_experts(g, p[1], NULL, &(ch_choice_spec){.active = 3}, 0);
  ch_node *weights = ch_op_route(g, p[1], chosen, &(ch_route_spec){.renormalise = true, .scale = 1});
  ch_node *y = ch_op_experts(g, x, weights, chosen,
                             &(ch_expert_weights){.experts = 12, .gate = gate, .up = up, .down = down});
  return ch_op_add(g, ch_op_swiglu(g, y, x),
                   ch_op_experts(g, y, weights, chosen,
                                 &(ch_expert_weights){.experts = 12, .gate = gate, .up = up, .down = down}));
}

static ch_node *starts(ch_graph *g) {
  return ch_graph_input(g, CH_INPUT_DOCUMENT_START);
}

static ch_node *build_short_conv(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_short_conv(g, p[0], p[1], NULL, NULL));
}

static ch_node *build_short_conv_documents(ch_graph *g, ch_node *const *p) {
  ch_node *x = ch_op_gelu(g, p[0]);
  return ch_op_mul(g, ch_op_short_conv(g, x, p[1], starts(g), NULL), x);
}

static ch_node *build_silu(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_short_conv(g, p[0], NULL, NULL, NULL), p[0]);
}

static ch_node *build_l2norm(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_l2norm(g, ch_op_gelu(g, p[0]), 3, 0.01, 1.7));
}

static ch_node *build_decay(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_decay(g, ch_op_gelu(g, p[0]), p[1], p[2]));
}

static ch_node *build_sigmoid(ch_graph *g, ch_node *const *p) {
  return ch_op_mul(g, ch_op_sigmoid(g, p[0], 2), p[0]);
}

/* Two heads of keys of 3, four of values of 2; all five operands come from elsewhere, and decays are below zero. */
static ch_node *delta_rule(ch_graph *g, ch_node *const *p, ch_node *documents) {
  ch_node *q = ch_op_gelu(g, p[0]);
  const ch_delta_operands operands = {.q = q,
                                      .k = ch_op_l2norm(g, p[1], 3, 1e-6, 1),
                                      .v = ch_op_gelu(g, p[2]),
                                      .decay = ch_op_scale(g, ch_op_sigmoid(g, p[3], 1), -1),
                                      .beta = ch_op_sigmoid(g, p[4], 2)};
  return ch_op_gelu(g, ch_op_delta_rule(g, &operands, documents, 2, NULL));
}

static ch_node *build_delta_rule(ch_graph *g, ch_node *const *p) {
  return delta_rule(g, p, NULL);
}

static ch_node *build_delta_rule_documents(ch_graph *g, ch_node *const *p) {
  return delta_rule(g, p, starts(g));
}

#define THREE(rows, columns)                                                                                 \
  {rows, columns}, {rows, columns}, {                                                                        \
    rows, columns                                                                                            \
  }
#define EXPERT_LEAVES {ROWS, 4}, {ROWS, 3}, THREE(5, 4), THREE(5, 4), THREE(4, 5)

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
    {"rope, half layout", 1, {{ROWS, 12}}, build_rope_half},
    {"rope, first dims", 1, {{ROWS, 12}}, build_rope_leading},
    {"rope, interleaved and partial", 1, {{ROWS, 12}}, build_rope_interleaved_partial},
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
    {"attend", 3, {{ROWS, 12}, {ROWS, 6}, {ROWS, 10}}, build_attend},
    {"attend with ALiBi", 3, {{ROWS, 12}, {ROWS, 6}, {ROWS, 10}}, build_attend_alibi},
    {"attend with capped scores", 3, {{ROWS, 12}, {ROWS, 6}, {ROWS, 10}}, build_attend_capped},
    {"attend inside documents", 3, {{ROWS, 12}, {ROWS, 6}, {ROWS, 10}}, build_attend_documents},
    {"attend inside a window", 4, {{ROWS, 12}, {ROWS, 6}, {ROWS, 10}, {4}}, build_attend_window},
    {"attend both ways", 3, {{ROWS, 12}, {ROWS, 6}, {ROWS, 10}}, build_attend_encoder},
    {"attend, heads apart", 2, {{ROWS, 17}, {ROWS, 19}}, build_attend_apart},
    {"attend, values in keys", 3, {{ROWS, 12}, {ROWS, 6}, {ROWS, 8}}, build_attend_shared},
    {"attend, paired heads", 3, {{ROWS, 12}, {ROWS, 12}, {ROWS, 12}}, build_attend_pairs},
    {"talking heads", 5, {{ROWS, 12}, {ROWS, 12}, {ROWS, 6}, {3, 3}, {3, 3}}, build_talking},
    {"talking logits", 4, {{ROWS, 12}, {ROWS, 12}, {ROWS, 6}, {3, 3}}, build_talking_logits},
    {"talking weights", 4, {{ROWS, 12}, {ROWS, 12}, {ROWS, 6}, {3, 3}}, build_talking_weights},
    {"talking with ALiBi inside documents",
     5,
     {{ROWS, 12}, {ROWS, 12}, {ROWS, 6}, {3, 3}, {3, 3}},
     build_talking_alibi},
    {"mul", 2, {{ROWS, 3}, {ROWS, 3}}, build_mul},
    {"mul by a vector", 2, {{ROWS, 6}, {3}}, build_mul},
    {"exclude", 2, {{ROWS, 12}, {ROWS, 6}}, build_exclude},
    {"exclude a value from itself", 2, {{ROWS, 6}, {ROWS, 6}}, build_exclude_itself},
    {"product of factors", 3, {{ROWS, 6}, {ROWS, 8}, {ROWS, 12}}, build_factor_product},
    {"product of a factor with itself", 1, {{ROWS, 6}}, build_factor_square},
    {"tagged heads", 2, {{ROWS, 6}, {2, 5}}, build_tag_heads},
    {"rmsnorm by slices", 2, {{ROWS, 12}, {12}}, build_sliced_norm},
    {"weights of chosen heads", 1, {{ROWS, 4}}, build_head_weights},
    {"weights with a shared head", 2, {{ROWS, 4}, {ROWS, 2}}, build_head_weights_of_one},
    {"weights with shared heads", 3, {{ROWS, 4}, {ROWS, 2}, {ROWS, 3}}, build_head_weights_of_three},
    {"scale", 1, {{ROWS, 3}}, build_scale},
    {"sigmoid gate", 2, {{ROWS, 3}, {ROWS, 3}}, build_sigmoid_gate},
    {"linear of heads", 3, {{ROWS, 8}, {3, 4}, {3}}, build_linear_of_heads},
    {"combined atoms", 4, {{ROWS, 5}, {3, 5, 5}, {2, 3}, {3}}, build_atoms},
    {"picked atoms", 2, {{ROWS, 5}, {3, 5, 5}}, build_picked_atoms},
    {"matrix product", 3, {{ROWS, 5}, {4, 2}, {2, 5}}, build_matrix_product},
    {"head mix", 2, {{ROWS, 6}, {4, 2}}, build_head_mix},
    {"heads through their own matrices", 3, {{ROWS, 6}, {2, 4, 3}, {8, 3}}, build_head_product},
    {"heads joined", 2, {{ROWS, 8}, {ROWS, 4}}, build_join_heads},
    {"heads repeated", 2, {{ROWS, 4}, {ROWS, 6}}, build_repeat_heads},
    {"heads sliced", 1, {{ROWS, 8}}, build_slice_heads},
    {"subtract scaled", 3, {{ROWS, 6}, {ROWS, 6}, {2}}, build_subtract_scaled},
    {"subtract scaled, one lambda", 3, {{ROWS, 6}, {ROWS, 6}, {1}}, build_subtract_scaled},
    {"lambda of differential attention", 6, {{ROWS, 6}, {ROWS, 6}, {3}, {3}, {3}, {3}}, build_diff_lambda},
    {"made twice", 2, {{ROWS, 4}, {3, 4}}, build_made_twice},
    {"block", 5, {{ROWS, 4}, {4}, {6, 4}, {6, 4}, {4, 6}}, build_block},
    {"short convolution", 2, {{ROWS, 6}, {6, 1, 4}}, build_short_conv},
    {"short convolution inside documents", 2, {{ROWS, 6}, {6, 1, 3}}, build_short_conv_documents},
    {"silu", 1, {{ROWS, 6}}, build_silu},
    {"vectors of length 1", 1, {{ROWS, 6}}, build_l2norm},
    {"decays", 3, {{ROWS, 4}, {4}, {4}}, build_decay},
    {"sigmoid", 1, {{ROWS, 4}}, build_sigmoid},
    {"delta rule", 5, {{ROWS, 6}, {ROWS, 6}, {ROWS, 8}, {ROWS, 4}, {ROWS, 4}}, build_delta_rule},
    {"delta rule inside documents",
     5,
     {{ROWS, 6}, {ROWS, 6}, {ROWS, 8}, {ROWS, 4}, {ROWS, 4}},
     build_delta_rule_documents},
    {"experts", 11, {EXPERT_LEAVES}, build_experts},
    {"clamped swiglu", 2, {{ROWS, 6}, {ROWS, 6}}, build_clamped_swiglu},
    {"experts with biases and clamps",
     20,
     {EXPERT_LEAVES, {5}, {5}, {5}, {5}, {5}, {5}, {4}, {4}, {4}},
     build_experts_clamped},
    {"experts by sigmoids", 11, {EXPERT_LEAVES}, build_experts_by_sigmoids},
    {"experts at their sigmoid", 11, {EXPERT_LEAVES}, build_experts_at_their_sigmoid},
    {"experts at their probability", 11, {EXPERT_LEAVES}, build_experts_at_their_probability},
    {"one expert per token", 11, {EXPERT_LEAVES}, build_one_expert},
    {"experts alike", 5, {{ROWS, 4}, {ROWS, 12}, {5, 4}, {5, 4}, {4, 5}}, build_experts_alike},
};

static void backward_agrees_with_differences(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], false);
}

static void dropping_and_recomputing_changes_no_gradient(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], true);
}

/* A value of the graph that no parameter leads to. */
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
  /* Pixel values say where they are: image, channel, line, column. */
  float pixels[2 * 2 * 4 * 4];
  for (int i = 0; i < 64; i++) pixels[i] = (float)(i / 32 * 1000 + i / 16 % 2 * 100 + i / 4 % 4 * 10 + i % 4);
  const void *inputs[CH_INPUT_COUNT] = {[CH_INPUT_PIXELS] = pixels};
  double rows[8 * 8];
  ch_graph *graph = ch_graph_create(CH_F64, 2, 5);
  run_inputs(graph, ch_op_patches(graph, ch_graph_pixels(graph, 2, 4), 2), inputs, 64, rows);
  static const double second[] = {2, 3, 12, 13, 102, 103, 112, 113}; /* of image 0: right of the first */
  static const double sixth[] = {1002, 1003, 1012, 1013,
                                 1102, 1103, 1112, 1113}; /* the same place of image 1 */
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
      cmocka_unit_test(backward_agrees_with_differences),
      cmocka_unit_test(dropping_and_recomputing_changes_no_gradient),
      cmocka_unit_test(patches_are_rows_by_channel_and_line),
      cmocka_unit_test(impossible_shapes_are_explained),
      cmocka_unit_test(columns_that_do_not_fit_are_explained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
