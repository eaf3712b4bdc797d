/* Checks, completes and saves the settings of a comparison or sweep. Most settings are rows of one table. A continued
 * experiment must have the settings with which it was started, except those that the table marks as free. */
#include "experiment/trial/settings.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "config/initial_std.h"
#include "config_file/config_json.h"
#include "experiment/lineup/ladder_sizes.h"
#include "experiment/lineup/match_size.h"
#include "experiment/lineup/learning_rates.h"
#include "experiment/trial/rate_search.h"
#include "experiment/findings/comparison_results.h"
#include "experiment/trial/task_list.h"
#include "text/hash.h"

enum { MOST_SETTINGS_BYTES = 1 << 24, MOST_PARTS = 10000 };

/* Keys in the settings file: tokens (or epochs) with which the comparison was started, and steps that were measured. */
static const char grown_key[] = "grown_from", timed_key[] = "timed";

/* --- the table --------------------------------------------------------------------------------------------------- */

typedef enum setting_type { SETTING_COUNT, SETTING_NUMBER, SETTING_SEED, SETTING_NAME } setting_type;

/* The experiments that use a setting. */
enum { COUNTS_EVERYWHERE, COUNTS_FOR_IMAGES, COUNTS_IN_COMPARISONS, COUNTS_IN_SWEEPS };

typedef struct setting {
  const char *name; /* name of the member; in the settings file "micro_batch" has the key "--micro-batch" */
  setting_type type;
  size_t offset;      /* offset in ch_compare_settings */
  double least, most; /* bounds of a count or number; most < least: no upper bound */
  int counts;
  bool free; /* true if the setting is not saved, so that it may change when a comparison is continued */
  /* [name_count] names of an enumeration's values; NULL for values that are refused */
  const char *const *names;
  int name_count;
  const char *file_name; /* name in the settings file, if it differs from `name` */
} setting;

/* The name of CH_MATCH_PARAMETERS in files of earlier versions. */
static const char old_match[] = "all";
static const char *const engines[] = {[CH_ENGINE_NATIVE] = "native", [CH_ENGINE_PYTORCH] = "pytorch"};
static const char *const schedules[] = {[CH_TRAIN_COSINE] = "cosine", [CH_TRAIN_CONSTANT] = "constant"};
static const char *const arithmetics[] = {
    [CH_PRECISION_DEFAULT] = "f32", [CH_PRECISION_F32] = "f32", [CH_PRECISION_BF16] = "bf16"};

#define AT(member) offsetof(ch_compare_settings, member)
#define COUNT(title, member, low, high)                                                                      \
  .name = (title), .type = SETTING_COUNT, .offset = AT(member), .least = (low), .most = (high)
#define NUMBER(title, member, low, high)                                                                     \
  .name = (title), .type = SETTING_NUMBER, .offset = AT(member), .least = (low), .most = (high)
#define NAME(title, member, list)                                                                            \
  .name = (title), .type = SETTING_NAME, .offset = AT(member), .names = (list), .name_count = COUNT_##list
enum {
  COUNT_ch_match_names = CH_MATCHES,
  COUNT_engines = sizeof engines / sizeof *engines,
  COUNT_schedules = sizeof schedules / sizeof *schedules,
  COUNT_arithmetics = sizeof arithmetics / sizeof *arithmetics,
  COUNT_ch_init_names = CH_INIT_FAN_IN + 1,
  COUNT_ch_parametrization_names = CH_PARAMETRIZATION_SPECTRAL + 1,
  NONE = -2 /* upper bound of settings that have none */
};

/* The settings that are numbers or names, in the order in which they are saved. A new setting is a member of
 * ch_compare_settings and a row here; the program has a row of options that names the member (cli/comparison_options.h,
 * cli/cmd_compare.c). A setting that an old file lacks counts as the default. */
