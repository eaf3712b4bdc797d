/* Runs sessions: prompts in chunks, then one token per sequence. Each shape is planned once and its plan is reused.
 *
 * api_session.c checks the public settings. sampling.c draws tokens. */
#include "infer/session.h"

#include "base/progress.h"
#include "infer/gate_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "model/pass_table.h"
#include "base/random.h"
#include "tensor/gemm.h"

/* PASSES: plans in memory, for steps of every number of sequences, heads over blocks of rows, chunks, and some ends of
   prompts. */
enum { PASSES = CH_SKINNY_ROWS + 24, HEAD_UNIT = 8, DEFAULT_CONTEXT = 4096 };

struct ch_session {
  const ch_config *config;
  const ch_params *params;
  const ch_tensor *weights;
  ch_session_options options;
  ch_engine engine;
  ch_cache *cache;
  ch_cache_selection *fed; /* sequences of the cache that a pass feeds */
  int32_t *all;            /* [sequences] 0, 1, ... */
  float *states;           /* [chunk + HEAD_UNIT, hidden] states of a pass whose tokens are scored, or NULL */
  ch_pass_table *passes;
  int32_t *chunk; /* [sequences, chunk] tokens of one pass */
  const ch_model *model;
  ch_progress progress;
  void *progress_user;
  int32_t end_tokens[CH_MAX_END_TOKENS];
  size_t end_token_count;
};

void ch_session_options_default(const ch_config *config, ch_session_options *options) {
  int64_t context = config->max_position_embeddings;
  *options = (ch_session_options){.sequences = 1,
                                  .context = context < DEFAULT_CONTEXT ? context : DEFAULT_CONTEXT,
                                  .chunk = ch_prefill_tokens(config),
                                  .cache = ch_cache_of(CH_F32)};
}

static ch_status check_options(const ch_config *config, const ch_tensor *weights,
                               const ch_session_options *options, ch_error *error) {
  if (weights[0].dtype == CH_F64)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the model was opened in F64, for ch_forward; sessions compute in F32");
  if (options->sequences < 1 || options->context < 1 || options->chunk < 1 || options->context > INT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a session needs at least one sequence, one token of context and chunks of one token");
  for (int role = 0; role < CH_STATE_ROLES; role++)
    if (!ch_is_cache_type(options->cache.of[role]))
      return ch_fail(error, CH_ERROR_ARGUMENT, "the cache can be F32, F16, BF16, Q8_0 or Q4_0");
  if (options->precompute_gates && !config->attention.gate_embedding_dim)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "the model has no embedding gates to precompute (\"attention.gate_embedding_dim\" is 0)");
  return CH_OK;
}

ch_status ch_session_new(const ch_config *config, const ch_params *params, const ch_tensor *weights,
                         const ch_session_options *options, ch_session **result, ch_error *error) {
  *result = NULL;
  CH_TRY(ch_config_needs_text(config, "decoding", error));
  CH_TRY(check_options(config, weights, options, error));
  ch_session *session = calloc(1, sizeof *session);
  if (!session) return ch_no_memory(error);
  *session = (ch_session){.config = config, .params = params, .weights = weights, .options = *options};
  if (session->options.chunk > session->options.context) session->options.chunk = session->options.context;
  ch_status status = CH_OK;
  CH_TRY_GOTO(ch_engine_init_threads(&session->engine, CH_F32, options->threads, error));
  session->engine.compute = options->compute;
  CH_TRY_GOTO(ch_pass_table_create(&session->engine, config, params, PASSES, &session->passes, error));
  CH_TRY_GOTO(ch_engine_cache(&session->engine, config, options->sequences, options->context, &options->cache,
                              &session->cache, error));
  CH_TRY_GOTO(ch_cache_selection_create(session->cache, &session->fed, error));
  session->all = malloc((size_t)options->sequences * sizeof *session->all);
  for (int64_t s = 0; session->all && s < options->sequences; s++) session->all[s] = (int32_t)s;
  if (options->precompute_gates)
    CH_TRY_GOTO(ch_gate_table_fill(&session->engine, config, params, weights, session->cache, error));
  session->chunk = malloc((size_t)(options->sequences * session->options.chunk) * sizeof *session->chunk);
  if (!session->chunk || !session->all) status = ch_no_memory(error);
done:
  if (status != CH_OK)
    ch_session_free(session);
  else
    *result = session;
  return status;
}

