/* Writes config.json for transformers, and the PyTorch code of the model. */
#include "formats/transformers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "config_file/config_json.h"
#include "io/model_files.h"

/* --- tensors -------------------------------------------------------------------------------------------- */

enum { NAME_SIZE = 192 };

/* Writes the name with a star in place of the numbers of layer and expert. Returns the layer, or 0. */
static int64_t pattern_of(const char *name, char pattern[NAME_SIZE]) {
  static const char *const counted[] = {"model.layers.", ".experts."};
  int64_t layer = 0;
  snprintf(pattern, NAME_SIZE, "%s", name);
  for (int i = 0; i < 2; i++) {
    char *at = strstr(pattern, counted[i]);
    if (!at) continue;
    char *number = at + strlen(counted[i]), *rest = NULL, tail[NAME_SIZE];
    int64_t value = strtoll(number, &rest, 10);
    if (i == 0) layer = value;
    snprintf(tail, sizeof tail, "%s", rest);
    snprintf(number, NAME_SIZE - (size_t)(number - pattern), "*%s", tail);
  }
  return layer;
}

/* Stores a number for a layer: a single number while all layers are equal, else a list by layer. The list has null for
   layers without the tensor that come after the first difference. Experts of one layer have equal numbers. Returns false
   if out of memory. */
static bool put_for_layer(json_t *row, const char *key, int64_t layer, double value) {
  json_t *old = json_object_get(row, key);
  if (!old) return json_object_set_new(row, key, ch_json_finite(value)) == 0;
  if (json_is_number(old) && json_number_value(old) == value) return true;
  if (json_is_number(old)) {
    json_t *list = json_array();
    bool good = true;
    for (int64_t i = 0; i < layer; i++) good &= json_array_append(list, old) == 0;
    if (json_object_set_new(row, key, list) != 0 || !good) return false;
    old = list;
  }
  bool good = true;
  while (good && (int64_t)json_array_size(old) < layer) good = json_array_append_new(old, json_null()) == 0;
  return good &&
         ((int64_t)json_array_size(old) > layer || json_array_append_new(old, ch_json_finite(value)) == 0);
}

static const char *init_name(const ch_param *param) {
  static const char *const names[] = {
      [CH_PARAM_INIT_NORMAL] = "normal",         [CH_PARAM_INIT_CONSTANT] = "constant",
      [CH_PARAM_INIT_UNIFORM] = "uniform",       [CH_PARAM_INIT_DECAY_RATE] = "decay_rate",
      [CH_PARAM_INIT_DECAY_BIAS] = "decay_bias", [CH_PARAM_INIT_ONE_HOT] = "one_hot"};
  return names[param->init];
}

/* Stores the initialisation, weight decay and learning rate factor of a tensor. Tensors that differ only in the
   numbers of layers and experts share one entry. Returns false if out of memory. */
static bool put_start(json_t *rows, const ch_param *param) {
  char pattern[NAME_SIZE];
  int64_t layer = pattern_of(param->name, pattern);
  json_t *row = json_object_get(rows, pattern);
  if (!row) {
    row = json_pack("{ss sb}", "init", init_name(param), "decay", param->decay);
    if (json_object_set_new(rows, pattern, row) != 0) return false;
    if (param->decay_to_identity && json_object_set_new(row, "decay_to_identity", json_true()) != 0)
      return false;
  }
  return put_for_layer(row, "std", layer, param->std) && put_for_layer(row, "start", layer, param->start) &&
         put_for_layer(row, "rate", layer, param->lr_factor) &&
         (param->init != CH_PARAM_INIT_ONE_HOT ||
          put_for_layer(row, "hot", layer, param->hot > 0 ? param->hot : 1));
}

/* Writes the size of a factor or dictionary. A configuration may leave it to the tensors. Returns false if out of
   memory. */
static bool put_rank(json_t *ranks, const ch_param *param) {
  const char *name = param->name;
  bool first =
           ch_ends_with(name, ".a.weight") || ch_ends_with(name, ".atoms") || ch_ends_with(name, ".basis"),
       second = ch_ends_with(name, ".b.weight") && !ch_ends_with(name, ".residual.b.weight");
  return !(first || second) ||
         json_object_set_new(ranks, name, json_integer((json_int_t)param->shape[first ? 0 : 1])) == 0;
}

/* Returns the member "pytorch" of config.json: facts about tensors that the code needs and no other key has. Returns NULL
   if out of memory. */
static json_t *tensors_to_json(const ch_params *params) {
  json_t *tensors = json_object(), *ranks = json_object();
  bool good = true;
  for (int i = 0; good && i < params->count; i++)
    good = put_start(tensors, &params->rows[i]) && put_rank(ranks, &params->rows[i]);
  json_t *root = json_pack("{so so}", "tensors", tensors, "ranks", ranks);
  if (good) return root;
  json_decref(root);
  return NULL;
}

/* Returns true if the family's class cannot load the model. Llama's and DeepSeek-V2's classes need a hidden_size
   that is a multiple of the number of heads, whatever head_dim is. DeepSeek's classes always have a shared expert.
   V3's needs at least two experts; V2's does not renormalise the weights of experts. */
