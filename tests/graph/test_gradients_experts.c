/* Tests the gradients of experts and of their weights. */
#include "graph/gradient_testing.h"

/* Builds three experts, of which each row uses `active`. p has x, router logits, then gate, up and down matrices. */
static ch_node *experts(ch_graph *g, ch_node *const *p, int64_t active, bool renormalise, bool sigmoid) {
  ch_node *chosen =
      ch_op_choose_experts(g, p[1], NULL, &(ch_choice_spec){.active = active, .sigmoid = sigmoid}, 0);
  ch_node *weights = ch_op_route(
      g, p[1], chosen, &(ch_route_spec){.renormalise = renormalise, .scale = 1.5, .sigmoid = sigmoid});
  return ch_op_gelu(
      g, ch_op_experts(g, p[0], weights, chosen,
                       &(ch_expert_weights){.experts = 3, .gate = p + 2, .up = p + 5, .down = p + 8}));
}

/* Uses biases, and clamps that some values reach. */
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

/* Uses twelve experts with the same matrices, so that a node has more than 32 inputs and gradients accumulate in each
   matrix. x is used elsewhere too. */
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

#define THREE(rows, columns)                                                                                 \
  {rows, columns}, {rows, columns}, {                                                                        \
    rows, columns                                                                                            \
  }
#define EXPERT_LEAVES {ROWS, 4}, {ROWS, 3}, THREE(5, 4), THREE(5, 4), THREE(4, 5)

static const gradient_case cases[] = {
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

static gradient_cases all = {cases, sizeof cases / sizeof *cases};

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(backward_agrees_with_differences, &all),
      cmocka_unit_test_prestate(dropping_and_recomputing_changes_no_gradient, &all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
