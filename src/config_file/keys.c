/* Reads, checks and writes configuration keys by their table (key_table.c). This file checks the range of a single key;
 * rules.c checks keys against each other. */
#include "config_file/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "base/text.h"

static bool is_list(const ch_config_key *key) {
  return key->type == CH_KEY_SPAN || key->type == CH_KEY_COMPONENTS || key->type == CH_KEY_PROJECTIONS ||
         key->type == CH_KEY_GROUPS || key->type == CH_KEY_LAYERS || key->type == CH_KEY_LAYER_TYPES ||
         key->type == CH_KEY_FACTORS;
}

/* Stores the value of a key that is one number: any type but names, lists and objects. Every integer in range is
 * exact in a double. */
static void store(const ch_config_key *key, double value, ch_config *config) {
  if (key->offset == CH_KEY_NO_MEMBER) return;
  char *member = (char *)config + key->offset;
  switch (key->type) {
  case CH_KEY_WHOLE:
  case CH_KEY_ID:
    *(int64_t *)(void *)member = (int64_t)value;
    break;
  case CH_KEY_NUMBER:
    *(double *)(void *)member = value;
    break;
  case CH_KEY_BOOL:
    *(bool *)(void *)member = value != 0;
    break;
  case CH_KEY_CHOICE:
    *(int *)(void *)member = (int)value;
    break;
  case CH_KEY_SET:
    *(unsigned *)(void *)member = (unsigned)value;
    break;
  default: /* not one number */
    break;
  }
}

static double load(const ch_config_key *key, const ch_config *config) {
  const char *member = (const char *)config + key->offset;
  switch (key->type) {
  case CH_KEY_WHOLE:
  case CH_KEY_ID:
    return (double)*(const int64_t *)(const void *)member;
  case CH_KEY_NUMBER:
    return *(const double *)(const void *)member;
  case CH_KEY_BOOL:
    return *(const bool *)(const void *)member;
  case CH_KEY_CHOICE:
    return *(const int *)(const void *)member;
  case CH_KEY_SET:
    return *(const unsigned *)(const void *)member;
  default: /* not one number */
    break;
  }
  return 0;
}

static int count_names(const char *const *names) {
  int count = 0;
  while (names[count]) count++;
  return count;
}

static bool in_range(const ch_config_key *key, double value) {
  if (key->type == CH_KEY_BOOL) return true;
  if (key->type == CH_KEY_CHOICE)
    return value >= key->first && value < key->first + count_names(key->choices);
  if (key->type == CH_KEY_SET) {
    unsigned all = ((1U << count_names(key->choices)) - 1) << key->first;
    return value > 0 && ((unsigned)value & ~all) == 0;
  }
  if (!isfinite(value) || value > key->max || value < key->min) return false;
  return key->type != CH_KEY_NUMBER || key->min > 0 || key->zero || value > 0;
}

/* Returns true if the key belongs to the config's attention type. */
static bool owned(const ch_config_key *key, const ch_config *config) {
  if (key->unsupported) return false;
  return !key->of_mechanisms || ch_mechanism_has_key(ch_mechanism_of(config), key->name);
}

/* Writes names as "a", "b". */
static void put_names(const char *const *names, char *buffer, size_t size) {
  size_t used = 0;
  for (int i = 0; names[i] && used < size; i++)
    used += (size_t)snprintf(buffer + used, size - used, "%s\"%s\"", i ? ", " : "", names[i]);
}

/* Writes the attention types that the key belongs to. */
static void put_owners(const ch_config_key *key, char *buffer, size_t size) {
  size_t used = 0;
  for (const ch_mechanism *const *m = ch_mechanisms(); *m && used < size; m++)
    if (ch_mechanism_has_key(*m, key->name))
      used += (size_t)snprintf(buffer + used, size - used, "%s\"%s\"", used ? ", " : "", (*m)->name);
}

