/* Forecasts the cost of a comparison: it times some steps of each model and multiplies. The text of a new comparison is
 * not prepared, only its size is estimated (trial/text_estimate.c). */
#include "experiment/trial/prepare.h"
#include "experiment/forecast.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "experiment/ladder.h"
#include "experiment/lineup/ladder_sizes.h"
#include "experiment/trial/shares.h"
#include "experiment/speed/step_timing.h"
#include "train/worker.h"

enum {
  MOST_RESULT_BYTES = 1 << 26,
  COPIES_ON_DISK = 4 /* the model, and a checkpoint with the weights and two moments */
};

/* Time of evaluating one token, as a share of the time of training on one. */
static const double evaluation_cost = 1.0 / 3;

/* Returns how many steps the run in a directory has already done. */
static int64_t steps_done(const ch_compare_setup *setup, const ch_train_options *training,
                          const char *directory) {
  char *checkpoint = ch_path_join(directory, CH_TRAIN_CHECKPOINT),
       *path = ch_path_join(directory, CH_COMPARE_RESULT);
  int64_t done = 0;
  json_t *result = NULL;
  if (path && ch_is_file(path) && ch_json_read(path, MOST_RESULT_BYTES, &result, NULL) == CH_OK) {
    const char *key = ch_compare_on_images(setup) ? "images_trained" : "tokens_trained";
    done = json_integer_value(json_object_get(result, key)) / ch_train_step_tokens(training);
    json_decref(result);
  } else if (checkpoint && ch_is_file(checkpoint)) {
    if (ch_checkpoint_read_options(checkpoint, NULL, NULL, &done, NULL) != CH_OK) done = 0;
    if (done >= training->steps) done = training->steps - 1; /* a run without a result has steps left */
  }
  free(checkpoint);
  free(path);
  return done;
}

/* Counts a model's runs and their remaining steps. With share_of [seeds, models], only runs of the settings'
 * part count. */
static ch_status count_runs(const ch_compare_setup *setup, const ch_planned_model *planned,
                            const ch_train_options *training, const int *share_of,
                            ch_mechanism_forecast *model, int64_t *steps, ch_error *error) {
  const ch_compare_settings *settings = &setup->settings;
  int64_t index = planned - setup->plan.models;
  *steps = 0;
  for (int64_t s = 0; s < settings->training.seeds; s++) {
    if (share_of && share_of[s * setup->plan.count + index] != settings->schedule.part - 1) continue;
    model->runs++;
    const char *name = ch_compare_run_directory(setup, planned, setup->settings.training.seed + (uint64_t)s);
    char *directory = name ? ch_path_join(setup->settings.report.out, name) : NULL;
    if (!directory) return ch_no_memory(error);
    int64_t left = training->steps - steps_done(setup, training, directory);
    free(directory);
    if (left > 0)
      *steps += left;
    else
      model->finished++;
  }
  return CH_OK;
}

/* The remaining runs and steps of a model, and the cost of one step. */
typedef struct work_left {
  ch_train_options training;
  int64_t runs, steps;
  double step_seconds; /* duration of a step; 0: not known */
  int64_t memory_bytes, weight_bytes;
} work_left;

static ch_status count_left(ch_compare_setup *setup, const ch_planned_model *planned, const int *share_of,
                            ch_compare_forecast *forecast, work_left *l, ch_error *error) {
  ch_mechanism_forecast *model = &forecast->models[forecast->count++];
  const ch_train_options *t = &l->training;
  *l = (work_left){0};
  CH_TRY(ch_compare_training_of(setup, planned, &l->training, error));
  *model = (ch_mechanism_forecast){.name = ch_arena_strdup(&forecast->arena, planned->name),
                                   .parameters = planned->parameters,
                                   .tokens = t->steps * ch_train_step_tokens(t)};
  if (!model->name) return ch_no_memory(error);
  CH_TRY(count_runs(setup, planned, t, share_of, model, &l->steps, error));
  l->runs = model->runs - model->finished;
  /* If no run has finished, the maximum number of tuning runs is added. */
  if (setup->settings.rates.tune && model->runs > 0 && model->finished == 0) {
    l->steps += setup->settings.rates.tune * t->steps;
    l->runs += setup->settings.rates.tune;
  }
  return CH_OK;
}

