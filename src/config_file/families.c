/* Reads, checks and writes Hugging Face configurations by the defaults of each family and the features that its classes
 * fix. Refuses quantised models. */
#include "config_file/families.h"

#include <stdio.h>
#include <string.h>

#include "config_file/rope_keys.h"
#include "config_file/adopted.h"
#include "config_file/config_json.h"
#include "config_file/deepseek.h"
#include "config_file/qwen3_moe.h"

typedef enum bias_rule {
  BIAS_NEVER,      /* no biases; attention_bias has no effect */
  BIAS_QKV_ALWAYS, /* biases of q, k and v; attention_bias has no effect */
  BIAS_WHEN_ASKED  /* biases of q, k, v and o if attention_bias is true */
} bias_rule;

/* A family: the defaults of its configuration class (0: those of every family), and its features. */
typedef struct family {
  const char *name, *architecture;
  int64_t num_key_value_heads, head_dim, max_position_embeddings;
  int64_t sliding_window; /* default length; 0: the family has no window */
  bool window_asked;      /* true if the window needs use_sliding_window */
  bool window_by_layer;   /* true if only layers named by layer_types have the window */
  bool qk_norm;
  bool experts;  /* true if qwen3_moe.h reads the experts */
  bool mlp_bias; /* true if the key mlp_bias has an effect */
  bias_rule biases;
  const ch_deepseek_family *deepseek; /* defaults of a DeepSeek family; NULL: another family */
} family;

static const family families[] = {
    {"llama", "LlamaForCausalLM", .max_position_embeddings = 2048, .mlp_bias = true,
     .biases = BIAS_WHEN_ASKED},
    {"qwen2", "Qwen2ForCausalLM", .num_key_value_heads = 32, .max_position_embeddings = 32768,
     .sliding_window = 4096, .window_asked = true, .window_by_layer = true, .biases = BIAS_QKV_ALWAYS},
    {"qwen3", "Qwen3ForCausalLM", .num_key_value_heads = 32, .head_dim = 128,
     .max_position_embeddings = 32768, .sliding_window = 4096, .window_asked = true, .window_by_layer = true,
     .qk_norm = true, .biases = BIAS_WHEN_ASKED},
    {"qwen3_moe", "Qwen3MoeForCausalLM", .num_key_value_heads = 4, .max_position_embeddings = 32768,
     .sliding_window = 4096, .window_asked = true, .qk_norm = true, .experts = true,
     .biases = BIAS_WHEN_ASKED},
    {"mistral", "MistralForCausalLM", .num_key_value_heads = 8, .max_position_embeddings = 131072,
     .sliding_window = 4096, .biases = BIAS_NEVER},
    {"deepseek_v2", "DeepseekV2ForCausalLM", .max_position_embeddings = 2048, .biases = BIAS_WHEN_ASKED,
     .deepseek = &ch_deepseek_v2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", .max_position_embeddings = 4096, .biases = BIAS_WHEN_ASKED,
     .deepseek = &ch_deepseek_v3},
};

enum { FAMILIES = sizeof families / sizeof *families };

static const family *family_of(const ch_config *config) {
  for (int i = 0; i < FAMILIES; i++)
    if (strcmp(config->model_type, families[i].name) == 0) return &families[i];
  return NULL;
}

/* Reads which layers of a Qwen config have the window if it is in use: the layers that layer_types marks as sliding or,
 * without layer_types, the layers from max_window_layers on. */
