/* y = x * Phi(x), the exact GELU, and its approximation with a tanh. */
#include "graph/ops/shapes.h"

static ch_status gelu_forward(ch_run *run, const ch_node *node) {
  run->kernels->gelu_forward(run->team, ch_node_count(node), ch_run_value(run, node->in[0]),
                             ch_run_output(run, node));
  return CH_OK;
}

static ch_status gelu_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  run->kernels->gelu_backward(run->team, ch_node_count(node), ch_run_value(run, node->in[0]),
                              ch_run_output_gradient(run, node), dx, accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "gelu",
                         .shape = ch_shape_of_first_input,
                         .forward = gelu_forward,
                         .backward = gelu_backward,
                         .backward_reads = CH_READS_INPUT(0),
                         .cheap = true};

ch_node *ch_op_gelu(ch_graph *graph, ch_node *x) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){x}, NULL, 0);
}

/* --- with a tanh ---------------------------------------------------------------------------------------- */

static ch_status gelu_tanh_forward(ch_run *run, const ch_node *node) {
  run->kernels->gelu_tanh_forward(run->team, ch_node_count(node), ch_run_value(run, node->in[0]),
                                  ch_run_output(run, node));
  return CH_OK;
}

static ch_status gelu_tanh_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  run->kernels->gelu_tanh_backward(run->team, ch_node_count(node), ch_run_value(run, node->in[0]),
                                   ch_run_output_gradient(run, node), dx, accumulate);
  return CH_OK;
}

static const ch_op tanh_op = {.name = "gelu_tanh",
                              .shape = ch_shape_of_first_input,
                              .forward = gelu_tanh_forward,
                              .backward = gelu_tanh_backward,
                              .backward_reads = CH_READS_INPUT(0),
                              .cheap = true};

ch_node *ch_op_gelu_tanh(ch_graph *graph, ch_node *x) {
  return ch_graph_node(graph, &tanh_op, 1, (ch_node *[]){x}, NULL, 0);
}
