/* y = x W^T + b. W multiplies the whole row, or each group of as many elements as W has columns (each head). */
#include "graph/stream.h"
#include "graph/ops/factors.h"

/* Returns the number of groups in one row of x. linear_groups returns the number in all rows. */
static int64_t groups_of_row(const ch_node *node) {
  return ch_node_columns(node->in[0]) / node->in[1]->shape[1];
}

static int64_t linear_groups(const ch_node *node) {
  return node->in[0]->shape[0] * groups_of_row(node);
}

static ch_status linear_shape(ch_node *node, ch_error *error) {
  const ch_node *x = node->in[0], *weight = node->in[1];
  if (weight->rank != 2 || x->rank != 2 || x->shape[1] % weight->shape[1] != 0) {
    char left[96], right[96];
    return ch_fail(error, CH_ERROR_CONFIG,
                   "x %s does not fit weight %s; x's columns must be weight's, or some times as many",
                   ch_shape_text(x->rank, x->shape, left, sizeof left),
                   ch_shape_text(weight->rank, weight->shape, right, sizeof right));
  }
  if (node->inputs == 3) CH_TRY(ch_vector_of(node->in[2], weight->shape[0], "bias", error));
  return ch_shape_matrix(node, x->shape[0], groups_of_row(node) * weight->shape[0]);
}

static size_t linear_scratch(const ch_run *run, const ch_node *node, bool backward) {
  if (!backward || node->inputs < 3) return 0;
  return run->kernels->sum_scratch(run->team, node->in[1]->shape[0]);
}

/* If x has few rows, their groups use the skinny GEMM in pieces, so that a row has the same result as alone. */
static ch_status linear_forward(ch_run *run, const ch_node *node) {
  const ch_node *x = node->in[0], *weight = node->in[1];
  int64_t in = weight->shape[1], out = weight->shape[0], all = linear_groups(node);
  int64_t most = ch_gemm_is_large(x->shape[0]) ? all : CH_SKINNY_ROWS;
  for (int64_t first = 0; first < all; first += most) {
    const char *from = (const char *)ch_run_value(run, x) + ch_dtype_bytes(x->dtype, first * in);
    char *to = (char *)ch_run_output(run, node) + ch_dtype_bytes(node->dtype, first * out);
    CH_TRY(ch_gemm_linear(run->gemm, all - first < most ? all - first : most, in, out, from, x->dtype,
                          ch_run_value(run, weight), ch_run_dtype(run, weight),
                          node->inputs == 3 ? ch_run_value(run, node->in[2]) : NULL, to, false, run->error));
  }
  return CH_OK;
}

/* Multiplies x by consecutive weights of one type in one call. */
static ch_status forward_together(ch_run *run, int count, const ch_node *const nodes[]) {
  const ch_node *x = nodes[0]->in[0];
  ch_product products[CH_MOST_TOGETHER];
  for (int first = 0, next; first < count; first = next) {
    const ch_dtype dtype = ch_run_dtype(run, nodes[first]->in[1]);
    for (next = first; next < count && ch_run_dtype(run, nodes[next]->in[1]) == dtype; next++) {
      const ch_node *node = nodes[next], *weight = node->in[1];
      products[next - first] =
          (ch_product){weight->shape[0], ch_run_value(run, weight),
                       node->inputs == 3 ? ch_run_value(run, node->in[2]) : NULL, ch_run_output(run, node)};
    }
    CH_TRY(ch_gemm_linears(run->gemm, x->shape[0], x->shape[1], ch_run_value(run, x), x->dtype, dtype,
                           next - first, products, false, run->error));
  }
  return CH_OK;
}

/* Returns true for a product of whole rows of x whose matrix and bias, if it has one, are parameters. */
static bool joins(const ch_node *node) {
  if (groups_of_row(node) > 1) return false;
  for (int i = 1; i < node->inputs; i++)
    if (node->in[i]->kind != CH_NODE_PARAM) return false;
  return true;
}

