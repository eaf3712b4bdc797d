/* Replaces one layer's keys and values by their approximation with fewer components, and runs the text again. Chooses
   layers and numbers of heads by the changes of the loss. */
#include "compress/sensitivity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/virtual_heads.h"

typedef struct probe {
  const ch_model *model;
  const ch_calibration *calibration;
  const ch_sensitivity_options *options;
  ch_sensitivity *found;
  ch_text_pass *pass;
  ch_tensor *tensors; /* the model's tensors, with replacements in the current layer */
  unsigned states;
  int done;
  ch_error *error;
} probe;

/* The replacement of one state of a layer. */
typedef struct stand_in {
  ch_head_factors factors;
  int weight_row, bias_row; /* bias_row -1: none */
  float *weight, *bias;
} stand_in;

static int row_of(const ch_model *model, int layer, unsigned state, const char *suffix) {
  char name[96];
  snprintf(name, sizeof name, "model.layers.%d.self_attn.%s_proj.%s", layer, state == CH_ON_K ? "k" : "v",
           suffix);
  return ch_params_find(&model->params, name);
}

static ch_status open_stand_in(probe *p, int layer, unsigned state, stand_in *s) {
  *s = (stand_in){.weight_row = row_of(p->model, layer, state, "weight"),
                  .bias_row = row_of(p->model, layer, state, "bias")};
  CH_TRY(ch_head_factors_find(p->model, layer, state, p->calibration, &s->factors, p->error));
  int64_t rows = s->factors.heads * s->factors.dim;
  s->weight = malloc((size_t)(rows * s->factors.inputs) * sizeof *s->weight);
  s->bias = malloc((size_t)rows * sizeof *s->bias);
  return s->weight && s->bias ? CH_OK : ch_no_memory(p->error);
}

static void close_stand_in(probe *p, stand_in *s) {
  const ch_tensor *own = p->model->weights.tensors;
  if (s->weight) p->tensors[s->weight_row] = own[s->weight_row];
  if (s->weight && s->bias_row >= 0) p->tensors[s->bias_row] = own[s->bias_row];
  ch_head_factors_free(&s->factors);
  free(s->weight);
  free(s->bias);
}

static ch_status stand(probe *p, stand_in *s, int64_t heads) {
  CH_TRY(ch_head_factors_rebuild(&s->factors, heads, s->weight, s->bias, p->error));
  p->tensors[s->weight_row].data = s->weight;
  p->tensors[s->weight_row].dtype = CH_F32;
  if (s->bias_row >= 0) {
    p->tensors[s->bias_row].data = s->bias;
    p->tensors[s->bias_row].dtype = CH_F32;
  }
  return CH_OK;
}

static ch_status told(probe *p) {
  const ch_sensitivity_options *o = p->options;
  if (!o->step) return CH_OK;
  double total = (double)((o->last - o->first + 1) * o->choices + 1);
  return o->step(o->context, "profile", p->done, total, p->error);
}

/* Substitutes the tensors of choice c, runs the text, and records how the loss changes. */
static ch_status probe_choice(probe *p, int layer, int c, stand_in *s, int count) {
  double loss = 0;
  ch_status status = CH_OK;
  for (int i = 0; status == CH_OK && i < count; i++) status = stand(p, &s[i], p->options->heads[c]);
  CH_TRY(ch_text_pass_agree(p->pass, status, p->error));
  CH_TRY(ch_text_pass_run(p->pass, p->tensors, NULL, &loss, p->error));
  p->found->change[layer * p->options->choices + c] = loss - p->found->loss;
  p->done++;
  return ch_text_pass_agree(p->pass, told(p), p->error);
}

static ch_status probe_layer(probe *p, int layer) {
  stand_in s[2] = {0};
  int count = 0;
  ch_status status = CH_OK;
  for (unsigned state = CH_ON_K; status == CH_OK && state <= CH_ON_V; state <<= 1)
    if (p->states & state) status = open_stand_in(p, layer, state, &s[count++]);
  status = ch_text_pass_agree(p->pass, status, p->error);
  for (int c = 0; status == CH_OK && c < p->options->choices; c++)
    status = probe_choice(p, layer, c, s, count);
  for (int i = 0; i < count; i++) close_stand_in(p, &s[i]);
  return status;
}

static ch_status prepare_probe(probe *p) {
  const ch_sensitivity_options *o = p->options;
  ch_sensitivity *found = p->found;
  CH_TRY(ch_virtual_heads_check(p->model, &p->states, p->error));
  size_t tensors = (size_t)p->model->params.count;
  p->tensors = malloc((tensors + 1) * sizeof *p->tensors);
  found->change = calloc((size_t)(found->layers * o->choices) + 1, sizeof *found->change);
  if (!p->tensors || !found->change) return ch_no_memory(p->error);
  memcpy(p->tensors, p->model->weights.tensors, tensors * sizeof *p->tensors);
  return told(p);
}

static ch_status probe_all(probe *p, const int32_t *tokens, int64_t count) {
  const ch_sensitivity_options *o = p->options;
  ch_text_pass_options of_pass = {.window = o->window, .ranks = o->ranks};
  CH_TRY(ch_agree(o->ranks, prepare_probe(p), p->error));
  CH_TRY(ch_text_pass_create(p->model, tokens, count, &of_pass, &p->pass, p->error));
  p->found->tokens = ch_text_pass_tokens(p->pass);
  CH_TRY(ch_text_pass_run(p->pass, p->tensors, NULL, &p->found->loss, p->error));
  p->done++;
  for (int64_t l = o->first; l <= o->last; l++) CH_TRY(probe_layer(p, (int)l));
  return CH_OK;
}

