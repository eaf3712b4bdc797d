/* Reads the log.jsonl and the result.json of a training run into a record. The log of an interrupted run may end
 * anywhere; only its complete lines are read. */
#define _GNU_SOURCE
#include "runs/collect_run.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/file.h"
#include "base/json.h"
#include "config_file/config_json.h"
#include "runs/stored_texts.h"

enum { MOST_POINTS = 1000, MOST_RESULT_BYTES = 1 << 26 };

/* Points in the order of the log. */
typedef struct points {
  ch_curve_point *list;
  int64_t count, room;
} points;

typedef struct run_reader {
  const char *directory;
  ch_arena *arena;
  ch_run_record *run;
  points training, validation;
  json_t *trained; /* engine, device and versions at the last start or resume; NULL before the first */
  bool begun;      /* true once the configuration and options of the first start or resume were read */
} run_reader;

/* --- lines ---------------------------------------------------------------------------------------------- */

static bool add_point(points *p, int64_t tokens, double loss) {
  if (p->count == p->room) {
    int64_t room = 2 * p->room + 256;
    ch_curve_point *list = realloc(p->list, (size_t)room * sizeof *list);
    if (!list) return false;
    p->list = list;
    p->room = room;
  }
  p->list[p->count++] = (ch_curve_point){tokens, loss};
  return true;
}

static const char *copy_run_text(const run_reader *r, const char *text) {
  return ch_arena_strdup(r->arena, text ? text : "");
}

static const char *copy_json(const run_reader *r, const json_t *value) {
  return ch_stored_json(r->arena, value);
}

