/* The rules between keys of a configuration. keys.c checks the range of a single key. */
#include <string.h>

#include "attention/registry.h"
#include "model/network.h"
#include "config_file/config_json.h"
#include "config_file/families.h"
#include "config_file/keys.h"
#include "config_file/layers.h"
#include "config_file/modules.h"
#include "model/moe.h"

enum { MOST_HEADS_WIDTH = 1 << 24 };

/* Checks the total widths of all heads, whichever key gives the size of a head. */
static ch_status check_widths(const ch_config *c, const char *where, ch_error *error) {
  const struct {
    const char *name;
    int64_t size;
  } sizes[] = {{"head_dim", c->head_dim},
               {"attention.qk_nope_head_dim", c->attention.qk_nope_head_dim},
               {"attention.qk_rope_head_dim", c->attention.qk_rope_head_dim},
               {"attention.v_head_dim", c->attention.v_head_dim}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (c->num_attention_heads * sizes[i].size > MOST_HEADS_WIDTH)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"num_attention_heads\" times \"%s\" is %lld; it must be at most %d", where,
                     sizes[i].name, (long long)(c->num_attention_heads * sizes[i].size), MOST_HEADS_WIDTH);
  return CH_OK;
}

static ch_status check_start(const ch_config *c, const char *where, ch_error *error) {
  if (c->init == CH_INIT_DEFAULT || c->parametrization == CH_PARAMETRIZATION_STANDARD) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"init\" is for \"parametrization\": \"standard\"; leave it out: \"spectral\" sets the "
                 "initial weights itself",
                 where);
}

static ch_status check_groups(const ch_config *c, const char *where, ch_error *error) {
  const struct {
    const char *name;
    int64_t heads;
  } groups[] = {{"num_key_value_heads", c->num_key_value_heads},
                {"attention.num_key_heads", ch_heads_of(c, CH_ON_K)},
                {"attention.num_value_heads", ch_heads_of(c, CH_ON_V)}};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (c->num_attention_heads % groups[i].heads != 0)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"%s\" is %lld; it must divide \"num_attention_heads\", %lld", where,
                     groups[i].name, (long long)groups[i].heads, (long long)c->num_attention_heads);
  return CH_OK;
}

static ch_status check_heads(const ch_config *c, const char *where, ch_error *error) {
  CH_TRY(check_groups(c, where, error));
  CH_TRY(check_widths(c, where, error));
  bool own_sizes = ch_mechanism_of(c)->modules & CH_MODULE_OWN_SIZES;
  if (c->position == CH_POSITION_ROPE && c->head_dim % 2 != 0 && !own_sizes)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"head_dim\" is %lld; it must be even with \"position\": \"rope\" (dims rotate in pairs)", where,
        (long long)c->head_dim);
  return CH_OK;
}

/* Returns a rope type whose keys are set although the config has another type, or NULL. */
static const char *key_of_another_type(const ch_rope_scaling *s) {
  if (s->type != CH_ROPE_YARN &&
      (s->beta_fast || s->beta_slow || s->mscale || s->mscale_all_dim || !s->truncate))
    return "yarn";
  if (s->attention_factor && s->type != CH_ROPE_YARN && s->type != CH_ROPE_LONGROPE) return "yarn";
  return s->type != CH_ROPE_LONGROPE && (s->short_factor.count || s->long_factor.count) ? "longrope" : NULL;
}

static ch_status check_longrope(const ch_config *c, const char *where, ch_error *error) {
  const ch_rope_scaling *s = &c->rope_scaling;
  const int64_t pairs = ch_rotary_dims(c) / 2;
  if (!(ch_mechanism_of(c)->modules & CH_MODULE_BY_HEAD))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"rope_scaling\" is of type \"longrope\", which cannot be combined with "
                   "\"attention.type\" \"%s\"; leave one of them out",
                   where, c->attention.type);
  for (int i = 0; i < 2; i++) {
    int64_t count = i ? s->long_factor.count : s->short_factor.count;
    if (count != pairs)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"rope_scaling.%s\" has %lld numbers, but %lld pairs of dims of \"head_dim\" "
                     "rotate; it must have one for each",
                     where, i ? "long_factor" : "short_factor", (long long)count, (long long)pairs);
  }
  if (s->original_max_position_embeddings > 1) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"rope_scaling.original_max_position_embeddings\" must be a whole number above 1; rope type "
      "\"longrope\" needs it",
      where);
}

