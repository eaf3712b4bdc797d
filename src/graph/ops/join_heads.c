/* Heads joined from slices of other heads: for example keys from their own part and a shared rotary part. Output
 * head h consists of one slice of each part. */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

typedef struct join_heads {
  int64_t heads;
  ch_head_slice slice[CH_MAX_JOINED];
} join_heads;

static int64_t head_width(const ch_node *node) {
  const join_heads *attributes = node->attributes;
  return ch_node_columns(node) / attributes->heads;
}

static ch_status join_heads_shape(ch_node *node, ch_error *error) {
  const join_heads *attributes = node->attributes;
  int64_t width = 0;
  for (int i = 0; i < node->inputs; i++) {
    const ch_head_slice *slice = &attributes->slice[i];
    int64_t end = (attributes->heads - 1) * slice->stride + slice->offset + slice->width;
    if (slice->width < 1 || end > ch_node_columns(node->in[i]))
      return ch_fail(error, CH_ERROR_CONFIG, "slice %d of %lld heads ends at column %lld of %lld", i,
                     (long long)attributes->heads, (long long)end, (long long)ch_node_columns(node->in[i]));
    width += slice->width;
  }
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), attributes->heads * width);
}

/* Returns part i of every head in `data`, a value or gradient with the node's layout. */
static ch_head_slices join_heads_part_of(const ch_run *run, const ch_node *node, int i, const void *data) {
  const join_heads *attributes = node->attributes;
  int64_t offset = 0;
  for (int k = 0; k < i; k++) offset += attributes->slice[k].width;
  return (ch_head_slices){(const char *)data + (size_t)offset * ch_dtype_size(run->kernels->dtype),
                          ch_node_columns(node), head_width(node)};
}

static ch_head_slices source_of(const ch_run *run, const ch_node *node, int i, const void *data) {
  const ch_head_slice *slice = &((const join_heads *)node->attributes)->slice[i];
  return (ch_head_slices){(const char *)data + (size_t)slice->offset * ch_dtype_size(run->kernels->dtype),
                          ch_node_columns(node->in[i]), slice->stride};
}

static ch_status join_heads_forward(ch_run *run, const ch_node *node) {
  const join_heads *attributes = node->attributes;
  for (int i = 0; i < node->inputs; i++) {
    ch_head_slices from = source_of(run, node, i, ch_run_value(run, node->in[i])),
                   to = join_heads_part_of(run, node, i, ch_run_output(run, node));
    run->kernels->copy_heads(run->team, ch_node_rows(node), attributes->heads, attributes->slice[i].width,
                             &from, node->dtype, &to, false);
  }
  return CH_OK;
}

/* Passes the gradient to the inputs. A slice that covers its whole input may overwrite the gradient;
   otherwise the rest is set to zero first. */
static ch_status join_heads_backward(ch_run *run, const ch_node *node) {
  const join_heads *attributes = node->attributes;
  for (int i = 0; i < node->inputs; i++) {
    const ch_head_slice *slice = &attributes->slice[i];
    bool accumulate, shared = slice->stride == 0 && attributes->heads > 1;
    void *gradient = ch_run_gradient(run, node, i, &accumulate);
    if (!gradient) continue;
    int64_t covered = shared ? slice->width : attributes->heads * slice->width;
    if (!accumulate && covered < ch_node_columns(node->in[i]))
      run->kernels->fill(run->team, ch_node_count(node->in[i]), 0, gradient);
    ch_head_slices from = join_heads_part_of(run, node, i, ch_run_output_gradient(run, node)),
                   to = source_of(run, node, i, gradient);
    if (shared)
      run->kernels->sum_heads(run->team, ch_node_rows(node), attributes->heads, slice->width, &from, &to,
                              accumulate);
    else
      run->kernels->copy_heads(run->team, ch_node_rows(node), attributes->heads, slice->width, &from,
                               node->dtype, &to, accumulate);
  }
  return CH_OK;
}

/* Returns the heads of the output to which columns `wanted` belong. */
static ch_column_range join_heads_heads_of(const ch_node *node, ch_column_range wanted) {
  return ch_groups_of(wanted, head_width(node), 1);
}

static ch_column_range join_heads_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  const ch_head_slice *slice = &((const join_heads *)node->attributes)->slice[i];
  ch_column_range heads = join_heads_heads_of(node, wanted);
  int64_t first = heads.first * slice->stride + slice->offset,
          last = (heads.first + heads.count - 1) * slice->stride + slice->offset + slice->width;
  return (ch_column_range){first, last - first};
}

static ch_head_slice stream_slice(const ch_node *node, int i) {
  return ((const join_heads *)node->attributes)->slice[i];
}

static void join_heads_stream(const ch_stream_call *call) {
  const join_heads *attributes = call->node->attributes;
  size_t element = ch_dtype_size(call->run->kernels->dtype);
  ch_column_range heads = join_heads_heads_of(call->node, call->wanted);
  int64_t offset = 0;
  for (int i = 0; i < call->node->inputs; i++) {
    const ch_head_slice *slice = &attributes->slice[i];
    const ch_stream_value *in = &call->in[i];
    int64_t at = heads.first * slice->stride + slice->offset - in->columns.first;
    ch_head_slices from = {(const char *)in->data + (size_t)at * ch_dtype_size(in->dtype), in->stride,
                           slice->stride};
    ch_head_slices to = {(char *)call->space + (size_t)offset * element, call->wanted.count,
                         head_width(call->node)};
    call->run->kernels->copy_heads(call->run->team, call->count, heads.count, slice->width, &from, in->dtype,
                                   &to, false);
    offset += slice->width;
  }
}

static const ch_op op = {.name = "join_heads",
                         .shape = join_heads_shape,
                         .forward = join_heads_forward,
                         .backward = join_heads_backward,
                         .cheap = true,
                         .stream = join_heads_stream,
                         .stream_needs = join_heads_stream_needs,
                         .stream_slice = stream_slice,
                         .stream_raw = true};

ch_node *ch_op_join_heads(ch_graph *graph, int64_t heads, int parts, ch_node *const *in,
                          const ch_head_slice *slices) {
  join_heads attributes = {.heads = heads};
  for (int i = 0; i < parts; i++) attributes.slice[i] = slices[i];
  return ch_graph_node(graph, &op, parts, in, &attributes, sizeof attributes);
}

/* If heads is 1, x joins parts, and the slice is a part that is a whole input of x, returns the input and adds no
   node. */
ch_node *ch_op_slice_heads(ch_graph *graph, ch_node *x, int64_t heads, ch_head_slice slice) {
  int64_t offset = 0;
  for (int i = 0; x && x->op == &op && heads == 1 && i < x->inputs; i++) {
    const join_heads *joined = x->attributes;
    if (joined->heads == 1 && offset == slice.offset && slice.width == joined->slice[i].width &&
        slice.width == ch_node_columns(x->in[i]))
      return x->in[i];
    offset += joined->slice[i].width;
  }
  return ch_op_join_heads(graph, heads, 1, &x, &slice);
}
