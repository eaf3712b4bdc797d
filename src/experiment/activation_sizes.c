/* Measures the activations of a graph: the root mean square of each one's values, and of their change since the first
 * pass. coordinate_check.c compares them between widths and steps. */
#include "experiment/activation_sizes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops.h"
#include "model/runner.h"

/* The maximum number of tokens whose scores are computed. They are the first of the first sequence. The number of
   scores grows with the square of the number of tokens. */
enum { MOST_SCORED = 256 };

typedef enum part { PART_VALUE, PART_INPUT, PART_SCORES } part;

/* The activation that is measured at a node: the node's value, its first input, or its scores. */
typedef struct observed_node {
  int activation; /* index in the list of activations; -1: none */
  part part;
  float *first; /* [count] values of the first pass; NULL before it */
} observed_node;

/* The maximum number of activations at one node. Attention has two, its scores and its output. */
enum { MOST_OF_NODE = 2 };

struct ch_activations {
  ch_engine engine;
  ch_runner *runner;
  const ch_params *params;
  const int32_t *tokens;
  ch_activation list[CH_MOST_ACTIVATIONS];
  int layers[CH_MOST_ACTIVATIONS]; /* number of nodes of each activation that were summed in this pass */
  int count;
  const ch_graph *graph;                /* graph that `nodes` describes; NULL before the first pass */
  observed_node (*nodes)[MOST_OF_NODE]; /* [graph->count] */
  float *scores;                        /* [score_count] scratch: scores of one attention */
  int64_t score_count;                  /* capacity of `scores` */
  bool measured;
  ch_error *error;
};

/* --- names ------------------------------------------------------------------------------------------------------ */

/* Returns the parameter that names a weight: the weight itself or, if it is computed, its first parameter in
 * a layer, else its first one. */
static const ch_node *named_parameter(const ch_node *weight) {
  const ch_node *found = NULL;
  if (weight->kind == CH_NODE_PARAM) return weight;
  for (int i = 0; i < weight->inputs; i++) {
    const ch_node *other = named_parameter(weight->in[i]);
    bool of_layer = other && strstr(other->label, "layers.");
    if (other && (!found || of_layer)) found = other;
    if (of_layer) return found;
  }
  return found;
}

/* Returns true if a weight's products go to the residual stream. */
static bool writes_stream(const ch_params *params, const ch_node *weight) {
  if (weight->kind == CH_NODE_PARAM) {
    ch_param_role role = params->rows[weight->index].role;
    return role == CH_PARAM_RESIDUAL || role == CH_PARAM_RESIDUAL_COEFFICIENTS;
  }
  for (int i = 0; i < weight->inputs; i++)
    if (writes_stream(params, weight->in[i])) return true;
  return false;
}

/* Shortens a label: "model.layers.3.self_attn.q_proj.weight" becomes "q_proj", "....q_proj.a.weight" becomes
 * "q_proj.a", "model.dictionary.q_proj.atoms" becomes "q_proj". */
static void name_after(const char *label, char name[CH_ACTIVATION_NAME_SIZE]) {
  static const char *const prefixes[] = {".self_attn.", ".linear_attn.", ".mlp.", "model.dictionary."};
  static const char *const endings[] = {".weight", ".coefficients", ".atoms"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    const char *at = strstr(label, prefixes[i]);
    if (!at) continue;
    label = at + strlen(prefixes[i]);
    break;
  }
  size_t length = strlen(label);
  for (int i = 0; i < 3; i++) {
    size_t ending = strlen(endings[i]);
    if (length > ending && strcmp(label + length - ending, endings[i]) == 0) length -= ending;
  }
  snprintf(name, CH_ACTIVATION_NAME_SIZE, "%.*s", (int)length, label);
}

/* Returns true if the input of the norm with this label is the residual stream after a block. */
static bool follows_block(const char *label) {
  int layer, end = 0;
  if (strcmp(label, "model.norm.weight") == 0) return true;
  bool named = sscanf(label, "model.layers.%d.input_layernorm.weight%n", &layer, &end) == 1 && end;
  return named && !label[end] && layer > 0;
}

/* --- measured nodes --------------------------------------------------------------------------------------------- */

