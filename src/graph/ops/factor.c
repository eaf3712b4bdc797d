/* What a large product multiplies, rounded to BF16: once for all products of a value. */
#include "graph/ops/shapes.h"

static ch_status shape(ch_node *node, ch_error *error) {
  (void)error;
  node->dtype = CH_BF16;
  return ch_shape_as_input(node, 0);
}

static ch_status forward(ch_run *run, const ch_node *node) {
  run->kernels->convert_to(ch_node_count(node), ch_run_value(run, node->in[0]), CH_BF16,
                           ch_run_output(run, node));
  return CH_OK;
}

static const ch_op op = {.name = "round", .shape = shape, .forward = forward};

ch_node *ch_op_factor(ch_graph *graph, ch_node *x, int64_t rows) {
  bool rounded = graph->compute == CH_BF16 && ch_gemm_is_large(rows);
  if (!x || !rounded || x->streamed || x->dtype == CH_BF16) return x;
  return ch_graph_node(graph, &op, 1, &x, NULL, 0);
}
