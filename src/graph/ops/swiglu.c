/* y = silu(gate) * up. */
#include "graph/ops/shapes.h"

static ch_status swiglu_forward(ch_run *run, const ch_node *node) {
  run->kernels->swiglu_forward(run->team, ch_node_count(node), ch_run_value(run, node->in[0]),
                               ch_run_value(run, node->in[1]), ch_run_output(run, node));
  return CH_OK;
}

static ch_status swiglu_backward(ch_run *run, const ch_node *node) {
  bool accumulate_gate, accumulate_up;
  void *dgate = ch_run_gradient(run, node, 0, &accumulate_gate);
  void *dup = ch_run_gradient(run, node, 1, &accumulate_up);
  run->kernels->swiglu_backward(run->team, ch_node_count(node), ch_run_value(run, node->in[0]),
                                ch_run_value(run, node->in[1]), ch_run_output_gradient(run, node), dgate,
                                accumulate_gate, dup, accumulate_up);
  return CH_OK;
}

static const ch_op op = {.name = "swiglu",
                         .shape = ch_shape_of_equal_inputs,
                         .forward = swiglu_forward,
                         .backward = swiglu_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .cheap = true};

ch_node *ch_op_swiglu(ch_graph *graph, ch_node *gate, ch_node *up) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){gate, up}, NULL, 0);
}
