/* Runs a text through a model, sums x x^T over the inputs of linear maps, and measures how much each block changes the
 * stream. Methods weigh their errors with the results. */
#include "compress/calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The input of one or several projections of a layer. */
typedef struct input {
  ch_autocorrelation sums; /* public view, whose c and mean point into `data` */
  float *data;             /* [n, n] sums of x x^T, then [n] sums of x */
  size_t bytes;
} input;

/* The measurements at a node. */
typedef struct observed_node {
  int32_t input; /* number of the input to sum; -1: none, or another node with this input sums it */
  int32_t block; /* block whose output is the node's input; -1: none */
  int32_t joins; /* block whose attention the node adds to the stream; -1: none */
} observed_node;

struct ch_calibration {
  ch_calibration_options options;         /* valid while text runs */
  char (*names)[CH_PROJECTION_NAME_SIZE]; /* [names_count]: names of the wanted projections */
  int names_count;
  int64_t layers, tokens;
  double loss;
  int32_t *input_of; /* [layers, names_count]: number of the input + 1; 0: none */
  input *inputs;     /* [input_count] */
  int32_t input_count;
  double *block_sums; /* [layers, D]: sums of the blocks' outputs over tokens */
  double *drift;      /* [layers - 1]: KL divergences between the outputs of successive blocks */
  double *squares;    /* [layers, 2]: sums of squares of the attention's output, and of the stream with it */
  double *shares;     /* [layers]: attention's share of the stream */
};

/* The state of one call of ch_calibrate. */
typedef struct watch {
  ch_calibration *calibration;
  const ch_model *model;
  ch_text_pass *pass;
  const ch_graph *graph; /* graph that `nodes` describes */
  observed_node *nodes;  /* [graph->count] */
  ch_error *error;
} watch;

/* --- which nodes to look at -------------------------------------------------------------------------------------- */

/* Returns the index of q_proj among the wanted projections for "model.layers.3.self_attn.q_proj.weight", and sets
 * *layer; -1 for other names. */
static int wanted_projection(const ch_calibration *calibration, const char *label, int *layer) {
  int end = 0;
  if (sscanf(label, "model.layers.%d.self_attn.%n", layer, &end) != 1 || !end) return -1;
  for (int i = 0; i < calibration->names_count; i++) {
    const char *name = calibration->names[i];
    size_t length = strlen(name);
    if (strncmp(label + end, name, length) == 0 && strcmp(label + end + length, ".weight") == 0) return i;
  }
  return -1;
}

/* Returns the block that has this norm between its attention and its FFN, or -1. */
static int block_inside(const ch_calibration *calibration, const char *label) {
  int layer, end = 0;
  bool named = sscanf(label, "model.layers.%d.post_attention_layernorm.weight%n", &layer, &end) == 1 && end;
  return named && !label[end] && layer >= 0 && layer < calibration->layers ? layer : -1;
}

/* Returns the block whose output is the input of the norm with that weight, or -1. */
static int block_before(const ch_calibration *calibration, const char *label) {
  int layer, end = 0;
  if (strcmp(label, "model.norm.weight") == 0) return (int)calibration->layers - 1;
  if (sscanf(label, "model.layers.%d.input_layernorm.weight%n", &layer, &end) == 1 && end && !label[end])
    return layer - 1;
  return -1;
}

static ch_status new_input(ch_calibration *calibration, int64_t n, ch_error *error) {
  input *more = realloc(calibration->inputs, ((size_t)calibration->input_count + 1) * sizeof *more);
  if (!more) return ch_no_memory(error);
  calibration->inputs = more;
  input *in = &more[calibration->input_count];
  *in = (input){.bytes = (size_t)(n * n + n) * sizeof(float)};
  in->data = ch_pages_alloc(in->bytes);
  if (!in->data)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for the autocorrelation of %lld inputs (%zu MiB)",
                   (long long)n, in->bytes >> 20);
  memset(in->data, 0, in->bytes);
  in->sums = (ch_autocorrelation){.n = n, .c = in->data, .mean = in->data + n * n};
  calibration->input_count++;
  return CH_OK;
}

