/* Reads GGUF's architectures of adopted families (config_file/adopted.h). It converts their metadata to the config.json
 * of the family, which the family's row of the table then reads. */
#include "formats/gguf_families.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "config_file/config_json.h"

/* A key of GGUF's metadata, and the key of config.json that gets its value. */
typedef struct key_name {
  const char *gguf, *theirs;
} key_name;

static const key_name wholes[] = {{"block_count", "num_hidden_layers"},
                                  {"context_length", "max_position_embeddings"},
                                  {"embedding_length", "hidden_size"},
                                  {"feed_forward_length", "intermediate_size"},
                                  {"attention.head_count", "num_attention_heads"},
                                  {"attention.head_count_kv", "num_key_value_heads"},
                                  {"attention.sliding_window", "sliding_window"},
                                  {"expert_count", "num_local_experts"},
                                  {"expert_used_count", "num_experts_per_tok"}};
static const key_name numbers[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                   {"attention.layer_norm_epsilon", "layer_norm_eps"},     /* stablelm */
                                   {"attention.layer_norm_epsilon", "layer_norm_epsilon"}, /* gpt2 */
                                   {"attention.layer_norm_epsilon", "norm_epsilon"},       /* starcoder2 */
                                   {"rope.freq_base", "rope_theta"},
                                   {"rope.freq_base_swa", "rope_local_base_freq"},
                                   {"attn_logit_softcapping", "attn_logit_softcapping"},
                                   {"final_logit_softcapping", "final_logit_softcapping"},
                                   {"attention.scale", "attention_multiplier"},
                                   {"embedding_scale", "embedding_multiplier"},
                                   {"residual_scale", "residual_multiplier"},
                                   {"logit_scale", "logits_scaling"}};

/* `windowed`: the family of models with a sliding window. `partial`: true if only some of a head's elements may
   be rotated. `widest_layers`: see ch_gguf_architecture. */
static const struct architecture {
  const char *name, *family, *windowed;
  bool turned, partial;
  int64_t widest_layers;
} architectures[] = {
    {"gemma2", "gemma2", .widest_layers = 46}, {"gemma3", "gemma3_text", .widest_layers = 62},
    {"gpt-oss", "gpt_oss", .turned = false},   {"olmo2", "olmo2", .windowed = "olmo3"},
    {"granite", "granite", .turned = true},    {"smollm3", "smollm3", .turned = true},
    {"seed_oss", "seed_oss", .turned = false}, {"starcoder2", "starcoder2", .turned = false},
    {"phi3", "phi3", .partial = true},         {"glm4", "glm4", .partial = true},
    {"stablelm", "stablelm", .partial = true}, {"gpt2", "gpt2", .turned = false},
    {"llama", "mixtral", .turned = true}};

static const struct architecture *architecture_of(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
    if (strlen(architectures[i].name) == size && memcmp(architectures[i].name, name, size) == 0)
      return &architectures[i];
  return NULL;
}

const char *ch_gguf_family_named(const char *name, size_t size, bool *turned) {
  const struct architecture *of = architecture_of(name, size);
  if (of) *turned = of->turned;
  return of ? of->name : NULL;
}

static bool has(const ch_gguf *file, const char *name) {
  return ch_gguf_find_tensor(file, name) != NULL;
}

/* Reads the layers with a sliding window, if the file lists them. */
static void put_layer_types(ch_metadata *m, json_t *root) {
  const ch_gguf_value *list = ch_gguf_find(m->file, ch_metadata_key(m, "attention.sliding_window_pattern"));
  if (!list || !list->list || list->type == CH_GGUF_STRING || list->count > CH_MAX_LISTED_LAYERS) return;
  json_t *types = json_array();
  for (uint64_t i = 0; i < list->count; i++)
    json_array_append_new(
        types, json_string(ch_gguf_number_at(list, i) != 0 ? "sliding_attention" : "full_attention"));
  json_object_set_new(root, "layer_types", types);
}

/* Sets the RoPE base of layers with a window. In GGUF its default is the base of the other layers; the family's
   class has another default. */
