/* The method mea: layers' keys and values become virtual heads (virtual_heads.c), which the model mixes back when it
 * reads them. All other tensors are unchanged. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compress/virtual_heads.h"
#include "model/accounting.h"
#include "model/transformer.h"
#include "config_file/config_json.h"
#include "tensor/kernels.h"

typedef struct work {
  const ch_model *model;
  const ch_calibration *calibration;
  const ch_compress_options *options;
  ch_compressed_model *compressed;
  unsigned states; /* CH_ON_ bits of the states that have virtual heads */
  char *place;     /* free memory in compressed->model.data */
  ch_error *error;
} work;

/* --- the configuration ------------------------------------------------------------------------------------------- */

/* Returns h' of a layer; G if the layer is unchanged. */
static int64_t kept(const work *w, int64_t layer) {
  int64_t heads = w->options->component_heads[layer];
  return heads ? heads : w->model->config.num_key_value_heads;
}

static ch_status check_heads(const work *w) {
  int64_t groups = w->model->config.num_key_value_heads;
  for (int64_t l = 0; l < w->model->config.num_hidden_layers; l++)
    if (kept(w, l) < 1 || kept(w, l) > groups)
      return ch_fail(
          w->error, CH_ERROR_ARGUMENT,
          "layer %lld cannot have %lld component heads: %s has %lld key-value heads, so give 1 to %lld",
          (long long)l, (long long)kept(w, l), w->model->directory, (long long)groups, (long long)groups);
  return CH_OK;
}

