/* One comparison from its settings to its results: plan, text or images, then model after model. */
#include "experiment/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "bench/load.h"
#include "experiment/compared.h"
#include "experiment/results_json.h"
#include "experiment/tune.h"
#include "experiment/turns.h"
#include "tensor/team.h"
#include "train/attempt.h"

enum { MOST_RESULT_BYTES = 1 << 26 };

/* --- one model ----------------------------------------------------------------------------------------------------- */

/* The run that goes on. */
typedef struct running {
  ch_compare_setup *setup;
  ch_train_options training; /* of this run */
  ch_compare_position position;
  ch_step_times times;
  bool began;     /* a step was made, or all were made before */
  bool stopped;   /* the caller said so after a step */
  ch_status kept; /* whether the settings could be written, and why not */
  ch_error error;
  /* While rates are tried: the best run so far, or NULL; and whether this one is clearly worse. */
  const ch_compared *best;
  bool hopeless;
  double last_loss; /* of the last evaluation; 0: there was none */
} running;

static void on_step(void *context, const ch_step_report *report) {
  running *r = context;
  const ch_compare_settings *s = &r->setup->settings;
  r->began = true;
  if (r->times.taken < r->times.room) r->times.seconds[r->times.taken++] = report->seconds;
  if (!r->setup->kept && r->kept == CH_OK) r->kept = ch_compare_setup_keep(r->setup, &r->error);
  ch_train_step_of(report, r->training.steps, ch_train_step_tokens(&r->training), &r->position.step);
  if (s->step && !s->step(&r->position, s->user)) r->stopped = true;
}

static void on_evaluated(void *context, const ch_validation_point *point) {
  running *r = context;
  int64_t step_tokens = ch_train_step_tokens(&r->setup->training);
  r->last_loss = point->loss;
  if (r->best &&
      ch_tune_is_hopeless(r->best, point->step * step_tokens, r->training.steps * step_tokens, point->loss))
    r->hopeless = true;
}

static void on_share(void *context, double share) {
  const running *r = context;
  const ch_compare_settings *s = &r->setup->settings;
  if (s->share) s->share(&r->position, share, s->user);
}

static void on_started(void *context, int64_t step) {
  running *r = context;
  r->position.step.step = step;
  r->position.step.tokens = step * ch_train_step_tokens(&r->setup->training);
}

static bool on_interrupted(void *context) {
  const running *r = context;
  return r->stopped || r->hopeless || r->kept != CH_OK || ch_compare_stopped(r->setup);
}

static ch_status train(running *run, const ch_planned_model *planned, const char *directory,
                       ch_compared *model, ch_error *error) {
  ch_compare_setup *setup = run->setup;
  ch_step_times *times = &run->times;
  ch_train_events events = {.context = run,
                            .started = on_started,
                            .step = on_step,
                            .share = on_share,
                            .evaluated = on_evaluated,
                            .interrupted = on_interrupted};
  ch_trainer *trainer = NULL;
  ch_status status = CH_OK;
  ch_train_options training = run->training;
  training.lr = model->lr;
  const ch_batch_source *source = ch_compare_on_images(setup) ? &setup->images.source : &setup->data.source;
  times->room = run->training.steps;
  times->seconds = calloc((size_t)times->room, sizeof *times->seconds);
  if (!times->seconds) CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory to time %s", planned->name));
  CH_TRY_GOTO(ch_trainer_create(&planned->config, &training, source, &trainer, error));
  ch_load before = ch_load_now();
  CH_TRY_GOTO(ch_train_run(trainer, directory, true, &events, error));
  ch_load after = ch_load_now();
  times->disturbed = ch_load_disturbed(&before, &after, ch_team_of(0).threads);
  CH_TRY_GOTO(ch_compared_fill_training(setup, trainer, times, model, error));
  /* Frees the trainer's memory before decoding is timed. */
  ch_trainer_free(trainer);
  trainer = NULL;
  if (!ch_compare_on_images(setup)) CH_TRY_GOTO(ch_data_give_tokenizer(&setup->data, directory, error));
  CH_TRY_GOTO(ch_compare_time_alone(setup, directory, model, error));
done:
  ch_trainer_free(trainer);
  free(times->seconds);
  return status;
}

