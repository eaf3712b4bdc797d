/* Translates the configuration of an adopted Hugging Face family into Crosshead's keys. families.c reads the
   families that keep their own keys. */
#include "config_file/adopted_family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "base/json.h"
#include "config_file/config_json.h"
#include "config_file/rope_keys.h"

static ch_status read_phi3(const json_t *root, const char *where, json_t *ours, ch_error *error);
static ch_status read_smollm3(const json_t *root, const char *where, json_t *ours, ch_error *error);
static ch_status read_mixtral(const json_t *root, const char *where, json_t *ours, ch_error *error);
static ch_status read_gemma(const json_t *root, const char *where, json_t *ours, ch_error *error);
static ch_status read_gpt_oss(const json_t *root, const char *where, json_t *ours, ch_error *error);
static ch_status read_gpt2(const json_t *root, const char *where, json_t *ours, ch_error *error);
static ch_status read_stablelm(const json_t *root, const char *where, json_t *ours, ch_error *error);

const char ch_adopted_keys[] =
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "head_dim max_position_embeddings tie_word_embeddings";

const ch_adopted_family ch_adopted_families[] = {
    {"olmo2", "Olmo2ForCausalLM",
     "{\"norm_placement\": \"branch\", \"rms_norm_eps\": 1e-5, \"attention\": {\"qk_norm\": true, "
     "\"qk_norm_over\": \"all\"}}",
     "rms_norm_eps attention_bias attention_bias=attention_output_bias", "hidden_act", .gated = true},
    {"phi3", "Phi3ForCausalLM", "{\"rms_norm_eps\": 1e-5, \"max_position_embeddings\": 4096}", "rms_norm_eps",
     "hidden_act", .gated = true, .partial_rotary_factor = 1, .windows = true, .read = read_phi3,
     .write = ch_adopted_write_phi3},
    {"gpt2", "GPT2LMHeadModel",
     "{\"norm\": \"layernorm\", \"position\": \"learned\", \"attention_bias\": true, "
     "\"attention_output_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": true, "
     "\"max_position_embeddings\": 1024, \"hidden_act\": \"gelu_tanh\"}",
     "n_embd=hidden_size n_inner=intermediate_size n_layer=num_hidden_layers n_head=num_attention_heads "
     "n_positions=max_position_embeddings layer_norm_epsilon=layer_norm_eps",
     "activation_function", .square = true, .read = read_gpt2, .write = ch_adopted_write_gpt2},
    {"granite", "GraniteForCausalLM", "{\"rms_norm_eps\": 1e-6, \"attention_multiplier\": 1}",
     "rms_norm_eps attention_bias attention_bias=attention_output_bias mlp_bias embedding_multiplier "
     "residual_multiplier attention_multiplier logits_scaling",
     "hidden_act", .gated = true},
    {"smollm3", "SmolLM3ForCausalLM",
     "{\"rms_norm_eps\": 1e-6, \"num_key_value_heads\": 4, \"tie_word_embeddings\": true, "
     "\"rope_theta\": 2e6, \"max_position_embeddings\": 32768}",
     "rms_norm_eps attention_bias attention_bias=attention_output_bias mlp_bias", "hidden_act", .gated = true,
     .window_by_layer = true, .window_asked = true, .read = read_smollm3, .write = ch_adopted_write_smollm3},
    {"seed_oss", "SeedOssForCausalLM",
     "{\"rms_norm_eps\": 1e-6, \"num_key_value_heads\": 8, \"head_dim\": 128, \"attention_bias\": true, "
     "\"max_position_embeddings\": 524288}",
     "rms_norm_eps attention_bias attention_out_bias=attention_output_bias mlp_bias", "hidden_act",
     .gated = true},
    {"stablelm", "StableLmForCausalLM",
     "{\"norm\": \"layernorm\", \"num_key_value_heads\": 32, \"max_position_embeddings\": 4096}",
     "layer_norm_eps use_qkv_bias=attention_bias use_parallel_residual=parallel_residual", "hidden_act",
     .gated = true, .partial_rotary_factor = 0.25, .square = true, .read = read_stablelm},
    {"starcoder2", "Starcoder2ForCausalLM",
     "{\"norm\": \"layernorm\", \"num_key_value_heads\": 2, \"attention_bias\": true, "
     "\"attention_output_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": true, "
     "\"max_position_embeddings\": 4096, \"hidden_act\": \"gelu_tanh\"}",
     "norm_epsilon=layer_norm_eps use_bias=attention_bias use_bias=attention_output_bias use_bias=mlp_bias",
     "hidden_act", .gated = false, .windows = true},
    {"glm4", "Glm4ForCausalLM",
     "{\"norm_placement\": \"both\", \"rms_norm_eps\": 1.5625e-07, \"num_key_value_heads\": 2, "
     "\"head_dim\": 128, \"rope_interleaved\": true, \"max_position_embeddings\": 131072}",
     "rms_norm_eps attention_bias", "hidden_act", .gated = true, .partial_rotary_factor = 0.5},
    {"mixtral", "MixtralForCausalLM",
     "{\"rms_norm_eps\": 1e-5, \"num_key_value_heads\": 8, \"max_position_embeddings\": 131072, "
     "\"rope_theta\": 1e6}",
     "rms_norm_eps", "hidden_act", .gated = true, .windows = true, .read = read_mixtral,
     .write = ch_adopted_write_experts},
    {"gemma2", "Gemma2ForCausalLM",
     "{\"norm_placement\": \"both\", \"rms_norm_eps\": 1e-6, \"num_key_value_heads\": 4, \"head_dim\": 256, "
     "\"tie_word_embeddings\": true, \"max_position_embeddings\": 8192, \"hidden_act\": \"geglu_tanh\", "
     "\"attn_logit_softcapping\": 50, \"final_logit_softcapping\": 30}",
     "rms_norm_eps attention_bias attention_bias=attention_output_bias attn_logit_softcapping "
     "final_logit_softcapping",
     "hidden_activation", .gated = true, .window_by_layer = true, .window = 4096, .every = 2,
     .read = read_gemma, .write = ch_adopted_write_gemma},
    {"gemma3_text", "Gemma3ForCausalLM",
     "{\"norm_placement\": \"both\", \"rms_norm_eps\": 1e-6, \"num_key_value_heads\": 4, \"head_dim\": 256, "
     "\"tie_word_embeddings\": true, \"max_position_embeddings\": 131072, \"hidden_act\": \"geglu_tanh\", "
     "\"rope_theta\": 1e6, \"attention\": {\"qk_norm\": true}}",
     "rms_norm_eps attention_bias attention_bias=attention_output_bias final_logit_softcapping",
     "hidden_activation", .gated = true, .window_by_layer = true, .window = 4096, .every = 6,
     .local_theta = 10000, .older_keys = true, .read = read_gemma, .write = ch_adopted_write_gemma},
    {"olmo3", "Olmo3ForCausalLM",
     "{\"norm_placement\": \"branch\", \"rms_norm_eps\": 1e-5, \"rope_theta\": 5e5, \"attention\": "
     "{\"qk_norm\": true, \"qk_norm_over\": \"all\"}}",
     "rms_norm_eps attention_bias attention_bias=attention_output_bias", "hidden_act", .gated = true,
     .window_by_layer = true, .window = 4096, .every = 4, .local_theta = 5e5},
    {"gpt_oss", "GptOssForCausalLM",
     "{\"rms_norm_eps\": 1e-5, \"num_key_value_heads\": 8, \"head_dim\": 64, \"attention_bias\": true, "
     "\"attention_output_bias\": true, \"mlp_bias\": true, \"hidden_act\": \"clamped_swiglu\", "
     "\"max_position_embeddings\": 131072, \"rope_theta\": 150000, \"rope_scaling\": {\"rope_type\": "
     "\"yarn\", "
     "\"factor\": 32, \"truncate\": false, \"original_max_position_embeddings\": 4096}, \"attention\": "
     "{\"sink_logits\": true}}",
     "rms_norm_eps attention_bias attention_bias=attention_output_bias swiglu_alpha swiglu_limit", NULL,
     .window_by_layer = true, .window = 128, .every = 2, .read = read_gpt_oss,
     .write = ch_adopted_write_experts},
};

