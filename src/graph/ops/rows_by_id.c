/* Rows by id that are already in the cache, for the tokens of this run. */
#include "graph/ops/append.h"

typedef struct rows_by_id {
  ch_append place;
  int64_t width;
} rows_by_id;

static ch_status rows_by_id_shape(ch_node *node, ch_error *error) {
  (void)error;
  return ch_shape_matrix(node, ch_node_count(node->in[0]), ((const rows_by_id *)node->attributes)->width);
}

static ch_status rows_by_id_forward(ch_run *run, const ch_node *node) {
  const rows_by_id *attributes = node->attributes;
  ch_cache_get_by_id(run->cache, attributes->place.layer, attributes->place.part, ch_node_rows(node),
                     run->host_inputs[node->in[0]->index], 0, attributes->width, ch_run_output(run, node));
  return CH_OK;
}

static const ch_op op = {.name = "rows_by_id", .shape = rows_by_id_shape, .forward = rows_by_id_forward};

ch_node *ch_op_rows_by_id(ch_graph *graph, ch_node *ids, int layer, int part, int64_t width) {
  return ch_graph_node(
      graph, &op, 1, &ids,
      &(rows_by_id){.place = {.layer = layer, .part = part, .dtype = CH_F32}, .width = width},
      sizeof(rows_by_id));
}
