/* Looks up rows of a table by id. */
#include "graph/ops/shapes.h"

static ch_status embedding_forward(ch_run *run, const ch_node *node) {
  run->kernels->embedding_forward(run->team, ch_node_rows(node), ch_node_columns(node),
                                  ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                  ch_run_dtype(run, node->in[1]), ch_run_output(run, node));
  return CH_OK;
}

static ch_status embedding_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *gradient = ch_run_gradient(run, node, 1, &accumulate);
  if (gradient)
    run->kernels->embedding_backward(run->team, ch_node_rows(node), ch_node_columns(node),
                                     node->in[1]->shape[0], ch_run_value(run, node->in[0]),
                                     ch_run_output_gradient(run, node), gradient, accumulate);
  return CH_OK;
}

static double embedding_parameters_read(const ch_node *node) {
  double share = (double)ch_node_rows(node) / (double)node->in[1]->shape[0];
  return share < 1 ? share : 1;
}

static const ch_op op = {.name = "embedding",
                         .shape = ch_shape_of_table_rows,
                         .forward = embedding_forward,
                         .backward = embedding_backward,
                         .parameters_read = embedding_parameters_read};

ch_node *ch_op_embedding(ch_graph *graph, ch_node *ids, ch_node *weight) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){ids, weight}, NULL, 0);
}
