/* Rotary positions: the table of angles, once a run, and the rotation of heads. */
#include "graph/ops/shapes.h"

/* --- table --------------------------------------------------------------------------------------------------- */

typedef struct rope_table {
  int64_t rotary;
  const double *frequencies; /* [rotary / 2], in the graph's arena */
} rope_table;

static ch_status table_shape(ch_node *node, ch_error *error) {
  const rope_table *attributes = node->attributes;
  if (attributes->rotary < 2 || attributes->rotary % 2 != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld rotary dims; they turn in pairs, so the number must be even",
                   (long long)attributes->rotary);
  return ch_shape_matrix(node, ch_node_count(node->in[0]), attributes->rotary);
}

static ch_status table_forward(ch_run *run, const ch_node *node) {
  const rope_table *attributes = node->attributes;
  run->kernels->rope_table(ch_node_rows(node), attributes->rotary, ch_run_value(run, node->in[0]),
                           attributes->frequencies, ch_run_output(run, node));
  return CH_OK;
}

static const ch_op table_op = {.name = "rope_table", .shape = table_shape, .forward = table_forward};

ch_node *ch_op_rope_table(ch_graph *graph, ch_node *positions, int64_t rotary, const double *frequencies) {
  double *copy = ch_arena_alloc(&graph->arena, (size_t)(rotary / 2 + 1) * sizeof *copy);
  if (!copy) return ch_graph_fail(graph, "no memory for %lld rotary frequencies", (long long)rotary);
  for (int64_t i = 0; i < rotary / 2; i++) copy[i] = frequencies[i];
  return ch_graph_node(graph, &table_op, 1, (ch_node *[]){positions}, &(rope_table){rotary, copy},
                       sizeof(rope_table));
}

/* --- rotation ------------------------------------------------------------------------------------------------ */

typedef struct rope {
  int64_t head_dim;
  bool interleaved;
} rope;

static ch_status shape(ch_node *node, ch_error *error) {
  const rope *attributes = node->attributes;
  int64_t columns = ch_node_columns(node->in[0]), rotary = ch_node_columns(node->in[1]);
  if (columns % attributes->head_dim != 0 || rotary > attributes->head_dim)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%lld columns, heads of %lld, %lld rotary dims do not fit together", (long long)columns,
                   (long long)attributes->head_dim, (long long)rotary);
  return ch_shape_as_input(node, 0);
}

static void turn(const ch_run *run, const ch_node *node, bool inverse, const void *x, void *y,
                 bool accumulate) {
  const rope *attributes = node->attributes;
  run->kernels->rope(ch_node_rows(node), ch_node_columns(node) / attributes->head_dim, attributes->head_dim,
                     ch_node_columns(node->in[1]), attributes->interleaved, inverse,
                     ch_run_value(run, node->in[1]), x, y, accumulate);
}

static ch_status forward(ch_run *run, const ch_node *node) {
  turn(run, node, false, ch_run_value(run, node->in[0]), ch_run_output(run, node), false);
  return CH_OK;
}

/* A rotation's transpose is its inverse. */
static ch_status backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  turn(run, node, true, ch_run_output_gradient(run, node), dx, accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "rope",
                         .shape = shape,
                         .forward = forward,
                         .backward = backward,
                         .backward_reads = CH_READS_INPUT(1)};

ch_node *ch_op_rope(ch_graph *graph, ch_node *x, ch_node *table, int64_t head_dim, bool interleaved) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){x, table}, &(rope){head_dim, interleaved}, sizeof(rope));
}
