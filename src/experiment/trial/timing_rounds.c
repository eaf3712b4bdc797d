/* Times the models of a comparison in turns, in up to two rounds, and gives all runs of a name the same speed. */
#include "experiment/trial/timing_rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/median.h"
#include "bench/load.h"
#include "experiment/speed/measure_model.h"
#include "experiment/speed/median_speed.h"
#include "experiment/speed/step_timing.h"
#include "tensor/team.h"

/* The maximum number of rounds of turns. Speeds that are not steady are measured again. */
enum { ROUNDS = 2 };

/* The measurements of a model in one turn. */
typedef struct speeds {
  /* tokens (images) per second. `rate`: decoding (classification); `step_rate`: training, 0 if it was not timed */
  double rate, step_rate;
  ch_curve_point depths[CH_DEPTHS];
  int depth_count;
  bool disturbed;
} speeds;

/* Duration of timing training in one turn. */
static const double seconds_of_steps = 0.3;

/* A model whose training took fewer seconds is too small for a stable measurement of its speed. */
enum { ENOUGH_SECONDS = 2 };

/* Returns the effort for timing a model: models that trained for a short time are timed for a shorter time. */
static double effort_for(const ch_model_result *model) {
  static const double least = 0.05;
  return model->train_seconds > 0 ? fmin(fmax(model->train_seconds / ENOUGH_SECONDS, least), 1) : 1;
}

static ch_status measure_speeds(ch_compare_setup *setup, const char *directory, double effort, speeds *taken,
                                ch_error *error) {
  *taken = (speeds){0};
  if (ch_compare_on_images(setup))
    return ch_measure_prediction(directory, effort, ch_compare_stopped, setup, &taken->rate, error);
  CH_TRY(ch_measure_decoding(directory, setup->settings.lineup.sequence, effort, ch_compare_stopped, setup,
                             &taken->rate, error));
  return ch_measure_depths(directory, effort, ch_compare_stopped, setup, taken->depths, &taken->depth_count,
                           error);
}

/* Measures a model's speeds once, and sets taken->disturbed. Times training too if `config` is not NULL. */
static ch_status take_turn(ch_compare_setup *setup, const char *directory, double effort,
                           const ch_config *config, speeds *taken, ch_error *error) {
  ch_step_timing steps;
  ch_load before = ch_load_now();
  CH_TRY(measure_speeds(setup, directory, effort, taken, error));
  if (config) {
    CH_TRY(ch_time_steps(config, &setup->training, ch_compare_source(setup), seconds_of_steps,
                         ch_compare_stopped, setup, &steps, error));
    if (steps.seconds > 0) taken->step_rate = (double)ch_train_step_tokens(&setup->training) / steps.seconds;
  }
  ch_load after = ch_load_now();
  taken->disturbed = ch_load_disturbed(&before, &after, ch_team_of(0).threads);
  return CH_OK;
}

/* Sets a model's speeds to the medians of several turns. */
static ch_status fill_speeds(ch_compare_setup *setup, const speeds *turns, int count, ch_model_result *model,
                             ch_error *error) {
  double values[CH_COMPARE_TURNS];
  int disturbed = 0;
  for (int t = 0; t < count; t++) disturbed += turns[t].disturbed;
  for (int t = 0; t < count; t++) values[t] = turns[t].rate;
  ch_median_speed rate = ch_median_speed_of(values, count, 2 * disturbed > count);
  model->decode_tokens_per_second = rate.median;
  model->decode_spread = rate.spread;
  model->decode_unsteady = rate.unsteady;
  if (turns->step_rate > 0) {
    for (int t = 0; t < count; t++) values[t] = turns[t].step_rate;
    rate = ch_median_speed_of(values, count, 2 * disturbed > count);
    model->train_tokens_per_second = rate.median;
    model->train_spread = rate.spread;
    model->train_unsteady = rate.unsteady;
  }
  model->decode_points = turns->depth_count;
  if (model->decode_points == 0) return CH_OK;
  ch_curve_point *curve = ch_arena_alloc(&setup->comparison->arena, sizeof turns->depths);
  if (!curve) return ch_no_memory(error);
  for (int p = 0; p < model->decode_points; p++) {
    for (int t = 0; t < count; t++) values[t] = turns[t].depths[p].loss;
    curve[p] = (ch_curve_point){turns->depths[p].tokens, ch_median(values, count)};
  }
  model->decode_curve = curve;
  return CH_OK;
}

/* Returns a run of this name whose decoding was timed (in turns if `in_turns`), or NULL. Seeds do not change the
 * speed. */
