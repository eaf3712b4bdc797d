/* Drives a trainer: steps, evaluations, checkpoints and the log, in an order that a crash cannot break.
 *
 * After step n come, in this order: its line in the log, an evaluation when one is due, a checkpoint when one
 * is due. After any interruption, resuming finds a checkpoint of some step k, cuts the log back to k, catches up
 * on an evaluation that was due after k, and continues with step k + 1. */
#define _GNU_SOURCE
#include "train/run.h"

#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/progress.h"
#include "train/log.h"
#include "train/options_json.h"
#include "train/worker.h"

static const double checkpoint_seconds = 600;
static const char *const written_files[] = {CH_TRAIN_CHECKPOINT, "model.safetensors", "config.json", NULL};

typedef struct run {
  ch_trainer *trainer;
  const ch_train_options *options;
  const ch_train_events *events;
  const char *directory;
  char *checkpoint;                 /* path of the checkpoint */
  ch_rank_group *ranks;             /* ranks that drive the trainer together; rank 0 writes the files */
  ch_log log;                       /* log, open on rank 0 only */
  double last_saved;                /* time of the last checkpoint on ch_clock */
  int64_t saved_step, saved_points; /* step of the checkpoint on disk (-1: none); evaluations in it */
} run;

static ch_progress_record progress_of(const run *r) {
  ch_progress_record record;
  ch_trainer_progress(r->trainer, &record);
  return record;
}

static bool leads(const run *r) {
  return ch_ranks_leads(r->ranks);
}

static ch_status agree(const run *r, ch_status status, ch_error *error) {
  return ch_agree(r->ranks, status, error);
}

/* --- the directory -------------------------------------------------------------------------------------- */

/* Fails before the first step if the disk has no space for checkpoints and the model. */
static ch_status check_space(const run *r, ch_error *error) {
  struct statvfs disk;
  if (statvfs(r->directory, &disk) != 0) return CH_OK;
  size_t weights = 0;
  const ch_params *params = ch_trainer_params(r->trainer);
  for (int p = 0; p < params->count; p++)
    weights += (size_t)ch_param_count(&params->rows[p]) * ch_dtype_size(ch_train_real(r->options));
  /* A new checkpoint (weights and two moments) is written next to the old one, which is then replaced; the
     model is written last. */
  int copies = r->saved_step >= 0 ? 3 : 6;
  double needed = (double)copies * (double)weights, left = (double)disk.f_bavail * (double)disk.f_frsize;
  if (left >= needed) return CH_OK;
  return ch_fail(error, CH_ERROR_IO,
                 "%s has %.0f MB of free space, but checkpoints and the model need %.0f MB; free some or "
                 "choose another {out}",
                 r->directory, left / 1e6, needed / 1e6);
}

static void note_saved(run *r) {
  ch_progress_record record = progress_of(r);
  r->saved_step = record.step;
  r->saved_points = record.validation_points;
  r->last_saved = ch_clock();
}

/* Returns true if the trainer has progress that the checkpoint on disk lacks. */
static bool unsaved(const run *r) {
  ch_progress_record record = progress_of(r);
  return record.step != r->saved_step || record.validation_points != r->saved_points;
}

static bool evaluated_here(const run *r) {
  ch_progress_record record = progress_of(r);
  return record.validation_points > 0 && record.validation[record.validation_points - 1].step == record.step;
}

/* Resumes from the checkpoint in the directory, if there is one. */
static ch_status take_up(run *r, bool resume, bool *done, ch_error *error) {
  *done = false;
  r->saved_step = -1;
  if (!ch_ranks_decide(r->ranks, ch_is_file(r->checkpoint)))
    return agree(r, leads(r) ? ch_log_clear(&r->log, error) : CH_OK, error);
  if (!resume)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s already holds a training run; continue it with {resume} or choose another {out}",
                   r->directory);
  CH_TRY(ch_trainer_resume(r->trainer, r->checkpoint, error));
  note_saved(r);
  ch_status status = leads(r) ? ch_log_cut(&r->log, r->saved_step, evaluated_here(r), done, error) : CH_OK;
  CH_TRY(agree(r, status, error));
  *done = ch_ranks_decide(r->ranks, *done);
  return CH_OK;
}

/* --- between steps -------------------------------------------------------------------------------------- */