enum { FAMILIES = sizeof ch_adopted_families / sizeof *ch_adopted_families };

const int ch_adopted_family_count = FAMILIES;

static const ch_adopted_family *family_of(const char *model_type) {
  for (int i = 0; i < FAMILIES; i++)
    if (strcmp(model_type, ch_adopted_families[i].name) == 0) return &ch_adopted_families[i];
  return NULL;
}

bool ch_config_is_adopted(const char *model_type) {
  return family_of(model_type) != NULL;
}

bool ch_config_turns_by_layer(const char *model_type) {
  const ch_adopted_family *of = family_of(model_type);
  return of && of->local_theta != 0;
}

/* --- keys under other names ----------------------------------------------------------------------------- */

/* Copies a value over the family's default. null removes the default, so that Crosshead's default applies. */
static void take(const json_t *root, const char *theirs, json_t *ours, const char *name) {
  json_t *value = json_object_get(root, theirs);
  if (!value) return;
  if (json_is_null(value))
    json_object_del(ours, name);
  else
    json_object_set(ours, name, value);
}

const char *ch_adopted_next_key(const char *keys, char theirs[64], char ours[64]) {
  int length = (int)strcspn(keys, " "), first = (int)strcspn(keys, " =");
  snprintf(theirs, 64, "%.*s", first, keys);
  snprintf(ours, 64, "%.*s", first < length ? length - first - 1 : first,
           first < length ? keys + first + 1 : keys);
  return keys + length + (keys[length] == ' ');
}

