/* Trains one model of a comparison, in this process, with a group of ranks or with PyTorch, and fills in its results.
 * Also runs the trials of a rate search, which end early if they are clearly worse. */
#define _GNU_SOURCE
#include "experiment/trial/train_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "bench/load.h"
#include "experiment/trial/model_record.h"
#include "experiment/findings/comparison_json.h"
#include "experiment/trial/rate_search.h"
#include "experiment/trial/timing_rounds.h"
#include "tensor/team.h"
#include "train/worker.h"

enum { MOST_RESULT_BYTES = 1 << 26 };

/* The run in progress. */
typedef struct run_progress {
  ch_compare_setup *setup;
  ch_train_options training; /* training options of this run */
  ch_compare_position position;
  ch_step_times times;
  ch_trained_on on;
  bool began;       /* true if a step was trained */
  ch_status failed; /* status of the callbacks between steps, which may fail to write settings or results */
  ch_error error;
  const ch_model_result *best; /* the best run of the rate search so far; NULL: none */
  bool hopeless;               /* true if this run is clearly worse than `best` */
  double last_loss;            /* loss of the last evaluation; 0: there was none */
} run_progress;

static void on_step(void *context, const ch_step_report *report) {
  run_progress *r = context;
  ch_compare_setup *setup = r->setup;
  r->began = true;
  if (r->times.taken < r->times.room) r->times.seconds[r->times.taken++] = report->seconds;
  if (r->failed == CH_OK && ch_scheduler_leads(&setup->scheduler)) {
    if (!setup->kept) r->failed = ch_compare_setup_keep(setup, &r->error);
    if (r->failed == CH_OK) r->failed = ch_scheduler_settle(&setup->scheduler, &r->error);
  }
  ch_train_step_of(report, r->training.steps, &r->position.step);
  ch_compare_tell(setup, (ch_compare_event){.kind = CH_COMPARE_EVENT_STEP, .as.step = {&r->position}});
}

static void on_evaluating(void *context) {
  run_progress *r = context;
  r->position.evaluating = true;
}

static void on_evaluated(void *context, const ch_validation_point *point) {
  run_progress *r = context;
  r->position.evaluating = false;
  int64_t step_tokens = ch_train_step_tokens(&r->setup->training);
  r->last_loss = point->loss;
  if (r->best &&
      ch_tune_is_hopeless(r->best, point->step * step_tokens, r->training.steps * step_tokens, point->loss))
    r->hopeless = true;
}

static void on_share(void *context, double share) {
  const run_progress *r = context;
  ch_compare_tell(r->setup,
                  (ch_compare_event){.kind = CH_COMPARE_EVENT_SHARE, .as.share = {&r->position, share}});
}

static void on_started(void *context, int64_t step, const ch_trained_on *on) {
  run_progress *r = context;
  if (!ch_trained_on_copy(on, &r->setup->comparison->arena, &r->on)) r->failed = ch_no_memory(&r->error);
  r->position.step.step = step;
  r->position.step.tokens = step * ch_train_step_tokens(&r->setup->training);
}

static bool on_interrupted(void *context) {
  run_progress *r = context;
  bool stops = ch_scheduler_stops(&r->setup->scheduler); /* called in any case: it also serves other ranks */
  return stops || r->hopeless || r->failed != CH_OK;
}

/* Collects the results after the last step, on the rank that writes the run's files. */
static ch_status finish_run(run_progress *run, ch_trainer *trainer, const char *directory, bool diverged,
                            ch_model_result *model, ch_error *error) {
  ch_compare_setup *setup = run->setup;
  model->trained_on = run->on;
  CH_TRY(ch_model_result_fill_training(setup, trainer, &run->times, diverged, model, error));
  return diverged || ch_compare_on_images(setup) ? CH_OK
                                                 : ch_data_give_tokenizer(&setup->data, directory, error);
}

/* Each process takes `ranks_per_run` of the devices that the settings name, in the order of ranks. */
char *ch_compare_device_of(const ch_compare_setup *setup) {
  const char *from = setup->settings.workers.device;
  int64_t each = setup->settings.workers.ranks_per_run > 0 ? setup->settings.workers.ranks_per_run : 1;
  for (int64_t before = ch_own_rank(setup->settings.workers.ranks) * each; from && before > 0; before--) {
    from = strchr(from, ',');
    from = from ? from + 1 : NULL;
  }
  if (!from) return NULL;
  size_t length = strcspn(from, ",");
  for (int64_t more = each - 1; more > 0 && from[length] == ','; more--)
    length += 1 + strcspn(from + length + 1, ",");
  return strndup(from, length);
}