static bool interrupted(const run *r) {
  return r->events->interrupted && r->events->interrupted(r->events->context);
}

static ch_status save(run *r, ch_error *error) {
  CH_TRY(ch_trainer_save(r->trainer, r->checkpoint, error));
  note_saved(r);
  if (r->events->saved) r->events->saved(r->events->context, r->saved_step, r->checkpoint);
  return CH_OK;
}

static bool evaluation_due(const run *r) {
  ch_progress_record record = progress_of(r);
  bool possible = record.step > 0 && !evaluated_here(r) && ch_trainer_can_evaluate(r->trainer);
  bool round = r->options->eval_every > 0 && record.step % r->options->eval_every == 0;
  return possible && (round || record.step == record.steps);
}

static ch_status evaluate(run *r, ch_error *error) {
  double loss;
  if (r->events->evaluating) r->events->evaluating(r->events->context);
  CH_TRY(ch_trainer_evaluate(r->trainer, r->events->interrupted, r->events->context, &loss, error));
  ch_progress_record record = progress_of(r);
  const ch_validation_point *point = &record.validation[record.validation_points - 1];
  ch_status status =
      leads(r) ? ch_log_evaluation(&r->log, point, ch_trainer_unit(r->trainer), record.tokens, error) : CH_OK;
  CH_TRY(agree(r, status, error));
  if (r->events->evaluated) r->events->evaluated(r->events->context, point);
  return CH_OK;
}

static bool checkpoint_due(const run *r) {
  ch_progress_record record = progress_of(r);
  if (!unsaved(r)) return false;
  if (record.step == record.steps) return true;
  if (r->options->checkpoint_every > 0)
    return record.step > 0 && record.step % r->options->checkpoint_every == 0;
  return ch_ranks_decide(r->ranks, ch_clock() - r->last_saved >= checkpoint_seconds);
}

static ch_status step(run *r, ch_error *error) {
  ch_step_report report;
  CH_TRY(ch_trainer_step(r->trainer, r->events->interrupted, r->events->context, &report, error));
  double rate = (double)report.step_tokens / (report.seconds > 0 ? report.seconds : 1e-9);
  ch_status status =
      leads(r) ? ch_log_step(&r->log, &report, ch_trainer_unit(r->trainer), rate, error) : CH_OK;
  CH_TRY(agree(r, status, error));
  if (r->events->step) r->events->step(r->events->context, &report);
  return CH_OK;
}

static ch_status go_on(run *r, ch_error *error) {
  ch_trainer_tell_share(r->trainer, r->events->share, r->events->context);
  for (;;) {
    if (evaluation_due(r)) CH_TRY(evaluate(r, error));
    if (checkpoint_due(r)) CH_TRY(save(r, error));
    ch_progress_record record = progress_of(r);
    if (record.step == record.steps) return CH_OK;
    /* Several ranks agree on an interruption when the step begins. */
    if (!r->ranks && interrupted(r)) return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
    CH_TRY(step(r, error));
  }
}

/* --- the end -------------------------------------------------------------------------------------------- */

/* Saves the progress of a run that was stopped, and logs the reason. */
static ch_status stop(run *r, ch_status why, ch_error *error) {
  int64_t at = progress_of(r).step;
  ch_error lost = {0};
  /* After a failure of the log or the text, the weights are still good and worth a checkpoint. After a
     number that is not finite, no checkpoint is saved. */
  bool worth = why == CH_ERROR_INTERRUPTED || why == CH_ERROR_IO || why == CH_ERROR_MEMORY;
  if (worth && unsaved(r)) ch_trainer_save(r->trainer, r->checkpoint, &lost);
  if (why != CH_ERROR_INTERRUPTED) {
    if (leads(r)) ch_log_event(&r->log, "error", at, error ? error->message : NULL, NULL);
    return why;
  }
  if (lost.status != CH_OK)
    return ch_fail(error, lost.status, "interrupted after step %lld, and the checkpoint was not saved: %s",
                   (long long)at, lost.message);
  if (leads(r)) ch_log_event(&r->log, "interrupted", at, NULL, NULL);
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted after step %lld of %lld; {resume} continues",
                 (long long)at, (long long)r->options->steps);
}

