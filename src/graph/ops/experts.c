/* SwiGLU experts on exactly the tokens that chose them: y_n = sum over n's choices of w down(silu(gate x_n) *
 * up x_n). The three matrices may have biases, and SwiGLU may have clamps.
 *
 * Choices are sorted by expert, in the order of their tokens. An expert's rows are then adjacent, and each of its
 * three matrices multiplies them in one product. The weight w multiplies the input of down, so that the rows
 * that experts return are only added. Inputs: x, weights, chosen, then gate, up and down of every expert, then
 * their biases if there are any. M = N * active choices. */
#include <string.h>

#include "graph/ops/shapes.h"

enum { X, WEIGHTS, CHOSEN, MATRICES, KINDS = 3 };
enum { GATE, UP, DOWN };

typedef struct experts {
  int64_t count;
  bool biased, clamped;
  ch_swiglu_clamps clamps;
} experts;

typedef struct sizes {
  int64_t tokens, active, choices, experts, width, hidden;
} sizes;

static sizes experts_sizes_of(const ch_node *node) {
  const ch_node *x = node->in[X];
  sizes s = {.tokens = ch_node_rows(x),
             .active = ch_node_columns(node->in[CHOSEN]),
             .experts = ((const experts *)node->attributes)->count,
             .width = ch_node_columns(x),
             .hidden = node->in[MATRICES]->shape[0]};
  s.choices = s.tokens * s.active;
  return s;
}

static int matrix_of(int64_t expert, int kind) {
  return MATRICES + KINDS * (int)expert + kind;
}

/* Returns the index of the input with an expert's bias, or 0 if there is none. */
static int bias_of(const ch_node *node, int64_t expert, int kind) {
  const experts *all = node->attributes;
  return all->biased ? matrix_of(all->count + expert, kind) : 0;
}

static ch_status experts_shape(ch_node *node, ch_error *error) {
  const ch_node *x = node->in[X], *chosen = node->in[CHOSEN];
  sizes s = experts_sizes_of(node);
  if (x->rank != 2 || chosen->dtype != CH_I32 || ch_node_rows(chosen) != s.tokens)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "needs a matrix and the integers of the experts that its rows chose");
  CH_TRY(ch_same_shapes(node->in[WEIGHTS], chosen, error));
  if (s.choices > INT32_MAX)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld tokens with %lld choices each are more than 2^31 - 1",
                   (long long)s.tokens, (long long)s.active);
  for (int i = matrix_of(s.experts, 0); i < node->inputs; i++)
    CH_TRY(ch_vector_of(node->in[i], (i - MATRICES) % KINDS == DOWN ? s.width : s.hidden, "bias", error));
  for (int i = MATRICES; i < matrix_of(s.experts, 0); i++) {
    const ch_node *matrix = node->in[i];
    bool down = (i - MATRICES) % KINDS == DOWN;
    if (matrix->rank == 2 && matrix->shape[0] == (down ? s.width : s.hidden) &&
        matrix->shape[1] == (down ? s.hidden : s.width))
      continue;
    char has[96];
    return ch_fail(error, CH_ERROR_CONFIG, "matrix %d of expert %d has shape %s; it must be [%lld, %lld]",
                   (i - MATRICES) % KINDS, (i - MATRICES) / KINDS,
                   ch_shape_text(matrix->rank, matrix->shape, has, sizeof has),
                   (long long)(down ? s.width : s.hidden), (long long)(down ? s.hidden : s.width));
  }
  return ch_shape_as_input(node, X);
}

/* Returns the number of elements of gate and up of all choices. */
static int64_t experts_saved(const ch_node *node) {
  sizes s = experts_sizes_of(node);
  return 2 * s.choices * s.hidden;
}

/* --- choices by expert ---------------------------------------------------------------------------------- */

/* All arrays but `first` are in scratch. A place is a position in the order by expert. Choice n * active + j is
   choice j of token n. */
typedef struct work {
  int64_t first[CH_MAX_EXPERTS + 1]; /* place of an expert's first choice */
  int32_t *choice, *token, *place;   /* [M] choice and token at a place, and place of a choice */
  char *weight, *dweight;            /* [M] weights and their gradients, by place */
  char *rows, *x;                    /* [M, D] rows that experts return; an expert's own tokens (backward) */
  char *hidden;    /* [an expert's choices, F] input of down; in backward then its gradient */
  char *gate, *up; /* [M, F] in scratch, or saved for the backward pass */
  char *sums;      /* scratch of sums over rows, for the gradients of biases (backward) */
} work;

enum { CHOICE, TOKEN, PLACE, WEIGHT, ROWS, HIDDEN, DWEIGHT, BACK_X, GATES, UPS, SUMS, PARTS };