/* dx = dy W, dW = dy^T x, db = sum of dy over rows. */
static ch_status linear_backward(ch_run *run, const ch_node *node) {
  const ch_node *x = node->in[0], *weight = node->in[1];
  int64_t rows = linear_groups(node), in = weight->shape[1], out = weight->shape[0];
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
  if (db) run->kernels->sum_rows(run->team, rows, out, dy, db, accumulate, ch_run_scratch(run));
  return CH_OK;
}

static double linear_flops(const ch_node *node) {
  return 2.0 * (double)linear_groups(node) * (double)ch_node_count(node->in[1]);
}

/* Returns the columns of x that the wanted columns need: all of them if W multiplies the whole row, else those of
   the wanted heads. */
static ch_column_range linear_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  (void)i;
  int64_t in = node->in[1]->shape[1], out = node->in[1]->shape[0];
  if (groups_of_row(node) == 1) return (ch_column_range){0, in};
  return ch_groups_of(wanted, out, in);
}

/* The product that computes the wanted columns. */
typedef struct streamed_product {
  int64_t rows, in, out;
  ch_dtype dtype;
  const char *weight, *bias;
} streamed_product;

static streamed_product product_of(const ch_stream_call *call) {
  const ch_node *weight = call->node->in[1];
  int64_t in = weight->shape[1], at = call->wanted.first;
  streamed_product p = {.rows = call->count * (call->in[0].columns.count / in),
                        .in = in,
                        .out = weight->shape[0],
                        .dtype = ch_run_dtype(call->run, weight),
                        .weight = ch_run_value(call->run, weight)};
  if (call->node->inputs == 3) p.bias = ch_run_value(call->run, call->node->in[2]);
  if (groups_of_row(call->node) > 1) return p;
  p.out = call->wanted.count;
  p.weight += ch_dtype_bytes(p.dtype, at * in);
  if (p.bias) p.bias += (size_t)at * ch_dtype_size(call->run->kernels->dtype);
  return p;
}

static void linear_stream(const ch_stream_call *call) {
  streamed_product p = product_of(call);
  const ch_product product = {p.out, p.weight, p.bias, call->space};
  call->run->kernels->gemv(call->run->team, p.rows, p.in, call->in[0].data, p.dtype, 1, &product, false);
}

static ch_status linear_stream_many(const ch_stream_call *call) {
  const ch_run *run = call->run;
  streamed_product p = product_of(call);
  CH_TRY(ch_gemm_linear_some(run->gemm, p.rows, p.in, p.out, call->in[0].data, call->in[0].dtype, p.weight,
                             p.dtype, call->space, run->error));
  if (p.bias) run->kernels->add_bias(run->team, p.rows, p.out, p.bias, call->space);
  return CH_OK;
}

/* Returns true if the weight is rounded for the product. With few rows, it is multiplied in its own type. */
static bool linear_takes_rounded(const ch_node *node, int i) {
  return i == 1 && node->in[0]->dtype == CH_BF16 && ch_gemm_is_large(linear_groups(node)) &&
         ch_gemm_is_large(node->in[0]->shape[0]);
}

static const ch_op op = {.name = "linear",
                         .shape = linear_shape,
                         .scratch = linear_scratch,
                         .forward = linear_forward,
                         .joins = joins,
                         .forward_together = forward_together,
                         .backward = linear_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .takes_rounded = linear_takes_rounded,
                         .flops = linear_flops,
                         .stream = linear_stream,
                         .stream_many = linear_stream_many,
                         .stream_needs = linear_stream_needs};

ch_node *ch_op_linear(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *bias) {
  bool fits = x && weight && x->rank == 2 && weight->rank == 2 && weight->shape[1] > 0 &&
              x->shape[1] % weight->shape[1] == 0;
  if (fits && ch_is_rounded(graph, x, ch_node_count(x) / weight->shape[1])) {
    if (graph->trainable) return ch_op_linear_bf16(graph, x, weight, bias);
    x = ch_op_rounded(graph, x);
  }
  return ch_graph_node(graph, &op, bias ? 3 : 2, (ch_node *[]){x, weight, bias}, NULL, 0);
}
