/* Scores groups of windows, sorted by length. For a batch of groups, one pass computes the shared beginnings. Further
 * passes compute one continuation of each group, after the beginning that the cache holds. */
#include "eval/score_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "model/pass_table.h"
#include "ranks/shared.h"

enum {
  PASSES = 24,           /* cached plans */
  PASS_ROWS = 2048,      /* tokens of a pass */
  MOST_SEQUENCES = 256,  /* groups of a batch */
  BEGINNING_STEP = 8,    /* multiple to which beginnings are padded, so that few shapes are planned */
  CONTINUATION_STEP = 4, /* multiple to which continuations are padded, so that few shapes are planned */
  PREFIX_CHUNK = 512,    /* tokens per pass over a prefix of many groups */
  LEAST_PREFIX = 32,     /* tokens that neighbouring groups must share for a separate pass over the prefix */
  LEAST_RUN = 4          /* groups that must share a prefix for a separate pass over it */
};
static const int64_t most_cache_bytes = (int64_t)1 << 29;

/* A group of windows that begin alike. */
typedef struct group {
  int64_t first, count; /* first window, and number of windows */
  int64_t shared;       /* tokens at the beginning of all windows, before anything is predicted */
  int64_t longest;      /* largest number of inputs of a window after its shared tokens */
} group;

typedef struct group_scorer {
  const ch_model *model;
  const ch_score_window *windows;
  group *groups;    /* [groups] in the caller's order */
  group **order;    /* groups of the current run, sorted by length */
  int64_t *members; /* [MOST_SEQUENCES]: current window of each group of a batch */
  ch_engine engine;
  ch_pass_table *passes;
  ch_cache *cache;
  int64_t prefix;                      /* tokens with which every sequence of the cache begins */
  int32_t *tokens, *targets;           /* [room]: inputs and targets of a pass */
  int64_t room;                        /* capacity of `tokens` and `targets` */
  int64_t token_bytes, sequence_bytes; /* cache bytes of a token; constant cache bytes of a sequence */
  ch_continuation_score *scores;       /* [windows] */
  ch_progress progress;                /* progress callback, or NULL */
  void *user;
  int64_t done, total; /* tokens done by this rank, and of all windows */
  /* tokens that went through the model: in this rank's batches; in prefixes, counted once for all ranks */
  int64_t computed, computed_by_all;
  bool cache_goes_back;  /* true if the cache can be cut back to the end of a beginning */
  ch_shared_work shared; /* division of batches over ranks */
  int64_t batches;       /* number of the next batch */
  int32_t *owners;       /* [windows]: rank that runs each window */
} group_scorer;

static int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* --- passes -------------------------------------------------------------------------------------------------- */

static ch_status find_pass(group_scorer *s, int64_t sequences, int64_t length, ch_runner **runner,
                           ch_error *error) {
  const ch_model_graph shape = {.sequences = sequences,
                                .length = length,
                                .dtype = CH_F32,
                                .head = CH_HEAD_RANKS,
                                .cached = true,
                                .context = s->cache->capacity};
  return ch_pass_table_find(s->passes, &shape, runner, error);
}

/* Reserves memory for the tokens of a pass and fills it with padding. */
static ch_status clear_tokens(group_scorer *s, int64_t count, ch_error *error) {
  if (count > s->room) {
    free(s->tokens);
    free(s->targets);
    s->tokens = malloc((size_t)count * sizeof *s->tokens);
    s->targets = malloc((size_t)count * sizeof *s->targets);
    s->room = s->tokens && s->targets ? count : 0;
    if (s->room == 0) return ch_no_memory(error);
  }
  memset(s->tokens, 0, (size_t)count * sizeof *s->tokens);
  memset(s->targets, -1, (size_t)count * sizeof *s->targets);
  return CH_OK;
}

static ch_status groups_interrupted(const group_scorer *s, ch_error *error) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted after %lld of %lld tokens", (long long)s->done,
                 (long long)s->total);
}

/* Reports progress over all ranks, estimated from this rank's progress, because each rank does about the same amount of
 * work. */
static ch_status report_groups(group_scorer *s, ch_error *error) {
  int64_t done = least(s->done * ch_rank_count(s->shared.ranks), s->total);
  bool goes_on = !s->progress || s->progress(done, s->total, s->user);
  return goes_on && !ch_shared_stops(&s->shared) ? CH_OK : groups_interrupted(s, error);
}

