/* Multiplies every head by its own rows of one matrix, or by their transpose. Absorbed attention folds a
 * projection into queries and contexts this way. Knocking with a map for each head uses it too. */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

/* From this many rows on, the GEMM library is faster than reading the matrix row by row. */
enum { MANY_ROWS = 8 };

static ch_head_rows head_product_heads_of(const ch_node *node) {
  return *(const ch_head_rows *)node->attributes;
}

/* Returns the columns of the matrix. A weight [heads, rows, columns] is a matrix [heads * rows, columns]. */
static int64_t columns_of(const ch_node *node) {
  return node->in[1]->shape[node->in[1]->rank - 1];
}

static int64_t in_width(const ch_node *node) {
  ch_head_rows h = head_product_heads_of(node);
  return h.transposed ? h.rows : columns_of(node);
}

static int64_t out_width(const ch_node *node) {
  ch_head_rows h = head_product_heads_of(node);
  return h.transposed ? columns_of(node) : h.rows;
}

static ch_status head_product_shape(ch_node *node, ch_error *error) {
  ch_head_rows h = head_product_heads_of(node);
  const ch_node *x = node->in[0], *weight = node->in[1];
  if (weight->rank < 2 ||
      (h.heads - 1) * h.stride + h.first + h.rows > ch_node_count(weight) / columns_of(node) ||
      ch_node_columns(x) != h.heads * in_width(node))
    return ch_fail(error, CH_ERROR_CONFIG, "%lld heads of %lld rows do not fit the matrix and its input",
                   (long long)h.heads, (long long)h.rows);
  return ch_shape_matrix(node, ch_node_rows(x), h.heads * out_width(node));
}

static ch_dtype weight_type(const ch_run *run, const ch_node *node) {
  const ch_tensor *stored = run->params ? ch_run_param(run, node->in[1]) : NULL;
  return stored ? stored->dtype : run->kernels->dtype;
}

/* Returns the bytes of one head's matrix in the kernels' type, or 0 if there are too few rows for the library. */
static size_t head_product_scratch(const ch_run *run, const ch_node *node, bool backward) {
  (void)backward;
  if (ch_node_rows(node) < MANY_ROWS) return 0;
  return (size_t)(in_width(node) * out_width(node)) * ch_dtype_size(run->kernels->dtype);
}

static ch_status multiply_many(ch_run *run, const ch_node *node, const char *weight, ch_dtype dtype) {
  ch_head_rows h = head_product_heads_of(node);
  int64_t columns = columns_of(node), in = in_width(node), out = out_width(node), n = ch_node_rows(node);
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

static ch_status head_product_forward(ch_run *run, const ch_node *node) {
  ch_head_rows h = head_product_heads_of(node);
  ch_dtype dtype = weight_type(run, node);
  const char *weight = ch_run_value(run, node->in[1]);
  if (ch_node_rows(node) >= MANY_ROWS) return multiply_many(run, node, weight, dtype);
  int64_t columns = columns_of(node);
  run->kernels->head_product(run->team, ch_node_rows(node), h.heads, h.rows, columns,
                             ch_run_value(run, node->in[0]),
                             weight + (size_t)(h.first * columns) * ch_dtype_size(dtype), dtype,
                             h.stride * columns, h.transposed, ch_run_output(run, node));
  return CH_OK;
}

/* y_h = W_h x_h has dx_h = W_h^T dy_h and dW_h = dy_h x_h^T; transposed, y_h = W_h^T x_h, dx_h = W_h dy_h and
   dW_h = x_h dy_h^T. */
static ch_status head_product_backward(ch_run *run, const ch_node *node) {
  ch_head_rows h = head_product_heads_of(node);
  int64_t columns = columns_of(node), in = in_width(node), out = out_width(node), n = ch_node_rows(node);
  size_t element = ch_dtype_size(run->kernels->dtype);
  const char *x = ch_run_value(run, node->in[0]), *weight = ch_run_value(run, node->in[1]),
             *dy = ch_run_output_gradient(run, node);
  bool add_x, add_weight;
  char *dx = ch_run_gradient(run, node, 0, &add_x), *dw = ch_run_gradient(run, node, 1, &add_weight);
  bool whole = h.first == 0 && h.stride == h.rows && h.heads * h.rows * columns == ch_node_count(node->in[1]);
  if (dw && !whole)
    return ch_fail(run->error, CH_ERROR_CONFIG, "heads that leave out rows of a matrix give it no gradient");
  for (int64_t head = 0; head < h.heads; head++) {
    size_t own = (size_t)((head * h.stride + h.first) * columns) * element;
    size_t left = (size_t)(head * in) * element, right = (size_t)(head * out) * element;
    if (dx)
      CH_TRY(ch_gemm_run(run->gemm, false, h.transposed, n, in, out, dy + right, h.heads * out, weight + own,
                         columns, dx + left, h.heads * in, add_x, run->error));
    const char *a = h.transposed ? x + left : dy + right, *b = h.transposed ? dy + right : x + left;
    if (dw)
      CH_TRY(ch_gemm_run(run->gemm, true, false, h.rows, columns, n, a, h.heads * h.rows, b,
                         h.heads * columns, dw + own, columns, add_weight, run->error));
  }
  return CH_OK;
}

static ch_column_range head_product_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  (void)i;
  return ch_groups_of(wanted, out_width(node), in_width(node));
}

