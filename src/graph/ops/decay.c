/* Logarithms of decays: -e^rate softplus(x + bias). */
#include "graph/ops/shapes.h"

static ch_status decay_shape(ch_node *node, ch_error *error) {
  CH_TRY(ch_vector_of(node->in[1], ch_node_columns(node->in[0]), "the rate", error));
  CH_TRY(ch_vector_of(node->in[2], ch_node_columns(node->in[0]), "the bias", error));
  return ch_shape_as_input(node, 0);
}

static size_t decay_scratch(const ch_run *run, const ch_node *node, bool backward) {
  return backward ? run->kernels->sum_scratch(run->team, 2 * ch_node_columns(node)) : 0;
}

static ch_status decay_forward(ch_run *run, const ch_node *node) {
  run->kernels->decay_forward(run->team, ch_node_rows(node), ch_node_columns(node),
                              ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                              ch_run_value(run, node->in[2]), ch_run_output(run, node));
  return CH_OK;
}

static ch_status decay_backward(ch_run *run, const ch_node *node) {
  bool add[3];
  void *to[3];
  for (int i = 0; i < 3; i++) to[i] = ch_run_gradient(run, node, i, &add[i]);
  run->kernels->decay_backward(run->team, ch_node_rows(node), ch_node_columns(node),
                               ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                               ch_run_value(run, node->in[2]), ch_run_output_gradient(run, node), to[0],
                               add[0], to[1], add[1], to[2], add[2], ch_run_scratch(run));
  return CH_OK;
}

static const ch_op op = {.name = "decay",
                         .shape = decay_shape,
                         .scratch = decay_scratch,
                         .forward = decay_forward,
                         .backward = decay_backward,
                         .backward_reads = CH_READS_INPUTS};

ch_node *ch_op_decay(ch_graph *graph, ch_node *x, ch_node *rate, ch_node *bias) {
  return ch_graph_node(graph, &op, 3, (ch_node *[]){x, rate, bias}, NULL, 0);
}
