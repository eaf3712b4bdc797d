/* Tests the gradients of the operations of attention and of layers with a state of constant size. */
#include "graph/gradient_testing.h"

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

static ch_node *build_rope_interleaved_partial(ch_graph *g, ch_node *const *p) {
  return rope(g, p[0], 4, 6, false, true);
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

/* Uses a window twice: with sink logits, and with one sink token per document. */
static ch_node *build_attend_window(ch_graph *g, ch_node *const *p) {
  ch_attend_spec spec = {
      .heads = 4, .kv_heads = 2, .key_dim = 3, .value_dim = 5, .scale = 0.6, .causal = true, .window = 2};
  ch_node *alone = ch_op_attend(g, p[0], p[1], p[2], NULL, p[3], &spec);
  spec.sinks = 1;
  ch_node *start = ch_graph_input(g, CH_INPUT_DOCUMENT_START),
          *inside = ch_op_attend(g, p[0], p[1], p[2], start, NULL, &spec);
  return ch_op_gelu(g, ch_op_add(g, alone, ch_op_gelu(g, inside)));
}

/* Uses a soft cap about as large as the scores, and adds ALiBi to the capped scores. */
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

/* Uses queries, keys and values that are slices of wider nodes. Keys and values are in one node. */
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

/* Uses values that are the first elements of their keys. */
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

/* Uses two operations, each on its own heads of one node of queries. */
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

/* Mixes only weights, and uses one matrix for both mixes. */
static ch_node *build_talking_weights(ch_graph *g, ch_node *const *p) {
  ch_node *const one[] = {p[0], p[1], p[2], p[3], p[3]};
  return ch_op_add(g, talk(g, one, false, true, NULL, false), talk(g, one, true, true, NULL, false));
}

static ch_node *build_exclude(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_exclude(g, ch_op_gelu(g, p[0]), p[1], 4));
}

/* Uses one node x as the values. The contexts are x times p[1], and x is added to the result. */
static ch_node *build_exclude_itself(ch_graph *g, ch_node *const *p) {
  ch_node *x = ch_op_gelu(g, p[0]);
  return ch_op_add(g, ch_op_exclude(g, ch_op_mul(g, x, p[1]), x, 2), x);
}

static ch_node *build_factor_product(ch_graph *g, ch_node *const *p) {
  ch_node *a = ch_op_gelu(g, p[0]);
  return ch_op_add(g, ch_op_gelu(g, ch_op_factor_product(g, a, p[1], 3, 0.5)), p[2]);
}

/* Uses one value as both factors. */
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

static ch_node *build_sigmoid_gate(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_sigmoid_gate(g, p[0], p[1], 2));
}

static ch_node *build_linear_of_heads(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_linear(g, p[0], p[1], p[2]));
}

static ch_node *build_head_mix(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_head_mix(g, p[0], p[1]));
}

/* Joins three parts per head: two different parts of a head of p[0], with a part of p[1] between them. All heads
   share p[1]. */
static ch_node *build_join_heads(ch_graph *g, ch_node *const *p) {
  ch_node *in[] = {p[0], p[1], p[0]};
  const ch_head_slice slices[] = {{4, 1, 2}, {0, 1, 3}, {4, 3, 1}};
  return ch_op_gelu(g, ch_op_join_heads(g, 2, 3, in, slices));
}

/* Repeats two heads three times and three heads twice. */
static ch_node *build_repeat_heads(ch_graph *g, ch_node *const *p) {
  return ch_op_swiglu(g, ch_op_repeat_heads(g, p[0], 2, 3), ch_op_repeat_heads(g, p[1], 2, 2));
}

static ch_node *build_slice_heads(ch_graph *g, ch_node *const *p) {
  ch_node *first = ch_op_slice_heads(g, p[0], 2, (ch_head_slice){4, 0, 3});
  return ch_op_swiglu(g, first, ch_op_slice_heads(g, p[0], 2, (ch_head_slice){4, 1, 3}));
}