static const ch_model_result *timed_sibling(const ch_compare_setup *setup, const char *name, bool in_turns) {
  const ch_comparison *c = setup->comparison;
  for (int i = 0; i < c->count; i++) {
    const ch_model_result *run = &c->models[i];
    if (strcmp(run->name, name) == 0 && run->decode_tokens_per_second > 0 &&
        (run->timing_turns > 0 || !in_turns))
      return run;
  }
  return NULL;
}

static void copy_decoding(const ch_model_result *from, ch_model_result *to) {
  to->decode_tokens_per_second = from->decode_tokens_per_second;
  to->decode_spread = from->decode_spread;
  to->decode_unsteady = from->decode_unsteady;
  to->decode_curve = from->decode_curve;
  to->decode_points = from->decode_points;
}

static void copy_training(const ch_model_result *from, ch_model_result *to) {
  to->train_tokens_per_second = from->train_tokens_per_second;
  to->train_spread = from->train_spread;
  to->train_unsteady = from->train_unsteady;
}

ch_status ch_compare_time_alone(ch_compare_setup *setup, const char *directory, ch_model_result *model,
                                ch_error *error) {
  const ch_model_result *sibling = timed_sibling(setup, model->name, false);
  speeds taken;
  if (sibling) {
    copy_decoding(sibling, model);
    return CH_OK;
  }
  CH_TRY(take_turn(setup, directory, effort_for(model), NULL, &taken, error));
  return fill_speeds(setup, &taken, 1, model, error);
}

bool ch_compare_has_weights(const ch_compare_setup *setup, const ch_model_result *model) {
  char *directory = ch_path_join(setup->settings.report.out, model->directory);
  bool there = directory && ch_directory_has(directory, "model.safetensors");
  free(directory);
  return there;
}

/* --- rounds of turns --------------------------------------------------------------------------------------------- */

/* A run of the comparison, and its measurements if it is timed. */
typedef struct timed_model {
  const ch_config *config; /* configuration whose training is timed too; NULL: training is not timed */
  /* `wanted`: the run is timed in the next round; `taken`: it was timed in an earlier round */
  bool wanted, taken;
  speeds turns[CH_COMPARE_TURNS];
  ch_model_result best; /* the run's result with the steadiest speeds of all rounds */
} timed_model;

static ch_status take_round(ch_compare_setup *setup, int round, timed_model *all, ch_error *error) {
  const ch_comparison *c = setup->comparison;
  for (int turn = 0; turn < CH_COMPARE_TURNS; turn++)
    for (int i = 0; i < c->count; i++) {
      if (!all[i].wanted) continue;
      char *directory = ch_path_join(setup->settings.report.out, c->models[i].directory);
      if (!directory) return ch_no_memory(error);
      ch_compare_tell(setup,
                      (ch_compare_event){.kind = CH_COMPARE_EVENT_TIMING,
                                         .as.timing = {round * CH_COMPARE_TURNS + turn,
                                                       (round + 1) * CH_COMPARE_TURNS, &c->models[i]}});
      ch_status status =
          take_turn(setup, directory, effort_for(&c->models[i]), all[i].config, &all[i].turns[turn], error);
      free(directory);
      CH_TRY(status);
    }
  return CH_OK;
}

static ch_median_speed decoding_of(const ch_model_result *m) {
  return (ch_median_speed){m->decode_tokens_per_second, m->decode_spread, m->decode_unsteady};
}

static ch_median_speed training_of(const ch_model_result *m) {
  return (ch_median_speed){m->train_tokens_per_second, m->train_spread, m->train_unsteady};
}

/* Keeps a round's speeds if they are steadier than earlier ones. Decides whether another round is needed. */
static ch_status judge_speeds(ch_compare_setup *setup, timed_model *model, ch_error *error) {
  const ch_model_result *before = &model->best;
  ch_model_result now = *before;
  CH_TRY(fill_speeds(setup, model->turns, CH_COMPARE_TURNS, &now, error));
  if (model->taken && !ch_median_speed_is_steadier(decoding_of(&now), decoding_of(before)))
    copy_decoding(before, &now);
  if (model->taken && !ch_median_speed_is_steadier(training_of(&now), training_of(before)))
    copy_training(before, &now);
  now.timing_turns = CH_COMPARE_TURNS;
  model->best = now;
  model->taken = true;
  bool lasts =
      setup->settings.verdict.remeasure || now.train_seconds <= 0 || now.train_seconds >= ENOUGH_SECONDS;
  model->wanted = lasts && (now.decode_unsteady || (model->config && now.train_unsteady));
  return CH_OK;
}

