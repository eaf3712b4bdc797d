/* Configurations: reading a file, completing what it leaves out, and checking that it makes a model. */
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/file.h"
#include "config/config_families.h"
#include "config/config_modules.h"

enum { MOST_CONFIG_BYTES = 1 << 20, MOST_HEADS_WIDTH = 1 << 24 };

static const char vision_type[] = "crosshead_vit";

static void set_defaults(ch_config *config, const char *model_type) {
  memset(config, 0, sizeof *config);
  snprintf(config->model_type, sizeof config->model_type, "%s", model_type);
  ch_config_apply_defaults(config);
}

void ch_config_defaults(ch_config *config) {
  set_defaults(config, "crosshead");
}

void ch_config_defaults_for_images(ch_config *config) {
  set_defaults(config, vision_type);
}

/* "vit" is what reading calls one of Hugging Face before it is ours. */
bool ch_config_is_vision(const ch_config *config) {
  return strcmp(config->model_type, vision_type) == 0 || strcmp(config->model_type, "vit") == 0;
}

ch_status ch_config_needs_text(const ch_config *config, const char *name, ch_error *error) {
  if (!ch_config_is_vision(config)) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s is for models of text; this one, a \"%s\", takes images", name,
                 config->model_type);
}

int64_t ch_config_patches(const ch_config *config) {
  int64_t side = config->image_size / config->patch_size;
  return side * side;
}

int64_t ch_config_image_tokens(const ch_config *config) {
  return 1 + ch_config_patches(config);
}

/* Widths of all heads side by side, whichever key gives the size of one. */
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
                     "%s: \"num_attention_heads\" times \"%s\" is %lld; at most %d make sense", where,
                     sizes[i].name, (long long)(c->num_attention_heads * sizes[i].size), MOST_HEADS_WIDTH);
  return CH_OK;
}

static ch_status check_heads(const ch_config *c, const char *where, ch_error *error) {
  if (c->num_attention_heads % c->num_key_value_heads != 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"num_key_value_heads\" is %lld, which must divide \"num_attention_heads\", %lld",
                   where, (long long)c->num_key_value_heads, (long long)c->num_attention_heads);
  CH_TRY(check_widths(c, where, error));
  bool own_sizes = ch_mechanism_of(c)->modules & CH_MODULE_OWN_SIZES;
  if (c->position == CH_POSITION_ROPE && c->head_dim % 2 != 0 && !own_sizes)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"head_dim\" is %lld, which must be even with \"position\": \"rope\" (it turns pairs)", where,
        (long long)c->head_dim);
  return CH_OK;
}

static ch_status check_rope_scaling(const ch_config *c, const char *where, ch_error *error) {
  const ch_rope_scaling *s = &c->rope_scaling;
  const char *missing = NULL;
  bool yarn = s->beta_fast || s->beta_slow || s->mscale || s->mscale_all_dim || s->attention_factor;
  if (s->type == CH_ROPE_DEFAULT) {
    if (s->factor || s->low_freq_factor || s->high_freq_factor || s->original_max_position_embeddings || yarn)
      return ch_fail(
          error, CH_ERROR_CONFIG,
          "%s: \"rope_scaling\" has factors but no \"rope_type\"; it must be \"linear\", \"llama3\" or "
          "\"yarn\"",
          where);
    return CH_OK;
  }
  if (yarn && s->type != CH_ROPE_YARN)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"rope_scaling\" has keys of rope type \"yarn\", which it is not", where);
  if (c->position != CH_POSITION_ROPE)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"rope_scaling\" needs \"position\": \"rope\"; leave it out",
                   where);
  if (s->type == CH_ROPE_YARN && c->rope_theta <= 1)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"rope_theta\" is %g, which must be above 1 with rope type \"yarn\": its pairs must turn at "
        "different speeds",
        where, c->rope_theta);
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
                     "%s: \"rope_scaling.high_freq_factor\" is %g, which must be above low_freq_factor, %g",
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
                   "%s: \"moe.active_groups\" is %lld, which must be 1 to \"moe.groups\", %lld", where,
                   (long long)m->active_groups, (long long)m->groups);
  int64_t size = m->experts / m->groups, least = m->scoring == CH_SCORING_SIGMOID ? 2 : 1;
  if (m->experts % m->groups != 0 || size < least)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"moe.groups\" is %lld, which must divide \"moe.experts\", %lld, in groups of %lld at least",
        where, (long long)m->groups, (long long)m->experts, (long long)least);
  if (m->active > m->active_groups * size)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe.active\" is %lld, but the %lld active groups have only %lld experts", where,
                   (long long)m->active, (long long)m->active_groups, (long long)(m->active_groups * size));
  return CH_OK;
}

