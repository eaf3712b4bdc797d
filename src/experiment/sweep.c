/* A sweep from its options to its results: a queue of runs, and worker threads that take runs from it. */
#include "experiment/sweep.h"

#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "base/median.h"
#include "experiment/compared.h"
#include "tensor/kernels.h"
#include "train/schedule.h"

enum { MOST_JOBS = 64, LEAST_EVALUATED = 16384, BUDGET_TO_EVALUATED = 100, MOST_RESULT_BYTES = 1 << 26 };
static const double usual_extrapolation = 10; /* times the tokens trained on */
static const double usable_memory = 0.7;      /* of the machine's */

void ch_sweep_defaults(ch_sweep_settings *settings) {
  *settings = (ch_sweep_settings){.lr = "3e-4,1e-3,3e-3,1e-2,3e-2"};
  ch_compare_defaults(&settings->compare);
  settings->compare.schedule = CH_TRAIN_CONSTANT;
  settings->compare.evaluations = 30;
}

/* --- the grid ---------------------------------------------------------------------------------------------------- */

static ch_status add_rate(double rate, const char *text, ch_rate_grid *grid, ch_error *error) {
  if (!(rate >= 1e-12 && rate <= 10))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--lr has %g in \"%.80s\"; rates are from 1e-12 to 10", rate,
                   text);
  int at = 0;
  while (at < grid->count && grid->rates[at] < rate) at++;
  if (at < grid->count && grid->rates[at] == rate) return CH_OK;
  if (grid->count == CH_SWEEP_MOST_RATES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--lr has more than %d rates", CH_SWEEP_MOST_RATES);
  memmove(grid->rates + at + 1, grid->rates + at, (size_t)(grid->count - at) * sizeof *grid->rates);
  grid->rates[at] = rate;
  grid->count++;
  return CH_OK;
}

/* "1e-4..1e-2:5", with the rates between rounded to three digits. */
static ch_status add_range(double from, double to, int count, const char *text, ch_rate_grid *grid,
                           ch_error *error) {
  if (count < 2 || count > CH_SWEEP_MOST_RATES || !(from > 0 && to > from))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--lr: \"%.80s\" is no range; FROM..TO:N has FROM below TO and N from 2 to %d", text,
                   CH_SWEEP_MOST_RATES);
  for (int i = 0; i < count; i++) {
    char digits[32];
    double rate = from * pow(to / from, (double)i / (count - 1));
    snprintf(digits, sizeof digits, "%.3g", rate);
    rate = i == 0 ? from : i == count - 1 ? to : strtod(digits, NULL);
    CH_TRY(add_rate(rate, text, grid, error));
  }
  return CH_OK;
}

ch_status ch_rate_grid_read(const char *text, ch_rate_grid *grid, ch_error *error) {
  char copy[512], *state = NULL, extra;
  grid->count = 0;
  if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--lr is longer than %zu characters", sizeof copy - 1);
  for (char *part = strtok_r(copy, ",", &state); part; part = strtok_r(NULL, ",", &state)) {
    double from, to;
    int count;
    char *dots = strstr(part, "..");
    if (dots) *dots = ' ';
    if (dots && sscanf(part, "%lf .%lf:%d%c", &from, &to, &count, &extra) == 3) {
      CH_TRY(add_range(from, to, count, text, grid, error));
    } else if (!dots && ch_parse_number(part, &from)) {
      CH_TRY(add_rate(from, text, grid, error));
    } else {
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--lr: \"%.80s\" is no list of rates, as 1e-3,3e-3 or 1e-4..1e-2:5 is", text);
    }
  }
  if (grid->count == 0) return ch_fail(error, CH_ERROR_ARGUMENT, "--lr is empty");
  return CH_OK;
}

/* --- settings ---------------------------------------------------------------------------------------------------- */

ch_status ch_sweep_settings_check(const ch_sweep_settings *settings, ch_error *error) {
  ch_rate_grid grid;
  if (!settings->lr) return ch_fail(error, CH_ERROR_ARGUMENT, "--lr is missing: the rates to try");
  CH_TRY(ch_rate_grid_read(settings->lr, &grid, error));
  if (settings->compare.images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "a sweep trains on text, not on images");
  if (settings->compare.seeds > CH_SWEEP_MOST_SEEDS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--seeds is %lld; a sweep has at most %d",
                   (long long)settings->compare.seeds, CH_SWEEP_MOST_SEEDS);
  if (settings->jobs < 0 || settings->budget < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--jobs and --budget cannot be negative");
  return ch_compare_settings_complete(&settings->compare, CH_EXPERIMENT_SWEEP, NULL, error);
}

/* --- the queue --------------------------------------------------------------------------------------------------- */

/* A run of the grid; `swept` is filled when it is done. */
typedef struct planned_run {
  const ch_planned_model *model;
  ch_swept swept;
  bool done;
} planned_run;

typedef struct pool {
  const ch_sweep_settings *settings;
  ch_sweep_written written;
  ch_rate_grid grid;
  ch_sweep *sweep;
  ch_compare_setup setup;
  planned_run *runs;    /* [sweep->planned] */
  pthread_mutex_t lock; /* guards everything below, the sweep, its arena, and the callbacks */
  int next;
  ch_status status; /* the first failure ends the sweep */
  ch_error error;
} pool;

static bool interrupted(const pool *p) {
  const ch_compare_settings *s = &p->settings->compare;
  return s->stop && s->stop(s->user);
}

static ch_status no_memory(ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "no memory for the sweep");
}