static void put_local_base(json_t *root) {
  json_t *theta = json_object_get(root, "rope_local_base_freq");
  if (!theta) theta = json_object_get(root, "rope_theta");
  if (!theta) return;
  json_t *rope = json_pack("{s:{}, s:{s:O}}", "full_attention", "sliding_attention", "rope_theta", theta);
  json_object_set_new(root, "rope_parameters", rope);
}

static ch_status put_scaling(ch_metadata *m, const struct architecture *of, json_t *root) {
  ch_rope_scaling scaling = {.truncate = true};
  CH_TRY(ch_metadata_scaling(m, &scaling));
  if (scaling.type == CH_ROPE_DEFAULT) return CH_OK;
  bool yarn = scaling.type == CH_ROPE_YARN;
  json_t *rope = json_pack("{s:s, s:f}", "rope_type", yarn ? "yarn" : "linear", "factor", scaling.factor);
  if (yarn)
    json_object_set_new(rope, "original_max_position_embeddings",
                        json_integer(scaling.original_max_position_embeddings));
  if (scaling.beta_fast != 0) json_object_set_new(rope, "beta_fast", json_real(scaling.beta_fast));
  if (scaling.beta_slow != 0) json_object_set_new(rope, "beta_slow", json_real(scaling.beta_slow));
  /* GGUF lacks this key; published models have this value. */
  if (yarn && strcmp(of->name, "gpt-oss") == 0) json_object_set_new(rope, "truncate", json_false());
  json_object_set_new(root, "rope_scaling", rope);
  return CH_OK;
}

/* Reads LongRoPE's divisors from their two tensors. */
static ch_status put_longrope(ch_metadata *m, json_t *root) {
  static const char *const names[][2] = {{"rope_factors_short.weight", "short_factor"},
                                         {"rope_factors_long.weight", "long_factor"}};
  int64_t context = 0;
  if (!has(m->file, names[0][0]) && !has(m->file, names[1][0])) return CH_OK;
  if (json_object_get(root, "rope_scaling"))
    return ch_fail(m->error, CH_ERROR_CONFIG, "%s has both rope_factors_long.weight and rope.scaling.type",
                   m->file->where);
  json_t *rope = json_pack("{s:s}", "rope_type", "longrope");
  json_object_set_new(root, "rope_scaling", rope);
  CH_TRY(ch_metadata_whole(m, "rope.scaling.original_context_length", true, &context));
  json_object_set_new(root, "original_max_position_embeddings", json_integer(context));
  for (int i = 0; i < 2; i++) {
    const ch_gguf_tensor *tensor = ch_gguf_find_tensor(m->file, names[i][0]);
    if (!tensor || tensor->rank != 1 || tensor->format->type != CH_BLOCK_F32)
      return ch_fail(m->error, CH_ERROR_FORMAT, "%s: %s must be a vector of f32", m->file->where,
                     names[i][0]);
    json_t *list = json_array();
    for (int64_t j = 0; j < tensor->shape[0] && j < CH_MAX_PAIR_FACTORS + 1; j++) {
      float value;
      memcpy(&value, tensor->data + 4 * j, 4);
      json_array_append_new(list, json_real(isfinite(value) ? ch_metadata_tidy((double)value) : 0));
    }
    json_object_set_new(rope, names[i][1], list);
  }
  return CH_OK;
}

/* Checks the number of rotated elements of a head. Sets their share for families in which it varies. */
static ch_status put_rotary(ch_metadata *m, const struct architecture *of, json_t *root) {
  int64_t rotary = 0, size = json_integer_value(json_object_get(root, "head_dim")),
          heads = json_integer_value(json_object_get(root, "num_attention_heads"));
  CH_TRY(ch_metadata_whole(m, "rope.dimension_count", false, &rotary));
  if (!size && heads > 0) size = json_integer_value(json_object_get(root, "hidden_size")) / heads;
  if (rotary == 0) rotary = size;
  if (rotary < 0 || rotary > size || (rotary != size && !of->partial))
    return ch_fail(m->error, CH_ERROR_CONFIG,
                   "%s: rotation of %lld of %lld elements per head is not supported", m->file->where,
                   (long long)rotary, (long long)size);
  double share = size > 0 ? (double)rotary / (double)size : 1;
  if (share < 1) share = nextafter(share, 1); /* so that the product, rounded down, is `rotary` again */
  if (of->partial) json_object_set_new(root, "partial_rotary_factor", json_real(share));
  return CH_OK;
}

