/* Rotary positions: the table of angles, computed once per run, and the rotation of heads. */
#include "graph/ops/append.h"

/* --- table ---------------------------------------------------------------------------------------------- */

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
  run->kernels->rope_table(run->team, ch_node_rows(node), attributes->rotary, ch_run_value(run, node->in[0]),
                           attributes->frequencies, ch_run_output(run, node));
  return CH_OK;
}

static const ch_op table_op = {.name = "rope_table", .shape = table_shape, .forward = table_forward};

ch_node *ch_op_rope_table(ch_graph *graph, ch_node *positions, int64_t rotary, const double *frequencies) {
  double *copy = ch_arena_alloc(&graph->arena, (size_t)(rotary / 2 + 1) * sizeof *copy);
  if (!copy) return ch_graph_no_memory(graph);
  for (int64_t i = 0; i < rotary / 2; i++) copy[i] = frequencies[i];
  return ch_graph_node(graph, &table_op, 1, (ch_node *[]){positions}, &(rope_table){rotary, copy},
                       sizeof(rope_table));
}

/* --- rotation ------------------------------------------------------------------------------------------- */

typedef struct rope {
  int64_t head_dim;
  bool leading, interleaved;
} rope;

static ch_status rope_shape(ch_node *node, ch_error *error) {
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
  run->kernels->rope(run->team, ch_node_rows(node), ch_node_columns(node) / attributes->head_dim,
                     attributes->head_dim, ch_node_columns(node->in[1]), attributes->leading,
                     attributes->interleaved, inverse, ch_run_value(run, node->in[1]), x, y, accumulate);
}

static ch_status rope_forward(ch_run *run, const ch_node *node) {
  turn(run, node, false, ch_run_value(run, node->in[0]), ch_run_output(run, node), false);
  return CH_OK;
}

/* A rotation's transpose is its inverse. */
static ch_status rope_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  turn(run, node, true, ch_run_output_gradient(run, node), dx, accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "rope",
                         .shape = rope_shape,
                         .forward = rope_forward,
                         .backward = rope_backward,
                         .backward_reads = CH_READS_INPUT(1)};

ch_node *ch_op_rope(ch_graph *graph, ch_node *x, ch_node *table, int64_t head_dim, bool leading,
                    bool interleaved) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){x, table},
                       &(rope){.head_dim = head_dim, .leading = leading, .interleaved = interleaved},
                       sizeof(rope));
}

/* --- rotation of states in the cache, by their places --------------------------------------------------- */

typedef struct rope_states {
  int64_t head_dim, rotary;
  bool leading, interleaved;
  const void *levels;
} rope_states;

static ch_status states_shape(ch_node *node, ch_error *error) {
  const rope_states *attributes = node->attributes;
  if (ch_node_columns(node->in[0]) % attributes->head_dim != 0 || attributes->rotary > attributes->head_dim)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld columns are not heads of %lld with %lld rotary dims",
                   (long long)ch_node_columns(node->in[0]), (long long)attributes->head_dim,
                   (long long)attributes->rotary);
  return ch_shape_as_input(node, 0);
}

static ch_column_range whole_heads(const ch_node *node, int i, ch_column_range wanted) {
  (void)i;
  return ch_whole_groups(wanted, ((const rope_states *)node->attributes)->head_dim);
}

static void rope_stream(const ch_stream_call *call) {
  const rope_states *attributes = call->node->attributes;
  const ch_stream_value *in = &call->in[0];
  size_t element = ch_dtype_size(call->run->kernels->dtype);
  int64_t skipped = call->wanted.first - in->columns.first;
  const ch_row_places *places = ch_places_of(call->run, call->node, call->sequence);
  ch_rope_states states = {.heads = call->wanted.count / attributes->head_dim,
                           .head_dim = attributes->head_dim,
                           .rotary = attributes->rotary,
                           .leading = attributes->leading,
                           .interleaved = attributes->interleaved,
                           .levels = attributes->levels,
                           .x_dtype = in->dtype,
                           .x_stride = in->stride};
  char *spare = (char *)call->space + (size_t)(call->count * call->wanted.count) * element;
  for (int64_t t = 0, count; t < call->count; t += count) {
    count = ch_consecutive_rows(places, call->first + t, call->count - t);
    states.x = (const char *)in->data + (size_t)(skipped + t * in->stride) * ch_dtype_size(in->dtype);
    call->run->kernels->rope_states(&states, ch_token_of_row(places, call->first + t), count,
                                    (char *)call->space + (size_t)(t * call->wanted.count) * element, spare);
  }
}

static const ch_op states_op = {.name = "rope",
                                .shape = states_shape,
                                .stream = rope_stream,
                                .stream_needs = whole_heads,
                                .stream_raw = true};

const void *ch_rope_levels_for(ch_graph *graph, int64_t rotary, const double *frequencies) {
  size_t row = (size_t)rotary * ch_dtype_size(graph->dtype);
  void *levels = ch_arena_alloc(&graph->arena, (size_t)CH_ROPE_LEVELS * CH_ROPE_LEVEL * row);
  if (levels)
    ch_kernels_best(graph->dtype)->rope_levels(rotary, frequencies, levels);
  else
    ch_graph_no_memory(graph);
  return levels;
}

ch_node *ch_op_rope_states(ch_graph *graph, ch_node *x, const void *levels, int64_t rotary, int64_t head_dim,
                           bool leading, bool interleaved) {
  if (!levels) return NULL;
  return ch_graph_node(graph, &states_op, 1, &x,
                       &(rope_states){head_dim, rotary, leading, interleaved, levels}, sizeof(rope_states));
}