/* Times steps of a model. If a whole step would be slow, it times fewer sequences and multiplies. */
static ch_status time_model(ch_compare_setup *setup, const ch_planned_model *planned, work_left *l,
                            ch_error *error) {
  const double most_flops = 2e11; /* FLOPs of a timed step; a few seconds on a small machine */
  ch_train_options sample = setup->training;
  int64_t whole = sample.batch * sample.accumulate, micro = sample.micro_batch > 0 ? sample.micro_batch : 1;
  ch_step_timing timing;
  if (6.0 * (double)planned->parameters * (double)ch_train_step_tokens(&sample) > most_flops) {
    double sequence = 6 * (double)planned->parameters * (double)sample.sequence;
    while (sample.batch > micro && (sample.batch % 2 || (double)sample.batch * sequence > most_flops))
      sample.batch = sample.batch % 2 ? micro : sample.batch / 2;
    if (sample.batch % micro) sample.batch = micro;
    sample.accumulate = 1;
  }
  CH_TRY(ch_time_steps(&planned->config, &sample, ch_compare_source(setup), 1, ch_compare_stopped, setup,
                       &timing, error));
  l->step_seconds = timing.seconds * (double)whole / (double)(sample.batch * sample.accumulate);
  l->memory_bytes = (int64_t)timing.memory_bytes;
  l->weight_bytes = (int64_t)timing.weight_bytes;
  return CH_OK;
}

/* Lets the worker time steps of all models that are not finished. If that fails, forecast->untimed has the reason. */
static ch_status time_in_pytorch(ch_compare_setup *setup, work_left *remaining, ch_compare_forecast *forecast,
                                 ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  const ch_worker worker = {.python = s->workers.python,
                            .device = s->workers.device,
                            .micro_batch = s->training.micro_batch,
                            .shard = s->workers.shard};
  ch_worker_forecast *timed = ch_arena_alloc(&forecast->arena, (size_t)setup->plan.count * sizeof *timed);
  ch_error reason = {0};
  int count = 0;
  if (!timed) return ch_no_memory(error);
  for (int i = 0; i < setup->plan.count; i++) {
    remaining[i].weight_bytes =
        setup->plan.models[i].parameters * (s->training.type == CH_PRECISION_F64 ? 8 : 4);
    if (remaining[i].steps)
      timed[count++] =
          (ch_worker_forecast){.config = &setup->plan.models[i].config, .options = &remaining[i].training};
  }
  if (count == 0) return CH_OK;
  ch_status status =
      ch_worker_measure(&worker, s->workers.ranks_per_run, timed, count, ch_compare_stopped, setup, &reason);
  if (status == CH_ERROR_INTERRUPTED) return ch_fail_as(error, status, &reason);
  if (status != CH_OK) {
    forecast->untimed = ch_arena_strdup(&forecast->arena, reason.message);
    return forecast->untimed ? CH_OK : ch_no_memory(error);
  }
  for (int i = setup->plan.count - 1; i >= 0; i--) {
    if (!remaining[i].steps) continue;
    count--;
    remaining[i].step_seconds = timed[count].seconds;
    remaining[i].memory_bytes = timed[count].memory_bytes;
  }
  return CH_OK;
}

static void put_cost(const work_left *l, ch_mechanism_forecast *model) {
  const ch_train_options *t = &l->training;
  double step_tokens = (double)ch_train_step_tokens(t);
  double evaluations = (double)l->steps / (double)(t->eval_every > 0 ? t->eval_every : t->steps);
  model->tokens_per_second = l->step_seconds > 0 ? step_tokens / l->step_seconds : 0;
  model->seconds = l->step_seconds *
                   ((double)l->steps + evaluation_cost * evaluations * (double)t->eval_tokens / step_tokens);
  model->memory_bytes = l->memory_bytes;
  model->disk_bytes = l->runs * COPIES_ON_DISK * l->weight_bytes;
}

