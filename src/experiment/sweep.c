/* Runs a sweep from its settings to its results: worker threads or groups of ranks train the runs of a queue.
 * findings/sweep_judge.c draws the conclusions. */
#include "experiment/trial/prepare.h"
#include "experiment/sweep.h"

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "base/median.h"
#include "base/progress.h"
#include "experiment/trial/model_record.h"
#include "experiment/trial/settings.h"
#include "experiment/trial/shares.h"
#include "tensor/kernels.h"
#include "text/hash.h"
#include "experiment/trial/train_run.h"
#include "train/schedule.h"
#include "train/worker.h"

enum { MOST_JOBS = 64, LEAST_EVALUATED = 16384, BUDGET_TO_EVALUATED = 100, MOST_RESULT_BYTES = 1 << 26 };
static const double usual_extrapolation = 10; /* default ratio of a law's budget to the trained tokens */
static const double usable_memory = 0.7;      /* share of the machine's memory that all runs may use */

/* --- settings ---------------------------------------------------------------------------------------------------- */

/* Returns the settings of the sweep's runs in the form of a comparison's, without the learning rate. */
static ch_compare_settings runs_of(const ch_sweep_settings *settings) {
  ch_compare_settings runs = ch_compare_usual;
  runs.lineup = settings->lineup;
  runs.text = settings->text;
  runs.training = settings->training;
  runs.workers = settings->workers;
  runs.report = settings->report;
  return runs;
}

ch_status ch_sweep_settings_check(const ch_sweep_settings *settings, ch_error *error) {
  ch_rate_grid grid;
  if (!settings->lr) return ch_fail(error, CH_ERROR_ARGUMENT, "{lr} is missing: the rates to try");
  CH_TRY(ch_rate_grid_read(settings->lr, &grid, error));
  if (settings->training.seeds > CH_SWEEP_MOST_SEEDS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{seeds} is %lld; a sweep has at most %d",
                   (long long)settings->training.seeds, CH_SWEEP_MOST_SEEDS);
  if (settings->jobs < 0 || settings->budget < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{jobs} and {budget} cannot be negative");
  if (settings->jobs > 0 && settings->workers.ranks)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{jobs} is for one process; over several ranks each group of {ranks_per_run} trains one "
                   "run at a time");
  const ch_compare_settings runs = runs_of(settings);
  return ch_compare_settings_complete(&runs, CH_EXPERIMENT_SWEEP, NULL, error);
}

/* --- the queue --------------------------------------------------------------------------------------------------- */

/* A run of the grid. */
typedef struct planned_run {
  const ch_planned_model *model;
  ch_sweep_result swept; /* result of the run; if not `done`, only its name, rate, seed and shape are set */
  bool done;
} planned_run;

typedef struct pool {
  const ch_sweep_settings *settings;
  ch_sweep_written written;
  ch_rate_grid grid;
  ch_sweep *sweep;
  ch_compare_setup setup;
  planned_run *runs; /* [sweep->planned] */
  /* guards `next`, `status`, `error`, `failures`, the sweep, its arena and the callbacks */
  pthread_mutex_t lock;
  int next;         /* index of the next run in the queue */
  ch_status status; /* status of the error or interruption that ended the sweep; not used over ranks */
  ch_error error;
  int *listed;                    /* over ranks: [pieces] index of each piece's run */
  ch_scheduler_failures failures; /* failed runs, which do not end the sweep */
} pool;

/* Returns "mha/lr-0.003", or "mha/lr-0.003-seed-2" for further seeds. */
static const char *directory_of(const pool *p, const ch_planned_model *model, double rate, uint64_t seed) {
  ch_arena *arena = &p->sweep->about.arena;
  if (seed == p->settings->training.seed) return ch_arena_printf(arena, "%s/lr-%.9g", model->directory, rate);
  return ch_arena_printf(arena, "%s/lr-%.9g-seed-%llu", model->directory, rate, (unsigned long long)seed);
}

