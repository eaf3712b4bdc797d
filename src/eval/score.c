/* Scores windows: sorts them by length, cuts them into batches of one padded length, and runs each batch in one planned
 * pass. */
#include "eval/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "ranks/shared.h"
#include "text/hash.h"

enum { BATCH_ROWS = 2048, FINE = 16, COARSE = 128 };

struct ch_scorer {
  const ch_model *model;
  ch_engine engine;
  ch_runner *runner;         /* runner for `sequences` times `length` tokens, or NULL */
  int64_t sequences, length; /* shape of a batch */
  int32_t *tokens, *targets; /* [sequences, length] */
  bool cached;               /* true if windows run through a cache of `types` */
  ch_cache_types types;
  ch_cache *cache;      /* cache for the shape if `cached`; else NULL */
  ch_rank_group *ranks; /* ranks that share the batches, or NULL */
};

/* One call's work. */
typedef struct score_job {
  ch_scorer *scorer;
  const ch_score_window *windows;
  double *nll;
  ch_progress progress; /* progress callback, or NULL */
  void *user;
  int64_t done, total;   /* predictions done by this rank, and of all windows */
  ch_shared_work shared; /* division of batches over ranks */
  int32_t *owners;       /* [windows]: rank that runs each window */
} score_job;

ch_status ch_scorer_create(const ch_model *model, ch_scorer **result, ch_error *error) {
  *result = NULL;
  CH_TRY(ch_config_needs_text(&model->config, "scoring text", error));
  ch_scorer *scorer = calloc(1, sizeof *scorer);
  if (!scorer) return ch_no_memory(error);
  scorer->model = model;
  ch_status status = ch_engine_init(&scorer->engine, CH_F32, error);
  scorer->engine.compute = model->compute;
  if (status != CH_OK) {
    free(scorer);
    return status;
  }
  *result = scorer;
  return CH_OK;
}

void ch_scorer_free(ch_scorer *scorer) {
  if (!scorer) return;
  ch_runner_free(scorer->runner);
  ch_cache_free(scorer->cache);
  ch_engine_free(&scorer->engine);
  free(scorer->tokens);
  free(scorer->targets);
  free(scorer);
}

void ch_scorer_use_cache(ch_scorer *scorer, ch_cache_types types) {
  ch_runner_free(scorer->runner);
  scorer->runner = NULL;
  scorer->cached = true;
  scorer->types = types;
}

void ch_scorer_share(ch_scorer *scorer, ch_rank_group *ranks) {
  scorer->ranks = ranks;
}

uint64_t ch_windows_hash(const ch_score_window *windows, int64_t count) {
  uint64_t hash = (uint64_t)count;
  for (int64_t i = 0; i < count; i++) {
    size_t bytes = (size_t)windows[i].length * sizeof *windows[i].tokens;
    hash = ch_hash_mix(hash ^ ch_hash_bytes(windows[i].tokens, bytes, (uint64_t)windows[i].first), 1);
  }
  return hash;
}

/* --- shapes -------------------------------------------------------------------------------------------------- */

/* Returns the number of rows for a window of `length` tokens: its inputs, rounded up so that few shapes are planned. */
static int64_t padded_rows(int64_t length) {
  int64_t rows = length - 1, step = rows <= 2 * COARSE ? FINE : COARSE;
  return (rows + step - 1) / step * step;
}

static ch_status take_cache(ch_scorer *scorer, int64_t sequences, int64_t length, ch_error *error) {
  ch_cache_free(scorer->cache);
  scorer->cache = NULL;
  if (!scorer->cached) return CH_OK;
  return ch_engine_cache(&scorer->engine, &scorer->model->config, sequences, length, &scorer->types,
                         &scorer->cache, error);
}

