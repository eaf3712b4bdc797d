/* The LM head and its cross entropy in one: logits exist for one chunk of rows at a time. */
#include "graph/ops/shapes.h"

/* Elements of a chunk of logits: large enough for the product to run at full speed, small enough for the cache. */
enum { CHUNK_ELEMENTS = 1 << 22, CHUNK_ROWS = 256 };

static int64_t chunk_rows(const ch_node *node) {
  int64_t rows = CHUNK_ELEMENTS / node->in[1]->shape[0];
  if (rows < CHUNK_ROWS) rows = CHUNK_ROWS;
  return rows < ch_node_rows(node) ? rows : ch_node_rows(node);
}

static ch_status shape(ch_node *node, ch_error *error) {
  const ch_node *x = node->in[0], *weight = node->in[1], *targets = node->in[2];
  if (x->rank != 2 || weight->rank != 2 || x->shape[1] != weight->shape[1])
    return ch_fail(error, CH_ERROR_CONFIG, "the LM head's columns must be those of x");
  if (targets->dtype != CH_I32 || ch_node_count(targets) != x->shape[0])
    return ch_fail(error, CH_ERROR_CONFIG, "needs one integer target a row");
  return ch_shape_matrix(node, x->shape[0], 1);
}

static size_t scratch(const ch_run *run, const ch_node *node, bool backward) {
  (void)backward;
  return (size_t)(chunk_rows(node) * node->in[1]->shape[0]) * ch_dtype_size(run->kernels->dtype);
}

/* Both passes: the loss of every row and, with gradients wanted, dx = dlogits W and dW = dlogits^T x. */
static ch_status pass(ch_run *run, const ch_node *node, bool gradients) {
  const ch_node *x = node->in[0], *weight = node->in[1];
  const ch_tensor *stored = ch_run_param(run, weight);
  int64_t rows = x->shape[0], width = x->shape[1], vocabulary = weight->shape[0], chunk = chunk_rows(node);
  size_t element = ch_dtype_size(node->dtype);
  const int32_t *targets = ch_run_value(run, node->in[2]);
  bool accumulate_x = false, accumulate_weight = false;
  char *dx = gradients ? ch_run_gradient(run, node, 0, &accumulate_x) : NULL;
  void *dweight = gradients ? ch_run_gradient(run, node, 1, &accumulate_weight) : NULL;
  void *logits = ch_run_scratch(run);
  for (int64_t first = 0; first < rows; first += chunk) {
    int64_t count = rows - first < chunk ? rows - first : chunk;
    const char *part = (const char *)ch_run_value(run, x) + (size_t)(first * width) * element;
    size_t at = (size_t)first * element;
    CH_TRY(ch_gemm_linear(run->gemm, count, width, vocabulary, part, ch_run_value(run, weight),
                          stored ? stored->dtype : node->dtype, NULL, logits, false, run->error));
    run->kernels->cross_entropy(count, vocabulary, 0, logits, targets + first,
                                (char *)ch_run_output(run, node) + at,
                                gradients ? (const char *)ch_run_output_gradient(run, node) + at : NULL);
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

static ch_status forward(ch_run *run, const ch_node *node) {
  return pass(run, node, false);
}

static ch_status backward(ch_run *run, const ch_node *node) {
  return pass(run, node, true);
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
  return ch_graph_node(graph, &op, 3, (ch_node *[]){x, weight, targets}, NULL, 0);
}