/* Writes the valid names of a value: "one of ...". */
static void put_choice(const char *const *names, char *buffer, size_t size) {
  size_t used = (size_t)snprintf(buffer, size, "%s", names[1] ? "one of " : "");
  put_names(names, buffer + used, size - used);
}

/* Describes a valid value: "a whole number from 1 to 65536". */
static const char *wanted(const ch_config_key *key, char *buffer, size_t size) {
  switch (key->type) {
  case CH_KEY_WHOLE:
    snprintf(buffer, size, "a whole number from %.0f to %.0f", key->min, key->max);
    break;
  case CH_KEY_NUMBER:
    if (key->min > 0 || key->zero)
      snprintf(buffer, size, "a number from %g to %g", key->min, key->max);
    else
      snprintf(buffer, size, "a number above 0 and at most %g", key->max);
    break;
  case CH_KEY_BOOL:
    snprintf(buffer, size, "true or false");
    break;
  case CH_KEY_CHOICE:
    put_choice(key->choices, buffer, size);
    break;
  case CH_KEY_ID:
    snprintf(buffer, size, "a token id (a whole number from 0) or null");
    break;
  case CH_KEY_SET: {
    size_t used = (size_t)snprintf(buffer, size, "a list of some of ");
    put_names(key->choices, buffer + used, size - used);
    break;
  }
  case CH_KEY_NAME:
    put_choice(key->names(), buffer, size);
    break;
  case CH_KEY_SPAN:
    snprintf(buffer, size, "a list [first, last] of two layers from %.0f", key->min);
    break;
  case CH_KEY_COMPONENTS:
    snprintf(buffer, size,
             "a whole number from %.0f to %.0f, or a list with one for each of at most %d layers", key->min,
             key->max, CH_MAX_LISTED_LAYERS);
    break;
  case CH_KEY_PROJECTIONS:
    snprintf(buffer, size,
             "a list of at most %d different projections (\"q\", \"k\", \"v\", \"o\", or a tensor's name "
             "like \"q_b_proj\")",
             CH_MAX_SHARED_PROJECTIONS);
    break;
  case CH_KEY_GROUPS:
    snprintf(buffer, size, "a list of at most %d groups of layers, as in [[0, 3], [4, 11]]", CH_MAX_GROUPS);
    break;
  case CH_KEY_LAYERS:
    snprintf(buffer, size, "a list of different layers from 0 to %d", CH_MAX_LISTED_LAYERS - 1);
    break;
  case CH_KEY_LAYER_TYPES: {
    size_t used = (size_t)snprintf(buffer, size, "a list with, for each of at most %d layers, one of ",
                                   CH_MAX_LISTED_LAYERS);
    put_names(key->choices, buffer + used, size - used);
    break;
  }
  case CH_KEY_FACTORS:
    snprintf(buffer, size, "a list of at most %d numbers above 0, one for each pair of dims that rotates",
             CH_MAX_PAIR_FACTORS);
    break;
  case CH_KEY_OBJECT:
    snprintf(buffer, size, "an object {...}");
    break;
  }
  return buffer;
}

static void put_set(const ch_config_key *key, unsigned bits, ch_text *json) {
  bool any = false;
  for (int i = 0; key->choices[i]; i++) {
    if (!(bits >> (i + key->first) & 1)) continue;
    ch_text_puts(json, any ? ", " : "[");
    ch_json_put_string(json, key->choices[i]);
    any = true;
  }
  ch_text_puts(json, any ? "]" : "[]");
}

/* Writes a value that one number holds. */
static void put_value(const ch_config_key *key, double value, ch_text *json) {
  switch (key->type) {
  case CH_KEY_WHOLE:
  case CH_KEY_ID:
    ch_text_printf(json, "%.0f", value);
    break;
  case CH_KEY_NUMBER:
    ch_json_put_number(json, value);
    break;
  case CH_KEY_BOOL:
    ch_text_puts(json, value != 0 ? "true" : "false");
    break;
  case CH_KEY_CHOICE:
    ch_json_put_string(json, key->choices[(int)value - key->first]);
    break;
  case CH_KEY_SET:
    put_set(key, (unsigned)value, json);
    break;
  default: /* not one number */
    break;
  }
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* The place of a key, for messages about it. */
typedef struct place {
  const char *where, *prefix;
  int files;
} place;

static ch_status wrong_value(const place *at, const ch_config_key *key, const json_t *json, ch_error *error) {
  char shown[80], right[400];
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s%s\" is %s; it must be %s", at->where, at->prefix,
                 key->name, ch_json_show(json, shown, sizeof shown), wanted(key, right, sizeof right));
}