static ch_status train(run_progress *run, const ch_planned_model *planned, const char *directory,
                       ch_model_result *model, ch_error *error) {
  ch_compare_setup *setup = run->setup;
  ch_rank_group *own = setup->scheduler.own;
  ch_step_times *times = &run->times;
  const ch_compare_settings *s = &setup->settings;
  char *device = ch_compare_device_of(setup);
  const ch_worker worker = {.python = s->workers.python,
                            .device = device,
                            .text = s->report.out,
                            .micro_batch = s->training.micro_batch,
                            .shard = s->workers.shard};
  ch_train_events events = {.context = run,
                            .worker = s->workers.engine == CH_ENGINE_PYTORCH ? &worker : NULL,
                            .started = on_started,
                            .step = on_step,
                            .share = on_share,
                            .evaluating = on_evaluating,
                            .evaluated = on_evaluated,
                            .interrupted = on_interrupted};
  const ch_trainer_start start = {.ranks = own, .stop = events.interrupted, .stop_context = events.context};
  ch_trainer *trainer = NULL;
  ch_status status = CH_OK;
  ch_train_options training = run->training;
  training.lr = model->lr;
  const ch_batch_source *source = ch_compare_on_images(setup) ? &setup->images.source : &setup->data.source;
  times->room = run->training.steps;
  times->seconds = calloc((size_t)times->room, sizeof *times->seconds);
  if (!times->seconds) status = ch_no_memory(error);
  CH_TRY_GOTO(ch_agree(own, status, error));
  CH_TRY_GOTO(ch_trainer_create_over(&start, &planned->config, &training, source, &trainer, error));
  ch_load before = ch_load_now();
  status = ch_train_run(trainer, directory, true, &events, error);
  /* A run that diverged is a result of its mechanism, and other runs continue. In a rate search the search decides. */
  bool diverged = status == CH_ERROR_NUMERIC && !run->position.tries_rate;
  if (!diverged) CH_TRY_GOTO(status);
  ch_load after = ch_load_now();
  times->disturbed = ch_load_disturbed(&before, &after, ch_team_of(0).threads);
  if (ch_scheduler_writes(&setup->scheduler))
    status = finish_run(run, trainer, directory, diverged, model, error);
  else
    status = CH_OK;
  CH_TRY_GOTO(ch_agree(own, status, error));
  /* Frees the trainer's memory before decoding is timed. With other ranks, decoding is timed after they have ended. */
  ch_trainer_free(trainer);
  trainer = NULL;
  if (ch_scheduler_is_alone(&setup->scheduler) && !diverged)
    CH_TRY_GOTO(ch_compare_time_alone(setup, directory, model, error));
done:
  ch_trainer_free(trainer);
  free(times->seconds);
  free(device);
  return status;
}

/* Trains a run. If it fails before its first step, its files are removed. */
static ch_status train_or_withdraw(run_progress *run, const ch_planned_model *planned, const char *directory,
                                   ch_model_result *model, bool *began, ch_error *error) {
  ch_preparation attempt = {0};
  if (ch_scheduler_writes(&run->setup->scheduler)) ch_preparation_begin(&attempt, directory);
  ch_status status = train(run, planned, directory, model, error);
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED && !run->began) ch_preparation_undo(&attempt);
  ch_preparation_end(&attempt);
  *began = *began || run->began || status == CH_OK;
  return run->failed == CH_OK ? status : ch_fail_as(error, run->failed, &run->error);
}

/* Writes a result on the rank that writes the run's files. Releases the object. */
static ch_status write_result(const ch_compare_setup *setup, const char *path, json_t *object,
                              ch_error *error) {
  bool writes = ch_scheduler_writes(&setup->scheduler);
  ch_status status = writes ? ch_write_json(path, object, CH_DIGITS_EXACT, error) : CH_OK;
  if (!writes) json_decref(object);
  return ch_agree(setup->scheduler.own, status, error);
}

/* --- runs of the comparison ------------------------------------------------------------------------------------- */

/* Computes a run's name below `out`, in the arena, and the paths of its directory and result, which the caller
 * frees. */
static ch_status find_run(const ch_compare_setup *setup, const ch_planned_model *planned, uint64_t seed,
                          const char **name, char **directory, char **result, ch_error *error) {
  *name = ch_compare_run_directory(setup, planned, seed);
  *directory = *name ? ch_path_join(setup->settings.report.out, *name) : NULL;
  *result = *directory ? ch_path_join(*directory, CH_COMPARE_RESULT) : NULL;
  return *result ? CH_OK : ch_no_memory(error);
}

