/* Matches training time: computes how many steps of each model fit into the time that the first model needs. The steps
 * are timed once and their number is saved, so that a continued comparison keeps it. */
#include "experiment/trial/match_time.h"

#include <math.h>

#include "base/median.h"
#include "experiment/speed/step_timing.h"

enum { TURNS = 3 };

/* Times steps of each model. seconds [plan.count] receives the median duration of a step over several turns; 0 for
 * models whose number of steps is known. */
static ch_status time_models(ch_compare_setup *setup, double *seconds, ch_error *error) {
  double taken[CH_COMPARE_MOST][TURNS];
  int count = setup->plan.count;
  for (int turn = 0; turn < TURNS; turn++)
    for (int i = 0; i < count; i++) {
      const ch_planned_model *model = &setup->plan.models[i];
      ch_step_timing timing;
      if (model->steps) continue;
      ch_compare_tell(setup,
                      (ch_compare_event){.kind = CH_COMPARE_EVENT_PREPARATION,
                                         .as.preparation = {"timing the models",
                                                            (double)(turn * count + i) / (TURNS * count)}});
      if (ch_compare_stopped(setup))
        return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted while timing the models");
      CH_TRY(ch_time_steps(&model->config, &setup->training, ch_compare_source(setup), 1, ch_compare_stopped,
                           setup, &timing, error));
      taken[i][turn] = timing.seconds;
    }
  for (int i = 0; i < count; i++) seconds[i] = setup->plan.models[i].steps ? 0 : ch_median(taken[i], TURNS);
  return CH_OK;
}

static ch_status match_time(ch_compare_setup *setup, ch_error *error) {
  ch_compare_plan *plan = &setup->plan;
  double seconds[CH_COMPARE_MOST];
  int unknown = 0;
  for (int i = 0; i < plan->count; i++) unknown += plan->models[i].steps == 0;
  if (unknown) CH_TRY(time_models(setup, seconds, error));
  for (int i = 0; i < plan->count; i++) {
    ch_planned_model *model = &plan->models[i];
    if (model->steps) continue;
    if (!(plan->budget_seconds > 0)) plan->budget_seconds = seconds[i] * (double)setup->training.steps;
    double fitting = seconds[i] > 0 ? round(plan->budget_seconds / seconds[i]) : 1;
    model->steps = (int64_t)fmin(fmax(fitting, 1), 1e12);
    ch_train_options training;
    CH_TRY(ch_compare_training_of(setup, model, &training, error));
  }
  return CH_OK;
}

ch_status ch_compare_match_time(ch_compare_setup *setup, ch_error *error) {
  ch_compare_plan *plan = &setup->plan;
  int64_t steps[CH_COMPARE_MOST] = {0};
  CH_TRY(ch_scheduler_conclude(
      &setup->scheduler, ch_scheduler_leads(&setup->scheduler) ? match_time(setup, error) : CH_OK, error));
  for (int i = 0; i < plan->count; i++) steps[i] = plan->models[i].steps;
  ch_ranks_broadcast(setup->scheduler.all, 0, steps, sizeof steps);
  ch_ranks_broadcast(setup->scheduler.all, 0, &plan->budget_seconds, sizeof plan->budget_seconds);
  for (int i = 0; i < plan->count; i++) plan->models[i].steps = steps[i];
  return CH_OK;
}
