/* Runs one comparison from its settings to its results: it plans the models, trains the runs, adds seeds until the
 * choice is clear, times the models and evaluates the tasks. trial/ trains single runs and schedules them. */
#include "experiment/trial/prepare.h"
#include "experiment/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_names.h"
#include "experiment/findings/comparison_json.h"
#include "experiment/trial/shares.h"
#include "experiment/trial/train_run.h"
#include "experiment/trial/timing_rounds.h"

/* A run of the comparison. Runs are ordered by seed, then by model. */
typedef struct planned_run {
  int model; /* index in the plan */
  uint64_t seed;
  bool elsewhere; /* true if another part of a divided comparison trains the run */
  bool done, failed;
  ch_model_result result; /* valid if `done` */
} planned_run;

/* The comparison in progress, on rank 0. */
typedef struct comparison_job {
  ch_compare_setup *setup;
  const ch_compare_hooks *outside;
  planned_run *runs; /* [setup->comparison->planned], in the comparison's arena */
  bool *untuned;     /* [models] true if no learning rate was found for the model */
  int *listed;       /* [pieces] index of each piece's run or, while rates are tuned, of its model */
  ch_scheduler_failures failures;
} comparison_job;

/* --- results ----------------------------------------------------------------------------------------------------- */

ch_status ch_compare_write(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                           const ch_comparison *comparison, ch_error *error) {
  char *path = ch_path_join(settings->report.out, CH_COMPARE_RESULTS);
  if (!path) return ch_no_memory(error);
  ch_status status = ch_write_json(path, ch_comparison_to_json(comparison), CH_DIGITS_SHOWN, error);
  free(path);
  if (status == CH_OK && outside->written) status = outside->written(settings, comparison, error);
  return status;
}

static bool in_shares(const ch_compare_setup *setup) {
  return setup->settings.schedule.parts > 0;
}

/* Writes results.json after each run, so that finished models can be read while others train. A part of a comparison
   ({part}) does not write it; {collect} does. */
static ch_status write_results(const comparison_job *c, ch_error *error) {
  if (in_shares(c->setup)) return CH_OK;
  return ch_compare_write(&c->setup->settings, c->outside, c->setup->comparison, error);
}

static ch_status run_finished(comparison_job *c, planned_run *run, bool earlier, ch_error *error) {
  run->done = true;
  c->setup->began = true;
  /* Lists the finished runs in the order of the plan. */
  ch_comparison *comparison = c->setup->comparison;
  comparison->count = 0;
  for (int i = 0; i < comparison->planned; i++)
    if (c->runs[i].done) comparison->models[comparison->count++] = c->runs[i].result;
  ch_compare_tell(c->setup,
                  (ch_compare_event){.kind = CH_COMPARE_EVENT_MODEL, .as.model = {&run->result, earlier}});
  bool last = c->setup->comparison->count == c->setup->comparison->planned;
  return !earlier || last ? write_results(c, error) : CH_OK;
}

static ch_status read_made(comparison_job *c, planned_run *run, ch_error *error) {
  bool found = false;
  double begin = ch_clock();
  do CH_TRY(ch_compare_read_run(c->setup, run->model, run->seed, &run->result, &found, error));
  while (!found && ch_scheduler_has_patience(&c->setup->scheduler, begin));
  if (found) return CH_OK;
  return ch_fail(error, CH_ERROR_IO,
                 "%s was trained, and its " CH_COMPARE_RESULT
                 " is not in %s; all ranks must see the same directory",
                 c->setup->plan.models[run->model].name, c->setup->settings.report.out);
}

/* --- pieces of work ----------------------------------------------------------------------------------------------- */

/* The context of the function that works on a piece. */
typedef struct maker {
  ch_compare_setup *setup;
  const comparison_job *list; /* the job on rank 0; NULL on other ranks */
} maker;

static int run_index(const maker *m, const ch_assignment *piece) {
  const ch_comparison *comparison = m->setup->comparison;
  for (int i = 0; m->list && i < comparison->planned; i++)
    if (m->list->runs[i].model == piece->model && m->list->runs[i].seed == piece->seed) return i;
  return 0;
}

static ch_status make_piece(void *context, const ch_assignment *piece, bool *began, ch_error *error) {
  const maker *m = context;
  ch_compare_setup *setup = m->setup;
  if (piece->tries_rates) return ch_compare_tune_model(setup, piece->model, began, error);
  setup->plan.models[piece->model].lr = piece->lr;
  return ch_compare_train_run(setup, piece->model, piece->seed, run_index(m, piece),
                              setup->comparison->planned, began, error);
}

static ch_status make_on_lead(void *context, const ch_assignment *piece, bool *began, ch_error *error) {
  comparison_job *c = context;
  maker m = {.setup = c->setup, .list = c};
  return make_piece(&m, piece, began, error);
}