static ch_status read_sliding_layers(const json_t *root, const char *where, ch_config *config, bool *any,
                                     ch_error *error) {
  const json_t *types = json_object_get(root, "layer_types");
  ch_layer_list *list = &config->layer_types;
  int64_t first = 28;
  *any = false;
  if (!types || json_is_null(types)) {
    const json_t *given = json_object_get(root, "max_window_layers");
    if (given && !ch_json_whole(given, &first))
      return ch_fail(error, CH_ERROR_CONFIG, "%s: \"max_window_layers\" must be a whole number", where);
    *any = first < config->num_hidden_layers;
    list->count =
        config->num_hidden_layers < CH_MAX_LISTED_LAYERS ? config->num_hidden_layers : CH_MAX_LISTED_LAYERS;
    for (int64_t i = 0; i < list->count; i++) list->type[i] = i < first ? CH_LAYER_FULL : CH_LAYER_SLIDING;
    return CH_OK;
  }
  if ((int64_t)json_array_size(types) != config->num_hidden_layers ||
      config->num_hidden_layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"layer_types\" must be a list of %lld names, one per layer",
                   where, (long long)config->num_hidden_layers);
  for (size_t i = 0; i < json_array_size(types); i++) {
    const char *type = json_string_value(json_array_get(types, i));
    bool sliding = type && strcmp(type, "sliding_attention") == 0;
    if (!sliding && (!type || strcmp(type, "full_attention") != 0)) {
      char shown[80];
      return ch_fail(
          error, CH_ERROR_CONFIG,
          "%s: \"layer_types\" has %s; each entry must be \"full_attention\" or \"sliding_attention\"", where,
          ch_json_show(json_array_get(types, i), shown, sizeof shown));
    }
    list->type[i] = sliding ? CH_LAYER_SLIDING : CH_LAYER_FULL;
    *any = *any || sliding;
  }
  list->count = config->num_hidden_layers;
  return CH_OK;
}

static ch_status settle_window(const json_t *root, const family *of, const char *where, ch_config *config,
                               ch_error *error) {
  if (!of->sliding_window) config->sliding_window = 0;
  if (!of->window_asked) return CH_OK;
  const json_t *use = json_object_get(root, "use_sliding_window");
  if (use && !json_is_boolean(use) && !json_is_null(use))
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"use_sliding_window\" must be true or false", where);
  bool any = true;
  if (of->window_by_layer) CH_TRY(read_sliding_layers(root, where, config, &any, error));
  if (of->window_by_layer && any && json_is_array(json_object_get(root, "layer_types")) && !json_is_true(use))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"layer_types\" names sliding_attention, but \"use_sliding_window\" is not true",
                   where);
  if (any && json_is_true(use) && config->sliding_window) {
    if (config->num_hidden_layers <= CH_MAX_LISTED_LAYERS) return CH_OK;
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"num_hidden_layers\" is %lld, but windows in some layers (\"use_sliding_window\") are "
        "supported for at most %d",
        where, (long long)config->num_hidden_layers, CH_MAX_LISTED_LAYERS);
  }
  config->sliding_window = 0;
  config->layer_types = (ch_layer_list){.count = 0};
  return CH_OK;
}

/* Reads a Vision Transformer as Crosshead's own. Only its tensors have other names (io/tensor_names.h). */
static ch_status read_vit(const json_t *root, const char *where, ch_config *config, ch_error *error) {
  const json_t *bias = json_object_get(root, "qkv_bias");
  config->layer_norm_eps = 1e-12;
  config->attention_bias = config->attention_output_bias = true;
  CH_TRY(ch_config_read_group(root, "", "", CH_KEY_HUGGING_FACE, false, where, config, error));
  if (bias && !json_is_true(bias))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"qkv_bias\" is not true; a bias on the output projection alone is not supported",
                   where);
  if (!config->num_classes)
    config->num_classes = (int64_t)json_object_size(json_object_get(root, "id2label"));
  if (!config->num_classes) config->num_classes = 2; /* the class's default */
  ch_config ours;
  ch_config_defaults_for_images(&ours);
  memcpy(config->model_type, ours.model_type, sizeof config->model_type);
  return CH_OK;
}

/* --- rotation ------------------------------------------------------------------------------------------- */

static const char of_layers[2][20] = {"full_attention", "sliding_attention"};

/* Returns the rotation of all layers: `rope` itself if it does not distinguish types of layers, else the rotation that
   its types of layers have in common. NULL if the types have different rotations. */
