/* The reference's transformer: weights by name, blocks, logits, loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/mechanisms/mechanism.h"

double *reference_zeros(reference_run *run, int64_t count) {
  double *zeros = ch_arena_alloc(run->arena, (size_t)count * sizeof *zeros);
  assert_non_null(zeros);
  return zeros;
}

/* --- weights by name --- */

static reference_tensor *find(reference_run *run, const char *name) {
  for (int i = 0; i < run->weights->count; i++)
    if (strcmp(run->weights->tensors[i].name, name) == 0) return &run->weights->tensors[i];
  return NULL;
}

static const double *find_shaped(reference_run *run, const char *name, int rank, const int64_t shape[3]) {
  reference_tensor *tensor = find(run, name);
  if (!tensor) fail_msg("the definition needs a tensor %s, which is not there", name);
  bool right = tensor->rank == rank;
  for (int i = 0; right && i < rank; i++) right = tensor->shape[i] == shape[i];
  if (!right)
    fail_msg("%s is [%d, %d, %d] of rank %d where the definition has [%d, %d, %d] of rank %d", name,
             (int)tensor->shape[0], (int)tensor->shape[1], (int)tensor->shape[2], tensor->rank, (int)shape[0],
             (int)shape[1], (int)shape[2], rank);
  tensor->used = true;
  return tensor->data;
}

const double *reference_model_tensor(reference_run *run, const char *name, int rank, int64_t rows,
                                     int64_t columns) {
  return find_shaped(run, name, rank, (const int64_t[3]){rows, columns, 0});
}

const double *reference_atoms(reference_run *run, const char *name, int64_t rows, int64_t columns,
                              int64_t depth) {
  return find_shaped(run, name, 3, (const int64_t[3]){rows, columns, depth});
}

static const char *in_layer(const reference_run *run, const char *name, char buffer[128]) {
  snprintf(buffer, 128, "model.layers.%d.%s", run->layer, name);
  return buffer;
}

const double *reference_matrix(reference_run *run, const char *name, int64_t rows, int64_t columns) {
  char full[128];
  return reference_model_tensor(run, in_layer(run, name, full), 2, rows, columns);
}

const double *reference_matrices(reference_run *run, const char *name, int64_t count, int64_t rows,
                                 int64_t columns) {
  char full[128];
  return reference_atoms(run, in_layer(run, name, full), count, rows, columns);
}

const double *reference_vector(reference_run *run, const char *name, int64_t n) {
  char full[128];
  return reference_model_tensor(run, in_layer(run, name, full), 1, n, 1);
}

bool reference_has(reference_run *run, const char *name) {
  char full[128];
  return find(run, in_layer(run, name, full)) != NULL;
}

/* --- one sequence --- */

/* Returns a copy of x [rows][hidden], normalised with the tensors "{name}.weight" and, for LayerNorm,
   "{name}.bias". */
static double *normalised(reference_run *run, const double *x, int64_t rows, const char *name) {
  const reference_config *c = run->config;
  char full[128];
  double *y = reference_zeros(run, rows * c->hidden);
  memcpy(y, x, (size_t)(rows * c->hidden) * sizeof *y);
  snprintf(full, sizeof full, "%s.weight", name);
  const double *weight = reference_model_tensor(run, full, 1, c->hidden, 1);
  snprintf(full, sizeof full, "%s.bias", name);
  if (c->layernorm)
    reference_layernorm(y, rows, c->hidden, weight, reference_model_tensor(run, full, 1, c->hidden, 1),
                        c->norm_eps);
  else
    reference_rmsnorm(y, rows, c->hidden, weight, c->norm_eps);
  return y;
}

static void add(double *x, double factor, const double *y, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] += factor * y[i];
}

/* One half of a layer: its function, and the names of the norms of its input, of its output, and of the sum. */
typedef struct half {
  double *(*f)(reference_run *run, const double *x);
  const char *before, *branch, *sum;
} half;

/* Returns a copy of x normalised by a norm of the layer, or x itself if there is no norm. */
static const double *through_norm(reference_run *run, const double *x, const char *norm) {
  char name[128];
  return norm ? normalised(run, x, run->length, in_layer(run, norm, name)) : x;
}

/* Passes x [length][hidden] through one half of a layer, in place. */
static void through_half(reference_run *run, double *x, half h) {
  int64_t count = run->length * run->config->hidden;
  const double *y = h.f(run, through_norm(run, x, h.before));
  add(x, run->config->residual_factor, through_norm(run, y, h.branch), count);
  if (h.sum) memcpy(x, through_norm(run, x, h.sum), (size_t)count * sizeof *x);
}

static double *attention_of_layer(reference_run *run, const double *x) {
  return run->config->is_linear[run->layer] ? reference_linear_attention(run, x)
                                            : run->config->type->attention(run, x);
}

/* Adds the outputs of both halves of a layer to x. Both halves read x after one norm. */
static void side_by_side(reference_run *run, double *x) {
  const reference_config *c = run->config;
  const double *y = through_norm(run, x, "input_layernorm");
  add(x, c->residual_factor, attention_of_layer(run, y), run->length * c->hidden);
  add(x, c->residual_factor, reference_feed_forward(run, y), run->length * c->hidden);
}

