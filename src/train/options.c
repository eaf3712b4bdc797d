/* One table of the options: defaults, ranges, JSON, and the options that a resumed run must not change. */
#include "train/options.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "config/spectral.h"
#include "config_file/config_json.h"
#include "train/options_json.h"

typedef enum option_kind { WHOLE, NUMBER, YES_NO, SCHEDULE, DTYPE, SEED } option_kind;

/* The options that a resumed run must not change: SAME and OF_IMAGES, and SAME_WITH_COSINE unless the rate is
   constant. OF_IMAGES is for models of images only and is written only if it is not zero, its default. PASSING is not
   written. */
typedef enum option_sameness { FREE, SAME, SAME_WITH_COSINE, OF_IMAGES, PASSING } option_sameness;

typedef struct option_row {
  const char *name, *setting; /* name: member in JSON; setting: name in messages */
  option_kind kind;
  size_t offset;
  option_sameness same;
  double standard, least, most; /* default and inclusive bounds */
  size_t source; /* offset of the member of ch_train_settings; NONE: the caller sets the option */
  double unset;  /* value of the setting that leaves the option unchanged */
} option_row;

#define AT(member) offsetof(ch_train_options, member)
#define SET(member) offsetof(ch_train_settings, member)
#define NONE SIZE_MAX

static const double largest_count = 1e9;

static const option_row rows[] = {
    {"batch", "batch", WHOLE, AT(batch), SAME, 8, 1, 1e6, SET(training.batch), 0},
    {"sequence", "sequence", WHOLE, AT(sequence), SAME, 512, 1, 1 << 24, SET(training.sequence), 0},
    {"accumulate", "accumulate", WHOLE, AT(accumulate), SAME, 1, 1, 1e6, SET(training.accumulate), 0},
    {"micro_batch", "micro_batch", WHOLE, AT(micro_batch), SAME, 0, 0, 1e6, SET(training.micro_batch), 0},
    {"steps", "steps", WHOLE, AT(steps), SAME_WITH_COSINE, 0, 1, 1e8, SET(training.steps), 0},
    {"lr", "lr", NUMBER, AT(lr), SAME, 1e-3, 0, 1e3, SET(optimizer.lr), 0},
    {"schedule", "schedule", SCHEDULE, AT(schedule), SAME, CH_TRAIN_COSINE, 0, 0, SET(optimizer.schedule), 0},
    {"warmup", "warmup", WHOLE, AT(warmup), SAME, -1, -1, 1e8, SET(optimizer.warmup), -1},
    {"beta1", "beta1", NUMBER, AT(beta1), SAME, 0.9, 0, 0.999999, SET(optimizer.beta1), -1},
    {"beta2", "beta2", NUMBER, AT(beta2), SAME, 0.95, 0, 0.9999999, SET(optimizer.beta2), -1},
    {"eps", "eps", NUMBER, AT(eps), SAME, 1e-8, 1e-30, 1, SET(optimizer.eps), 0},
    {"weight_decay", "weight_decay", NUMBER, AT(weight_decay), SAME, 0.1, 0, 1e3, SET(optimizer.weight_decay),
     -1},
    {"clip", "clip", NUMBER, AT(clip), SAME, 1, 0, 1e9, SET(optimizer.clip), -1},
    {"seed", "seed", SEED, AT(seed), SAME, 0, 0, 0, SET(training.seed), 0},
    {"documents", "documents_apart", YES_NO, AT(documents), SAME, 0, 0, 1, SET(text.documents_apart), 0},
    {"flip", "augment", YES_NO, AT(flip), OF_IMAGES, 0, 0, 1, NONE, 0},
    {"crop", "crop", WHOLE, AT(crop), OF_IMAGES, 0, 0, 4096, NONE, 0},
    {"label_smoothing", "label_smoothing", NUMBER, AT(label_smoothing), OF_IMAGES, 0, 0, 0.99,
     SET(vision.label_smoothing), -1},
    {"recompute", "recompute", YES_NO, AT(recompute), FREE, 0, 0, 1, SET(training.recompute), 0},
    {"whole_tables", "whole_tables", YES_NO, AT(whole_tables), PASSING, 0, 0, 1, SET(training.whole_tables),
     0},
    {"dtype", "type", DTYPE, AT(dtype), SAME, CH_F32, 0, 0, SET(training.type), 0},
    {"eval_every", "eval_every", WHOLE, AT(eval_every), FREE, 0, 0, 1e9, SET(report.eval_every), -1},
    {"eval_tokens", "eval_tokens", WHOLE, AT(eval_tokens), FREE, 131072, 0, 1e12, SET(report.eval_tokens),
     -1},
    {"checkpoint_every", "checkpoint_every", WHOLE, AT(checkpoint_every), FREE, 0, 0, 1e9,
     SET(report.checkpoint_every), -1},
};
enum { ROWS = sizeof rows / sizeof *rows, IMAGES_OF_A_BATCH = 64 };

