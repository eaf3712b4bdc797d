/* The worker's process: its files, its start, the lines of JSON that it writes, and timings for forecasts. docs/gpu.md
   lists the lines. */
#define _GNU_SOURCE
#include "train/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/source.h"
#include "formats/transformers.h"
#include "graph/cache.h"
#include "model/accounting.h"
#include "train/options_json.h"
#include "train/trainer_private.h"

enum {
  EXIT_INTERRUPTED = 130, /* the worker's exit status after SIGTERM, once its checkpoint is saved */
  LONGEST_LINE = 1 << 20, /* longest line of the worker's output */
  POLL_MILLISECONDS = 50
};

/* A running worker. */
typedef struct process {
  const ch_worker *worker;
  const ch_train_events *events;
  /* [measured_count]: models that the worker measures; NULL: the worker trains */
  ch_worker_forecast *measured;
  int measured_count;
  const char *directory, *python;
  pid_t pid;
  int output; /* read end of the worker's standard output */
  char *line; /* [room]: bytes of an incomplete line, of which `used` were read */
  size_t used, room;
  int64_t step;      /* last reported step */
  int64_t steps;     /* steps of the run */
  bool began, ended; /* true after a completed step; true after the end of the output */
  bool terminated;   /* true after SIGTERM was sent */
  ch_status failed;  /* status of the reported error; CH_OK: none */
  char reason[sizeof(((ch_error *)NULL)->message)];
} process;

/* --- the worker's files --------------------------------------------------------------------------------- */

static ch_status write_code(const ch_config *config, const ch_params *params, const char *directory,
                            ch_error *error) {
  ch_source source = {.config = *config, .params = *params};
  ch_transformers_choose(&source, config, true);
  char *folder = ch_path_join(directory, CH_WORKER_CODE);
  if (!folder) return ch_no_memory(error);
  ch_status status = ch_transformers_write_untrained(&source, folder, error);
  free(folder);
  return status;
}

/* Returns the sequences to compute at a time: those of the settings, else those of the run's last start, else 0. */
static int64_t micro_batch_of(const ch_worker *worker, const char *directory) {
  if (worker->micro_batch > 0) return worker->micro_batch;
  char *path = ch_path_join(directory, CH_WORKER_SETTINGS);
  json_t *before = NULL;
  int64_t micro_batch = 0;
  if (path && ch_is_file(path) && ch_json_read(path, LONGEST_LINE, &before, NULL) == CH_OK)
    micro_batch = json_integer_value(json_object_get(before, "micro_batch"));
  json_decref(before);
  free(path);
  return micro_batch > 0 ? micro_batch : 0;
}

static ch_status write_settings(const ch_worker *worker, const char *directory, ch_error *error) {
  char *text = realpath(worker->text, NULL);
  json_t *settings = json_pack("{ss ss ss* sI sb}", "version", CH_VERSION_STRING, "text",
                               text ? text : worker->text, "device", worker->device, "micro_batch",
                               (json_int_t)micro_batch_of(worker, directory), "shard", worker->shard);
  free(text);
  return ch_json_write(directory, CH_WORKER_SETTINGS, settings, JSON_INDENT(2), error);
}

/* --- the worker's start --------------------------------------------------------------------------------- */

char *ch_find_python(const char *given) {
  const char *named = given ? given : getenv("CROSSHEAD_PYTHON"), *environment = getenv("VIRTUAL_ENV");
  if (named && *named) return strdup(named);
  if (environment && *environment) return ch_path_join(environment, "bin/python");
  return strdup("python3");
}

/* Starts the worker in a separate process group, so that Ctrl-C reaches only this process. *failure receives an
   error number, or 0. */
