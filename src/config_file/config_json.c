/* Reads and writes config.json. Chooses the keys of the file's family and fills in sizes that the file leaves out.
   rules.c checks the result. */
#include "config_file/config_json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/file.h"
#include "base/mistaken.h"
#include "config_file/families.h"
#include "config_file/keys.h"
#include "config_file/layers.h"

enum { MOST_CONFIG_BYTES = 1 << 20 };

/* Stores equal numbers of key and value heads as key-value heads, whichever keys gave them. */
static void settle_heads(ch_config *c) {
  if (ch_heads_differ(c)) return;
  c->num_key_value_heads = ch_heads_of(c, CH_ON_K);
  c->attention.num_key_heads = c->attention.num_value_heads = 0;
}

/* Moves listed dense layers that directly follow the first dense ones to first_dense_layers, so that equal models have
   equal configurations. The last layer is not moved, so that rules.c can report a model whose layers are all dense. */
static void settle_dense_layers(ch_config *c) {
  ch_moe_config *m = &c->moe;
  while (m->first_dense_layers + 1 < c->num_hidden_layers && m->first_dense_layers < CH_MAX_LISTED_LAYERS &&
         m->dense_layers[m->first_dense_layers])
    m->dense_layers[m->first_dense_layers++] = false;
}

/* Sets missing sizes that follow from others, such as G = H and d = D/H. Settles heads and dense layers. */
static ch_status complete(ch_config *c, const char *where, ch_error *error) {
  if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
  settle_heads(c);
  settle_dense_layers(c);
  ch_linear_attention *l = &c->linear_attention;
  if (!l->value_heads) l->value_heads = l->heads;
  if (!l->value_head_dim) l->value_head_dim = 2 * l->head_dim;
  if (c->head_dim || (ch_mechanism_of(c)->modules & CH_MODULE_OWN_SIZES)) return CH_OK;
  if (c->hidden_size % c->num_attention_heads != 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"num_attention_heads\" is %lld; it must divide \"hidden_size\", %lld, unless "
                   "\"head_dim\" is given",
                   where, (long long)c->num_attention_heads, (long long)c->hidden_size);
  c->head_dim = c->hidden_size / c->num_attention_heads;
  return CH_OK;
}

static bool is_ours(const ch_config *config) {
  return strcmp(config->model_type, "crosshead") == 0 || strcmp(config->model_type, "crosshead_vit") == 0;
}

/* Reads a config of Crosshead. The attention's type is read first, because it decides the defaults of other keys. */
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

/* Returns a copy without the top-level keys that transformers adds when it saves a Crosshead model. Versions of
   transformers add different keys. NULL when out of memory. */
static json_t *without_keys_of_transformers(const json_t *root) {
  json_t *copy = json_copy((json_t *)root);
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)root, name, value) if (!ch_config_knows_key("", name))
      json_object_del(copy, name);
  return copy;
}

/* Reads a config of Crosshead. "auto_map" marks a config that transformers saved. It names the code that
   `export --format transformers` wrote. */
static ch_status read_ours_or_saved(const json_t *root, const char *where, ch_config *config,
                                    ch_error *error) {
  if (!json_object_get(root, "auto_map")) return read_ours(root, where, config, error);
  json_t *copy = without_keys_of_transformers(root);
  ch_status status = copy ? read_ours(copy, where, config, error) : ch_no_memory(error);
  json_decref(copy);
  return status;
}