static json_t *same_in_all_layers(json_t *rope) {
  json_t *of[2];
  for (int i = 0; i < 2; i++) of[i] = json_object_get(rope, of_layers[i]);
  if (!json_is_object(of[0]) && !json_is_object(of[1])) return rope;
  if (of[0] && of[1] && !json_is_null(of[0]) && !json_is_null(of[1]) && !json_equal(of[0], of[1]))
    return NULL;
  return json_is_object(of[0]) ? of[0] : of[1];
}

static bool scales_by_context(const json_t *rope) {
  const char *name = ch_config_rope_type(rope);
  return name && (strcmp(name, "llama3") == 0 || strcmp(name, "yarn") == 0 || strcmp(name, "longrope") == 0);
}

/* Sets *settled to a copy in which one object describes the rotation. transformers prefers "rope_scaling" to
   "rope_parameters", and the original context at the top level to the one in the object. In families with two rotations
   the copy is unchanged. */
static ch_status settle_rotation(const json_t *root, const char *where, const char *model_type,
                                 json_t **settled, ch_error *error) {
  static const char original[] = "original_max_position_embeddings";
  json_t *copy = *settled = json_copy((json_t *)root);
  if (!copy) return ch_no_memory(error);
  if (ch_config_turns_by_layer(model_type)) return CH_OK;
  const char *name =
      json_object_size(json_object_get(root, "rope_scaling")) ? "rope_scaling" : "rope_parameters";
  json_t *given = json_object_get(root, name), *context = json_object_get(root, original);
  if (!json_is_object(given)) return CH_OK;
  json_t *rope = same_in_all_layers(given);
  if (!rope)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"%s\" differs between types of layers, which \"%s\" does not support; it must be the "
        "same for all layers",
        where, name, model_type);
  rope = json_copy(rope);
  ch_config_settle_factor(root, context, rope);
  if (context && !json_is_null(context) && scales_by_context(rope)) json_object_set(rope, original, context);
  if (strcmp(name, "rope_scaling") == 0) json_object_del(copy, "rope_parameters");
  return json_object_set_new(copy, name, rope) == 0 ? CH_OK : ch_no_memory(error);
}

static ch_status read_settled(const json_t *root, const char *where, ch_config *config, ch_error *error) {
  if (ch_config_is_adopted(config->model_type)) return ch_config_adopt(root, where, config, error);
  const family *of = family_of(config);
  config->num_key_value_heads = of->num_key_value_heads;
  config->head_dim = of->head_dim;
  config->max_position_embeddings = of->max_position_embeddings;
  config->sliding_window = of->sliding_window;
  config->rms_norm_eps = 1e-6;
  CH_TRY(ch_config_read_group(root, "", "", CH_KEY_HUGGING_FACE, false, where, config, error));
  if (of->deepseek) CH_TRY(ch_config_read_deepseek(of->deepseek, root, where, config, error));
  if (of->experts) CH_TRY(ch_config_read_qwen3_moe(root, where, config, error));
  CH_TRY(settle_window(root, of, where, config, error));
  config->attention.qk_norm = of->qk_norm;
  bool asked = config->attention_bias && of->biases == BIAS_WHEN_ASKED;
  config->attention_bias = asked || of->biases == BIAS_QKV_ALWAYS;
  config->attention_output_bias = asked;
  ch_rope_scaling *scaling = &config->rope_scaling;
  if (scaling->type == CH_ROPE_DEFAULT) *scaling = (ch_rope_scaling){.truncate = true};
  bool of_context =
      scaling->type == CH_ROPE_LLAMA3 || scaling->type == CH_ROPE_YARN || scaling->type == CH_ROPE_LONGROPE;
  if (of_context && !scaling->original_max_position_embeddings)
    scaling->original_max_position_embeddings = config->max_position_embeddings;
  return CH_OK;
}

/* --- quantised models ----------------------------------------------------------------------------------- */