static ch_status plan_run(pool *p, const ch_planned_model *model, double rate, uint64_t seed,
                          planned_run *run, ch_error *error) {
  ch_model_result shape;
  CH_TRY(ch_model_result_fill_shape(&p->setup, model, &shape, error));
  run->model = model;
  run->swept = (ch_sweep_result){.name = shape.name,
                                 .directory = directory_of(p, model, rate, seed),
                                 .mechanism = shape.mechanism,
                                 .lr = rate,
                                 .seed = (int64_t)seed,
                                 .parameters = shape.parameters,
                                 .cache_bytes_per_token = shape.cache_bytes_per_token,
                                 .threads = p->sweep->threads,
                                 .validation_loss = NAN,
                                 .training_loss = NAN,
                                 .train_tokens_per_second = NAN};
  return run->swept.directory ? CH_OK : ch_no_memory(error);
}

/* Plans all runs, ordered by mechanism, then rate, then seed. */
static ch_status plan_runs(pool *p, ch_error *error) {
  const ch_compare_training *o = &p->settings->training;
  ch_sweep *sweep = p->sweep;
  int models = p->setup.plan.count, at = 0;
  sweep->mechanisms = models;
  sweep->planned = models * p->grid.count * (int)o->seeds;
  p->runs = calloc((size_t)sweep->planned, sizeof *p->runs);
  sweep->runs = ch_arena_alloc(&sweep->about.arena, (size_t)sweep->planned * sizeof *sweep->runs);
  sweep->choices = ch_arena_alloc(&sweep->about.arena, (size_t)models * sizeof *sweep->choices);
  if (!p->runs || !sweep->runs || !sweep->choices) return ch_no_memory(error);
  for (int m = 0; m < models; m++) {
    sweep->choices[m].name = ch_arena_strdup(&sweep->about.arena, p->setup.plan.models[m].name);
    if (!sweep->choices[m].name) return ch_no_memory(error);
    for (int r = 0; r < p->grid.count; r++)
      for (int64_t s = 0; s < o->seeds; s++)
        CH_TRY(plan_run(p, &p->setup.plan.models[m], p->grid.rates[r], o->seed + (uint64_t)s, &p->runs[at++],
                        error));
  }
  return CH_OK;
}

/* Chooses the number of runs at a time: the requested jobs or, by default, the threads, but no more than fit into
 * memory. The limit is the machine's total memory, not its free memory, so that a continued sweep divides its threads
 * as before. Over ranks each group trains one run at a time. */
static ch_status choose_jobs(pool *p, ch_error *error) {
  ch_trainer *trainer = NULL;
  double most = 1, available = usable_memory * (double)p->sweep->about.machine.memory_bytes;
  for (int m = 0; m < p->setup.plan.count; m++) {
    CH_TRY(ch_trainer_create(&p->setup.plan.models[m].config, &p->setup.training, &p->setup.data.source,
                             &trainer, error));
    most = fmax(most, (double)ch_trainer_bytes(trainer));
    ch_trainer_free(trainer);
  }
  int64_t threads = ch_team_of(0).threads, jobs = p->settings->jobs ? p->settings->jobs : threads;
  if (!ch_scheduler_is_alone(&p->setup.scheduler)) {
    p->sweep->jobs = p->setup.scheduler.groups;
    p->sweep->threads = threads;
    return CH_OK;
  }
  int64_t fitting = available > 0 ? (int64_t)fmin(available / most, MOST_JOBS) : MOST_JOBS;
  if (jobs > fitting) jobs = fitting > 0 ? fitting : 1;
  if (jobs > MOST_JOBS) jobs = MOST_JOBS;
  p->sweep->jobs = jobs;
  p->sweep->threads = threads / jobs > 0 ? threads / jobs : 1;
  return CH_OK;
}

/* --- one run ----------------------------------------------------------------------------------------------------- */

/* The private state of a worker. */
typedef struct worker {
  pool *pool;
  ch_data data;
  ch_trainer *trainer;
  planned_run *run;
  ch_stability_watch watch;
  ch_step_times times;
  /* `hopeless`: the run cannot recover and is ended early; `began`: its training has started */
  bool hopeless, began;
  ch_status failed; /* status of the callbacks between two steps */
  ch_error error;
} worker;

/* Sends an event on rank 0. While worker threads run, the caller holds the lock. */
static void send_sweep_event(pool *p, ch_sweep_event event) {
  const ch_sweep_settings *s = p->settings;
  if (s->event && ch_ranks_leads(s->workers.ranks) && !s->event(&event, s->user)) p->setup.stopped = true;
}