void ch_session_free(ch_session *session) {
  if (!session) return;
  ch_pass_table_free(session->passes);
  ch_cache_selection_free(session->fed);
  ch_cache_free(session->cache);
  ch_engine_free(&session->engine);
  free(session->all);
  free(session->states);
  free(session->chunk);
  free(session);
}

static ch_status find_pass(ch_session *session, int64_t sequences, int64_t length, ch_head head,
                           ch_runner **runner, ch_error *error) {
  const ch_model_graph shape = {.sequences = sequences,
                                .length = length,
                                .dtype = CH_F32,
                                .head = head,
                                .cached = head != CH_HEAD_OF_STATES,
                                .cache = session->options.cache,
                                .capacity = session->options.context,
                                .gates_known = session->options.precompute_gates,
                                .expand_gates = session->options.expand_gates};
  return ch_pass_table_find(session->passes, &shape, runner, error);
}

/* Computes a pass over `count` tokens of each of sequences order [sequences]. */
static ch_status pass(ch_session *session, const int32_t *order, int64_t sequences, const int32_t *tokens,
                      int64_t count, ch_head head, const float **logits, ch_error *error) {
  ch_runner *runner;
  CH_TRY(find_pass(session, sequences, count, head, &runner, error));
  ch_cache *fed = &session->fed->cache;
  ch_cache_select(session->fed, order, sequences);
  ch_runner_call call = {.weights = session->weights, .tokens = tokens, .cache = fed};
  const void *value = NULL;
  double start = ch_clock();
  ch_status status = ch_runner_run(runner, &call, &value, error);
  /* after a failure, some states of a fixed size include these tokens and others do not */
  for (int64_t s = 0; status != CH_OK && fed->any_fixed && s < sequences; s++) ch_cache_set_length(fed, s, 0);
  ch_cache_selection_keep(session->fed);
  if (status != CH_OK) return status;
  ch_profile_span(session->engine.profile, count == 1 ? "token" : "tokens", start);
  *logits = value;
  return CH_OK;
}

/* Checks a call before anything is fed, so that a rejected call leaves the session unchanged. */
static ch_status check_tokens(const ch_session *session, int64_t first, int64_t sequences,
                              const int32_t *tokens, size_t count, const float **logits, ch_error *error) {
  if (!tokens || !logits)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL", tokens ? "the logits pointer" : "the tokens");
  if (first < 0 || first + sequences > session->options.sequences)
    return ch_fail(error, CH_ERROR_ARGUMENT, "there is no sequence %lld; the session has %lld",
                   (long long)(first < 0 ? first : first + sequences - 1),
                   (long long)session->options.sequences);
  if (count < 1 || sequences < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "no tokens to feed; at least one is needed");
  int64_t capacity = session->cache->capacity;
  for (int64_t s = first; s < first + sequences; s++)
    if (count > (size_t)(capacity - session->cache->length[s]))
      return ch_fail(error, CH_ERROR_FULL,
                     "the session holds %lld of %lld tokens and has no room for %zu more",
                     (long long)session->cache->length[s], (long long)capacity, count);
  for (size_t i = 0; i < (size_t)sequences * count; i++)
    if (tokens[i] < 0 || tokens[i] >= session->config->vocab_size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "token %d at index %zu is outside the vocabulary of 0 to %lld",
                     tokens[i], i, (long long)session->config->vocab_size - 1);
  return CH_OK;
}

/* The progress of a feed. Passes of a large model take minutes, so the progress callback is also called
   during them. */
typedef struct feed_state {
  const ch_session *session; /* session with the callback */
  /* tokens per sequence. done: before the pass; length: of the pass; total: of the text */
  int64_t done, length, total;
  ch_head head;          /* head of the passes */
  double share;          /* share of the pass that is done */
  double first_question; /* ch_clock of the first callback; a short pass has one only at its end */
} feed_state;

static const double SHORT_PASS = 0.05;

bool ch_session_goes_on(const ch_session *s, int64_t done, int64_t total) {
  return !s->progress || s->progress(done, total, s->progress_user);
}