/* Assigns an input number to a projection. Projections with the same input have the same number. */
static ch_status note_projection(watch *w, const ch_node *node, int layer, int projection) {
  ch_calibration *calibration = w->calibration;
  int count = calibration->names_count;
  int32_t *slot = &calibration->input_of[layer * count + projection];
  /* an earlier node of this graph may have the input */
  for (int i = 0; !*slot && i < w->graph->count; i++) {
    const ch_node *other = w->graph->nodes[i];
    int other_layer = -1;
    if (other == node) break;
    if (other->kind != CH_NODE_OP || strcmp(other->op->name, "linear") != 0 || other->in[0] != node->in[0] ||
        !other->in[1]->label)
      continue;
    int with = wanted_projection(calibration, other->in[1]->label, &other_layer);
    if (with >= 0 && other_layer == layer) *slot = calibration->input_of[layer * count + with];
  }
  if (!*slot) {
    CH_TRY(new_input(calibration, ch_node_columns(node->in[0]), w->error));
    *slot = calibration->input_count;
  }
  bool counted = false; /* true if another node of this graph counts the input */
  for (int i = 0; i < w->graph->count; i++) counted |= w->nodes[i].input == *slot - 1;
  if (!counted) w->nodes[node->id].input = *slot - 1;
  return CH_OK;
}

static ch_status look_through(watch *w, const ch_graph *graph) {
  ch_calibration *calibration = w->calibration;
  free(w->nodes);
  w->graph = graph;
  w->nodes = malloc((size_t)graph->count * sizeof *w->nodes);
  if (!w->nodes) return ch_no_memory(w->error);
  for (int i = 0; i < graph->count; i++) w->nodes[i] = (observed_node){-1, -1, -1};
  for (int i = 0; i < graph->count; i++) {
    const ch_node *node = graph->nodes[i];
    if (node->kind != CH_NODE_OP || node->inputs < 2 || !node->in[1]->label) continue;
    const char *label = node->in[1]->label;
    int layer = -1;
    int projection =
        strcmp(node->op->name, "linear") == 0 ? wanted_projection(calibration, label, &layer) : -1;
    if (projection >= 0 && layer >= 0 && layer < calibration->layers)
      CH_TRY(note_projection(w, node, layer, projection));
    if (!calibration->options.drift || strcmp(node->op->name, "rmsnorm") != 0) continue;
    w->nodes[i].block = block_before(calibration, label);
    const ch_node *stream = node->in[0];
    if (stream->kind == CH_NODE_OP && strcmp(stream->op->name, "add") == 0)
      w->nodes[stream->id].joins = block_inside(calibration, label);
  }
  return CH_OK;
}

/* --- sums -------------------------------------------------------------------------------------------------------- */

/* The sums to which the data of a batch is added. */
typedef struct destination {
  watch *watch;
  input *input;    /* destination of products, or NULL */
  double *doubles; /* [columns]: destination of rows or squares, or NULL */
  int64_t columns;
} destination;

static ch_status take_products(void *context, const void *data, size_t bytes, ch_error *error) {
  const destination *to = context;
  const float *x = data;
  int64_t n = to->input->sums.n, rows = (int64_t)(bytes / sizeof *x) / n;
  float *mean = to->input->data + n * n;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) mean[i] += x[r * n + i];
  return ch_gemm_run(ch_text_pass_gemm(to->watch->pass), true, false, n, n, rows, x, n, x, n, to->input->data,
                     n, true, error);
}

static ch_status take_rows(void *context, const void *data, size_t bytes, ch_error *error) {
  const destination *to = context;
  const float *x = data;
  int64_t rows = (int64_t)(bytes / sizeof *x) / to->columns;
  (void)error;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < to->columns; i++) to->doubles[i] += (double)x[r * to->columns + i];
  return CH_OK;
}