/* A run that is refused before its first step leaves nothing behind. */
static ch_status train_or_withdraw(running *run, const ch_planned_model *planned, const char *directory,
                                   ch_compared *model, ch_error *error) {
  ch_attempt attempt;
  ch_attempt_begin(&attempt, directory);
  ch_status status = train(run, planned, directory, model, error);
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED && !run->began) ch_attempt_withdraw(&attempt);
  ch_attempt_end(&attempt);
  run->setup->began |= run->began || status == CH_OK;
  return run->kept == CH_OK ? status : ch_fail(error, run->kept, "%s", run->error.message);
}

/* The result of a model that was finished before. */
static ch_status read_result(ch_compare_setup *setup, const char *path, ch_compared *model, ch_error *error) {
  json_t *object = NULL;
  CH_TRY(ch_json_read(path, MOST_RESULT_BYTES, &object, error));
  ch_status status = ch_compared_from_json(object, path, &setup->comparison->arena, model, error);
  json_decref(object);
  return status;
}

ch_status ch_compare_write(const ch_compare_settings *settings, ch_comparison_written written,
                           const ch_comparison *comparison, ch_error *error) {
  char *path = ch_path_join(settings->out, CH_COMPARE_RESULTS);
  if (!path) return ch_fail(error, CH_ERROR_MEMORY, "no memory to write the results");
  ch_status status = ch_write_json(path, ch_comparison_to_json(comparison), CH_DIGITS_SHOWN, error);
  free(path);
  if (status == CH_OK && written) status = written(settings, comparison, error);
  return status;
}

static ch_status write_results(ch_compare_setup *setup, ch_comparison_written written, ch_error *error) {
  return ch_compare_write(&setup->settings, written, setup->comparison, error);
}

/* What was found when rates were tried. */
static void set_tried(const ch_tune *tune, ch_compared *model) {
  ch_tune_result result = ch_tune_conclude(tune);
  model->tried = tune->tried;
  model->tried_count = tune->count;
  model->lr_low = result.low;
  model->lr_high = result.high;
  model->usual_lr_cost = result.usual_cost;
  model->lr_at_edge = result.at_edge;
}

/* One run: model `index` of the plan with the seed that was taken. */
static ch_status compare_one(ch_compare_setup *setup, int index, ch_comparison_written written,
                             ch_error *error) {
  const ch_planned_model *planned = &setup->plan.models[index];
  ch_train_options training;
  const ch_compare_settings *s = &setup->settings;
  ch_compared *model = &setup->comparison->models[setup->comparison->count];
  const char *name = ch_compare_run_directory(setup, planned, setup->training.seed);
  char *directory = name ? ch_path_join(setup->settings.out, name) : NULL;
  char *result = directory ? ch_path_join(directory, CH_COMPARE_RESULT) : NULL;
  ch_status status = CH_OK;
  if (!result) CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory to train %s", planned->name));
  CH_TRY_GOTO(ch_compare_training_of(setup, planned, &training, error));
  bool earlier = ch_is_file(result);
  if (earlier) CH_TRY_GOTO(read_result(setup, result, model, error));
  earlier = earlier && model->tokens_trained >= training.steps * ch_train_step_tokens(&training);
  if (!earlier) {
    running run = {.setup = setup,
                   .training = training,
                   .position = {.name = planned->name,
                                .seed = setup->training.seed,
                                .lr = planned->lr,
                                .run = setup->comparison->count,
                                .runs = setup->comparison->planned,
                                .step.steps = training.steps}};
    CH_TRY_GOTO(ch_compared_fill_shape(setup, planned, model, error));
    model->directory = name;
    if (s->begin) s->begin(&run.position, model, s->user);
    CH_TRY_GOTO(train_or_withdraw(&run, planned, directory, model, error));
    CH_TRY_GOTO(ch_write_json(result, ch_compared_to_json(model), CH_DIGITS_EXACT, error));
  }
  if (planned->tune) set_tried(planned->tune, model);
  setup->began = true;
  setup->comparison->count++;
  if (s->model) s->model(model, earlier, s->user);
  /* Results are written now, so that those of finished models can be read while others train. */
  if (!earlier || setup->comparison->count == setup->comparison->planned)
    CH_TRY_GOTO(write_results(setup, written, error));
done:
  free(result);
  free(directory);
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED) ch_fail_in(error, planned->name);
  return status;
}

