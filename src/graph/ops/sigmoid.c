/* scale * sigmoid(x). */
#include "graph/ops/shapes.h"

static double sigmoid_scale_of(const ch_node *node) {
  return *(const double *)node->attributes;
}

static ch_status sigmoid_forward(ch_run *run, const ch_node *node) {
  run->kernels->sigmoid_forward(run->team, ch_node_count(node), sigmoid_scale_of(node),
                                ch_run_value(run, node->in[0]), ch_run_output(run, node));
  return CH_OK;
}

static ch_status sigmoid_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  run->kernels->sigmoid_backward(run->team, ch_node_count(node), sigmoid_scale_of(node),
                                 ch_run_value(run, node->in[0]), ch_run_output_gradient(run, node), dx,
                                 accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "sigmoid",
                         .shape = ch_shape_of_first_input,
                         .forward = sigmoid_forward,
                         .backward = sigmoid_backward,
                         .backward_reads = CH_READS_INPUT(0),
                         .cheap = true};

ch_node *ch_op_sigmoid(ch_graph *graph, ch_node *x, double scale) {
  return ch_graph_node(graph, &op, 1, &x, &scale, sizeof scale);
}