static bool reading_stops(void *context) {
  const feed_state *r = context;
  if (ch_clock() < r->first_question) return false;
  return !ch_session_goes_on(r->session, r->done + (int64_t)(r->share * (double)r->length), r->total);
}

static void reading_share(void *context, double share) {
  ((feed_state *)context)->share = share;
}

/* Empties sequences that a stopped pass may have overwritten: sequences that fill their rings, and all sequences if
   there are states of a fixed size. */
static void forget_overwritten(ch_session *session, int64_t first, int64_t sequences, int64_t length) {
  ch_cache *cache = session->cache;
  for (int64_t s = first; s < first + sequences; s++)
    if (cache->any_fixed || (cache->any_ring && cache->length[s] + length > cache->window + cache->sinks))
      ch_cache_set_length(cache, s, 0);
}

static ch_status watched_pass(ch_session *session, int64_t first, int64_t sequences, feed_state *r,
                              const float **logits, ch_error *error) {
  r->share = 0;
  r->first_question = ch_clock() + SHORT_PASS;
  if (session->progress) ch_engine_watch(&session->engine, reading_stops, reading_share, r);
  ch_status status =
      pass(session, session->all + first, sequences, session->chunk, r->length, r->head, logits, error);
  if (session->progress) ch_engine_watch(&session->engine, NULL, NULL, NULL);
  if (status == CH_ERROR_INTERRUPTED) forget_overwritten(session, first, sequences, r->length);
  return status;
}

/* Feeds tokens in chunks. Fails with CH_ERROR_INTERRUPTED if the progress callback cancels during or between
   chunks. */
static ch_status feed_chunks(ch_session *session, int64_t first, int64_t sequences, const int32_t *tokens,
                             int64_t count, feed_state *r, const float **logits, ch_error *error) {
  const int64_t chunk = session->options.chunk;
  ch_status status = CH_OK;
  for (int64_t at = 0; status == CH_OK && at < count; at += r->length) {
    r->done = at;
    r->length = count - at < chunk ? count - at : chunk;
    for (int64_t s = 0; s < sequences; s++)
      memcpy(session->chunk + s * r->length, tokens + s * count + at, (size_t)r->length * sizeof *tokens);
    status = watched_pass(session, first, sequences, r, logits, error);
    if (status != CH_OK) break;
    r->done += r->length;
    if (!ch_session_goes_on(session, r->done, r->total) && r->done < r->total) status = CH_ERROR_INTERRUPTED;
  }
  if (status != CH_ERROR_INTERRUPTED) return status;
  return ch_fail(error, status, "reading was cancelled after %lld of %lld tokens", (long long)r->done,
                 (long long)r->total);
}

static ch_status feed(ch_session *session, int64_t first, int64_t sequences, const int32_t *tokens,
                      size_t count, feed_state *r, const float **logits, ch_error *error) {
  CH_TRY(check_tokens(session, first, sequences, tokens, count, logits, error));
  int32_t before = session->cache->length[first];
  ch_status status = feed_chunks(session, first, sequences, tokens, (int64_t)count, r, logits, error);
  if (status == CH_OK || status == CH_ERROR_INTERRUPTED) return status;
  int32_t fed = session->cache->length[first] - before;
  if (fed < 0) return status; /* the sequences were emptied */
  for (int64_t s = first; s < first + sequences; s++) {
    int32_t kept = session->cache->length[s] - fed;
    ch_cache_set_length(session->cache, s, ch_cache_can_go_back(session->cache, s, kept) ? kept : 0);
  }
  return status;
}

ch_status ch_session_feed(ch_session *session, const int32_t *tokens, size_t count, const float **logits,
                          ch_error *error) {
  if (!session) return ch_fail(error, CH_ERROR_ARGUMENT, "the session is NULL");
  feed_state r = {.session = session, .total = (int64_t)count, .head = CH_HEAD_LAST_LOGITS};
  return feed(session, 0, session->options.sequences, tokens, count, &r, logits, error);
}

ch_status ch_session_feed_one(ch_session *session, int32_t sequence, const int32_t *tokens, size_t count,
                              const float **logits, ch_error *error) {
  if (!session) return ch_fail(error, CH_ERROR_ARGUMENT, "the session is NULL");
  feed_state r = {.session = session, .total = (int64_t)count, .head = CH_HEAD_LAST_LOGITS};
  return feed(session, sequence, 1, tokens, count, &r, logits, error);
}