static const setting settings_table[] = {
    {COUNT("epochs", vision.epochs, 1, 100000), .counts = COUNTS_FOR_IMAGES},
    {COUNT("patch", vision.patch, 0, 4096), .counts = COUNTS_FOR_IMAGES},
    {COUNT("image_size", vision.image_size, 0, 4096), .counts = COUNTS_FOR_IMAGES},
    {COUNT("parameters", lineup.parameters, 0, NONE), .file_name = "params"},
    {NAME("match", lineup.match, ch_match_names)},
    {COUNT("cache_per_token", lineup.cache_per_token, 0, NONE)},
    {COUNT("context", verdict.context, 0, 1 << 30), .counts = COUNTS_IN_COMPARISONS},
    {COUNT("layers", lineup.layers, 0, 1000)},
    {COUNT("hidden", lineup.hidden, 0, 65536)},
    {COUNT("heads", lineup.heads, 0, 4096)},
    {COUNT("vocab", lineup.vocab, 0, 4000000)},
    {NAME("init", lineup.init, ch_init_names)},
    {NAME("parametrization", lineup.parametrization, ch_parametrization_names)},
    {COUNT("tokens", training.tokens, 1, NONE)},
    {COUNT("batch", training.batch, 1, 65536)},
    {COUNT("micro_batch", training.micro_batch, 0, 65536)},
    {COUNT("sequence", lineup.sequence, 1, 1048576), .file_name = "seq"},
    {COUNT("evaluations", training.evaluations, 1, 10000), .counts = COUNTS_IN_SWEEPS},
    {NUMBER("lr", rates.lr, 1e-12, 10), .counts = COUNTS_IN_COMPARISONS},
    {COUNT("tune", rates.tune, 0, CH_TUNE_MOST), .counts = COUNTS_IN_COMPARISONS},
    {NAME("schedule", training.schedule, schedules)},
    {NAME("type", training.type, arithmetics), .file_name = "dtype"},
    {COUNT("warmup", training.warmup, -1, 1e9)},
    {NAME("engine", workers.engine, engines)},
    {.name = "seed", .type = SETTING_SEED, .offset = AT(training.seed)},
    {COUNT("eval_tokens", training.eval_tokens, 0, NONE)},
    {COUNT("evaluations", training.evaluations, 0, 10000), .counts = COUNTS_IN_COMPARISONS, .free = true},
    {COUNT("seeds", training.seeds, 1, CH_COMPARE_MOST_SEEDS), .free = true},
    {NUMBER("tolerance", verdict.tolerance, 0, 1), .counts = COUNTS_IN_COMPARISONS, .free = true},
    {NUMBER("budget", schedule.budget, 0, NONE), .counts = COUNTS_IN_COMPARISONS, .free = true},
    {NUMBER("risk", schedule.risk, 0, 1), .counts = COUNTS_IN_COMPARISONS, .free = true},
    {NUMBER("cache_budget", verdict.cache_budget, 0, NONE), .counts = COUNTS_IN_COMPARISONS, .free = true},
    {COUNT("users", verdict.users, 0, 1 << 30), .counts = COUNTS_IN_COMPARISONS, .free = true},
};
enum { SETTINGS = sizeof settings_table / sizeof *settings_table };

static bool counts(const setting *row, const ch_compare_settings *s, ch_experiment experiment) {
  switch (row->counts) {
  case COUNTS_FOR_IMAGES:
    return s->vision.images != NULL;
  case COUNTS_IN_COMPARISONS:
    return experiment == CH_EXPERIMENT_COMPARISON;
  case COUNTS_IN_SWEEPS:
    return experiment == CH_EXPERIMENT_SWEEP;
  }
  return true;
}

static double value_of(const setting *row, const ch_compare_settings *s) {
  const char *member = (const char *)s + row->offset;
  return row->type == SETTING_NUMBER ? *(const double *)(const void *)member
                                     : (double)*(const int64_t *)(const void *)member;
}

/* Returns the name of a setting's value; NULL for a value without a name. */
static const char *setting_choice_name(const setting *row, const ch_compare_settings *s) {
  unsigned value = *(const unsigned *)(const void *)((const char *)s + row->offset);
  return value < (unsigned)row->name_count ? row->names[value] : NULL;
}

static const char *name_in_file(const setting *row) {
  return row->file_name ? row->file_name : row->name;
}