static void through_layers(reference_run *run, double *x) {
  const reference_config *c = run->config;
  bool behind = c->branch || c->both;
  const half attention = {attention_of_layer, c->post || c->branch ? NULL : "input_layernorm",
                          behind ? "post_attention_layernorm" : NULL,
                          c->post ? "post_attention_layernorm" : NULL};
  const half ffn = {reference_feed_forward,
                    c->both                ? "pre_feedforward_layernorm"
                    : c->post || c->branch ? NULL
                                           : "post_attention_layernorm",
                    behind ? "post_feedforward_layernorm" : NULL,
                    c->post ? "post_feedforward_layernorm" : NULL};
  for (run->layer = 0; run->layer < c->layers; run->layer++) {
    if (c->parallel) {
      side_by_side(run, x);
      continue;
    }
    through_half(run, x, attention);
    through_half(run, x, ffn);
  }
}

/* Computes the embeddings x [length][hidden] of all tokens. */
static void embed(reference_run *run, double *x) {
  const reference_config *c = run->config;
  const double *words = reference_model_tensor(run, "model.embed_tokens.weight", 2, c->vocab, c->hidden);
  const double *places =
      c->position == REFERENCE_LEARNED
          ? reference_model_tensor(run, "model.embed_positions.weight", 2, c->places, c->hidden)
          : NULL;
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t i = 0; i < c->hidden; i++) {
      double sum = words[run->tokens[t] * c->hidden + i];
      if (places) sum += places[t * c->hidden + i];
      x[t * c->hidden + i] = c->embedding_factor * sum;
    }
}

/* Computes the logits [length][vocab] of one sequence. */
static void forward_one(reference_run *run, double *logits) {
  const reference_config *c = run->config;
  const double *embedding = reference_model_tensor(run, "model.embed_tokens.weight", 2, c->vocab, c->hidden);
  double *x = reference_zeros(run, run->length * c->hidden);
  embed(run, x);
  through_layers(run, x);
  if (!c->post) x = normalised(run, x, run->length, "model.norm");
  const double *head =
      c->tied ? embedding : reference_model_tensor(run, "lm_head.weight", 2, c->vocab, c->hidden);
  memcpy(logits, reference_apply(run, x, c->hidden, head, c->vocab),
         (size_t)(run->length * c->vocab) * sizeof *logits);
  for (int64_t i = 0; i < run->length * c->vocab; i++)
    logits[i] = reference_capped(logits[i] / c->logits_divisor, c->logits_cap);
}

/* Computes the logits [classes] of one image. */
static void see_one(reference_run *run, const double *pixels, double *logits) {
  const reference_config *c = run->config;
  double *x = reference_image_tokens(run, pixels);
  through_layers(run, x);
  if (!c->post) x = normalised(run, x, 1, "model.norm");
  const double *head = reference_model_tensor(run, "classifier.weight", 2, c->image.classes, c->hidden);
  const double *bias = reference_model_tensor(run, "classifier.bias", 1, c->image.classes, 1);
  for (int64_t k = 0; k < c->image.classes; k++) {
    logits[k] = bias[k];
    for (int64_t i = 0; i < c->hidden; i++) logits[k] += head[k * c->hidden + i] * x[i];
  }
}

static double cross_entropy(const double *logits, int64_t vocab, int32_t target) {
  double largest = -INFINITY, sum = 0;
  for (int64_t v = 0; v < vocab; v++) largest = fmax(largest, logits[v]);
  for (int64_t v = 0; v < vocab; v++) sum += exp(logits[v] - largest);
  return largest + log(sum) - logits[target];
}

static void check_all_used(const reference_weights *weights) {
  for (int i = 0; i < weights->count; i++)
    if (!weights->tensors[i].used) fail_msg("no definition names the tensor %s", weights->tensors[i].name);
}

double reference_see(const reference_config *config, reference_weights *weights, const double *pixels,
                     const int32_t *labels, int64_t images, double *logits) {
  int64_t side = config->image.size / config->image.patch, classes = config->image.classes;
  double loss = 0;
  for (int64_t s = 0; s < images; s++) {
    ch_arena arena = {0};
    reference_run run = {.config = config, .weights = weights, .arena = &arena, .length = 1 + side * side};
    see_one(&run, pixels + s * config->image.channels * config->image.size * config->image.size,
            logits + s * classes);
    ch_arena_free(&arena);
    loss += cross_entropy(logits + s * classes, classes, labels[s]);
  }
  check_all_used(weights);
  return loss / (double)images;
}

double reference_forward(const reference_config *config, reference_weights *weights, const int32_t *tokens,
                         int64_t sequences, int64_t length, const int32_t *document_start, double *logits) {
  double loss = 0;
  for (int64_t s = 0; s < sequences; s++) {
    ch_arena arena = {0};
    reference_run run = {.config = config,
                         .weights = weights,
                         .arena = &arena,
                         .sequence = s,
                         .length = length,
                         .tokens = tokens + s * length,
                         .start = document_start ? document_start + s * length : NULL};
    double *rows = logits + s * length * config->vocab;
    forward_one(&run, rows);
    ch_arena_free(&arena);
    for (int64_t t = 0; t + 1 < length; t++)
      loss += cross_entropy(rows + t * config->vocab, config->vocab, tokens[s * length + t + 1]);
  }
  check_all_used(weights);
  return length > 1 ? loss / (double)(sequences * (length - 1)) : 0;
}