/* Experts beside what they go with; ranges of the keys were checked. */
static ch_status check_moe(const ch_config *c, const char *where, ch_error *error) {
  const ch_moe_config *m = &c->moe;
  bool any = m->experts || m->active || m->shared || m->expert_intermediate_size || m->first_dense_layers ||
             m->balance != CH_BALANCE_AUX || m->aux_coefficient != 0.01 || m->scoring != CH_SCORING_SOFTMAX ||
             !m->renormalise || m->scale != 1 || m->groups || m->active_groups;
  if (!any) return CH_OK;
  if (!m->experts || !m->active || !m->expert_intermediate_size)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"moe.%s\" is missing; it must be a whole number from 1",
                   where,
                   !m->experts  ? "experts"
                   : !m->active ? "active"
                                : "expert_intermediate_size");
  if (m->active > m->experts)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe.active\" is %lld, which must be at most \"moe.experts\", %lld", where,
                   (long long)m->active, (long long)m->experts);
  if (m->first_dense_layers >= c->num_hidden_layers)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"moe.first_dense_layers\" is %lld, which must be below \"num_hidden_layers\", %lld, or "
        "no layer has experts",
        where, (long long)m->first_dense_layers, (long long)c->num_hidden_layers);
  if (c->hidden_act != CH_ACTIVATION_SILU)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"moe\" needs \"hidden_act\": \"silu\", as experts are SwiGLU networks", where);
  if (m->balance != CH_BALANCE_AUX && m->aux_coefficient != 0.01)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"moe.aux_coefficient\" is %g, but it belongs to \"moe.balance\": \"aux\"; leave it out", where,
        m->aux_coefficient);
  return check_expert_groups(m, where, error);
}

static ch_status check_id(const char *key, int64_t id, const ch_config *c, const char *where,
                          ch_error *error) {
  if (id < c->vocab_size) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" is %lld, which must be below \"vocab_size\", %lld",
                 where, key, (long long)id, (long long)c->vocab_size);
}

static ch_status check_images(const ch_config *c, const char *where, ch_error *error) {
  if (!ch_config_is_vision(c)) return CH_OK;
  if (c->num_classes < 1)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"num_classes\" is missing; it must be a whole number from 1",
                   where);
  if (c->image_size % c->patch_size != 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"patch_size\" is %lld, which must divide \"image_size\", %lld", where,
                   (long long)c->patch_size, (long long)c->image_size);
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
  CH_TRY(check_heads(config, where, error));
  CH_TRY(check_rope_scaling(config, where, error));
  CH_TRY(check_moe(config, where, error));
  CH_TRY(check_id("bos_token_id", config->bos_token_id, config, where, error));
  CH_TRY(check_id("eos_token_id", config->eos_token_id, config, where, error));
  CH_TRY(ch_config_check_family(config, where, error));
  CH_TRY(ch_config_check_modules(config, where, error));
  CH_TRY(ch_config_check_sharing(config, where, error));
  const ch_mechanism *mechanism = ch_mechanism_of(config);
  if (mechanism->check) CH_TRY(mechanism->check(config, where, error));
  return ch_check_shared_projections(config, where, error);
}