/* --- learning rates ---------------------------------------------------------------------------------------------- */

/* Trains a model at a rate to try it, and writes what came of it; or reads that. *tried is for the tune, *model has the
   curves. */
static ch_status try_rate(ch_compare_setup *setup, const ch_planned_model *planned, double lr,
                          const ch_compared *best, ch_tried_rate *tried, ch_compared *model,
                          ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  const char *name = ch_arena_printf(&setup->comparison->arena, "tune/%s/lr-%.9g", planned->directory, lr);
  char *directory = name ? ch_path_join(s->out, name) : NULL;
  char *result = directory ? ch_path_join(directory, CH_COMPARE_TRIED) : NULL;
  json_t *object = NULL;
  ch_status status = CH_OK;
  if (!result) CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory to try rates of %s", planned->name));
  if (ch_is_file(result)) {
    CH_TRY_GOTO(ch_json_read(result, MOST_RESULT_BYTES, &object, error));
    CH_TRY_GOTO(ch_compared_from_json(object, result, &setup->comparison->arena, model, error));
    *tried = (ch_tried_rate){lr, model->validation_loss, json_is_true(json_object_get(object, "stopped"))};
    goto done;
  }
  ch_train_options training;
  CH_TRY_GOTO(ch_compare_training_of(setup, planned, &training, error));
  running run = {.setup = setup,
                 .training = training,
                 .best = best,
                 .position = {.name = planned->name,
                              .seed = setup->training.seed,
                              .lr = lr,
                              .tries_rate = true,
                              .run = setup->comparison->count,
                              .runs = setup->comparison->planned,
                              .step.steps = training.steps}};
  CH_TRY_GOTO(ch_compared_fill_shape(setup, planned, model, error));
  model->directory = name;
  model->lr = lr;
  if (s->begin) s->begin(&run.position, model, s->user);
  status = train_or_withdraw(&run, planned, directory, model, error);
  bool worse = status == CH_ERROR_INTERRUPTED && run.hopeless, diverged = status == CH_ERROR_NUMERIC;
  if (worse || diverged) {
    status = CH_OK;
    model->validation_loss = run.last_loss;
  }
  CH_TRY_GOTO(status);
  *tried = (ch_tried_rate){lr, model->validation_loss, worse || diverged};
  object = ch_compared_to_json(model);
  if (json_object_set_new(object, "stopped", json_boolean(tried->stopped)) != 0)
    CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory for the results"));
  status = ch_write_json(result, json_incref(object), CH_DIGITS_EXACT, error);
done:
  json_decref(object);
  free(result);
  free(directory);
  return status;
}

/* Finds the rate of a model, which all its runs then have. */
static ch_status tune_model(ch_compare_setup *setup, ch_planned_model *planned, ch_error *error) {
  ch_tune *tune = ch_arena_alloc(&setup->comparison->arena, sizeof *tune);
  ch_compared runs[CH_TUNE_MOST];
  if (!tune) return ch_fail(error, CH_ERROR_MEMORY, "no memory to try rates");
  *tune = (ch_tune){.most = (int)setup->settings.tune};
  const ch_compared *best = NULL;
  for (double lr; (lr = ch_tune_next(tune, planned->lr)) > 0; tune->count++) {
    ch_tried_rate *tried = &tune->tried[tune->count];
    ch_compared *run = &runs[tune->count];
    CH_TRY(try_rate(setup, planned, lr, best, tried, run, error));
    if (!tried->stopped && (!best || run->validation_loss < best->validation_loss)) best = run;
  }
  if (!best)
    return ch_fail(error, CH_ERROR_NUMERIC,
                   "%s diverged at all %d learning rates that were tried, the lowest %g; give a lower --lr",
                   planned->name, tune->count, tune->tried[tune->count - 1].lr);
  planned->tune = tune;
  planned->lr = ch_tune_conclude(tune).lr;
  return CH_OK;
}

static ch_status tune_models(ch_compare_setup *setup, ch_error *error) {
  ch_compare_take_seed(setup, setup->settings.seed);
  for (int i = 0; i < setup->plan.count; i++) CH_TRY(tune_model(setup, &setup->plan.models[i], error));
  return CH_OK;
}

/* --- seeds until a verdict --------------------------------------------------------------------------------------- */

