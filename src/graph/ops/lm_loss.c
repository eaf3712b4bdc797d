/* The LM head and its cross entropy in one: logits exist for one chunk of rows at a time. Rows without a target cost
 * nothing where no gradient is wanted. */
#include <string.h>

#include "graph/ops/factors.h"

/* Elements of a chunk of logits: large enough for the product to run at full speed, small enough for the cache. */
enum { CHUNK_ELEMENTS = 1 << 22, CHUNK_ROWS = 256 };

static int64_t chunk_rows(const ch_node *node) {
  int64_t rows = CHUNK_ELEMENTS / node->in[1]->shape[0];
  if (rows < CHUNK_ROWS) rows = CHUNK_ROWS;
  return rows < ch_node_rows(node) ? rows : ch_node_rows(node);
}

typedef struct lm_loss {
  bool ranks; /* a second column: how many logits come before the target's */
} lm_loss;

static ch_status shape(ch_node *node, ch_error *error) {
  const lm_loss *attributes = node->attributes;
  const ch_node *x = node->in[0], *weight = node->in[1], *targets = node->in[2];
  if (x->rank != 2 || weight->rank != 2 || x->shape[1] != weight->shape[1])
    return ch_fail(error, CH_ERROR_CONFIG, "the LM head's columns must be those of x");
  if (targets->dtype != CH_I32 || ch_node_count(targets) != x->shape[0])
    return ch_fail(error, CH_ERROR_CONFIG, "needs one integer target a row");
  return ch_shape_matrix(node, x->shape[0], attributes->ranks ? 2 : 1);
}

/* Of a chunk: logits; forward also the rows of x that have a target, their losses and ranks; and all rows' places. */
static size_t scratch(const ch_run *run, const ch_node *node, bool backward) {
  size_t element = ch_dtype_size(run->kernels->dtype);
  size_t logits = (size_t)(chunk_rows(node) * node->in[1]->shape[0]) * element;
  if (backward) return logits;
  return logits + (size_t)(chunk_rows(node) * (ch_node_columns(node->in[0]) + 2)) * element +
         (size_t)ch_node_rows(node) * 2 * sizeof(int32_t);
}

/* --- forward ------------------------------------------------------------------------------------------------- */

/* Where a forward pass keeps what. */
typedef struct forward_space {
  char *logits, *rows, *losses, *ranks;
  int32_t *places, *targets; /* of the rows that have a target */
} forward_space;

static forward_space divide(const ch_run *run, const ch_node *node) {
  size_t element = ch_dtype_size(node->dtype), chunk = (size_t)chunk_rows(node);
  forward_space s = {.logits = ch_run_scratch(run)};
  s.rows = s.logits + chunk * (size_t)node->in[1]->shape[0] * element;
  s.losses = s.rows + chunk * (size_t)ch_node_columns(node->in[0]) * element;
  s.ranks = s.losses + chunk * element;
  s.places = (int32_t *)(void *)(s.ranks + chunk * element);
  s.targets = s.places + ch_node_rows(node);
  return s;
}

/* The rows with a target; returns how many. Others have no loss. */
static int64_t find_rows(const ch_run *run, const ch_node *node, const forward_space *s) {
  const int32_t *targets = ch_run_value(run, node->in[2]);
  int64_t count = 0;
  run->kernels->fill(ch_node_count(node), 0, ch_run_output(run, node));
  for (int64_t r = 0; r < ch_node_rows(node); r++) {
    if (targets[r] < 0) continue;
    s->places[count] = (int32_t)r;
    s->targets[count++] = targets[r];
  }
  return count;
}

/* Rows places[0 ... count - 1] of x side by side; x itself where they already lie so. */
static const char *gather(const ch_run *run, const ch_node *node, const int32_t *places, int64_t count,
                          char *rows) {
  const char *x = ch_run_value(run, node->in[0]);
  size_t bytes = (size_t)ch_node_columns(node->in[0]) * ch_dtype_size(node->in[0]->dtype);
  if (places[count - 1] - places[0] == count - 1) return x + (size_t)places[0] * bytes;
  for (int64_t i = 0; i < count; i++) memcpy(rows + (size_t)i * bytes, x + (size_t)places[i] * bytes, bytes);
  return rows;
}

static void scatter(const ch_run *run, const ch_node *node, const forward_space *s, const int32_t *places,
                    int64_t count) {
  const lm_loss *attributes = node->attributes;
  size_t element = ch_dtype_size(node->dtype), columns = attributes->ranks ? 2 : 1;
  char *out = ch_run_output(run, node);
  for (int64_t i = 0; i < count; i++) {
    char *row = out + (size_t)places[i] * columns * element;
    memcpy(row, s->losses + (size_t)i * element, element);
    if (attributes->ranks) memcpy(row + element, s->ranks + (size_t)i * element, element);
  }
}