/* Reads a token id. Hugging Face files may list several ids, of which the first counts. In these files an id out of
   range counts as none. */
static bool read_id(const ch_config_key *key, const json_t *json, int files, double *value) {
  bool foreign = files == CH_KEY_HUGGING_FACE;
  if (foreign && json_is_array(json)) json = json_array_get(json, 0);
  int64_t whole = -1;
  if (json && !ch_json_whole(json, &whole)) return false;
  bool right = in_range(key, (double)whole);
  *value = right ? (double)whole : -1;
  return right || foreign;
}

/* Returns the index of a string in the key's choices, or -1. */
static int choice_of(const ch_config_key *key, const json_t *json) {
  for (int i = 0; json_is_string(json) && key->choices[i]; i++)
    if (strcmp(json_string_value(json), key->choices[i]) == 0) return i;
  return -1;
}

static bool read_set(const ch_config_key *key, const json_t *json, double *value) {
  unsigned bits = 0;
  for (size_t i = 0; i < json_array_size(json); i++) {
    int choice = choice_of(key, json_array_get(json, i));
    unsigned bit = choice < 0 ? 0 : 1U << (choice + key->first);
    if (!bit || (bits & bit)) return false;
    bits |= bit;
  }
  *value = bits;
  return bits != 0;
}

static bool read_scalar(const ch_config_key *key, const json_t *json, int files, double *value) {
  int64_t whole = 0;
  switch (key->type) {
  case CH_KEY_WHOLE:
    if (!ch_json_whole(json, &whole)) return false;
    *value = (double)whole;
    return in_range(key, *value);
  case CH_KEY_NUMBER:
    *value = json_number_value(json);
    return json_is_number(json) && in_range(key, *value);
  case CH_KEY_BOOL:
    *value = json_is_true(json);
    return json_is_boolean(json);
  case CH_KEY_CHOICE:
    *value = choice_of(key, json) + key->first;
    return choice_of(key, json) >= 0;
  case CH_KEY_SET:
    return read_set(key, json, value);
  case CH_KEY_ID:
    return read_id(key, json, files, value);
  default: /* not one number */
    return false;
  }
}

/* Stores the value of a key of type CH_KEY_NAME and clears the bytes after it, because configurations are compared as
   bytes. */
static void store_name(const ch_config_key *key, const char *name, ch_config *config) {
  char *member = (char *)config + key->offset;
  memset(member, 0, CH_NAME_SIZE);
  snprintf(member, CH_NAME_SIZE, "%s", name);
}

static ch_status read_name(const place *at, const ch_config_key *key, const json_t *json, ch_config *config,
                           ch_error *error) {
  const char *name = json_string_value(json);
  if (!name || !ch_in_list(name, key->names())) return wrong_value(at, key, json, error);
  store_name(key, name, config);
  return CH_OK;
}

static ch_status read_object(const place *at, const ch_config_key *key, const json_t *json, bool strict,
                             ch_config *config, ch_error *error) {
  if (!json_is_object(json)) return wrong_value(at, key, json, error);
  char prefix[64];
  snprintf(prefix, sizeof prefix, "%s%s.", at->prefix, key->name);
  return ch_config_read_group(json, key->members, prefix, at->files, strict, at->where, config, error);
}

/* Checks that a key of another attention type, or an unsupported key, has its default. In counts, 0 means "none",
   as Hugging Face writes it. */
