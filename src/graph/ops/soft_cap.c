/* A soft cap: y = cap tanh(x / cap). */
#include "graph/ops/shapes.h"

typedef struct soft_cap {
  double cap;
} soft_cap;

static ch_status soft_cap_forward(ch_run *run, const ch_node *node) {
  const soft_cap *attributes = node->attributes;
  run->kernels->soft_cap_forward(run->team, ch_node_count(node), attributes->cap,
                                 ch_run_value(run, node->in[0]), ch_run_output(run, node));
  return CH_OK;
}

static ch_status soft_cap_backward(ch_run *run, const ch_node *node) {
  const soft_cap *attributes = node->attributes;
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  run->kernels->soft_cap_backward(run->team, ch_node_count(node), attributes->cap, ch_run_output(run, node),
                                  ch_run_output_gradient(run, node), dx, accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "soft_cap",
                         .shape = ch_shape_of_first_input,
                         .forward = soft_cap_forward,
                         .backward = soft_cap_backward,
                         .backward_reads = CH_READS_OUTPUT};

ch_node *ch_op_soft_cap(ch_graph *graph, ch_node *x, double cap) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){x}, &(soft_cap){cap}, sizeof(soft_cap));
}
