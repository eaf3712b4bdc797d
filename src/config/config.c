/* Functions of a configuration's members alone: they read no files and know no mechanisms. */
#include "config/config.h"

#include <math.h>
#include <string.h>

static const char vision_type[] = "crosshead_vit";

/* Hugging Face's "vit" becomes Crosshead's own type only after reading. */
bool ch_config_is_vision(const ch_config *config) {
  return strcmp(config->model_type, vision_type) == 0 || strcmp(config->model_type, "vit") == 0;
}

ch_status ch_config_needs_text(const ch_config *config, const char *name, ch_error *error) {
  if (!ch_config_is_vision(config)) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s is for models of text; this one, a \"%s\", is for images",
                 name, config->model_type);
}

bool ch_layer_is_linear(const ch_config *config, int layer) {
  return config->layer_types.count > layer && config->layer_types.type[layer] == CH_LAYER_LINEAR;
}

bool ch_layer_is_listed(const bool layers[CH_MAX_LISTED_LAYERS], int64_t layer) {
  return layer < CH_MAX_LISTED_LAYERS && layers[layer];
}

int64_t ch_linear_layers(const ch_config *config) {
  int64_t layers = 0;
  for (int layer = 0; layer < config->num_hidden_layers; layer++) layers += ch_layer_is_linear(config, layer);
  return layers;
}

bool ch_layer_slides(const ch_config *config, int layer) {
  if (config->sliding_window == 0) return false;
  return config->layer_types.count == 0 || config->layer_types.type[layer] == CH_LAYER_SLIDING;
}

bool ch_any_layer_slides(const ch_config *config) {
  for (int layer = 0; layer < config->num_hidden_layers; layer++)
    if (ch_layer_slides(config, layer)) return true;
  return false;
}

int64_t ch_window_and_sinks(const ch_config *config) {
  return config->sliding_window + config->attention_sinks;
}

int ch_writing_layer(const ch_config *config, int layer) {
  const int64_t group = config->attention.kv_layer_group;
  if (ch_layer_is_linear(config, layer)) return layer;
  return group > 1 ? (int)(layer - layer % group) : layer;
}

int64_t ch_config_patches(const ch_config *config) {
  int64_t side = config->image_size / config->patch_size;
  return side * side;
}

int64_t ch_config_image_tokens(const ch_config *config) {
  return 1 + ch_config_patches(config);
}

bool ch_is_shared(const ch_config *config, const char *name) {
  for (int i = 0; i < config->sharing.projection_count; i++)
    if (strcmp(config->sharing.projections[i], name) == 0) return true;
  return false;
}

int ch_group_of_layer(const ch_config *config, int layer, int64_t *layers) {
  const ch_sharing *sharing = &config->sharing;
  for (int i = 0; i < sharing->group_count; i++) {
    int first = sharing->groups[i][0], last = sharing->groups[i][1];
    if (layer < first || layer > last) continue;
    *layers = last - first + 1;
    return i;
  }
  *layers = config->num_hidden_layers;
  return -1;
}

int64_t ch_heads_of(const ch_config *config, unsigned state) {
  const ch_attention_config *a = &config->attention;
  int64_t own = state == CH_ON_K ? a->num_key_heads : a->num_value_heads;
  return own ? own : config->num_key_value_heads;
}

bool ch_heads_differ(const ch_config *config) {
  return ch_heads_of(config, CH_ON_K) != ch_heads_of(config, CH_ON_V);
}

int64_t ch_unmixed_entry(const ch_config *config) {
  int64_t keys = ch_heads_of(config, CH_ON_K), values = ch_heads_of(config, CH_ON_V);
  return keys > values ? keys : values;
}

int64_t ch_mixed_components(const ch_config *config, int layer, unsigned state) {
  const ch_head_mix *mix = &config->attention.head_mix;
  if (ch_layer_is_linear(config, layer)) return 0;
  layer = ch_writing_layer(config, layer);
  int64_t last = mix->last_layer < 0 ? config->num_hidden_layers - 1 : mix->last_layer;
  if (!(mix->on & state) || layer < mix->first_layer || layer > last) return 0;
  if (!mix->listed_layers) return mix->component_heads;
  return mix->listed[layer] == ch_unmixed_entry(config) ? 0 : mix->listed[layer];
}

int64_t ch_rotary_dims(const ch_config *config) {
  if (config->partial_rotary_factor == 1) return config->head_dim;
  return (int64_t)((double)config->head_dim * config->partial_rotary_factor);
}

double ch_score_scale(const ch_config *config) {
  return config->attention_multiplier ? config->attention_multiplier : 1 / sqrt((double)config->head_dim);
}