static void take_all(const json_t *root, const char *keys, json_t *ours) {
  while (*keys) {
    char theirs[64], name[64];
    keys = ch_adopted_next_key(keys, theirs, name);
    take(root, theirs, ours, name);
  }
}

/* Reads a token id, or the first of a list. An id outside the vocabulary is ignored. */
static void take_id(const json_t *root, const char *name, json_t *ours) {
  json_t *value = json_object_get(root, name);
  int64_t id = -1, words = 0;
  if (json_is_array(value)) value = json_array_get(value, 0);
  if (!value || !ch_json_whole(value, &id) || !ch_json_whole(json_object_get(ours, "vocab_size"), &words))
    return;
  if (id >= 0 && id < words) json_object_set(ours, name, value);
}

/* Hugging Face's name of an activation, and Crosshead's names in networks with a gate and without. */
static const struct {
  const char *theirs, *gated, *plain;
} activations[] = {{"silu", "silu", NULL},
                   {"swish", "silu", NULL},
                   {"gelu", "geglu", "gelu"},
                   {"gelu_new", "geglu_tanh", "gelu_tanh"},
                   {"gelu_pytorch_tanh", "geglu_tanh", "gelu_tanh"},
                   {"relu", "reglu", "relu"},
                   {"relu2", "relu2_glu", "relu2"}};

enum { ACTIVATIONS = sizeof activations / sizeof *activations };

const char *ch_adopted_activation(const char *ours, bool gated) {
  for (int i = ACTIVATIONS - 1; i >= 0; i--) {
    const char *name = gated ? activations[i].gated : activations[i].plain;
    if (name && strcmp(name, ours) == 0 && strcmp(activations[i].theirs, "swish") != 0)
      return activations[i].theirs;
  }
  return NULL;
}

