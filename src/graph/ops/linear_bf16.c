/* y = x W^T + b in training, with factors of products rounded to BF16. x is rounded once for all its products, and
 * W once per step in the layouts of both products. Sums, results and gradients have the graph's type. */
#include "graph/ops/factors.h"

enum { X, WEIGHT, ROUNDED_X, PACKED, PACKED_X, BIAS };

static ch_status linear_bf16_shape(ch_node *node, ch_error *error) {
  const ch_node *weight = node->in[WEIGHT];
  int64_t groups = ch_node_columns(node->in[X]) / weight->shape[1];
  if (node->inputs > BIAS) CH_TRY(ch_vector_of(node->in[BIAS], weight->shape[0], "bias", error));
  return ch_shape_matrix(node, node->in[X]->shape[0], groups * weight->shape[0]);
}

/* Returns the rows of the product: one per row of x, or one per head of it. */
static int64_t linear_bf16_rows_of(const ch_node *node) {
  return ch_node_count(node->in[X]) / node->in[WEIGHT]->shape[1];
}

static size_t linear_bf16_scratch(const ch_run *run, const ch_node *node, bool backward) {
  size_t sums = run->kernels->sum_scratch(run->team, node->in[WEIGHT]->shape[0]);
  if (!backward) return 0;
  return (size_t)ch_node_count(node) * ch_dtype_size(CH_BF16) + (node->inputs > BIAS ? sums + 64 : 0);
}

static ch_status linear_bf16_forward(ch_run *run, const ch_node *node) {
  int64_t rows = linear_bf16_rows_of(node), out = node->in[WEIGHT]->shape[0], in = node->in[WEIGHT]->shape[1];
  CH_TRY(ch_gemm_run_packed(run->gemm, false, rows, out, in, ch_run_value(run, node->in[ROUNDED_X]), in,
                            ch_packed_for_value(run, node->in[PACKED]), ch_run_output(run, node), out, false,
                            run->error));
  if (node->inputs > BIAS)
    run->kernels->add_bias(run->team, rows, out, ch_run_value(run, node->in[BIAS]), ch_run_output(run, node));
  return CH_OK;
}

/* dx = dy W, dW = dy^T x with dy rounded; db = sum of dy over rows. */
static ch_status linear_bf16_backward(ch_run *run, const ch_node *node) {
  int64_t rows = linear_bf16_rows_of(node), out = node->in[WEIGHT]->shape[0], in = node->in[WEIGHT]->shape[1];
  const void *dy = ch_run_output_gradient(run, node);
  char *rounded = ch_run_scratch(run);
  bool accumulate;
  run->kernels->convert_to(run->team, rows * out, dy, CH_BF16, rounded);
  void *dx = ch_run_gradient(run, node, X, &accumulate);
  if (dx)
    CH_TRY(ch_gemm_run_packed(run->gemm, false, rows, in, out, rounded, out,
                              ch_packed_for_gradient(run, node->in[PACKED]), dx, in, accumulate, run->error));
  void *dw = ch_run_gradient(run, node, WEIGHT, &accumulate);
  if (dw)
    CH_TRY(ch_gemm_run_packed(run->gemm, true, out, in, rows, rounded, out,
                              ch_run_value(run, node->in[PACKED_X]), dw, in, accumulate, run->error));
  void *db = node->inputs > BIAS ? ch_run_gradient(run, node, BIAS, &accumulate) : NULL;
  if (db)
    run->kernels->sum_rows(run->team, rows, out, dy, db, accumulate,
                           rounded + (((size_t)(rows * out) * ch_dtype_size(CH_BF16) + 63) & ~(size_t)63));
  return CH_OK;
}

static double linear_bf16_flops(const ch_node *node) {
  return 2.0 * (double)linear_bf16_rows_of(node) * (double)ch_node_count(node->in[WEIGHT]);
}

/* Returns true for the weight: forward and backward never read it, it only has the gradient. */
static bool linear_bf16_takes_rounded(const ch_node *node, int i) {
  (void)node;
  return i == WEIGHT;
}

static const ch_op op = {.name = "linear",
                         .shape = linear_bf16_shape,
                         .scratch = linear_bf16_scratch,
                         .forward = linear_bf16_forward,
                         .backward = linear_bf16_backward,
                         .backward_reads = CH_READS_INPUT(PACKED) | CH_READS_INPUT(PACKED_X),
                         .takes_rounded = linear_bf16_takes_rounded,
                         .flops = linear_bf16_flops};

ch_node *ch_op_linear_bf16(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *bias) {
  ch_node *rounded = ch_op_rounded(graph, x);
  ch_node *packed = ch_op_packed(graph, weight);
  ch_node *packed_x = rounded ? ch_op_packed_x(graph, rounded, weight->shape[1]) : NULL;
  return ch_graph_node(graph, &op, bias ? BIAS + 1 : BIAS,
                       (ch_node *[]){x, weight, rounded, packed, packed_x, bias}, NULL, 0);
}
