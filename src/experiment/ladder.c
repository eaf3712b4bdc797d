/* Runs the comparisons of a ladder, first at the requested size, then at the others, and fits laws to their losses.
 * Each rung is a comparison with its own directory; laws/ladder_laws.c has the numerics. */
#include "experiment/ladder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_names.h"
#include "base/text.h"
#include "experiment/lineup/match_size.h"
#include "experiment/lineup/ladder_sizes.h"
#include "experiment/trial/prepare.h"
#include "experiment/findings/summary.h"
#include "laws/ladder_laws.h"

enum { FLOPS_OF_TRAINING = 3 };

/* Shares of a run's tokens at which its loss is fitted too. */
static const double earlier_shares[] = {0.5, 0.75};
enum { SHARES = sizeof earlier_shares / sizeof *earlier_shares };

/* --- results of a rung ------------------------------------------------------------------------------------------- */

static double run_loss(const ch_model_result *run) {
  return run->validation_loss;
}

static double rate_of(const ch_model_result *run) {
  return run->train_tokens_per_second;
}

static double spread_of(const ch_model_result *run) {
  return run->train_spread;
}

/* Returns a run's validation loss after `share` of its tokens, interpolated over the logarithm of tokens; NaN outside
 * the range of its evaluations. */
static double loss_at(const ch_model_result *run, double share) {
  double tokens = share * (double)run->tokens_trained;
  for (int p = 1; p < run->validation_points; p++) {
    const ch_curve_point *a = &run->validation_curve[p - 1], *b = &run->validation_curve[p];
    if ((double)a->tokens > tokens || (double)b->tokens < tokens || a->tokens < 1 || b->tokens <= a->tokens)
      continue;
    double part = log(tokens / (double)a->tokens) / log((double)b->tokens / (double)a->tokens);
    return a->loss + part * (b->loss - a->loss);
  }
  return NAN;
}

static double mean_at(const ch_group *group, double share) {
  double sum = 0;
  for (int i = 0; i < group->count; i++) sum += loss_at(group->runs[i], share);
  return sum / group->count;
}

static void take_group(const ch_group *group, int rungs, int rung, ch_ladder_mechanism *m) {
  const ch_model_result *run = group->runs[0];
  m->flops[rung] = FLOPS_OF_TRAINING * ch_model_result_flops(run) * (double)run->tokens_trained;
  m->losses[rung] = ch_group_spread(group, run_loss).mean;
  m->diverged |= group->diverged;
  m->parameters[rung] = (double)group->runs[0]->parameters;
  for (int k = 0; k < SHARES; k++) m->earlier[k * rungs + rung] = mean_at(group, earlier_shares[k]);
  if (rung + 1 < rungs) return;
  m->tokens_per_second = ch_group_spread(group, rate_of).mean;
  m->spread = ch_group_spread(group, spread_of).mean;
  double seconds =
      m->tokens_per_second > 0 ? (double)group->runs[0]->tokens_trained / m->tokens_per_second : 0;
  m->seconds_per_flop = m->flops[rung] > 0 ? seconds / m->flops[rung] : 0;
}

static ch_status take_rung(const ch_comparison *rung, int index, ch_ladder *ladder, ch_error *error) {
  ch_summary summary;
  ch_status status = ch_summarise(rung, &summary, error);
  for (int m = 0; status == CH_OK && m < ladder->count; m++) {
    int group = 0;
    while (group < summary.count && strcmp(summary.groups[group].name, ladder->mechanisms[m].name) != 0)
      group++;
    if (group == summary.count)
      status = ch_fail(error, CH_ERROR_FORMAT, "the comparison at size %lld has no %s",
                       (long long)ladder->sizes[index], ladder->mechanisms[m].name);
    else
      take_group(&summary.groups[group], ladder->rungs, index, &ladder->mechanisms[m]);
  }
  ch_arena_free(&summary.arena);
  return status;
}

