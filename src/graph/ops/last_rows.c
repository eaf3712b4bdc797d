/* The last row of every sequence. */
#include <string.h>

#include "graph/ops/shapes.h"

static ch_status shape(ch_node *node, ch_error *error) {
  (void)error;
  return ch_shape_matrix(node, node->graph->sequences, ch_node_columns(node->in[0]));
}

static size_t row_bytes(const ch_node *node) {
  return (size_t)ch_node_columns(node) * ch_dtype_size(node->dtype);
}

static size_t last_row(const ch_node *node, int64_t sequence) {
  return (size_t)((sequence + 1) * node->graph->length - 1) * row_bytes(node);
}

static ch_status forward(ch_run *run, const ch_node *node) {
  for (int64_t s = 0; s < node->graph->sequences; s++)
    memcpy((char *)ch_run_output(run, node) + (size_t)s * row_bytes(node),
           (const char *)ch_run_value(run, node->in[0]) + last_row(node, s), row_bytes(node));
  return CH_OK;
}

static ch_status backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  char *dx = ch_run_gradient(run, node, 0, &accumulate);
  const char *dy = ch_run_output_gradient(run, node);
  if (!accumulate) run->kernels->fill(ch_node_count(node->in[0]), 0, dx);
  for (int64_t s = 0; s < node->graph->sequences; s++)
    run->kernels->copy_or_add(ch_node_columns(node), dy + (size_t)s * row_bytes(node), dx + last_row(node, s),
                              true);
  return CH_OK;
}

static const ch_op op = {.name = "last_rows", .shape = shape, .forward = forward, .backward = backward};

ch_node *ch_op_last_rows(ch_graph *graph, ch_node *x) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){x}, NULL, 0);
}