/* Writes the offset of each part in bytes; returns the end of the last one. */
static size_t lay_out(const ch_run *run, const sizes *s, bool backward, size_t at[PARTS]) {
  const size_t element = ch_dtype_size(run->kernels->dtype);
  const size_t choices = (size_t)s->choices, width = (size_t)s->width, hidden = (size_t)s->hidden;
  size_t bytes[PARTS] = {[CHOICE] = choices * sizeof(int32_t), [TOKEN] = choices * sizeof(int32_t),
                         [PLACE] = choices * sizeof(int32_t),  [WEIGHT] = choices * element,
                         [ROWS] = choices * width * element,   [HIDDEN] = choices * hidden * element};
  if (backward) {
    bytes[DWEIGHT] = choices * element;
    bytes[BACK_X] = choices * width * element;
    bytes[SUMS] = run->kernels->sum_scratch(run->team, s->hidden);
  } else {
    bytes[GATES] = bytes[UPS] = choices * hidden * element;
  }
  size_t end = 0;
  for (int part = 0; part < PARTS; part++) {
    at[part] = end;
    end += (bytes[part] + 63) & ~(size_t)63;
  }
  return end;
}

static size_t experts_scratch(const ch_run *run, const ch_node *node, bool backward) {
  sizes s = experts_sizes_of(node);
  size_t at[PARTS];
  return lay_out(run, &s, backward, at);
}

static void experts_prepare(const ch_run *run, const ch_node *node, const sizes *s, bool backward, work *w) {
  size_t at[PARTS];
  char *start = ch_run_scratch(run);
  lay_out(run, s, backward, at);
  *w = (work){.choice = (int32_t *)(void *)(start + at[CHOICE]),
              .token = (int32_t *)(void *)(start + at[TOKEN]),
              .place = (int32_t *)(void *)(start + at[PLACE]),
              .weight = start + at[WEIGHT],
              .dweight = start + at[DWEIGHT],
              .rows = start + at[ROWS],
              .x = start + at[BACK_X],
              .hidden = start + at[HIDDEN],
              .gate = start + at[GATES],
              .up = start + at[UPS],
              .sums = start + at[SUMS]};
  run->kernels->sort_choices(s->choices, s->active, s->experts, ch_run_value(run, node->in[CHOSEN]), w->first,
                             w->choice, w->token, w->place);
  run->kernels->embedding_forward(run->team, s->choices, 1, w->choice, ch_run_value(run, node->in[WEIGHTS]),
                                  node->dtype, w->weight);
}

/* Returns the address of row `place` of a matrix with `columns` columns. */
static char *experts_row_at(char *matrix, int64_t place, int64_t columns, const ch_node *node) {
  return matrix + (size_t)(place * columns) * ch_dtype_size(node->dtype);
}

/* --- forward -------------------------------------------------------------------------------------------- */

static ch_status through(ch_run *run, const ch_node *node, int64_t expert, int kind, int64_t rows,
                         const void *x, void *y) {
  const ch_node *matrix = node->in[matrix_of(expert, kind)];
  return ch_gemm_linear_some(run->gemm, rows, matrix->shape[1], matrix->shape[0], x, node->dtype,
                             ch_run_value(run, matrix), ch_run_dtype(run, matrix), y, run->error);
}

/* Adds the expert's bias to rows of gate or up. */
static void add_bias(const ch_run *run, const ch_node *node, int64_t expert, int kind, int64_t rows,
                     void *y) {
  int input = bias_of(node, expert, kind);
  if (input)
    run->kernels->add_bias(run->team, rows, ch_node_count(node->in[input]),
                           ch_run_value(run, node->in[input]), y);
}

/* Computes the input of down: the activation of gate and up, times the weights. */
static void activate(const ch_run *run, const ch_node *node, int64_t rows, int64_t hidden, const void *gate,
                     const void *up, const void *weight, void *y) {
  const experts *all = node->attributes;
  if (all->clamped)
    run->kernels->clamped_swiglu_forward(run->team, rows, hidden, all->clamps.alpha, all->clamps.limit, gate,
                                         up, weight, y);
  else
    run->kernels->swiglu_rows_forward(run->team, rows, hidden, gate, up, weight, y);
}

