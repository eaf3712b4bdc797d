/* The LM head and its cross entropy at the root of training, with factors of products rounded to BF16. Logits and
 * their gradients exist for one chunk of rows at a time; the gradients are rounded too. Losses and sums have the
 * graph's type. */
#include "graph/ops/factors.h"

enum { X, WEIGHT, TARGETS, ROUNDED_X, PACKED };

/* Elements of a chunk of logits. Chunks are large because the gradient of the weight is read and written once per
   chunk. */
enum { CHUNK_ELEMENTS = 1 << 24, CHUNK_ROWS = 256 };
/* Elements of a part of a chunk that stays in the processor's cache while its losses are computed and its
   gradients are rounded. */
enum { CACHED_ELEMENTS = 1 << 18 };

typedef struct lm_loss {
  double cap; /* soft cap of the logits; 0: no cap */
} lm_loss;

static int64_t lm_loss_bf16_chunk_rows(const ch_node *node) {
  int64_t rows = CHUNK_ELEMENTS / node->in[WEIGHT]->shape[0];
  rows = rows < CHUNK_ROWS ? CHUNK_ROWS : rows / CHUNK_ROWS * CHUNK_ROWS;
  return rows < ch_node_rows(node) ? rows : ch_node_rows(node);
}

static ch_status lm_loss_bf16_shape(ch_node *node, ch_error *error) {
  const ch_node *x = node->in[X], *weight = node->in[WEIGHT], *targets = node->in[TARGETS];
  if (x->rank != 2 || weight->rank != 2 || x->shape[1] != weight->shape[1])
    return ch_fail(error, CH_ERROR_CONFIG, "the LM head's columns must be those of x");
  if (targets->dtype != CH_I32 || ch_node_count(targets) != x->shape[0])
    return ch_fail(error, CH_ERROR_CONFIG, "needs one integer target a row");
  return ch_shape_matrix(node, x->shape[0], 1);
}

static size_t logits_bytes(const ch_node *node) {
  size_t bytes =
      (size_t)(lm_loss_bf16_chunk_rows(node) * node->in[WEIGHT]->shape[0]) * ch_dtype_size(node->dtype);
  return (bytes + 63) & ~(size_t)63;
}

static size_t rounded_bytes(const ch_node *node) {
  size_t bytes =
      (size_t)(lm_loss_bf16_chunk_rows(node) * node->in[WEIGHT]->shape[0]) * ch_dtype_size(CH_BF16);
  return (bytes + 63) & ~(size_t)63;
}

/* Returns the bytes of a chunk: logits, their gradients in BF16, and packed x. */
static size_t lm_loss_bf16_scratch(const ch_run *run, const ch_node *node, bool backward) {
  (void)run;
  if (!backward) return 0;
  return logits_bytes(node) + rounded_bytes(node) +
         (size_t)ch_gemm_packed_count(lm_loss_bf16_chunk_rows(node), node->in[WEIGHT]->shape[1]) *
             ch_dtype_size(CH_BF16);
}

static ch_status lm_loss_bf16_forward(ch_run *run, const ch_node *node) {
  return ch_fail(run->error, CH_ERROR_ARGUMENT, "%s in BF16 is computed with its gradient alone",
                 node->op->name);
}

/* Computes the losses of `count` rows of logits from row `first` on. Replaces the logits by their gradients and
   writes the gradients to `rounded` in BF16. */