/* Reports progress within a pass, for which a large model needs minutes. */
static ch_status look_on(void *context, const ch_run *run, const ch_node *node) {
  group_scorer *s = context;
  ch_model_forget_used(s->model, run, node);
  return report_groups(s, run->error);
}

static bool stops(void *context) {
  return report_groups(context, NULL) != CH_OK;
}

/* Runs the tokens after those in the cache. *scores becomes [sequences, length, 2]: the loss of each target, and its
 * rank among the logits, from 0. */
static ch_status run_pass(group_scorer *s, int64_t sequences, int64_t length, const float **scores,
                          ch_error *error) {
  ch_runner *runner;
  const void *value = NULL;
  CH_TRY(find_pass(s, sequences, length, &runner, error));
  ch_observer observer = {.seen = look_on, .context = s};
  ch_runner_call call = {.weights = s->model->weights.tensors,
                         .tokens = s->tokens,
                         .targets = s->targets,
                         .cache = s->cache,
                         .observer = &observer};
  ch_engine_watch(&s->engine, stops, NULL, s);
  ch_status status = ch_runner_run(runner, &call, &value, error);
  ch_engine_watch(&s->engine, NULL, NULL, NULL);
  if (status == CH_ERROR_INTERRUPTED) return groups_interrupted(s, error);
  CH_TRY(status);
  *scores = value;
  return CH_OK;
}

/* --- the cache ----------------------------------------------------------------------------------------------- */

/* Replaces the cache if it has fewer than `sequences` sequences or fewer than `capacity` tokens per sequence. */
static ch_status take_cache(group_scorer *s, int64_t sequences, int64_t capacity, ch_error *error) {
  if (s->cache && s->cache->sequences >= sequences && s->cache->capacity >= capacity) return CH_OK;
  const ch_cache_types types = ch_cache_of(CH_F32);
  ch_cache_free(s->cache);
  return ch_engine_whole_cache(&s->engine, &s->model->config, sequences, capacity, &types, &s->cache, error);
}

/* Sets the number of tokens that every sequence holds before a pass. Sequences outside the batch hold none. */
static void set_lengths(group_scorer *s, group *const *batch, int64_t count, bool behind_beginning) {
  for (int64_t i = 0; i < s->cache->sequences; i++)
    s->cache->length[i] = i >= count ? 0 : (int32_t)(behind_beginning ? batch[i]->shared : s->prefix);
}

static ch_status run_prefix(group_scorer *s, const int32_t *tokens, ch_error *error) {
  set_lengths(s, NULL, 0, false);
  for (int64_t first = 0; first < s->prefix; first += PREFIX_CHUNK) {
    const float *scores;
    int64_t length = least(PREFIX_CHUNK, s->prefix - first);
    CH_TRY(clear_tokens(s, length, error));
    memcpy(s->tokens, tokens + first, (size_t)length * sizeof *tokens);
    CH_TRY(run_pass(s, 1, length, &scores, error));
  }
  /* All other sequences get the prefix of sequence 0. */
#pragma omp parallel for
  for (int64_t i = 1; i < s->cache->sequences; i++) ch_cache_copy(s->cache, 0, i, (int32_t)s->prefix);
  return CH_OK;
}

/* --- a batch ------------------------------------------------------------------------------------------------- */

/* Runs the beginnings of the groups into the cache. */
static ch_status run_beginnings(group_scorer *s, group *const *batch, int64_t count, ch_error *error) {
  int64_t rows = 0;
  const float *scores;
  for (int64_t i = 0; i < count; i++)
    if (batch[i]->shared - s->prefix > rows) rows = batch[i]->shared - s->prefix;
  if (rows == 0) return CH_OK;
  rows = round_up(rows, BEGINNING_STEP);
  CH_TRY(clear_tokens(s, count * rows, error));
  for (int64_t i = 0; i < count; i++) {
    int64_t own = batch[i]->shared - s->prefix;
    memcpy(s->tokens + i * rows, s->windows[batch[i]->first].tokens + s->prefix,
           (size_t)own * sizeof *s->tokens);
    s->computed += own;
  }
  set_lengths(s, batch, count, false);
  return run_pass(s, count, rows, &scores, error);
}

