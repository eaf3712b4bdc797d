/* One comparison from its options to its results: plan, text or images, then model after model. */
#include "train/compare.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "train/compare_model.h"
#include "train/compare_turns.h"

enum { MOST_RESULT_BYTES = 1 << 26 };

void ch_compare_options_default(ch_compare_options *options) {
  *options = (ch_compare_options){.mechanisms = "mha,gqa,mqa",
                                  .tokens = 2000000,
                                  .batch = 16,
                                  .sequence = 256,
                                  .lr = 2e-3,
                                  .schedule = CH_SCHEDULE_COSINE,
                                  .warmup = -1,
                                  .seed = 1,
                                  .seeds = 1,
                                  .tolerance = 0.01,
                                  .command = "",
                                  .version = ""};
}

/* --- one model ----------------------------------------------------------------------------------------------------- */

typedef struct timing {
  const ch_compare_events *events;
  ch_step_times steps;
} timing;

static void on_step(void *context, const ch_step_report *report) {
  timing *t = context;
  if (t->steps.taken < t->steps.room) t->steps.seconds[t->steps.taken++] = report->seconds;
  if (t->events->step) t->events->step(t->events->context, report);
}

static void on_evaluated(void *context, const ch_validation_point *point) {
  const timing *t = context;
  if (t->events->evaluated) t->events->evaluated(t->events->context, point);
}

static bool on_interrupted(void *context) {
  const timing *t = context;
  return t->events->interrupted && t->events->interrupted(t->events->context);
}

static ch_status train(ch_compare_setup *setup, const ch_planned_model *planned, const char *directory,
                       ch_compared *model, ch_error *error) {
  timing times = {.events = setup->events, .steps.room = setup->training.steps};
  ch_run_events events = {
      .context = &times, .step = on_step, .evaluated = on_evaluated, .interrupted = on_interrupted};
  ch_trainer *trainer = NULL;
  ch_status status = CH_OK;
  const ch_source *source = ch_compare_on_images(setup) ? &setup->images.source : &setup->data.source;
  times.steps.seconds = calloc((size_t)setup->training.steps, sizeof *times.steps.seconds);
  if (!times.steps.seconds)
    CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory to time %s", planned->name));
  CH_TRY_GOTO(ch_trainer_create(&planned->config, &setup->training, source, &trainer, error));
  CH_TRY_GOTO(ch_train_run(trainer, directory, true, &events, error));
  CH_TRY_GOTO(ch_compared_fill_training(setup, trainer, &times.steps, model, error));
  /* The trainer's memory is better free while decoding is timed. */
  ch_trainer_free(trainer);
  trainer = NULL;
  if (!ch_compare_on_images(setup)) CH_TRY_GOTO(ch_data_give_tokenizer(&setup->data, directory, error));
  CH_TRY_GOTO(ch_compare_time_alone(setup, directory, model, error));
done:
  ch_trainer_free(trainer);
  free(times.steps.seconds);
  return status;
}

/* The result of a model that was finished before. */
static ch_status read_result(ch_compare_setup *setup, const char *path, ch_compared *model, ch_error *error) {
  json_t *object = NULL;
  CH_TRY(ch_json_read(path, MOST_RESULT_BYTES, &object, error));
  ch_status status = ch_compared_from_json(object, path, &setup->comparison->arena, model, error);
  json_decref(object);
  return status;
}

static ch_status write_results(ch_compare_setup *setup, ch_error *error) {
  char *path = ch_path_join(setup->options->out, CH_COMPARE_RESULTS);
  if (!path) return ch_fail(error, CH_ERROR_MEMORY, "no memory to write the results");
  ch_status status = ch_write_json(path, ch_comparison_to_json(setup->comparison), CH_DIGITS_SHOWN, error);
  free(path);
  if (status == CH_OK && setup->events->written)
    status = setup->events->written(setup->events->context, setup->comparison, error);
  return status;
}

/* What a run's directory is called below --out: that of the model, and of further seeds one inside "seed-2". */
static const char *directory_of(ch_compare_setup *setup, const ch_planned_model *planned) {
  ch_arena *arena = &setup->comparison->arena;
  if (setup->training.seed == setup->options->seed) return ch_arena_strdup(arena, planned->directory);
  return ch_arena_printf(arena, "seed-%llu/%s", (unsigned long long)setup->training.seed, planned->directory);
}

static ch_status compare_one(ch_compare_setup *setup, int index, ch_error *error) {
  const ch_planned_model *planned = &setup->plan.models[index % setup->plan.count];
  const ch_compare_events *events = setup->events;
  ch_compared *model = &setup->comparison->models[setup->comparison->count];
  const char *name = directory_of(setup, planned);
  char *directory = name ? ch_path_join(setup->options->out, name) : NULL;
  char *result = directory ? ch_path_join(directory, CH_COMPARE_RESULT) : NULL;
  ch_status status = CH_OK;
  if (!result) CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory to train %s", planned->name));
  bool earlier = ch_is_file(result);
  if (earlier) {
    CH_TRY_GOTO(read_result(setup, result, model, error));
  } else {
    if (events->begins)
      events->begins(events->context, index, setup->comparison->planned, planned->name, &planned->config,
                     planned->parameters, setup->training.steps);
    CH_TRY_GOTO(ch_compared_fill_shape(setup, planned, model, error));
    model->directory = name;
    CH_TRY_GOTO(train(setup, planned, directory, model, error));
    CH_TRY_GOTO(ch_write_json(result, ch_compared_to_json(model), CH_DIGITS_EXACT, error));
  }
  setup->comparison->count++;
  if (events->finished) events->finished(events->context, model, earlier);
  /* Results of finished models can be looked at while the others are trained. */
  if (!earlier || setup->comparison->count == setup->comparison->planned)
    CH_TRY_GOTO(write_results(setup, error));
done:
  free(result);
  free(directory);
  return status;
}

static ch_status interrupted(const ch_compare_setup *setup, ch_error *error) {
  return ch_fail(
      error, CH_ERROR_INTERRUPTED,
      "interrupted with %d of %d models finished; all work is saved in %s, and the same command continues it",
      setup->comparison->count, setup->comparison->planned, setup->options->out);
}

ch_status ch_compare(const ch_compare_options *options, const ch_compare_events *events,
                     ch_comparison *comparison, ch_error *error) {
  static const ch_compare_events none = {0};
  ch_compare_setup setup;
  *comparison = (ch_comparison){0};
  ch_status status = ch_compare_setup_open(options, events ? events : &none, comparison, &setup, error);
  /* Seed by seed: after the first there is a whole comparison. */
  for (int i = 0; status == CH_OK && i < comparison->planned; i++) {
    int model = i % setup.plan.count;
    if (model == 0) ch_compare_take_seed(&setup, options->seed + (uint64_t)(i / setup.plan.count));
    status = compare_one(&setup, i, error);
    if (status != CH_OK && status != CH_ERROR_INTERRUPTED) ch_fail_in(error, setup.plan.models[model].name);
  }
  if (status == CH_OK && ch_compare_lacks_turns(&setup)) {
    status = ch_compare_take_turns(&setup, error);
    if (status == CH_OK) status = write_results(&setup, error);
  }
  if (status == CH_ERROR_INTERRUPTED) status = interrupted(&setup, error);
  ch_compare_setup_close(&setup);
  return status;
}
