/* Lists the mechanisms that "attention.type" can name, one line each, and computes the properties of a configuration
 * that its mechanism determines. */
#include "attention/registry.h"

#include <stdio.h>
#include <string.h>

#define MECHANISMS(X)                                                                                        \
  X(gqa)                                                                                                     \
  X(gated)                                                                                                   \
  X(gta)                                                                                                     \
  X(mla)                                                                                                     \
  X(mfa)                                                                                                     \
  X(mfa_kr)                                                                                                  \
  X(diff)                                                                                                    \
  X(talking)                                                                                                 \
  X(gla)                                                                                                     \
  X(tpa)                                                                                                     \
  X(mlra)                                                                                                    \
  X(collaborative)                                                                                           \
  X(moh)

#define DECLARE(name) extern const ch_mechanism ch_mechanism_##name;
#define ADDRESS(name) &ch_mechanism_##name,
#define NAME(name) #name,

MECHANISMS(DECLARE)
static const ch_mechanism *const mechanisms[] = {MECHANISMS(ADDRESS) NULL};
static const char *const names[] = {MECHANISMS(NAME) NULL};

const ch_mechanism *ch_mechanism_find(const char *name) {
  for (const ch_mechanism *const *m = mechanisms; *m; m++)
    if (strcmp((*m)->name, name) == 0) return *m;
  return NULL;
}

const ch_mechanism *const *ch_mechanisms(void) {
  return mechanisms;
}

const char *const *ch_mechanism_names(void) {
  return names;
}

bool ch_mechanism_has_key(const ch_mechanism *mechanism, const char *key) {
  for (const char *const *k = mechanism ? mechanism->keys : NULL; k && *k; k++)
    if (strcmp(*k, key) == 0) return true;
  return false;
}

const ch_mechanism *ch_mechanism_of(const ch_config *config) {
  return ch_mechanism_find(config->attention.type);
}

extern const ch_mechanism ch_mechanism_gdn;

const ch_mechanism *ch_mechanism_in(const ch_config *config, int layer) {
  return ch_layer_is_linear(config, layer) ? &ch_mechanism_gdn : ch_mechanism_of(config);
}

void ch_config_set_mechanism(ch_config *config, const char *type) {
  const ch_mechanism *mechanism = ch_mechanism_find(type);
  snprintf(config->attention.type, sizeof config->attention.type, "%s", type);
  if (mechanism && mechanism->defaults) mechanism->defaults(config);
}

enum { USUAL_PASS = 512, LONGEST_PASS = 1024 };

int64_t ch_prefill_tokens(const ch_config *config) {
  const ch_mechanism *mechanism = ch_mechanism_of(config);
  return mechanism->long_pass && mechanism->long_pass(config) > USUAL_PASS ? LONGEST_PASS : USUAL_PASS;
}

int ch_layer_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  if (ch_writing_layer(config, layer) != layer) return 0;
  return ch_mechanism_in(config, layer)->state(config, layer, parts);
}

void ch_state_parts(const ch_config *config, ch_layer_parts *parts) {
  for (int layer = 0; layer < config->num_hidden_layers; layer++) {
    parts[layer] = (ch_layer_parts){.slides = ch_layer_slides(config, layer)};
    ch_layer_state(config, layer, parts[layer].part);
  }
}

/* Returns the number of a sequence's `tokens` tokens that a layer stores. */
static int64_t kept(const ch_config *config, int layer, int64_t tokens) {
  int64_t most = ch_window_and_sinks(config);
  return ch_layer_slides(config, layer) && most < tokens ? most : tokens;
}

int64_t ch_state_elements_of(const ch_config *config, ch_part_kind kind, int64_t tokens) {
  int64_t elements = 0;
  for (int layer = 0; layer < config->num_hidden_layers; layer++) {
    ch_state_part parts[CH_MAX_STATE_PARTS];
    int count = ch_layer_state(config, layer, parts);
    int64_t rows = kind == CH_PART_FIXED ? 1 : kept(config, layer, tokens);
    for (int p = 0; p < count; p++) elements += parts[p].kind == kind ? parts[p].width * rows : 0;
  }
  return elements;
}

int64_t ch_state_elements_at(const ch_config *config, int64_t tokens) {
  return ch_state_elements_of(config, CH_PART_ELEMENTS, tokens);
}

int64_t ch_fixed_state_elements(const ch_config *config) {
  return ch_state_elements_of(config, CH_PART_FIXED, 0);
}

int64_t ch_fixed_state_bytes(const ch_config *config) {
  return ch_fixed_state_elements(config) * (int64_t)sizeof(float);
}

int64_t ch_state_elements(const ch_config *config) {
  return ch_state_elements_at(config, 1);
}

int64_t ch_state_bytes_at(const ch_config *config, const ch_cache_types *types, int64_t tokens) {
  int64_t bytes = 0;
  for (int layer = 0; layer < config->num_hidden_layers; layer++) {
    ch_layer_parts parts = {.slides = false};
    ch_layer_state(config, layer, parts.part);
    bytes += ch_token_bytes(&parts, 1, types) * kept(config, layer, tokens);
  }
  return bytes;
}

int64_t ch_state_bytes(const ch_config *config, const ch_cache_types *types) {
  return ch_state_bytes_at(config, types, 1);
}