static void on_started(void *context, int64_t step, const ch_trained_on *on) {
  worker *w = context;
  w->began = true;
  pthread_mutex_lock(&w->pool->lock);
  w->pool->setup.began = true;
  if (!ch_trained_on_copy(on, &w->pool->sweep->about.arena, &w->run->swept.trained_on))
    w->failed = ch_no_memory(&w->error);
  pthread_mutex_unlock(&w->pool->lock);
  ch_progress_record record;
  ch_trainer_progress(w->trainer, &record);
  for (int64_t i = 0; i < step; i++) /* replays the losses of a resumed run */
    w->hopeless = ch_stability_loss(&w->watch, record.losses[i]) || w->hopeless;
}

static void on_step(void *context, const ch_step_report *report) {
  worker *w = context;
  pool *p = w->pool;
  if (ch_stability_loss(&w->watch, report->loss)) w->hopeless = true;
  if (w->times.taken < w->times.room) w->times.seconds[w->times.taken++] = report->seconds;
  if (w->failed == CH_OK && ch_scheduler_leads(&p->setup.scheduler))
    w->failed = ch_scheduler_settle(&p->setup.scheduler, &w->error);
  ch_train_step step;
  ch_train_step_of(report, p->setup.training.steps, &step);
  pthread_mutex_lock(&p->lock);
  send_sweep_event(p, (ch_sweep_event){.kind = CH_SWEEP_EVENT_STEP, .as.step = {&w->run->swept, &step}});
  pthread_mutex_unlock(&p->lock);
}

static bool on_interrupted(void *context) {
  worker *w = context;
  /* ch_scheduler_stops must be called in any case, because it also serves other ranks. */
  bool stops = ch_scheduler_stops(&w->pool->setup.scheduler);
  return stops || w->hopeless || w->failed != CH_OK;
}

/* Records the trainer's results. The caller holds the lock. Curves go into the sweep's arena. */
static ch_status note_down(worker *w, bool finite, ch_error *error) {
  ch_sweep_result *swept = &w->run->swept;
  ch_model_result curves = {0};
  ch_progress_record record;
  ch_trainer_progress(w->trainer, &record);
  double median = ch_median(w->times.seconds, w->times.taken);
  swept->stability = ch_stability_end(&w->watch, finite);
  swept->stopped = record.step < record.steps;
  swept->tokens_trained = record.tokens;
  if (median > 0)
    swept->train_tokens_per_second = (double)ch_train_step_tokens(&w->pool->setup.training) / median;
  else if (record.seconds > 0) /* an earlier process did all steps, so only the mean speed is known */
    swept->train_tokens_per_second = (double)record.tokens / record.seconds;
  if (record.validation_points) swept->validation_loss = record.validation[record.validation_points - 1].loss;
  CH_TRY(ch_model_result_fill_curves(&w->pool->setup, &record, &curves, error));
  swept->curve = curves.curve;
  swept->curve_points = curves.curve_points;
  swept->validation_curve = curves.validation_curve;
  swept->validation_points = curves.validation_points;
  if (swept->curve_points) swept->training_loss = swept->curve[swept->curve_points - 1].loss;
  return CH_OK;
}

static ch_status train(worker *w, const char *directory, ch_error *error) {
  pool *p = w->pool;
  ch_train_options training = p->setup.training;
  const ch_compare_settings *s = &p->setup.settings;
  char *device = ch_compare_device_of(&p->setup);
  const ch_worker trains = {.python = s->workers.python,
                            .device = device,
                            .text = s->report.out,
                            .micro_batch = s->training.micro_batch,
                            .shard = s->workers.shard};
  ch_train_events events = {.worker = s->workers.engine == CH_ENGINE_PYTORCH ? &trains : NULL,
                            .context = w,
                            .started = on_started,
                            .step = on_step,
                            .interrupted = on_interrupted};
  training.lr = w->run->swept.lr;
  training.seed = (uint64_t)w->run->swept.seed;
  w->hopeless = w->began = false;
  w->failed = CH_OK;
  w->times.taken = 0;
  ch_data_reseed(&w->data, training.seed);
  ch_stability_begin(&w->watch, training.steps);
  const ch_trainer_start start = {
      .ranks = p->setup.scheduler.own, .stop = events.interrupted, .stop_context = events.context};
  ch_status status =
      ch_trainer_create_over(&start, &w->run->model->config, &training, &w->data.source, &w->trainer, error);
  bool made = status == CH_OK;
  if (made) status = ch_train_run(w->trainer, directory, true, &events, error);
  free(device);
  if (!made) return status;
  bool finite = status != CH_ERROR_NUMERIC;
  if (status == CH_ERROR_NUMERIC || (status == CH_ERROR_INTERRUPTED && w->hopeless)) status = CH_OK;
  if (status == CH_OK) {
    pthread_mutex_lock(&p->lock);
    status = note_down(w, finite, error);
    pthread_mutex_unlock(&p->lock);
  }
  ch_trainer_free(w->trainer);
  w->trainer = NULL;
  if (status == CH_OK && finite && !w->run->swept.stopped && ch_scheduler_writes(&p->setup.scheduler))
    status = ch_data_give_tokenizer(&w->data, directory, error);
  return status;
}

