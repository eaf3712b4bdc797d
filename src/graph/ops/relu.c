/* y = max(x, 0), or its square. */
#include "graph/ops/shapes.h"

typedef struct relu {
  bool squared;
} relu;

static bool is_squared(const ch_node *node) {
  return ((const relu *)node->attributes)->squared;
}

static ch_status relu_forward(ch_run *run, const ch_node *node) {
  run->kernels->relu_forward(run->team, ch_node_count(node), ch_run_value(run, node->in[0]), is_squared(node),
                             ch_run_output(run, node));
  return CH_OK;
}

static ch_status relu_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  run->kernels->relu_backward(run->team, ch_node_count(node), ch_run_value(run, node->in[0]),
                              is_squared(node), ch_run_output_gradient(run, node), dx, accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "relu",
                         .shape = ch_shape_of_first_input,
                         .forward = relu_forward,
                         .backward = relu_backward,
                         .backward_reads = CH_READS_INPUT(0),
                         .cheap = true};

ch_node *ch_op_relu(ch_graph *graph, ch_node *x) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){x}, &(relu){.squared = false}, sizeof(relu));
}

ch_node *ch_op_relu_squared(ch_graph *graph, ch_node *x) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){x}, &(relu){.squared = true}, sizeof(relu));
}
