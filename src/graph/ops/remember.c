/* Writing states into the cache: the one way in which a token leaves something behind for later ones. */
#include "graph/ops/remember.h"

static ch_status shape(ch_node *node, ch_error *error) {
  (void)error;
  return ch_shape_as_input(node, 0);
}

static ch_status forward(ch_run *run, const ch_node *node) {
  const ch_remember *attributes = node->attributes;
  ch_cache *cache = run->cache;
  int64_t width = ch_node_columns(node), length = node->graph->length;
  ch_state_view view = cache->views[attributes->layer][attributes->part];
  size_t element = ch_dtype_size(cache->dtype), own = ch_dtype_size(node->dtype);
  for (int64_t s = 0; s < node->graph->sequences; s++) {
    int64_t first = s * view.sequence_stride + cache->length[s] * view.token_stride;
    run->kernels->convert_to(
        length * width, (const char *)ch_run_value(run, node->in[0]) + (size_t)(s * length * width) * own,
        cache->dtype, (char *)view.data + (size_t)first * element);
  }
  return CH_OK;
}

static const ch_op op = {.name = "remember", .shape = shape, .forward = forward, .stateful = true};

ch_node *ch_op_remember(ch_graph *graph, ch_node *x, int layer, int part) {
  return ch_graph_node(graph, &op, 1, (ch_node *[]){x}, &(ch_remember){layer, part}, sizeof(ch_remember));
}

ch_state_view ch_states_of(const ch_run *run, const ch_node *node) {
  if (node->op == &op) {
    const ch_remember *attributes = node->attributes;
    return run->cache->views[attributes->layer][attributes->part];
  }
  int64_t width = ch_node_columns(node);
  return (ch_state_view){.data = ch_run_value(run, node),
                         .dtype = node->dtype,
                         .token_stride = width,
                         .sequence_stride = width * node->graph->length};
}