static ch_status read_result(pool *p, const char *path, ch_sweep_result *swept, ch_error *error) {
  json_t *object = NULL;
  CH_TRY(ch_json_read(path, MOST_RESULT_BYTES, &object, error));
  ch_status status = ch_sweep_result_from_json(object, path, &p->sweep->about.arena, swept, error);
  json_decref(object);
  return status;
}

/* Judges the finished runs, in the order of the plan, and writes results.json. */
static ch_status write_results(pool *p, ch_error *error) {
  ch_sweep *sweep = p->sweep;
  char *path = ch_path_join(p->settings->report.out, CH_COMPARE_RESULTS);
  if (!path) return ch_no_memory(error);
  sweep->count = 0;
  for (int i = 0; i < sweep->planned; i++)
    if (p->runs[i].done) sweep->runs[sweep->count++] = p->runs[i].swept;
  ch_status status = ch_sweep_judge(sweep, error);
  if (status == CH_OK) status = ch_write_json(path, ch_sweep_to_json(sweep), CH_DIGITS_SHOWN, error);
  free(path);
  if (status == CH_OK && p->written) status = p->written(p->settings, sweep, error);
  return status;
}

/* Records a finished run. While worker threads run, the caller holds the lock. */
static ch_status finished(pool *p, planned_run *run, bool earlier, ch_error *error) {
  run->done = true;
  run->swept.verdict = run->swept.stability.verdict; /* ch_sweep_judge may change it later */
  send_sweep_event(p, (ch_sweep_event){.kind = CH_SWEEP_EVENT_RUN, .as.run = {&run->swept, earlier}});
  return earlier ? CH_OK : write_results(p, error);
}

static ch_status find_run(const pool *p, const planned_run *run, char **directory, char **result,
                          ch_error *error) {
  *directory = ch_path_join(p->settings->report.out, run->swept.directory);
  *result = *directory ? ch_path_join(*directory, CH_COMPARE_RESULT) : NULL;
  return *result ? CH_OK : ch_no_memory(error);
}

/* Trains a run with all ranks of this group. One of them writes the result. If the run fails before its first step, its
   files are removed. */
static ch_status make_run(worker *w, planned_run *run, ch_error *error) {
  pool *p = w->pool;
  ch_preparation attempt = {0};
  char *directory = NULL, *result = NULL;
  w->run = run;
  ch_status status = find_run(p, run, &directory, &result, error);
  CH_TRY_GOTO(ch_agree(p->setup.scheduler.own, status, error));
  pthread_mutex_lock(&p->lock);
  send_sweep_event(p, (ch_sweep_event){.kind = CH_SWEEP_EVENT_BEGIN, .as.begin = {&run->swept}});
  pthread_mutex_unlock(&p->lock);
  if (ch_scheduler_writes(&p->setup.scheduler)) ch_preparation_begin(&attempt, directory);
  status = train(w, directory, error);
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED && !w->began) ch_preparation_undo(&attempt);
  ch_preparation_end(&attempt);
  if (w->failed != CH_OK) status = ch_fail_as(error, w->failed, &w->error);
  if (status == CH_OK && ch_scheduler_writes(&p->setup.scheduler))
    status = ch_write_json(result, ch_sweep_result_to_json(&run->swept, false), CH_DIGITS_EXACT, error);
  status = ch_agree(p->setup.scheduler.own, status, error);
done:
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED) ch_fail_in(error, run->swept.directory);
  free(directory);
  free(result);
  return status;
}

