/* Configuration keys with lists as values: layers, spans and groups of layers, numbers and types per layer, names of
   projections, and factors of pairs of dims. */
#include <stdio.h>
#include <string.h>

#include "config_file/keys.h"

static int64_t *span_of(const ch_config_key *key, ch_config *config) {
  return (int64_t *)(void *)((char *)config + key->offset);
}

static ch_head_mix *mix_of(const ch_config_key *key, ch_config *config) {
  return (ch_head_mix *)(void *)((char *)config + key->offset);
}

static bool read_number(const ch_config_key *key, const json_t *json, int64_t *number) {
  return ch_json_whole(json, number) && (double)*number >= key->min && (double)*number <= key->max;
}

static bool read_span(const ch_config_key *key, const json_t *json, int64_t *span) {
  return json_is_array(json) && json_array_size(json) == 2 &&
         read_number(key, json_array_get(json, 0), &span[0]) &&
         read_number(key, json_array_get(json, 1), &span[1]);
}

static bool read_components(const ch_config_key *key, const json_t *json, ch_head_mix *mix) {
  if (!json_is_array(json)) return read_number(key, json, &mix->component_heads);
  size_t size = json_array_size(json);
  if (size < 1 || size > CH_MAX_LISTED_LAYERS) return false;
  for (size_t i = 0; i < size; i++) {
    int64_t number;
    if (!read_number(key, json_array_get(json, i), &number)) return false;
    mix->listed[i] = (uint16_t)number;
  }
  mix->listed_layers = (int64_t)size;
  return true;
}

/* --- names of projections: "q" is "q_proj" -------------------------------------------------------------- */

static ch_sharing *sharing_of(const ch_config_key *key, ch_config *config) {
  return (ch_sharing *)(void *)((char *)config + key->offset);
}

static bool good_name(const char *name) {
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
  return length > 0 && !name[length] && length + sizeof "_proj" <= CH_PROJECTION_NAME_SIZE;
}

static bool read_projections(const json_t *json, ch_sharing *sharing) {
  size_t size = json_array_size(json);
  sharing->projection_count = 0;
  if (size < 1 || size > CH_MAX_SHARED_PROJECTIONS) return false;
  for (size_t i = 0; i < size; i++) {
    const char *given = json_string_value(json_array_get(json, i));
    if (!given || !good_name(given)) return false;
    snprintf(sharing->projections[sharing->projection_count++], CH_PROJECTION_NAME_SIZE, "%s%s", given,
             given[1] ? "" : "_proj");
  }
  return true;
}

static bool projections_in_range(const ch_sharing *sharing) {
  if (sharing->projection_count < 1 || sharing->projection_count > CH_MAX_SHARED_PROJECTIONS) return false;
  for (int i = 0; i < sharing->projection_count; i++)
    if (!memchr(sharing->projections[i], 0, CH_PROJECTION_NAME_SIZE) || !good_name(sharing->projections[i]))
      return false;
  return true;
}

static void put_projections(const ch_sharing *sharing, ch_text *json) {
  for (int i = 0; i < sharing->projection_count; i++) {
    const char *name = sharing->projections[i];
    bool letter = strcmp(name + 1, "_proj") == 0;
    ch_text_printf(json, letter ? "%s\"%.1s\"" : "%s\"%s\"", i ? ", " : "[", name);
  }
  ch_text_puts(json, "]");
}

/* --- groups of layers ----------------------------------------------------------------------------------- */

static bool read_groups(const ch_config_key *key, const json_t *json, ch_sharing *sharing) {
  size_t size = json_array_size(json);
  sharing->group_count = 0;
  if (size < 1 || size > CH_MAX_GROUPS) return false;
  for (size_t i = 0; i < size; i++) {
    int64_t span[2];
    if (!read_span(key, json_array_get(json, i), span)) return false;
    for (int end = 0; end < 2; end++) sharing->groups[i][end] = (uint16_t)span[end];
  }
  sharing->group_count = (int)size;
  return true;
}

static void put_groups(const ch_sharing *sharing, ch_text *json) {
  for (int i = 0; i < sharing->group_count; i++)
    ch_text_printf(json, "%s[%u, %u]", i ? ", " : "[", (unsigned)sharing->groups[i][0],
                   (unsigned)sharing->groups[i][1]);
  ch_text_puts(json, "]");
}

/* --- layers --------------------------------------------------------------------------------------------- */

static bool *layers_of(const ch_config_key *key, ch_config *config) {
  return (bool *)(void *)((char *)config + key->offset);
}