/* One more seed of the models that a decision needs it of. */
typedef struct seed_round {
  bool needs[CH_COMPARE_MOST]; /* of the plan's models */
  int count;
  double spent, costs,
      hopes; /* seconds: of all runs; of this round; until one model fewer may be left at best */
} seed_round;

static int group_of(const ch_summary *summary, const char *name) {
  for (int i = 0; i < summary->count; i++)
    if (strcmp(summary->groups[i].name, name) == 0) return i;
  return -1;
}

/* Follows from the runs with the first `seeds` seeds alone, so a comparison that is continued plans the same rounds. */
static ch_status plan_round(const ch_compare_setup *setup, int seeds, seed_round *next, ch_error *error) {
  ch_summary summary;
  *next = (seed_round){.count = 0};
  ch_status status = ch_summarise_first(setup->comparison, seeds, &summary, error);
  const ch_decision *d = &summary.decision;
  for (int i = 0; status == CH_OK && i < setup->plan.count; i++) {
    int group = group_of(&summary, setup->plan.models[i].name);
    double seconds = ch_group_seconds(&summary.groups[group]);
    next->spent += seconds * summary.groups[group].count;
    next->needs[i] = d->standings[group].active;
    if (!next->needs[i]) continue;
    next->costs += seconds;
    next->count++;
  }
  next->hopes = d->kind == CH_VERDICT_NOT_DISTINGUISHABLE ? d->hope_seconds : next->costs;
  ch_arena_free(&summary.arena);
  return status;
}

/* Adds seed after seed until the decision is made, or the budget does not suffice for the next seed, or would not to
   exclude one more model even if the differences were a standard error larger than they look. */
static ch_status decide(ch_compare_setup *setup, ch_comparison_written written, ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  for (int seed = (int)s->seeds; seed < CH_COMPARE_MOST_SEEDS; seed++) {
    seed_round next;
    CH_TRY(plan_round(setup, seed, &next, error));
    if (next.count < 2 || next.spent + fmax(next.costs, next.hopes) > s->budget) break;
    setup->comparison->planned += next.count;
    ch_compare_take_seed(setup, s->seed + (uint64_t)seed);
    for (int i = 0; i < setup->plan.count; i++)
      if (next.needs[i]) CH_TRY(compare_one(setup, i, written, error));
  }
  return CH_OK;
}

static ch_status interrupted(const ch_compare_setup *setup, ch_error *error) {
  if (setup->comparison->planned == 0)
    return ch_fail(error, CH_ERROR_INTERRUPTED,
                   "interrupted before the first model; the same command begins again in %s",
                   setup->settings.out);
  return ch_fail(
      error, CH_ERROR_INTERRUPTED,
      "interrupted with %d of %d models finished; all work is saved in %s, and the same command continues it",
      setup->comparison->count, setup->comparison->planned, setup->settings.out);
}

ch_status ch_compare(const ch_compare_settings *settings, ch_comparison_written written,
                     ch_comparison *comparison, ch_error *error) {
  ch_compare_setup setup;
  *comparison = (ch_comparison){0};
  ch_status status = ch_compare_setup_open(settings, CH_EXPERIMENT_COMPARISON, comparison, &setup, error);
  comparison->open = settings->until_decided;
  if (status == CH_OK && settings->tune) status = tune_models(&setup, error);
  /* Seed by seed, so that there is a whole comparison after the first seed. */
  for (int i = 0; status == CH_OK && i < comparison->planned; i++) {
    int model = i % setup.plan.count;
    if (model == 0) ch_compare_take_seed(&setup, settings->seed + (uint64_t)(i / setup.plan.count));
    status = compare_one(&setup, model, written, error);
  }
  if (status == CH_OK && settings->until_decided) {
    status = decide(&setup, written, error);
    comparison->open = false;
    if (status == CH_OK) status = write_results(&setup, written, error);
  }
  if (status == CH_OK && ch_compare_lacks_turns(&setup)) {
    status = ch_compare_take_turns(&setup, error);
    if (status == CH_OK) status = write_results(&setup, written, error);
  }
  if (status == CH_OK) status = ch_compare_setup_keep(&setup, error);
  if (status == CH_ERROR_INTERRUPTED) status = interrupted(&setup, error);
  ch_compare_setup_close(&setup, status);
  return status;
}