/* Reads the result of a run if its file exists. */
static ch_status read_run(pool *p, planned_run *run, bool *found, ch_error *error) {
  char *directory = NULL, *result = NULL;
  ch_status status = find_run(p, run, &directory, &result, error);
  *found = status == CH_OK && ch_is_file(result);
  if (*found) {
    pthread_mutex_lock(&p->lock);
    status = read_result(p, result, &run->swept, error);
    pthread_mutex_unlock(&p->lock);
  }
  free(directory);
  free(result);
  return status == CH_OK ? status : ch_fail_in(error, run->swept.directory);
}

static void note_failure(pool *p, const planned_run *run, const ch_outcome *outcome) {
  ch_scheduler_note_failure(&p->failures, (int)(run - p->runs), outcome);
  send_sweep_event(
      p, (ch_sweep_event){.kind = CH_SWEEP_EVENT_FAILED,
                          .as.failed = {run->swept.name, (uint64_t)run->swept.seed, &outcome->error}});
}

/* Reads or makes a run. A run that fails is noted, and the worker continues with the next one, unless that would fail too. */
static ch_status take_run(worker *w, planned_run *run, ch_error *error) {
  pool *p = w->pool;
  bool earlier;
  ch_outcome outcome = {.status = CH_OK};
  CH_TRY(read_run(p, run, &earlier, error));
  if (!earlier) outcome.status = make_run(w, run, &outcome.error);
  outcome.began = w->began;
  if (outcome.status == CH_ERROR_INTERRUPTED || ch_scheduler_is_hopeless(&outcome))
    return ch_fail_as(error, outcome.status, &outcome.error);
  ch_status status = CH_OK;
  pthread_mutex_lock(&p->lock);
  if (outcome.status != CH_OK)
    note_failure(p, run, &outcome);
  else
    status = finished(p, run, earlier, error);
  pthread_mutex_unlock(&p->lock);
  return status;
}

/* --- workers ----------------------------------------------------------------------------------------------------- */

static planned_run *next_run(pool *p) {
  pthread_mutex_lock(&p->lock);
  bool more = p->status == CH_OK && p->next < p->sweep->planned;
  planned_run *run = more ? &p->runs[p->next++] : NULL;
  pthread_mutex_unlock(&p->lock);
  return run;
}

static ch_status open_own_data(worker *w, ch_error *error) {
  const ch_compare_settings *o = &w->pool->setup.settings;
  ch_data_options options = {.tokenizer = o->lineup.tokenizer,
                             .directory = o->report.out,
                             .fixed = true,
                             .sequence = o->lineup.sequence,
                             .seed = o->training.seed};
  CH_TRY(ch_data_open(&options, &w->data, error));
  w->times.room = w->pool->setup.training.steps;
  w->times.seconds = calloc((size_t)w->times.room, sizeof *w->times.seconds);
  return w->times.seconds ? CH_OK : ch_no_memory(error);
}

static void *work(void *context) {
  worker w = {.pool = context};
  pool *p = context;
  ch_error error = {0};
  omp_set_num_threads((int)p->sweep->threads); /* applies to the parallel regions of this thread */
  ch_status status = open_own_data(&w, &error);
  planned_run *run;
  while (status == CH_OK && (run = next_run(p)) != NULL)
    status = ch_scheduler_stops(&p->setup.scheduler) ? ch_fail(&error, CH_ERROR_INTERRUPTED, "interrupted")
                                                     : take_run(&w, run, &error);
  if (status != CH_OK) {
    pthread_mutex_lock(&p->lock);
    if (p->status == CH_OK || (p->status == CH_ERROR_INTERRUPTED && status != CH_ERROR_INTERRUPTED)) {
      p->status = status;
      p->error = error;
    }
    pthread_mutex_unlock(&p->lock);
  }
  ch_data_close(&w.data);
  free(w.times.seconds);
  return NULL;
}