static ch_status take_activation(const json_t *root, const ch_adopted_family *of, const char *where,
                                 json_t *ours, ch_error *error) {
  const json_t *given = of->activation ? json_object_get(root, of->activation) : NULL;
  if (!given || json_is_null(given)) return CH_OK;
  for (int i = 0; i < ACTIVATIONS; i++) {
    const char *name = of->gated ? activations[i].gated : activations[i].plain;
    if (!name || !json_is_string(given) || strcmp(json_string_value(given), activations[i].theirs) != 0)
      continue;
    json_object_set_new(ours, "hidden_act", json_string(name));
    return CH_OK;
  }
  char shown[80];
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"%s\" is %s; it must be one of %s\"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", "
                 "\"relu\", \"relu2\"",
                 where, of->activation, ch_json_show(given, shown, sizeof shown),
                 of->gated ? "\"silu\", " : "");
}

/* --- rotation ------------------------------------------------------------------------------------------- */

static bool is_type(const json_t *rope, const char *type) {
  const char *given = json_string_value(json_object_get(rope, "rope_type"));
  if (!given) given = json_string_value(json_object_get(rope, "type"));
  return strcmp(given ? given : "default", type) == 0;
}

/* Finds the rotation of layers without a window in families with one rotation per type of layer. It is
   rope_parameters.full_attention, overridden by the keys of rope_scaling. Other members of rope_parameters have no
   effect in transformers. */
static ch_status rope_of_full_layers(const json_t *root, const char *where, json_t **rope, ch_error *error) {
  json_t *parameters = json_object_get(root, "rope_parameters"),
         *scaling = json_object_get(root, "rope_scaling"),
         *given = json_object_get(parameters, "full_attention");
  bool listed = json_is_object(given);
  if (json_is_object(parameters) && !listed && json_is_object(scaling))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"rope_scaling\" changes \"rope_parameters.full_attention\", which is missing; give "
                   "it, or leave one of the two objects out",
                   where);
  *rope = listed ? json_copy(given) : json_pack("{s:s}", "rope_type", "default");
  json_object_update(*rope, scaling);
  if (json_object_get(*rope, "rope_type")) json_object_del(*rope, "type");
  ch_config_settle_factor(root, NULL, *rope);
  return CH_OK;
}

/* Reads rope_parameters, or rope_scaling of older files, which have rope_theta and partial_rotary_factor at the top
   level. */
static void take_rope(const json_t *root, const json_t *rope, const ch_adopted_family *of, json_t *ours) {
  if (of->partial_rotary_factor) {
    json_object_set_new(ours, "partial_rotary_factor", json_real(of->partial_rotary_factor));
    take(root, "partial_rotary_factor", ours, "partial_rotary_factor");
  }
  take(root, "rope_theta", ours, "rope_theta");
  if (!json_is_object(rope)) return;
  take(rope, "rope_theta", ours, "rope_theta");
  if (of->partial_rotary_factor) take(rope, "partial_rotary_factor", ours, "partial_rotary_factor");
  json_object_del(ours, "rope_scaling"); /* the rotation in the file replaces the family's default */
  if (is_type(rope, "default")) return;
  json_t *scaling = json_copy((json_t *)rope);
  json_object_del(scaling, "rope_theta");
  json_object_del(scaling, "partial_rotary_factor");
  bool of_context = is_type(rope, "llama3") || is_type(rope, "yarn") || is_type(rope, "longrope");
  if (of_context && !json_object_get(scaling, "original_max_position_embeddings"))
    take(ours, "max_position_embeddings", scaling, "original_max_position_embeddings");
  json_object_set_new(ours, "rope_scaling", scaling);
}

/* Returns true if a layer has a window, in a family where some layers have one. */
static bool slides_in(const json_t *root, const ch_adopted_family *of, const json_t *ours, int64_t layer) {
  const json_t *types = json_object_get(root, "layer_types"), *nope = json_object_get(ours, "nope_layers");
  int64_t every = of->every;
  if (json_is_array(types)) {
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    return type && strcmp(type, "sliding_attention") == 0;
  }
  for (size_t i = 0; every == 0 && i < json_array_size(nope); i++)
    if (json_integer_value(json_array_get(nope, i)) == layer) return true;
  if (every && of->older_keys) ch_json_whole(json_object_get(root, "sliding_window_pattern"), &every);
  return every > 0 && (layer + 1) % every != 0;
}