ch_status ch_session_feed_all(ch_session *session, const int32_t *tokens, size_t count, const float **logits,
                              ch_error *error) {
  if (!session) return ch_fail(error, CH_ERROR_ARGUMENT, "the session is NULL");
  int64_t sequences = session->options.sequences;
  CH_TRY(check_tokens(session, 0, sequences, tokens, count, logits, error));
  return pass(session, session->all, sequences, tokens, (int64_t)count, CH_HEAD_LOGITS, logits, error);
}

ch_status ch_session_step(ch_session *session, size_t count, const int32_t *tokens, const float **logits,
                          ch_error *error) {
  if (!session) return ch_fail(error, CH_ERROR_ARGUMENT, "the session is NULL");
  if (count > (size_t)session->options.sequences)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%zu sequences are too many; the session has %lld", count,
                   (long long)session->options.sequences);
  CH_TRY(check_tokens(session, 0, (int64_t)count, tokens, 1, logits, error));
  return pass(session, session->all, (int64_t)count, tokens, 1, CH_HEAD_LAST_LOGITS, logits, error);
}

ch_status ch_session_step_some(ch_session *session, const int32_t *sequences, size_t count,
                               const int32_t *tokens, const float **logits, ch_error *error) {
  if (!session || (!sequences && count))
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL", session ? "the list of sequences" : "the session");
  if (count < 1) return ch_fail(error, CH_ERROR_ARGUMENT, "no tokens to feed; at least one is needed");
  for (size_t i = 0; i < count; i++) {
    CH_TRY(check_tokens(session, sequences[i], 1, tokens ? tokens + i : NULL, 1, logits, error));
    for (size_t j = 0; j < i; j++)
      if (sequences[j] == sequences[i])
        return ch_fail(error, CH_ERROR_ARGUMENT, "sequence %d is listed twice", sequences[i]);
  }
  return pass(session, sequences, (int64_t)count, tokens, 1, CH_HEAD_LAST_LOGITS, logits, error);
}

/* --- scores of every token ------------------------------------------------------------------------------ */

/* Computes the head over rows of session->states. Its blocks are small enough that a row's logits equal those
   of a step. */
static ch_status score_rows(ch_session *session, int64_t count, ch_score_sink sink, void *user,
                            ch_error *error) {
  const int64_t hidden = session->config->hidden_size;
  for (int64_t at = 0, rows; at < count; at += rows) {
    rows = count - at < CH_SKINNY_ROWS ? count - at : CH_SKINNY_ROWS;
    const int64_t padded = (rows + HEAD_UNIT - 1) / HEAD_UNIT * HEAD_UNIT;
    ch_runner *runner;
    const void *logits = NULL;
    CH_TRY(find_pass(session, padded, 1, CH_HEAD_OF_STATES, &runner, error));
    ch_runner_call call = {.weights = session->weights, .states = session->states + at * hidden};
    CH_TRY(ch_runner_run(runner, &call, &logits, error));
    CH_TRY(sink(at, rows, logits, user, error));
  }
  return CH_OK;
}

ch_status ch_session_feed_scored(ch_session *session, int32_t sequence, const int32_t *tokens, size_t count,
                                 ch_score_sink sink, void *user, ch_error *error) {
  const size_t hidden = (size_t)session->config->hidden_size, chunk = (size_t)session->options.chunk;
  const float *states = NULL;
  if (count > chunk)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%zu tokens are more than a chunk of %zu", count, chunk);
  if (!session->states) session->states = calloc((chunk + HEAD_UNIT) * hidden, sizeof *session->states);
  if (!session->states) return ch_no_memory(error);
  feed_state r = {.session = session, .total = (int64_t)count, .head = CH_HEAD_STATES};
  CH_TRY(feed(session, sequence, 1, tokens, count, &r, &states, error));
  memcpy(session->states, states, count * hidden * sizeof *states);
  return score_rows(session, (int64_t)count, sink, user, error);
}

/* --- progress, threads, end tokens ---------------------------------------------------------------------- */

void ch_session_set_progress(ch_session *session, ch_progress progress, void *user) {
  session->progress = progress;
  session->progress_user = user;
}