/* "mha/lr-0.003", and for further seeds "mha/lr-0.003-seed-2". */
static const char *directory_of(const pool *p, const ch_planned_model *model, double rate, uint64_t seed) {
  ch_arena *arena = &p->sweep->about.arena;
  if (seed == p->settings->compare.seed) return ch_arena_printf(arena, "%s/lr-%.9g", model->directory, rate);
  return ch_arena_printf(arena, "%s/lr-%.9g-seed-%llu", model->directory, rate, (unsigned long long)seed);
}

static ch_status plan_run(pool *p, const ch_planned_model *model, double rate, uint64_t seed,
                          planned_run *run, ch_error *error) {
  ch_compared shape;
  CH_TRY(ch_compared_fill_shape(&p->setup, model, &shape, error));
  run->model = model;
  run->swept = (ch_swept){.name = shape.name,
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
  return run->swept.directory ? CH_OK : no_memory(error);
}

/* Mechanisms, rates, seeds: in this order in the results. */
static ch_status plan_runs(pool *p, ch_error *error) {
  const ch_compare_settings *o = &p->settings->compare;
  ch_sweep *sweep = p->sweep;
  int models = p->setup.plan.count, at = 0;
  sweep->mechanisms = models;
  sweep->planned = models * p->grid.count * (int)o->seeds;
  p->runs = calloc((size_t)sweep->planned, sizeof *p->runs);
  sweep->runs = ch_arena_alloc(&sweep->about.arena, (size_t)sweep->planned * sizeof *sweep->runs);
  sweep->choices = ch_arena_alloc(&sweep->about.arena, (size_t)models * sizeof *sweep->choices);
  if (!p->runs || !sweep->runs || !sweep->choices) return no_memory(error);
  for (int m = 0; m < models; m++) {
    sweep->choices[m].name = ch_arena_strdup(&sweep->about.arena, p->setup.plan.models[m].name);
    if (!sweep->choices[m].name) return no_memory(error);
    for (int r = 0; r < p->grid.count; r++)
      for (int64_t s = 0; s < o->seeds; s++)
        CH_TRY(plan_run(p, &p->setup.plan.models[m], p->grid.rates[r], o->seed + (uint64_t)s, &p->runs[at++],
                        error));
  }
  return CH_OK;
}

/* The number of runs at a time: the least of the threads, the jobs asked for, the runs, and what memory allows. The
   machine's memory counts, not what is free at the moment, so that the same command divides the threads in the same
   way when it continues. */
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
  int64_t fitting = available > 0 ? (int64_t)fmin(available / most, MOST_JOBS) : MOST_JOBS;
  if (jobs > fitting) jobs = fitting > 0 ? fitting : 1;
  if (jobs > MOST_JOBS) jobs = MOST_JOBS;
  p->sweep->jobs = jobs;
  p->sweep->threads = threads / jobs > 0 ? threads / jobs : 1;
  return CH_OK;
}

/* --- one run ----------------------------------------------------------------------------------------------------- */

/* What a worker has of its own. */
typedef struct worker {
  pool *pool;
  ch_data data;
  ch_trainer *trainer;
  planned_run *run;
  ch_stability_watch watch;
  ch_step_times times;
  bool hopeless;
} worker;

static void on_started(void *context, int64_t step) {
  worker *w = context;
  pthread_mutex_lock(&w->pool->lock);
  w->pool->setup.began = true;
  pthread_mutex_unlock(&w->pool->lock);
  ch_progress_record record;
  ch_trainer_progress(w->trainer, &record);
  for (int64_t i = 0; i < step; i++) /* of a resumed run: as it was before */
    w->hopeless = ch_stability_loss(&w->watch, record.losses[i]) || w->hopeless;
}