/* Counts the layers with a window (`sliding`) or without one. */
static int64_t count_sliding(const json_t *root, const ch_adopted_family *of, const json_t *ours,
                             bool sliding) {
  int64_t layers = 0, count = 0;
  ch_json_whole(json_object_get(ours, "num_hidden_layers"), &layers);
  for (int64_t layer = 0; layer < layers && layer < CH_MAX_LISTED_LAYERS; layer++)
    count += slides_in(root, of, ours, layer) == sliding;
  return count;
}

static ch_status take_rotation(const json_t *root, const ch_adopted_family *of, const char *where,
                               json_t *ours, ch_error *error) {
  json_t *full = NULL, *rope = json_object_get(root, "rope_parameters");
  if (of->local_theta != 0)
    CH_TRY(rope_of_full_layers(root, where, &full, error));
  else if (!json_is_object(rope))
    rope = json_object_get(root, "rope_scaling");
  take_rope(root, full ? full : rope, of, ours);
  json_decref(full);
  if (of->local_theta != 0 && !json_object_get(ours, "rope_theta") && count_sliding(root, of, ours, false))
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"rope_theta\" is null; it must be a number", where);
  return CH_OK;
}

static ch_status check_types(const json_t *root, int64_t layers, const char *where, ch_error *error) {
  const json_t *types = json_object_get(root, "layer_types");
  bool right = !types || json_is_null(types) || (int64_t)json_array_size(types) == layers;
  for (size_t i = 0; right && i < json_array_size(types); i++) {
    const char *type = json_string_value(json_array_get(types, i));
    right = type && (strcmp(type, "full_attention") == 0 || strcmp(type, "sliding_attention") == 0);
  }
  if (right) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"layer_types\" must be a list of \"full_attention\" and \"sliding_attention\", one for each of "
      "%lld layers",
      where, (long long)layers);
}

/* Reads the rotation of layers with a window. They have their own base, and not the scaling of the others. */
static ch_status take_local_rope(const json_t *root, const ch_adopted_family *of, const char *where,
                                 json_t *ours, ch_error *error) {
  const json_t *given = json_object_get(json_object_get(root, "rope_parameters"), "sliding_attention");
  int64_t layers = 0;
  if (!of->window_by_layer || !ch_json_whole(json_object_get(ours, "num_hidden_layers"), &layers))
    return CH_OK;
  CH_TRY(check_types(root, layers, where, error));
  if (of->local_theta == 0) return CH_OK;
  json_t *theta = json_object_get(given, "rope_theta"), *list = json_array();
  if (!theta && of->older_keys) theta = json_object_get(root, "rope_local_base_freq");
  if (json_is_object(given) && !is_type(given, "default")) {
    json_decref(list);
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"rope_parameters.sliding_attention\" has a \"rope_type\", which is not supported; only "
        "\"default\" is",
        where);
  }
  for (int64_t layer = 0; layer < layers && layer < CH_MAX_LISTED_LAYERS; layer++)
    if (slides_in(root, of, ours, layer)) json_array_append_new(list, json_integer(layer));
  theta = theta ? json_deep_copy(theta) : json_real(of->local_theta);
  bool differs = json_object_get(ours, "rope_scaling") ||
                 json_number_value(theta) != json_number_value(json_object_get(ours, "rope_theta"));
  bool local = differs && json_array_size(list), number = json_is_number(theta);
  if (local) {
    json_object_set(ours, "local_rope_layers", list);
    json_object_set(ours, "local_rope_theta", theta);
  }
  json_decref(theta);
  json_decref(list);
  if (number || !local) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" must be a number", where,
                 json_object_get(given, "rope_theta") ? "rope_parameters.sliding_attention.rope_theta"
                                                      : "rope_local_base_freq");
}