static void note_failure(comparison_job *c, int at, const ch_assignment *piece, const ch_outcome *outcome) {
  ch_compare_setup *setup = c->setup;
  ch_scheduler_note_failure(&c->failures, at, outcome);
  const char *name = setup->plan.models[piece->model].name;
  ch_compare_tell(setup, (ch_compare_event){.kind = CH_COMPARE_EVENT_FAILED,
                                            .as.failed = {name, piece->seed, &outcome->error}});
}

/* Distributes pieces of work and waits for them. listed [count]: index of each piece's run or, with `tunes`, of the
 * model whose rates are tried. */
static ch_status hand_out(comparison_job *c, int *listed, int count, bool tunes,
                          ch_status (*made)(void *, int, const ch_outcome *, ch_error *), ch_error *error) {
  ch_compare_setup *setup = c->setup;
  ch_assignment *pieces = calloc((size_t)count + 1, sizeof *pieces);
  ch_scheduler_work work = {
      .pieces = pieces, .count = count, .make = make_on_lead, .made = made, .context = c};
  if (!pieces) return ch_no_memory(error);
  for (int i = 0; i < count; i++) {
    int model = tunes ? listed[i] : c->runs[listed[i]].model;
    pieces[i] = (ch_assignment){.model = model,
                                .tries_rates = tunes,
                                .seed = tunes ? setup->settings.training.seed : c->runs[listed[i]].seed,
                                .lr = setup->plan.models[model].lr};
  }
  c->listed = listed;
  ch_status status = ch_order_pieces(setup, pieces, listed, count, error);
  if (status == CH_OK) status = ch_scheduler_make(&setup->scheduler, &work, error);
  free(pieces);
  c->listed = NULL;
  return status;
}

/* --- runs -------------------------------------------------------------------------------------------------------- */

static ch_status on_made(void *context, int index, const ch_outcome *outcome, ch_error *error) {
  comparison_job *c = context;
  planned_run *run = &c->runs[c->listed[index]];
  c->setup->began |= outcome->began;
  if (outcome->status == CH_OK) {
    CH_TRY(read_made(c, run, error));
    return run_finished(c, run, false, error);
  }
  run->failed = true;
  const ch_assignment piece = {.model = run->model, .seed = run->seed};
  note_failure(c, c->listed[index], &piece, outcome);
  return CH_OK;
}

/* Fails if a run is not finished. The message names the missing runs. */
static ch_status check_complete(const comparison_job *c, ch_error *error) {
  const ch_comparison *comparison = c->setup->comparison;
  ch_text names = {0};
  int missing = 0;
  for (int i = 0; i < comparison->planned; i++) {
    if (c->runs[i].done) continue;
    missing++;
    /* Writes a list such as "mha, gqa (seed 2)". */
    ch_text_printf(&names, "%s%s", names.size ? ", " : "", c->setup->plan.models[c->runs[i].model].name);
    if (c->setup->settings.training.seeds > 1)
      ch_text_printf(&names, " (seed %llu)", (unsigned long long)c->runs[i].seed);
  }
  ch_status status = CH_OK;
  if (missing)
    status =
        ch_fail(error, CH_ERROR_IO,
                "%s lacks %d of %d runs: %.600s; rerun with {part} I/N for each missing share, or "
                "without {collect} to train them all here",
                c->setup->settings.report.out, missing, comparison->planned, names.data ? names.data : "");
  ch_text_free(&names);
  return status;
}

/* Finishes the runs from number `first` on. Runs that an earlier call trained are read; missing runs are trained or,
 * with {collect}, an error. */
static ch_status make_runs(comparison_job *c, int first, ch_error *error) {
  const ch_comparison *comparison = c->setup->comparison;
  int count = 0, *list = calloc((size_t)comparison->planned + 1, sizeof *list);
  ch_status status = CH_OK;
  if (!list) CH_TRY_GOTO(ch_no_memory(error));
  for (int i = first; i < comparison->planned; i++) {
    planned_run *run = &c->runs[i];
    bool found;
    if (run->elsewhere || c->untuned[run->model]) continue;
    CH_TRY_GOTO(ch_compare_read_run(c->setup, run->model, run->seed, &run->result, &found, error));
    if (found)
      CH_TRY_GOTO(run_finished(c, run, true, error));
    else
      list[count++] = i;
  }
  if (c->setup->settings.schedule.collect)
    CH_TRY_GOTO(check_complete(c, error));
  else
    CH_TRY_GOTO(hand_out(c, list, count, false, on_made, error));
done:
  free(list);
  return status;
}

/* --- learning rates ---------------------------------------------------------------------------------------------- */