static json_t *setting_json(const setting *row, const ch_compare_settings *s) {
  const char *member = (const char *)s + row->offset;
  switch (row->type) {
  case SETTING_NUMBER:
    return json_real(value_of(row, s));
  case SETTING_NAME:
    return json_string(setting_choice_name(row, s));
  case SETTING_COUNT:
  case SETTING_SEED: /* signed in JSON, with the same bits */
    break;
  }
  return json_integer(*(const int64_t *)(const void *)member);
}

/* --- ranges and defaults ----------------------------------------------------------------------------------------- */

const ch_compare_settings ch_compare_usual = {
    .lineup = {.mechanisms = "mha,gqa,mqa", .sequence = 256, .parametrization = CH_PARAMETRIZATION_SPECTRAL},
    .vision.epochs = 10,
    .training = {.tokens = 2000000, .warmup = -1, .seed = 1, .seeds = 1},
    .schedule.risk = 0.01,
    .workers.ranks_per_run = 1,
    .verdict = {.tolerance = 0.01, .task_items = 100}};

/* Returns the size of a batch: sixteen sequences, or fewer, but at least two, if there would be fewer than 256 steps.
 * With equally many tokens, more steps of fewer sequences reach lower losses, and the learning rate matters less. */
static int64_t usual_batch(int64_t tokens, int64_t sequence) {
  enum { MOST = 16, LEAST = 2, STEPS = 256 };
  int64_t batch = MOST;
  while (batch > LEAST && sequence > 0 && tokens / sequence / batch < STEPS) batch /= 2;
  return batch;
}

/* Completes the settings that follow from other settings. */
static void complete(ch_compare_settings *s) {
  if (s->training.batch == 0)
    s->training.batch = s->vision.images ? 64 : usual_batch(s->training.tokens, s->lineup.sequence);
  if (s->rates.lr == 0) s->rates.lr = ch_usual_rate(s->lineup.parametrization, s->vision.images);
  if (s->vision.images) s->lineup.sequence = 1;
  if (s->training.type == CH_PRECISION_DEFAULT) s->training.type = CH_PRECISION_F32;
  if (!s->report.command) s->report.command = "";
}

/* Fails with the values that a setting can have: "{type} must be one of f32, bf16". */
static ch_status refuse_name(const setting *row, ch_error *error) {
  ch_text names = {0};
  for (int i = 0; i < row->name_count; i++)
    if (row->names[i] && (i == 0 || !row->names[i - 1] || strcmp(row->names[i], row->names[i - 1]) != 0))
      ch_text_printf(&names, "%s%s", names.size ? ", " : "", row->names[i]);
  ch_fail(error, CH_ERROR_ARGUMENT, "{%s} must be one of %s", row->name, names.data ? names.data : "");
  ch_text_free(&names);
  return CH_ERROR_ARGUMENT;
}

static ch_status check_range(const setting *row, const ch_compare_settings *s, ch_error *error) {
  if (row->type == SETTING_SEED || (row->type == SETTING_NAME && setting_choice_name(row, s))) return CH_OK;
  if (row->type == SETTING_NAME) return refuse_name(row, error);
  double value = value_of(row, s);
  bool bounded = row->most >= row->least;
  if (value >= row->least && (!bounded || value <= row->most)) return CH_OK;
  return bounded ? ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is %g; it must be from %.10g to %.10g", row->name,
                           value, row->least, row->most)
                 : ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is %g; it must be at least %.10g", row->name,
                           value, row->least);
}