static ch_status expect_default(const place *at, const ch_config_key *key, const json_t *json,
                                const ch_config *config, ch_error *error) {
  double value = 0;
  int64_t whole = 1;
  if (key->type != CH_KEY_OBJECT && read_scalar(key, json, at->files, &value) && value == key->otherwise)
    return CH_OK;
  if (key->type == CH_KEY_WHOLE && key->otherwise == 0 && ch_json_whole(json, &whole) && whole == 0)
    return CH_OK;
  char shown[80], owners[120] = "", otherwise[40] = "null";
  ch_text text = {0};
  if (in_range(key, key->otherwise)) put_value(key, key->otherwise, &text);
  if (text.data) snprintf(otherwise, sizeof otherwise, "%s", text.data);
  ch_text_free(&text);
  ch_json_show(json, shown, sizeof shown);
  if (key->unsupported)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"%s%s\" is %s, which this version does not support; leave it out or set %s",
                   at->where, at->prefix, key->name, shown, otherwise);
  put_owners(key, owners, sizeof owners);
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"%s%s\" is %s, but it belongs to \"attention.type\" %s and not to \"%s\"; leave it out or set %s",
      at->where, at->prefix, key->name, shown, owners, config->attention.type, otherwise);
}

static ch_status read_key(const place *at, const ch_config_key *key, const json_t *json, bool strict,
                          ch_config *config, ch_error *error) {
  if (json_is_null(json) && (key->nullable || (key->required && !owned(key, config)))) {
    /* null means this table's default, not the family's */
    if (at->files == CH_KEY_HUGGING_FACE) store(key, key->otherwise, config);
    return CH_OK;
  }
  if (!owned(key, config)) return expect_default(at, key, json, config, error);
  if (key->type == CH_KEY_NAME) return read_name(at, key, json, config, error);
  if (key->type == CH_KEY_OBJECT) return read_object(at, key, json, strict, config, error);
  if (is_list(key)) return ch_config_read_list(key, json, config) ? CH_OK : wrong_value(at, key, json, error);
  double value = 0;
  if (!read_scalar(key, json, at->files, &value)) return wrong_value(at, key, json, error);
  store(key, value, config);
  return CH_OK;
}

static ch_status read_row(const place *at, const ch_config_key *key, const json_t *object, bool strict,
                          ch_config *config, ch_error *error) {
  char right[400];
  const json_t *value = json_object_get(object, key->name);
  if (value) return read_key(at, key, value, strict, config, error);
  if (!key->required || !owned(key, config)) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s%s\" is missing; it must be %s", at->where, at->prefix,
                 key->name, wanted(key, right, sizeof right));
}

static bool of_models(const ch_config_key *key, const ch_config *config) {
  return !key->models ||
         key->models == (ch_config_is_vision(config) ? CH_KEY_IMAGE_MODELS : CH_KEY_TEXT_MODELS);
}

static bool applies(const ch_config_key *key, const char *group, int files, const ch_config *config) {
  return (key->files & files) && strcmp(key->group, group) == 0 && of_models(key, config);
}

/* Returns the name of the object that holds `group`, for messages. */
static const char *holder_of(const char *group) {
  for (int i = 0; i < ch_config_key_count; i++)
    if (ch_config_keys[i].members && strcmp(ch_config_keys[i].members, group) == 0)
      return ch_config_keys[i].name;
  return "the top level";
}