static ch_status check_rope_scaling(const ch_config *c, const char *where, ch_error *error) {
  const ch_rope_scaling *s = &c->rope_scaling;
  const char *missing = NULL, *other = key_of_another_type(s);
  if (s->type == CH_ROPE_DEFAULT) {
    if (s->factor || s->low_freq_factor || s->high_freq_factor || s->original_max_position_embeddings ||
        other)
      return ch_fail(
          error, CH_ERROR_CONFIG,
          "%s: \"rope_scaling\" has factors but no \"rope_type\"; it must be \"linear\", \"llama3\", "
          "\"yarn\" or \"longrope\"",
          where);
    return CH_OK;
  }
  if (other)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"rope_scaling\" has keys of rope type \"%s\"; set that type or leave them out",
                   where, other);
  if (c->position != CH_POSITION_ROPE)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"rope_scaling\" needs \"position\": \"rope\"; leave it out",
                   where);
  if (s->type == CH_ROPE_LONGROPE) return check_longrope(c, where, error);
  if (s->type == CH_ROPE_YARN && c->rope_theta <= 1)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"rope_theta\" is %g; it must be above 1 with rope type \"yarn\"", where,
                   c->rope_theta);
  if (!s->factor)
    missing = "factor";
  else if (s->type == CH_ROPE_LLAMA3) {
    if (!s->low_freq_factor)
      missing = "low_freq_factor";
    else if (!s->high_freq_factor)
      missing = "high_freq_factor";
    else if (!s->original_max_position_embeddings)
      missing = "original_max_position_embeddings";
    else if (s->high_freq_factor <= s->low_freq_factor)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"rope_scaling.high_freq_factor\" is %g; it must be above low_freq_factor, %g",
                     where, s->high_freq_factor, s->low_freq_factor);
  }
  if (!missing && s->type == CH_ROPE_YARN && !s->original_max_position_embeddings)
    missing = "original_max_position_embeddings";
  if (!missing) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"rope_scaling.%s\" is missing; rope type \"%s\" needs it",
                 where, missing,
                 s->type == CH_ROPE_LINEAR   ? "linear"
                 : s->type == CH_ROPE_LLAMA3 ? "llama3"
                                             : "yarn");
}

static ch_status check_expert_groups(const ch_moe_config *m, const char *where, ch_error *error) {
  if (!m->groups && !m->active_groups) return CH_OK;
  if (!m->groups || !m->active_groups || m->active_groups > m->groups)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe.active_groups\" is %lld with \"moe.groups\" %lld; set 1 <= active_groups <= "
                   "groups, or neither",
                   where, (long long)m->active_groups, (long long)m->groups);
  int64_t size = m->experts / m->groups, least = m->scoring == CH_SCORING_SIGMOID ? 2 : 1;
  if (m->experts % m->groups != 0 || size < least)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"moe.groups\" is %lld; it must divide \"moe.experts\", %lld, into groups of at least %lld",
        where, (long long)m->groups, (long long)m->experts, (long long)least);
  if (m->active > m->active_groups * size)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe.active\" is %lld, but the %lld active groups have only %lld experts", where,
                   (long long)m->active, (long long)m->active_groups, (long long)(m->active_groups * size));
  return CH_OK;
}

/* Checks the list of dense layers. They must exist, come after the first dense ones, and leave a layer with
   experts. */
static ch_status check_dense_layers(const ch_config *c, const char *where, ch_error *error) {
  const ch_moe_config *m = &c->moe;
  for (int layer = 0; layer < CH_MAX_LISTED_LAYERS; layer++)
    if (m->dense_layers[layer] && (layer < m->first_dense_layers || layer >= c->num_hidden_layers))
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"moe.dense_layers\" names layer %d; it must be one from %lld to %lld: after the "
                     "first dense layers",
                     where, layer, (long long)m->first_dense_layers, (long long)c->num_hidden_layers - 1);
  if (ch_moe_layers_before(c, (int)c->num_hidden_layers) > 0) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"moe.dense_layers\" leaves no layer with experts; it must leave one", where);
}

