/* Builds graphs: creates nodes, merges equal ones and checks shapes. Nothing is computed here. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ch_graph *ch_graph_create(ch_dtype dtype, int64_t sequences, int64_t length) {
  ch_graph *graph = calloc(1, sizeof *graph);
  if (!graph) return NULL;
  graph->dtype = dtype;
  graph->sequences = sequences;
  graph->length = length;
  if (sequences < 1 || length < 1 || sequences > INT32_MAX / length)
    ch_graph_fail(graph, "%lld sequences of %lld tokens: both must be positive and their product below 2^31",
                  (long long)sequences, (long long)length);
  return graph;
}

void ch_graph_free(ch_graph *graph) {
  if (!graph) return;
  ch_arena_free(&graph->arena);
  free(graph->nodes);
  free(graph);
}

ch_node *ch_graph_fail(ch_graph *graph, const char *format, ...) {
  if (graph->error.status != CH_OK) return NULL;
  va_list args;
  va_start(args, format);
  graph->error.status = CH_ERROR_CONFIG;
  vsnprintf(graph->error.message, sizeof graph->error.message, format, args);
  va_end(args);
  return NULL;
}

ch_node *ch_graph_no_memory(ch_graph *graph) {
  if (graph->error.status == CH_OK) ch_no_memory(&graph->error);
  return NULL;
}

static ch_node *append(ch_graph *graph, ch_node_kind kind) {
  if (graph->error.status != CH_OK) return NULL;
  if (graph->count == graph->capacity) {
    int capacity = graph->capacity ? 2 * graph->capacity : 256;
    ch_node **nodes = realloc(graph->nodes, (size_t)capacity * sizeof *nodes);
    if (!nodes) return ch_graph_no_memory(graph);
    graph->nodes = nodes;
    graph->capacity = capacity;
  }
  ch_node *node = ch_arena_alloc(&graph->arena, sizeof *node);
  if (!node) return ch_graph_no_memory(graph);
  node->kind = kind;
  node->graph = graph;
  node->dtype = graph->dtype;
  node->id = graph->count;
  graph->nodes[graph->count++] = node;
  return node;
}

ch_node *ch_graph_input(ch_graph *graph, ch_input slot) {
  if (graph->inputs[slot]) return graph->inputs[slot];
  ch_node *node = append(graph, CH_NODE_INPUT);
  if (!node) return NULL;
  node->index = (int)slot;
  node->dtype = CH_I32;
  node->rank = 1;
  node->shape[0] = graph->sequences * (slot == CH_INPUT_LABELS ? 1 : graph->length);
  return graph->inputs[slot] = node;
}

ch_node *ch_graph_states(ch_graph *graph, int64_t columns) {
  ch_node *node = ch_graph_input(graph, CH_INPUT_STATES);
  if (!node) return NULL;
  node->dtype = graph->dtype;
  node->rank = 2;
  node->shape[1] = columns;
  return node;
}

ch_node *ch_graph_pixels(ch_graph *graph, int64_t channels, int64_t size) {
  ch_node *node = ch_graph_input(graph, CH_INPUT_PIXELS);
  if (!node) return NULL;
  node->dtype = CH_F32;
  node->rank = 4;
  node->shape[0] = graph->sequences;
  node->shape[1] = channels;
  node->shape[2] = node->shape[3] = size;
  return node;
}

ch_node *ch_graph_param(ch_graph *graph, int index, const char *name, int rank, const int64_t *shape,
                        bool trainable) {
  ch_node *node = append(graph, CH_NODE_PARAM);
  if (!node) return NULL;
  node->index = index;
  node->label = name;
  node->rank = rank;
  for (int i = 0; i < rank; i++) node->shape[i] = shape[i];
  node->needs_gradient = trainable;
  return node;
}

static bool is_same(const ch_node *node, const ch_op *op, int inputs, ch_node *const *in,
                    const void *attributes, size_t attributes_size) {
  if (node->op != op || node->inputs != inputs || node->attributes_size != attributes_size) return false;
  for (int i = 0; i < inputs; i++)
    if (node->in[i] != in[i]) return false;
  return attributes_size == 0 || memcmp(node->attributes, attributes, attributes_size) == 0;
}

/* Decides if the node's value comes from this run or from the cache. Fails if the operation cannot work on cached
   states. */