/* Adds the results of the rate search to the result of a run. */
static void put_tune(const ch_planned_model *planned, ch_model_result *run) {
  if (!planned->tune) return;
  ch_tune_result result = ch_tune_conclude(planned->tune);
  run->tried = planned->tune->tried;
  run->tried_count = planned->tune->count;
  run->lr_low = result.low;
  run->lr_high = result.high;
  run->usual_lr_cost = result.usual_cost;
  run->lr_at_edge = result.at_edge;
}

ch_status ch_compare_read_run(ch_compare_setup *setup, int model, uint64_t seed, ch_model_result *run,
                              bool *found, ch_error *error) {
  const ch_planned_model *planned = &setup->plan.models[model];
  ch_train_options training;
  const char *name;
  char *directory = NULL, *result = NULL;
  json_t *object = NULL;
  ch_status status = CH_OK;
  *found = false;
  CH_TRY_GOTO(find_run(setup, planned, seed, &name, &directory, &result, error));
  CH_TRY_GOTO(ch_compare_training_of(setup, planned, &training, error));
  if (!ch_is_file(result)) goto done;
  CH_TRY_GOTO(ch_json_read(result, MOST_RESULT_BYTES, &object, error));
  CH_TRY_GOTO(ch_model_result_from_json(object, result, &setup->comparison->arena, run, error));
  *found =
      isinf(run->validation_loss) || run->tokens_trained >= training.steps * ch_train_step_tokens(&training);
  if (*found) put_tune(planned, run);
done:
  json_decref(object);
  free(result);
  free(directory);
  return status == CH_OK ? status : ch_fail_in(error, planned->name);
}

ch_status ch_compare_train_run(ch_compare_setup *setup, int model, uint64_t seed, int run, int runs,
                               bool *began, ch_error *error) {
  const ch_planned_model *planned = &setup->plan.models[model];
  const char *name;
  char *directory = NULL, *result = NULL;
  run_progress r = {.setup = setup};
  ch_model_result made;
  ch_status status = CH_OK;
  ch_compare_take_seed(setup, seed);
  status = find_run(setup, planned, seed, &name, &directory, &result, error);
  if (status == CH_OK) status = ch_compare_training_of(setup, planned, &r.training, error);
  if (status == CH_OK) status = ch_model_result_fill_shape(setup, planned, &made, error);
  CH_TRY_GOTO(ch_agree(setup->scheduler.own, status, error));
  r.position = (ch_compare_position){.name = planned->name,
                                     .seed = seed,
                                     .lr = planned->lr,
                                     .run = run,
                                     .runs = runs,
                                     .groups = setup->scheduler.groups,
                                     .step.steps = r.training.steps};
  made.directory = name;
  ch_compare_tell(setup,
                  (ch_compare_event){.kind = CH_COMPARE_EVENT_BEGIN, .as.begin = {&r.position, &made}});
  CH_TRY_GOTO(train_or_withdraw(&r, planned, directory, &made, began, error));
  CH_TRY_GOTO(write_result(setup, result, ch_model_result_to_json(&made), error));
done:
  free(result);
  free(directory);
  return status == CH_OK || status == CH_ERROR_INTERRUPTED ? status : ch_fail_in(error, planned->name);
}

/* --- learning rates ---------------------------------------------------------------------------------------------- */

/* A run of the rate search. */
typedef struct trial {
  double lr;
  const char *name;         /* name of the directory below `out` */
  char *directory, *result; /* paths of the directory and of the result file */
  ch_tried_rate *rate;      /* result: the rate's entry in the search */
  ch_model_result *run;     /* result: losses and curves of the run */
} trial;

static ch_status read_trial(ch_compare_setup *setup, const trial *t, ch_error *error) {
  json_t *object = NULL;
  CH_TRY(ch_json_read(t->result, MOST_RESULT_BYTES, &object, error));
  ch_status status = ch_model_result_from_json(object, t->result, &setup->comparison->arena, t->run, error);
  if (status == CH_OK)
    *t->rate =
        (ch_tried_rate){t->lr, t->run->validation_loss, json_is_true(json_object_get(object, "stopped"))};
  json_decref(object);
  return status;
}

