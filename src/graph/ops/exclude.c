/* Exclusive attention: every head's context without its part along the token's own value. */
#include "graph/ops/shapes.h"

typedef struct exclude {
  int64_t heads, dim;
} exclude;

static int64_t exclude_groups(const ch_node *node) {
  return ch_node_columns(node->in[1]) / ((const exclude *)node->attributes)->dim;
}

static ch_status exclude_shape(ch_node *node, ch_error *error) {
  const exclude *e = node->attributes;
  int64_t values = ch_node_columns(node->in[1]);
  if (ch_node_columns(node->in[0]) != e->heads * e->dim || values % e->dim != 0 || values < e->dim ||
      e->heads % exclude_groups(node) != 0 || ch_node_rows(node->in[0]) != ch_node_rows(node->in[1]))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "contexts of %lld elements and values of %lld do not fit %lld heads",
                   (long long)ch_node_columns(node->in[0]), (long long)values, (long long)e->heads);
  return ch_shape_as_input(node, 0);
}

static ch_status exclude_forward(ch_run *run, const ch_node *node) {
  const exclude *e = node->attributes;
  run->kernels->exclude_forward(run->team, ch_node_rows(node), e->heads, exclude_groups(node), e->dim,
                                ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                ch_run_output(run, node));
  return CH_OK;
}

static ch_status exclude_backward(ch_run *run, const ch_node *node) {
  const exclude *e = node->attributes;
  bool add_y, add_v;
  void *dy = ch_run_gradient(run, node, 0, &add_y), *dv = ch_run_gradient(run, node, 1, &add_v);
  run->kernels->exclude_backward(run->team, ch_node_rows(node), e->heads, exclude_groups(node), e->dim,
                                 ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                 ch_run_output_gradient(run, node), dy, add_y, dv, add_v);
  return CH_OK;
}

/* Counts a dot product and a subtraction. */
static double exclude_flops(const ch_node *node) {
  return 4.0 * (double)ch_node_count(node);
}

static const ch_op op = {.name = "exclude",
                         .shape = exclude_shape,
                         .forward = exclude_forward,
                         .backward = exclude_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .flops = exclude_flops,
                         .cheap = true};

ch_node *ch_op_exclude(ch_graph *graph, ch_node *contexts, ch_node *values, int64_t heads) {
  exclude attributes = {.heads = heads, .dim = contexts && heads > 0 ? ch_node_columns(contexts) / heads : 1};
  return ch_graph_node(graph, &op, 2, (ch_node *[]){contexts, values}, &attributes, sizeof attributes);
}