static ch_status expert_forward(ch_run *run, const ch_node *node, const sizes *s, const work *w, int64_t e) {
  const ch_kernels *kernels = run->kernels;
  int64_t first = w->first[e], count = w->first[e + 1] - first;
  char *rows = experts_row_at(w->rows, first, s->width, node),
       *weight = experts_row_at(w->weight, first, 1, node);
  char *gate = experts_row_at(w->gate, first, s->hidden, node),
       *up = experts_row_at(w->up, first, s->hidden, node);
  if (count == 0) return CH_OK;
  kernels->embedding_forward(run->team, count, s->width, w->token + first, ch_run_value(run, node->in[X]),
                             node->dtype, rows);
  CH_TRY(through(run, node, e, GATE, count, rows, gate));
  CH_TRY(through(run, node, e, UP, count, rows, up));
  add_bias(run, node, e, GATE, count, gate);
  add_bias(run, node, e, UP, count, up);
  activate(run, node, count, s->hidden, gate, up, weight, w->hidden);
  CH_TRY(through(run, node, e, DOWN, count, w->hidden, rows));
  int bias = bias_of(node, e, DOWN);
  if (!bias) return CH_OK;
  /* Adds weight b^T. A row's result of this kernel does not depend on the other rows. */
  const ch_product product = {s->width, ch_run_value(run, node->in[bias]), NULL, rows};
  kernels->gemv(run->team, count, 1, weight, node->dtype, 1, &product, true);
  return CH_OK;
}

static ch_status experts_forward(ch_run *run, const ch_node *node) {
  sizes s = experts_sizes_of(node);
  work w;
  experts_prepare(run, node, &s, false, &w);
  char *kept = ch_run_saved(run, node);
  if (kept) {
    w.gate = kept;
    w.up = experts_row_at(kept, s.choices, s.hidden, node);
  }
  for (int64_t e = 0; e < s.experts; e++) CH_TRY(expert_forward(run, node, &s, &w, e));
  run->kernels->sum_places(run->team, s.tokens, s.active, s.width, w.place, w.rows, ch_run_output(run, node),
                           false);
  return CH_OK;
}

/* --- backward ------------------------------------------------------------------------------------------- */

/* Computes the gradient of a matrix [out, in] from dy [rows, out] and x [rows, in]. */
static ch_status matrix_gradient(ch_run *run, const ch_node *node, int64_t expert, int kind, int64_t rows,
                                 const void *dy, const void *x) {
  int input = matrix_of(expert, kind);
  const int64_t *shape = node->in[input]->shape;
  bool accumulate;
  void *dw = ch_run_gradient(run, node, input, &accumulate);
  if (!dw) return CH_OK;
  return ch_gemm_gradient_some(run->gemm, rows, shape[1], shape[0], dy, x, dw, accumulate, run->error);
}

/* dx (+)= dy W. */
static ch_status back_through(ch_run *run, const ch_node *node, int64_t expert, int kind, int64_t rows,
                              const void *dy, void *dx, bool accumulate) {
  const int64_t *shape = node->in[matrix_of(expert, kind)]->shape;
  return ch_gemm_run(run->gemm, false, false, rows, shape[1], shape[0], dy, shape[0],
                     ch_run_value(run, node->in[matrix_of(expert, kind)]), shape[1], dx, shape[1], accumulate,
                     run->error);
}

/* Replaces gate and up by dgate and dup, and computes the gradient of the weights. */
static void activate_backward(const ch_run *run, const ch_node *node, int64_t rows, int64_t hidden,
                              const void *dy, const void *weight, void *gate, void *up, void *dweight) {
  const experts *all = node->attributes;
  if (all->clamped)
    run->kernels->clamped_swiglu_backward(run->team, rows, hidden, all->clamps.alpha, all->clamps.limit, gate,
                                          up, weight, dy, gate, false, up, false, dweight);
  else
    run->kernels->swiglu_rows_backward(run->team, rows, hidden, gate, up, weight, dy, gate, up, dweight);
}

/* Computes the gradients of an expert's biases. The bias of down is multiplied by the weights, so it also adds
   to dweight. */
static ch_status bias_gradients(ch_run *run, const ch_node *node, const sizes *s, const work *w, int64_t e,
                                int64_t rows, const void *dgate, const void *dup, const void *dy,
                                const void *weight, void *dweight) {
  const void *of[] = {dgate, dup};
  bool accumulate;
  if (!bias_of(node, e, GATE)) return CH_OK;
  for (int kind = GATE; kind <= UP; kind++) {
    void *db = ch_run_gradient(run, node, bias_of(node, e, kind), &accumulate);
    if (db) run->kernels->sum_rows(run->team, rows, s->hidden, of[kind], db, accumulate, w->sums);
  }
  int down = bias_of(node, e, DOWN);
  void *db = ch_run_gradient(run, node, down, &accumulate);
  if (db)
    CH_TRY(ch_gemm_run(run->gemm, true, false, s->width, 1, rows, dy, s->width, weight, 1, db, 1, accumulate,
                       run->error));
  return ch_gemm_run(run->gemm, false, false, rows, 1, s->width, dy, s->width,
                     ch_run_value(run, node->in[down]), 1, dweight, 1, true, run->error);
}

/* Computes the gradients of an expert's matrices and biases, its dweight and, in w->rows, the gradients of its
   tokens. Replaces gate and up by their gradients. */