static bool read_layers(const json_t *json, bool *layers) {
  memset(layers, 0, CH_MAX_LISTED_LAYERS * sizeof *layers);
  if (!json_is_array(json)) return false;
  for (size_t i = 0; i < json_array_size(json); i++) {
    int64_t layer;
    if (!ch_json_whole(json_array_get(json, i), &layer)) return false;
    if (layer < 0 || layer >= CH_MAX_LISTED_LAYERS || layers[layer]) return false;
    layers[layer] = true;
  }
  return true;
}

static void put_layers(const bool *layers, ch_text *json) {
  const char *before = "[";
  for (int i = 0; i < CH_MAX_LISTED_LAYERS; i++)
    if (layers[i]) {
      ch_text_printf(json, "%s%d", before, i);
      before = ", ";
    }
  ch_text_puts(json, *before == '[' ? "[]" : "]");
}

/* --- types of layers ------------------------------------------------------------------------------------ */

static ch_layer_list *types_of(const ch_config_key *key, ch_config *config) {
  return (ch_layer_list *)(void *)((char *)config + key->offset);
}

static bool read_types(const ch_config_key *key, const json_t *json, ch_layer_list *types) {
  size_t size = json_array_size(json);
  if (size < 1 || size > CH_MAX_LISTED_LAYERS) return false;
  for (size_t i = 0; i < size; i++) {
    const char *name = json_string_value(json_array_get(json, i));
    uint8_t type = 0;
    while (name && key->choices[type] && strcmp(name, key->choices[type]) != 0) type++;
    if (!name || !key->choices[type]) return false;
    types->type[i] = type;
  }
  types->count = (int64_t)size;
  return true;
}

static bool types_in_range(const ch_layer_list *types) {
  if (types->count < 0 || types->count > CH_MAX_LISTED_LAYERS) return false;
  for (int64_t i = 0; i < types->count; i++)
    if (types->type[i] >= CH_LAYER_TYPES) return false;
  return true;
}

static void put_types(const ch_config_key *key, const ch_layer_list *types, ch_text *json) {
  for (int64_t i = 0; i < types->count; i++)
    ch_text_printf(json, "%s\"%s\"", i ? ", " : "[", key->choices[types->type[i]]);
  ch_text_puts(json, "]");
}

/* --- factors of pairs ----------------------------------------------------------------------------------- */

static ch_pair_factors *factors_of(const ch_config_key *key, ch_config *config) {
  return (ch_pair_factors *)(void *)((char *)config + key->offset);
}

static bool is_factor(const ch_config_key *key, double number) {
  return number > key->min && number <= key->max;
}

static bool read_factors(const ch_config_key *key, const json_t *json, ch_pair_factors *list) {
  size_t size = json_array_size(json);
  if (size < 1 || size > CH_MAX_PAIR_FACTORS) return false;
  for (size_t i = 0; i < size; i++) {
    const json_t *number = json_array_get(json, i);
    list->factor[i] = json_number_value(number);
    if (!json_is_number(number) || !is_factor(key, list->factor[i])) return false;
  }
  list->count = (int64_t)size;
  return true;
}

static bool factors_in_range(const ch_config_key *key, const ch_pair_factors *list) {
  if (list->count < 0 || list->count > CH_MAX_PAIR_FACTORS) return false;
  for (int64_t i = 0; i < list->count; i++)
    if (!is_factor(key, list->factor[i])) return false;
  return true;
}

static void put_factors(const ch_pair_factors *list, ch_text *json) {
  for (int64_t i = 0; i < list->count; i++) {
    ch_text_puts(json, i ? ", " : "[");
    ch_json_put_number(json, list->factor[i]);
  }
  ch_text_puts(json, "]");
}

/* --- lists of any type ---------------------------------------------------------------------------------- */

bool ch_config_read_list(const ch_config_key *key, const json_t *json, ch_config *config) {
  if (key->type == CH_KEY_PROJECTIONS) return read_projections(json, sharing_of(key, config));
  if (key->type == CH_KEY_GROUPS) return read_groups(key, json, sharing_of(key, config));
  if (key->type == CH_KEY_LAYERS) return read_layers(json, layers_of(key, config));
  if (key->type == CH_KEY_LAYER_TYPES) return read_types(key, json, types_of(key, config));
  if (key->type == CH_KEY_FACTORS) return read_factors(key, json, factors_of(key, config));
  return key->type == CH_KEY_SPAN ? read_span(key, json, span_of(key, config))
                                  : read_components(key, json, mix_of(key, config));
}

