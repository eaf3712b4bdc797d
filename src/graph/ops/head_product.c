/* Every head through its own rows of one matrix, or through their transpose: how absorbed attention folds a projection
 * into queries and contexts. Inference only. */
#include "graph/ops/shapes.h"

/* From this many rows on the GEMM library is faster than reading the matrix row by row. */
enum { MANY_ROWS = 8 };

static ch_head_rows heads_of(const ch_node *node) {
  return *(const ch_head_rows *)node->attributes;
}

static int64_t in_width(const ch_node *node) {
  ch_head_rows h = heads_of(node);
  return h.transposed ? h.rows : node->in[1]->shape[1];
}

static int64_t out_width(const ch_node *node) {
  ch_head_rows h = heads_of(node);
  return h.transposed ? node->in[1]->shape[1] : h.rows;
}

static ch_status shape(ch_node *node, ch_error *error) {
  ch_head_rows h = heads_of(node);
  const ch_node *x = node->in[0], *weight = node->in[1];
  if (weight->rank != 2 || (h.heads - 1) * h.stride + h.first + h.rows > weight->shape[0] ||
      ch_node_columns(x) != h.heads * in_width(node))
    return ch_fail(error, CH_ERROR_CONFIG, "%lld heads of %lld rows do not fit the matrix and its input",
                   (long long)h.heads, (long long)h.rows);
  return ch_shape_matrix(node, ch_node_rows(x), h.heads * out_width(node));
}

static ch_dtype weight_type(const ch_run *run, const ch_node *node) {
  const ch_tensor *stored = run->params ? ch_run_param(run, node->in[1]) : NULL;
  return stored ? stored->dtype : run->kernels->dtype;
}

/* Room for one head's matrix, widened. */
static size_t scratch(const ch_run *run, const ch_node *node, bool backward) {
  (void)backward;
  if (ch_node_rows(node) < MANY_ROWS) return 0;
  return (size_t)(in_width(node) * out_width(node)) * ch_dtype_size(run->kernels->dtype);
}

static ch_status multiply_many(ch_run *run, const ch_node *node, const char *weight, ch_dtype dtype) {
  ch_head_rows h = heads_of(node);
  int64_t columns = node->in[1]->shape[1], in = in_width(node), out = out_width(node), n = ch_node_rows(node);
  size_t element = ch_dtype_size(run->kernels->dtype);
  const char *x = ch_run_value(run, node->in[0]);
  char *y = ch_run_output(run, node);
  for (int64_t head = 0; head < h.heads; head++) {
    const void *own = weight + (size_t)((head * h.stride + h.first) * columns) * ch_dtype_size(dtype);
    if (dtype != run->kernels->dtype) {
      run->kernels->convert_from(run->team, h.rows * columns, own, dtype, ch_run_scratch(run));
      own = ch_run_scratch(run);
    }
    CH_TRY(ch_gemm_run(run->gemm, false, !h.transposed, n, out, in, x + (size_t)(head * in) * element,
                       h.heads * in, own, columns, y + (size_t)(head * out) * element, h.heads * out, false,
                       run->error));
  }
  return CH_OK;
}

static ch_status forward(ch_run *run, const ch_node *node) {
  ch_head_rows h = heads_of(node);
  ch_dtype dtype = weight_type(run, node);
  const char *weight = ch_run_value(run, node->in[1]);
  if (ch_node_rows(node) >= MANY_ROWS) return multiply_many(run, node, weight, dtype);
  int64_t columns = node->in[1]->shape[1];
  run->kernels->head_product(run->team, ch_node_rows(node), h.heads, h.rows, columns,
                             ch_run_value(run, node->in[0]),
                             weight + (size_t)(h.first * columns) * ch_dtype_size(dtype), dtype,
                             h.stride * columns, h.transposed, ch_run_output(run, node));
  return CH_OK;
}

static double flops(const ch_node *node) {
  return 2.0 * (double)ch_node_count(node->in[0]) * (double)out_width(node);
}

static const ch_op op = {
    .name = "head_product", .shape = shape, .scratch = scratch, .forward = forward, .flops = flops};

ch_node *ch_op_head_product(ch_graph *graph, ch_node *x, ch_node *weight, ch_head_rows heads) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){x, weight}, &heads, sizeof heads);
}
