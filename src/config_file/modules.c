/* Checks that the modules of a configuration can be combined with its mechanism and with each other. */
#include "config_file/modules.h"

#include <stdio.h>
#include <string.h>

#include "attention/registry.h"

/* Fails for a key that the mechanism does not support. */
static ch_status not_with(const ch_config *c, const char *key, const char *value, const char *where,
                          ch_error *error) {
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"%s\" is %s, which cannot be combined with \"attention.type\" \"%s\"; leave one of them out",
      where, key, value, c->attention.type);
}

/* Returns the letter of the first CH_ON_ bit: "k". */
static const char *state_name(unsigned bits) {
  return bits & CH_ON_Q ? "q" : bits & CH_ON_K ? "k" : "v";
}

/* Writes the letters of CH_ON_ bits for a message. */
static const char *allowed_states(unsigned bits, char buffer[40]) {
  snprintf(buffer, 40, "%s%s%s", bits & CH_ON_Q ? ", \"q\"" : "", bits & CH_ON_K ? ", \"k\"" : "",
           bits & CH_ON_V ? ", \"v\"" : "");
  return buffer + 2;
}

static ch_status check_states(const ch_config *c, const char *key, unsigned on, unsigned allowed,
                              const char *where, ch_error *error) {
  char names[40];
  if (!(on & ~allowed)) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"attention.%s.on\" names \"%s\", which it cannot change with \"attention.type\" "
                 "\"%s\"; name some "
                 "of %s",
                 where, key, state_name(on & ~allowed), c->attention.type, allowed_states(allowed, names));
}

static ch_status check_knocking(const ch_config *c, const ch_mechanism *m, const char *where,
                                ch_error *error) {
  static const char *const names[] = {"none", "\"linear\"", "\"mlp\"", "\"gate\""};
  const ch_knocking *k = &c->attention.knocking;
  bool more = k->decay_to_identity || k->per_head || k->init != CH_KNOCKING_DIAGONAL;
  if ((k->type == CH_KNOCKING_NONE) != (k->on == 0) || (more && !k->on))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.knocking\" needs both a \"type\" and what it is \"on\", or nothing",
                   where);
  if (!k->on) return CH_OK;
  if (!(m->modules & (CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER)))
    return not_with(c, "attention.knocking", "an object", where, error);
  if (k->type == CH_KNOCKING_LINEAR ? !(m->modules & CH_MODULE_KNOCK_LINEAR)
                                    : !(m->modules & CH_MODULE_KNOCK_OTHER))
    return not_with(c, "attention.knocking.type", names[k->type], where, error);
  return check_states(c, "knocking", k->on, m->knocks, where, error);
}

static ch_status check_mixed_layers(const ch_config *c, const char *where, ch_error *error) {
  const ch_head_mix *mix = &c->attention.head_mix;
  int64_t last = mix->last_layer < 0 ? c->num_hidden_layers - 1 : mix->last_layer;
  if (mix->first_layer > last || last >= c->num_hidden_layers)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"attention.head_mix.layers\" is [%lld, %lld], but with \"num_hidden_layers\" %lld it must be "
        "[first, last] from 0 to %lld",
        where, (long long)mix->first_layer, (long long)last, (long long)c->num_hidden_layers,
        (long long)c->num_hidden_layers - 1);
  if (mix->listed_layers && mix->listed_layers != c->num_hidden_layers)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.head_mix.component_heads\" is a list of %lld, but \"num_hidden_layers\" "
                   "is %lld; it must have one entry per layer",
                   where, (long long)mix->listed_layers, (long long)c->num_hidden_layers);
  for (int64_t i = 0; i < mix->listed_layers; i++)
    if ((i < mix->first_layer || i > last) && mix->listed[i] != ch_unmixed_entry(c))
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"attention.head_mix.component_heads\" mixes layer %lld, which "
                     "\"attention.head_mix.layers\" leaves out; its entry must be %lld, not mixed",
                     where, (long long)i, (long long)ch_unmixed_entry(c));
  return CH_OK;
}

static ch_status check_head_mix(const ch_config *c, const ch_mechanism *m, const char *where,
                                ch_error *error) {
  const ch_head_mix *mix = &c->attention.head_mix;
  bool counted = mix->component_heads || mix->listed_layers;
  if (counted != (mix->on != 0) || (!mix->on && (mix->first_layer != 0 || mix->last_layer != -1)))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.head_mix\" needs both \"on\" and \"component_heads\", or nothing", where);
  if (!mix->on) return CH_OK;
  if (!(m->modules & CH_MODULE_HEAD_MIX)) return not_with(c, "attention.head_mix", "an object", where, error);
  CH_TRY(check_states(c, "head_mix", mix->on, m->mixes, where, error));
  return check_mixed_layers(c, where, error);
}