static ch_status forward(ch_run *run, const ch_node *node) {
  const lm_loss *attributes = node->attributes;
  const ch_node *x = node->in[0], *weight = node->in[1];
  int64_t width = x->shape[1], vocabulary = weight->shape[0], chunk = chunk_rows(node);
  ch_dtype dtype = ch_run_dtype(run, weight);
  forward_space s = divide(run, node);
  int64_t rows = find_rows(run, node, &s);
  for (int64_t first = 0; first < rows; first += chunk) {
    int64_t count = rows - first < chunk ? rows - first : chunk;
    const char *part = gather(run, node, s.places + first, count, s.rows);
    if (count == chunk)
      CH_TRY(ch_gemm_linear(run->gemm, count, width, vocabulary, part, x->dtype, ch_run_value(run, weight),
                            dtype, NULL, s.logits, false, run->error));
    else
      CH_TRY(ch_gemm_linear_some(run->gemm, count, width, vocabulary, part, x->dtype,
                                 ch_run_value(run, weight), dtype, s.logits, run->error));
    run->kernels->cross_entropy(count, vocabulary, 0, s.logits, s.targets + first, s.losses, NULL);
    if (attributes->ranks)
      run->kernels->target_ranks(count, vocabulary, s.logits, s.targets + first, s.ranks);
    scatter(run, node, &s, s.places + first, count);
  }
  return CH_OK;
}

/* --- backward ------------------------------------------------------------------------------------------------ */

/* Both passes in one: the loss of every row, dx = dlogits W and dW = dlogits^T x. */
static ch_status backward(ch_run *run, const ch_node *node) {
  const ch_node *x = node->in[0], *weight = node->in[1];
  int64_t rows = x->shape[0], width = x->shape[1], vocabulary = weight->shape[0], chunk = chunk_rows(node);
  size_t element = ch_dtype_size(node->dtype);
  const int32_t *targets = ch_run_value(run, node->in[2]);
  bool accumulate_x = false, accumulate_weight = false;
  char *dx = ch_run_gradient(run, node, 0, &accumulate_x);
  void *dweight = ch_run_gradient(run, node, 1, &accumulate_weight);
  void *logits = ch_run_scratch(run);
  for (int64_t first = 0; first < rows; first += chunk) {
    int64_t count = rows - first < chunk ? rows - first : chunk;
    const char *part = (const char *)ch_run_value(run, x) + (size_t)(first * width) * ch_dtype_size(x->dtype);
    size_t at = (size_t)first * element;
    CH_TRY(ch_gemm_linear(run->gemm, count, width, vocabulary, part, x->dtype, ch_run_value(run, weight),
                          ch_run_dtype(run, weight), NULL, logits, false, run->error));
    run->kernels->cross_entropy(count, vocabulary, 0, logits, targets + first,
                                (char *)ch_run_output(run, node) + at,
                                (const char *)ch_run_output_gradient(run, node) + at);
    if (dx)
      CH_TRY(ch_gemm_run(run->gemm, false, false, count, width, vocabulary, logits, vocabulary,
                         ch_run_value(run, weight), width, dx + (size_t)(first * width) * element, width,
                         accumulate_x, run->error));
    if (dweight)
      CH_TRY(ch_gemm_run(run->gemm, true, false, vocabulary, width, count, logits, vocabulary, part, width,
                         dweight, width, accumulate_weight || first > 0, run->error));
  }
  return CH_OK;
}

static double flops(const ch_node *node) {
  return 2.0 * (double)ch_node_rows(node) * (double)ch_node_count(node->in[1]);
}

static const ch_op op = {.name = "lm_loss",
                         .shape = shape,
                         .scratch = scratch,
                         .forward = forward,
                         .backward = backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1) | CH_READS_OUTPUT,
                         .flops = flops,
                         .fused = true};

ch_node *ch_op_lm_loss(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *targets) {
  if (x && ch_is_rounded(graph, x, ch_node_rows(x))) {
    if (graph->trainable) return ch_op_lm_loss_bf16(graph, x, weight, targets);
    x = ch_op_rounded(graph, x);
  }
  return ch_graph_node(graph, &op, 3, (ch_node *[]){x, weight, targets}, &(lm_loss){0}, sizeof(lm_loss));
}

static const ch_op ranked = {.name = "lm_loss_and_rank",
                             .shape = shape,
                             .scratch = scratch,
                             .forward = forward,
                             .flops = flops,
                             .fused = true};

ch_node *ch_op_lm_loss_and_rank(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *targets) {
  if (x && ch_is_rounded(graph, x, ch_node_rows(x))) x = ch_op_rounded(graph, x);
  return ch_graph_node(graph, &ranked, 3, (ch_node *[]){x, weight, targets}, &(lm_loss){.ranks = true},
                       sizeof(lm_loss));
}