static ch_status take_squares(void *context, const void *data, size_t bytes, ch_error *error) {
  const destination *to = context;
  const double *squares = data;
  (void)error;
  for (size_t i = 0; i < bytes / sizeof *squares; i++) to->doubles[i] += squares[i];
  return CH_OK;
}

static double sum_of_squares(const float *x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
  return sum;
}

static ch_status seen(void *context, const ch_run *run, const ch_node *node) {
  watch *w = context;
  ch_calibration *calibration = w->calibration;
  if (node->graph != w->graph) CH_TRY(look_through(w, node->graph));
  const observed_node *found = &w->nodes[node->id];
  if (found->joins >= 0) {
    const double squares[] = {sum_of_squares(ch_run_value(run, node->in[1]), ch_node_count(node)),
                              sum_of_squares(ch_run_value(run, node), ch_node_count(node))};
    destination to = {.watch = w, .doubles = calibration->squares + 2 * (int64_t)found->joins};
    CH_TRY(
        ch_text_pass_collect(w->pass, found->joins, squares, 0, sizeof squares, take_squares, &to, w->error));
  }
  if (found->input < 0 && found->block < 0) return CH_OK;
  const float *x = ch_run_value(run, node->in[0]);
  int64_t columns = ch_node_columns(node->in[0]);
  size_t row_bytes = (size_t)columns * sizeof *x;
  if (found->input >= 0) {
    destination to = {.watch = w, .input = &calibration->inputs[found->input]};
    CH_TRY(ch_text_pass_collect(w->pass, found->input, x, row_bytes, 0, take_products, &to, w->error));
  }
  if (found->block >= 0) {
    destination to = {
        .watch = w, .doubles = calibration->block_sums + found->block * columns, .columns = columns};
    CH_TRY(ch_text_pass_collect(w->pass, found->block, x, row_bytes, 0, take_rows, &to, w->error));
  }
  return CH_OK;
}

/* Gives every rank the sums over all ranks. */
static void share_sums(const watch *w) {
  ch_calibration *calibration = w->calibration;
  size_t width = (size_t)w->model->config.hidden_size;
  for (int32_t k = 0; k < calibration->input_count; k++)
    ch_text_pass_share(w->pass, k, calibration->inputs[k].data, calibration->inputs[k].bytes);
  for (int64_t l = 0; l < calibration->layers; l++) {
    ch_text_pass_share(w->pass, l, calibration->block_sums + (size_t)l * width,
                       width * sizeof *calibration->block_sums);
    ch_text_pass_share(w->pass, l, calibration->squares + 2 * l, 2 * sizeof *calibration->squares);
  }
}

/* Turns sums into means and makes products exactly symmetric. */
static ch_status finish_sums(ch_calibration *calibration, ch_error *error) {
  float scale = (float)(1 / (double)calibration->tokens);
  for (int32_t k = 0; k < calibration->input_count; k++) {
    int64_t n = calibration->inputs[k].sums.n;
    float *c = calibration->inputs[k].data, trace = 0;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j <= i; j++)
        c[i * n + j] = c[j * n + i] = scale * 0.5F * (c[i * n + j] + c[j * n + i]);
    for (int64_t i = 0; i < n; i++) c[n * n + i] *= scale;
    for (int64_t i = 0; i < n; i++) trace += c[i * n + i];
    if (!(trace > 0) || !isfinite(trace))
      return ch_fail(error, CH_ERROR_NUMERIC,
                     "the calibration text gives a projection nothing but %s as input; use another text",
                     trace == 0 ? "zeros" : "numbers that are not finite");
  }
  return CH_OK;
}

/* --- drift ------------------------------------------------------------------------------------------------------- */