/* Sizes that follow from others when they are left out: G = H, d = D/H. */
static ch_status complete(ch_config *c, const char *where, ch_error *error) {
  if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
  if (c->head_dim || (ch_mechanism_of(c)->modules & CH_MODULE_OWN_SIZES)) return CH_OK;
  if (c->hidden_size % c->num_attention_heads != 0)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"num_attention_heads\" is %lld, which must divide \"hidden_size\", %lld, unless \"head_dim\" "
        "is given",
        where, (long long)c->num_attention_heads, (long long)c->hidden_size);
  c->head_dim = c->hidden_size / c->num_attention_heads;
  return CH_OK;
}

static bool is_ours(const ch_config *config) {
  return strcmp(config->model_type, "crosshead") == 0 || strcmp(config->model_type, vision_type) == 0;
}

/* A config of our own: the attention's type first, since it decides what absent keys mean. */
static ch_status read_ours(const json_t *root, const char *where, ch_config *config, ch_error *error) {
  const json_t *attention = json_object_get(root, "attention");
  if (json_is_object(attention)) {
    CH_TRY(ch_config_read_key(attention, "attention", "attention.", "type", where, config, error));
    ch_config_set_mechanism(config, ch_mechanism_of(config)->name);
  }
  CH_TRY(ch_config_read_group(root, "", "", CH_KEY_OURS, true, where, config, error));
  if (ch_config_is_vision(config)) config->attention_output_bias = config->attention_bias;
  return CH_OK;
}

static ch_status read_root(const json_t *root, const char *where, ch_config *config, ch_error *error) {
  /* The model type decides which keys the file may have, and what absent ones mean. */
  char model_type[CH_NAME_SIZE];
  CH_TRY(ch_config_read_key(root, "", "", "model_type", where, config, error));
  snprintf(model_type, sizeof model_type, "%s", config->model_type);
  set_defaults(config, model_type);
  if (is_ours(config))
    CH_TRY(read_ours(root, where, config, error));
  else
    CH_TRY(ch_config_read_family(root, where, config, error));
  CH_TRY(complete(config, where, error));
  return ch_config_validate(config, where, error);
}

ch_status ch_config_parse(const char *text, const char *where, ch_config *config, ch_error *error) {
  json_t *root;
  ch_config_defaults(config);
  CH_TRY(ch_json_parse(text, strlen(text), where, &root, error));
  ch_status status = read_root(root, where, config, error);
  json_decref(root);
  return status;
}

static bool is_gguf(const char *path) {
  char magic[4] = {0};
  FILE *file = ch_is_file(path) ? fopen(path, "rb") : NULL;
  bool whole = file && fread(magic, 1, sizeof magic, file) == sizeof magic;
  if (file) fclose(file);
  return whole && memcmp(magic, "GGUF", sizeof magic) == 0;
}

ch_status ch_config_read(const char *path, ch_config *config, ch_error *error) {
  char *file = ch_is_directory(path) ? ch_path_join(path, "config.json") : strdup(path), *text = NULL;
  if (!file) return ch_fail(error, CH_ERROR_MEMORY, "no memory to read %s", path);
  size_t size = 0;
  if (is_gguf(file)) {
    free(file);
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is a GGUF file; `crosshead import %s --out DIR` makes a model directory of it", path,
                   path);
  }
  ch_status status = ch_read_file(file, MOST_CONFIG_BYTES, &text, &size, error);
  if (status == CH_OK && strlen(text) != size)
    status = ch_fail(error, CH_ERROR_FORMAT, "%s holds a NUL byte; a configuration is JSON text", file);
  if (status == CH_OK) status = ch_config_parse(text, file, config, error);
  free(text);
  free(file);
  return status;
}

void ch_config_write(const ch_config *config, ch_text *json) {
  if (!is_ours(config)) {
    ch_config_put_family(config, json);
    return;
  }
  ch_text_puts(json, "{");
  ch_config_put_group("", 2, CH_KEY_OURS, config, json);
  ch_text_puts(json, "\n}\n");
}