/* Fails if num_key_value_heads is set for a mechanism that has its own keys of sizes and ignores it. */
static ch_status check_own_sizes(const ch_config *c, const ch_mechanism *m, const char *where,
                                 ch_error *error) {
  if (!(m->modules & CH_MODULE_OWN_SIZES) || c->num_key_value_heads == c->num_attention_heads) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"num_key_value_heads\" is %lld, which does not apply to \"attention.type\" \"%s\"; leave it out",
      where, (long long)c->num_key_value_heads, c->attention.type);
}

/* Checks the keys that only mechanisms with whole heads support, and the keys that these need. */
static ch_status check_by_head(const ch_config *c, const ch_mechanism *m, const char *where,
                               ch_error *error) {
  bool by_head = m->modules & CH_MODULE_BY_HEAD, over_all = c->attention.qk_norm_over == CH_QK_NORM_ALL;
  bool listed = memchr(c->nope_layers, true, sizeof c->nope_layers), partial = c->partial_rotary_factor != 1;
  int64_t rotary = ch_rotary_dims(c);
  if (over_all && !by_head) return not_with(c, "attention.qk_norm_over", "\"all\"", where, error);
  if (over_all && !c->attention.qk_norm)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.qk_norm_over\" is \"all\", which needs \"attention.qk_norm\": true",
                   where);
  if (c->attention_multiplier && !by_head) return not_with(c, "attention_multiplier", "set", where, error);
  if (listed && !by_head) return not_with(c, "nope_layers", "a list", where, error);
  if (partial && !by_head) return not_with(c, "partial_rotary_factor", "below 1", where, error);
  if ((listed || partial) && c->position != CH_POSITION_ROPE)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" needs \"position\": \"rope\"; leave it out", where,
                   listed ? "nope_layers" : "partial_rotary_factor");
  for (int layer = 0; layer < CH_MAX_LISTED_LAYERS; layer++)
    if (c->nope_layers[layer] && layer >= c->num_hidden_layers)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"nope_layers\" names layer %d; it must be one from 0 to %lld", where, layer,
                     (long long)c->num_hidden_layers - 1);
  if (partial && (rotary < 2 || rotary % 2 != 0))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"partial_rotary_factor\" is %g, which rotates %lld of %lld dims of \"head_dim\"; "
                   "that number must be even and at least 2",
                   where, c->partial_rotary_factor, (long long)rotary, (long long)c->head_dim);
  return CH_OK;
}

/* Checks local_rope_theta and local_rope_layers. */
static ch_status check_local_rope(const ch_config *c, const ch_mechanism *m, const char *where,
                                  ch_error *error) {
  bool listed = memchr(c->local_rope_layers, true, sizeof c->local_rope_layers);
  if (listed != (c->local_rope_theta != 0))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"local_rope_theta\" and \"local_rope_layers\" need each other; give both or none",
                   where);
  if (!listed) return CH_OK;
  if (!(m->modules & CH_MODULE_BY_HEAD)) return not_with(c, "local_rope_layers", "a list", where, error);
  if (c->position != CH_POSITION_ROPE)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"local_rope_layers\" needs \"position\": \"rope\"; leave it out", where);
  for (int layer = 0; layer < CH_MAX_LISTED_LAYERS; layer++)
    if (c->local_rope_layers[layer] && layer >= c->num_hidden_layers)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"local_rope_layers\" names layer %d; it must be one from 0 to %lld", where, layer,
                     (long long)c->num_hidden_layers - 1);
  return CH_OK;
}

/* Checks parallel_residual, which allows only one placement of norms. */
static ch_status check_parallel(const ch_config *c, const char *where, ch_error *error) {
  if (!c->parallel_residual || c->norm_placement == CH_NORM_PRE) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"parallel_residual\" is true, which needs \"norm_placement\": \"pre\"; leave one of them "
      "out",
      where);
}

ch_status ch_config_check_modules(const ch_config *config, const char *where, ch_error *error) {
  const ch_mechanism *m = ch_mechanism_of(config);
  CH_TRY(check_own_sizes(config, m, where, error));
  CH_TRY(check_parallel(config, where, error));
  CH_TRY(check_local_rope(config, m, where, error));
  if (config->attention.qk_norm && !(m->modules & CH_MODULE_QK_NORM))
    return not_with(config, "attention.qk_norm", "true", where, error);
  CH_TRY(check_by_head(config, m, where, error));
  if (config->attn_logit_softcapping && (m->modules & CH_MODULE_MIXES_SCORES))
    return not_with(config, "attn_logit_softcapping", "set", where, error);
  if (config->attention.head_norm && !(m->modules & CH_MODULE_HEAD_NORM))
    return not_with(config, "attention.head_norm", "true", where, error);
  if (config->attention_bias && !(m->modules & CH_MODULE_BIAS))
    return not_with(config, "attention_bias", "true", where, error);
  if (config->attention_output_bias && !ch_config_is_vision(config) && !(m->modules & CH_MODULE_OUTPUT_BIAS))
    return not_with(config, "attention_output_bias", "true", where, error);
  CH_TRY(check_knocking(config, m, where, error));
  return check_head_mix(config, m, where, error);
}