/* transformers' names of the methods, and their usual names. */
static const char *const methods[][2] = {{"gptq", "GPTQ"},
                                         {"awq", "AWQ"},
                                         {"bitsandbytes", "bitsandbytes"},
                                         {"fp8", "FP8"},
                                         {"fbgemm_fp8", "FP8 (FBGEMM)"},
                                         {"compressed-tensors", "compressed-tensors"},
                                         {"mxfp4", "MXFP4"},
                                         {"modelopt", "ModelOpt"},
                                         {"auto-round", "AutoRound"},
                                         {"quanto", "Quanto"},
                                         {"torchao", "torchao"},
                                         {"hqq", "HQQ"},
                                         {"aqlm", "AQLM"},
                                         {"eetq", "EETQ"},
                                         {"higgs", "HIGGS"},
                                         {"vptq", "VPTQ"},
                                         {"spqr", "SpQR"},
                                         {"bitnet", "BitNet"},
                                         {"quark", "Quark"},
                                         {"exl2", "EXL2"},
                                         {"exl3", "EXL3"}};

/* Returns the usual name of an object's quantisation method, or NULL. *name receives transformers' name. Older files of
   bitsandbytes have "load_in_8bit" or "load_in_4bit" instead of "quant_method". */
static const char *method_of(const json_t *object, const char **name) {
  const char *given = json_string_value(json_object_get(object, "quant_method"));
  bool bits = json_object_get(object, "load_in_8bit") || json_object_get(object, "load_in_4bit");
  *name = given ? given : bits ? "bitsandbytes" : NULL;
  for (size_t i = 0; *name && i < sizeof methods / sizeof *methods; i++)
    if (strcmp(methods[i][0], *name) == 0) return methods[i][1];
  return NULL;
}

/* Fails for weights that another program quantised, except the MXFP4 of gpt-oss. */
static ch_status refuse_quantised(const json_t *root, const char *where, const char *model_type,
                                  ch_error *error) {
  static const char *const keys[] = {"quantization_config", "compression_config"};
  const char *name, *key = keys[0];
  const json_t *given = json_object_get(root, key);
  if (!given || json_is_null(given)) given = json_object_get(root, key = keys[1]);
  if (!given || json_is_null(given)) return CH_OK;
  const char *method = method_of(given, &name);
  char shown[80], bits[32] = "", quoted[90] = "";
  int64_t count = 0;
  if (name && strcmp(name, "mxfp4") == 0 && strcmp(model_type, "gpt_oss") == 0) return CH_OK;
  if (ch_json_whole(json_object_get(given, "bits"), &count) && count > 0 && count < 17)
    snprintf(bits, sizeof bits, " in %d bits", (int)count);
  if (!method && name)
    snprintf(quoted, sizeof quoted, "the method %s", ch_json_quote(name, shown, sizeof shown));
  if (!method && !name) snprintf(quoted, sizeof quoted, "a method that it does not name");
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"%s\" says that the weights are quantised by %s%s, which is not supported; use an unquantised "
      "copy of the model, which `crosshead quantize` can turn into Q8_0, Q6_K, Q4_K or Q4_0",
      where, key, method ? method : quoted, bits);
}

ch_status ch_config_read_family(const json_t *root, const char *where, ch_config *config, ch_error *error) {
  json_t *settled = NULL;
  CH_TRY(refuse_quantised(root, where, config->model_type, error));
  if (ch_config_is_vision(config)) return read_vit(root, where, config, error);
  ch_status status = settle_rotation(root, where, config->model_type, &settled, error);
  if (status == CH_OK) status = read_settled(settled, where, config, error);
  json_decref(settled);
  return status;
}