/* Writes the mean outputs, through the final norm, to x [layers, D]. */
static void normalise(const ch_calibration *calibration, const ch_model *model, float *x) {
  int64_t width = model->config.hidden_size;
  const float *weight = model->weights.tensors[ch_params_find(&model->params, "model.norm.weight")].data;
  for (int64_t l = 0; l < calibration->layers; l++) {
    const double *sum = calibration->block_sums + l * width;
    double squares = 0, tokens = (double)calibration->tokens;
    for (int64_t i = 0; i < width; i++) squares += sum[i] / tokens * (sum[i] / tokens);
    double factor = 1 / sqrt(squares / (double)width + model->config.rms_norm_eps) / tokens;
    for (int64_t i = 0; i < width; i++) x[l * width + i] = (float)(sum[i] * factor * (double)weight[i]);
  }
}

static double log_of_sum(const float *logits, int64_t count) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < count; i++) most = fmax(most, (double)logits[i]);
  for (int64_t i = 0; i < count; i++) sum += exp((double)logits[i] - most);
  return most + log(sum);
}

/* Returns KL(p || q) of the token distributions of two rows of logits. */
static double divergence(const float *p, const float *q, int64_t count) {
  double p_norm = log_of_sum(p, count), q_norm = log_of_sum(q, count), sum = 0;
  for (int64_t i = 0; i < count; i++) {
    double log_p = (double)p[i] - p_norm;
    sum += exp(log_p) * (log_p - ((double)q[i] - q_norm));
  }
  return sum > 0 ? sum : 0;
}

static ch_status measure_shares(ch_calibration *calibration, ch_error *error) {
  calibration->shares = malloc((size_t)calibration->layers * sizeof *calibration->shares);
  if (!calibration->shares) return ch_no_memory(error);
  for (int64_t l = 0; l < calibration->layers; l++) {
    const double *squares = calibration->squares + 2 * l;
    calibration->shares[l] = squares[1] > 0 ? squares[0] / squares[1] : 1;
  }
  return CH_OK;
}

static ch_status measure_drift(watch *w) {
  ch_calibration *calibration = w->calibration;
  const ch_model *model = w->model;
  int64_t layers = calibration->layers, width = model->config.hidden_size, words = model->config.vocab_size;
  const char *name = model->config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const ch_tensor *head = &model->weights.tensors[ch_params_find(&model->params, name)];
  float *x = malloc((size_t)(layers * width) * sizeof *x);
  float *logits = malloc((size_t)(layers * words) * sizeof *logits);
  calibration->drift = calloc((size_t)layers, sizeof *calibration->drift);
  ch_status status = CH_OK;
  if (!x || !logits || !calibration->drift)
    status = ch_no_memory(w->error);
  else {
    normalise(calibration, model, x);
    status = ch_gemm_linear(ch_text_pass_gemm(w->pass), layers, width, words, x, CH_F32, head->data,
                            head->dtype, NULL, logits, false, w->error);
    for (int64_t l = 0; status == CH_OK && l + 1 < layers; l++)
      calibration->drift[l] = divergence(logits + l * words, logits + (l + 1) * words, words);
  }
  free(x);
  free(logits);
  return status;
}

/* --- calibrating ------------------------------------------------------------------------------------------------- */

/* Checks that norms come before their blocks: drift and shares are measured in the residual stream before its
 * norms. */
static ch_status check_norms(const ch_config *config, ch_error *error) {
  bool plain = config->residual_multiplier == 1 && config->logits_scaling == 1 && !config->parallel_residual;
  if (strcmp(config->norm, "rmsnorm") == 0 && config->norm_placement == CH_NORM_PRE && plain) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "measuring how blocks differ needs \"norm\": \"rmsnorm\", \"norm_placement\": \"pre\", no "
                 "parallel residual and no multipliers; use another method");
}