/* Checks experts against the other keys. The ranges of single keys have been checked. */
static ch_status check_moe(const ch_config *c, const char *where, ch_error *error) {
  const ch_moe_config *m = &c->moe;
  bool any = m->experts || m->active || m->shared || m->expert_intermediate_size || m->first_dense_layers ||
             m->balance != CH_BALANCE_AUX || m->balance_update != CH_BALANCE_SIGN ||
             m->aux_coefficient != 0.01 || m->scoring != CH_SCORING_SOFTMAX || !m->renormalise ||
             m->router_bias || m->scale != 1 || m->groups || m->active_groups ||
             memchr(m->dense_layers, true, sizeof m->dense_layers);
  if (!any) return CH_OK;
  if (!m->experts || !m->active || !m->expert_intermediate_size)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"moe.%s\" is missing; it must be a whole number from 1",
                   where,
                   !m->experts  ? "experts"
                   : !m->active ? "active"
                                : "expert_intermediate_size");
  if (m->active > m->experts)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe.active\" is %lld; it must be at most \"moe.experts\", %lld", where,
                   (long long)m->active, (long long)m->experts);
  if (m->first_dense_layers >= c->num_hidden_layers)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe.first_dense_layers\" is %lld; it must be below \"num_hidden_layers\", %lld, or "
                   "no layer has experts",
                   where, (long long)m->first_dense_layers, (long long)c->num_hidden_layers);
  CH_TRY(check_dense_layers(c, where, error));
  if (strcmp(c->hidden_act, ch_ffn_swiglu) != 0 && !ch_ffn_of(c)->clamped)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe\" needs \"hidden_act\": \"silu\" or \"clamped_swiglu\", as experts are SwiGLU "
                   "networks",
                   where);
  if (m->balance != CH_BALANCE_AUX && m->aux_coefficient != 0.01)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"moe.aux_coefficient\" is %g, but it belongs to \"moe.balance\": \"aux\"; leave it out", where,
        m->aux_coefficient);
  if (m->balance != CH_BALANCE_LOSS_FREE && m->balance_update != CH_BALANCE_SIGN)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe.balance_update\" is \"rms\", but it belongs to \"moe.balance\": \"loss_free\"; "
                   "leave it out",
                   where);
  return check_expert_groups(m, where, error);
}

/* Fails for clamps if the model's kind of network has none. */
static ch_status check_clamps(const ch_config *c, const char *where, ch_error *error) {
  if (ch_config_is_vision(c) || ch_ffn_of(c)->clamped || (c->swiglu_alpha == 1.702 && c->swiglu_limit == 7))
    return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"%s\" is %g, but it belongs to \"hidden_act\": \"clamped_swiglu\"; leave it out",
                 where, c->swiglu_alpha == 1.702 ? "swiglu_limit" : "swiglu_alpha",
                 c->swiglu_alpha == 1.702 ? c->swiglu_limit : c->swiglu_alpha);
}

/* Fails for a LayerNorm's eps if the model has no LayerNorm outside attention. */
static ch_status check_norm(const ch_config *c, const char *where, ch_error *error) {
  if (ch_config_is_vision(c) || strcmp(c->norm, "layernorm") == 0 || c->layer_norm_eps == 1e-5) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"layer_norm_eps\" is %g, but it belongs to \"norm\": \"layernorm\"; leave it out",
                 where, c->layer_norm_eps);
}

static ch_status check_id(const char *key, int64_t id, const ch_config *c, const char *where,
                          ch_error *error) {
  if (id < c->vocab_size) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" is %lld; it must be below \"vocab_size\", %lld", where,
                 key, (long long)id, (long long)c->vocab_size);
}

static ch_status check_images(const ch_config *c, const char *where, ch_error *error) {
  if (!ch_config_is_vision(c)) return CH_OK;
  if (c->num_classes < 1)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"num_classes\" is missing; it must be a whole number from 1",
                   where);
  if (c->image_size % c->patch_size != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"patch_size\" is %lld; it must divide \"image_size\", %lld",
                   where, (long long)c->patch_size, (long long)c->image_size);
  if (c->attention.gate_embedding_dim)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"attention.gate_embedding_dim\" gates by the ids of tokens, which patches of images do "
        "not have; leave it out",
        where);
  return CH_OK;
}

ch_status ch_config_validate(const ch_config *config, const char *where, ch_error *error) {
  CH_TRY(ch_config_check_ranges(config, where, error));
  CH_TRY(check_images(config, where, error));
  CH_TRY(check_start(config, where, error));
  CH_TRY(check_heads(config, where, error));
  CH_TRY(check_rope_scaling(config, where, error));
  CH_TRY(check_moe(config, where, error));
  CH_TRY(check_norm(config, where, error));
  CH_TRY(check_clamps(config, where, error));
  CH_TRY(check_id("bos_token_id", config->bos_token_id, config, where, error));
  CH_TRY(check_id("eos_token_id", config->eos_token_id, config, where, error));
  CH_TRY(ch_config_check_family(config, where, error));
  CH_TRY(ch_config_check_modules(config, where, error));
  CH_TRY(ch_config_check_sharing(config, where, error));
  CH_TRY(ch_config_check_layers(config, where, error));
  const ch_mechanism *mechanism = ch_mechanism_of(config);
  if (mechanism->check) CH_TRY(mechanism->check(config, where, error));
  return ch_check_shared_projections(config, where, error);
}
