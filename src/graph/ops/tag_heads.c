/* Heads with a row of the identity matrix appended: head h gets row h. If keys end in one number for each head, a
 * score of head h then includes number h. */
#include "graph/ops/shapes.h"

static int64_t heads(const ch_node *node) {
  return *(const int64_t *)node->attributes;
}

static int64_t tag_heads_width(const ch_node *node) {
  return ch_node_columns(node->in[0]) / heads(node);
}

static ch_status tag_heads_shape(ch_node *node, ch_error *error) {
  int64_t columns = ch_node_columns(node->in[0]);
  if (heads(node) < 1 || columns % heads(node) != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "rows of %lld elements are not %lld heads", (long long)columns,
                   (long long)heads(node));
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), columns + heads(node) * heads(node));
}

/* Returns the heads, without the appended columns, in a value or gradient [N, heads * (d + heads)]. */
static ch_head_slices tagged(const ch_node *node, const void *data) {
  return (ch_head_slices){data, ch_node_columns(node), tag_heads_width(node) + heads(node)};
}

static ch_head_slices plain(const ch_node *node, const void *data) {
  return (ch_head_slices){data, ch_node_columns(node->in[0]), tag_heads_width(node)};
}

static ch_status tag_heads_forward(ch_run *run, const ch_node *node) {
  const ch_kernels *kernels = run->kernels;
  char *y = ch_run_output(run, node);
  size_t element = ch_dtype_size(kernels->dtype);
  ch_head_slices from = plain(node, ch_run_value(run, node->in[0])), to = tagged(node, y);
  kernels->fill(run->team, ch_node_count(node), 0, y);
  kernels->copy_heads(run->team, ch_node_rows(node), heads(node), tag_heads_width(node), &from, node->dtype,
                      &to, false);
  for (int64_t r = 0; r < ch_node_rows(node); r++)
    kernels->add_to_diagonal(heads(node), tag_heads_width(node) + heads(node), 1,
                             y + (size_t)(r * ch_node_columns(node) + tag_heads_width(node)) * element);
  return CH_OK;
}

static ch_status tag_heads_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  if (!dx) return CH_OK;
  ch_head_slices from = tagged(node, ch_run_output_gradient(run, node)), to = plain(node, dx);
  run->kernels->copy_heads(run->team, ch_node_rows(node), heads(node), tag_heads_width(node), &from,
                           node->dtype, &to, accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "tag_heads",
                         .shape = tag_heads_shape,
                         .forward = tag_heads_forward,
                         .backward = tag_heads_backward,
                         .cheap = true};

ch_node *ch_op_tag_heads(ch_graph *graph, ch_node *x, int64_t heads) {
  return ch_graph_node(graph, &op, 1, &x, &heads, sizeof heads);
}