/* Returns an output directory that does not exist, for models that are planned but not trained. */
static const char *nowhere_below(const ch_compare_settings *settings, ch_arena *arena) {
  return ch_arena_printf(arena, "%s/rungs/planned", settings->report.out);
}

/* --- the target -------------------------------------------------------------------------------------------------- */

/* Computes the FLOPs of training at the target size. The models of this size are planned, not trained. */
static ch_status plan_target(const ch_compare_settings *settings, int64_t base, int64_t vocabulary,
                             ch_arena *arena, ch_ladder *ladder, ch_error *error) {
  ch_comparison comparison = {0};
  ch_compare_setup setup;
  const char *nowhere = nowhere_below(settings, arena);
  if (!nowhere) return ch_no_memory(error);
  ch_compare_settings s = ch_ladder_rung(settings, base, settings->schedule.target, nowhere, vocabulary, 0);
  if (s.lineup.match == CH_MATCH_TIME) s.lineup.match = CH_MATCH_PARAMETERS;
  s.event = NULL;
  ladder->target = settings->schedule.target;
  ladder->target_tokens = s.training.tokens;
  ch_status status = ch_compare_prepare(&s, CH_EXPERIMENT_COMPARISON, true, &comparison, &setup, error);
  for (int m = 0; status == CH_OK && m < ladder->count; m++)
    for (int i = 0; status == CH_OK && i < setup.plan.count; i++) {
      int64_t flops = 0;
      if (strcmp(setup.plan.models[i].name, ladder->mechanisms[m].name) != 0) continue;
      status = ch_count_flops(&setup.plan.models[i].config, s.lineup.sequence, &flops, error);
      ladder->mechanisms[m].target_flops = FLOPS_OF_TRAINING * (double)flops * (double)s.training.tokens;
      ladder->mechanisms[m].target_parameters = (double)setup.plan.models[i].parameters;
    }
  ch_compare_setup_close(&setup, status);
  ch_arena_free(&comparison.arena);
  return status == CH_OK ? status : ch_fail_in(error, "the target of the ladder");
}

/* Moves the mechanisms that diverged to the end. Losses of diverged runs would spoil the floor that all laws share. */
static void set_diverged_aside(ch_ladder *ladder) {
  int all = ladder->count;
  ladder->count = 0;
  for (int m = 0; m < all; m++) {
    ch_ladder_mechanism own = ladder->mechanisms[m];
    if (own.diverged) continue;
    memmove(&ladder->mechanisms[ladder->count + 1], &ladder->mechanisms[ladder->count],
            (size_t)(m - ladder->count) * sizeof own);
    ladder->mechanisms[ladder->count++] = own;
  }
  ladder->diverged = all - ladder->count;
}

/* --- the whole ladder -------------------------------------------------------------------------------------------- */

static bool have_all(const double *values, int count) {
  for (int i = 0; i < count; i++)
    if (!(values[i] > 0)) return false;
  return true;
}

static ch_status fit(ch_ladder *ladder, ch_error *error) {
  ch_ladder_curve curves[CH_LADDER_MOST_CURVES];
  for (int m = 0; m < ladder->count; m++) {
    const ch_ladder_mechanism *own = &ladder->mechanisms[m];
    bool all = have_all(own->earlier, SHARES * ladder->rungs);
    curves[m] = (ch_ladder_curve){.name = own->name,
                                  .rungs = ladder->rungs,
                                  .flops = own->flops,
                                  .losses = own->losses,
                                  .earlier = all ? own->earlier : NULL,
                                  .shares = all ? SHARES : 0,
                                  .target_flops = own->target_flops,
                                  .seconds_per_flop = own->seconds_per_flop,
                                  .seconds_error =
                                      own->tokens_per_second > 0 ? own->spread / own->tokens_per_second : 0};
  }
  return ch_ladder_fit(curves, ladder->count, 0, &ladder->laws, error);
}

/* Allocates the results in the arena. The mechanisms are in the comparison's order; the first is the
 * baseline. */