static void on_step(void *context, const ch_step_report *report) {
  worker *w = context;
  pool *p = w->pool;
  if (ch_stability_loss(&w->watch, report->loss)) w->hopeless = true;
  if (w->times.taken < w->times.room) w->times.seconds[w->times.taken++] = report->seconds;
  if (!p->settings->step) return;
  ch_train_step step;
  ch_train_step_of(report, p->setup.training.steps, ch_train_step_tokens(&p->setup.training), &step);
  pthread_mutex_lock(&p->lock);
  p->settings->step(&w->run->swept, &step, p->settings->compare.user);
  pthread_mutex_unlock(&p->lock);
}

static bool on_interrupted(void *context) {
  const worker *w = context;
  return w->hopeless || interrupted(w->pool);
}

/* Records what the trainer knows; called with the lock held. Curves go into the sweep's arena. */
static ch_status note_down(worker *w, bool finite, ch_error *error) {
  ch_swept *swept = &w->run->swept;
  ch_compared curves = {0};
  ch_progress_record record;
  ch_trainer_progress(w->trainer, &record);
  double median = ch_median(w->times.seconds, w->times.taken);
  swept->stability = ch_stability_end(&w->watch, finite);
  swept->stopped = record.step < record.steps;
  swept->tokens_trained = record.tokens;
  if (median > 0)
    swept->train_tokens_per_second = (double)ch_train_step_tokens(&w->pool->setup.training) / median;
  if (record.validation_points) swept->validation_loss = record.validation[record.validation_points - 1].loss;
  CH_TRY(ch_compared_fill_curves(&w->pool->setup, &record, &curves, error));
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
  ch_train_events events = {
      .context = w, .started = on_started, .step = on_step, .interrupted = on_interrupted};
  training.lr = w->run->swept.lr;
  training.seed = (uint64_t)w->run->swept.seed;
  w->hopeless = false;
  w->times.taken = 0;
  ch_data_reseed(&w->data, training.seed);
  ch_stability_begin(&w->watch, training.steps);
  CH_TRY(ch_trainer_create(&w->run->model->config, &training, &w->data.source, &w->trainer, error));
  ch_status status = ch_train_run(w->trainer, directory, true, &events, error);
  bool finite = status != CH_ERROR_NUMERIC;
  if (status == CH_ERROR_NUMERIC || (status == CH_ERROR_INTERRUPTED && w->hopeless)) status = CH_OK;
  if (status == CH_OK) {
    pthread_mutex_lock(&p->lock);
    status = note_down(w, finite, error);
    pthread_mutex_unlock(&p->lock);
  }
  ch_trainer_free(w->trainer);
  w->trainer = NULL;
  if (status == CH_OK && finite && !w->run->swept.stopped)
    status = ch_data_give_tokenizer(&w->data, directory, error);
  return status;
}

static ch_status read_result(pool *p, const char *path, ch_swept *swept, ch_error *error) {
  json_t *object = NULL;
  CH_TRY(ch_json_read(path, MOST_RESULT_BYTES, &object, error));
  ch_status status = ch_swept_from_json(object, path, &p->sweep->about.arena, swept, error);
  json_decref(object);
  return status;
}

/* Collects the finished runs in the order of the plan, and writes them. */
static ch_status write_results(pool *p, ch_error *error) {
  ch_sweep *sweep = p->sweep;
  char *path = ch_path_join(p->settings->compare.out, CH_COMPARE_RESULTS);
  if (!path) return no_memory(error);
  sweep->count = 0;
  for (int i = 0; i < sweep->planned; i++)
    if (p->runs[i].done) sweep->runs[sweep->count++] = p->runs[i].swept;
  ch_sweep_judge(sweep);
  ch_status status = ch_write_json(path, ch_sweep_to_json(sweep), CH_DIGITS_SHOWN, error);
  free(path);
  if (status == CH_OK && p->written) status = p->written(p->settings, sweep, error);
  return status;
}

/* Called with the lock held. */
static ch_status finished(pool *p, planned_run *run, bool earlier, ch_error *error) {
  run->done = true;
  run->swept.verdict = run->swept.stability.verdict; /* until all runs are judged */
  if (p->settings->run) p->settings->run(&run->swept, earlier, p->settings->compare.user);
  return earlier ? CH_OK : write_results(p, error);
}

