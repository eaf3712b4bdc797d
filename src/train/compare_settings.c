/* Keeps and checks the options of a comparison. Keys are the options' names, so that messages need no translation. */
#include "train/compare_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "config/initial_std.h"

enum { MOST_SETTINGS_BYTES = 1 << 24 };

/* A value whose text is long (a configuration) is kept as it is and shown as "another one". */
static bool put(json_t *settings, const char *key, json_t *value) {
  return value && json_object_set_new(settings, key, value) == 0;
}

/* The names one by one: spaces between them do not matter, their order does (it is the order of training). */
static bool put_mechanisms(json_t *settings, const ch_compare_plan *plan) {
  ch_text text = {0};
  for (int i = 0; i < plan->count; i++) ch_text_printf(&text, "%s%s", i ? "," : "", plan->models[i].name);
  bool fine = !text.failed && put(settings, "--mechanisms", json_string(text.data));
  ch_text_free(&text);
  return fine;
}

static bool put_configs(json_t *settings, const ch_compare_plan *plan) {
  for (int i = 0; i < plan->count; i++) {
    if (!plan->models[i].from_file) continue;
    ch_text text = {0};
    ch_config_write(&plan->models[i].given, &text);
    bool fine = !text.failed && put(settings, plan->models[i].name, json_string(text.data));
    ch_text_free(&text);
    if (!fine) return false;
  }
  return true;
}

/* What stands in the settings of comparisons on images alone. */
static bool put_kind(json_t *settings, const ch_compare_options *o) {
  if (!o->images) return true;
  return put(settings, "--epochs", json_integer(o->epochs)) &&
         put(settings, "--patch", json_integer(o->shape.image.patch));
}

static json_t *describe(const ch_compare_options *o, const ch_compare_plan *plan) {
  json_t *settings = json_object();
  bool fine =
      settings && put_mechanisms(settings, plan) &&

      put_kind(settings, o) && put(settings, "--params", json_integer(o->shape.params)) &&
      put(settings, "--match", json_string(o->shape.counted == CH_COUNT_ACTIVE ? "active" : "all")) &&
      put(settings, "--layers", json_integer(o->shape.layers)) &&
      put(settings, "--hidden", json_integer(o->shape.hidden)) &&
      put(settings, "--heads", json_integer(o->shape.heads)) &&
      put(settings, "--vocab", json_integer(o->shape.vocab)) &&
      put(settings, "--init", json_string(ch_init_names[o->shape.init])) &&
      put(settings, "--tokens", json_integer(o->tokens)) &&
      put(settings, "--batch", json_integer(o->batch)) && put(settings, "--seq", json_integer(o->sequence)) &&
      (o->sweep ? put(settings, "--evaluations", json_integer(o->evaluations))
                : put(settings, "--lr", json_real(o->lr))) &&
      put(settings, "--schedule", json_string(o->schedule == CH_SCHEDULE_COSINE ? "cosine" : "constant")) &&
      put(settings, "--dtype", json_string(o->dtype == CH_BF16 ? "bf16" : "f32")) &&
      put(settings, "--warmup", json_integer(o->warmup)) &&
      put(settings, "--seed", json_integer((json_int_t)o->seed)) &&
      put(settings, "--eval-tokens", json_integer(o->eval_tokens)) && put_configs(settings, plan);
  if (fine) return settings;
  json_decref(settings);
  return NULL;
}

/* "2000000", or "its default" for what was left to be chosen. */
static const char *show(const json_t *value, char *buffer, size_t size) {
  if (!value || (json_is_integer(value) && json_integer_value(value) <= 0)) return "its default";
  return ch_json_show(value, buffer, size);
}

static const char *kind_of(const ch_compare_options *options) {
  return options->sweep ? "sweep" : "comparison";
}

static char *path_of(const ch_compare_options *options) {
  return ch_path_join(options->out, options->sweep ? CH_SWEEP_SETTINGS : CH_COMPARE_SETTINGS);
}

static ch_status differs(const ch_compare_options *options, const char *key, const json_t *kept,
                         const json_t *asked, ch_error *error) {
  static const char advice[] = "repeat those options to continue it, or give another --out";
  char a[160], b[160];
  if (strncmp(key, "--", 2) != 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s holds a %s in which %.200s was another configuration; %s",
                   options->out, kind_of(options), key, advice);
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s holds a %s with %s %s, where this command has %s; %s",
                 options->out, kind_of(options), key, show(kept, a, sizeof a), show(asked, b, sizeof b),
                 advice);
}

/* Options that comparisons of version 0.1.0 did not have. */
static bool is_default(const char *key, const json_t *value) {
  return (strcmp(key, "--dtype") == 0 && strcmp(json_string_value(value), "f32") == 0) ||
         (strcmp(key, "--match") == 0 && strcmp(json_string_value(value), "all") == 0) ||
         (strcmp(key, "--init") == 0 && strcmp(json_string_value(value), "default") == 0);
}

static ch_status check(const ch_compare_options *options, const char *path, const json_t *asked,
                       ch_error *error) {
  json_t *kept = NULL;
  ch_status status = CH_OK;
  CH_TRY(ch_json_read(path, MOST_SETTINGS_BYTES, &kept, error));
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)asked, key, value) {
    const json_t *before = json_object_get(kept, key);
    if (!before && is_default(key, value)) continue;
    if (status == CH_OK && !json_equal(before, value)) status = differs(options, key, before, value, error);
  }
  json_decref(kept);
  return status;
}

static ch_status no_memory(ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "no memory for the settings of the comparison");
}

ch_status ch_compare_settings_check(const ch_compare_options *options, const ch_compare_plan *plan,
                                    bool *kept, ch_error *error) {
  json_t *settings = describe(options, plan);
  char *path = path_of(options);
  ch_status status = settings && path ? CH_OK : no_memory(error);
  *kept = status == CH_OK && ch_is_file(path);
  if (*kept) status = check(options, path, settings, error);
  json_decref(settings);
  free(path);
  return status;
}

ch_status ch_compare_settings_write(const ch_compare_options *options, const ch_compare_plan *plan,
                                    ch_error *error) {
  char *path = path_of(options);
  ch_status status =
      path ? ch_write_json(path, describe(options, plan), CH_DIGITS_EXACT, error) : no_memory(error);
  free(path);
  return status;
}