/* Returns the length of the sliding window, or 0 if no layer has one. */
static int64_t window_of(const json_t *root, const ch_adopted_family *of, const json_t *ours) {
  const json_t *given = json_object_get(root, "sliding_window");
  int64_t window = given ? 0 : of->window;
  if (json_is_integer(given)) ch_json_whole(given, &window);
  const json_t *asked = json_object_get(root, "use_sliding_window");
  if (json_is_false(asked) || (of->window_asked && !json_is_true(asked)) ||
      (of->window_by_layer && !count_sliding(root, of, ours, true)))
    return 0;
  return window < INT32_MAX ? window : 0;
}

/* Reads the window and the layers that have it: all layers, or those selected by the family's keys. */
static ch_status take_window(const json_t *root, const ch_adopted_family *of, const json_t *ours,
                             const char *where, ch_config *config, ch_error *error) {
  bool listed = json_is_array(json_object_get(root, "layer_types")) && count_sliding(root, of, ours, true),
       asked = json_is_true(json_object_get(root, "use_sliding_window"));
  if (of->window_asked && listed && !asked && json_is_integer(json_object_get(root, "sliding_window")))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"layer_types\" names sliding_attention, but \"use_sliding_window\" is not true",
                   where);
  config->sliding_window = window_of(root, of, ours);
  if (!config->sliding_window || !of->window_by_layer) return CH_OK;
  if (config->num_hidden_layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"num_hidden_layers\" is %lld, but windows in some layers are supported for at most %d", where,
        (long long)config->num_hidden_layers, CH_MAX_LISTED_LAYERS);
  config->layer_types.count = config->num_hidden_layers;
  for (int64_t layer = 0; layer < config->num_hidden_layers; layer++)
    config->layer_types.type[layer] = slides_in(root, of, ours, layer) ? CH_LAYER_SLIDING : CH_LAYER_FULL;
  return CH_OK;
}

/* --- families ------------------------------------------------------------------------------------------- */

/* Fails with a message that a key has another value than `needed`. */
static ch_status refuse(const json_t *root, const char *key, const char *needed, const char *where,
                        ch_error *error) {
  char shown[80];
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" is %s, which is not supported; only %s is", where, key,
                 ch_json_show(json_object_get(root, key), shown, sizeof shown), needed);
}

/* Reads phi3. "su" and "yarn" are older names of longrope here. An original context outside the rope_scaling object
   takes precedence. */
static ch_status read_phi3(const json_t *root, const char *where, json_t *ours, ch_error *error) {
  json_t *scaling = json_object_get(ours, "rope_scaling");
  (void)where, (void)error;
  if (!scaling) return CH_OK;
  if (is_type(scaling, "su") || is_type(scaling, "yarn")) {
    json_object_del(scaling, "type");
    json_object_set_new(scaling, "rope_type", json_string("longrope"));
  }
  if (!json_object_get(root, "original_max_position_embeddings"))
    json_object_set_new(scaling, "original_max_position_embeddings", json_integer(4096));
  take(root, "original_max_position_embeddings", scaling, "original_max_position_embeddings");
  return CH_OK;
}

/* Reads smollm3. no_rope_layers has a 0 for a layer without rotation. Without the list, every
   no_rope_layer_interval-th layer has none, by default every fourth. */