static ch_status take_shape(ch_scorer *scorer, int64_t sequences, int64_t length, ch_error *error) {
  if (scorer->runner && scorer->sequences == sequences && scorer->length == length) return CH_OK;
  ch_runner_free(scorer->runner);
  scorer->runner = NULL;
  size_t bytes = (size_t)(sequences * length) * sizeof(int32_t);
  int32_t *tokens = realloc(scorer->tokens, bytes);
  if (tokens) scorer->tokens = tokens;
  int32_t *targets = realloc(scorer->targets, bytes);
  if (targets) scorer->targets = targets;
  if (!tokens || !targets) return ch_no_memory(error);
  scorer->sequences = sequences;
  scorer->length = length;
  CH_TRY(take_cache(scorer, sequences, length, error));
  ch_model_graph shape = {.sequences = sequences,
                          .length = length,
                          .dtype = CH_F32,
                          .head = CH_HEAD_LOSS,
                          .cached = scorer->cached,
                          .capacity = length,
                          .cache = scorer->types};
  return ch_runner_create(&scorer->engine, &scorer->model->config, &scorer->model->params, &shape, false,
                          &scorer->runner, error);
}

/* --- batches ------------------------------------------------------------------------------------------------- */

/* Fills a row with the inputs and targets of a window, and pads it. Tokens of the window do not attend to the padding,
 * and the padding has no targets. */
static void fill_row(const ch_score_window *window, int64_t rows, int32_t *tokens, int32_t *targets) {
  int64_t inputs = window->length - 1;
  memcpy(tokens, window->tokens, (size_t)inputs * sizeof *tokens);
  for (int64_t i = 0; i < inputs; i++) targets[i] = i + 1 < window->first ? -1 : window->tokens[i + 1];
  for (int64_t i = inputs; i < rows; i++) {
    tokens[i] = 0;
    targets[i] = -1;
  }
}

static ch_status sum_losses(const ch_score_window *window, const float *losses, double *sum,
                            ch_error *error) {
  *sum = 0;
  for (int64_t i = window->first - 1; i < window->length - 1; i++) {
    if (!isfinite(losses[i]))
      return ch_fail(error, CH_ERROR_NUMERIC, "the loss of a token is %s; the model is damaged",
                     isnan(losses[i]) ? "not a number" : "infinite");
    *sum += (double)losses[i];
  }
  return CH_OK;
}

static ch_status scoring_interrupted(const score_job *s, int64_t done, ch_error *error) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted after %lld of %lld predicted tokens",
                 (long long)done, (long long)s->total);
}

/* Reports progress over all ranks, estimated from this rank's progress, because each rank does about the same amount of
 * work. */
static ch_status report_scored(score_job *s, int64_t done, ch_error *error) {
  done *= ch_rank_count(s->shared.ranks);
  if (done > s->total) done = s->total;
  bool goes_on = !s->progress || s->progress(done, s->total, s->user);
  return goes_on && !ch_shared_stops(&s->shared) ? CH_OK : scoring_interrupted(s, done, error);
}

/* The progress within a batch. It is reported because a large model needs minutes for a batch. In a long window
 * attention alone needs minutes. */
typedef struct batch_progress {
  score_job *s;
  int64_t tokens; /* predictions of the batch */
  double share;   /* finished share of the batch */
  ch_error *error;
} batch_progress;

static int64_t done_in(const batch_progress *r) {
  return r->s->done + (int64_t)((double)r->tokens * r->share);
}

static ch_status look_on(void *context, const ch_run *run, const ch_node *node) {
  batch_progress *r = context;
  ch_model_forget_used(r->s->scorer->model, run, node);
  r->share = ch_run_share(run);
  return report_scored(r->s, done_in(r), r->error);
}

static bool stops(void *context) {
  const batch_progress *r = context;
  return report_scored(r->s, done_in(r), NULL) != CH_OK;
}