static int64_t *whole_at(const ch_train_options *options, const option_row *row) {
  return (int64_t *)((char *)(uintptr_t)options + row->offset);
}
static double *number_at(const ch_train_options *options, const option_row *row) {
  return (double *)((char *)(uintptr_t)options + row->offset);
}
static bool *bool_at(const ch_train_options *options, const option_row *row) {
  return (bool *)((char *)(uintptr_t)options + row->offset);
}

/* --- defaults and checks -------------------------------------------------------------------------------- */

void ch_train_options_default(const ch_config *config, ch_train_options *options) {
  *options = (ch_train_options){.schedule = CH_TRAIN_COSINE, .dtype = CH_F32};
  for (int i = 0; i < ROWS; i++) {
    if (rows[i].kind == WHOLE) *whole_at(options, &rows[i]) = (int64_t)rows[i].standard;
    if (rows[i].kind == NUMBER) *number_at(options, &rows[i]) = rows[i].standard;
  }
  if (options->sequence > config->max_position_embeddings)
    options->sequence = config->max_position_embeddings;
  if (config->parametrization == CH_PARAMETRIZATION_SPECTRAL) options->lr = ch_spectral_rate;
  if (!ch_config_is_vision(config)) return;
  options->sequence = 1;
  options->batch = IMAGES_OF_A_BATCH;
}

static void put_row(const ch_train_settings *settings, const option_row *row, ch_train_options *options) {
  const void *setting = (const char *)settings + row->source;
  int64_t whole = 0;
  double number = 0;
  bool yes = false;
  switch (row->kind) {
  case WHOLE:
    memcpy(&whole, setting, sizeof whole);
    if (whole != (int64_t)row->unset) *whole_at(options, row) = whole;
    return;
  case NUMBER:
    memcpy(&number, setting, sizeof number);
    if (number != row->unset) *number_at(options, row) = number;
    return;
  case YES_NO:
    memcpy(&yes, setting, sizeof yes);
    if (yes) *bool_at(options, row) = true;
    return;
  case SCHEDULE:
    if (settings->optimizer.schedule != CH_TRAIN_USUAL) options->schedule = settings->optimizer.schedule;
    return;
  case DTYPE:
    if (settings->training.type != CH_PRECISION_DEFAULT)
      options->dtype = settings->training.type == CH_PRECISION_F64    ? CH_F64
                       : settings->training.type == CH_PRECISION_BF16 ? CH_BF16
                                                                      : CH_F32;
    return;
  case SEED:
    if (settings->training.seed != CH_TRAIN_SEED_USUAL) options->seed = settings->training.seed;
    return;
  }
}

void ch_train_options_put(const ch_train_settings *settings, ch_train_options *options) {
  for (int i = 0; i < ROWS; i++)
    if (rows[i].source != NONE) put_row(settings, &rows[i], options);
}

static ch_status check_ranges(const ch_train_options *options, ch_error *error) {
  for (int i = 0; i < ROWS; i++) {
    const option_row *row = &rows[i];
    if (row->kind != WHOLE && row->kind != NUMBER) continue;
    double value = row->kind == WHOLE ? (double)*whole_at(options, row) : *number_at(options, row);
    if (!(value >= row->least && value <= row->most))
      return ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is %g; it must be between %g and %g", row->setting,
                     value, row->least, row->most);
  }
  return CH_OK;
}