static void add_models(ch_compare_forecast *forecast) {
  ch_mechanism_forecast *total = &forecast->total;
  for (int i = 0; i < forecast->count; i++) {
    const ch_mechanism_forecast *m = &forecast->models[i];
    total->runs += m->runs;
    total->finished += m->finished;
    total->tokens += m->runs * m->tokens;
    total->seconds += m->seconds;
    if (m->memory_bytes > total->memory_bytes) total->memory_bytes = m->memory_bytes;
    total->disk_bytes += m->disk_bytes;
  }
}

/* Adds the forecast of one size. `size` names its models if there are several sizes, else it is 0. */
static ch_status foresee_size(ch_compare_setup *setup, int64_t size, ch_compare_forecast *forecast,
                              ch_error *error) {
  forecast->images = ch_compare_on_images(setup);
  forecast->tunes = setup->settings.rates.tune > 0;
  forecast->open = setup->settings.schedule.until_decided;
  forecast->pytorch = setup->settings.workers.engine == CH_ENGINE_PYTORCH;
  forecast->machine_bytes = (double)setup->comparison->machine.memory_bytes;
  forecast->part = setup->settings.schedule.part;
  forecast->parts = setup->settings.schedule.parts;
  int *share_of = NULL;
  if (forecast->parts) {
    size_t runs = (size_t)setup->plan.count * (size_t)setup->settings.training.seeds;
    share_of = ch_arena_alloc(&forecast->arena, runs * sizeof *share_of);
    if (!share_of) return ch_no_memory(error);
    CH_TRY(ch_compare_divide(setup, share_of, error));
  }
  work_left *remaining = ch_arena_alloc(&forecast->arena, (size_t)setup->plan.count * sizeof *remaining);
  if (!remaining) return ch_no_memory(error);
  bool native = setup->settings.workers.engine == CH_ENGINE_NATIVE;
  ch_mechanism_forecast *models = &forecast->models[forecast->count];
  for (int i = 0; i < setup->plan.count; i++) {
    const ch_planned_model *planned = &setup->plan.models[i];
    ch_status status = count_left(setup, planned, share_of, forecast, &remaining[i], error);
    if (status == CH_OK && native && remaining[i].steps)
      status = time_model(setup, planned, &remaining[i], error);
    if (status == CH_ERROR_INTERRUPTED) return ch_fail(error, status, "interrupted; nothing was written");
    if (status != CH_OK) ch_fail_in(error, planned->name);
    CH_TRY(status);
  }
  ch_status status = native ? CH_OK : time_in_pytorch(setup, remaining, forecast, error);
  if (status == CH_ERROR_INTERRUPTED) return ch_fail(error, status, "interrupted; nothing was written");
  CH_TRY(status);
  for (int i = 0; i < setup->plan.count; i++) {
    if (remaining[i].steps) put_cost(&remaining[i], &models[i]);
    if (!size) continue;
    char count[32];
    models[i].name = ch_arena_printf(&forecast->arena, "%s, %s", models[i].name,
                                     ch_format_count((double)size, count, sizeof count));
    if (!models[i].name) return ch_no_memory(error);
  }
  return CH_OK;
}

static ch_status foresee_settings(const ch_compare_settings *settings, int64_t size,
                                  ch_compare_forecast *forecast, ch_error *error) {
  ch_comparison comparison = {0};
  ch_compare_setup setup;
  ch_status status = ch_compare_prepare(settings, CH_EXPERIMENT_COMPARISON, true, &comparison, &setup, error);
  if (status == CH_OK) status = foresee_size(&setup, size, forecast, error);
  ch_compare_setup_close(&setup, status);
  ch_arena_free(&comparison.arena);
  return status;
}

/* Forecasts a ladder size by size. The vocabulary is known once the comparison itself is prepared; until then it is
 * estimated. */
