/* Equal training time: how many steps of each model fit into the seconds that the first one needs. */
#include "experiment/trial/match_time.h"

#include <math.h>

#include "base/median.h"
#include "experiment/speed/step_timing.h"

enum { TURNS = 3 };

/* seconds [plan.count]: the medians of several turns; 0 for models whose steps are known. */
static ch_status time_models(ch_compare_setup *setup, double *seconds, ch_error *error) {
  double taken[CH_COMPARE_MOST][TURNS];
  int count = setup->plan.count;
  for (int turn = 0; turn < TURNS; turn++)
    for (int i = 0; i < count; i++) {
      const ch_planned_model *model = &setup->plan.models[i];
      const ch_compare_settings *s = &setup->settings;
      ch_step_timing timing;
      if (model->steps) continue;
      if (s->preparation &&
          !s->preparation("timing the models", (double)(turn * count + i) / (TURNS * count), s->user))
        return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted while the models were timed");
      CH_TRY(ch_time_steps(setup, &model->config, &timing, error));
      taken[i][turn] = timing.seconds;
    }
  for (int i = 0; i < count; i++) seconds[i] = setup->plan.models[i].steps ? 0 : ch_median(taken[i], TURNS);
  return CH_OK;
}

ch_status ch_compare_match_time(ch_compare_setup *setup, ch_error *error) {
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
