/* scale * x / sqrt(sum(x^2) + eps) over each head. */
#include "graph/ops/shapes.h"

typedef struct l2norm {
  int64_t dim;
  double eps, scale;
} l2norm;

static const l2norm *l2norm_attributes_of(const ch_node *node) {
  return node->attributes;
}

static ch_status l2norm_shape(ch_node *node, ch_error *error) {
  int64_t dim = l2norm_attributes_of(node)->dim;
  if (dim < 1 || ch_node_columns(node->in[0]) % dim != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "heads of %lld elements do not fill rows of %lld", (long long)dim,
                   (long long)ch_node_columns(node->in[0]));
  return ch_shape_as_input(node, 0);
}

static ch_status l2norm_forward(ch_run *run, const ch_node *node) {
  const l2norm *n = l2norm_attributes_of(node);
  run->kernels->l2norm_forward(run->team, ch_node_count(node) / n->dim, n->dim,
                               ch_run_value(run, node->in[0]), n->eps, n->scale, ch_run_output(run, node));
  return CH_OK;
}

static ch_status l2norm_backward(ch_run *run, const ch_node *node) {
  const l2norm *n = l2norm_attributes_of(node);
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  run->kernels->l2norm_backward(run->team, ch_node_count(node) / n->dim, n->dim,
                                ch_run_value(run, node->in[0]), n->eps, n->scale,
                                ch_run_output_gradient(run, node), dx, accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "l2norm",
                         .shape = l2norm_shape,
                         .forward = l2norm_forward,
                         .backward = l2norm_backward,
                         .backward_reads = CH_READS_INPUT(0),
                         .cheap = true};

ch_node *ch_op_l2norm(ch_graph *graph, ch_node *x, int64_t dim, double eps, double scale) {
  return ch_graph_node(graph, &op, 1, &x, &(l2norm){dim, eps, scale}, sizeof(l2norm));
}