static int find_or_add_activation(ch_activations *a, const char *name, bool of_stream) {
  for (int i = 0; i < a->count; i++)
    if (strcmp(a->list[i].name, name) == 0) return i;
  if (a->count == CH_MOST_ACTIVATIONS) return -1;
  ch_activation *added = &a->list[a->count];
  snprintf(added->name, sizeof added->name, "%s", name);
  added->of_stream = of_stream;
  return a->count++;
}

static void watch(ch_activations *a, const ch_node *node, part measured, const char *name, bool of_stream) {
  for (int i = 0; i < MOST_OF_NODE; i++) {
    observed_node *slot = &a->nodes[node->id][i];
    if (slot->activation >= 0) continue;
    *slot = (observed_node){.activation = find_or_add_activation(a, name, of_stream), .part = measured};
    return;
  }
}

/* Observes a product of tokens by a matrix of the model. Products of a dictionary's parameters alone are skipped. */
static void watch_product(ch_activations *a, const ch_node *node, const ch_node *root) {
  char name[CH_ACTIVATION_NAME_SIZE];
  const ch_node *weight = named_parameter(node->in[1]);
  if (!weight || !strstr(weight->label, "model.")) return;
  if (node->in[1] == weight && strstr(weight->label, ".dictionary.")) return;
  name_after(weight->label, name);
  if (node == root) snprintf(name, sizeof name, "logits");
  watch(a, node, PART_VALUE, name, writes_stream(a->params, node->in[1]));
}

static void look_at(ch_activations *a, const ch_node *node, const ch_node *root) {
  const char *op = node->op->name, *label = node->inputs > 1 ? node->in[1]->label : NULL;
  if (strcmp(op, "linear") == 0 || strcmp(op, "head_product") == 0 || strcmp(op, "head_mix") == 0)
    watch_product(a, node, root);
  else if (strcmp(op, "embedding") == 0 && label && strcmp(label, "model.embed_tokens.weight") == 0)
    watch(a, node, PART_VALUE, "embedding", true);
  else if (strcmp(op, "embedding") == 0 && label)
    watch_product(a, node, root);
  else if (strcmp(op, "rmsnorm") == 0 && label && follows_block(label))
    watch(a, node, PART_INPUT, "stream", true);
  else if (ch_attend_spec_of(node)) {
    watch(a, node, PART_SCORES, "scores", false);
    watch(a, node, PART_VALUE, "attention", false);
  }
}

static ch_status allocate_sums(ch_activations *a, const ch_graph *graph) {
  a->nodes = malloc((size_t)graph->count * sizeof *a->nodes);
  if (!a->nodes) return ch_no_memory(a->error);
  a->graph = graph;
  for (int i = 0; i < graph->count; i++)
    for (int k = 0; k < MOST_OF_NODE; k++) a->nodes[i][k] = (observed_node){.activation = -1};
  return CH_OK;
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static int64_t head_start(const ch_head_columns *columns, int64_t head, int64_t dim) {
  return columns->offset + head * (columns->stride > 0 ? columns->stride : dim);
}

/* Computes scale q k^T of every head for all pairs in which the query sees the key. */
static ch_status make_scores(ch_activations *a, const ch_run *run, const ch_node *node, int64_t *count) {
  const ch_attend_spec *spec = ch_attend_spec_of(node);
  const float *q = ch_run_value(run, node->in[0]), *k = ch_run_value(run, node->in[1]);
  int64_t q_columns = ch_node_columns(node->in[0]), k_columns = ch_node_columns(node->in[1]);
  int64_t tokens = node->graph->length < MOST_SCORED ? node->graph->length : MOST_SCORED, at = 0,
          dim = spec->key_dim;
  if (a->score_count < spec->heads * tokens * tokens) {
    free(a->scores);
    a->score_count = spec->heads * tokens * tokens;
    a->scores = malloc((size_t)a->score_count * sizeof *a->scores);
    if (!a->scores) return ch_no_memory(a->error);
  }
  for (int64_t h = 0; h < spec->heads; h++) {
    int64_t group = h * spec->kv_heads / spec->heads;
    const float *of_q = q + head_start(&spec->q_columns, h, dim);
    const float *of_k = k + head_start(&spec->key_columns, group, dim);
    for (int64_t i = 0; i < tokens; i++)
      for (int64_t j = 0; j < (spec->causal ? i + 1 : tokens); j++) {
        double sum = 0;
        for (int64_t c = 0; c < dim; c++)
          sum += (double)of_q[i * q_columns + c] * (double)of_k[j * k_columns + c];
        a->scores[at++] = (float)(spec->scale * sum);
      }
  }
  *count = at;
  return CH_OK;
}

static double root_mean_square(const float *x, const float *minus, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    double value = (double)x[i] - (minus ? (double)minus[i] : 0);
    sum += value * value;
  }
  return sqrt(sum / (double)count);
}