ch_status ch_config_check_family(const ch_config *config, const char *where, ch_error *error) {
  const family *of = family_of(config);
  const char *problem = NULL;
  bool bias = config->attention_bias, output = config->attention_output_bias;
  if (!of)
    problem = ch_config_is_vision(config) && output != bias ? "attention_output_bias" : NULL;
  else if (config->position != CH_POSITION_ROPE)
    problem = "position";
  else if (config->rope_interleaved && !of->deepseek)
    problem = "rope_interleaved";
  else if (strcmp(config->hidden_act, "silu") != 0)
    problem = "hidden_act";
  else if (config->mlp_bias && !of->mlp_bias)
    problem = "mlp_bias";
  else if (strcmp(config->norm, "rmsnorm") != 0)
    problem = "norm";
  else if (config->norm_placement != CH_NORM_PRE)
    problem = "norm_placement";
  else if (strcmp(config->attention.type, of->deepseek ? "mla" : "gqa") != 0)
    problem = "attention.type";
  else if (ch_heads_differ(config))
    problem = config->attention.num_key_heads ? "attention.num_key_heads" : "attention.num_value_heads";
  else if (config->sharing.type != CH_SHARING_NONE)
    problem = "sharing";
  else if (config->attention.head_norm)
    problem = "attention.head_norm";
  else if (config->attention.exclusive)
    problem = "attention.exclusive";
  else if (config->attention.knocking.on)
    problem = "attention.knocking";
  else if (config->attention.head_mix.on)
    problem = "attention.head_mix";
  else if (config->moe.experts && !of->deepseek && !of->experts)
    problem = "moe";
  else if (config->sliding_window && !of->sliding_window)
    problem = "sliding_window";
  else if (config->layer_types.count && (!of->window_by_layer || config->linear_attention.type))
    problem = "layer_types";
  else if (config->attention_sinks)
    problem = "attention_sinks";
  else if (config->attention.sink_logits)
    problem = "attention.sink_logits";
  else if (config->attention.kv_layer_group != 1)
    problem = "attention.kv_layer_group";
  else if (config->attention.qk_norm != of->qk_norm)
    problem = "attention.qk_norm";
  else if (bias != (of->biases == BIAS_QKV_ALWAYS || (of->biases == BIAS_WHEN_ASKED && bias)) ||
           output != (of->biases == BIAS_WHEN_ASKED && bias))
    problem = "attention_bias";
  else if (of->deepseek)
    problem = ch_config_check_deepseek(of->deepseek, config);
  else if (of->experts)
    problem = ch_config_check_qwen3_moe(config);
  if (!problem) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: model_type \"%s\" cannot express this \"%s\"; use \"crosshead\"", where,
                 config->model_type, problem);
}

void ch_config_spell_family(ch_config *config) {
  const family *of = family_of(config);
  config->init = CH_INIT_DEFAULT; /* families do not store the initialisation */
  config->parametrization = CH_PARAMETRIZATION_STANDARD;
  memset(config->layout, 0, sizeof config->layout); /* written files have Crosshead's names of tensors */
  if (of && of->deepseek) ch_config_spell_deepseek(of->deepseek, config);
}

/* Writes Qwen's keys for the layers with a sliding window. */
static void put_sliding_layers(const ch_config *config, ch_text *json) {
  ch_text_puts(json, ",\n  \"max_window_layers\": 0,\n  \"layer_types\": [");
  for (int64_t i = 0; i < config->num_hidden_layers; i++)
    ch_text_printf(json, "%s\"%s_attention\"", i ? ", " : "",
                   ch_layer_slides(config, (int)i) ? "sliding" : "full");
  ch_text_puts(json, "]");
}

void ch_config_put_family(const ch_config *config, ch_text *json) {
  const family *of = family_of(config);
  ch_text_printf(json, "{\n  \"architectures\": [\"%s\"],", of->architecture);
  ch_config_put_group("", 2, CH_KEY_HUGGING_FACE, config, json);
  if (of->deepseek) ch_config_put_deepseek(of->deepseek, config, json);
  if (of->experts) ch_config_put_qwen3_moe(config, json);
  if (of->window_asked)
    ch_text_printf(json, ",\n  \"use_sliding_window\": %s", config->sliding_window ? "true" : "false");
  if (of->window_by_layer && config->sliding_window) put_sliding_layers(config, json);
  if (of->sliding_window && !config->sliding_window) ch_text_puts(json, ",\n  \"sliding_window\": null");
  ch_text_puts(json, "\n}\n");
}