static void find_losses(ch_run *run, const ch_node *node, int64_t first, int64_t count, char *logits,
                        char *rounded) {
  const double cap = ((const lm_loss *)node->attributes)->cap;
  int64_t vocabulary = node->in[WEIGHT]->shape[0], most = CACHED_ELEMENTS / vocabulary + 1;
  size_t element = ch_dtype_size(node->dtype);
  const int32_t *targets = ch_run_value(run, node->in[TARGETS]);
  for (int64_t r = 0, rows; r < count; r += rows) {
    rows = count - r < most ? count - r : most;
    size_t at = (size_t)(first + r) * element, begin = (size_t)(r * vocabulary);
    if (cap > 0)
      run->kernels->soft_cap_forward(run->team, rows * vocabulary, cap, logits + begin * element,
                                     logits + begin * element);
    run->kernels->cross_entropy(run->team, rows, vocabulary, 0, cap, logits + begin * element,
                                targets + first + r, (char *)ch_run_output(run, node) + at,
                                (const char *)ch_run_output_gradient(run, node) + at);
    run->kernels->convert_to(run->team, rows * vocabulary, logits + begin * element, CH_BF16,
                             rounded + begin * ch_dtype_size(CH_BF16));
  }
}

/* Computes both passes: the loss of every row, dx = dlogits W and dW = dlogits^T x. */
static ch_status lm_loss_bf16_backward(ch_run *run, const ch_node *node) {
  const ch_node *x = node->in[X];
  int64_t rows = x->shape[0], width = x->shape[1], vocabulary = node->in[WEIGHT]->shape[0];
  int64_t chunk = lm_loss_bf16_chunk_rows(node);
  size_t element = ch_dtype_size(node->dtype);
  bool accumulate_x = false, accumulate_weight = false;
  char *dx = ch_run_gradient(run, node, X, &accumulate_x);
  void *dweight = ch_run_gradient(run, node, WEIGHT, &accumulate_weight);
  char *logits = ch_run_scratch(run), *rounded = logits + logits_bytes(node);
  char *packed_x = rounded + rounded_bytes(node);
  for (int64_t first = 0; first < rows; first += chunk) {
    if (ch_team_stops(run->team)) return CH_OK; /* the run ends with an error */
    int64_t count = rows - first < chunk ? rows - first : chunk;
    const uint16_t *part = (const uint16_t *)ch_run_value(run, node->in[ROUNDED_X]) + first * width;
    CH_TRY(ch_gemm_run_packed(run->gemm, false, count, vocabulary, width, part, width,
                              ch_packed_for_value(run, node->in[PACKED]), logits, vocabulary, false,
                              run->error));
    find_losses(run, node, first, count, logits, rounded);
    if (dx)
      CH_TRY(ch_gemm_run_packed(run->gemm, false, count, width, vocabulary, rounded, vocabulary,
                                ch_packed_for_gradient(run, node->in[PACKED]),
                                dx + (size_t)(first * width) * element, width, accumulate_x, run->error));
    if (!dweight) continue;
    CH_TRY(ch_gemm_pack(run->gemm, count, width, part, CH_BF16, width, packed_x, NULL, run->error));
    CH_TRY(ch_gemm_run_packed(run->gemm, true, vocabulary, width, count, rounded, vocabulary, packed_x,
                              dweight, width, accumulate_weight || first > 0, run->error));
  }
  return CH_OK;
}

static double lm_loss_bf16_flops(const ch_node *node) {
  return 2.0 * (double)ch_node_rows(node) * (double)ch_node_count(node->in[WEIGHT]);
}

static const ch_op op = {.name = "lm_loss",
                         .shape = lm_loss_bf16_shape,
                         .scratch = lm_loss_bf16_scratch,
                         .forward = lm_loss_bf16_forward,
                         .backward = lm_loss_bf16_backward,
                         .backward_reads =
                             CH_READS_INPUT(ROUNDED_X) | CH_READS_INPUT(PACKED) | CH_READS_OUTPUT,
                         .flops = lm_loss_bf16_flops,
                         .fused = true};

ch_node *ch_op_lm_loss_bf16(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *targets, double cap) {
  ch_node *in[] = {x, weight, targets, ch_op_rounded(graph, x), ch_op_packed(graph, weight)};
  return ch_graph_node(graph, &op, 5, in, &(lm_loss){cap}, sizeof(lm_loss));
}