static ch_status unknown_key(const place *at, const char *group, const char *name, const ch_config *config,
                             ch_error *error) {
  const char *near[128];
  int count = 0;
  char shown[90];
  ch_json_quote(name, shown, sizeof shown);
  for (int i = 0; i < ch_config_key_count; i++) {
    const ch_config_key *key = &ch_config_keys[i];
    if (!(key->files & at->files)) continue;
    if (strcmp(key->group, group) == 0 && strcmp(key->name, name) == 0)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: %s belongs to models of %s and not to a \"%s\"; leave it out", at->where, shown,
                     ch_config_is_vision(config) ? "text" : "images", config->model_type);
    if (!of_models(key, config)) continue;
    if (strcmp(key->group, group) == 0 && count < 127)
      near[count++] = key->name;
    else if (strcmp(key->name, name) == 0)
      return ch_fail(error, CH_ERROR_CONFIG, "%s: %s is not a key of %s; it belongs to %s", at->where, shown,
                     *group ? holder_of(group) : "the top level", holder_of(key->group));
  }
  near[count] = NULL;
  const char *best = ch_nearest_name(name, near);
  if (best)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: unknown key %s%s%s; did you mean \"%s%s\"?", at->where, shown,
                   *group ? " in " : "", *group ? holder_of(group) : "", at->prefix, best);
  return ch_fail(error, CH_ERROR_CONFIG, "%s: unknown key %s%s%s; leave it out", at->where, shown,
                 *group ? " in " : "", *group ? holder_of(group) : "");
}

ch_status ch_config_read_group(const json_t *object, const char *group, const char *prefix, int files,
                               bool strict, const char *where, ch_config *config, ch_error *error) {
  const place at = {where, prefix, files};
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)object, name, value) {
    int row = 0;
    while (row < ch_config_key_count && !(applies(&ch_config_keys[row], group, files, config) &&
                                          strcmp(ch_config_keys[row].name, name) == 0))
      row++;
    if (strict && row == ch_config_key_count) return unknown_key(&at, group, name, config, error);
  }
  for (int i = 0; i < ch_config_key_count; i++)
    if (applies(&ch_config_keys[i], group, files, config))
      CH_TRY(read_row(&at, &ch_config_keys[i], object, strict, config, error));
  return CH_OK;
}

bool ch_config_knows_key(const char *group, const char *name) {
  for (int i = 0; i < ch_config_key_count; i++)
    if (strcmp(ch_config_keys[i].group, group) == 0 && strcmp(ch_config_keys[i].name, name) == 0 &&
        ch_config_keys[i].files & CH_KEY_OURS)
      return true;
  return false;
}

ch_status ch_config_read_key(const json_t *object, const char *group, const char *prefix, const char *name,
                             const char *where, ch_config *config, ch_error *error) {
  const place at = {where, prefix, CH_KEY_EVERYWHERE};
  for (int i = 0; i < ch_config_key_count; i++)
    if (applies(&ch_config_keys[i], group, at.files, config) && strcmp(ch_config_keys[i].name, name) == 0)
      return read_row(&at, &ch_config_keys[i], object, true, config, error);
  return ch_fail(error, CH_ERROR_ARGUMENT, "there is no configuration key \"%s%s\"", prefix, name);
}

/* --- configs without a file, defaults, writing ---------------------------------------------------------- */

/* Returns true if the key's member has its default. */
static bool is_default(const ch_config_key *key, const ch_config *config) {
  if (key->type == CH_KEY_NAME)
    return strcmp((const char *)config + key->offset, key->names()[(int)key->otherwise]) == 0;
  return is_list(key) ? ch_config_list_is_default(key, config) : load(key, config) == key->otherwise;
}

/* Returns true if a key may be missing: an optional key, a key of other mechanisms, or a key of a nested object other
   than "attention", which may be absent as a whole. */
static bool may_be_absent(const ch_config_key *key, const ch_config *config) {
  bool nested = *key->group && strcmp(key->group, "attention") != 0;
  return !key->required || nested || !owned(key, config);
}

static ch_status check_name(const ch_config_key *key, const ch_config *config, const char *where,
                            ch_error *error) {
  char right[400];
  const char *name = (const char *)config + key->offset;
  if (memchr(name, 0, CH_NAME_SIZE) && ch_in_list(name, key->names())) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" is \"%.*s\"; it must be %s", where, key->name,
                 CH_NAME_SIZE, name, wanted(key, right, sizeof right));
}

