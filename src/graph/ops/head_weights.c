/* Computes a token's weights of its heads: shared heads, which all tokens have, and the routed heads that it has
 * chosen (tensor/head_weights.h). */
#include "graph/ops/shapes.h"

/* Inputs: weights and indices of the chosen heads. With shared heads also the stages' logits, and with two or more
   of them the shared heads' logits. */
enum { WEIGHTS, CHOSEN, STAGE, SHARED };

typedef struct head_weights {
  int64_t routed, shared;
} head_weights;

static ch_status head_weights_shape(ch_node *node, ch_error *error) {
  const head_weights *h = node->attributes;
  bool fits = node->in[CHOSEN]->dtype == CH_I32 &&
              ch_node_columns(node->in[WEIGHTS]) == ch_node_columns(node->in[CHOSEN]);
  if (node->inputs > STAGE) fits = fits && ch_node_columns(node->in[STAGE]) == 2;
  if (node->inputs > SHARED) fits = fits && ch_node_columns(node->in[SHARED]) == h->shared;
  if (!fits || node->inputs != 2 + (h->shared > 0) + (h->shared > 1) || h->shared > CH_MAX_EXPERTS)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld shared and %lld routed heads do not fit their logits",
                   (long long)h->shared, (long long)h->routed);
  return ch_shape_matrix(node, ch_node_rows(node->in[WEIGHTS]), h->shared + h->routed);
}

static ch_head_weights head_weights_describe(const ch_run *run, const ch_node *node) {
  const head_weights *h = node->attributes;
  return (ch_head_weights){.team = run->team,
                           .rows = ch_node_rows(node),
                           .shared = h->shared,
                           .routed = h->routed,
                           .active = ch_node_columns(node->in[CHOSEN]),
                           .chosen = ch_run_value(run, node->in[CHOSEN]),
                           .chosen_weights = ch_run_value(run, node->in[WEIGHTS]),
                           .stage_logits = node->inputs > STAGE ? ch_run_value(run, node->in[STAGE]) : NULL,
                           .shared_logits =
                               node->inputs > SHARED ? ch_run_value(run, node->in[SHARED]) : NULL};
}

static ch_status head_weights_forward(ch_run *run, const ch_node *node) {
  const ch_head_weights args = head_weights_describe(run, node);
  run->kernels->head_weights_forward(&args, ch_run_output(run, node));
  return CH_OK;
}

static ch_status head_weights_backward(ch_run *run, const ch_node *node) {
  const ch_head_weights args = head_weights_describe(run, node);
  ch_head_weights_gradient g = {0};
  g.chosen_weights = ch_run_gradient(run, node, WEIGHTS, &g.accumulate_chosen);
  if (node->inputs > STAGE) g.stage_logits = ch_run_gradient(run, node, STAGE, &g.accumulate_stage);
  if (node->inputs > SHARED) g.shared_logits = ch_run_gradient(run, node, SHARED, &g.accumulate_shared);
  run->kernels->head_weights_backward(&args, ch_run_output_gradient(run, node), &g);
  return CH_OK;
}

static const ch_op op = {.name = "head_weights",
                         .shape = head_weights_shape,
                         .forward = head_weights_forward,
                         .backward = head_weights_backward,
                         .backward_reads = CH_READS_INPUT(WEIGHTS) | CH_READS_INPUT(CHOSEN) |
                                           CH_READS_INPUT(STAGE) | CH_READS_INPUT(SHARED)};

ch_node *ch_op_head_weights(ch_graph *graph, ch_node *weights, ch_node *chosen, ch_node *stage,
                            ch_node *shared, int64_t routed, int64_t shared_heads) {
  int inputs = 2 + (shared_heads > 0) + (shared_heads > 1);
  return ch_graph_node(graph, &op, inputs, (ch_node *[]){weights, chosen, stage, shared},
                       &(head_weights){.routed = routed, .shared = shared_heads}, sizeof(head_weights));
}
