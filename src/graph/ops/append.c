/* Appends states to the cache, for later tokens to read. */
#include "graph/ops/append.h"
#include "graph/ops/shapes.h"

static ch_state_view states(const ch_run *run, const ch_node *node) {
  const ch_append *place = node->attributes;
  return run->cache->views[place->layer][place->part];
}

static ch_dtype state_type(const ch_node *node) {
  return ((const ch_append *)node->attributes)->dtype;
}

static ch_status append_forward(ch_run *run, const ch_node *node) {
  const ch_append *place = node->attributes;
  const int64_t width = ch_node_columns(node), length = node->graph->length;
  size_t bytes = (size_t)(length * width) * ch_dtype_size(node->dtype);
  for (int64_t s = 0; s < node->graph->sequences; s++)
    ch_cache_append(run->cache, run->kernels, run->team, place->layer, place->part, s, length, width,
                    (const char *)ch_run_value(run, node->in[0]) + (size_t)s * bytes);
  return CH_OK;
}

static const ch_op op = {.name = "append",
                         .shape = ch_shape_of_first_input,
                         .forward = append_forward,
                         .stateful = true,
                         .states = states,
                         .state_type = state_type};

/* --- several tokens, to a ring -------------------------------------------------------------------------- */

/* Returns the bytes of the copy that attention reads if its queries see tokens that this run overwrites in
   the ring. */
static size_t staged(const ch_node *node) {
  const ch_append *place = node->attributes;
  return ch_dtype_bytes(place->dtype, node->graph->sequences * place->stage_rows *
                                          ch_stored_width(ch_node_columns(node), place->dtype));
}

static ch_state_view staged_states(const ch_run *run, const ch_node *node) {
  const ch_append *place = node->attributes;
  int64_t width = ch_stored_width(ch_node_columns(node), place->dtype);
  return (ch_state_view){.data = ch_run_value(run, node),
                         .dtype = place->dtype,
                         .token_stride = width,
                         .sequence_stride = width * place->stage_rows};
}

static ch_status append_forward_staged(ch_run *run, const ch_node *node) {
  const ch_append *place = node->attributes;
  const int64_t width = ch_node_columns(node), length = node->graph->length;
  const size_t bytes = (size_t)(length * width) * ch_dtype_size(node->dtype),
               stage = staged(node) / (size_t)node->graph->sequences;
  for (int64_t s = 0; s < node->graph->sequences; s++)
    ch_cache_stage(run->cache, run->kernels, run->team, place->layer, place->part, s, length, width,
                   (const char *)ch_run_value(run, node->in[0]) + (size_t)s * bytes,
                   (char *)ch_run_output(run, node) + (size_t)s * stage);
  return CH_OK;
}

static const ch_op staged_op = {.name = "append",
                                .shape = ch_shape_of_first_input,
                                .forward = append_forward_staged,
                                .stateful = true,
                                .staged = staged,
                                .states = staged_states,
                                .state_type = state_type};

/* --- by id ---------------------------------------------------------------------------------------------- */

static ch_status append_forward_by_id(ch_run *run, const ch_node *node) {
  const ch_append *place = node->attributes;
  ch_cache_put_by_id(run->cache, run->kernels, run->team, place->layer, place->part, ch_node_rows(node),
                     run->host_inputs[CH_INPUT_TOKENS], ch_node_columns(node),
                     ch_run_value(run, node->in[0]));
  return CH_OK;
}

/* Streams the rows of the tokens' ids. */
static void append_stream_by_id(const ch_stream_call *call) {
  const ch_append *place = call->node->attributes;
  const ch_cache *cache = call->run->cache;
  const ch_row_places *places = ch_places_of(call->run, call->node, call->sequence);
  const size_t row = (size_t)call->wanted.count * ch_dtype_size(call->run->kernels->dtype);
  for (int64_t t = 0, count; t < call->count; t += count) {
    count = ch_consecutive_rows(places, call->first + t, call->count - t);
    ch_cache_get_by_id(cache, place->layer, place->part, count,
                       ch_cache_tokens(cache, call->sequence) + ch_token_of_row(places, call->first + t),
                       call->wanted.first, call->wanted.count, (char *)call->space + (size_t)t * row);
  }
}

static const ch_op by_id_op = {.name = "append",
                               .shape = ch_shape_of_first_input,
                               .forward = append_forward_by_id,
                               .stateful = true,
                               .states = states,
                               .state_type = state_type,
                               .stream = append_stream_by_id};

ch_node *ch_op_append(ch_graph *graph, ch_node *x, int layer, int part, ch_part_kind kind, ch_dtype dtype,
                      const ch_ring *ring) {
  ch_append place = {.layer = layer, .part = part, .dtype = dtype};
  if (ring) place.seen = ring->window + ring->sinks;
  if (ring && place.seen < ring->capacity) {
    place.window = ring->window;
    place.sinks = ring->sinks;
    place.stage_rows = ch_stage_rows(ring->window, ring->sinks, ring->capacity, graph->length);
  }
  const ch_op *kept = place.window && graph->length > 1 ? &staged_op : &op;
  return ch_graph_node(graph, kind == CH_PART_BY_ID ? &by_id_op : kept, 1, (ch_node *[]){x}, &place,
                       sizeof place);
}

const ch_append *ch_append_behind(const ch_node *node) {
  while (!node->op->stateful) {
    int i = 0;
    while (i < node->inputs && !node->in[i]->streamed) i++;
    if (i == node->inputs) return NULL; /* a stream source that does not come from an append */
    node = node->in[i];
  }
  return node->attributes;
}

int64_t ch_first_own_row(const ch_run *run, const ch_node *node, int64_t sequence) {
  const ch_row_places *places = ch_places_of(run, node, sequence);
  if (!places) return run->cache->length[sequence];
  if (node->graph->length > 1) return run->cache->rows_before[sequence];
  return places->turn < INT64_MAX ? places->turn - 1 : run->cache->length[sequence];
}

const ch_row_places *ch_places_of(const ch_run *run, const ch_node *node, int64_t sequence) {
  const ch_append *place = run->cache ? ch_append_behind(node) : NULL;
  return place && place->window ? &run->cache->places[sequence] : NULL;
}

ch_state_view ch_states_of(const ch_run *run, const ch_node *node) {
  if (node->op && node->op->stateful) return node->op->states(run, node);
  int64_t width = ch_node_columns(node);
  return (ch_state_view){.data = ch_run_value(run, node),
                         .dtype = node->dtype,
                         .token_stride = width,
                         .sequence_stride = width * node->graph->length};
}
