/* Writes the log of a run, and cuts it back to the step of a checkpoint when a run resumes. */
#define _GNU_SOURCE
#include "train/log.h"

#include <crosshead/version.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "train/options_json.h"
#include "train/trainer_private.h"

static ch_status log_error(const ch_log *log, const char *what, ch_error *error) {
  return ch_fail(error, CH_ERROR_IO, "cannot %s %s: %s", what, log->path, strerror(errno));
}

ch_status ch_log_open(ch_log *log, const char *path, ch_error *error) {
  *log = (ch_log){.path = strdup(path)};
  if (!log->path) return ch_no_memory(error);
  log->file = fopen(path, "a+e");
  ch_status status = log->file ? CH_OK : log_error(log, "open", error);
  if (status == CH_OK && flock(fileno(log->file), LOCK_EX | LOCK_NB) != 0)
    status = errno == EWOULDBLOCK
                 ? ch_fail(error, CH_ERROR_IO, "%s is in use: another run is training in its directory", path)
                 : CH_OK; /* a file system without locks */
  if (status != CH_OK) ch_log_close(log);
  return status;
}

void ch_log_close(ch_log *log) {
  if (log->file) fclose(log->file);
  free(log->path);
  *log = (ch_log){0};
}

/* --- cutting -------------------------------------------------------------------------------------------- */

typedef struct cut {
  int64_t step;         /* step of the checkpoint */
  bool evaluated, done; /* evaluated: keep an evaluation at `step`; done: "done" was logged */
} cut;

static bool keep_line(const char *line, size_t size, cut *c) {
  if (size == 0 || line[size - 1] != '\n') return false;
  json_t *object = json_loadb(line, size, 0, NULL);
  if (!object) return false;
  const json_t *number = json_object_get(object, "step");
  const char *event = json_string_value(json_object_get(object, "event"));
  int64_t step = json_is_integer(number) ? json_integer_value(number) : 0;
  bool keep = step <= c->step;
  if (event && step == c->step && strcmp(event, "evaluation") == 0) keep = c->evaluated;
  if (event && step == c->step && strcmp(event, "done") == 0) c->done = true;
  json_decref(object);
  return keep;
}

static ch_status truncate_at(ch_log *log, off_t size, ch_error *error) {
  /* The seek lets the stream turn from reading to writing. */
  if (ftruncate(fileno(log->file), size) != 0 || fseek(log->file, 0, SEEK_END) != 0)
    return log_error(log, "cut", error);
  return CH_OK;
}

ch_status ch_log_cut(ch_log *log, int64_t step, bool evaluated, bool *done, ch_error *error) {
  cut c = {.step = step, .evaluated = evaluated};
  rewind(log->file);
  char *line = NULL;
  size_t capacity = 0;
  ssize_t size;
  off_t kept = 0;
  while ((size = getline(&line, &capacity, log->file)) > 0 && keep_line(line, (size_t)size, &c)) kept += size;
  bool failed = ferror(log->file) != 0;
  free(line);
  *done = c.done;
  if (failed) return log_error(log, "read", error);
  return truncate_at(log, kept, error);
}

ch_status ch_log_clear(ch_log *log, ch_error *error) {
  return truncate_at(log, 0, error);
}

/* --- writing -------------------------------------------------------------------------------------------- */

static const char *utc_now(char buffer[CH_UTC_SIZE]) {
  return ch_format_utc(time(NULL), buffer);
}

/* Writes one line and flushes it, so that a killed program loses no line. */
static ch_status put_line(ch_log *log, const char *line, ch_error *error) {
  if (fputs(line, log->file) == EOF || fputc('\n', log->file) == EOF || fflush(log->file) != 0)
    return log_error(log, "write", error);
  return CH_OK;
}