static void spawn(process *p, int output, int *failure) {
  const char *arguments[] = {p->python,
                             "-m",
                             "crosshead.worker",
                             p->measured ? "measure" : p->directory,
                             p->measured ? p->directory : NULL,
                             NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  *failure =
      posix_spawnp(&p->pid, p->python, &files, &attributes, (char *const *)(uintptr_t)arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
}

static ch_status start(process *p, ch_error *error) {
  int ends[2], failure;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return ch_fail(error, CH_ERROR_IO, "cannot start a worker: %s", strerror(errno));
  spawn(p, ends[1], &failure);
  close(ends[1]);
  p->output = ends[0];
  if (failure == 0) return CH_OK;
  close(ends[0]);
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s cannot be started (%s); {python} must name a Python that has PyTorch", p->python,
                 strerror(failure));
}

/* --- the worker's reports ------------------------------------------------------------------------------- */

static int64_t whole_of(const json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}

static void report_start(const process *p, const json_t *object) {
  const ch_trained_on on = {.device_name = ch_json_text_at(object, "name"),
                            .torch = ch_json_text_at(object, "torch"),
                            .python = ch_json_text_at(object, "python")};
  if (p->events->started) p->events->started(p->events->context, whole_of(object, "step"), &on);
}

static void report_step(process *p, const json_t *object) {
  const ch_step_report report = {.step = whole_of(object, "step"),
                                 .tokens = whole_of(object, "tokens"),
                                 .step_tokens = whole_of(object, "step_tokens"),
                                 .loss = ch_json_number_at(object, "loss", 0),
                                 .lr = ch_json_number_at(object, "lr", 0),
                                 .grad_norm = ch_json_number_at(object, "grad_norm", 0),
                                 .seconds = ch_json_number_at(object, "seconds", 0)};
  p->step = report.step;
  p->began = true;
  if (p->events->step) p->events->step(p->events->context, &report);
}

static void report_evaluation(const process *p, const json_t *object) {
  const ch_validation_point point = {.step = whole_of(object, "step"),
                                     .loss = ch_json_number_at(object, "validation_loss", 0),
                                     .top1 = ch_json_number_at(object, "top1", -1),
                                     .top5 = ch_json_number_at(object, "top5", -1)};
  if (p->events->evaluated) p->events->evaluated(p->events->context, &point);
}

static void report_measurement(const process *p, const json_t *object) {
  int64_t index = whole_of(object, "index");
  if (index < 0 || index >= p->measured_count) return;
  p->measured[index].seconds = ch_json_number_at(object, "seconds", 0);
  p->measured[index].memory_bytes = whole_of(object, "memory_bytes");
}

/* Stores the first error of the worker. Later ones follow from it. */
static void keep_failure(process *p, const json_t *object) {
  if (p->failed != CH_OK) return;
  const char *kind = ch_json_text_at(object, "kind");
  p->failed = strcmp(kind, "numeric") == 0  ? CH_ERROR_NUMERIC
              : strcmp(kind, "memory") == 0 ? CH_ERROR_MEMORY
              : strcmp(kind, "config") == 0 ? CH_ERROR_CONFIG
                                            : CH_ERROR_IO;
  snprintf(p->reason, sizeof p->reason, "%s", ch_json_text_at(object, "message"));
}

/* Handles a line of the worker. Lines that are not JSON come from somewhere else and are skipped. */
static void take_line(process *p, const char *line, size_t size) {
  json_t *object = json_loadb(line, size, 0, NULL);
  const char *event = ch_json_text_at(object, "event");
  if (strcmp(event, "started") == 0)
    report_start(p, object);
  else if (strcmp(event, "step") == 0)
    report_step(p, object);
  else if (strcmp(event, "evaluation") == 0)
    report_evaluation(p, object);
  else if (strcmp(event, "share") == 0 && p->events->share)
    p->events->share(p->events->context, ch_json_number_at(object, "share", 0));
  else if (strcmp(event, "measured") == 0)
    report_measurement(p, object);
  else if (strcmp(event, "error") == 0)
    keep_failure(p, object);
  json_decref(object);
}

/* Waits at most POLL_MILLISECONDS for output, and handles the complete lines. */
static void listen(process *p) {
  struct pollfd ready = {.fd = p->output, .events = POLLIN};
  if (poll(&ready, 1, POLL_MILLISECONDS) <= 0) return;
  ssize_t size = read(p->output, p->line + p->used, p->room - p->used);
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  p->ended = size <= 0;
  if (size > 0) p->used += (size_t)size;
  char *begin = p->line;
  for (char *end; (end = memchr(begin, '\n', (size_t)(p->line + p->used - begin))); begin = end + 1)
    take_line(p, begin, (size_t)(end - begin));
  p->used -= (size_t)(begin - p->line);
  memmove(p->line, begin, p->used);
  if (p->used == p->room) p->used = 0; /* no message is this long, so the output is skipped */
}

/* --- the worker's end ----------------------------------------------------------------------------------- */

static bool is_interrupted(const process *p) {
  return p->events->interrupted && p->events->interrupted(p->events->context);
}

/* Converts the worker's exit status. After an interruption, the worker ends by SIGTERM or with EXIT_INTERRUPTED. Any other
   signal is a failure of the run, and so is a SIGTERM that this process did not send. */
static ch_status judge(const process *p, int state, ch_error *error) {
  long long step = p->step, steps = p->steps;
  int code = WIFEXITED(state) ? WEXITSTATUS(state) : -1, number = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  if (code == EXIT_INTERRUPTED) number = SIGTERM;
  if (number == SIGTERM && (p->terminated || is_interrupted(p)))
    return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted after step %lld of %lld; {resume} continues",
                   step, steps);
  if (number)
    return ch_fail(error, CH_ERROR_IO,
                   "the worker of %s was killed by signal %d (%s) after step %lld of %lld%s", p->directory,
                   number, strsignal(number), step, steps,
                   step > 0 ? "; resume from its last checkpoint" : "");
  if (p->failed != CH_OK) return ch_fail(error, p->failed, "%s", p->reason);
  if (code == 0) return CH_OK;
  if (p->began)
    return ch_fail(error, CH_ERROR_IO,
                   "`%s -m crosshead.worker` ended with status %d; resume from its last checkpoint",
                   p->python, code);
  return ch_fail(
      error, CH_ERROR_IO,
      "`%s -m crosshead.worker` ended with status %d; {python} names a Python with PyTorch, transformers "
      "and the package crosshead (`make wheel`)",
      p->python, code);
}