static ch_status foresee_ladder(const ch_compare_settings *settings, ch_compare_forecast *forecast,
                                ch_error *error) {
  int64_t sizes[CH_LADDER_MOST_RUNGS], base;
  int count;
  CH_TRY(ch_compare_settings_complete(settings, CH_EXPERIMENT_COMPARISON, NULL, error));
  CH_TRY(ch_ladder_sizes(settings, CH_COMPARE_USUAL_PARAMS, sizes, &count, error));
  base = settings->lineup.parameters ? settings->lineup.parameters : CH_COMPARE_USUAL_PARAMS;
  for (int i = 0; i < count; i++) {
    char *directory = sizes[i] == base ? ch_arena_strdup(&forecast->arena, settings->report.out)
                                       : ch_arena_printf(&forecast->arena, "%s/" CH_LADDER_DIRECTORY,
                                                         settings->report.out, (long long)sizes[i]);
    if (!directory) return ch_no_memory(error);
    ch_compare_settings rung = ch_ladder_rung(settings, base, sizes[i], directory, 0, 0);
    if (sizes[i] == base) {
      rung = *settings;
      rung.schedule.ladder = NULL;
      rung.schedule.target = 0;
    }
    CH_TRY(foresee_settings(&rung, sizes[i], forecast, error));
  }
  return CH_OK;
}

ch_status ch_forecast_make(const ch_compare_settings *settings, ch_compare_forecast *forecast,
                           ch_error *error) {
  size_t most = (size_t)CH_COMPARE_MOST * (settings->schedule.ladder ? CH_LADDER_MOST_RUNGS : 1);
  *forecast = (ch_compare_forecast){0};
  forecast->models = ch_arena_alloc(&forecast->arena, most * sizeof *forecast->models);
  if (!forecast->models) return ch_no_memory(error);
  CH_TRY(settings->schedule.ladder ? foresee_ladder(settings, forecast, error)
                                   : foresee_settings(settings, 0, forecast, error));
  add_models(forecast);
  return CH_OK;
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *mechanism_forecast_json(const ch_mechanism_forecast *m, bool images) {
  json_t *object = m->name ? json_pack("{ss sI}", "name", m->name, "parameters", (json_int_t)m->parameters)
                           : json_object();
  json_t *rest =
      json_pack("{sI sI sI sf sI sI}", "runs", (json_int_t)m->runs, "finished", (json_int_t)m->finished,
                images ? "images" : "tokens", (json_int_t)m->tokens, "seconds", m->seconds, "memory_bytes",
                (json_int_t)m->memory_bytes, "disk_bytes", (json_int_t)m->disk_bytes);
  if (m->name && rest)
    json_object_set_new(rest, images ? "train_images_per_second" : "train_tokens_per_second",
                        json_real(m->tokens_per_second));
  json_object_update(object, rest);
  json_decref(rest);
  return object;
}

/* Sets the figures that only timing gives to null. */
static void put_unknown(json_t *object) {
  static const char *const keys[] = {"seconds", "memory_bytes", "train_tokens_per_second",
                                     "train_images_per_second"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_object_get(object, keys[i])) json_object_set_new(object, keys[i], json_null());
}

json_t *ch_forecast_to_json(const ch_compare_forecast *forecast) {
  json_t *models = json_array();
  for (int i = 0; models && i < forecast->count; i++)
    json_array_append_new(models, mechanism_forecast_json(&forecast->models[i], forecast->images));
  json_t *object = json_pack("{so so}", "models", models, "total",
                             mechanism_forecast_json(&forecast->total, forecast->images));
  if (object && forecast->untimed) {
    for (size_t i = 0; i < json_array_size(models); i++)
      if (forecast->models[i].finished < forecast->models[i].runs) put_unknown(json_array_get(models, i));
    put_unknown(json_object_get(object, "total"));
    json_object_set_new(object, "not_estimated", json_string(forecast->untimed));
  }
  if (object && forecast->parts)
    json_object_update_new(object, json_pack("{si si}", "share", forecast->part, "shares", forecast->parts));
  return object;
}