static ch_status on_tuned(void *context, int index, const ch_outcome *outcome, ch_error *error) {
  comparison_job *c = context;
  (void)error;
  int model = c->listed[index];
  c->setup->began |= outcome->began;
  if (outcome->status == CH_OK) return CH_OK;
  const ch_assignment piece = {.model = model, .seed = c->setup->settings.training.seed};
  c->untuned[model] = true;
  note_failure(c, model, &piece, outcome);
  return CH_OK;
}

/* Returns true if other parts train all runs of a model. Such a model is not tuned here. */
static bool is_elsewhere(const comparison_job *c, int model) {
  for (int i = 0; i < c->setup->comparison->planned; i++)
    if (c->runs[i].model == model && !c->runs[i].elsewhere) return false;
  return true;
}

/* Tunes the learning rates of this part's models. Rates that other groups found are read from the tuning runs. */
static ch_status tune_models(comparison_job *c, ch_error *error) {
  ch_compare_plan *plan = &c->setup->plan;
  int list[CH_COMPARE_MOST] = {0}, count = 0;
  for (int m = 0; m < plan->count; m++)
    if (!is_elsewhere(c, m)) list[count++] = m;
  if (!c->setup->settings.schedule.collect) CH_TRY(hand_out(c, list, count, true, on_tuned, error));
  for (int i = 0; i < count; i++) {
    bool known = true;
    if (c->untuned[list[i]] || plan->models[list[i]].tune) continue;
    CH_TRY(ch_compare_read_tune(c->setup, list[i], &known, error));
    c->untuned[list[i]] = !known;
  }
  return CH_OK;
}

/* --- seeds until the risk is small ------------------------------------------------------------------------------ */

/* A round that trains one more seed of the models for which a second of training lowers the risk most. */
typedef struct seed_round {
  bool needs[CH_COMPARE_MOST]; /* [plan.count] true if the model gets another seed */
  int count;                   /* number of models that get another seed */
  double spent, costs; /* training time of all earlier runs, and predicted time of this round, in seconds */
  double risk;         /* risk before the round */
} seed_round;

static int group_of(const ch_summary *summary, const char *name) {
  for (int i = 0; i < summary->count; i++)
    if (strcmp(summary->groups[i].name, name) == 0) return i;
  return -1;
}

/* Plans a round from the runs of the first `seeds` seeds only, so that a continued comparison plans the same rounds. */
static ch_status plan_round(const ch_compare_setup *setup, int seeds, seed_round *next, ch_error *error) {
  ch_summary summary;
  bool needs[CH_COMPARE_MOST];
  *next = (seed_round){.count = 0};
  ch_status status = ch_summarise_first(setup->comparison, seeds, &summary, error);
  if (status == CH_OK) {
    next->count = ch_decision_next_seeds(&summary, needs);
    next->risk = ch_decision_risk(&summary);
  }
  for (int i = 0; status == CH_OK && i < setup->plan.count; i++) {
    int group = group_of(&summary, setup->plan.models[i].name);
    if (group < 0) continue;
    double seconds = ch_group_seconds(&summary.groups[group]);
    next->spent += seconds * summary.groups[group].count;
    next->needs[i] = next->count > 0 && needs[group];
    if (next->needs[i]) next->costs += seconds;
  }
  ch_arena_free(&summary.arena);
  return status;
}

/* Adds one seed after another until the risk is small enough, no further seed helps, the budget is too small for the
 * next round, a run failed, or the maximum number of seeds is reached. */
static ch_status decide(comparison_job *c, ch_error *error) {
  const ch_compare_settings *s = &c->setup->settings;
  for (int seed = (int)s->training.seeds; seed < CH_COMPARE_MOST_SEEDS && c->failures.count == 0; seed++) {
    seed_round next;
    int before = c->setup->comparison->planned;
    CH_TRY(plan_round(c->setup, seed, &next, error));
    if (next.count < 2 || next.risk <= s->schedule.risk || next.spent + next.costs > s->schedule.budget)
      break;
    /* Adds one run of each model in the round. */
    ch_compare_setup *setup = c->setup;
    for (int i = 0; i < setup->plan.count; i++)
      if (next.needs[i])
        c->runs[setup->comparison->planned++] =
            (planned_run){.model = i, .seed = s->training.seed + (uint64_t)seed};
    CH_TRY(make_runs(c, before, error));
  }
  return CH_OK;
}

/* --- the whole comparison ---------------------------------------------------------------------------------------- */