/* Checks that the quantity to be equal fits the experiment and the models. */
static ch_status check_match(const ch_compare_settings *s, ch_experiment experiment, ch_error *error) {
  bool cache = s->lineup.match == CH_MATCH_CACHE;
  if (cache && s->vision.images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{match} cache is for text: models of images have no cache");
  if (cache && s->lineup.cache_per_token == 0)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{match} cache needs {cache_per_token}, the number of cache elements per token in all layers");
  if (!cache && s->lineup.cache_per_token != 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{cache_per_token} is for {match} cache; give both or neither");
  if (s->lineup.match == CH_MATCH_TIME && experiment == CH_EXPERIMENT_SWEEP)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{match} time is for `crosshead compare`; the runs of a sweep have equally many tokens");
  return CH_OK;
}

static ch_status check_ladder(const ch_compare_settings *s, ch_error *error) {
  int64_t sizes[CH_LADDER_MOST_RUNGS];
  int count;
  if (s->schedule.target != 0 && !s->schedule.ladder)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{target} needs {ladder}, the sizes to predict from");
  if (s->schedule.target < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{target} is %lld; it is a number of parameters",
                   (long long)s->schedule.target);
  return s->schedule.ladder ? ch_ladder_sizes(s, CH_COMPARE_USUAL_PARAMS, sizes, &count, error) : CH_OK;
}

/* Checks the budget of caches, for one token or for the contexts of all users together. */
static ch_status check_cache_budget(const ch_compare_settings *s, ch_error *error) {
  if (s->verdict.cache_budget > 0 && s->vision.images)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{cache_budget} is for comparisons on text; images have no cache");
  if (s->verdict.users > 0 && !(s->verdict.cache_budget > 0))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{users} needs {cache_budget}, the memory that their caches share");
  if (s->verdict.users > 0 && s->verdict.context == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{users} needs {context}, the tokens of each user");
  return CH_OK;
}

/* Refuses shares of a comparison whose runs follow from other runs or from measurements. */
static ch_status check_shares(const ch_compare_settings *s, ch_error *error) {
  const char *name = s->schedule.collect ? "collect" : "part";
  if (s->schedule.parts == 0 && !s->schedule.collect) return CH_OK;
  if (s->schedule.parts != 0 && s->schedule.collect)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{collect} and {part} exclude each other; give one of them");
  if (s->schedule.parts != 0 && (s->schedule.parts < 1 || s->schedule.parts > MOST_PARTS ||
                                 s->schedule.part < 1 || s->schedule.part > s->schedule.parts))
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{part} is %d/%d; write the share and the number of shares, like 1/8, ..., 8/8, at most %d",
        s->schedule.part, s->schedule.parts, MOST_PARTS);
  if (s->schedule.until_decided)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{until_decided} adds runs later, but {%s} needs to know all runs in advance; use {seeds} instead",
        name);
  if (s->lineup.match == CH_MATCH_TIME)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{match} time measures one machine, but {%s} is for several; match something else", name);
  if (s->verdict.remeasure && s->schedule.parts)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{remeasure} times all models on one machine; give it with {collect} instead of {part}");
  return CH_OK;
}

static ch_status check_workers(const ch_compare_workers *workers, ch_error *error) {
  if (workers->shard && workers->engine == CH_ENGINE_NATIVE)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{shard} needs {engine} pytorch");
  if (workers->shard && workers->ranks_per_run < 2)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{shard} divides a model over the devices that train it; give {ranks_per_run} 2 or more");
  return CH_OK;
}

ch_status ch_compare_settings_complete(const ch_compare_settings *given, ch_experiment experiment,
                                       ch_compare_settings *whole, ch_error *error) {
  ch_compare_settings settings = *given;
  double common;
  CH_TRY(ch_rates_common(settings.rates.rates, &common, error));
  if (common > 0 && settings.rates.lr > 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{lr} and a rate without a name in {rates} are both given; give one");
  if (common > 0) settings.rates.lr = common;
  complete(&settings);
  if (settings.rates.tune != 0 && settings.rates.tune < CH_TUNE_LEAST)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{tune} is %lld; it needs at least %d rates",
                   (long long)settings.rates.tune, CH_TUNE_LEAST);
  if (!settings.text.data == !settings.vision.images)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   settings.text.data
                       ? "{data} and {images} exclude each other; give one of them"
                       : "{data} is missing: the text to train on; or {images}, for Vision Transformers");
  if (!settings.report.out || !settings.lineup.mechanisms)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is missing", settings.report.out ? "mechanisms" : "out");
  if (settings.lineup.init != CH_INIT_DEFAULT &&
      settings.lineup.parametrization == CH_PARAMETRIZATION_SPECTRAL)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{init} is for {parametrization} standard; the spectral one sets the initial weights itself");
  if (experiment == CH_EXPERIMENT_COMPARISON &&
      settings.schedule.until_decided != (settings.schedule.budget > 0))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   settings.schedule.until_decided
                       ? "{until_decided} needs {budget}: the seconds of training that it may spend at most"
                       : "{budget} is for {until_decided}; give both or neither");
  for (int i = 0; i < SETTINGS; i++)
    if (counts(&settings_table[i], &settings, experiment))
      CH_TRY(check_range(&settings_table[i], &settings, error));
  if (experiment == CH_EXPERIMENT_COMPARISON) CH_TRY(check_cache_budget(&settings, error));
  CH_TRY(check_match(&settings, experiment, error));
  CH_TRY(check_ladder(&settings, error));
  CH_TRY(check_shares(&settings, error));
  CH_TRY(check_workers(&settings.workers, error));
  CH_TRY(ch_check_task_list(&settings, error));
  if (whole) *whole = settings;
  return CH_OK;
}