/* Multiplies two heads of 3 by their own matrices [4, 3], and the results by the transposes of other matrices. */
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

static ch_node *build_l2norm(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_l2norm(g, ch_op_gelu(g, p[0]), 3, 0.01, 1.7));
}

static ch_node *build_decay(ch_graph *g, ch_node *const *p) {
  return ch_op_gelu(g, ch_op_decay(g, ch_op_gelu(g, p[0]), p[1], p[2]));
}

/* Uses two key heads of 3 and four value heads of 2. All five operands are computed. Decays are below zero. */
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

static const gradient_case cases[] = {
    {"rope, half layout", 1, {{ROWS, 12}}, build_rope_half},
    {"rope, first dims", 1, {{ROWS, 12}}, build_rope_leading},
    {"rope, interleaved and partial", 1, {{ROWS, 12}}, build_rope_interleaved_partial},
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
    {"exclude", 2, {{ROWS, 12}, {ROWS, 6}}, build_exclude},
    {"exclude a value from itself", 2, {{ROWS, 6}, {ROWS, 6}}, build_exclude_itself},
    {"product of factors", 3, {{ROWS, 6}, {ROWS, 8}, {ROWS, 12}}, build_factor_product},
    {"product of a factor with itself", 1, {{ROWS, 6}}, build_factor_square},
    {"tagged heads", 2, {{ROWS, 6}, {2, 5}}, build_tag_heads},
    {"rmsnorm by slices", 2, {{ROWS, 12}, {12}}, build_sliced_norm},
    {"weights of chosen heads", 1, {{ROWS, 4}}, build_head_weights},
    {"weights with a shared head", 2, {{ROWS, 4}, {ROWS, 2}}, build_head_weights_of_one},
    {"weights with shared heads", 3, {{ROWS, 4}, {ROWS, 2}, {ROWS, 3}}, build_head_weights_of_three},
    {"sigmoid gate", 2, {{ROWS, 3}, {ROWS, 3}}, build_sigmoid_gate},
    {"linear of heads", 3, {{ROWS, 8}, {3, 4}, {3}}, build_linear_of_heads},
    {"head mix", 2, {{ROWS, 6}, {4, 2}}, build_head_mix},
    {"heads through their own matrices", 3, {{ROWS, 6}, {2, 4, 3}, {8, 3}}, build_head_product},
    {"heads joined", 2, {{ROWS, 8}, {ROWS, 4}}, build_join_heads},
    {"heads repeated", 2, {{ROWS, 4}, {ROWS, 6}}, build_repeat_heads},
    {"heads sliced", 1, {{ROWS, 8}}, build_slice_heads},
    {"subtract scaled", 3, {{ROWS, 6}, {ROWS, 6}, {2}}, build_subtract_scaled},
    {"subtract scaled, one lambda", 3, {{ROWS, 6}, {ROWS, 6}, {1}}, build_subtract_scaled},
    {"lambda of differential attention", 6, {{ROWS, 6}, {ROWS, 6}, {3}, {3}, {3}, {3}}, build_diff_lambda},
    {"short convolution", 2, {{ROWS, 6}, {6, 1, 4}}, build_short_conv},
    {"short convolution inside documents", 2, {{ROWS, 6}, {6, 1, 3}}, build_short_conv_documents},
    {"vectors of length 1", 1, {{ROWS, 6}}, build_l2norm},
    {"decays", 3, {{ROWS, 4}, {4}, {4}}, build_decay},
    {"delta rule", 5, {{ROWS, 6}, {ROWS, 6}, {ROWS, 8}, {ROWS, 4}, {ROWS, 4}}, build_delta_rule},
    {"delta rule inside documents",
     5,
     {{ROWS, 6}, {ROWS, 6}, {ROWS, 8}, {ROWS, 4}, {ROWS, 4}},
     build_delta_rule_documents},
};

static gradient_cases all = {cases, sizeof cases / sizeof *cases};

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(backward_agrees_with_differences, &all),
      cmocka_unit_test_prestate(dropping_and_recomputing_changes_no_gradient, &all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