/* Starts the workers and waits for them. The workers block all signals, so that the calling thread handles them. */
static ch_status work_all(pool *p, ch_error *error) {
  pthread_t threads[MOST_JOBS];
  sigset_t all, before;
  int64_t started = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (started < p->sweep->jobs && started < p->sweep->planned &&
         pthread_create(&threads[started], NULL, work, p) == 0)
    started++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  for (int64_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
  if (started == 0) return ch_no_memory(error);
  if (p->status != CH_OK && error) *error = p->error;
  return p->status;
}

/* --- groups of ranks --------------------------------------------------------------------------------------------- */

static planned_run *run_of(pool *p, const ch_assignment *piece) {
  for (int i = 0; i < p->sweep->planned; i++) {
    planned_run *run = &p->runs[i];
    if (run->model == &p->setup.plan.models[piece->model] && run->swept.lr == piece->lr &&
        (uint64_t)run->swept.seed == piece->seed)
      return run;
  }
  return NULL;
}

static ch_status make_piece(void *context, const ch_assignment *piece, bool *began, ch_error *error) {
  worker *w = context;
  ch_status status = make_run(w, run_of(w->pool, piece), error); /* all ranks have the same plan */
  *began = w->began;
  return status;
}

static ch_status on_made(void *context, int index, const ch_outcome *outcome, ch_error *error) {
  const worker *w = context;
  pool *p = w->pool;
  planned_run *run = &p->runs[p->listed[index]];
  p->setup.began |= outcome->began;
  if (outcome->status != CH_OK) {
    note_failure(p, run, outcome);
    return CH_OK;
  }
  bool found;
  double begin = ch_clock();
  do CH_TRY(read_run(p, run, &found, error));
  while (!found && ch_scheduler_has_patience(&p->setup.scheduler, begin));
  if (found) return finished(p, run, false, error);
  return ch_fail(error, CH_ERROR_IO,
                 "%s was trained, and its " CH_COMPARE_RESULT
                 " is not in %s; all ranks must see the same directory",
                 run->swept.directory, p->settings->report.out);
}

/* Reads earlier runs and distributes the others. Runs on rank 0. */
static ch_status hand_out(worker *w, ch_assignment *pieces, int *listed, ch_error *error) {
  pool *p = w->pool;
  int count = 0;
  for (int i = 0; i < p->sweep->planned; i++) {
    planned_run *run = &p->runs[i];
    bool earlier;
    CH_TRY(read_run(p, run, &earlier, error));
    if (earlier) CH_TRY(finished(p, run, true, error));
    if (earlier) continue;
    listed[count] = i;
    pieces[count++] = (ch_assignment){.model = (int32_t)(run->model - p->setup.plan.models),
                                      .seed = (uint64_t)run->swept.seed,
                                      .lr = run->swept.lr};
  }
  p->listed = listed;
  ch_scheduler_work work = {
      .pieces = pieces, .count = count, .make = make_piece, .made = on_made, .context = w};
  CH_TRY(ch_order_pieces(&p->setup, pieces, listed, count, error));
  return ch_scheduler_make(&p->setup.scheduler, &work, error);
}

static ch_status lead(worker *w, ch_error *error) {
  size_t room = (size_t)w->pool->sweep->planned + 1;
  ch_assignment *pieces = calloc(room, sizeof *pieces);
  int *listed = calloc(room, sizeof *listed);
  ch_status status = pieces && listed ? hand_out(w, pieces, listed, error) : ch_no_memory(error);
  ch_scheduler_dismiss(&w->pool->setup.scheduler);
  free(pieces);
  free(listed);
  return status;
}

static ch_status work_over_ranks(pool *p, ch_error *error) {
  worker w = {.pool = p};
  ch_scheduler *scheduler = &p->setup.scheduler;
  ch_status status = ch_agree(scheduler->all, open_own_data(&w, error), error);
  if (status == CH_OK && ch_scheduler_leads(scheduler))
    status = lead(&w, error);
  else if (status == CH_OK)
    ch_scheduler_follow(scheduler, make_piece, &w);
  ch_data_close(&w.data);
  free(w.times.seconds);
  return status;
}

/* --- the whole sweep --------------------------------------------------------------------------------------------- */

static void tell_outline(pool *p) {
  const ch_sweep *sweep = p->sweep;
  const ch_sweep_outline outline = {.data = &sweep->about.data,
                                    .runs = sweep->planned,
                                    .steps = p->setup.training.steps,
                                    .jobs = sweep->jobs,
                                    .threads = sweep->threads};
  send_sweep_event(p, (ch_sweep_event){.kind = CH_SWEEP_EVENT_OUTLINE, .as.outline = {&outline}});
}

static ch_status plan(pool *p, ch_error *error) {
  if (p->setup.data.source.validation_sequences == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the text is too short to hold out a part of it for validation; give a longer one");
  CH_TRY(choose_jobs(p, error));
  return plan_runs(p, error);
}

static ch_status sweep_interrupted(const pool *p, ch_error *error) {
  int done = 0;
  for (int i = 0; i < p->sweep->planned; i++) done += p->runs[i].done;
  return ch_fail(
      error, CH_ERROR_INTERRUPTED,
      "interrupted with %d of %d runs finished; all work is saved in %s, and the same command continues it",
      done, p->sweep->planned, p->settings->report.out);
}

static bool any_is_done(const pool *p) {
  for (int i = 0; i < p->sweep->planned; i++)
    if (p->runs[i].done) return true;
  return false;
}

static ch_status run_pool(pool *p, const ch_compare_settings *runs, ch_error *error) {
  ch_sweep *sweep = p->sweep;
  CH_TRY(ch_compare_prepare(runs, CH_EXPERIMENT_SWEEP, false, &sweep->about, &p->setup, error));
  ch_scheduler *scheduler = &p->setup.scheduler;
  int64_t tokens = p->setup.training.steps * ch_train_step_tokens(&p->setup.training);
  int64_t warmup = ch_schedule_warmup(&p->setup.training) * ch_train_step_tokens(&p->setup.training);
  sweep->budget =
      p->settings->budget > 0 ? (double)p->settings->budget : usual_extrapolation * (double)tokens;
  sweep->skip = warmup > tokens / 10 ? warmup : tokens / 10;
  /* Compares the rates and the budget between ranks; ch_compare_prepare has compared all other settings. */
  const ch_rate_grid *grid = &p->grid;
  const ch_rank_fact facts[] = {
      {"other options",
       ch_hash_bytes(grid->rates, (size_t)grid->count * sizeof *grid->rates, (uint64_t)p->settings->budget)}};
  CH_TRY(ch_ranks_compare(p->setup.scheduler.all, facts, 1, error));
  CH_TRY(ch_agree(scheduler->all, plan(p, error), error));
  tell_outline(p);
  ch_status status = ch_scheduler_is_alone(scheduler) ? work_all(p, error) : work_over_ranks(p, error);
  bool leads = ch_scheduler_leads(scheduler);
  if (status == CH_OK && leads && any_is_done(p)) status = write_results(p, error);
  if (status == CH_OK && leads) status = ch_scheduler_report_failures(&p->failures, error);
  if (status == CH_ERROR_INTERRUPTED) status = sweep_interrupted(p, error);
  return ch_scheduler_conclude(scheduler, status, error);
}

/* Forwards the events of a setup that a sweep also has. */
static bool pass_on(const ch_compare_event *event, void *context) {
  pool *p = context;
  pthread_mutex_lock(&p->lock);
  if (event->kind == CH_COMPARE_EVENT_PREPARATION)
    send_sweep_event(
        p, (ch_sweep_event){.kind = CH_SWEEP_EVENT_PREPARATION, .as.preparation = event->as.preparation});
  if (event->kind == CH_COMPARE_EVENT_PREPARED)
    send_sweep_event(
        p, (ch_sweep_event){.kind = CH_SWEEP_EVENT_PREPARED, .as.prepared = {event->as.prepared.data}});
  pthread_mutex_unlock(&p->lock);
  return !p->setup.stopped;
}

static bool is_stopped(void *context) {
  const pool *p = context;
  return p->settings->stop && p->settings->stop(p->settings->user);
}

ch_status ch_sweep_make(const ch_sweep_settings *settings, ch_sweep_written written, ch_sweep *sweep,
                        ch_error *error) {
  pool p = {.settings = settings, .written = written, .sweep = sweep};
  ch_compare_settings runs = runs_of(settings);
  *sweep = (ch_sweep){0};
  ch_status status = ch_sweep_settings_check(settings, error);
  if (status == CH_OK) status = ch_rate_grid_read(settings->lr, &p.grid, error);
  CH_TRY(ch_agree(settings->workers.ranks, status, error));
  runs.rates.lr = p.grid.rates[0];
  if (runs.training.eval_tokens == 0)
    runs.training.eval_tokens = runs.training.tokens / BUDGET_TO_EVALUATED > LEAST_EVALUATED
                                    ? runs.training.tokens / BUDGET_TO_EVALUATED
                                    : LEAST_EVALUATED;
  runs.event = pass_on;
  runs.stop = is_stopped;
  runs.user = &p;
  pthread_mutex_init(&p.lock, NULL);
  status = run_pool(&p, &runs, error);
  ch_compare_setup_close(&p.setup, status);
  pthread_mutex_destroy(&p.lock);
  free(p.runs);
  return status;
}