static ch_status expert_backward(ch_run *run, const ch_node *node, const sizes *s, const work *w, int64_t e) {
  const ch_kernels *kernels = run->kernels;
  int64_t first = w->first[e], count = w->first[e + 1] - first;
  char *rows = experts_row_at(w->rows, first, s->width, node), *x = w->x;
  char *weight = experts_row_at(w->weight, first, 1, node),
       *dweight = experts_row_at(w->dweight, first, 1, node);
  char *gate = experts_row_at(w->gate, first, s->hidden, node),
       *up = experts_row_at(w->up, first, s->hidden, node);
  kernels->embedding_forward(run->team, count, s->width, w->token + first, ch_run_value(run, node->in[X]),
                             node->dtype, x);
  kernels->embedding_forward(run->team, count, s->width, w->token + first, ch_run_output_gradient(run, node),
                             node->dtype, rows);
  activate(run, node, count, s->hidden, gate, up, weight, w->hidden);
  CH_TRY(matrix_gradient(run, node, e, DOWN, count, rows, w->hidden));
  CH_TRY(back_through(run, node, e, DOWN, count, rows, w->hidden, false));
  activate_backward(run, node, count, s->hidden, w->hidden, weight, gate, up, dweight);
  CH_TRY(bias_gradients(run, node, s, w, e, count, gate, up, rows, weight, dweight));
  CH_TRY(matrix_gradient(run, node, e, GATE, count, gate, x));
  CH_TRY(matrix_gradient(run, node, e, UP, count, up, x));
  CH_TRY(back_through(run, node, e, GATE, count, gate, rows, false));
  return back_through(run, node, e, UP, count, up, rows, true);
}

static ch_status experts_backward(ch_run *run, const ch_node *node) {
  sizes s = experts_sizes_of(node);
  work w;
  experts_prepare(run, node, &s, true, &w);
  w.gate = ch_run_saved(run, node);
  w.up = experts_row_at(w.gate, s.choices, s.hidden, node);
  for (int64_t e = 0; e < s.experts; e++) CH_TRY(expert_backward(run, node, &s, &w, e));
  bool accumulate;
  void *dx = ch_run_gradient(run, node, X, &accumulate);
  if (dx) run->kernels->sum_places(run->team, s.tokens, s.active, s.width, w.place, w.rows, dx, accumulate);
  void *dweights = ch_run_gradient(run, node, WEIGHTS, &accumulate);
  if (dweights)
    run->kernels->sum_places(run->team, s.choices, 1, 1, w.place, w.dweight, dweights, accumulate);
  return CH_OK;
}

static double experts_flops(const ch_node *node) {
  sizes s = experts_sizes_of(node);
  return 2.0 * KINDS * (double)s.choices * (double)s.width * (double)s.hidden;
}

/* Returns an upper bound of the share of parameters that are read. It is exact if all choices are different experts. */
static double experts_parameters_read(const ch_node *node) {
  sizes s = experts_sizes_of(node);
  return s.choices < s.experts ? (double)s.choices / (double)s.experts : 1;
}

static const ch_op op = {.name = "experts",
                         .shape = experts_shape,
                         .saved = experts_saved,
                         .scratch = experts_scratch,
                         .forward = experts_forward,
                         .backward = experts_backward,
                         .backward_reads = CH_READS_INPUTS,
                         .flops = experts_flops,
                         .parameters_read = experts_parameters_read};

ch_node *ch_op_experts(ch_graph *graph, ch_node *x, ch_node *shares, ch_node *chosen,
                       const ch_expert_weights *weights) {
  if (weights->experts < 1 || weights->experts > CH_MAX_EXPERTS)
    return ch_graph_fail(graph, "%lld experts; 1 to %d are possible", (long long)weights->experts,
                         CH_MAX_EXPERTS);
  const int64_t count = weights->experts;
  const bool biased = weights->gate_bias != NULL;
  int inputs = matrix_of(biased ? 2 * count : count, 0);
  ch_node **in = ch_arena_alloc(&graph->arena, (size_t)inputs * sizeof *in);
  if (!in) return ch_graph_no_memory(graph);
  in[X] = x;
  in[WEIGHTS] = shares;
  in[CHOSEN] = chosen;
  for (int64_t e = 0; e < count; e++) {
    in[matrix_of(e, GATE)] = weights->gate[e];
    in[matrix_of(e, UP)] = weights->up[e];
    in[matrix_of(e, DOWN)] = weights->down[e];
    if (!biased) continue;
    in[matrix_of(count + e, GATE)] = weights->gate_bias[e];
    in[matrix_of(count + e, UP)] = weights->up_bias[e];
    in[matrix_of(count + e, DOWN)] = weights->down_bias[e];
  }
  experts attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.count = count;
  attributes.biased = biased;
  if (weights->clamps) {
    attributes.clamped = true;
    attributes.clamps = *weights->clamps;
  }
  return ch_graph_node(graph, &op, inputs, in, &attributes, sizeof attributes);
}