/* Removes the files of a worker that computed no step in a new run. */
static void withdraw(const run *r) {
  static const char *const files[] = {CH_TRAIN_CHECKPOINT,
                                      CH_WORKER_SETTINGS,
                                      CH_WORKER_CODE "/modeling_crosshead.py",
                                      CH_WORKER_CODE "/configuration_crosshead.py",
                                      CH_WORKER_CODE "/config.json",
                                      CH_WORKER_CODE};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char *path = ch_path_join(r->directory, files[i]);
    if (path) remove(path);
    free(path);
  }
}

/* Sets *changed to true if the checkpoint on disk has other options than the run. A resumed run may change some. */
static ch_status compare_options(const run *r, bool *changed, ch_error *error) {
  ch_train_options stored;
  CH_TRY(ch_checkpoint_read_options(r->checkpoint, &stored, NULL, NULL, error));
  json_t *before = ch_train_options_to_json(&stored), *now = ch_train_options_to_json(r->options);
  *changed = !json_equal(before, now);
  json_decref(before);
  json_decref(now);
  return CH_OK;
}

/* Trains in a worker. The worker takes its options and the state of the run from the checkpoint and writes log,
 * checkpoints and model; the trainer then continues from its result. */
static ch_status hand_over(run *r, ch_error *error) {
  bool fresh = r->saved_step < 0, began = false, changed = false;
  if (!fresh) CH_TRY(compare_options(r, &changed, error));
  if (changed || unsaved(r)) CH_TRY(save(r, error));
  ch_log_close(&r->log);
  ch_status status = ch_worker_train(r->events->worker, r->trainer, r->directory, r->events, &began, error);
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED && fresh && !began) withdraw(r);
  return status;
}

static ch_status drive(run *r, bool resume, ch_error *error) {
  bool done;
  CH_TRY(take_up(r, resume, &done, error));
  if (leads(r)) ch_remove_leftovers(r->directory, written_files); /* the locked log excludes other writers */
  if (done && r->saved_step == r->options->steps) {
    if (r->events->started) r->events->started(r->events->context, r->saved_step, &(ch_trained_on){0});
    return CH_OK;
  }
  if (r->events->worker) {
    CH_TRY(check_space(r, error));
    return hand_over(r, error);
  }
  ch_status status = leads(r) ? check_space(r, error) : CH_OK;
  if (leads(r) && status == CH_OK) status = ch_log_start(&r->log, r->trainer, error);
  CH_TRY(agree(r, status, error));
  r->last_saved = ch_clock();
  if (r->events->started) r->events->started(r->events->context, progress_of(r).step, &(ch_trained_on){0});
  status = go_on(r, error);
  if (status != CH_OK) return stop(r, status, error);
  CH_TRY(ch_trainer_export(r->trainer, r->directory, error));
  if (leads(r)) status = ch_log_event(&r->log, "done", progress_of(r).step, NULL, error);
  return agree(r, status, error);
}

void ch_train_step_of(const ch_step_report *report, int64_t steps, ch_train_step *step) {
  *step = (ch_train_step){.step = report->step,
                          .steps = steps,
                          .tokens = report->tokens,
                          .loss = report->loss,
                          .lr = report->lr,
                          .grad_norm = report->grad_norm,
                          .seconds = report->seconds,
                          .tokens_per_second =
                              report->seconds > 0 ? (double)report->step_tokens / report->seconds : 0};
}

ch_status ch_train_run(ch_trainer *trainer, const char *directory, bool resume, const ch_train_events *events,
                       ch_error *error) {
  static const ch_train_events none = {0};
  run r = {.trainer = trainer,
           .options = ch_trainer_options(trainer),
           .events = events ? events : &none,
           .ranks = ch_trainer_ranks(trainer),
           .directory = directory};
  ch_status status = CH_OK;
  char *log_path = ch_path_join(directory, CH_TRAIN_LOG);
  r.checkpoint = ch_path_join(directory, CH_TRAIN_CHECKPOINT);
  if (!log_path || !r.checkpoint)
    status = ch_no_memory(error);
  else if (leads(&r))
    status = ch_make_directory(directory, error);
  bool opened = status == CH_OK && leads(&r) && (status = ch_log_open(&r.log, log_path, error)) == CH_OK;
  status = agree(&r, status, error);
  if (status == CH_OK) status = drive(&r, resume, error);
  if (opened) ch_log_close(&r.log);
  free(log_path);
  free(r.checkpoint);
  return status;
}