static ch_status read_scores(group_scorer *s, const group *g, int64_t index, const float *scores,
                             ch_error *error) {
  const ch_score_window *w = &s->windows[index];
  ch_continuation_score sum = {.greedy = true};
  for (int64_t t = w->first - 1 - g->shared; t < w->length - 1 - g->shared; t++) {
    if (!isfinite(scores[2 * t]))
      return ch_fail(error, CH_ERROR_NUMERIC, "the loss of a token is %s; the model is damaged",
                     isnan(scores[2 * t]) ? "not a number" : "infinite");
    sum.nll += (double)scores[2 * t];
    sum.greedy &= scores[2 * t + 1] == 0;
  }
  s->scores[index] = sum;
  return CH_OK;
}

/* Runs one continuation of each of the first `count` groups of the batch; member [count] are their
 * windows. */
static ch_status run_continuations(group_scorer *s, group *const *batch, int64_t count, const int64_t *member,
                                   ch_error *error) {
  int64_t rows = 0;
  const float *scores;
  for (int64_t i = 0; i < count; i++) {
    int64_t own = s->windows[member[i]].length - 1 - batch[i]->shared;
    if (own > rows) rows = own;
  }
  rows = round_up(rows, CONTINUATION_STEP);
  CH_TRY(clear_tokens(s, count * rows, error));
  for (int64_t i = 0; i < count; i++) {
    const ch_score_window *w = &s->windows[member[i]];
    int64_t shared = batch[i]->shared, own = w->length - 1 - shared;
    memcpy(s->tokens + i * rows, w->tokens + shared, (size_t)own * sizeof *s->tokens);
    for (int64_t t = w->first - 1 - shared; t < own; t++)
      s->targets[i * rows + t] = w->tokens[shared + t + 1];
    s->computed += own;
    s->done += w->length - 1;
  }
  set_lengths(s, batch, count, true);
  CH_TRY(run_pass(s, count, rows, &scores, error));
  for (int64_t i = 0; i < count; i++)
    CH_TRY(read_scores(s, batch[i], member[i], scores + 2 * i * rows, error));
  return report_groups(s, error);
}

/* Returns the index of the window that is at `place` when the group's windows are sorted by length, the longest
 * first. */
static int64_t by_length(const group_scorer *s, const group *g, int64_t place) {
  for (int64_t i = 0; i < g->count; i++) {
    int64_t length = s->windows[g->first + i].length, before = 0;
    for (int64_t j = 0; j < g->count; j++) {
      int64_t other = s->windows[g->first + j].length;
      before += other > length || (other == length && j < i);
    }
    if (before == place) return g->first + i;
  }
  return g->first;
}

/* Runs a batch. Its groups are sorted by their number of continuations, the largest number first. */
static ch_status run_batch(group_scorer *s, group *const *batch, int64_t count, ch_error *error) {
  CH_TRY(run_beginnings(s, batch, count, error));
  for (int64_t place = 0; place < batch[0]->count; place++) {
    int64_t have = 0;
    while (have < count && batch[have]->count > place) {
      s->members[have] = by_length(s, batch[have], place);
      have++;
    }
    CH_TRY(run_continuations(s, batch, have, s->members, error));
  }
  return CH_OK;
}

/* --- runs of groups that begin alike ------------------------------------------------------------------------- */

/* Sorts groups by the padded lengths of their beginnings, then by their longest continuations. The longest come first,
   so that memory is reserved once. */
static int longer_first(const void *pa, const void *pb) {
  const group *a = *(group *const *)pa, *b = *(group *const *)pb;
  int64_t x = round_up(a->shared, BEGINNING_STEP), y = round_up(b->shared, BEGINNING_STEP);
  if (x != y) return x < y ? 1 : -1;
  if (a->longest != b->longest) return a->longest < b->longest ? 1 : -1;
  return (a->first > b->first) - (a->first < b->first);
}

static int more_first(const void *pa, const void *pb) {
  const group *a = *(group *const *)pa, *b = *(group *const *)pb;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  return (a->first > b->first) - (a->first < b->first);
}

/* Returns how many groups from `order` on fit into a batch. */
static int64_t batch_size(const group_scorer *s, group *const *order, int64_t count) {
  int64_t rows = order[0]->shared - s->prefix, longest = 0, i = 0;
  if (rows < 1) rows = 1;
  for (; i < count && i < MOST_SEQUENCES; i++) {
    if (order[i]->longest > longest) longest = order[i]->longest;
    int64_t tokens = (i + 1) * (s->prefix + rows + longest + BEGINNING_STEP + CONTINUATION_STEP);
    if (i > 0 && ((i + 1) * (rows > longest ? rows : longest) > PASS_ROWS ||
                  tokens * s->token_bytes + (i + 1) * s->sequence_bytes > most_cache_bytes))
      break;
  }
  return i;
}