/* --- the file of settings ---------------------------------------------------------------------------------------- */

static bool put(json_t *settings, const char *key, json_t *value) {
  return value && json_object_set_new(settings, key, value) == 0;
}

/* Writes the key of a setting in the file, which begins with two dashes. Configurations have keys without dashes. */
static void write_key(const char *name, char key[64]) {
  snprintf(key, 64, "--%s", name);
  for (; *key; key++)
    if (*key == '_') *key = '-';
}

static bool is_setting(const char *key, const char *name) {
  char expected[64];
  write_key(name, expected);
  return strcmp(key, expected) == 0;
}

static bool put_setting(json_t *settings, const char *name, json_t *value) {
  char key[64];
  write_key(name, key);
  return put(settings, key, value);
}

/* Adds the list of mechanisms without spaces, in the order of training. */
static bool put_mechanisms(json_t *settings, const ch_compare_plan *plan) {
  ch_text text = {0};
  for (int i = 0; i < plan->count; i++) ch_text_printf(&text, "%s%s", i ? "," : "", plan->models[i].name);
  bool fine = !text.failed && put_setting(settings, "mechanisms", json_string(text.data));
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

/* Adds the duration of each run and the steps of each model for CH_MATCH_TIME. They were measured, so they cannot be
 * computed again. */
static bool put_timed(json_t *settings, const ch_compare_plan *plan) {
  json_t *steps = json_object();
  bool fine = steps &&
              put(settings, timed_key, json_pack("{sf sO}", "seconds", plan->budget_seconds, "steps", steps));
  for (int i = 0; fine && i < plan->count; i++)
    fine = put(steps, plan->models[i].name, json_integer((json_int_t)plan->models[i].steps));
  json_decref(steps);
  return fine;
}

static json_t *describe_settings(const ch_compare_settings *s, ch_experiment experiment,
                                 const ch_compare_plan *plan, int64_t grown_from) {
  json_t *object = json_object();
  bool fine = object && put_mechanisms(object, plan);
  for (int i = 0; fine && i < SETTINGS; i++) {
    const setting *row = &settings_table[i];
    if (!row->free && counts(row, s, experiment))
      fine = put_setting(object, name_in_file(row), setting_json(row, s));
  }
  if (fine && grown_from) fine = put(object, grown_key, json_integer(grown_from));
  if (fine && plan->budget_seconds > 0) fine = put_timed(object, plan);
  if (fine && put_configs(object, plan)) return object;
  json_decref(object);
  return NULL;
}

/* Returns a value as text, such as "2000000", or "its default" for a setting that was not given. */
static const char *shown_value(const json_t *value, char *buffer, size_t size) {
  if (!value || (json_is_integer(value) && json_integer_value(value) <= 0)) return "its default";
  if (!json_is_string(value)) return ch_json_show(value, buffer, size);
  snprintf(buffer, size, "%s", json_string_value(value));
  return buffer;
}

/* Returns the row of a key; NULL for the key of a configuration file. */
static const setting *row_of(const char *key) {
  for (int i = 0; i < SETTINGS; i++)
    if (is_setting(key, name_in_file(&settings_table[i]))) return &settings_table[i];
  return NULL;
}

static char *path_of(const ch_compare_settings *settings, ch_experiment experiment) {
  return ch_path_join(settings->report.out,
                      experiment == CH_EXPERIMENT_SWEEP ? CH_SWEEP_SETTINGS : CH_COMPARE_SETTINGS);
}

/* Returns true if a setting is the length of a comparison's runs. */
static bool is_length(const ch_compare_settings *settings, ch_experiment experiment, const char *key) {
  return experiment == CH_EXPERIMENT_COMPARISON &&
         is_setting(key, settings->vision.images ? "epochs" : "tokens");
}

static ch_status differs(const ch_compare_settings *settings, ch_experiment experiment, const char *key,
                         const json_t *kept, const json_t *asked, ch_error *error) {
  const char *kind = experiment == CH_EXPERIMENT_SWEEP ? "sweep" : "comparison";
  char a[160], b[160];
  if (is_setting(key, "mechanisms") && experiment == CH_EXPERIMENT_COMPARISON)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s holds a comparison with {mechanisms} %s, but this command has %s; repeat that list "
                   "(you may append to it), or give another {out}",
                   settings->report.out, shown_value(kept, a, sizeof a), shown_value(asked, b, sizeof b));
  const setting *row = row_of(key);
  if (!row)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "%s holds a %s with an earlier version of %.200s; restore it to continue, or give another {out}",
        settings->report.out, kind, key);
  if (is_length(settings, experiment, key) && settings->training.schedule != CH_TRAIN_CONSTANT &&
      json_integer_value(asked) > json_integer_value(kept))
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "%s holds a comparison with {%s} %s, whose learning rate has already decayed, so it cannot be "
        "extended; give another {out} (with {schedule} constant, {%s} may be raised later)",
        settings->report.out, row->name, shown_value(kept, a, sizeof a), row->name);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s holds a %s with {%s} %s, but this command has %s; use the old value to continue it, or "
                 "give another {out}",
                 settings->report.out, kind, row->name, shown_value(kept, a, sizeof a),
                 shown_value(asked, b, sizeof b));
}

