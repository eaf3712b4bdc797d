/* y = x W^T + b. */
#include "graph/ops/shapes.h"

static ch_status shape(ch_node *node, ch_error *error) {
  const ch_node *x = node->in[0], *weight = node->in[1];
  if (weight->rank != 2 || x->rank != 2 || x->shape[1] != weight->shape[1]) {
    char left[96], right[96];
    return ch_fail(error, CH_ERROR_CONFIG, "x %s does not fit weight %s; x's columns must be weight's",
                   ch_shape_text(x->rank, x->shape, left, sizeof left),
                   ch_shape_text(weight->rank, weight->shape, right, sizeof right));
  }
  if (node->inputs == 3) CH_TRY(ch_vector_of(node->in[2], weight->shape[0], "bias", error));
  return ch_shape_matrix(node, x->shape[0], weight->shape[0]);
}

static size_t scratch(const ch_run *run, const ch_node *node, bool backward) {
  if (!backward || node->inputs < 3) return 0;
  return (size_t)ch_threads() * (size_t)ch_node_columns(node) * ch_dtype_size(run->kernels->dtype);
}

static ch_status forward(ch_run *run, const ch_node *node) {
  const ch_node *weight = node->in[1];
  const ch_tensor *stored = ch_run_param(run, weight);
  return ch_gemm_linear(
      run->gemm, ch_node_rows(node), weight->shape[1], weight->shape[0], ch_run_value(run, node->in[0]),
      ch_run_value(run, weight), stored ? stored->dtype : node->dtype,
      node->inputs == 3 ? ch_run_value(run, node->in[2]) : NULL, ch_run_output(run, node), false, run->error);
}

/* dx = dy W, dW = dy^T x, db = sum of dy over rows. */
static ch_status backward(ch_run *run, const ch_node *node) {
  const ch_node *x = node->in[0], *weight = node->in[1];
  int64_t rows = x->shape[0], in = weight->shape[1], out = weight->shape[0];
  const void *dy = ch_run_output_gradient(run, node);
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  if (dx)
    CH_TRY(ch_gemm_run(run->gemm, false, false, rows, in, out, dy, out, ch_run_value(run, weight), in, dx, in,
                       accumulate, run->error));
  void *dw = ch_run_gradient(run, node, 1, &accumulate);
  if (dw)
    CH_TRY(ch_gemm_run(run->gemm, true, false, out, in, rows, dy, out, ch_run_value(run, x), in, dw, in,
                       accumulate, run->error));
  void *db = node->inputs == 3 ? ch_run_gradient(run, node, 2, &accumulate) : NULL;
  if (db) run->kernels->sum_rows(rows, out, dy, db, accumulate, ch_run_scratch(run));
  return CH_OK;
}

static double flops(const ch_node *node) {
  return 2.0 * (double)ch_node_rows(node) * (double)ch_node_count(node->in[1]);
}

static const ch_op op = {.name = "linear",
                         .shape = shape,
                         .scratch = scratch,
                         .forward = forward,
                         .backward = backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .flops = flops};

ch_node *ch_op_linear(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *bias) {
  return ch_graph_node(graph, &op, bias ? 3 : 2, (ch_node *[]){x, weight, bias}, NULL, 0);
}