/* The product of the wanted columns of one head. */
typedef struct head_piece {
  int64_t rows;           /* rows of the matrix, which are columns of the value */
  const char *x, *weight; /* the head's input and the first of these rows */
  char *y;
} head_piece;

static ch_column_range heads_wanted(const ch_stream_call *call) {
  return ch_groups_of(call->wanted, out_width(call->node), 1);
}

/* Returns the part of a head's rows that the call needs. `head` counts from the first head that it needs. The
   product must not be transposed. */
static head_piece piece_of(const ch_stream_call *call, int64_t head) {
  const ch_node *node = call->node;
  const ch_head_rows h = head_product_heads_of(node);
  const ch_column_range heads = heads_wanted(call), wanted = call->wanted;
  const int64_t out = out_width(node), begin = (heads.first + head) * out;
  int64_t first = wanted.first > begin ? wanted.first - begin : 0, end = wanted.first + wanted.count - begin;
  if (end > out) end = out;
  const int64_t row = (heads.first + head) * h.stride + h.first + first;
  return (head_piece){.rows = end - first,
                      .x = (const char *)call->in[0].data +
                           ch_dtype_bytes(call->in[0].dtype, head * in_width(node)),
                      .weight = (const char *)ch_run_value(call->run, node->in[1]) +
                                ch_dtype_bytes(weight_type(call->run, node), row * columns_of(node)),
                      .y = (char *)call->space +
                           (size_t)(begin + first - wanted.first) * ch_dtype_size(call->run->kernels->dtype)};
}

/* Multiplies the tokens from `first` on one by one. */
static void multiply_tokens(const ch_stream_call *call, const head_piece *piece, int64_t first) {
  const ch_kernels *kernels = call->run->kernels;
  size_t element = ch_dtype_size(kernels->dtype);
  for (int64_t t = first; t < call->count; t++)
    kernels->head_product(call->run->team, 1, 1, piece->rows, columns_of(call->node),
                          piece->x + (size_t)(t * call->in[0].columns.count) * element, piece->weight,
                          weight_type(call->run, call->node), 0, false,
                          piece->y + (size_t)(t * call->wanted.count) * element);
}

static void head_product_stream(const ch_stream_call *call) {
  const ch_node *node = call->node;
  const ch_head_rows h = head_product_heads_of(node);
  const ch_dtype dtype = weight_type(call->run, node);
  const int64_t columns = columns_of(node), out = out_width(node);
  const bool whole = call->wanted.first % out == 0 && call->wanted.count % out == 0;
  if (!whole && !h.transposed) {
    for (int64_t head = 0; head < heads_wanted(call).count; head++) {
      const head_piece piece = piece_of(call, head);
      multiply_tokens(call, &piece, 0);
    }
    return;
  }
  const char *weight = (const char *)ch_run_value(call->run, node->in[1]) +
                       ch_dtype_bytes(dtype, (call->wanted.first / out * h.stride + h.first) * columns);
  call->run->kernels->head_product(call->run->team, call->count, call->wanted.count / out, h.rows, columns,
                                   call->in[0].data, weight, dtype, h.stride * columns, h.transposed,
                                   call->space);
}

/* Returns the number of tokens of the next product, or 0 if `left` are too few for the library. There are few
   sizes, so that the library does not prepare a new product for every call. */
static int64_t next_piece(int64_t left) {
  enum { MOST_ROWS = 512, LEAST_ROWS = 32 };
  int64_t piece = MOST_ROWS;
  while (piece > left) piece /= 2;
  return piece < LEAST_ROWS ? 0 : piece;
}

/* Multiplies with the library, except for the last few tokens, if the weight has the kernels' type and the product
   is not transposed. */
static ch_status head_product_stream_many(const ch_stream_call *call) {
  const ch_run *run = call->run;
  const ch_node *node = call->node;
  const int64_t columns = columns_of(node), ldx = call->in[0].columns.count, ldy = call->wanted.count;
  const size_t element = ch_dtype_size(run->kernels->dtype);
  if (head_product_heads_of(node).transposed || weight_type(run, node) != run->kernels->dtype) {
    head_product_stream(call);
    return CH_OK;
  }
  for (int64_t head = 0; head < heads_wanted(call).count; head++) {
    const head_piece p = piece_of(call, head);
    int64_t t = 0;
    for (int64_t n; (n = next_piece(call->count - t)) > 0; t += n)
      CH_TRY(ch_gemm_run(run->gemm, false, true, n, p.rows, columns, p.x + (size_t)(t * ldx) * element, ldx,
                         p.weight, columns, p.y + (size_t)(t * ldy) * element, ldy, false, run->error));
    multiply_tokens(call, &p, t);
  }
  return CH_OK;
}

static double head_product_flops(const ch_node *node) {
  return 2.0 * (double)ch_node_count(node->in[0]) * (double)out_width(node);
}

static const ch_op op = {.name = "head_product",
                         .shape = head_product_shape,
                         .scratch = head_product_scratch,
                         .forward = head_product_forward,
                         .backward = head_product_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .flops = head_product_flops,
                         .stream = head_product_stream,
                         .stream_many = head_product_stream_many,
                         .stream_unrounded = true,
                         .stream_needs = head_product_stream_needs};

ch_node *ch_op_head_product(ch_graph *graph, ch_node *x, ch_node *weight, ch_head_rows heads) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){x, weight}, &heads, sizeof heads);
}
