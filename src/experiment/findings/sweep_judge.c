/* Judges the runs of a sweep: it finds stuck runs, fits laws and chooses the rates of each mechanism. It uses results
 * only, so that a continued sweep is judged like a new one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "experiment/findings/sweep_results.h"
#include "laws/scaling_law.h"

/* A run at a higher rate than the best run is stuck if its loss fell by less than this share of the best run's fall. */
static const double least_part_learned = 0.5;

/* --- laws -------------------------------------------------------------------------------------------------------- */

static ch_status fit_law(const ch_sweep *sweep, ch_sweep_result *run, ch_error *failure) {
  ch_error error = {0};
  int n = 0, count = run->validation_points;
  double *tokens = malloc((size_t)(2 * count + 1) * sizeof *tokens), *losses = tokens + count;
  run->has_law = false;
  if (!tokens) return ch_no_memory(failure);
  for (int i = 0; i < count; i++) {
    if (run->validation_curve[i].tokens <= sweep->skip) continue;
    tokens[n] = (double)run->validation_curve[i].tokens;
    losses[n++] = run->validation_curve[i].loss;
  }
  if (run->verdict != CH_STABLE)
    snprintf(run->no_law, sizeof run->no_law, "the run is not stable");
  else if (!ch_sweep_has_laws(sweep))
    snprintf(run->no_law, sizeof run->no_law, "the learning rate falls during the run");
  else if (ch_fit_scaling_law(tokens, losses, n, sweep->budget, &run->law, &error) == CH_OK)
    run->has_law = true;
  else
    snprintf(run->no_law, sizeof run->no_law, "%.150s", error.message);
  free(tokens);
  return CH_OK;
}

/* --- stuck runs -------------------------------------------------------------------------------------------------- */

static double fall_of(const ch_sweep_result *run) {
  return run->curve_points ? run->curve[0].loss - run->validation_loss : NAN;
}

static void find_stuck(ch_sweep *sweep, const ch_sweep_choice *choice) {
  const ch_sweep_result *best = NULL;
  for (int i = 0; i < sweep->count; i++) {
    ch_sweep_result *run = &sweep->runs[i];
    if (!ch_sweep_is_of(run, choice)) continue;
    run->verdict = run->stability.verdict;
    if (run->verdict == CH_STABLE && isfinite(fall_of(run)) && (!best || fall_of(run) > fall_of(best)))
      best = run;
  }
  for (int i = 0; best && i < sweep->count; i++) {
    ch_sweep_result *run = &sweep->runs[i];
    if (ch_sweep_is_of(run, choice) && run->verdict == CH_STABLE && run->lr > best->lr &&
        !(fall_of(run) >= least_part_learned * fall_of(best)))
      run->verdict = CH_STUCK;
  }
}

/* --- rates ------------------------------------------------------------------------------------------------------- */

/* Returns a mechanism's mean validation loss at a rate. *stable becomes true if every run at that rate is stable. */
static double loss_at(const ch_sweep *sweep, const ch_sweep_choice *choice, double lr, bool *stable) {
  double sum = 0;
  int n = 0;
  *stable = true;
  for (int i = 0; i < sweep->count; i++) {
    const ch_sweep_result *run = &sweep->runs[i];
    if (!ch_sweep_is_of(run, choice) || run->lr != lr) continue;
    *stable = *stable && run->verdict == CH_STABLE;
    sum += run->validation_loss;
    n++;
  }
  return n ? sum / n : NAN;
}

static void choose_rate(const ch_sweep *sweep, ch_sweep_choice *choice) {
  int seen = 0;
  choice->chosen = choice->lowest = 0;
  choice->chosen_loss = choice->lowest_loss = NAN;
  choice->spikes = 0;
  for (int i = 0; i < sweep->count; i++) {
    const ch_sweep_result *run = &sweep->runs[i];
    if (!ch_sweep_is_of(run, choice)) continue;
    bool stable;
    double loss = loss_at(sweep, choice, run->lr, &stable);
    seen++;
    choice->spikes += run->stability.spikes;
    if (!stable) continue;
    if (run->lr > choice->chosen) {
      choice->chosen = run->lr;
      choice->chosen_loss = loss;
    }
    if (isfinite(loss) && !(choice->lowest_loss <= loss)) {
      choice->lowest = run->lr;
      choice->lowest_loss = loss;
    }
  }
  choice->whole = seen == sweep->planned / sweep->mechanisms;
}

/* --- mechanisms -------------------------------------------------------------------------------------------------- */

/* Makes a comparison of the runs at each mechanism's best rate. Its verdict is the sweep's. */
static ch_status compare_best(ch_sweep *sweep, ch_error *error) {
  ch_comparison *about = &sweep->about;
  about->models = ch_arena_alloc(&about->arena, ((size_t)sweep->count + 1) * sizeof *about->models);
  about->count = 0;
  about->tolerance = 0.01;
  if (!about->models) return ch_no_memory(error);
  for (int m = 0; m < sweep->mechanisms; m++)
    for (int i = 0; i < sweep->count; i++) {
      const ch_sweep_result *run = &sweep->runs[i];
      if (!ch_sweep_is_of(run, &sweep->choices[m]) || run->lr != sweep->choices[m].lowest) continue;
      about->models[about->count++] =
          (ch_model_result){.name = run->name,
                            .directory = run->directory,
                            .mechanism = run->mechanism,
                            .seed = (uint64_t)run->seed,
                            .validation_loss = run->validation_loss,
                            .cache_elements_per_token = run->cache_bytes_per_token / CH_CACHE_ELEMENT_BYTES,
                            .cache_bytes_per_token = run->cache_bytes_per_token,
                            .tokens_trained = run->tokens_trained,
                            .train_tokens_per_second =
                                isfinite(run->train_tokens_per_second) ? run->train_tokens_per_second : 0,
                            .curve = run->curve,
                            .curve_points = run->curve_points};
    }
  return CH_OK;
}

ch_status ch_sweep_judge(ch_sweep *sweep, ch_error *error) {
  for (int m = 0; m < sweep->mechanisms; m++) {
    find_stuck(sweep, &sweep->choices[m]);
    choose_rate(sweep, &sweep->choices[m]);
  }
  for (int i = 0; i < sweep->count; i++) CH_TRY(fit_law(sweep, &sweep->runs[i], error));
  return compare_best(sweep, error);
}