/* Runs windows order[0] ... order[count - 1], each padded to `rows` rows. */
static ch_status run_batch(score_job *s, const int64_t *order, int64_t count, int64_t rows, ch_error *error) {
  ch_scorer *scorer = s->scorer;
  CH_TRY(take_shape(scorer, count, rows, error));
  for (int64_t i = 0; i < count; i++)
    fill_row(&s->windows[order[i]], rows, scorer->tokens + i * rows, scorer->targets + i * rows);
  batch_progress batch = {.s = s, .error = error};
  for (int64_t i = 0; i < count; i++)
    batch.tokens += s->windows[order[i]].length - s->windows[order[i]].first;
  ch_observer observer = {.seen = look_on, .context = &batch};
  ch_runner_call call = {.weights = scorer->model->weights.tensors,
                         .tokens = scorer->tokens,
                         .targets = scorer->targets,
                         .cache = scorer->cache,
                         .observer = &observer};
  const void *losses = NULL;
  if (scorer->cached) ch_cache_truncate(scorer->cache, 0);
  ch_engine_watch(&scorer->engine, stops, NULL, &batch);
  ch_status status = ch_runner_run(scorer->runner, &call, &losses, error);
  ch_engine_watch(&scorer->engine, NULL, NULL, NULL);
  if (status == CH_ERROR_INTERRUPTED) return scoring_interrupted(s, done_in(&batch), error);
  CH_TRY(status);
  for (int64_t i = 0; i < count; i++) {
    const ch_score_window *window = &s->windows[order[i]];
    CH_TRY(sum_losses(window, (const float *)losses + i * rows, &s->nll[order[i]], error));
    s->done += window->length - window->first;
  }
  return report_scored(s, s->done, error);
}

/* --- order --------------------------------------------------------------------------------------------------- */

typedef struct window_rows {
  int64_t rows, index;
} window_rows;

/* Sorts windows by their numbers of rows, the largest first, so that memory is reserved once. Windows with equally many
   rows stay in the caller's order. */
static int longer_first(const void *pa, const void *pb) {
  const window_rows *a = pa, *b = pb;
  if (a->rows != b->rows) return a->rows < b->rows ? 1 : -1;
  return (a->index > b->index) - (a->index < b->index);
}

static ch_status run_sorted(score_job *s, const window_rows *windows, int64_t *order, int64_t count,
                            ch_error *error) {
  for (int64_t i = 0; i < count; i++) order[i] = windows[i].index;
  int64_t batch = 0;
  for (int64_t first = 0, last; first < count; first = last, batch++) {
    int64_t rows = windows[first].rows, most = rows < BATCH_ROWS ? BATCH_ROWS / rows : 1;
    for (last = first; last < count && last - first < most && windows[last].rows == rows;) last++;
    for (int64_t i = first; i < last; i++) s->owners[order[i]] = ch_shared_owner(&s->shared, batch);
    if (ch_shared_is_own(&s->shared, batch)) CH_TRY(run_batch(s, order + first, last - first, rows, error));
  }
  return CH_OK;
}

static ch_status run_own(score_job *s, int64_t count, ch_error *error) {
  window_rows *sorted = malloc((size_t)count * sizeof *sorted + 1);
  int64_t *order = malloc((size_t)count * sizeof *order + 1);
  s->owners = malloc((size_t)count * sizeof *s->owners + 1);
  ch_status status = CH_OK;
  if (!sorted || !order || !s->owners) {
    status = ch_no_memory(error);
  } else {
    for (int64_t i = 0; i < count; i++) {
      sorted[i] = (window_rows){padded_rows(s->windows[i].length), i};
      s->total += s->windows[i].length - s->windows[i].first;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, longer_first);
    status = run_sorted(s, sorted, order, count, error);
  }
  free(sorted);
  free(order);
  return status;
}

ch_status ch_scorer_run(ch_scorer *scorer, const ch_score_window *windows, int64_t count, double *nll,
                        ch_progress progress, void *user, ch_error *error) {
  score_job s = {.scorer = scorer, .windows = windows, .nll = nll, .progress = progress, .user = user};
  uint64_t hash = scorer->ranks ? ch_windows_hash(windows, count) : 0;
  ch_status status = ch_shared_begin(&s.shared, scorer->ranks, hash, error);
  if (status == CH_OK) status = ch_shared_agree(&s.shared, run_own(&s, count, error), error);
  if (status == CH_OK) status = ch_shared_join(&s.shared, s.owners, count, nll, sizeof *nll, error);
  ch_shared_end(&s.shared);
  free(s.owners);
  return status;
}