const ch_team *ch_session_team(const ch_session *session) {
  return &session->engine.team;
}

void ch_session_set_model(ch_session *session, const ch_model *model) {
  session->model = model;
}

const ch_model *ch_session_model(const ch_session *session) {
  return session->model;
}

size_t ch_session_end_tokens(const ch_session *session, const int32_t **ids) {
  *ids = session->end_tokens;
  return session->end_token_count;
}

ch_status ch_session_set_end_tokens(ch_session *session, const int32_t *ids, size_t count, ch_error *error) {
  if (!session || (!ids && count))
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL",
                   session ? "the list of end tokens" : "the session");
  if (count > CH_MAX_END_TOKENS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%zu end tokens are too many; at most %d are possible", count,
                   CH_MAX_END_TOKENS);
  for (size_t i = 0; i < count; i++)
    if (ids[i] < 0 || ids[i] >= session->config->vocab_size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "end token %d is outside the vocabulary of 0 to %lld", ids[i],
                     (long long)session->config->vocab_size - 1);
  if (count) memmove(session->end_tokens, ids, count * sizeof *ids);
  session->end_token_count = count;
  return CH_OK;
}

/* --- truncating, copying, forking ----------------------------------------------------------------------- */

/* Checks that a sequence can go back to `length` tokens. */
static ch_status check_way_back(const ch_session *session, int64_t sequence, int64_t length,
                                ch_error *error) {
  const ch_cache *cache = session->cache;
  if (length >= cache->length[sequence] || ch_cache_can_go_back(cache, sequence, (int32_t)length))
    return CH_OK;
  if (cache->any_fixed)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "sequence %lld holds %d tokens and cannot go back to %lld: layers of linear attention only keep the "
        "state after the last token; start again, or copy the sequence before continuing it",
        (long long)sequence, cache->length[sequence], (long long)length);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "sequence %lld holds %d tokens and cannot go back to %lld: layers with a sliding window "
                 "only keep the last %lld; start again, or copy the sequence before continuing it",
                 (long long)sequence, cache->length[sequence], (long long)length, (long long)cache->window);
}

ch_status ch_session_truncate(ch_session *session, int64_t length, ch_error *error) {
  if (!session) return ch_fail(error, CH_ERROR_ARGUMENT, "the session is NULL");
  if (length < 0) length = 0;
  if (length >= session->cache->capacity) return CH_OK;
  for (int64_t s = 0; s < session->cache->sequences; s++) CH_TRY(check_way_back(session, s, length, error));
  ch_cache_truncate(session->cache, (int32_t)length);
  return CH_OK;
}

void ch_session_reset(ch_session *session) {
  ch_cache_truncate(session->cache, 0);
}

void ch_session_pretend_length(ch_session *session, int64_t length) {
  ch_cache_truncate(session->cache, (int32_t)length);
}

ch_status ch_session_copy(ch_session *session, int32_t from, int32_t to, int64_t length, ch_error *error) {
  if (!session) return ch_fail(error, CH_ERROR_ARGUMENT, "the session is NULL");
  const int32_t sequences[] = {from, to};
  for (int i = 0; i < 2; i++)
    if (sequences[i] < 0 || sequences[i] >= session->options.sequences)
      return ch_fail(error, CH_ERROR_ARGUMENT, "there is no sequence %d; the session has %lld", sequences[i],
                     (long long)session->options.sequences);
  if (length < 0 || length > session->cache->length[from])
    return ch_fail(error, CH_ERROR_ARGUMENT, "sequence %d holds %d tokens, of which %lld cannot be copied",
                   from, session->cache->length[from], (long long)length);
  CH_TRY(check_way_back(session, from, length, error));
  ch_cache_copy(session->cache, from, to, (int32_t)length);
  return CH_OK;
}

ch_status ch_session_fork(const ch_session *session, ch_session **fork, ch_error *error) {
  if (!session || !fork)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL", session ? "the fork pointer" : "the session");
  CH_TRY(ch_session_new(session->config, session->params, session->weights, &session->options, fork, error));
  ch_cache_copy_all(session->cache, (*fork)->cache);
  (*fork)->model = session->model;
  (*fork)->end_token_count = session->end_token_count;
  memcpy((*fork)->end_tokens, session->end_tokens, sizeof session->end_tokens);
  return CH_OK;
}

