/* W = B A of two weights [out, rank] and [rank, in]: the whole matrix of a low-rank projection. */
#include "graph/ops/shapes.h"

static ch_status matrix_product_shape(ch_node *node, ch_error *error) {
  const ch_node *b = node->in[0], *a = node->in[1];
  if (a->rank != 2 || b->rank != 2 || b->shape[1] != a->shape[0]) {
    char left[96], right[96];
    return ch_fail(error, CH_ERROR_CONFIG, "matrices %s and %s have no product",
                   ch_shape_text(b->rank, b->shape, left, sizeof left),
                   ch_shape_text(a->rank, a->shape, right, sizeof right));
  }
  return ch_shape_matrix(node, b->shape[0], a->shape[1]);
}

/* Returns the bytes of a widened copy of a factor, or 0 if it has the graph's type. While the plan is created, the
   stored types are unknown, and every parameter counts. */
static size_t widened(const ch_run *run, const ch_node *factor) {
  const ch_tensor *stored = run->params ? ch_run_param(run, factor) : NULL;
  bool narrow = !stored || stored->dtype != run->kernels->dtype;
  return factor->kind == CH_NODE_PARAM && narrow
             ? (size_t)ch_node_count(factor) * ch_dtype_size(run->kernels->dtype)
             : 0;
}

static size_t matrix_product_scratch(const ch_run *run, const ch_node *node, bool backward) {
  return backward ? 0 : widened(run, node->in[0]) + widened(run, node->in[1]);
}

/* Returns a factor in the graph's type. */
static const void *factor(ch_run *run, const ch_node *node, int i, char *space) {
  const ch_tensor *stored = ch_run_param(run, node->in[i]);
  const void *data = ch_run_value(run, node->in[i]);
  if (!stored || stored->dtype == run->kernels->dtype) return data;
  run->kernels->convert_from(run->team, ch_node_count(node->in[i]), data, stored->dtype, space);
  return space;
}

static ch_status matrix_product_forward(ch_run *run, const ch_node *node) {
  char *space = ch_run_scratch(run);
  int64_t out = node->shape[0], in = node->shape[1], rank = node->in[1]->shape[0];
  const void *b = factor(run, node, 0, space), *a = factor(run, node, 1, space + widened(run, node->in[0]));
  return ch_gemm_run(run->gemm, false, false, out, in, rank, b, rank, a, in, ch_run_output(run, node), in,
                     false, run->error);
}

/* dB = dW A^T, dA = B^T dW. */
static ch_status matrix_product_backward(ch_run *run, const ch_node *node) {
  int64_t out = node->shape[0], in = node->shape[1], rank = node->in[1]->shape[0];
  const void *dy = ch_run_output_gradient(run, node);
  bool accumulate;
  void *db = ch_run_gradient(run, node, 0, &accumulate);
  if (db)
    CH_TRY(ch_gemm_run(run->gemm, false, true, out, rank, in, dy, in, ch_run_value(run, node->in[1]), in, db,
                       rank, accumulate, run->error));
  void *da = ch_run_gradient(run, node, 1, &accumulate);
  if (!da) return CH_OK;
  return ch_gemm_run(run->gemm, true, false, rank, in, out, ch_run_value(run, node->in[0]), rank, dy, in, da,
                     in, accumulate, run->error);
}

static double matrix_product_flops(const ch_node *node) {
  return 2.0 * (double)ch_node_count(node->in[0]) * (double)node->shape[1];
}

static const ch_op op = {.name = "matrix_product",
                         .shape = matrix_product_shape,
                         .scratch = matrix_product_scratch,
                         .forward = matrix_product_forward,
                         .backward = matrix_product_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .flops = matrix_product_flops};

ch_node *ch_op_matrix_product(ch_graph *graph, ch_node *b, ch_node *a) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){b, a}, NULL, 0);
}