static ch_status read_smollm3(const json_t *root, const char *where, json_t *ours, ch_error *error) {
  const json_t *list = json_object_get(root, "no_rope_layers"),
               *given = json_object_get(root, "no_rope_layer_interval");
  int64_t layers = 0, interval = 4;
  if (!ch_json_whole(json_object_get(ours, "num_hidden_layers"), &layers)) return CH_OK;
  bool listed = list && !json_is_null(list);
  if (given && !json_is_null(given) && (!ch_json_whole(given, &interval) || interval < 1))
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"no_rope_layer_interval\" must be a whole number from 1",
                   where);
  if (listed && (int64_t)json_array_size(list) != layers)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"no_rope_layers\" must be a list of %lld numbers, 0 or 1, one per layer", where,
                   (long long)layers);
  json_t *nope = json_array();
  for (int64_t layer = 0; layer < layers && layer < CH_MAX_LISTED_LAYERS; layer++) {
    int64_t turns = (layer + 1) % interval != 0;
    if (listed && (!ch_json_whole(json_array_get(list, (size_t)layer), &turns) || turns < 0 || turns > 1)) {
      json_decref(nope);
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"no_rope_layers\" must be a list of %lld numbers, 0 or 1, one per layer", where,
                     (long long)layers);
    }
    if (!turns) json_array_append_new(nope, json_integer(layer));
  }
  if (json_array_size(nope)) json_object_set(ours, "nope_layers", nope);
  json_decref(nope);
  return CH_OK;
}

static ch_status read_gpt2(const json_t *root, const char *where, json_t *ours, ch_error *error) {
  int64_t width = 0;
  if (json_is_true(json_object_get(root, "scale_attn_by_inverse_layer_idx")))
    return refuse(root, "scale_attn_by_inverse_layer_idx", "false", where, error);
  if (json_is_true(json_object_get(root, "add_cross_attention")))
    return refuse(root, "add_cross_attention", "false", where, error);
  if (json_is_false(json_object_get(root, "scale_attn_weights")))
    json_object_set_new(ours, "attention_multiplier", json_integer(1));
  if (!json_object_get(ours, "intermediate_size") &&
      ch_json_whole(json_object_get(ours, "hidden_size"), &width) && width > 0 && width < INT32_MAX)
    json_object_set_new(ours, "intermediate_size", json_integer(4 * width));
  return CH_OK;
}

static ch_status read_stablelm(const json_t *root, const char *where, json_t *ours, ch_error *error) {
  (void)ours;
  return json_is_true(json_object_get(root, "qk_layernorm"))
             ? refuse(root, "qk_layernorm", "false", where, error)
             : CH_OK;
}

/* Reads experts. Every layer has them, and their weights add up to 1. `moe` holds the class's defaults. */
static ch_status read_experts(const json_t *root, const char *where, json_t *moe, json_t *ours,
                              ch_error *error) {
  int64_t active = 0;
  take(root, "num_local_experts", moe, "experts");
  take(root, "num_experts_per_tok", moe, "active");
  take(root, "intermediate_size", moe, "expert_intermediate_size");
  take(root, "router_aux_loss_coef", moe, "aux_coefficient");
  if (json_number_value(json_object_get(moe, "aux_coefficient")) == 0) {
    json_object_del(moe, "aux_coefficient");
    json_object_set_new(moe, "balance", json_string("none"));
  }
  json_object_set_new(ours, "moe", moe);
  if (ch_json_whole(json_object_get(moe, "active"), &active) && active == 1)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"num_experts_per_tok\" is 1, so its weight would always be 1; it must be at least 2",
                   where);
  return CH_OK;
}

static ch_status read_mixtral(const json_t *root, const char *where, json_t *ours, ch_error *error) {
  return read_experts(root, where,
                      json_pack("{s:i, s:i, s:f}", "experts", 8, "active", 2, "aux_coefficient", 0.001), ours,
                      error);
}

static ch_status read_gpt_oss(const json_t *root, const char *where, json_t *ours, ch_error *error) {
  return read_experts(root, where,
                      json_pack("{s:i, s:i, s:f, s:b}", "experts", 128, "active", 4, "aux_coefficient", 0.001,
                                "router_bias", 1),
                      ours, error);
}