/* Describes the mix by one number for a span of layers if possible, else by a list. */
static ch_status set_mix(const work *w, ch_head_mix *mix) {
  int64_t layers = w->model->config.num_hidden_layers, groups = w->model->config.num_key_value_heads;
  int64_t first = 0, last = layers - 1;
  *mix = (ch_head_mix){.last_layer = -1};
  while (first < layers && kept(w, first) == groups) first++;
  if (first == layers) return CH_OK; /* nothing is mixed */
  while (kept(w, last) == groups) last--;
  bool alike = true;
  for (int64_t l = first; l <= last; l++) alike &= kept(w, l) == kept(w, first);
  mix->on = w->states;
  if (alike) {
    mix->component_heads = kept(w, first);
    mix->first_layer = first;
    if (last < layers - 1 || first > 0) mix->last_layer = last;
    return CH_OK;
  }
  if (layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(w->error, CH_ERROR_CONFIG,
                   "%s has %lld layers, too many for a list of component heads; compress one range of layers",
                   w->model->directory, (long long)layers);
  mix->listed_layers = layers;
  for (int64_t l = 0; l < layers; l++) mix->listed[l] = (uint16_t)kept(w, l);
  return CH_OK;
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

static int find_projection(const ch_params *params, int layer, const char *letter, const char *suffix) {
  char name[96];
  snprintf(name, sizeof name, "model.layers.%d.self_attn.%s%s", layer, letter, suffix);
  return ch_params_find(params, name);
}

static ch_dtype factor_type(const work *w, const ch_param *row) {
  return row->rank == 2 && !row->always_real ? w->options->dtype : CH_F32;
}

static size_t room_of(const work *w, const ch_param *row) {
  return ((size_t)ch_param_count(row) * ch_dtype_size(factor_type(w, row)) + 63) & ~(size_t)63;
}

static const char *letter_of(unsigned state) {
  return state == CH_ON_K ? "k" : "v";
}

enum { WEIGHT, BIAS, MIX, PARTS };

/* Finds the parameter rows of the factors of a layer's mixed heads; bias is -1 if there is none. */
static void factor_rows(const work *w, int layer, unsigned state, int rows[PARTS]) {
  const ch_params *params = &w->compressed->model.params;
  rows[WEIGHT] = find_projection(params, layer, letter_of(state), "_proj.weight");
  rows[BIAS] = find_projection(params, layer, letter_of(state), "_proj.bias");
  rows[MIX] = find_projection(params, layer, letter_of(state), "_mix.weight");
}

/* Reuses unchanged tensors and allocates memory for the new ones. */
static ch_status lay_out_factors(work *w) {
  ch_materialised_model *to = &w->compressed->model;
  to->tensors = calloc((size_t)to->params.count + 1, sizeof *to->tensors);
  if (!to->tensors) return ch_no_memory(w->error);
  for (int i = 0; i < to->params.count; i++) {
    int from = ch_params_find(&w->model->params, to->params.rows[i].name);
    if (from >= 0) to->tensors[i] = w->model->weights.tensors[from];
  }
  int rows[PARTS];
  for (int l = 0; l < to->config.num_hidden_layers; l++)
    for (unsigned state = CH_ON_K; state <= CH_ON_V; state <<= 1) {
      if (!ch_mixed_components(&to->config, l, state)) continue;
      factor_rows(w, l, state, rows);
      for (int p = 0; p < PARTS; p++)
        if (rows[p] >= 0) to->data_bytes += room_of(w, &to->params.rows[rows[p]]);
    }
  to->data = ch_pages_alloc(to->data_bytes + 1);
  w->place = to->data;
  return to->data ? CH_OK : ch_no_memory(w->error);
}

static void put_factor(work *w, int index, const float *values) {
  const ch_param *row = &w->compressed->model.params.rows[index];
  ch_tensor *tensor = &w->compressed->model.tensors[index];
  *tensor = (ch_tensor){.dtype = factor_type(w, row), .rank = row->rank, .data = w->place};
  memcpy(tensor->shape, row->shape, sizeof tensor->shape);
  ch_kernels_best(CH_F32)->convert_to(ch_team_here(), ch_param_count(row), values, tensor->dtype, w->place);
  w->place += room_of(w, row);
}

static void note(work *w, int layer, unsigned state, const ch_head_factors *f) {
  ch_compressed_matrix *m = &w->compressed->matrices[w->compressed->matrix_count++];
  int64_t components = kept(w, layer);
  bool mixed = components < f->heads;
  int64_t row = f->dim * (f->inputs + (f->bias ? 1 : 0));
  *m = (ch_compressed_matrix){.layer = layer,
                              .before = f->heads * row,
                              .after = mixed ? components * (row + f->heads) : f->heads * row,
                              .rank = components};
  snprintf(m->projection, sizeof m->projection, "%s_proj", letter_of(state));
  m->error = sqrt(f->plain[components - 1]);
  double weighted = f->weighted[components - 1];
  m->whitened_error = weighted < 0 ? -1 : sqrt(weighted);
}

static ch_status factor_layer(work *w, int layer, unsigned state, const ch_head_factors *f) {
  int rows[PARTS];
  int64_t components = kept(w, layer);
  factor_rows(w, layer, state, rows);
  float *weight = malloc((size_t)(components * f->dim * f->inputs) * sizeof *weight);
  float *bias = malloc((size_t)(components * f->dim) * sizeof *bias);
  float *mix = malloc((size_t)(components * f->heads) * sizeof *mix);
  ch_status status = weight && bias && mix ? CH_OK : ch_no_memory(w->error);
  if (status == CH_OK) status = ch_head_factors_keep(f, components, weight, bias, mix, w->error);
  if (status == CH_OK) {
    put_factor(w, rows[WEIGHT], weight);
    if (rows[BIAS] >= 0) put_factor(w, rows[BIAS], bias);
    put_factor(w, rows[MIX], mix);
  }
  free(weight);
  free(bias);
  free(mix);
  return status;
}

static ch_status compress_layer(work *w, int layer) {
  for (unsigned state = CH_ON_K; state <= CH_ON_V; state <<= 1) {
    if (!ch_mixed_components(&w->compressed->model.config, layer, state)) continue;
    ch_head_factors f;
    CH_TRY(ch_head_factors_find(w->model, layer, state, w->calibration, &f, w->error));
    note(w, layer, state, &f);
    ch_status status = factor_layer(w, layer, state, &f);
    ch_head_factors_free(&f);
    CH_TRY(status);
  }
  return CH_OK;
}

static ch_status count_attention(const ch_config *config, const ch_params *params, int64_t *count,
                                 ch_error *error) {
  ch_account account;
  CH_TRY(ch_account_model(config, params, 0, ch_cache_of(CH_F16), &account, error));
  *count = account.parameters_attention;
  return CH_OK;
}

static ch_status compress_all(work *w) {
  const ch_compress_options *o = w->options;
  ch_compressed_model *to = w->compressed;
  int layers = (int)w->model->config.num_hidden_layers;
  CH_TRY(ch_virtual_heads_check(w->model, &w->states, w->error));
  CH_TRY(check_heads(w));
  to->model.config = w->model->config;
  ch_compressed_config(&to->model.config);
  CH_TRY(set_mix(w, &to->model.config.attention.head_mix));
  CH_TRY(ch_config_validate(&to->model.config, w->model->directory, w->error));
  CH_TRY(ch_model_declare(&to->model.config, &to->model.params, w->error));
  CH_TRY(lay_out_factors(w));
  to->matrices = calloc((size_t)layers * 2, sizeof *to->matrices);
  if (!to->matrices) return ch_no_memory(w->error);
  for (int l = 0; l < layers; l++) {
    if (o->step) CH_TRY(o->step(o->context, "virtual heads", l, layers, w->error));
    CH_TRY(compress_layer(w, l));
  }
  CH_TRY(count_attention(&w->model->config, &w->model->params, &to->before, w->error));
  if (o->before) to->before = o->before;
  CH_TRY(count_attention(&to->model.config, &to->model.params, &to->after, w->error));
  return o->step ? o->step(o->context, "virtual heads", layers, layers, w->error) : CH_OK;
}

ch_status ch_compress_mea(const ch_model *model, const ch_calibration *calibration,
                          const ch_compress_options *options, ch_compressed_model *compressed,
                          ch_error *error) {
  *compressed = (ch_compressed_model){0};
  work w = {.model = model,
            .calibration = calibration,
            .options = options,
            .compressed = compressed,
            .error = error};
  ch_status status = compress_all(&w);
  if (status != CH_OK) ch_compressed_free(compressed);
  return status;
}