/* Rejects options for images in models of text, and options for text in models of images. */
static ch_status check_kind(const ch_train_options *o, const ch_config *config, ch_error *error) {
  bool vision = ch_config_is_vision(config);
  if (vision && (o->sequence != 1 || o->documents))
    return ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is for text; this model is for images",
                   o->documents ? "documents_apart" : "sequence");
  if (vision && o->crop > config->image_size / 2)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{crop} %lld is more than half of the images' %lld pixels",
                   (long long)o->crop, (long long)config->image_size);
  if (!vision && (o->flip || o->crop || o->label_smoothing > 0))
    return ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is for images; this model is for text",
                   o->flip   ? "augment"
                   : o->crop ? "crop"
                             : "label_smoothing");
  return CH_OK;
}

ch_status ch_train_options_check(const ch_train_options *options, const ch_config *config, ch_error *error) {
  const ch_train_options *o = options;
  CH_TRY(check_ranges(o, error));
  CH_TRY(check_kind(o, config, error));
  if (o->lr <= 0) return ch_fail(error, CH_ERROR_ARGUMENT, "{lr} is %g; it must be above 0", o->lr);
  if (o->dtype != CH_F32 && o->dtype != CH_BF16 && o->dtype != CH_F64)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{type} is %s; training runs in F32, BF16 or F64",
                   ch_dtype_name(o->dtype));
  if (o->sequence > config->max_position_embeddings)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{sequence} %lld is longer than the config's max_position_embeddings of %lld; change one of them",
        (long long)o->sequence, (long long)config->max_position_embeddings);
  if (o->micro_batch > 0 && o->batch % o->micro_batch != 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{micro_batch} %lld must divide {batch} %lld",
                   (long long)o->micro_batch, (long long)o->batch);
  if ((double)o->batch * (double)o->accumulate * (double)o->sequence > largest_count)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{batch} %lld x {accumulate} %lld x {sequence} %lld is more than 1G tokens per step",
                   (long long)o->batch, (long long)o->accumulate, (long long)o->sequence);
  if (o->schedule != CH_TRAIN_CONSTANT && o->warmup >= o->steps && o->warmup > 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{warmup} %lld must be less than the %lld steps",
                   (long long)o->warmup, (long long)o->steps);
  return CH_OK;
}

ch_dtype ch_train_real(const ch_train_options *options) {
  return options->dtype == CH_BF16 ? CH_F32 : options->dtype;
}

int64_t ch_train_step_tokens(const ch_train_options *options) {
  return options->batch * options->accumulate * options->sequence;
}

int64_t ch_train_steps_for(const ch_train_options *options, int64_t tokens) {
  int64_t step_tokens = ch_train_step_tokens(options);
  return tokens / step_tokens + (tokens % step_tokens != 0);
}

/* --- names of choices ----------------------------------------------------------------------------------- */

static const char *schedule_name(ch_train_schedule schedule) {
  return schedule == CH_TRAIN_CONSTANT         ? "constant"
         : schedule == CH_TRAIN_COSINE_TO_ZERO ? "cosine-to-zero"
                                               : "cosine";
}

static bool schedule_parse(const char *name, ch_train_schedule *schedule) {
  *schedule = strcmp(name, "constant") == 0         ? CH_TRAIN_CONSTANT
              : strcmp(name, "cosine-to-zero") == 0 ? CH_TRAIN_COSINE_TO_ZERO
                                                    : CH_TRAIN_COSINE;
  return strcmp(name, schedule_name(*schedule)) == 0;
}

/* --- JSON ----------------------------------------------------------------------------------------------- */

static json_t *value_of(const ch_train_options *options, const option_row *row) {
  char seed[24];
  switch (row->kind) {
  case WHOLE:
    return json_integer(*whole_at(options, row));
  case NUMBER:
    return json_real(*number_at(options, row));
  case YES_NO:
    return json_boolean(*bool_at(options, row));
  case SCHEDULE:
    return json_string(schedule_name(options->schedule));
  case DTYPE:
    return json_string(ch_dtype_name(options->dtype));
  case SEED:
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->seed);
    return json_string(seed);
  }
  return NULL;
}