/* Reads Gemma's scales: 1 / sqrt(query_pre_attn_scalar) of scores, and sqrt(hidden_size) of embeddings. */
static ch_status read_gemma(const json_t *root, const char *where, json_t *ours, ch_error *error) {
  const json_t *given = json_object_get(root, "query_pre_attn_scalar");
  double scalar = given ? json_number_value(given) : 256,
         width = json_number_value(json_object_get(ours, "hidden_size"));
  if (json_is_true(json_object_get(root, "use_bidirectional_attention")))
    return refuse(root, "use_bidirectional_attention", "false", where, error);
  if (!(scalar > 0))
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"query_pre_attn_scalar\" must be a number above 0", where);
  json_object_set_new(ours, "attention_multiplier", json_real(1 / sqrt(scalar)));
  if (width > 0) json_object_set_new(ours, "embedding_multiplier", json_real(sqrt(width)));
  return CH_OK;
}

/* --- the whole file ------------------------------------------------------------------------------------- */

/* Returns true for a value that exists and is neither null nor an object. */
static bool is_no_rotation(const json_t *value) {
  return value && !json_is_null(value) && !json_is_object(value);
}

/* Checks keys that all families have. Fails for values that Crosshead cannot express. */
static ch_status check_forms(const json_t *root, const char *where, ch_error *error) {
  static const char *const scalings[] = {"rope_parameters", "rope_scaling"};
  const json_t *window = json_object_get(root, "sliding_window"), *given = NULL;
  int64_t size = 1;
  char shown[80];
  if (window && !json_is_null(window) && (!ch_json_whole(window, &size) || size < 1))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"sliding_window\" is %s; it must be a whole number from 1 or null", where,
                   ch_json_show(window, shown, sizeof shown));
  for (int i = 0; i < 2; i++) {
    given = json_object_get(root, scalings[i]);
    const json_t *full = json_object_get(given, "full_attention"),
                 *slides = json_object_get(given, "sliding_attention");
    if (json_is_object(given) && (is_no_rotation(full) || is_no_rotation(slides)))
      return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" by types of layers needs an object {...} for each",
                     where, scalings[i]);
    if (given && !json_is_null(given) && !json_is_object(given))
      return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" is %s; it must be an object {...}", where,
                     scalings[i], ch_json_show(given, shown, sizeof shown));
  }
  return CH_OK;
}

static ch_status translate(const json_t *root, const ch_adopted_family *of, const char *where, json_t *ours,
                           ch_error *error) {
  CH_TRY(check_forms(root, where, error));
  take_all(root, ch_adopted_keys, ours);
  take_all(root, of->keys, ours);
  take_id(root, "bos_token_id", ours);
  take_id(root, "eos_token_id", ours);
  CH_TRY(take_activation(root, of, where, ours, error));
  const char *position = json_string_value(json_object_get(ours, "position"));
  if (!position || strcmp(position, "rope") == 0) CH_TRY(take_rotation(root, of, where, ours, error));
  CH_TRY(take_local_rope(root, of, where, ours, error));
  if (of->read) CH_TRY(of->read(root, where, ours, error));
  return CH_OK;
}

ch_status ch_config_adopt(const json_t *root, const char *where, ch_config *config, ch_error *error) {
  const ch_adopted_family *of = family_of(config->model_type);
  json_t *ours = NULL;
  CH_TRY(ch_json_parse(of->assumed, strlen(of->assumed), of->name, &ours, error));
  ch_config_defaults(config);
  ch_config_set_mechanism(config, "gqa");
  json_object_set_new(ours, "model_type", json_string("crosshead"));
  ch_status status = translate(root, of, where, ours, error);
  if (status == CH_OK) status = ch_config_read_group(ours, "", "", CH_KEY_OURS, true, where, config, error);
  if (status == CH_OK) status = take_window(root, of, ours, where, config, error);
  json_decref(ours);
  memset(config->layout, 0, sizeof config->layout);
  snprintf(config->layout, sizeof config->layout, "%s", of->name);
  return status;
}