static bool too_much_for_class(const ch_config *c) {
  const ch_moe_config *m = &c->moe;
  bool v2 = strcmp(c->model_type, "deepseek_v2") == 0, v3 = strcmp(c->model_type, "deepseek_v3") == 0;
  if ((v2 || strcmp(c->model_type, "llama") == 0) && c->hidden_size % c->num_attention_heads != 0)
    return true;
  if (!(v2 || v3) || !m->experts) return false;
  return !m->shared || (v2 ? m->renormalise : m->experts < 2);
}

void ch_transformers_choose(ch_source *source, const ch_config *own, bool own_code) {
  bool ours = strcmp(own->model_type, "crosshead") == 0;
  if (!own_code && (!ours || !too_much_for_class(&source->config))) return;
  source->config = *own;
  source->layout = (ch_deepseek_layout){0};
  if (!ours && !ch_config_is_vision(own))
    snprintf(source->config.model_type, sizeof source->config.model_type, "crosshead");
}

/* --- files ---------------------------------------------------------------------------------------------- */

static ch_status write_file(const char *directory, const char *name, const char *text, ch_error *error) {
  char *path = ch_path_join(directory, name);
  if (!path || !text) {
    free(path);
    return ch_no_memory(error);
  }
  ch_status status = ch_write_file(path, text, strlen(text), error);
  free(path);
  return status;
}

static ch_status write_text(const char *directory, const char *name, ch_text *text, ch_error *error) {
  ch_status status = text->failed ? ch_no_memory(error) : write_file(directory, name, text->data, error);
  ch_text_free(text);
  return status;
}

static ch_status write_code(const ch_source *source, const char *directory, ch_error *error) {
  ch_text model = {0}, configuration = {0};
  ch_pytorch_code(&source->config, &source->params, &model);
  ch_pytorch_configuration(&source->config, &source->params, &configuration);
  /* transformers finds the class of a model by the class of its configuration, so other code needs another
     configuration class */
  if (!model.failed)
    ch_text_printf(&configuration,
                   "\n# Belongs to the modeling_crosshead.py with the checksum %016" PRIx64
                   ": transformers finds a model's class by that of its configuration.\n",
                   ch_random_stream_of(model.data));
  ch_status status = write_text(directory, "modeling_crosshead.py", &model, error);
  if (status) {
    ch_text_free(&configuration);
    return status;
  }
  return write_text(directory, "configuration_crosshead.py", &configuration, error);
}

/* Returns the members of config.json that make transformers load the code, or NULL if out of memory. */
static json_t *code_to_json(bool vision) {
  return json_pack(
      "{s:[s], s:{s:s, s:s, s:s}}", "architectures",
      vision ? "CrossheadForImageClassification" : "CrossheadForCausalLM", "auto_map", "AutoConfig",
      vision ? "configuration_crosshead.CrossheadViTConfig" : "configuration_crosshead.CrossheadConfig",
      "AutoModel", vision ? "modeling_crosshead.CrossheadViTModel" : "modeling_crosshead.CrossheadModel",
      vision ? "AutoModelForImageClassification" : "AutoModelForCausalLM",
      vision ? "modeling_crosshead.CrossheadForImageClassification"
             : "modeling_crosshead.CrossheadForCausalLM");
}

/* Appends the members of an object, which is indented JSON text. */
static void put_members(ch_text *text, const char *object) {
  size_t size = (size_t)(strrchr(object, '}') - object);
  while (object[size - 1] == '\n') size--;
  ch_text_put(text, object + 1, size - 1);
}

static ch_status write_config(const ch_source *source, const char *directory, ch_error *error) {
  ch_text config = {0}, all = {0};
  json_t *code = code_to_json(ch_config_is_vision(&source->config));
  json_t *tensors = json_pack("{so}", "pytorch", tensors_to_json(&source->params));
  char *first = ch_json_dump(code, JSON_INDENT(2));
  char *last = ch_json_dump(tensors, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
  ch_config_write(&source->config, &config);
  all.failed = !first || !last || config.failed;
  if (!all.failed) {
    ch_text_puts(&all, "{");
    put_members(&all, first);
    ch_text_puts(&all, ",");
    put_members(&all, config.data);
    ch_text_puts(&all, ",");
    put_members(&all, last);
    ch_text_puts(&all, "\n}\n");
  }
  free(first);
  free(last);
  json_decref(code);
  json_decref(tensors);
  ch_text_free(&config);
  return write_text(directory, "config.json", &all, error);
}

ch_status ch_transformers_finish(const ch_source *source, const char *directory, ch_error *error) {
  if (source->config_json.size) return write_file(directory, "config.json", source->config_json.data, error);
  if (!ch_has_pytorch_code(&source->config)) return ch_config_store(directory, &source->config, error);
  CH_TRY(write_code(source, directory, error));
  return write_config(source, directory, error);
}

ch_status ch_transformers_write_untrained(const ch_source *source, const char *directory, ch_error *error) {
  CH_TRY(ch_make_directory(directory, error));
  return ch_transformers_finish(source, directory, error);
}