/* Adds the keys that follow from the tensors, and those that are not copies of one metadata key. */
static ch_status put_rest(ch_metadata *m, const struct architecture *of, json_t *root) {
  const ch_gguf_tensor *embedding = ch_gguf_find_tensor(m->file, "token_embd.weight");
  if (!embedding || embedding->rank != 2)
    return ch_fail(m->error, CH_ERROR_FORMAT, "%s has no matrix token_embd.weight%s", m->file->where,
                   m->file->tensor_count ? "" : "; it is a vocabulary without a model");
  bool bias = has(m->file, "blk.0.attn_q.bias"), output = has(m->file, "blk.0.attn_output.bias");
  int64_t layers = json_integer_value(json_object_get(root, "num_hidden_layers")),
          heads = json_integer_value(json_object_get(root, "num_attention_heads")), size = 0;
  json_object_set_new(root, "vocab_size", json_integer(embedding->shape[0]));
  json_object_set_new(root, "tie_word_embeddings", json_boolean(!has(m->file, "output.weight")));
  json_object_set_new(root, "attention_bias", json_boolean(bias));
  json_object_set_new(root, "attention_out_bias", json_boolean(output));
  json_object_set_new(root, "use_bias", json_boolean(bias));
  json_object_set_new(root, "use_qkv_bias", json_boolean(bias));
  json_object_set_new(root, "use_parallel_residual", json_boolean(!has(m->file, "blk.0.ffn_norm.weight")));
  json_object_set_new(root, "mlp_bias", json_boolean(has(m->file, "blk.0.ffn_up.bias")));
  CH_TRY(ch_metadata_whole(m, "attention.key_length", false, &size));
  if (size) json_object_set_new(root, "head_dim", json_integer(size));
  CH_TRY(ch_metadata_whole(m, "expert_feed_forward_length", false, &size));
  if (strcmp(of->name, "gpt-oss") == 0 && size)
    json_object_set_new(root, "intermediate_size", json_integer(size));
  CH_TRY(put_rotary(m, of, root));
  if (of->widest_layers == 0 || heads < 1) return CH_OK;
  int64_t of_score = layers == of->widest_layers
                         ? json_integer_value(json_object_get(root, "hidden_size")) / heads
                         : json_integer_value(json_object_get(root, "head_dim"));
  json_object_set_new(root, "query_pre_attn_scalar", json_integer(of_score));
  return CH_OK;
}

static ch_status translate(ch_metadata *m, const struct architecture *of, json_t *root) {
  for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
    int64_t value = -1;
    CH_TRY(ch_metadata_of_layers(m, wholes[i].gguf, i < 5, &value));
    if (value >= 0 && (value > 0 || i < 5)) json_object_set_new(root, wholes[i].theirs, json_integer(value));
  }
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    double value = 0;
    CH_TRY(ch_metadata_number(m, numbers[i].gguf, false, &value));
    if (value != 0) json_object_set_new(root, numbers[i].theirs, json_real(value));
  }
  if (of->windowed && json_object_get(root, "sliding_window")) {
    json_object_set_new(root, "model_type", json_string(of->windowed));
    put_local_base(root);
  }
  put_layer_types(m, root);
  CH_TRY(put_scaling(m, of, root));
  if (strcmp(of->family, "phi3") == 0) CH_TRY(put_longrope(m, root));
  return put_rest(m, of, root);
}

ch_status ch_gguf_read_family(ch_metadata *m, ch_config *config) {
  const struct architecture *of = architecture_of(m->architecture, strlen(m->architecture));
  json_t *root = json_pack("{s:s}", "model_type", of->family);
  if (!root) return ch_no_memory(m->error);
  ch_status status = translate(m, of, root);
  char *text = status == CH_OK ? json_dumps(root, JSON_REAL_PRECISION(17)) : NULL;
  json_decref(root);
  CH_TRY(status);
  if (!text) return ch_no_memory(m->error);
  status = ch_config_parse(text, m->file->where, config, m->error);
  free(text);
  memset(config->layout, 0, sizeof config->layout); /* the tensors have GGUF's names and shapes */
  return status;
}
