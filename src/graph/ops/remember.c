/* Writing states into the cache: the one way in which a token leaves something behind for later ones. */
#include "graph/ops/remember.h"

#include <string.h>

static ch_status shape(ch_node *node, ch_error *error) {
  (void)error;
  return ch_shape_as_input(node, 0);
}

static ch_state_view view_of(const ch_run *run, const ch_node *node) {
  const ch_remember *attributes = node->attributes;
  return run->cache->views[attributes->layer][attributes->part];
}

static ch_status forward(ch_run *run, const ch_node *node) {
  int64_t width = ch_node_columns(node), length = node->graph->length;
  ch_state_view view = view_of(run, node);
  size_t own = ch_dtype_size(node->dtype);
  for (int64_t s = 0; s < node->graph->sequences; s++) {
    int64_t first = s * view.sequence_stride + run->cache->length[s] * view.token_stride;
    const char *x = (const char *)ch_run_value(run, node->in[0]) + (size_t)(s * length * width) * own;
    char *to = (char *)view.data + ch_dtype_bytes(view.dtype, first);
    if (ch_dtype_in_blocks(view.dtype))
      run->kernels->pack_states(length, width, x, view.dtype, to);
    else
      run->kernels->convert_to(length * width, x, view.dtype, to);
  }
  return CH_OK;
}

static const ch_op op = {.name = "remember", .shape = shape, .forward = forward, .stateful = true};

/* --- by id ------------------------------------------------------------------------------------------------------- */

static ch_status forward_by_id(ch_run *run, const ch_node *node) {
  int64_t width = ch_node_columns(node);
  ch_state_view view = view_of(run, node);
  size_t row = (size_t)width * ch_dtype_size(view.dtype), own = (size_t)width * ch_dtype_size(node->dtype);
  const int32_t *ids = run->inputs[CH_INPUT_TOKENS];
  for (int64_t r = 0; r < ch_node_rows(node); r++)
    run->kernels->convert_to(width, (const char *)ch_run_value(run, node->in[0]) + (size_t)r * own,
                             view.dtype, (char *)view.data + (size_t)ids[r] * row);
  return CH_OK;
}

/* The rows of the tokens' ids. */
static void stream_by_id(const ch_stream_call *call) {
  ch_state_view view = view_of(call->run, call->node);
  const int32_t *ids = ch_cache_tokens(call->run->cache, call->sequence) + call->first;
  size_t element = ch_dtype_size(view.dtype), bytes = (size_t)call->wanted.count * element;
  for (int64_t t = 0; t < call->count; t++)
    memcpy((char *)call->space + (size_t)t * bytes,
           (const char *)view.data + (size_t)(ids[t] * view.token_stride + call->wanted.first) * element,
           bytes);
}

static const ch_op by_id_op = {
    .name = "remember", .shape = shape, .forward = forward_by_id, .stateful = true, .stream = stream_by_id};

ch_node *ch_op_remember(ch_graph *graph, ch_node *x, int layer, int part, ch_part_kind kind, ch_dtype dtype) {
  return ch_graph_node(graph, kind == CH_PART_BY_ID ? &by_id_op : &op, 1, (ch_node *[]){x},
                       &(ch_remember){layer, part, dtype}, sizeof(ch_remember));
}

ch_state_view ch_states_of(const ch_run *run, const ch_node *node) {
  if (node->op && node->op->stateful) return view_of(run, node);
  int64_t width = ch_node_columns(node);
  return (ch_state_view){.data = ch_run_value(run, node),
                         .dtype = node->dtype,
                         .token_stride = width,
                         .sequence_stride = width * node->graph->length};
}
