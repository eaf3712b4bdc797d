/* Rows of a part by id that are known already, for the tokens of this run. */
#include <string.h>

#include "graph/ops/remember.h"

typedef struct rows_by_id {
  ch_remember place;
  int64_t width;
} rows_by_id;

static ch_status shape(ch_node *node, ch_error *error) {
  (void)error;
  return ch_shape_matrix(node, ch_node_count(node->in[0]), ((const rows_by_id *)node->attributes)->width);
}

static ch_status forward(ch_run *run, const ch_node *node) {
  const rows_by_id *attributes = node->attributes;
  ch_state_view view = run->cache->views[attributes->place.layer][attributes->place.part];
  const int32_t *ids = ch_run_value(run, node->in[0]);
  size_t row = (size_t)attributes->width * ch_dtype_size(view.dtype);
  for (int64_t r = 0; r < ch_node_rows(node); r++)
    memcpy((char *)ch_run_output(run, node) + (size_t)r * row, (const char *)view.data + (size_t)ids[r] * row,
           row);
  return CH_OK;
}

static const ch_op op = {.name = "rows_by_id", .shape = shape, .forward = forward};

ch_node *ch_op_rows_by_id(ch_graph *graph, ch_node *ids, int layer, int part, int64_t width) {
  return ch_graph_node(graph, &op, 1, &ids, &(rows_by_id){{layer, part, CH_F32}, width}, sizeof(rows_by_id));
}