static ch_status allocate_ladder(const ch_comparison *comparison, ch_arena *arena, ch_ladder *ladder,
                                 ch_error *error) {
  size_t rungs = (size_t)ladder->rungs;
  bool fine = true;
  ladder->mechanisms = ch_arena_alloc(arena, CH_LADDER_MOST_CURVES * sizeof *ladder->mechanisms);
  ladder->sizes = ch_arena_alloc(arena, rungs * sizeof *ladder->sizes);
  ladder->tokens = ch_arena_alloc(arena, rungs * sizeof *ladder->tokens);
  ladder->directories = ch_arena_alloc(arena, rungs * sizeof *ladder->directories);
  fine = ladder->mechanisms && ladder->sizes && ladder->tokens && ladder->directories;
  uint64_t seed = comparison->training.seed;
  for (int i = 0; fine && i < comparison->count && comparison->models[i].seed == seed; i++) {
    ch_ladder_mechanism *m = &ladder->mechanisms[ladder->count++];
    m->name = comparison->models[i].name;
    m->flops = ch_arena_alloc(arena, rungs * sizeof *m->flops);
    m->losses = ch_arena_alloc(arena, rungs * sizeof *m->losses);
    m->parameters = ch_arena_alloc(arena, rungs * sizeof *m->parameters);
    m->earlier = ch_arena_alloc(arena, SHARES * rungs * sizeof *m->earlier);
    fine = m->flops && m->losses && m->parameters && m->earlier;
  }
  return fine ? CH_OK : ch_no_memory(error);
}

/* Returns true if this process has the results of a rung. Other ranks and parts of a comparison only train its runs. */
static bool has_results(const ch_compare_settings *settings) {
  return ch_ranks_leads(settings->workers.ranks) && settings->schedule.parts == 0;
}

static ch_status climb(const ch_compare_settings *settings, int64_t base, const ch_comparison *comparison,
                       const ch_compare_hooks *outside, ch_ladder *ladder, ch_arena *arena, ch_error *error) {
  for (int i = 0; i < ladder->rungs; i++) {
    ladder->tokens[i] = ch_ladder_tokens(settings, base, ladder->sizes[i]);
    ladder->directories[i] = ladder->sizes[i] == base
                                 ? ""
                                 : ch_arena_printf(arena, CH_LADDER_DIRECTORY, (long long)ladder->sizes[i]);
    if (!ladder->directories[i]) return ch_no_memory(error);
    if (ladder->sizes[i] == base) {
      CH_TRY(has_results(settings) ? take_rung(comparison, i, ladder, error) : CH_OK);
      continue;
    }
    char *directory = ch_path_join(settings->report.out, ladder->directories[i]);
    if (!directory) return ch_no_memory(error);
    ch_comparison rung;
    ch_compare_settings own = ch_ladder_rung(settings, base, ladder->sizes[i], directory,
                                             comparison->data.vocab_size, comparison->training.eval_tokens);
    const ch_compare_event event = {.kind = CH_COMPARE_EVENT_RUNG,
                                    .as.rung = {i, ladder->rungs, ladder->sizes[i], directory}};
    bool reports = settings->event && ch_ranks_leads(settings->workers.ranks);
    ch_status status = CH_OK;
    if (reports && !settings->event(&event, settings->user))
      status = ch_fail(error, CH_ERROR_INTERRUPTED,
                       "interrupted before the models of %lld parameters; the same command continues it",
                       (long long)ladder->sizes[i]);
    rung = (ch_comparison){0};
    status = ch_agree(settings->workers.ranks, status, error);
    if (status == CH_OK) status = ch_compare(&own, outside, &rung, error);
    if (status == CH_OK && rung.data.vocab_size != comparison->data.vocab_size)
      status = ch_fail(
          error, CH_ERROR_FORMAT,
          "%s has a vocabulary of %lld, but the comparison has %lld; remove it and repeat the command",
          directory, (long long)rung.data.vocab_size, (long long)comparison->data.vocab_size);
    if (status == CH_OK && has_results(settings)) status = take_rung(&rung, i, ladder, error);
    status = ch_agree(settings->workers.ranks, status, error);
    ch_arena_free(&rung.arena);
    free(directory);
    CH_TRY(status);
  }
  return CH_OK;
}