/* --- simulated depths ----------------------------------------------------------------------------------- */

/* Fills the cache's ids of tokens, if it stores them. Random ids are distributed like words: the logarithm of the
   rank is uniform (Zipf). */
static void pretend_tokens(ch_session *session, int64_t length, ch_random *random, const int32_t *ids,
                           int64_t id_count) {
  if (!session->cache->tokens) return;
  double vocabulary = (double)session->config->vocab_size;
  for (int64_t s = 0; s < session->cache->sequences; s++)
    for (int64_t t = 0; t < length; t++)
      ch_cache_tokens(session->cache, s)[t] =
          id_count ? ids[t % id_count] : (int32_t)(pow(vocabulary, ch_random_uniform(random)) - 1);
}

/* The length of a list of normal numbers that is repeated as simulated states. It has whole blocks of quantised types,
   and 2047 is odd, so that states of a width that is a power of two repeat only after 2047 tokens or more. */
enum { MADE_UP = 2047 * 32 };

/* Fills a part of the cache with `numbers`, converted to the part's type. numbers and block are in the kernels'
   memory. */
static void pretend_part(const ch_session *session, int layer, int part, const float *numbers, char *block) {
  const ch_kernels *kernels = session->engine.kernels;
  ch_dtype dtype = session->cache->views[layer][part].dtype;
  if (ch_dtype_is_block_quantised(dtype))
    kernels->pack_states(&session->engine.team, 1, MADE_UP, numbers, dtype, block);
  else
    kernels->convert_to(&session->engine.team, MADE_UP, numbers, dtype, block);
  ch_cache_fill(session->cache, kernels, &session->engine.team, layer, part, block,
                ch_dtype_bytes(dtype, MADE_UP));
}

ch_status ch_session_pretend(ch_session *session, int64_t length, uint64_t seed, const int32_t *ids,
                             int64_t id_count, ch_error *error) {
  ch_cache *cache = session->cache;
  if (length < 0 || length > cache->capacity)
    return ch_fail(error, CH_ERROR_FULL, "a context of %lld tokens cannot hold %lld",
                   (long long)cache->capacity, (long long)length);
  const ch_value_memory *memory = session->engine.kernels->memory;
  const size_t bytes = MADE_UP * sizeof(float);
  float *numbers = malloc(bytes);
  char *placed = memory->allocate(2 * bytes);
  if (!numbers || !placed) {
    free(numbers);
    if (placed) memory->release(placed, 2 * bytes);
    return ch_no_memory(error);
  }
  ch_random random;
  ch_random_seed(&random, seed, 0);
  for (int64_t i = 0; i < MADE_UP; i++) numbers[i] = (float)ch_random_normal(&random);
  memory->write(placed, numbers, bytes);
  pretend_tokens(session, length, &random, ids, id_count);
  for (int l = 0; l < cache->layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++)
      if (ch_cache_holds(cache, l, p))
        pretend_part(session, l, p, (const float *)(void *)placed, placed + bytes);
  for (int64_t s = 0; s < cache->sequences; s++) ch_cache_set_length(cache, s, (int32_t)length);
  free(numbers);
  memory->release(placed, 2 * bytes);
  return CH_OK;
}

/* --- properties of a session ---------------------------------------------------------------------------- */

int64_t ch_session_length(const ch_session *session) {
  return session->cache->length[0];
}

int64_t ch_session_sequence_length(const ch_session *session, int32_t sequence) {
  return sequence < 0 || sequence >= session->options.sequences ? -1 : session->cache->length[sequence];
}

int64_t ch_session_capacity(const ch_session *session) {
  return session->cache->capacity;
}

uint64_t ch_session_cache_bytes(const ch_session *session) {
  return session->cache->bytes;
}

int64_t ch_session_cache_token_elements(const ch_session *session) {
  return session->cache->token_elements;
}

int64_t ch_session_cache_token_bytes(const ch_session *session) {
  return session->cache->token_bytes;
}

int64_t ch_session_vocab_size(const ch_session *session) {
  return session->config->vocab_size;
}

const ch_cache *ch_session_cache(const ch_session *session) {
  return session->cache;
}

void ch_session_profile(ch_session *session, ch_profile *profile) {
  session->engine.profile = profile;
}