static ch_status read_root(const json_t *root, const char *where, ch_config *config, ch_error *error) {
  /* the model type decides which keys the file may have, and their defaults */
  char model_type[CH_NAME_SIZE];
  CH_TRY(ch_config_read_key(root, "", "", "model_type", where, config, error));
  snprintf(model_type, sizeof model_type, "%s", config->model_type);
  ch_config_defaults_of(config, model_type);
  if (is_ours(config))
    CH_TRY(read_ours_or_saved(root, where, config, error));
  else
    CH_TRY(ch_config_read_family(root, where, config, error));
  CH_TRY(complete(config, where, error));
  CH_TRY(ch_config_settle_layer_groups(config, where, error));
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

/* Returns the kind of a model file of another program, such as "a GGUF file"; NULL for any other file. */
static const char *foreign_kind(const char *path) {
  static const unsigned char llama2c[4] = {0x32, 0x34, 0x6b, 0x61};
  unsigned char first[9] = {0};
  size_t length = strlen(path);
  FILE *file = ch_is_file(path) ? fopen(path, "rb") : NULL;
  size_t got = file ? fread(first, 1, sizeof first, file) : 0;
  if (file) fclose(file);
  bool json = got && (first[0] == '{' || isspace(first[0]));
  if (got >= 4 && memcmp(first, "GGUF", 4) == 0) return "a GGUF file";
  if (got >= 4 && memcmp(first, llama2c, 4) == 0) return "a llama2.c checkpoint";
  if (got == sizeof first && first[8] == '{' && !json) return "a safetensors file";
  return got && !json && length > 4 && strcmp(path + length - 4, ".bin") == 0 ? "a llama2.c checkpoint"
                                                                              : NULL;
}

/* Returns the kind of a file that is neither named .json nor begins like JSON: text or binary. NULL if it may be a
   configuration. */
static const char *other_kind(const char *path) {
  char first[512];
  size_t length = strlen(path), at = 0;
  if (!ch_is_file(path) || (length > 5 && strcmp(path + length - 5, ".json") == 0)) return NULL;
  FILE *file = fopen(path, "rb");
  size_t got = file ? fread(first, 1, sizeof first, file) : 0;
  if (file) fclose(file);
  if (got >= 3 && memcmp(first, "\xef\xbb\xbf", 3) == 0) at = 3; /* a byte order mark */
  while (at < got && isspace((unsigned char)first[at])) at++;
  if (at == got || first[at] == '{' || first[at] == '[') return NULL;
  for (size_t i = at; i < got; i++)
    if ((unsigned char)first[i] < ' ' && !isspace((unsigned char)first[i])) return "a binary file";
  return "a text";
}

static ch_status refuse_foreign(const char *path, const char *kind, ch_error *error) {
  if (strcmp(kind, "a safetensors file") == 0)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is %s, which has no configuration; name its directory if that has a config.json", path,
                   kind);
  return ch_fail(error, CH_ERROR_FORMAT, "%s is %s; import it with `crosshead import %s` first", path, kind,
                 path);
}

/* Returns true for a path that does not exist and looks like a name of the Hugging Face Hub
   ("meta-llama/Llama-3"). */
static bool is_hub_name(const char *path) {
  const char *slash = strchr(path, '/');
  const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  char owner[128];
  if (!slash || slash == path || !slash[1] || *path == '.' || ch_is_file(path) || ch_is_directory(path))
    return false;
  if (strspn(path, letters) != (size_t)(slash - path) || slash[1 + strspn(slash + 1, letters)]) return false;
  if (strlen(path) > 5 && strcmp(path + strlen(path) - 5, ".json") == 0) return false;
  snprintf(owner, sizeof owner, "%.*s", (int)(slash - path), path);
  return !ch_is_directory(owner);
}

ch_status ch_config_read(const char *path, ch_config *config, ch_error *error) {
  if (is_hub_name(path))
    return ch_fail(error, CH_ERROR_IO,
                   "%s does not exist; if it is a model of the Hugging Face Hub, run `hf download %s` and "
                   "give the directory that it prints",
                   path, path);
  char *file = ch_is_directory(path) ? ch_path_join(path, "config.json") : strdup(path), *text = NULL;
  if (!file) return ch_no_memory(error);
  size_t size = 0;
  if (ch_is_directory(path) && !ch_is_file(file)) {
    free(file);
    CH_TRY(ch_refuse_directory(path, ch_directory_has(path, "model.safetensors"), error));
    return ch_fail(error, CH_ERROR_IO, "%s has no config.json; a model directory must have one", path);
  }
  const char *foreign = foreign_kind(file);
  if (foreign) {
    free(file);
    return refuse_foreign(path, foreign, error);
  }
  const char *other = other_kind(file);
  if (other) {
    free(file);
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s looks like %s, not like a configuration; name a model directory or a config.json",
                   path, other);
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
