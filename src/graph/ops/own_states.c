/* The states of this run's own tokens, read back from the cache after rounding or quantising. Inference only. */
#include "graph/ops/append.h"

static ch_status own_states_shape(ch_node *node, ch_error *error) {
  const ch_node *states = node->in[0];
  if (!states->op || !states->op->stateful || states->op->stream)
    return ch_fail(error, CH_ERROR_CONFIG, "needs states in the layout of the cache");
  return ch_shape_as_input(node, 0);
}

/* Returns true if the width does not fill the blocks of a row. Whole blocks of such rows are read into
   scratch. */
static bool is_padded(const ch_node *node) {
  ch_dtype dtype = node->in[0]->op->state_type(node->in[0]);
  return ch_stored_width(ch_node_columns(node), dtype) != ch_node_columns(node);
}

static size_t own_states_scratch(const ch_run *run, const ch_node *node, bool backward) {
  (void)backward;
  ch_dtype dtype = node->in[0]->op->state_type(node->in[0]);
  if (!is_padded(node)) return 0;
  return (size_t)ch_stored_width(ch_node_columns(node), dtype) * ch_dtype_size(run->kernels->dtype);
}

static void read_row(const ch_run *run, const ch_node *node, const void *row, ch_dtype dtype, void *to) {
  const ch_kernels *kernels = run->kernels;
  int64_t width = ch_node_columns(node);
  if (!is_padded(node)) {
    kernels->convert_from(run->team, width, row, dtype, to);
    return;
  }
  void *whole = ch_run_scratch(run);
  kernels->convert_from(run->team, ch_stored_width(width, dtype), row, dtype, whole);
  kernels->convert_from(run->team, width, whole, kernels->dtype, to);
}

static ch_status own_states_forward(ch_run *run, const ch_node *node) {
  ch_state_view view = ch_states_of(run, node->in[0]);
  int64_t length = node->graph->length;
  size_t row_bytes = (size_t)ch_node_columns(node) * ch_dtype_size(run->kernels->dtype);
  char *out = ch_run_output(run, node);
  for (int64_t s = 0; s < node->graph->sequences; s++)
    for (int64_t t = 0; t < length; t++, out += row_bytes) {
      int64_t at = ch_state_at(&view, s, ch_first_own_row(run, node->in[0], s) + t);
      read_row(run, node, (const char *)view.data + ch_dtype_bytes(view.dtype, at), view.dtype, out);
    }
  return CH_OK;
}

static const ch_op op = {.name = "own_states",
                         .shape = own_states_shape,
                         .scratch = own_states_scratch,
                         .forward = own_states_forward,
                         .reads_states = true};

ch_node *ch_op_own_states(ch_graph *graph, ch_node *states) {
  if (!states || !states->streamed) return states;
  return ch_graph_node(graph, &op, 1, &states, NULL, 0);
}
