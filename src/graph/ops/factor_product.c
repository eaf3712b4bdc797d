/* Heads as products of factors, token by token: each head combines a few rows that all heads share. */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

typedef struct factor_product {
  int64_t heads;
  double scale;
} factor_product;

static int64_t heads(const ch_node *node) {
  return ((const factor_product *)node->attributes)->heads;
}

static int64_t rank(const ch_node *node) {
  return ch_node_columns(node->in[0]) / heads(node);
}

static int64_t dim(const ch_node *node) {
  return ch_node_columns(node->in[1]) / rank(node);
}

static double scale(const ch_node *node) {
  return ((const factor_product *)node->attributes)->scale;
}

static ch_status factor_product_shape(ch_node *node, ch_error *error) {
  int64_t a = ch_node_columns(node->in[0]), b = ch_node_columns(node->in[1]);
  if (heads(node) < 1 || a % heads(node) != 0 || a < 1 || b % rank(node) != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "factors of %lld and %lld elements do not make %lld heads",
                   (long long)a, (long long)b, (long long)heads(node));
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), heads(node) * dim(node));
}

static ch_status factor_product_forward(ch_run *run, const ch_node *node) {
  run->kernels->factor_product(run->team, ch_node_rows(node), heads(node), rank(node), dim(node), scale(node),
                               ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                               ch_run_output(run, node), false);
  return CH_OK;
}

static ch_status factor_product_backward(ch_run *run, const ch_node *node) {
  bool add_a, add_b;
  void *da = ch_run_gradient(run, node, 0, &add_a), *db = ch_run_gradient(run, node, 1, &add_b);
  run->kernels->factor_product_backward(run->team, ch_node_rows(node), heads(node), rank(node), dim(node),
                                        scale(node), ch_run_value(run, node->in[0]),
                                        ch_run_value(run, node->in[1]), ch_run_output_gradient(run, node), da,
                                        add_a, db, add_b);
  return CH_OK;
}

static double factor_product_flops(const ch_node *node) {
  return 2.0 * (double)ch_node_count(node) * (double)rank(node);
}

/* Returns the wanted heads' own factors (input 0), or all shared factors (input 1). */
static ch_column_range factor_product_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  if (i == 1) return (ch_column_range){0, ch_node_columns(node->in[1])};
  return ch_groups_of(wanted, dim(node), rank(node));
}

static void factor_product_stream(const ch_stream_call *call) {
  const ch_node *node = call->node;
  call->run->kernels->factor_product(call->run->team, call->count, call->wanted.count / dim(node), rank(node),
                                     dim(node), scale(node), call->in[0].data, call->in[1].data, call->space,
                                     false);
}

static const ch_op op = {.name = "factor_product",
                         .shape = factor_product_shape,
                         .forward = factor_product_forward,
                         .backward = factor_product_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .flops = factor_product_flops,
                         .cheap = true,
                         .stream = factor_product_stream,
                         .stream_needs = factor_product_stream_needs};

ch_node *ch_op_factor_product(ch_graph *graph, ch_node *a, ch_node *b, int64_t heads, double scale) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){a, b}, &(factor_product){heads, scale},
                       sizeof(factor_product));
}
