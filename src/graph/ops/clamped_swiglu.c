/* SwiGLU with clamps: y = g s(alpha g) (u + 1), g = min(gate, limit), u = up clamped to -limit … limit. */
#include "graph/ops/shapes.h"

static ch_status clamped_swiglu_forward(ch_run *run, const ch_node *node) {
  const ch_swiglu_clamps *clamps = node->attributes;
  run->kernels->clamped_swiglu_forward(run->team, ch_node_rows(node), ch_node_columns(node), clamps->alpha,
                                       clamps->limit, ch_run_value(run, node->in[0]),
                                       ch_run_value(run, node->in[1]), NULL, ch_run_output(run, node));
  return CH_OK;
}

static ch_status clamped_swiglu_backward(ch_run *run, const ch_node *node) {
  const ch_swiglu_clamps *clamps = node->attributes;
  bool accumulate_gate, accumulate_up;
  void *dgate = ch_run_gradient(run, node, 0, &accumulate_gate);
  void *dup = ch_run_gradient(run, node, 1, &accumulate_up);
  run->kernels->clamped_swiglu_backward(
      run->team, ch_node_rows(node), ch_node_columns(node), clamps->alpha, clamps->limit,
      ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]), NULL, ch_run_output_gradient(run, node),
      dgate, accumulate_gate, dup, accumulate_up, NULL);
  return CH_OK;
}

static const ch_op op = {.name = "clamped_swiglu",
                         .shape = ch_shape_of_equal_inputs,
                         .forward = clamped_swiglu_forward,
                         .backward = clamped_swiglu_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .cheap = true};

ch_node *ch_op_clamped_swiglu(ch_graph *graph, ch_node *gate, ch_node *up, const ch_swiglu_clamps *clamps) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){gate, up}, clamps, sizeof *clamps);
}
