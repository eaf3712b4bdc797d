/* Repeats every head: output head h is input head floor(h / times). */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

typedef struct repeat_heads {
  int64_t dim, times;
} repeat_heads;

static ch_status repeat_heads_shape(ch_node *node, ch_error *error) {
  const repeat_heads *r = node->attributes;
  if (r->dim < 1 || r->times < 1 || ch_node_columns(node->in[0]) % r->dim != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "rows of %lld elements are not heads of %lld",
                   (long long)ch_node_columns(node->in[0]), (long long)r->dim);
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), ch_node_columns(node->in[0]) * r->times);
}

static ch_status repeat_heads_forward(ch_run *run, const ch_node *node) {
  const repeat_heads *r = node->attributes;
  size_t element = ch_dtype_size(run->kernels->dtype);
  const char *x = ch_run_value(run, node->in[0]);
  char *y = ch_run_output(run, node);
  int64_t columns = ch_node_columns(node->in[0]);
  for (int64_t at = 0; at < columns; at += r->dim) {
    ch_head_slices from = {x + (size_t)at * element, columns, 0},
                   to = {y + (size_t)(at * r->times) * element, ch_node_columns(node), r->dim};
    run->kernels->copy_heads(run->team, ch_node_rows(node), r->times, r->dim, &from, node->dtype, &to, false);
  }
  return CH_OK;
}

/* The gradient of a head is the sum of those of its copies. */
static ch_status repeat_heads_backward(ch_run *run, const ch_node *node) {
  const repeat_heads *r = node->attributes;
  size_t element = ch_dtype_size(run->kernels->dtype);
  const char *dy = ch_run_output_gradient(run, node);
  bool accumulate;
  char *dx = ch_run_gradient(run, node, 0, &accumulate);
  int64_t columns = ch_node_columns(node->in[0]);
  for (int64_t at = 0; dx && at < columns; at += r->dim) {
    ch_head_slices from = {dy + (size_t)(at * r->times) * element, ch_node_columns(node), r->dim},
                   to = {dx + (size_t)at * element, columns, 0};
    run->kernels->sum_heads(run->team, ch_node_rows(node), r->times, r->dim, &from, &to, accumulate);
  }
  return CH_OK;
}

static ch_column_range repeat_heads_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  const repeat_heads *r = node->attributes;
  (void)i;
  return ch_groups_of(wanted, r->dim * r->times, r->dim);
}

static void repeat_heads_stream(const ch_stream_call *call) {
  const repeat_heads *r = call->node->attributes;
  const ch_kernels *kernels = call->run->kernels;
  const ch_stream_value *in = &call->in[0];
  ch_column_range heads = ch_groups_of(call->wanted, r->dim, 1);
  for (int64_t h = heads.first, end = heads.first + heads.count, next; h < end; h = next) {
    next = (h / r->times + 1) * r->times;
    if (next > end) next = end;
    int64_t at = h / r->times * r->dim - in->columns.first;
    ch_head_slices from = {(const char *)in->data + (size_t)at * ch_dtype_size(in->dtype), in->stride, 0},
                   to = {(char *)call->space +
                             (size_t)((h - heads.first) * r->dim) * ch_dtype_size(kernels->dtype),
                         call->wanted.count, r->dim};
    kernels->copy_heads(call->run->team, call->count, next - h, r->dim, &from, in->dtype, &to, false);
  }
}

static const ch_op op = {.name = "repeat_heads",
                         .shape = repeat_heads_shape,
                         .forward = repeat_heads_forward,
                         .backward = repeat_heads_backward,
                         .cheap = true,
                         .stream = repeat_heads_stream,
                         .stream_needs = repeat_heads_stream_needs,
                         .stream_raw = true};

ch_node *ch_op_repeat_heads(ch_graph *graph, ch_node *x, int64_t dim, int64_t times) {
  if (times == 1) return x;
  return ch_graph_node(graph, &op, 1, &x, &(repeat_heads){.dim = dim, .times = times}, sizeof(repeat_heads));
}