ch_status ch_compare_keep_run(ch_compare_setup *setup, const ch_model_result *model, ch_error *error) {
  char *directory = ch_path_join(setup->settings.report.out, model->directory);
  char *path = directory ? ch_path_join(directory, CH_COMPARE_RESULT) : NULL;
  ch_status status = path ? ch_write_json(path, ch_model_result_to_json(model), CH_DIGITS_EXACT, error)
                          : ch_no_memory(error);
  free(path);
  free(directory);
  if (status == CH_OK)
    ch_compare_tell(setup, (ch_compare_event){.kind = CH_COMPARE_EVENT_TIMED, .as.timed = {model}});
  return status;
}

static const ch_config *config_of(const ch_compare_setup *setup, const char *name) {
  const ch_compare_plan *plan = &setup->plan;
  for (int i = 0; i < plan->count; i++)
    if (strcmp(plan->models[i].name, name) == 0) return &plan->models[i].config;
  return NULL;
}

/* Chooses one model of each name, the first that has its weights. Training is timed too if it was unsteady for any seed
 * or settings.remeasure is set, but not with PyTorch. */
static void begin_timing(ch_compare_setup *setup, timed_model *all) {
  const ch_comparison *c = setup->comparison;
  for (int i = 0; i < c->count; i++) {
    bool training = setup->settings.verdict.remeasure, first = ch_compare_has_weights(setup, &c->models[i]);
    for (int k = 0; k < c->count; k++) {
      if (strcmp(c->models[k].name, c->models[i].name) != 0) continue;
      training = training || c->models[k].train_unsteady;
      first = first && (k >= i || !all[k].wanted);
    }
    training = training && setup->settings.workers.engine == CH_ENGINE_NATIVE;
    all[i].best = c->models[i];
    all[i].wanted = first;
    all[i].config = training ? config_of(setup, c->models[i].name) : NULL;
  }
}

static ch_status take_rounds(ch_compare_setup *setup, timed_model *all, ch_error *error) {
  int count = setup->comparison->count;
  begin_timing(setup, all);
  for (int round = 0; round < ROUNDS; round++) {
    int wanted = 0;
    CH_TRY(take_round(setup, round, all, error));
    for (int i = 0; i < count; i++) {
      if (all[i].wanted) CH_TRY(judge_speeds(setup, &all[i], error));
      wanted += all[i].wanted;
    }
    if (!wanted) break;
  }
  return CH_OK;
}

/* Copies the speeds of another run of its name to a run. `training`: the speed of training was measured again. */
static ch_status give_speed(ch_compare_setup *setup, const ch_model_result *from, bool training,
                            ch_model_result *run, ch_error *error) {
  copy_decoding(from, run);
  if (training && (run->train_unsteady || setup->settings.verdict.remeasure)) copy_training(from, run);
  run->timing_turns = from->timing_turns;
  return ch_compare_keep_run(setup, run, error);
}

static ch_status time_all(ch_compare_setup *setup, timed_model *all, ch_error *error) {
  const ch_comparison *c = setup->comparison;
  CH_TRY(take_rounds(setup, all, error));
  for (int i = 0; i < c->count; i++)
    for (int k = 0; all[i].taken && k < c->count; k++)
      if (strcmp(c->models[k].name, all[i].best.name) == 0)
        CH_TRY(give_speed(setup, &all[i].best, all[i].config != NULL, &c->models[k], error));
  return CH_OK;
}

/* Returns true if models must be timed: a model has its weights, and no run of its name was timed in turns or
 * settings.remeasure is set. */
static bool lacks_timing(const ch_compare_setup *setup) {
  const ch_comparison *c = setup->comparison;
  for (int i = 0; i < c->count; i++)
    if ((setup->settings.verdict.remeasure || !timed_sibling(setup, c->models[i].name, true)) &&
        ch_compare_has_weights(setup, &c->models[i]))
      return true;
  return false;
}

ch_status ch_compare_time_in_rounds(ch_compare_setup *setup, bool *changed, ch_error *error) {
  const ch_comparison *c = setup->comparison;
  *changed = lacks_timing(setup);
  if (*changed) {
    timed_model *all = calloc((size_t)c->count + 1, sizeof *all);
    ch_status status = all ? time_all(setup, all, error) : ch_no_memory(error);
    free(all);
    return status;
  }
  for (int i = 0; i < c->count; i++) {
    const ch_model_result *sibling = timed_sibling(setup, c->models[i].name, true);
    if (c->models[i].timing_turns > 0 || !sibling) continue;
    CH_TRY(give_speed(setup, sibling, false, &c->models[i], error));
    *changed = true;
  }
  return CH_OK;
}