/* Trains a run of the rate search, and writes its result. */
static ch_status train_trial(ch_compare_setup *setup, const ch_planned_model *planned, const trial *t,
                             const ch_model_result *best, bool *began, ch_error *error) {
  ch_model_result *model = t->run;
  run_progress run = {.setup = setup, .best = best};
  ch_status status = ch_compare_training_of(setup, planned, &run.training, error);
  if (status == CH_OK) status = ch_model_result_fill_shape(setup, planned, model, error);
  CH_TRY(ch_agree(setup->scheduler.own, status, error));
  run.position = (ch_compare_position){.name = planned->name,
                                       .seed = setup->training.seed,
                                       .lr = t->lr,
                                       .tries_rate = true,
                                       .run = setup->comparison->count,
                                       .runs = setup->comparison->planned,
                                       .groups = setup->scheduler.groups,
                                       .step.steps = run.training.steps};
  model->directory = t->name;
  model->lr = t->lr;
  ch_compare_tell(setup,
                  (ch_compare_event){.kind = CH_COMPARE_EVENT_BEGIN, .as.begin = {&run.position, model}});
  status = train_or_withdraw(&run, planned, t->directory, model, began, error);
  bool worse = status == CH_ERROR_INTERRUPTED && run.hopeless, diverged = status == CH_ERROR_NUMERIC;
  if (worse || diverged) {
    status = CH_OK;
    model->validation_loss = run.last_loss;
  }
  CH_TRY(status);
  *t->rate = (ch_tried_rate){t->lr, model->validation_loss, worse || diverged};
  json_t *object = ch_model_result_to_json(model);
  if (json_object_set_new(object, "stopped", json_boolean(t->rate->stopped)) != 0) {
    json_decref(object);
    object = NULL;
  }
  return write_result(setup, t->result, object, error);
}

/* Tries a rate or reads its result. If `known` is not NULL, nothing is trained, and *known becomes false if the rate
 * was not tried yet. */
static ch_status try_rate(ch_compare_setup *setup, const ch_planned_model *planned,
                          const ch_model_result *best, trial *t, bool *known, bool *began, ch_error *error) {
  t->name = ch_arena_printf(&setup->comparison->arena, "tune/%s/lr-%.9g", planned->directory, t->lr);
  t->directory = t->name ? ch_path_join(setup->settings.report.out, t->name) : NULL;
  t->result = t->directory ? ch_path_join(t->directory, CH_COMPARE_TRIED) : NULL;
  if (!t->result) return ch_no_memory(error);
  bool tried = ch_is_file(t->result);
  if (known) {
    *known = tried;
    return tried ? read_trial(setup, t, error) : CH_OK;
  }
  tried = ch_ranks_decide(setup->scheduler.own, tried);
  if (!tried) return train_trial(setup, planned, t, best, began, error);
  return ch_agree(setup->scheduler.own, read_trial(setup, t, error), error);
}

static ch_status tune(ch_compare_setup *setup, ch_planned_model *planned, bool *known, bool *began,
                      ch_error *error) {
  ch_tune *tune = ch_arena_alloc(&setup->comparison->arena, sizeof *tune);
  ch_model_result runs[CH_TUNE_MOST];
  if (!tune) return ch_no_memory(error);
  *tune = (ch_tune){.most = (int)setup->settings.rates.tune};
  const ch_model_result *best = NULL;
  for (double lr; (lr = ch_tune_next(tune, planned->lr)) > 0; tune->count++) {
    ch_model_result *run = &runs[tune->count];
    trial t = {.lr = lr, .rate = &tune->tried[tune->count], .run = run};
    ch_status status = try_rate(setup, planned, best, &t, known, began, error);
    free(t.directory);
    free(t.result);
    if (status != CH_OK) return status == CH_ERROR_INTERRUPTED ? status : ch_fail_in(error, planned->name);
    if (known && !*known) return CH_OK;
    if (!t.rate->stopped && (!best || run->validation_loss < best->validation_loss)) best = run;
  }
  if (!best)
    return ch_fail(error, CH_ERROR_NUMERIC,
                   "%s diverged at all %d learning rates that were tried, the lowest %g; give a lower {lr}",
                   planned->name, tune->count, tune->tried[tune->count - 1].lr);
  planned->tune = tune;
  planned->lr = ch_tune_conclude(tune).lr;
  return CH_OK;
}

ch_status ch_compare_tune_model(ch_compare_setup *setup, int model, bool *began, ch_error *error) {
  ch_compare_take_seed(setup, setup->settings.training.seed);
  return tune(setup, &setup->plan.models[model], NULL, began, error);
}

ch_status ch_compare_read_tune(ch_compare_setup *setup, int model, bool *known, ch_error *error) {
  *known = true;
  ch_compare_take_seed(setup, setup->settings.training.seed);
  return tune(setup, &setup->plan.models[model], known, NULL, error);
}