static ch_status comparison_interrupted(const ch_compare_setup *setup, ch_error *error) {
  if (setup->comparison->planned == 0)
    return ch_fail(error, CH_ERROR_INTERRUPTED,
                   "interrupted before the first model; the same command starts again in %s",
                   setup->settings.report.out);
  return ch_fail(
      error, CH_ERROR_INTERRUPTED,
      "interrupted with %d of %d models finished; all work is saved in %s, and the same command continues it",
      setup->comparison->count, setup->comparison->planned, setup->settings.report.out);
}

/* Allocates the maximum number of runs, and plans the runs of the requested seeds. */
static ch_status plan_runs(comparison_job *c, ch_error *error) {
  ch_compare_setup *setup = c->setup;
  const ch_compare_settings *s = &setup->settings;
  ch_arena *arena = &setup->comparison->arena;
  int models = setup->plan.count, planned = setup->comparison->planned;
  size_t most =
      (size_t)models * (size_t)(s->schedule.until_decided ? CH_COMPARE_MOST_SEEDS : s->training.seeds);
  int *share_of = ch_arena_alloc(arena, most * sizeof *share_of);
  c->runs = ch_arena_alloc(arena, most * sizeof *c->runs);
  c->untuned = ch_arena_alloc(arena, (size_t)models * sizeof *c->untuned);
  if (!share_of || !c->runs || !c->untuned) return ch_no_memory(error);
  if (in_shares(setup)) CH_TRY(ch_compare_divide(setup, share_of, error));
  for (int i = 0; i < planned; i++)
    c->runs[i] = (planned_run){.model = i % models,
                               .seed = s->training.seed + (uint64_t)(i / models),
                               .elsewhere = in_shares(setup) && share_of[i] != s->schedule.part - 1};
  return CH_OK;
}

/* Does the work of rank 0. */
static ch_status compare_all(comparison_job *c, ch_error *error) {
  ch_compare_setup *setup = c->setup;
  ch_comparison *comparison = setup->comparison;
  bool until_decided = setup->settings.schedule.until_decided;
  CH_TRY(plan_runs(c, error));
  comparison->open = until_decided;
  if (setup->settings.rates.tune) CH_TRY(tune_models(c, error));
  /* Runs are trained seed by seed, so that all models can be compared after the first seed. */
  CH_TRY(make_runs(c, 0, error));
  if (until_decided) CH_TRY(decide(c, error));
  if (comparison->open) {
    comparison->open = false;
    if (setup->began) CH_TRY(write_results(c, error));
  }
  return CH_OK;
}

static ch_status time_in_turns(comparison_job *c, ch_error *error) {
  ch_compare_setup *setup = c->setup;
  bool changed;
  if (in_shares(setup)) return CH_OK;
  CH_TRY(ch_compare_time_in_rounds(setup, &changed, error));
  return changed ? write_results(c, error) : CH_OK;
}

static ch_status ask_tasks(comparison_job *c, ch_error *error) {
  bool asked;
  if (in_shares(c->setup)) return CH_OK;
  ch_status status = ch_compare_ask_tasks(c->setup, c->outside->ask, &asked, error);
  return status == CH_OK && asked ? write_results(c, error) : status;
}

/* Runs the comparison on rank 0. Speeds are measured after all other ranks have finished training. */
static ch_status lead(ch_compare_setup *setup, const ch_compare_hooks *outside, ch_error *error) {
  comparison_job c = {.setup = setup, .outside = outside};
  ch_status status = ch_compare_check_tasks(setup, outside->check, error);
  if (status == CH_OK) status = compare_all(&c, error);
  ch_scheduler_dismiss(&setup->scheduler);
  if (status == CH_OK) status = time_in_turns(&c, error);
  if (status == CH_OK) status = ask_tasks(&c, error);
  /* The settings of a continued comparison are written only if no run failed, or once a step was trained. */
  if (status == CH_OK) status = ch_scheduler_report_failures(&c.failures, error);
  if (status == CH_OK) status = ch_compare_setup_keep(setup, error);
  return status == CH_ERROR_INTERRUPTED ? comparison_interrupted(setup, error) : status;
}

ch_status ch_compare(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                     ch_comparison *comparison, ch_error *error) {
  ch_compare_setup setup;
  *comparison = (ch_comparison){0};
  ch_status status = ch_compare_prepare(settings, CH_EXPERIMENT_COMPARISON, false, comparison, &setup, error);
  if (status == CH_OK) {
    maker follower = {.setup = &setup};
    if (ch_scheduler_leads(&setup.scheduler))
      status = lead(&setup, outside, error);
    else
      ch_scheduler_follow(&setup.scheduler, make_piece, &follower);
    status = ch_scheduler_conclude(&setup.scheduler, status, error);
  } else if (status == CH_ERROR_INTERRUPTED) {
    status = comparison_interrupted(&setup, error);
  }
  ch_compare_setup_close(&setup, status);
  return status;
}