static ch_status put_object(ch_log *log, json_t *object, ch_error *error) {
  char *line = object ? ch_json_dump(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(object);
  if (!line) return ch_no_memory(error);
  ch_status status = put_line(log, line, error);
  free(line);
  return status;
}

static json_t *machine_json(const ch_trainer *trainer) {
  struct utsname name = {0};
  uname(&name);
  return json_pack("{ss ss ss si}", "system", name.sysname, "architecture", name.machine, "kernels",
                   trainer->engine.kernels->name, "threads", ch_team_of(0).threads);
}

ch_status ch_log_start(ch_log *log, const ch_trainer *trainer, ch_error *error) {
  char time[32];
  int64_t parameters = 0;
  for (int p = 0; p < trainer->params.count; p++) parameters += ch_param_count(&trainer->params.rows[p]);
  json_t *line =
      json_pack("{ss sI ss ss so? so? so? ss sI sI}", "event", trainer->step > 0 ? "resume" : "start", "step",
                (json_int_t)trainer->step, "time", utc_now(time), "version", CH_VERSION_STRING, "machine",
                machine_json(trainer), "config", ch_config_to_json(&trainer->config), "options",
                ch_train_options_to_json(&trainer->options), "source", trainer->source.fingerprint,
                "parameters", (json_int_t)parameters, "memory_bytes", (json_int_t)ch_trainer_bytes(trainer));
  return put_object(log, line, error);
}

/* Writes a number with nine digits. */
static const char *number_text(double number, char buffer[40]) {
  snprintf(buffer, 40, "%.9g", number);
  return buffer;
}

/* Writes the balance loss and the loads of experts, one list per layer. */
static void put_experts(const ch_step_report *report, ch_text *line) {
  char loss[40];
  if (report->expert_layers == 0) return;
  ch_text_printf(line, ",\"balance_loss\":%s,\"expert_load\":", number_text(report->balance_loss, loss));
  for (int64_t i = 0; i < report->expert_layers * report->experts; i++)
    ch_text_printf(line, "%s%lld",
                   i == 0                     ? "[["
                   : i % report->experts == 0 ? "],["
                                              : ",",
                   (long long)report->expert_load[i]);
  ch_text_puts(line, "]]");
}

ch_status ch_log_step(ch_log *log, const ch_step_report *report, const char *unit, double rate,
                      ch_error *error) {
  char loss[40], lr[40], norm[40], time[32];
  ch_text line = {0};
  ch_text_printf(&line,
                 "{\"event\":\"step\",\"step\":%lld,\"%s\":%lld,\"loss\":%s,\"lr\":%s,\"grad_norm\":%s,"
                 "\"%s_per_second\":%.1f,\"seconds\":%.4f,\"time\":\"%s\"",
                 (long long)report->step, unit, (long long)report->tokens, number_text(report->loss, loss),
                 number_text(report->lr, lr), number_text(report->grad_norm, norm), unit, rate,
                 report->seconds, utc_now(time));
  put_experts(report, &line);
  ch_text_puts(&line, "}");
  ch_status status = line.failed ? ch_no_memory(error) : put_line(log, line.data, error);
  ch_text_free(&line);
  return status;
}

ch_status ch_log_evaluation(ch_log *log, const ch_validation_point *point, const char *unit, int64_t done,
                            ch_error *error) {
  char time[32];
  json_t *line = json_pack("{ss sI sI sf}", "event", "evaluation", "step", (json_int_t)point->step, unit,
                           (json_int_t)done, "validation_loss", point->loss);
  if (line && point->top1 >= 0)
    json_object_update_new(line, json_pack("{sf sf}", "top1", point->top1, "top5", point->top5));
  if (line) json_object_set_new(line, "time", json_string(utc_now(time)));
  return put_object(log, line, error);
}

ch_status ch_log_event(ch_log *log, const char *name, int64_t step, const char *message, ch_error *error) {
  char time[32];
  json_t *line = json_pack("{ss sI ss}", "event", name, "step", (json_int_t)step, "time", utc_now(time));
  if (line && message && json_object_set_new(line, "message", json_string(message)) != 0) {
    json_decref(line);
    line = NULL;
  }
  return put_object(log, line, error);
}