json_t *ch_config_to_json(const ch_config *config) {
  ch_text text = {0};
  ch_config_write(config, &text);
  json_t *json = text.data && !text.failed ? json_loadb(text.data, text.size, 0, NULL) : NULL;
  ch_text_free(&text);
  return json;
}

static bool is_zero(const ch_train_options *options, const option_row *row) {
  return row->kind == WHOLE    ? *whole_at(options, row) == 0
         : row->kind == NUMBER ? *number_at(options, row) == 0
                               : !*bool_at(options, row);
}

json_t *ch_train_options_to_json(const ch_train_options *options) {
  json_t *object = json_object();
  for (int i = 0; i < ROWS; i++) {
    if (rows[i].same == PASSING || (rows[i].same == OF_IMAGES && is_zero(options, &rows[i]))) continue;
    if (json_object_set_new(object, rows[i].name, value_of(options, &rows[i])) != 0) {
      json_decref(object);
      return NULL;
    }
  }
  return object;
}

static bool read_value(const json_t *value, const option_row *row, ch_train_options *options) {
  const char *text = json_is_string(value) ? json_string_value(value) : "";
  char *end;
  switch (row->kind) {
  case WHOLE:
    *whole_at(options, row) = json_integer_value(value);
    return json_is_integer(value);
  case NUMBER:
    *number_at(options, row) = json_number_value(value);
    return json_is_number(value);
  case YES_NO:
    *bool_at(options, row) = json_is_true(value);
    return json_is_boolean(value);
  case SCHEDULE:
    return schedule_parse(text, &options->schedule);
  case DTYPE:
    return ch_dtype_parse(text, &options->dtype);
  case SEED:
    options->seed = strtoull(text, &end, 10);
    return *text && !*end;
  }
  return false;
}

ch_status ch_train_options_from_json(const json_t *object, const char *where, ch_train_options *options,
                                     ch_error *error) {
  *options = (ch_train_options){0};
  for (int i = 0; i < ROWS; i++) {
    const json_t *value = json_object_get(object, rows[i].name);
    bool left_out = rows[i].same == PASSING || (rows[i].same == OF_IMAGES && !value);
    if (!left_out && !read_value(value, &rows[i], options))
      return ch_fail(error, CH_ERROR_FORMAT,
                     "%s: its options lack a usable \"%s\"; it is damaged or of another version", where,
                     rows[i].name);
  }
  return CH_OK;
}

/* --- resuming ------------------------------------------------------------------------------------------- */

static bool must_match(const option_row *row, const ch_train_options *options) {
  return row->same == SAME || row->same == OF_IMAGES ||
         (row->same == SAME_WITH_COSINE && options->schedule != CH_TRAIN_CONSTANT);
}

/* Shows a value as it is typed after an option: names in small letters, without quotes. */
static const char *typed(const json_t *value, char *buffer, size_t size) {
  const char *name = json_string_value(value);
  if (!name) return ch_json_show(value, buffer, size);
  size_t length = 0;
  for (; name[length] && length + 1 < size; length++)
    buffer[length] = (char)tolower((unsigned char)name[length]);
  buffer[length] = '\0';
  return buffer;
}

ch_status ch_train_options_match(const ch_train_options *stored, const ch_train_options *asked,
                                 const char *where, ch_error *error) {
  ch_status status = CH_OK;
  for (int i = 0; i < ROWS && status == CH_OK; i++) {
    json_t *before = value_of(stored, &rows[i]), *now = value_of(asked, &rows[i]);
    char left[64], right[64];
    if (must_match(&rows[i], stored) && !json_equal(before, now))
      status = ch_fail(
          error, CH_ERROR_ARGUMENT,
          "%s was started with {%s} %s, not %s; resume with the old value or train into another directory",
          where, rows[i].setting, typed(before, left, sizeof left), typed(now, right, sizeof right));
    json_decref(before);
    json_decref(now);
  }
  return status;
}