static ch_status watch(process *p, ch_error *error) {
  int state = 0;
  while (!p->ended) {
    if (!p->terminated && is_interrupted(p)) {
      kill(p->pid, SIGTERM);
      p->terminated = true;
    }
    listen(p);
  }
  while (waitpid(p->pid, &state, 0) < 0 && errno == EINTR) continue;
  return judge(p, state, error);
}

ch_status ch_worker_train(const ch_worker *worker, ch_trainer *trainer, const char *directory,
                          const ch_train_events *events, bool *began, ch_error *error) {
  process p = {.worker = worker,
               .events = events,
               .directory = directory,
               .step = trainer->step,
               .steps = trainer->options.steps,
               .room = LONGEST_LINE};
  char *python = ch_find_python(worker->python), *checkpoint = ch_path_join(directory, CH_TRAIN_CHECKPOINT);
  ch_status status = CH_OK;
  p.python = python;
  p.line = malloc(p.room);
  if (!p.line || !python || !checkpoint) status = ch_no_memory(error);
  CH_TRY_GOTO(status);
  CH_TRY_GOTO(write_code(ch_trainer_config(trainer), ch_trainer_params(trainer), directory, error));
  CH_TRY_GOTO(write_settings(worker, directory, error));
  if (worker->prepare) goto done;
  CH_TRY_GOTO(start(&p, error));
  status = watch(&p, error);
  close(p.output);
  if (status == CH_OK || status == CH_ERROR_INTERRUPTED) {
    ch_error unread = {0};
    ch_status taken = ch_trainer_resume(trainer, checkpoint, &unread);
    if (taken != CH_OK) status = ch_fail_as(error, taken, &unread);
  }
done:
  *began = p.began;
  free(p.line);
  free(python);
  free(checkpoint);
  return status;
}

/* --- forecasts ------------------------------------------------------------------------------------------ */

/* Sets *sequence to the number of tokens to time on a CPU, and *factor to the estimated time of a whole sequence
   divided by the time of these tokens. */
static ch_status cpu_factor(const ch_worker_forecast *model, const ch_params *params, int64_t *sequence,
                            double *factor, ch_error *error) {
  enum { MEASURED = 128 };
  int64_t whole = ch_config_is_vision(model->config) ? 1 : model->options->sequence;
  ch_account at_whole, at_part;
  *sequence = whole < MEASURED ? whole : MEASURED;
  CH_TRY(ch_account_model(model->config, params, whole / 2, ch_cache_of(CH_F16), &at_whole, error));
  CH_TRY(ch_account_model(model->config, params, *sequence / 2, ch_cache_of(CH_F16), &at_part, error));
  *factor = (double)whole * at_whole.flops.total / ((double)*sequence * at_part.flops.total);
  return CH_OK;
}