/* Computes the cache that the batches of a run need: sequences, and tokens per sequence. */
static void measure_batches(const group_scorer *s, int64_t count, int64_t *sequences, int64_t *capacity) {
  for (int64_t first = 0, size; first < count; first += size) {
    size = batch_size(s, s->order + first, count - first);
    if (size > *sequences) *sequences = size;
    for (int64_t i = first; i < first + size; i++) {
      const group *g = s->order[i];
      int64_t most = round_up(s->order[first]->shared - s->prefix, BEGINNING_STEP) + s->prefix;
      int64_t need = g->shared + round_up(g->longest, CONTINUATION_STEP);
      for (int64_t j = first; j < first + size; j++)
        if (g->shared + round_up(s->order[j]->longest, CONTINUATION_STEP) > need)
          need = g->shared + round_up(s->order[j]->longest, CONTINUATION_STEP);
      if (most + BEGINNING_STEP > need) need = most + BEGINNING_STEP;
      if (need > *capacity) *capacity = need;
    }
  }
}

/* Records the rank that runs a batch. */
static void give_to_owner(group_scorer *s, group *const *batch, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t w = 0; w < batch[i]->count; w++)
      s->owners[batch[i]->first + w] = ch_shared_owner(&s->shared, s->batches);
}

/* Runs the groups order[0] ... order[count - 1], which all begin with the same `prefix` tokens. */
static ch_status run_ordered(group_scorer *s, int64_t count, int64_t prefix, ch_error *error) {
  int64_t sequences = 1, capacity = 1;
  if (count == 0) return CH_OK;
  qsort(s->order, (size_t)count, sizeof *s->order, longer_first);
  s->prefix = prefix;
  measure_batches(s, count, &sequences, &capacity);
  CH_TRY(take_cache(s, sequences, capacity, error));
  const int32_t *begin = s->windows[s->order[0]->first].tokens;
  bool begun = false;
  s->computed_by_all += s->prefix;
  for (int64_t first = 0, size; first < count; first += size, s->batches++) {
    size = batch_size(s, s->order + first, count - first);
    give_to_owner(s, s->order + first, size);
    if (!ch_shared_is_own(&s->shared, s->batches)) continue;
    if (!begun) CH_TRY(run_prefix(s, begin, error));
    begun = true;
    qsort(s->order + first, (size_t)size, sizeof *s->order, more_first);
    CH_TRY(run_batch(s, s->order + first, size, error));
  }
  return CH_OK;
}

static int64_t common(const int32_t *a, const int32_t *b, int64_t most) {
  int64_t n = 0;
  while (n < most && a[n] == b[n]) n++;
  return n;
}

/* Returns how many groups from g on share a prefix. *prefix becomes its number of tokens. */
static int64_t find_run(const group_scorer *s, int64_t g, int64_t groups, int64_t *prefix) {
  const int32_t *tokens = s->windows[s->groups[g].first].tokens;
  int64_t shared = s->groups[g].shared, i = g + 1;
  for (; i < groups; i++) {
    int64_t most = least(shared, s->groups[i].shared);
    int64_t alike = common(tokens, s->windows[s->groups[i].first].tokens, most);
    if (alike < LEAST_PREFIX || (i > g + 1 && alike < shared / 2)) break;
    shared = alike;
  }
  *prefix = shared;
  return i - g;
}

static ch_status run_groups(group_scorer *s, int64_t groups, ch_error *error) {
  int64_t alone = 0, prefix;
  group **others = malloc(((size_t)groups + 1) * sizeof *others); /* groups without a common prefix */
  ch_status status = CH_OK;
  if (!others) return ch_no_memory(error);
  for (int64_t g = 0, run; status == CH_OK && g < groups; g += run) {
    run = find_run(s, g, groups, &prefix);
    for (int64_t i = 0; i < run; i++) {
      if (run < LEAST_RUN)
        others[alone++] = &s->groups[g + i];
      else
        s->order[i] = &s->groups[g + i];
    }
    if (run >= LEAST_RUN) status = run_ordered(s, run, prefix, error);
  }
  if (status == CH_OK) {
    memcpy(s->order, others, (size_t)alone * sizeof *others);
    status = run_ordered(s, alone, 0, error);
  }
  free(others);
  return status;
}