static ch_status run_text(watch *w, const int32_t *tokens, int64_t count, ch_error *error) {
  ch_calibration *calibration = w->calibration;
  const ch_calibration_options *o = &calibration->options;
  ch_text_pass_options of_pass = {
      .window = o->window, .step = o->step, .context = o->context, .what = "calibration", .ranks = o->ranks};
  if (o->drift) CH_TRY(check_norms(&w->model->config, error));
  CH_TRY(ch_text_pass_create(w->model, tokens, count, &of_pass, &w->pass, error));
  ch_observer observer = {.seen = seen, .context = w};
  ch_status status =
      ch_text_pass_run(w->pass, w->model->weights.tensors, &observer, &calibration->loss, error);
  calibration->tokens = ch_text_pass_tokens(w->pass);
  if (status == CH_OK) share_sums(w);
  if (status == CH_OK) status = finish_sums(calibration, error);
  if (status == CH_OK && o->drift) status = measure_shares(calibration, error);
  if (status == CH_OK && o->drift) status = measure_drift(w);
  ch_text_pass_free(w->pass);
  return status;
}

ch_status ch_calibrate(const ch_model *model, const int32_t *tokens, int64_t count,
                       const ch_calibration_options *options, ch_calibration **result, ch_error *error) {
  *result = NULL;
  ch_calibration *calibration = calloc(1, sizeof *calibration);
  if (!calibration) return ch_no_memory(error);
  calibration->options = *options;
  calibration->layers = model->config.num_hidden_layers;
  calibration->names = calloc((size_t)options->projection_count + 1, sizeof *calibration->names);
  for (int i = 0; calibration->names && i < options->projection_count; i++)
    snprintf(calibration->names[calibration->names_count++], CH_PROJECTION_NAME_SIZE, "%s",
             options->projections[i]);
  size_t slots = (size_t)calibration->layers * (size_t)(options->projection_count + 1);
  calibration->input_of = calloc(slots, sizeof *calibration->input_of);
  calibration->block_sums = calloc((size_t)(calibration->layers * model->config.hidden_size), sizeof(double));
  calibration->squares = calloc((size_t)calibration->layers, 2 * sizeof(double));
  watch w = {.calibration = calibration, .model = model, .error = error};
  bool room = calibration->names && calibration->input_of && calibration->block_sums && calibration->squares;
  ch_status status = ch_agree(options->ranks, room ? CH_OK : ch_no_memory(error), error);
  if (status == CH_OK) status = run_text(&w, tokens, count, error);
  free(w.nodes);
  if (status != CH_OK) {
    ch_calibration_free(calibration);
    return status;
  }
  *result = calibration;
  return CH_OK;
}

void ch_calibration_free(ch_calibration *calibration) {
  if (!calibration) return;
  for (int32_t k = 0; k < calibration->input_count; k++)
    ch_pages_free(calibration->inputs[k].data, calibration->inputs[k].bytes);
  free(calibration->inputs);
  free(calibration->names);
  free(calibration->input_of);
  free(calibration->block_sums);
  free(calibration->drift);
  free(calibration->squares);
  free(calibration->shares);
  free(calibration);
}

const ch_autocorrelation *ch_calibration_of(const ch_calibration *calibration, int layer,
                                            const char *projection) {
  int count = calibration->names_count;
  for (int i = 0; i < count; i++)
    if (strcmp(calibration->names[i], projection) == 0) {
      int32_t number = calibration->input_of[layer * count + i];
      return number ? &calibration->inputs[number - 1].sums : NULL;
    }
  return NULL;
}

const double *ch_calibration_drift(const ch_calibration *calibration) {
  return calibration->drift;
}

double ch_calibration_loss(const ch_calibration *calibration) {
  return calibration->loss;
}

int64_t ch_calibration_tokens(const ch_calibration *calibration) {
  return calibration->tokens;
}

const double *ch_calibration_shares(const ch_calibration *calibration) {
  return calibration->shares;
}
