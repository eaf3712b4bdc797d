/* One row of every sequence, such as the last token or the class token. */
#include "graph/ops/shapes.h"

typedef struct sequence_row {
  int64_t row;
} sequence_row;

static ch_status sequence_row_shape(ch_node *node, ch_error *error) {
  const sequence_row *attributes = node->attributes;
  if (attributes->row < 0 || attributes->row >= node->graph->length)
    return ch_fail(error, CH_ERROR_CONFIG, "there is no row %lld in sequences of %lld",
                   (long long)attributes->row, (long long)node->graph->length);
  return ch_shape_matrix(node, node->graph->sequences, ch_node_columns(node->in[0]));
}

static size_t row_bytes(const ch_node *node) {
  return (size_t)ch_node_columns(node) * ch_dtype_size(node->dtype);
}

/* Returns the offset of the sequence's row in the input, in bytes. */
static size_t sequence_row_place_of(const ch_node *node, int64_t sequence) {
  const sequence_row *attributes = node->attributes;
  return (size_t)(sequence * node->graph->length + attributes->row) * row_bytes(node);
}

static ch_status sequence_row_forward(ch_run *run, const ch_node *node) {
  for (int64_t s = 0; s < node->graph->sequences; s++)
    run->kernels->memory->copy((char *)ch_run_output(run, node) + (size_t)s * row_bytes(node),
                               (const char *)ch_run_value(run, node->in[0]) + sequence_row_place_of(node, s),
                               row_bytes(node));
  return CH_OK;
}

static ch_status sequence_row_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  char *dx = ch_run_gradient(run, node, 0, &accumulate);
  const char *dy = ch_run_output_gradient(run, node);
  if (!accumulate) run->kernels->fill(run->team, ch_node_count(node->in[0]), 0, dx);
  for (int64_t s = 0; s < node->graph->sequences; s++)
    run->kernels->copy_or_add(run->team, ch_node_columns(node), dy + (size_t)s * row_bytes(node),
                              dx + sequence_row_place_of(node, s), true);
  return CH_OK;
}

static const ch_op op = {.name = "sequence_row",
                         .shape = sequence_row_shape,
                         .forward = sequence_row_forward,
                         .backward = sequence_row_backward};

ch_node *ch_op_sequence_row(ch_graph *graph, ch_node *x, int64_t row) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){x}, &(sequence_row){row}, sizeof(sequence_row));
}