/* Returns true if a value is the default. A setting that did not exist when the comparison was started had its
 * default. */
static bool is_default(const ch_compare_settings *settings, const char *key, const json_t *value) {
  const setting *row = row_of(key);
  if (!row) return false;
  ch_compare_settings usual = ch_compare_usual;
  usual.vision.images = settings->vision.images;
  usual.lineup.parametrization = CH_PARAMETRIZATION_STANDARD; /* earlier versions had no other */
  complete(&usual);
  json_t *of_usual = setting_json(row, &usual);
  bool same = json_equal(of_usual, value);
  json_decref(of_usual);
  return same;
}

static bool names_a_file(const char *list) {
  return strstr(list, ".json") || strchr(list, '/');
}

/* Returns true if mechanisms were only added at the end, so that earlier ones keep their directories. Without
 * `parameters` the first configuration file gives the size, which must not change. */
static bool is_longer_list(const ch_compare_settings *settings, ch_experiment experiment, const char *key,
                           const json_t *kept, const json_t *asked) {
  const char *before = json_string_value(kept), *now = json_string_value(asked);
  if (experiment == CH_EXPERIMENT_SWEEP || !is_setting(key, "mechanisms") || !before || !now) return false;
  size_t length = strlen(before);
  if (strncmp(before, now, length) != 0 || now[length] != ',') return false;
  return settings->lineup.parameters > 0 || names_a_file(before) || !names_a_file(now);
}

/* Returns true for a configuration file that the longer list adds. */
static bool is_added_file(const char *key, const json_t *kept, const json_t *all) {
  char mechanisms[64];
  write_key("mechanisms", mechanisms);
  const char *names = json_string_value(json_object_get(all, mechanisms));
  return !kept && strncmp(key, "--", 2) != 0 && names && !strstr(names, key);
}