static ch_status add_values(ch_activations *a, observed_node *w, const float *x, int64_t count) {
  ch_activation *activation = &a->list[w->activation];
  if (!w->first) {
    w->first = malloc((size_t)count * sizeof *w->first);
    if (!w->first) return ch_no_memory(a->error);
    memcpy(w->first, x, (size_t)count * sizeof *w->first);
  }
  activation->size += root_mean_square(x, NULL, count);
  activation->change += root_mean_square(x, w->first, count);
  a->layers[w->activation]++;
  return CH_OK;
}

static ch_status seen(void *context, const ch_run *run, const ch_node *node) {
  ch_activations *a = context;
  if (!a->graph) CH_TRY(allocate_sums(a, node->graph));
  if (!a->measured) look_at(a, node, ch_plan_root(run->plan));
  for (int i = 0; i < MOST_OF_NODE; i++) {
    observed_node *w = &a->nodes[node->id][i];
    if (w->activation < 0) continue;
    const ch_node *of = w->part == PART_INPUT ? node->in[0] : node;
    const float *x = ch_run_value(run, of);
    int64_t count = ch_node_count(of);
    if (w->part == PART_SCORES) {
      CH_TRY(make_scores(a, run, node, &count));
      x = a->scores;
    }
    CH_TRY(add_values(a, w, x, count));
  }
  return CH_OK;
}

/* --- public functions ------------------------------------------------------------------------------------------- */

static ch_status set_up(ch_activations *a, const ch_config *config, int64_t sequences, int64_t length,
                        ch_error *error) {
  const ch_model_graph shape = {
      .sequences = sequences, .length = length, .dtype = CH_F32, .head = CH_HEAD_LOGITS};
  CH_TRY(ch_engine_init_host(&a->engine, CH_F32, error));
  return ch_runner_create(&a->engine, config, a->params, &shape, false, &a->runner, error);
}

ch_status ch_activations_create(const ch_config *config, const ch_params *params, const int32_t *tokens,
                                int64_t sequences, int64_t length, ch_activations **result, ch_error *error) {
  *result = NULL;
  ch_activations *a = calloc(1, sizeof *a);
  if (!a) return ch_no_memory(error);
  a->params = params;
  a->tokens = tokens;
  ch_status status = set_up(a, config, sequences, length, error);
  if (status != CH_OK) {
    ch_activations_free(a);
    return status;
  }
  *result = a;
  return CH_OK;
}

void ch_activations_free(ch_activations *a) {
  if (!a) return;
  for (int i = 0; a->nodes && i < a->graph->count; i++)
    for (int k = 0; k < MOST_OF_NODE; k++) free(a->nodes[i][k].first);
  free(a->nodes);
  free(a->scores);
  ch_runner_free(a->runner);
  ch_engine_free(&a->engine);
  free(a);
}

ch_status ch_activations_measure(ch_activations *a, const ch_tensor *weights, ch_error *error) {
  const ch_observer observer = {.seen = seen, .context = a};
  const ch_runner_call call = {.weights = weights, .tokens = a->tokens, .observer = &observer};
  const void *logits;
  a->error = error;
  for (int i = 0; i < a->count; i++) {
    a->list[i].size = a->list[i].change = 0;
    a->layers[i] = 0;
  }
  CH_TRY(ch_runner_run(a->runner, &call, &logits, error));
  a->measured = true;
  for (int i = 0; i < a->count; i++) {
    a->list[i].size /= a->layers[i];
    a->list[i].change /= a->layers[i];
  }
  return CH_OK;
}

const ch_activation *ch_activations_list(const ch_activations *a, int *count) {
  *count = a->count;
  return a->list;
}
