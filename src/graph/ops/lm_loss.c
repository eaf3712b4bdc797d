/* The LM head and its cross entropy in one operation: logits exist for one chunk of rows at a time. The forward
 * pass skips rows without a target. */
#include "graph/ops/factors.h"

/* Elements of a chunk of logits: large enough for the product to run at full speed, small enough for the
   cache. */
enum { CHUNK_ELEMENTS = 1 << 22, CHUNK_ROWS = 256 };

static int64_t lm_loss_chunk_rows(const ch_node *node) {
  int64_t rows = CHUNK_ELEMENTS / node->in[1]->shape[0];
  if (rows < CHUNK_ROWS) rows = CHUNK_ROWS;
  return rows < ch_node_rows(node) ? rows : ch_node_rows(node);
}

typedef struct lm_loss {
  bool ranks; /* true for a second column: the number of logits that come before the target's */
  double cap; /* soft cap of the logits; 0: no cap */
} lm_loss;

static ch_status lm_loss_shape(ch_node *node, ch_error *error) {
  const lm_loss *attributes = node->attributes;
  const ch_node *x = node->in[0], *weight = node->in[1], *targets = node->in[2];
  if (x->rank != 2 || weight->rank != 2 || x->shape[1] != weight->shape[1])
    return ch_fail(error, CH_ERROR_CONFIG, "the LM head's columns must be those of x");
  if (targets->dtype != CH_I32 || ch_node_count(targets) != x->shape[0])
    return ch_fail(error, CH_ERROR_CONFIG, "needs one integer target a row");
  return ch_shape_matrix(node, x->shape[0], attributes->ranks ? 2 : 1);
}

/* Returns the bytes of a chunk: logits, and in the forward pass also the rows of x that have a target, their
   targets, losses and ranks. */
static size_t lm_loss_scratch(const ch_run *run, const ch_node *node, bool backward) {
  size_t element = ch_dtype_size(run->kernels->dtype), chunk = (size_t)lm_loss_chunk_rows(node);
  size_t logits = chunk * (size_t)node->in[1]->shape[0] * element;
  if (backward) return logits;
  return logits + chunk * (size_t)(ch_node_columns(node->in[0]) + 2) * element + chunk * sizeof(int32_t);
}

/* --- forward -------------------------------------------------------------------------------------------- */

/* Rows with a target that are computed together. */
typedef struct row_chunk {
  const int32_t *known; /* [N] [host] targets of all rows */
  int64_t begin, end;   /* range that has all rows of the chunk: begin ... end - 1 */
  int64_t count;        /* rows of the chunk */
  bool adjacent;        /* true if every row of the range has a target */
  /* [count, V] logits, [count, D] rows of x, and [count] losses and ranks; in scratch */
  char *logits, *rows, *losses, *ranks;
  int32_t *targets; /* [count] targets, in scratch */
} row_chunk;

static row_chunk divide(const ch_run *run, const ch_node *node) {
  size_t element = ch_dtype_size(node->dtype), most = (size_t)lm_loss_chunk_rows(node);
  row_chunk c = {.known = run->host_inputs[node->in[2]->index], .logits = ch_run_scratch(run)};
  c.rows = c.logits + most * (size_t)node->in[1]->shape[0] * element;
  c.losses = c.rows + most * (size_t)ch_node_columns(node->in[0]) * element;
  c.ranks = c.losses + most * element;
  c.targets = (int32_t *)(void *)(c.ranks + most * element);
  return c;
}

/* Finds the next rows with a target. Returns false if there are no more. */
static bool next_chunk(const ch_node *node, row_chunk *c) {
  const int64_t rows = ch_node_rows(node), most = lm_loss_chunk_rows(node);
  int64_t r = c->end;
  while (r < rows && c->known[r] < 0) r++;
  c->begin = r;
  for (c->count = 0; r < rows && c->count < most; r++)
    if (c->known[r] >= 0) {
      c->count++;
      c->end = r + 1;
    }
  c->adjacent = c->end - c->begin == c->count;
  return c->count > 0;
}

/* Copies the chunk's rows of `value`, `bytes` each, to `packed`. `scatter` copies them back. */
static void lm_loss_gather(const ch_run *run, const row_chunk *c, const char *value, size_t bytes,
                           char *packed) {
  for (int64_t r = c->begin; r < c->end; r++)
    if (c->known[r] >= 0) {
      run->kernels->memory->copy(packed, value + (size_t)r * bytes, bytes);
      packed += bytes;
    }
}

static void scatter(const ch_run *run, const row_chunk *c, const char *packed, size_t bytes, char *value,
                    size_t row_bytes) {
  for (int64_t r = c->begin; r < c->end; r++)
    if (c->known[r] >= 0) {
      run->kernels->memory->copy(value + (size_t)r * row_bytes, packed, bytes);
      packed += bytes;
    }
}

/* Returns the chunk's rows of an input: in place if they are adjacent, else copied to `packed`. */
static const void *lm_loss_rows_of(const ch_run *run, const ch_node *input, const row_chunk *c, size_t bytes,
                                   void *packed) {
  const char *value = ch_run_value(run, input);
  if (c->adjacent) return value + (size_t)c->begin * bytes;
  lm_loss_gather(run, c, value, bytes, packed);
  return packed;
}

