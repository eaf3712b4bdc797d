/* y = factor * x. */
#include "graph/ops/shapes.h"

typedef struct scale {
  double factor;
} scale;

static ch_status scale_forward(ch_run *run, const ch_node *node) {
  const scale *attributes = node->attributes;
  run->kernels->scale(run->team, ch_node_count(node), attributes->factor, ch_run_value(run, node->in[0]),
                      ch_run_output(run, node), false);
  return CH_OK;
}

static ch_status scale_backward(ch_run *run, const ch_node *node) {
  const scale *attributes = node->attributes;
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  run->kernels->scale(run->team, ch_node_count(node), attributes->factor, ch_run_output_gradient(run, node),
                      dx, accumulate);
  return CH_OK;
}

static const ch_op op = {
    .name = "scale", .shape = ch_shape_of_first_input, .forward = scale_forward, .backward = scale_backward};

ch_node *ch_op_scale(ch_graph *graph, ch_node *x, double factor) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){x}, &(scale){factor}, sizeof(scale));
}