static ch_status check_range(const ch_config_key *key, const ch_config *config, const char *where,
                             ch_error *error) {
  char right[400], owners[120];
  if (may_be_absent(key, config) && is_default(key, config)) return CH_OK;
  if (!owned(key, config)) {
    put_owners(key, owners, sizeof owners);
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"%s\" is set, but it belongs to \"attention.type\" %s and not to \"%s\"; leave it out", where,
        key->name, owners, config->attention.type);
  }
  if (is_list(key)) {
    if (ch_config_list_in_range(key, config)) return CH_OK;
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" must be %s", where, key->name,
                   wanted(key, right, sizeof right));
  }
  double value = load(key, config);
  if (in_range(key, value)) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"%s\" is %.15g; it must be %s", where, key->name, value,
                 wanted(key, right, sizeof right));
}

ch_status ch_config_check_ranges(const ch_config *config, const char *where, ch_error *error) {
  for (int i = 0; i < ch_config_key_count; i++) {
    const ch_config_key *key = &ch_config_keys[i];
    if (key->offset == CH_KEY_NO_MEMBER || key->type == CH_KEY_OBJECT || !of_models(key, config)) continue;
    bool named = key->type == CH_KEY_CHOICE || key->type == CH_KEY_NAME;
    if (named && !(key->files & CH_KEY_OURS)) continue; /* the family's check has a better message */
    CH_TRY((key->type == CH_KEY_NAME ? check_name : check_range)(key, config, where, error));
  }
  return CH_OK;
}

static void apply_default(const ch_config_key *key, ch_config *config) {
  if (key->offset == CH_KEY_NO_MEMBER) return;
  if (is_list(key))
    ch_config_default_list(key, config);
  else if (key->type != CH_KEY_NAME)
    store(key, key->otherwise, config);
  else if (key->models || !((const char *)config)[key->offset]) /* keeps a given model_type */
    store_name(key, key->names()[(int)key->otherwise], config);
}

void ch_config_apply_defaults(ch_config *config) {
  for (int own = 0; own < 2; own++)
    for (int i = 0; i < ch_config_key_count; i++)
      if (of_models(&ch_config_keys[i], config) == own) apply_default(&ch_config_keys[i], config);
}

static bool written(const ch_config_key *key, int files, const ch_config *config);

/* Returns true if at least one row of an object is written. */
static bool any_written(const char *group, int files, const ch_config *config) {
  for (int i = 0; i < ch_config_key_count; i++)
    if (applies(&ch_config_keys[i], group, files, config) && written(&ch_config_keys[i], files, config))
      return true;
  return false;
}

/* Returns true if a row is written. Aliases, rows of other attention types, and nullable or required rows at their
   default are left out. A name is left out only if it is nullable. */
static bool written(const ch_config_key *key, int files, const ch_config *config) {
  if (key->alias || !owned(key, config)) return false;
  if (key->type == CH_KEY_NAME && !key->nullable) return true;
  if (key->type == CH_KEY_OBJECT) return any_written(key->members, files, config);
  if (key->offset == CH_KEY_NO_MEMBER) return false;
  return !(key->nullable || key->required) || !is_default(key, config);
}

void ch_config_put_group(const char *group, int indent, int files, const ch_config *config, ch_text *json) {
  bool first = true;
  for (int i = 0; i < ch_config_key_count; i++) {
    const ch_config_key *key = &ch_config_keys[i];
    if (!applies(key, group, files, config) || !written(key, files, config)) continue;
    ch_text_printf(json, "%s\n%*s\"%s\": ", first ? "" : ",", indent, "", key->name);
    first = false;
    if (key->type == CH_KEY_OBJECT) {
      ch_text_puts(json, "{");
      ch_config_put_group(key->members, indent + 2, files, config, json);
      ch_text_printf(json, "\n%*s}", indent, "");
    } else if (key->type == CH_KEY_NAME)
      ch_json_put_string(json, (const char *)config + key->offset);
    else if (is_list(key))
      ch_config_put_list(key, config, json);
    else
      put_value(key, load(key, config), json);
  }
}