static ch_status forward_chunk(ch_run *run, const ch_node *node, const row_chunk *c) {
  const lm_loss *attributes = node->attributes;
  const ch_node *x = node->in[0], *weight = node->in[1];
  int64_t width = x->shape[1], vocabulary = weight->shape[0];
  size_t element = ch_dtype_size(node->dtype), columns = attributes->ranks ? 2 : 1;
  ch_dtype dtype = ch_run_dtype(run, weight);
  char *out = ch_run_output(run, node);
  const void *part = lm_loss_rows_of(run, x, c, (size_t)width * ch_dtype_size(x->dtype), c->rows);
  const int32_t *targets = lm_loss_rows_of(run, node->in[2], c, sizeof *targets, c->targets);
  if (c->count == lm_loss_chunk_rows(node))
    CH_TRY(ch_gemm_linear(run->gemm, c->count, width, vocabulary, part, x->dtype, ch_run_value(run, weight),
                          dtype, NULL, c->logits, false, run->error));
  else
    CH_TRY(ch_gemm_linear_some(run->gemm, c->count, width, vocabulary, part, x->dtype,
                               ch_run_value(run, weight), dtype, c->logits, run->error));
  if (attributes->cap > 0)
    run->kernels->soft_cap_forward(run->team, c->count * vocabulary, attributes->cap, c->logits, c->logits);
  run->kernels->cross_entropy(run->team, c->count, vocabulary, 0, 0, c->logits, targets, c->losses, NULL);
  scatter(run, c, c->losses, element, out, columns * element);
  if (!attributes->ranks) return CH_OK;
  run->kernels->target_ranks(run->team, c->count, vocabulary, c->logits, targets, c->ranks);
  scatter(run, c, c->ranks, element, out + element, columns * element);
  return CH_OK;
}

static ch_status lm_loss_forward(ch_run *run, const ch_node *node) {
  row_chunk c = divide(run, node);
  run->kernels->fill(run->team, ch_node_count(node), 0, ch_run_output(run, node));
  while (next_chunk(node, &c)) {
    if (ch_team_stops(run->team)) return CH_OK; /* the run ends with an error */
    CH_TRY(forward_chunk(run, node, &c));
  }
  return CH_OK;
}

/* --- backward ------------------------------------------------------------------------------------------- */

/* Computes both passes: the loss of every row, dx = dlogits W and dW = dlogits^T x. */
static ch_status lm_loss_backward(ch_run *run, const ch_node *node) {
  const lm_loss *attributes = node->attributes;
  const ch_node *x = node->in[0], *weight = node->in[1];
  int64_t rows = x->shape[0], width = x->shape[1], vocabulary = weight->shape[0],
          chunk = lm_loss_chunk_rows(node);
  size_t element = ch_dtype_size(node->dtype);
  const int32_t *targets = ch_run_value(run, node->in[2]);
  bool accumulate_x = false, accumulate_weight = false;
  char *dx = ch_run_gradient(run, node, 0, &accumulate_x);
  void *dweight = ch_run_gradient(run, node, 1, &accumulate_weight);
  void *logits = ch_run_scratch(run);
  for (int64_t first = 0; first < rows; first += chunk) {
    if (ch_team_stops(run->team)) return CH_OK; /* the run ends with an error */
    int64_t count = rows - first < chunk ? rows - first : chunk;
    const char *part = (const char *)ch_run_value(run, x) + (size_t)(first * width) * ch_dtype_size(x->dtype);
    size_t at = (size_t)first * element;
    CH_TRY(ch_gemm_linear(run->gemm, count, width, vocabulary, part, x->dtype, ch_run_value(run, weight),
                          ch_run_dtype(run, weight), NULL, logits, false, run->error));
    if (attributes->cap > 0)
      run->kernels->soft_cap_forward(run->team, count * vocabulary, attributes->cap, logits, logits);
    run->kernels->cross_entropy(run->team, count, vocabulary, 0, attributes->cap, logits, targets + first,
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

static double lm_loss_flops(const ch_node *node) {
  return 2.0 * (double)ch_node_rows(node) * (double)ch_node_count(node->in[1]);
}

static const ch_op op = {.name = "lm_loss",
                         .shape = lm_loss_shape,
                         .scratch = lm_loss_scratch,
                         .forward = lm_loss_forward,
                         .backward = lm_loss_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1) | CH_READS_OUTPUT,
                         .flops = lm_loss_flops,
                         .fused = true};

ch_node *ch_op_lm_loss(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *targets, double cap) {
  if (x && ch_is_rounded(graph, x, ch_node_rows(x))) {
    if (graph->trainable) return ch_op_lm_loss_bf16(graph, x, weight, targets, cap);
    x = ch_op_rounded(graph, x);
  }
  return ch_graph_node(graph, &op, 3, (ch_node *[]){x, weight, targets}, &(lm_loss){.cap = cap},
                       sizeof(lm_loss));
}

static const ch_op ranked = {.name = "lm_loss_and_rank",
                             .shape = lm_loss_shape,
                             .scratch = lm_loss_scratch,
                             .forward = lm_loss_forward,
                             .flops = lm_loss_flops,
                             .fused = true};

ch_node *ch_op_lm_loss_and_rank(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *targets, double cap) {
  if (x && ch_is_rounded(graph, x, ch_node_rows(x))) x = ch_op_rounded(graph, x);
  return ch_graph_node(graph, &ranked, 3, (ch_node *[]){x, weight, targets},
                       &(lm_loss){.ranks = true, .cap = cap}, sizeof(lm_loss));
}