void ch_config_default_list(const ch_config_key *key, ch_config *config) {
  if (key->type == CH_KEY_PROJECTIONS) {
    memset(sharing_of(key, config)->projections, 0, sizeof sharing_of(key, config)->projections);
    sharing_of(key, config)->projection_count = 0;
    return;
  }
  if (key->type == CH_KEY_GROUPS) {
    memset(sharing_of(key, config)->groups, 0, sizeof sharing_of(key, config)->groups);
    sharing_of(key, config)->group_count = 0;
    return;
  }
  if (key->type == CH_KEY_LAYERS) {
    memset(layers_of(key, config), 0, CH_MAX_LISTED_LAYERS * sizeof(bool));
    return;
  }
  if (key->type == CH_KEY_LAYER_TYPES) {
    memset(types_of(key, config), 0, sizeof(ch_layer_list));
    return;
  }
  if (key->type == CH_KEY_FACTORS) {
    memset(factors_of(key, config), 0, sizeof(ch_pair_factors));
    return;
  }
  if (key->type == CH_KEY_SPAN) {
    span_of(key, config)[0] = 0;
    span_of(key, config)[1] = -1;
    return;
  }
  ch_head_mix *mix = mix_of(key, config);
  memset(mix->listed, 0, sizeof mix->listed);
  mix->component_heads = mix->listed_layers = 0;
}

bool ch_config_list_is_default(const ch_config_key *key, const ch_config *config) {
  ch_config *c = (ch_config *)config;
  if (key->type == CH_KEY_PROJECTIONS) return sharing_of(key, c)->projection_count == 0;
  if (key->type == CH_KEY_GROUPS) return sharing_of(key, c)->group_count == 0;
  if (key->type == CH_KEY_LAYERS) return !memchr(layers_of(key, c), true, CH_MAX_LISTED_LAYERS);
  if (key->type == CH_KEY_LAYER_TYPES) return types_of(key, c)->count == 0;
  if (key->type == CH_KEY_FACTORS) return factors_of(key, c)->count == 0;
  if (key->type == CH_KEY_SPAN) return span_of(key, c)[0] == 0 && span_of(key, c)[1] == -1;
  return mix_of(key, c)->component_heads == 0 && mix_of(key, c)->listed_layers == 0;
}

static bool in_range(const ch_config_key *key, int64_t number) {
  return (double)number >= key->min && (double)number <= key->max;
}

bool ch_config_list_in_range(const ch_config_key *key, const ch_config *config) {
  ch_config *c = (ch_config *)config;
  if (key->type == CH_KEY_LAYERS) return true; /* any set of layers is valid */
  if (key->type == CH_KEY_PROJECTIONS) return projections_in_range(sharing_of(key, c));
  if (key->type == CH_KEY_GROUPS)
    return sharing_of(key, c)->group_count > 0 && sharing_of(key, c)->group_count <= CH_MAX_GROUPS;
  if (key->type == CH_KEY_LAYER_TYPES) return types_in_range(types_of(key, c));
  if (key->type == CH_KEY_FACTORS) return factors_in_range(key, factors_of(key, c));
  if (key->type == CH_KEY_SPAN) return in_range(key, span_of(key, c)[0]) && in_range(key, span_of(key, c)[1]);
  const ch_head_mix *mix = mix_of(key, c);
  if (mix->listed_layers < 0 || mix->listed_layers > CH_MAX_LISTED_LAYERS) return false;
  for (int64_t i = 0; i < mix->listed_layers; i++)
    if (!in_range(key, mix->listed[i])) return false;
  return mix->listed_layers ? mix->component_heads == 0 : in_range(key, mix->component_heads);
}

void ch_config_put_list(const ch_config_key *key, const ch_config *config, ch_text *json) {
  ch_config *c = (ch_config *)config;
  if (key->type == CH_KEY_PROJECTIONS) {
    put_projections(sharing_of(key, c), json);
    return;
  }
  if (key->type == CH_KEY_GROUPS) {
    put_groups(sharing_of(key, c), json);
    return;
  }
  if (key->type == CH_KEY_LAYERS) {
    put_layers(layers_of(key, c), json);
    return;
  }
  if (key->type == CH_KEY_LAYER_TYPES) {
    put_types(key, types_of(key, c), json);
    return;
  }
  if (key->type == CH_KEY_FACTORS) {
    put_factors(factors_of(key, c), json);
    return;
  }
  if (key->type == CH_KEY_SPAN) {
    ch_text_printf(json, "[%lld, %lld]", (long long)span_of(key, c)[0], (long long)span_of(key, c)[1]);
    return;
  }
  const ch_head_mix *mix = mix_of(key, c);
  if (!mix->listed_layers) {
    ch_text_printf(json, "%lld", (long long)mix->component_heads);
    return;
  }
  for (int64_t i = 0; i < mix->listed_layers; i++)
    ch_text_printf(json, "%s%u", i ? ", " : "[", (unsigned)mix->listed[i]);
  ch_text_puts(json, "]");
}