static ch_status take_run(worker *w, planned_run *run, ch_error *error) {
  pool *p = w->pool;
  char *directory = ch_path_join(p->settings->compare.out, run->swept.directory);
  char *result = directory ? ch_path_join(directory, CH_COMPARE_RESULT) : NULL;
  ch_status status = result ? CH_OK : no_memory(error);
  bool earlier = status == CH_OK && ch_is_file(result);
  w->run = run;
  if (status == CH_OK && !earlier) {
    pthread_mutex_lock(&p->lock);
    if (p->settings->begin) p->settings->begin(&run->swept, p->settings->compare.user);
    pthread_mutex_unlock(&p->lock);
    status = train(w, directory, error);
    if (status == CH_OK)
      status = ch_write_json(result, ch_swept_to_json(&run->swept, false), CH_DIGITS_EXACT, error);
  }
  pthread_mutex_lock(&p->lock);
  if (status == CH_OK && earlier) status = read_result(p, result, &run->swept, error);
  if (status == CH_OK) status = finished(p, run, earlier, error);
  pthread_mutex_unlock(&p->lock);
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED) ch_fail_in(error, run->swept.directory);
  free(directory);
  free(result);
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
  ch_data_options options = {.tokenizer = o->tokenizer,
                             .directory = o->out,
                             .fixed = true,
                             .sequence = o->sequence,
                             .seed = o->seed};
  CH_TRY(ch_data_open(&options, &w->data, error));
  w->times.room = w->pool->setup.training.steps;
  w->times.seconds = calloc((size_t)w->times.room, sizeof *w->times.seconds);
  return w->times.seconds ? CH_OK : no_memory(error);
}

static void *work(void *context) {
  worker w = {.pool = context};
  pool *p = context;
  ch_error error = {0};
  omp_set_num_threads((int)p->sweep->threads); /* applies to the parallel regions of this thread */
  ch_status status = open_own_data(&w, &error);
  planned_run *run;
  while (status == CH_OK && (run = next_run(p)) != NULL)
    status =
        interrupted(p) ? ch_fail(&error, CH_ERROR_INTERRUPTED, "interrupted") : take_run(&w, run, &error);
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

/* Workers block signals, so that the thread that called handles them: only its handler's stack is known to be safe. */
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
  if (started == 0) return ch_fail(error, CH_ERROR_MEMORY, "no thread could be started for the sweep");
  if (p->status != CH_OK && error) *error = p->error;
  return p->status;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

static void tell_outline(const pool *p) {
  const ch_sweep *sweep = p->sweep;
  const ch_sweep_outline outline = {.data = &sweep->about.data,
                                    .runs = sweep->planned,
                                    .steps = p->setup.training.steps,
                                    .jobs = sweep->jobs,
                                    .threads = sweep->threads};
  if (p->settings->outline) p->settings->outline(&outline, p->settings->compare.user);
}

static ch_status run(pool *p, const ch_compare_settings *compare, ch_error *error) {
  ch_sweep *sweep = p->sweep;
  CH_TRY(ch_compare_setup_open(compare, CH_EXPERIMENT_SWEEP, &sweep->about, &p->setup, error));
  int64_t tokens = p->setup.training.steps * ch_train_step_tokens(&p->setup.training);
  int64_t warmup = ch_schedule_warmup(&p->setup.training) * ch_train_step_tokens(&p->setup.training);
  sweep->budget =
      p->settings->budget > 0 ? (double)p->settings->budget : usual_extrapolation * (double)tokens;
  sweep->skip = warmup > tokens / 10 ? warmup : tokens / 10;
  if (p->setup.data.source.validation_sequences == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the text is too short to keep a part of it for validation; give a longer one");
  CH_TRY(choose_jobs(p, error));
  CH_TRY(plan_runs(p, error));
  tell_outline(p);
  ch_status status = work_all(p, error);
  if (status == CH_OK) return write_results(p, error);
  int done = 0;
  for (int i = 0; i < sweep->planned; i++) done += p->runs[i].done;
  if (status != CH_ERROR_INTERRUPTED) return status;
  return ch_fail(
      error, CH_ERROR_INTERRUPTED,
      "interrupted with %d of %d runs finished; all work is saved in %s, and the same command continues it",
      done, sweep->planned, compare->out);
}

ch_status ch_sweep_make(const ch_sweep_settings *settings, ch_sweep_written written, ch_sweep *sweep,
                        ch_error *error) {
  pool p = {.settings = settings, .written = written, .sweep = sweep};
  ch_compare_settings compare = settings->compare;
  *sweep = (ch_sweep){0};
  CH_TRY(ch_sweep_settings_check(settings, error));
  CH_TRY(ch_rate_grid_read(settings->lr, &p.grid, error));
  compare.lr = p.grid.rates[0];
  if (compare.eval_tokens == 0)
    compare.eval_tokens = compare.tokens / BUDGET_TO_EVALUATED > LEAST_EVALUATED
                              ? compare.tokens / BUDGET_TO_EVALUATED
                              : LEAST_EVALUATED;
  pthread_mutex_init(&p.lock, NULL);
  ch_status status = run(&p, &compare, error);
  ch_compare_setup_close(&p.setup, status);
  pthread_mutex_destroy(&p.lock);
  free(p.runs);
  return status;
}