/* --- all groups ---------------------------------------------------------------------------------------------- */

static void describe_group(group_scorer *s, group *g) {
  const ch_score_window *w = &s->windows[g->first];
  /* A state of constant size cannot go back to the end of a beginning, so every window runs from its first token on. */
  g->shared = s->cache_goes_back ? w->first - 1 : 0;
  for (int64_t i = 1; i < g->count; i++)
    g->shared = common(w->tokens, w[i].tokens, least(g->shared, w[i].first - 1));
  for (int64_t i = 0; i < g->count; i++) {
    int64_t behind = w[i].length - 1 - g->shared;
    if (behind > g->longest) g->longest = behind;
    s->total += w[i].length - 1;
  }
}

static ch_status prepare_groups(group_scorer *s, const int64_t *starts, int64_t groups, ch_error *error) {
  s->groups = calloc((size_t)groups + 1, sizeof *s->groups);
  s->order = malloc(((size_t)groups + 1) * sizeof *s->order);
  s->members = malloc(MOST_SEQUENCES * sizeof *s->members);
  s->owners = calloc((size_t)starts[groups] + 1, sizeof *s->owners);
  if (!s->groups || !s->order || !s->members || !s->owners) return ch_no_memory(error);
  for (int64_t g = 0; g < groups; g++) {
    s->groups[g] = (group){.first = starts[g], .count = starts[g + 1] - starts[g]};
    describe_group(s, &s->groups[g]);
  }
  CH_TRY(ch_engine_init(&s->engine, CH_F32, error));
  CH_TRY(ch_pass_table_create(&s->engine, &s->model->config, &s->model->params, PASSES, &s->passes, error));
  s->engine.compute = s->model->compute;
  /* A cache of one token gives the bytes of a token. */
  CH_TRY(take_cache(s, 1, 1, error));
  s->sequence_bytes = ch_fixed_state_bytes(&s->model->config);
  s->token_bytes = (int64_t)s->cache->bytes - s->sequence_bytes + 1;
  ch_cache_free(s->cache);
  s->cache = NULL;
  return CH_OK;
}

/* Collects the scores of all ranks and sums their computed tokens. */
static ch_status join_windows(group_scorer *s, int64_t windows, ch_error *error) {
  ch_rank_group *ranks = s->shared.ranks;
  CH_TRY(ch_shared_join(&s->shared, s->owners, windows, s->scores, sizeof *s->scores, error));
  int64_t *room = calloc((size_t)ch_rank_count(ranks), sizeof *room);
  CH_TRY(ch_agree(ranks, room ? CH_OK : ch_no_memory(error), error));
  ch_ranks_sum(ranks, &s->computed, 1, room);
  free(room);
  return CH_OK;
}

ch_status ch_score_groups(const ch_model *model, ch_rank_group *ranks, const ch_score_window *windows,
                          const int64_t *starts, int64_t groups, ch_continuation_score *scores,
                          int64_t *computed, ch_progress progress, void *user, ch_error *error) {
  CH_TRY(ch_config_needs_text(&model->config, "scoring text", error));
  group_scorer s = {.model = model,
                    .windows = windows,
                    .scores = scores,
                    .progress = progress,
                    .user = user,
                    .cache_goes_back = ch_linear_layers(&model->config) == 0};
  ch_status status =
      ch_shared_begin(&s.shared, ranks, ranks ? ch_windows_hash(windows, starts[groups]) : 0, error);
  if (status == CH_OK) {
    status = prepare_groups(&s, starts, groups, error);
    if (status == CH_OK) status = run_groups(&s, groups, error);
    status = ch_shared_agree(&s.shared, status, error);
  }
  if (status == CH_OK) status = join_windows(&s, starts[groups], error);
  ch_shared_end(&s.shared);
  free(s.owners);
  ch_pass_table_free(s.passes);
  ch_cache_free(s.cache);
  ch_engine_free(&s.engine);
  free(s.tokens);
  free(s.targets);
  free(s.groups);
  free(s.order);
  free(s.members);
  if (computed) *computed = s.computed + s.computed_by_all;
  return status;
}
