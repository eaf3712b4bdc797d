/* Writes Crosshead configurations as config.json of Hugging Face families: the inverse of adopted.c. The result is
 * read again and compared. A family is used only if its file describes the whole model. */
#include <stdlib.h>
#include <string.h>

#include "config_file/adopted_family.h"
#include "config_file/config_json.h"

typedef struct spelled_config {
  const ch_config *config;
  const ch_adopted_family *of;
  const json_t *ours;
  json_t *theirs;
} spelled_config;

/* --- keys ----------------------------------------------------------------------------------------------- */

/* Returns the value of a key that Crosshead's file leaves out: its default. If that means none, returns null, which
   overrides a family's default. */
static json_t *left_out(const ch_config *config, const char *name) {
  for (int i = 0; i < ch_config_key_count; i++) {
    const ch_config_key *key = &ch_config_keys[i];
    const char *member = (const char *)config + key->offset;
    if (strcmp(key->group, "") != 0 || strcmp(key->name, name) != 0 || !(key->files & CH_KEY_OURS) ||
        key->offset == CH_KEY_NO_MEMBER)
      continue;
    if (key->type == CH_KEY_BOOL) return json_boolean(*(const bool *)member);
    if (key->type == CH_KEY_NUMBER && *(const double *)member != 0) return json_real(*(const double *)member);
  }
  return json_null();
}

static void give(const spelled_config *w, const char *name, const char *key) {
  json_t *value = json_object_get(w->ours, name);
  json_object_set_new(w->theirs, key, value ? json_deep_copy(value) : left_out(w->config, name));
}

/* Returns true if the family has another name for Crosshead's key `name`. */
static bool renames(const ch_adopted_family *of, const char *name) {
  size_t size = strlen(name);
  for (const char *at = of->keys; (at = strstr(at, name)); at += size)
    if (at > of->keys && at[-1] == '=' && (at[size] == ' ' || !at[size])) return true;
  return false;
}

/* Writes the keys of a list of "theirs" or "theirs=ours". If two keys of the family correspond to one of
   Crosshead's, both are written. */
static void give_all(const spelled_config *w, const char *keys, bool usual) {
  while (*keys) {
    char key[64], name[64];
    keys = ch_adopted_next_key(keys, key, name);
    bool of_square = w->of->square && strcmp(name, "head_dim") == 0;
    if (!usual || (!renames(w->of, name) && !of_square)) give(w, name, key);
  }
}

static void give_rope(const json_t *ours, const ch_adopted_family *of, json_t *theirs) {
  const char *position = json_string_value(json_object_get(ours, "position"));
  if (position && strcmp(position, "rope") != 0) return;
  json_t *scaling = json_object_get(ours, "rope_scaling");
  json_t *rope =
      json_is_object(scaling) ? json_deep_copy(scaling) : json_pack("{s:s}", "rope_type", "default");
  json_t *theta = json_object_get(ours, "rope_theta"), *local = json_object_get(ours, "local_rope_theta");
  if (theta) json_object_set(rope, "rope_theta", theta);
  if (of->partial_rotary_factor) {
    json_t *share = json_object_get(ours, "partial_rotary_factor");
    json_object_set_new(rope, "partial_rotary_factor", share ? json_deep_copy(share) : json_real(1));
  }
  if (of->local_theta == 0) {
    json_object_set_new(theirs, "rope_parameters", rope);
    return;
  }
  json_t *sliding = json_pack("{s:s}", "rope_type", "default");
  json_object_set(sliding, "rope_theta", json_number_value(local) != 0 ? local : theta);
  json_object_set_new(theirs, "rope_parameters",
                      json_pack("{s:o, s:o}", "full_attention", rope, "sliding_attention", sliding));
}

static void give_window(const ch_config *config, const ch_adopted_family *of, json_t *theirs) {
  if (!of->window_by_layer && !of->windows) return;
  bool any = config->sliding_window > 0;
  json_object_set_new(theirs, "sliding_window", any ? json_integer(config->sliding_window) : json_null());
  if (of->window_asked) json_object_set_new(theirs, "use_sliding_window", json_boolean(any));
  if (!of->window_by_layer) return;
  json_t *types = json_array();
  for (int64_t layer = 0; layer < config->num_hidden_layers; layer++)
    json_array_append_new(types, json_string(any && ch_layer_slides(config, (int)layer) ? "sliding_attention"
                                                                                        : "full_attention"));
  json_object_set_new(theirs, "layer_types", types);
}

/* --- the whole file ------------------------------------------------------------------------------------- */

static json_t *spelled(const ch_config *config, const json_t *ours, const ch_adopted_family *of) {
  json_t *theirs = json_pack("{s:[s], s:s, s:n}", "architectures", of->architecture, "model_type", of->name,
                             "pad_token_id");
  const spelled_config w = {config, of, ours, theirs};
  give_all(&w, ch_adopted_keys, true);
  give_all(&w, of->keys, false);
  give(&w, "bos_token_id", "bos_token_id");
  give(&w, "eos_token_id", "eos_token_id");
  const char *name = json_string_value(json_object_get(ours, "hidden_act"));
  const char *activation = of->activation && name ? ch_adopted_activation(name, of->gated) : NULL;
  if (activation) json_object_set_new(theirs, of->activation, json_string(activation));
  give_rope(ours, of, theirs);
  give_window(config, of, theirs);
  if (of->write) of->write(ours, theirs);
  return theirs;
}

/* Reads the written file. Returns true if it gives the same configuration. */
static bool says_the_same(const char *json, const ch_config *config) {
  ch_config again;
  if (ch_config_parse(json, "", &again, NULL) != CH_OK) return false;
  memset(again.layout, 0, sizeof again.layout);
  return memcmp(config, &again, sizeof again) == 0;
}

static bool spell(const ch_config *config, const json_t *ours, const ch_adopted_family *of, ch_text *json) {
  if (of->square && config->head_dim * config->num_attention_heads != config->hidden_size) return false;
  json_t *theirs = spelled(config, ours, of);
  char *text = json_dumps(theirs, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  json_decref(theirs);
  bool same = text && says_the_same(text, config);
  if (same && json) {
    ch_text_puts(json, text);
    ch_text_puts(json, "\n");
  }
  free(text);
  return same;
}

const char *ch_config_spell_adopted(const ch_config *config, ch_text *json) {
  ch_config plain = *config;
  ch_text text = {0};
  json_t *ours = NULL;
  const char *name = NULL;
  if (strcmp(config->model_type, "crosshead") != 0) return NULL;
  plain.init = CH_INIT_DEFAULT; /* families do not store "init" */
  memset(plain.layout, 0, sizeof plain.layout);
  ch_config_write(&plain, &text);
  if (!text.failed && ch_json_parse(text.data, text.size, "config.json", &ours, NULL) == CH_OK)
    for (int i = 0; i < ch_adopted_family_count && !name; i++)
      if (spell(&plain, ours, &ch_adopted_families[i], json)) name = ch_adopted_families[i].name;
  json_decref(ours);
  ch_text_free(&text);
  return name;
}