static ch_status settle_stream(ch_node *node, ch_error *error) {
  const ch_op *op = node->op;
  node->streamed = op->stateful || op->stream_source;
  for (int i = 0; i < node->inputs && !op->reads_states; i++)
    if (!op->stateful) node->streamed |= node->in[i]->streamed;
  if (node->streamed && !op->stateful && !op->stream)
    return ch_fail(error, CH_ERROR_CONFIG, "cannot work on states in the cache");
  return CH_OK;
}

ch_node *ch_graph_node(ch_graph *graph, const ch_op *op, int inputs, ch_node *const *in,
                       const void *attributes, size_t attributes_size) {
  for (int i = 0; i < inputs; i++)
    if (!in[i]) return NULL;
  for (ch_node *known = inputs && !op->stateful ? in[0]->first_user : NULL; known; known = known->next_user)
    if (is_same(known, op, inputs, in, attributes, attributes_size)) return known;
  ch_node *node = append(graph, CH_NODE_OP);
  if (!node) return NULL;
  node->op = op;
  node->inputs = inputs;
  node->in = ch_arena_alloc(&graph->arena, ((size_t)inputs + 1) * sizeof *node->in);
  if (!node->in) return ch_graph_no_memory(graph);
  for (int i = 0; i < inputs; i++) {
    node->in[i] = in[i];
    node->needs_gradient |= in[i]->needs_gradient && op->backward;
  }
  if (attributes_size > 0) {
    void *copy = ch_arena_alloc(&graph->arena, attributes_size);
    if (!copy) return ch_graph_no_memory(graph);
    node->attributes = memcpy(copy, attributes, attributes_size);
    node->attributes_size = attributes_size;
  }
  ch_error error = {0};
  if (settle_stream(node, &error) != CH_OK || op->shape(node, &error) != CH_OK)
    return ch_graph_fail(graph, "%s: %s", op->name, error.message);
  if (inputs) {
    node->next_user = in[0]->first_user;
    in[0]->first_user = node;
  }
  return node;
}

/* In a causal pass over T tokens, a query sees (T + 1) / 2 tokens on average. */
double ch_graph_context(const ch_graph *graph, bool causal) {
  if (graph->context > 0) return graph->context;
  return causal ? ((double)graph->length + 1) / 2 : (double)graph->length;
}

double ch_graph_context_within(const ch_graph *graph, bool causal, int64_t most) {
  double all = ch_graph_context(graph, causal), limit = (double)most, length = (double)graph->length;
  if (most == 0) return all;
  if (graph->context > 0) return all < limit ? all : limit;
  return length <= limit ? all : limit - limit * (limit - 1) / 2 / length;
}

int64_t ch_node_count(const ch_node *node) {
  int64_t count = 1;
  for (int i = 0; i < node->rank; i++) count *= node->shape[i];
  return count;
}

int64_t ch_node_columns(const ch_node *node) {
  return node->rank ? node->shape[node->rank - 1] : 1;
}

int64_t ch_node_rows(const ch_node *node) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < node->rank; i++) rows *= node->shape[i];
  return rows;
}

ch_status ch_shape_as_input(ch_node *node, int i) {
  node->rank = node->in[i]->rank;
  memcpy(node->shape, node->in[i]->shape, sizeof node->shape);
  return CH_OK;
}

ch_status ch_shape_matrix(ch_node *node, int64_t rows, int64_t columns) {
  node->rank = 2;
  node->shape[0] = rows;
  node->shape[1] = columns;
  return CH_OK;
}
