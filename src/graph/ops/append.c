/* Appending states to the cache, for later tokens to read. */
#include "graph/ops/append.h"

static ch_status shape(ch_node *node, ch_error *error) {
  (void)error;
  return ch_shape_as_input(node, 0);
}

static ch_state_view states(const ch_run *run, const ch_node *node) {
  const ch_append *place = node->attributes;
  return run->cache->views[place->layer][place->part];
}

static ch_dtype state_type(const ch_node *node) {
  return ((const ch_append *)node->attributes)->dtype;
}

static ch_status forward(ch_run *run, const ch_node *node) {
  const ch_append *place = node->attributes;
  int64_t width = ch_node_columns(node), length = node->graph->length;
  size_t bytes = (size_t)(length * width) * ch_dtype_size(node->dtype);
  for (int64_t s = 0; s < node->graph->sequences; s++)
    ch_cache_append(run->cache, run->kernels, run->team, place->layer, place->part, s, length, width,
                    (const char *)ch_run_value(run, node->in[0]) + (size_t)s * bytes);
  return CH_OK;
}

static const ch_op op = {.name = "append",
                         .shape = shape,
                         .forward = forward,
                         .stateful = true,
                         .states = states,
                         .state_type = state_type};

/* --- by id ------------------------------------------------------------------------------------------------------- */

static ch_status forward_by_id(ch_run *run, const ch_node *node) {
  const ch_append *place = node->attributes;
  ch_cache_put_by_id(run->cache, run->kernels, run->team, place->layer, place->part, ch_node_rows(node),
                     run->host_inputs[CH_INPUT_TOKENS], ch_node_columns(node),
                     ch_run_value(run, node->in[0]));
  return CH_OK;
}

/* The rows of the tokens' ids. */
static void stream_by_id(const ch_stream_call *call) {
  const ch_append *place = call->node->attributes;
  const ch_cache *cache = call->run->cache;
  ch_cache_get_by_id(cache, place->layer, place->part, call->count,
                     ch_cache_tokens(cache, call->sequence) + call->first, call->wanted.first,
                     call->wanted.count, call->space);
}

static const ch_op by_id_op = {.name = "append",
                               .shape = shape,
                               .forward = forward_by_id,
                               .stateful = true,
                               .states = states,
                               .state_type = state_type,
                               .stream = stream_by_id};

ch_node *ch_op_append(ch_graph *graph, ch_node *x, int layer, int part, ch_part_kind kind, ch_dtype dtype) {
  return ch_graph_node(graph, kind == CH_PART_BY_ID ? &by_id_op : &op, 1, (ch_node *[]){x},
                       &(ch_append){layer, part, dtype}, sizeof(ch_append));
}

ch_state_view ch_states_of(const ch_run *run, const ch_node *node) {
  if (node->op && node->op->stateful) return node->op->states(run, node);
  int64_t width = ch_node_columns(node);
  return (ch_state_view){.data = ch_run_value(run, node),
                         .dtype = node->dtype,
                         .token_stride = width,
                         .sequence_stride = width * node->graph->length};
}