/* Returns true if runs may be extended. With a constant rate, a longer run begins with the steps of the shorter one. */
static bool may_grow(const ch_compare_settings *settings, ch_experiment experiment, const char *key,
                     const json_t *kept, const json_t *asked) {
  return is_length(settings, experiment, key) && settings->training.schedule == CH_TRAIN_CONSTANT &&
         settings->lineup.match != CH_MATCH_TIME && json_is_integer(kept) &&
         json_integer_value(asked) > json_integer_value(kept);
}

static void take_timed(const json_t *timed, ch_compare_plan *plan) {
  double seconds = json_number_value(json_object_get(timed, "seconds"));
  const json_t *steps = json_object_get(timed, "steps");
  if (!(seconds > 0)) return;
  plan->budget_seconds = seconds;
  for (int i = 0; i < plan->count; i++) {
    int64_t kept = json_integer_value(json_object_get(steps, plan->models[i].name));
    plan->models[i].steps = kept > 0 ? kept : 0;
  }
}

static ch_status check_stored_settings(const ch_compare_settings *settings, ch_experiment experiment,
                                       const char *path, const json_t *asked, ch_compare_plan *plan,
                                       int64_t *grown_from, ch_error *error) {
  json_t *kept = NULL;
  ch_status status = CH_OK;
  CH_TRY(ch_json_read(path, MOST_SETTINGS_BYTES, &kept, error));
  *grown_from = json_integer_value(json_object_get(kept, grown_key));
  if (*grown_from < 0) *grown_from = 0;
  if (settings->lineup.match == CH_MATCH_TIME) take_timed(json_object_get(kept, timed_key), plan);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)asked, key, value) {
    const json_t *before = json_object_get(kept, key);
    if (!before && is_default(settings, key, value)) continue;
    if (is_longer_list(settings, experiment, key, before, value) || is_added_file(key, before, kept))
      continue;
    if (is_setting(key, "match") && settings->lineup.match == CH_MATCH_PARAMETERS && json_is_string(before) &&
        strcmp(json_string_value(before), old_match) == 0)
      continue;
    if (may_grow(settings, experiment, key, before, value)) {
      if (*grown_from <= 0) *grown_from = json_integer_value(before);
      continue;
    }
    if (status == CH_OK && !json_equal(before, value))
      status = differs(settings, experiment, key, before, value, error);
  }
  json_decref(kept);
  return status;
}

ch_status ch_compare_settings_check(const ch_compare_settings *settings, ch_experiment experiment,
                                    ch_compare_plan *plan, ch_stored_settings *kept, ch_error *error) {
  *kept = (ch_stored_settings){0};
  json_t *asked = describe_settings(settings, experiment, plan, 0);
  char *path = path_of(settings, experiment);
  ch_status status = asked && path ? CH_OK : ch_no_memory(error);
  kept->there = status == CH_OK && ch_is_file(path);
  if (kept->there)
    status = check_stored_settings(settings, experiment, path, asked, plan, &kept->grown_from, error);
  json_decref(asked);
  free(path);
  return status;
}

ch_status ch_compare_settings_hash(const ch_compare_settings *settings, ch_experiment experiment,
                                   const ch_compare_plan *plan, uint64_t *hash, ch_error *error) {
  json_t *all = describe_settings(settings, experiment, plan, 0);
  char *text = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
  const int64_t others[] = {
      settings->training.seeds,  settings->training.evaluations,  settings->schedule.until_decided,
      settings->schedule.parts,  settings->workers.ranks_per_run, settings->schedule.part,
      settings->schedule.target, settings->schedule.collect,      settings->verdict.remeasure};
  if (text)
    *hash = ch_hash_mix(ch_hash_bytes(text, strlen(text), 1), ch_hash_bytes(others, sizeof others, 2));
  free(text);
  json_decref(all);
  return text ? CH_OK : ch_no_memory(error);
}

ch_status ch_compare_settings_write(const ch_compare_settings *settings, ch_experiment experiment,
                                    const ch_compare_plan *plan, int64_t grown_from, ch_error *error) {
  char *path = path_of(settings, experiment);
  json_t *all = path ? describe_settings(settings, experiment, plan, grown_from) : NULL;
  ch_status status = all ? ch_write_json(path, all, CH_DIGITS_EXACT, error) : ch_no_memory(error);
  free(path);
  return status;
}