/* Writes the code of a model to be measured, and adds its description to the list. */
static ch_status describe_measured(const ch_worker_forecast *model, const char *folder, json_t *list,
                                   ch_error *error) {
  ch_params params = {0};
  int64_t sequence = 0;
  double factor = 0;
  ch_status status = ch_make_directory(folder, error);
  if (status == CH_OK) status = ch_model_declare(model->config, &params, error);
  if (status == CH_OK) status = write_code(model->config, &params, folder, error);
  if (status == CH_OK) status = cpu_factor(model, &params, &sequence, &factor, error);
  ch_params_free(&params);
  CH_TRY(status);
  json_t *object = json_pack("{so so sI sf}", "config", ch_config_to_json(model->config), "options",
                             ch_train_options_to_json(model->options), "cpu_sequence", (json_int_t)sequence,
                             "cpu_factor", factor);
  return object && json_array_append_new(list, object) == 0 ? CH_OK : ch_no_memory(error);
}

static ch_status write_plan(const ch_worker *worker, int64_t devices, const char *path, json_t *models,
                            ch_error *error) {
  json_t *plan =
      json_pack("{ss* sI sI sb sO}", "device", worker->device, "devices", (json_int_t)devices, "micro_batch",
                (json_int_t)worker->micro_batch, "shard", worker->shard, "models", models);
  char *dump = plan ? ch_json_dump(plan, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
  ch_status status = dump ? ch_write_file(path, dump, strlen(dump), error) : ch_no_memory(error);
  free(dump);
  json_decref(plan);
  return status;
}

/* Removes the folder of a measurement: code of `count` models, and the plan. */
static void remove_measured(const char *folder, int count) {
  static const char *const files[] = {CH_WORKER_CODE "/modeling_crosshead.py",
                                      CH_WORKER_CODE "/configuration_crosshead.py",
                                      CH_WORKER_CODE "/config.json", CH_WORKER_CODE, "."};
  char path[PATH_MAX + 64];
  for (int i = 0; i < count; i++)
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
      snprintf(path, sizeof path, strcmp(files[f], ".") == 0 ? "%s/%d" : "%s/%d/%s", folder, i, files[f]);
      remove(path);
    }
  snprintf(path, sizeof path, "%s/measure.json", folder);
  remove(path);
  remove(folder);
}

ch_status ch_worker_measure(const ch_worker *worker, int64_t devices, ch_worker_forecast *models, int count,
                            ch_stop_test stop, void *stop_context, ch_error *error) {
  const char *temporary = getenv("TMPDIR");
  char folder[PATH_MAX], path[PATH_MAX + 64];
  const ch_train_events events = {.interrupted = stop, .context = stop_context};
  process p = {.worker = worker,
               .events = &events,
               .measured = models,
               .measured_count = count,
               .directory = folder,
               .room = LONGEST_LINE};
  snprintf(folder, sizeof folder, "%s/crosshead-XXXXXX", temporary && *temporary ? temporary : "/tmp");
  if (!mkdtemp(folder))
    return ch_fail(error, CH_ERROR_IO, "cannot create %s: %s; TMPDIR may name another directory", folder,
                   strerror(errno));
  json_t *list = json_array();
  char *python = ch_find_python(worker->python);
  ch_status status = CH_OK;
  p.python = python;
  p.line = malloc(p.room);
  if (!p.line || !python || !list) status = ch_no_memory(error);
  for (int i = 0; status == CH_OK && i < count; i++) {
    snprintf(path, sizeof path, "%s/%d", folder, i);
    status = describe_measured(&models[i], path, list, error);
  }
  snprintf(path, sizeof path, "%s/measure.json", folder);
  if (status == CH_OK) status = write_plan(worker, devices, path, list, error);
  if (status == CH_OK) status = start(&p, error);
  if (status == CH_OK) {
    status = watch(&p, error);
    close(p.output);
  }
  remove_measured(folder, count);
  json_decref(list);
  free(p.line);
  free(python);
  return status;
}