static ch_status check_names(const char *mechanisms, ch_error *error) {
  ch_compare_plan plan;
  ch_status status = ch_compare_plan_names(mechanisms, &plan, error);
  for (int m = 0; status == CH_OK && m < plan.count; m++)
    if (plan.models[m].from_file)
      status = ch_fail(error, CH_ERROR_ARGUMENT, "{ladder} needs names of mechanisms: %s has a fixed shape",
                       plan.models[m].name);
  ch_compare_plan_free(&plan);
  return status;
}

/* Checks before training that models of all sizes can be configured. Nothing is written. With CH_MATCH_TIME it checks
 * nothing, because planning would time training steps. */
static ch_status check_sizes(const ch_compare_settings *settings, int64_t base, const int64_t *sizes,
                             int rungs, ch_error *error) {
  for (int i = 0; i < rungs && settings->lineup.match != CH_MATCH_TIME; i++) {
    ch_comparison comparison = {0};
    ch_compare_setup setup;
    const char *nowhere = nowhere_below(settings, &comparison.arena);
    if (!nowhere) return ch_no_memory(error);
    ch_compare_settings rung = ch_ladder_rung(settings, base, sizes[i], nowhere, 0, 0);
    rung.event = NULL;
    ch_status status = ch_compare_prepare(&rung, CH_EXPERIMENT_COMPARISON, true, &comparison, &setup, error);
    ch_compare_setup_close(&setup, status);
    ch_arena_free(&comparison.arena);
    if (status != CH_OK) return ch_fail_in(error, "a size of the ladder");
  }
  return CH_OK;
}

ch_status ch_ladder_compare(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                            ch_comparison *comparison, ch_error *error) {
  int64_t sizes[CH_LADDER_MOST_RUNGS], base;
  int rungs;
  *comparison = (ch_comparison){0};
  CH_TRY(ch_ladder_sizes(settings, CH_COMPARE_USUAL_PARAMS, sizes, &rungs, error));
  ch_compare_settings own = *settings;
  own.schedule.ladder = NULL;
  own.schedule.target = 0;
  base = own.lineup.parameters ? own.lineup.parameters : CH_COMPARE_USUAL_PARAMS;
  CH_TRY(check_names(settings->lineup.mechanisms, error));
  CH_TRY(check_sizes(settings, base, sizes, rungs, error));
  CH_TRY(ch_compare(&own, outside, comparison, error));
  ch_arena *arena = &comparison->arena;
  ch_ladder *ladder = ch_arena_alloc(arena, sizeof *ladder);
  if (!ladder) return ch_no_memory(error);
  *ladder = (ch_ladder){.rungs = rungs};
  CH_TRY(allocate_ladder(comparison, arena, ladder, error));
  memcpy(ladder->sizes, sizes, (size_t)rungs * sizeof *sizes);
  CH_TRY(climb(settings, base, comparison, outside, ladder, arena, error));
  if (!has_results(settings)) return CH_OK;
  set_diverged_aside(ladder);
  if (ladder->count == 0)
    return ch_fail(error, CH_ERROR_NUMERIC,
                   "every mechanism diverged at a size of the ladder, so there are no laws; the results of "
                   "each size are saved in %s, and a lower {lr} may help",
                   settings->report.out);
  if (settings->schedule.target)
    CH_TRY(plan_target(settings, base, comparison->data.vocab_size, arena, ladder, error));
  CH_TRY(fit(ladder, error));
  comparison->ladder = ladder;
  return ch_compare_write(settings, outside, comparison, error);
}