static const char *text_at(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

/* Returns the number of tokens or images that a line reports, or -1. */
static int64_t amount_of(const json_t *line) {
  const json_t *value = json_object_get(line, "tokens");
  if (!value) value = json_object_get(line, "images");
  return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* Returns the name of a configuration's mechanism, or NULL. If the configuration does not name the mechanism, as with
 * "llama", it is parsed. */
static const char *mechanism_of(const json_t *config) {
  const char *name = text_at(json_object_get(config, "attention"), "type");
  char *text = name || !config ? NULL : json_dumps(config, 0);
  ch_config read;
  ch_error ignored;
  if (text && ch_config_parse(text, "config", &read, &ignored) == CH_OK) name = ch_mechanism_of(&read)->name;
  free(text);
  return name;
}

static ch_status read_start(run_reader *r, const json_t *line, ch_error *error) {
  const json_t *options = json_object_get(line, "options"), *config = json_object_get(line, "config");
  const char *seed = text_at(options, "seed");
  ch_run_record *run = r->run;
  r->begun = true;
  if (seed) run->seed = strtoll(seed, NULL, 10);
  run->lr = ch_json_number_at(options, "lr", NAN);
  run->started = copy_run_text(r, text_at(line, "time"));
  run->version = copy_run_text(r, text_at(line, "version"));
  run->config = copy_json(r, config);
  run->options = copy_json(r, options);
  run->mechanism = copy_run_text(r, mechanism_of(config));
  run->parameters = json_integer_value(json_object_get(line, "parameters"));
  bool fine = run->started && run->version && run->config && run->options && run->mechanism;
  return fine ? CH_OK : ch_no_memory(error);
}

/* Reads the engine of the steps that follow: the native engine, or PyTorch with its device. */
static ch_status read_engine(run_reader *r, const json_t *line, ch_error *error) {
  static const char *const members[][2] = {{"device", "device"}, {"name", "device_name"}, {"torch", "torch"}};
  const char *engine = text_at(line, "engine");
  json_decref(r->trained);
  r->trained = json_pack("{ss}", "engine", engine ? engine : "native");
  if (!r->trained) return ch_no_memory(error);
  for (size_t i = 0; engine && i < sizeof members / sizeof *members; i++) {
    json_t *value = json_object_get(json_object_get(line, "machine"), members[i][0]);
    if (json_is_string(value)) json_object_set(r->trained, members[i][1], value);
  }
  return CH_OK;
}

static ch_status read_line(run_reader *r, const json_t *line, ch_error *error) {
  const char *event = text_at(line, "event"), *time = text_at(line, "time");
  ch_run_record *run = r->run;
  if (!event) return CH_OK;
  if (strcmp(event, "start") == 0 || (strcmp(event, "resume") == 0 && !r->begun))
    CH_TRY(read_start(r, line, error));
  if (strcmp(event, "start") == 0 || strcmp(event, "resume") == 0) {
    run->status = "interrupted"; /* until a later line reports the end */
    CH_TRY(read_engine(r, line, error));
  }
  if (strcmp(event, "step") == 0) {
    double seconds = ch_json_number_at(line, "seconds", NAN);
    if (!add_point(&r->training, amount_of(line), ch_json_number_at(line, "loss", NAN)))
      return ch_no_memory(error);
    if (isfinite(seconds)) run->seconds += seconds;
  }
  if (strcmp(event, "evaluation") == 0 &&
      !add_point(&r->validation, amount_of(line), ch_json_number_at(line, "validation_loss", NAN)))
    return ch_no_memory(error);
  if (strcmp(event, "done") == 0) run->status = "done";
  if (strcmp(event, "error") == 0) run->status = "failed";
  if (time) run->finished = copy_run_text(r, time);
  return run->finished ? CH_OK : ch_no_memory(error);
}

static ch_status read_log(run_reader *r, const char *path, ch_error *error) {
  FILE *file = fopen(path, "re");
  char *text = NULL;
  size_t room = 0;
  ssize_t size;
  ch_status status = CH_OK;
  if (!file)
    return ch_fail(error, CH_ERROR_IO, "%s: %s; give the directory of a training run", path, strerror(errno));
  while (status == CH_OK && (size = getline(&text, &room, file)) > 0) {
    json_t *line = json_loadb(text, (size_t)size, 0, NULL); /* an incomplete last line is ignored */
    if (line) status = read_line(r, line, error);
    json_decref(line);
  }
  free(text);
  fclose(file);
  if (status == CH_OK && !r->begun)
    return ch_fail(error, CH_ERROR_FORMAT, "%s does not begin as the log of a training run does", path);
  return status;
}

/* --- results as runs ------------------------------------------------------------------------------------ */

/* Stores a curve. If it has more than MOST_POINTS points, stores means of equal stretches. */
static ch_status keep_curve(const run_reader *r, const points *p, const ch_curve_point **kept, int64_t *count,
                            ch_error *error) {
  *count = p->count < MOST_POINTS ? p->count : MOST_POINTS;
  ch_curve_point *list = ch_arena_alloc(r->arena, (size_t)(*count + 1) * sizeof *list);
  if (!list) return ch_no_memory(error);
  for (int64_t i = 0; i < *count; i++) {
    int64_t from = p->count * i / *count, to = p->count * (i + 1) / *count;
    double sum = 0;
    for (int64_t k = from; k < to; k++) sum += p->list[k].loss;
    list[i] = (ch_curve_point){p->list[to - 1].tokens, sum / (double)(to - from)};
  }
  *kept = list;
  return CH_OK;
}

static ch_status keep_curves(const run_reader *r, ch_error *error) {
  ch_run_record *run = r->run;
  CH_TRY(keep_curve(r, &r->training, &run->curve, &run->curve_points, error));
  CH_TRY(keep_curve(r, &r->validation, &run->validation_curve, &run->validation_points, error));
  run->tokens = r->training.count ? r->training.list[r->training.count - 1].tokens : 0;
  if (run->curve_points) run->loss = run->curve[run->curve_points - 1].loss;
  if (run->validation_points) run->validation_loss = run->validation_curve[run->validation_points - 1].loss;
  return CH_OK;
}

/* Stores result.json without its curves, which are stored as points. */
static ch_status keep_results(const run_reader *r, const char *path, ch_error *error) {
  json_t *object = NULL;
  r->run->results = "{}";
  if (!ch_is_file(path)) return CH_OK;
  CH_TRY(ch_json_read(path, MOST_RESULT_BYTES, &object, error));
  json_object_del(object, "curve");
  json_object_del(object, "validation_curve");
  r->run->results = copy_json(r, object);
  json_decref(object);
  return r->run->results ? CH_OK : ch_no_memory(error);
}

static ch_status collect_directories(run_reader *r, const ch_run_labels *labels, ch_error *error) {
  ch_run_record *run = r->run;
  char whole[PATH_MAX], name[256];
  if (!realpath(r->directory, whole))
    return ch_fail(error, CH_ERROR_IO, "%s: %s", r->directory, strerror(errno));
  ch_path_stem(whole, name, sizeof name);
  run->kind = labels->kind ? labels->kind : "train";
  run->directory = copy_run_text(r, whole);
  run->name = copy_run_text(r, labels->name ? labels->name : name);
  run->dataset = copy_run_text(r, labels->dataset);
  run->command = copy_run_text(r, labels->command);
  run->commit = copy_run_text(r, labels->commit);
  char *log = ch_path_join(r->directory, "log.jsonl"), *result = ch_path_join(r->directory, "result.json");
  ch_status status = CH_OK;
  if (!log || !result || !run->directory || !run->name || !run->dataset || !run->command || !run->commit)
    CH_TRY_GOTO(ch_no_memory(error));
  CH_TRY_GOTO(read_log(r, log, error));
  CH_TRY_GOTO(keep_curves(r, error));
  r->run->machine = ch_stored_machine(r->arena, r->trained);
  CH_TRY_GOTO(r->run->machine ? CH_OK : ch_no_memory(error));
  status = keep_results(r, result, error);
  if (labels->status) run->status = labels->status;
done:
  free(log);
  free(result);
  return status;
}

ch_status ch_collect_run(const char *directory, const ch_run_labels *labels, ch_arena *arena,
                         ch_run_record *run, ch_error *error) {
  run_reader r = {.directory = directory, .arena = arena, .run = run};
  *run = (ch_run_record){.seed = -1, .parameters = -1, .lr = NAN, .loss = NAN, .validation_loss = NAN};
  ch_status status = collect_directories(&r, labels, error);
  free(r.training.list);
  free(r.validation.list);
  json_decref(r.trained);
  return status;
}