ch_status ch_sensitivity_measure(const ch_model *model, const ch_calibration *calibration,
                                 const int32_t *tokens, int64_t count, const ch_sensitivity_options *options,
                                 ch_sensitivity *sensitivity, ch_error *error) {
  *sensitivity = (ch_sensitivity){.layers = model->config.num_hidden_layers,
                                  .groups = model->config.num_key_value_heads,
                                  .first = options->first,
                                  .last = options->last,
                                  .choices = options->choices};
  for (int c = 0; c < options->choices; c++) sensitivity->heads[c] = options->heads[c];
  probe p = {
      .model = model, .calibration = calibration, .options = options, .found = sensitivity, .error = error};
  ch_status status = probe_all(&p, tokens, count);
  ch_text_pass_free(p.pass);
  free(p.tensors);
  if (status != CH_OK) ch_sensitivity_free(sensitivity);
  return status;
}

void ch_sensitivity_free(ch_sensitivity *sensitivity) {
  free(sensitivity->change);
  *sensitivity = (ch_sensitivity){0};
}

/* --- choosing ---------------------------------------------------------------------------------------------------- */

ch_status ch_choose_layers(const ch_sensitivity *s, int choice, int64_t count, int64_t *heads,
                           ch_error *error) {
  int64_t there = s->last - s->first + 1;
  if (count > there)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%lld layers cannot be chosen from %lld to %lld; at most %lld can", (long long)count,
                   (long long)s->first, (long long)s->last, (long long)there);
  for (int64_t l = 0; l < s->layers; l++) heads[l] = s->groups;
  for (int64_t n = 0; n < count; n++) {
    int64_t best = -1;
    for (int64_t l = s->first; l <= s->last; l++)
      if (heads[l] == s->groups &&
          (best < 0 || s->change[l * s->choices + choice] < s->change[best * s->choices + choice]))
        best = l;
    heads[best] = s->heads[choice];
  }
  return CH_OK;
}

/* The least sum of changes after each layer, for every number of heads saved so far. Place p of a row is for p heads
 * saved; the last place is also for more. */
typedef struct table {
  int64_t places;  /* saved + 1 */
  double *sum;     /* [layers + 1, places] */
  int16_t *choice; /* [layers, places]: choice that leads to the place; -1: the layer is unchanged */
} table;

static void fill_row(const ch_sensitivity *s, table *t, int64_t layer) {
  const double *from = t->sum + layer * t->places;
  double *to = t->sum + (layer + 1) * t->places;
  int16_t *choice = t->choice + layer * t->places;
  bool tried = layer >= s->first && layer <= s->last;
  for (int64_t at = 0; at < t->places; at++) to[at] = INFINITY;
  for (int c = -1; c < (tried ? s->choices : 0); c++) {
    int64_t gain = c < 0 ? 0 : s->groups - s->heads[c];
    double cost = c < 0 ? 0 : s->change[layer * s->choices + c];
    for (int64_t at = 0; at < t->places; at++) {
      int64_t next = at + gain < t->places ? at + gain : t->places - 1;
      if (!(from[at] + cost < to[next])) continue;
      to[next] = from[at] + cost;
      choice[next] = (int16_t)c;
    }
  }
}

/* Reads the best path back from the last layer. Each step goes to the best of the places from which the choice leads
 * to the current one. */
static void read_back(const ch_sensitivity *s, const table *t, int64_t *heads) {
  int64_t at = t->places - 1;
  for (int64_t l = s->layers - 1; l >= 0; l--) {
    int c = t->choice[l * t->places + at];
    int64_t gain = c < 0 ? 0 : s->groups - s->heads[c], before = at - gain;
    heads[l] = c < 0 ? s->groups : s->heads[c];
    if (at == t->places - 1) { /* several places lead to the last one */
      int64_t least = before > 0 ? before : 0;
      before = least;
      for (int64_t k = least; k < t->places; k++)
        if (t->sum[l * t->places + k] < t->sum[l * t->places + before]) before = k;
    }
    at = before;
  }
}

ch_status ch_choose_heads(const ch_sensitivity *s, int64_t saved, int64_t *heads, ch_error *error) {
  int64_t most = (s->last - s->first + 1) * (s->groups - s->heads[0]);
  if (saved > most)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%lld of %lld cached heads cannot be saved: keeping %lld in each of the layers %lld to "
                   "%lld saves only %lld, %.3g %% of the cache",
                   (long long)saved, (long long)(s->layers * s->groups), (long long)s->heads[0],
                   (long long)s->first, (long long)s->last, (long long)most,
                   100.0 * (double)most / (double)(s->layers * s->groups));
  table t = {.places = saved + 1};
  t.sum = malloc((size_t)((s->layers + 1) * t.places) * sizeof *t.sum);
  t.choice = malloc((size_t)(s->layers * t.places) * sizeof *t.choice);
  ch_status status = t.sum && t.choice ? CH_OK : ch_no_memory(error);
  if (status == CH_OK) {
    for (int64_t at = 0; at < t.places; at++) t.sum[at] = at ? INFINITY : 0;
    for (int64_t l = 0; l < s->layers; l++) fill_row(s, &t, l);
    read_back(s, &t, heads);
  }
  free(t.sum);
  free(t.choice);
  return status;
}
