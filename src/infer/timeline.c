/* Prefill in chunks, decoding token by token: one planned pass each, kept between calls. */
#include "infer/timeline.h"

#include "base/progress.h"
#include "infer/gate_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/random.h"
#include "tensor/gemm.h"

enum { PLANS = CH_FEW_ROWS + 6, DEFAULT_CONTEXT = 4096 };

typedef struct planned_pass {
  ch_runner *runner;
  int64_t sequences, length;
  ch_head head;
  uint64_t last_use;
} planned_pass;

struct ch_timeline {
  const ch_config *config;
  const ch_params *params;
  const ch_tensor *weights;
  ch_timeline_options options;
  ch_engine engine;
  ch_cache *cache;
  ch_state_view (*views)[CH_MAX_STATE_PARTS]; /* of some of its sequences */
  planned_pass passes[PLANS];
  uint64_t clock;
  int32_t *chunk; /* [sequences, chunk] tokens of one pass */
};

void ch_timeline_options_default(const ch_config *config, ch_timeline_options *options) {
  int64_t context = config->max_position_embeddings;
  *options = (ch_timeline_options){.sequences = 1,
                                   .context = context < DEFAULT_CONTEXT ? context : DEFAULT_CONTEXT,
                                   .chunk = ch_prefill_tokens(config),
                                   .cache = ch_cache_of(CH_F32)};
}

static ch_status create_cache(ch_timeline *timeline, ch_error *error) {
  const ch_config *config = timeline->config;
  ch_layer_parts *parts = calloc((size_t)config->num_hidden_layers, sizeof *parts);
  if (!parts) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a cache");
  ch_state_parts(config, parts);
  ch_status status = ch_cache_create(&(ch_cache_shape){.layers = (int)config->num_hidden_layers,
                                                       .parts = parts,
                                                       .sequences = timeline->options.sequences,
                                                       .capacity = timeline->options.context,
                                                       .vocabulary = config->vocab_size,
                                                       .types = timeline->options.cache},
                                     &timeline->cache, error);
  free(parts);
  return status;
}

static ch_status check_options(const ch_config *config, const ch_timeline_options *options, ch_error *error) {
  if (options->sequences < 1 || options->context < 1 || options->chunk < 1 || options->context > INT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a session needs at least one sequence, one token of context and chunks of one token");
  for (int role = 0; role < CH_STATE_ROLES; role++)
    if (!ch_is_cache_type(options->cache.of[role]))
      return ch_fail(error, CH_ERROR_ARGUMENT, "the cache can be F32, F16, BF16, Q8_0 or Q4_0");
  if (config->sliding_window > 0 && options->context > config->sliding_window)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "the model has a sliding window of %lld tokens, which is not supported beyond it; ask for "
                   "a context of at most that",
                   (long long)config->sliding_window);
  if (options->precompute_gates && !config->attention.gate_embedding_dim)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "the model has no embedding gates to precompute (\"attention.gate_embedding_dim\" is 0)");
  return CH_OK;
}

ch_status ch_timeline_create(const ch_config *config, const ch_params *params, const ch_tensor *weights,
                             const ch_timeline_options *options, ch_timeline **result, ch_error *error) {
  *result = NULL;
  CH_TRY(ch_config_needs_text(config, "decoding", error));
  CH_TRY(check_options(config, options, error));
  ch_timeline *timeline = calloc(1, sizeof *timeline);
  if (!timeline) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a session");
  *timeline = (ch_timeline){.config = config, .params = params, .weights = weights, .options = *options};
  if (timeline->options.chunk > timeline->options.context)
    timeline->options.chunk = timeline->options.context;
  ch_status status = CH_OK;
  CH_TRY_GOTO(ch_engine_init(&timeline->engine, CH_F32, error));
  timeline->engine.compute = options->compute;
  CH_TRY_GOTO(create_cache(timeline, error));
  timeline->views = malloc((size_t)config->num_hidden_layers * sizeof *timeline->views);
  if (options->precompute_gates)
    CH_TRY_GOTO(ch_gate_table_fill(config, params, weights, timeline->engine.kernels, timeline->engine.gemm,
                                   timeline->cache, error));
  timeline->chunk = malloc((size_t)(options->sequences * timeline->options.chunk) * sizeof *timeline->chunk);
  if (!timeline->chunk || !timeline->views)
    status = ch_fail(error, CH_ERROR_MEMORY, "no memory for a session");
done:
  if (status != CH_OK)
    ch_timeline_free(timeline);
  else
    *result = timeline;
  return status;
}

void ch_timeline_free(ch_timeline *timeline) {
  if (!timeline) return;
  for (int i = 0; i < PLANS; i++) ch_runner_free(timeline->passes[i].runner);
  ch_cache_free(timeline->cache);
  ch_engine_free(&timeline->engine);
  free(timeline->views);
  free(timeline->chunk);
  free(timeline);
}

/* The planned pass of that shape, made when there is none (in place of the one unused for longest). */
static ch_status find_pass(ch_timeline *timeline, int64_t sequences, int64_t length, ch_head head,
                           ch_runner **runner, ch_error *error) {
  planned_pass *oldest = &timeline->passes[0];
  for (int i = 0; i < PLANS; i++) {
    planned_pass *pass = &timeline->passes[i];
    if (pass->runner && pass->sequences == sequences && pass->length == length && pass->head == head) {
      pass->last_use = ++timeline->clock;
      *runner = pass->runner;
      return CH_OK;
    }
    if (pass->last_use < oldest->last_use) oldest = pass;
  }
  ch_runner_free(oldest->runner);
  *oldest =
      (planned_pass){.sequences = sequences, .length = length, .head = head, .last_use = ++timeline->clock};
  ch_model_graph shape = {.sequences = sequences,
                          .length = length,
                          .dtype = CH_F32,
                          .head = head,
                          .remember = true,
                          .cache = timeline->options.cache,
                          .gates_known = timeline->options.precompute_gates,
                          .expand_gates = timeline->options.expand_gates};
  CH_TRY(ch_runner_create(&timeline->engine, timeline->config, timeline->params, &shape, false,
                          &oldest->runner, error));
  *runner = oldest->runner;
  return CH_OK;
}

/* A pass of sequences first ... first + sequences - 1. */
static ch_status pass(ch_timeline *timeline, int64_t first, int64_t sequences, const int32_t *tokens,
                      int64_t count, ch_head head, const float **logits, ch_error *error) {
  ch_runner *runner;
  CH_TRY(find_pass(timeline, sequences, count, head, &runner, error));
  ch_cache window;
  ch_cache_window(timeline->cache, first, sequences, timeline->views, &window);
  ch_runner_call call = {.weights = timeline->weights, .tokens = tokens, .cache = &window};
  const void *value = NULL;
  double start = ch_clock();
  CH_TRY(ch_runner_run(runner, &call, &value, error));
  ch_profile_span(timeline->engine.profile, count == 1 ? "token" : "tokens", start);
  *logits = value;
  return CH_OK;
}

/* Checked before anything is fed, so that a refused call leaves the timeline as it was. */
static ch_status check_tokens(const ch_timeline *timeline, int64_t sequence, int64_t sequences,
                              const int32_t *tokens, int64_t count, ch_error *error) {
  if (count < 1) return ch_fail(error, CH_ERROR_ARGUMENT, "no tokens to feed; at least one is needed");
  int64_t held = timeline->cache->length[sequence], capacity = timeline->cache->capacity;
  if (count > capacity - held)
    return ch_fail(error, CH_ERROR_FULL,
                   "the context holds %lld of %lld tokens and has no room for %lld more", (long long)held,
                   (long long)capacity, (long long)count);
  for (int64_t i = 0; i < sequences * count; i++)
    if (tokens[i] < 0 || tokens[i] >= timeline->config->vocab_size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "token id %d is outside the vocabulary of 0 to %lld",
                     tokens[i], (long long)timeline->config->vocab_size - 1);
  return CH_OK;
}

static ch_status feed(ch_timeline *timeline, int64_t sequence, int64_t sequences, const int32_t *tokens,
                      int64_t count, const float **logits, ch_error *error) {
  CH_TRY(check_tokens(timeline, sequence, sequences, tokens, count, error));
  for (int64_t first = 0; first < count; first += timeline->options.chunk) {
    int64_t length = count - first < timeline->options.chunk ? count - first : timeline->options.chunk;
    for (int64_t s = 0; s < sequences; s++)
      memcpy(timeline->chunk + s * length, tokens + s * count + first, (size_t)length * sizeof *tokens);
    CH_TRY(pass(timeline, sequence, sequences, timeline->chunk, length, CH_HEAD_LAST_LOGITS, logits, error));
  }
  return CH_OK;
}

ch_status ch_timeline_feed(ch_timeline *timeline, const int32_t *tokens, int64_t count, const float **logits,
                           ch_error *error) {
  return feed(timeline, 0, timeline->options.sequences, tokens, count, logits, error);
}

ch_status ch_timeline_feed_one(ch_timeline *timeline, int64_t sequence, const int32_t *tokens, int64_t count,
                               const float **logits, ch_error *error) {
  return feed(timeline, sequence, 1, tokens, count, logits, error);
}

ch_status ch_timeline_step(ch_timeline *timeline, int64_t count, const int32_t *tokens, const float **logits,
                           ch_error *error) {
  for (int64_t s = 0; s < count; s++) CH_TRY(check_tokens(timeline, s, 1, tokens + s, 1, error));
  return pass(timeline, 0, count, tokens, 1, CH_HEAD_LAST_LOGITS, logits, error);
}

void ch_timeline_copy(ch_timeline *timeline, int64_t from, int64_t to, int64_t length) {
  ch_cache_copy(timeline->cache, from, to, (int32_t)length);
}

ch_status ch_timeline_feed_all(ch_timeline *timeline, const int32_t *tokens, int64_t count,
                               const float **logits, ch_error *error) {
  int64_t sequences = timeline->options.sequences;
  CH_TRY(check_tokens(timeline, 0, sequences, tokens, count, error));
  return pass(timeline, 0, sequences, tokens, count, CH_HEAD_LOGITS, logits, error);
}

/* Ids that tokens might have had, where the cache keeps them, as frequent as words are: the logarithm of the rank is
   even (Zipf). */
static void pretend_tokens(ch_timeline *timeline, int64_t length, ch_random *random, const int32_t *ids,
                           int64_t id_count) {
  if (!timeline->cache->tokens) return;
  double vocabulary = (double)timeline->config->vocab_size;
  for (int64_t s = 0; s < timeline->cache->sequences; s++)
    for (int64_t t = 0; t < length; t++)
      ch_cache_tokens(timeline->cache, s)[t] =
          id_count ? ids[t % id_count] : (int32_t)(pow(vocabulary, ch_random_uniform(random)) - 1);
}

/* Made-up states: normal numbers, again and again. Parts are not multiples of so many, so that tokens differ. */
enum { MADE_UP = 2047 * 32 };

/* Fills a part of the cache with rows of those in its type. */
static void pretend_part(const ch_timeline *timeline, const ch_state_view *view, const float *numbers,
                         char *block) {
  const ch_kernels *kernels = timeline->engine.kernels;
  const ch_cache *cache = timeline->cache;
  size_t used = ch_dtype_bytes(view->dtype, MADE_UP),
         bytes = ch_dtype_bytes(view->dtype, cache->sequences * view->sequence_stride);
  if (ch_dtype_in_blocks(view->dtype))
    kernels->pack_states(1, MADE_UP, numbers, view->dtype, block);
  else
    kernels->convert_to(MADE_UP, numbers, view->dtype, block);
#pragma omp parallel for
  for (size_t at = 0; at < bytes; at += used)
    memcpy((char *)(uintptr_t)view->data + at, block, bytes - at < used ? bytes - at : used);
}

ch_status ch_timeline_pretend(ch_timeline *timeline, int64_t length, uint64_t seed, const int32_t *ids,
                              int64_t id_count, ch_error *error) {
  ch_cache *cache = timeline->cache;
  if (length < 0 || length > cache->capacity)
    return ch_fail(error, CH_ERROR_FULL, "a context of %lld tokens cannot hold %lld",
                   (long long)cache->capacity, (long long)length);
  float *numbers = malloc(MADE_UP * sizeof *numbers);
  char *block = malloc(MADE_UP * sizeof *numbers);
  if (!numbers || !block) {
    free(numbers);
    free(block);
    return ch_fail(error, CH_ERROR_MEMORY, "no memory to fill a cache");
  }
  ch_random random;
  ch_random_seed(&random, seed, 0);
  for (int64_t i = 0; i < MADE_UP; i++) numbers[i] = (float)ch_random_normal(&random);
  pretend_tokens(timeline, length, &random, ids, id_count);
  for (int l = 0; l < cache->layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++)
      if (ch_cache_holds(cache, l, p)) pretend_part(timeline, &cache->views[l][p], numbers, block);
  for (int64_t s = 0; s < cache->sequences; s++) cache->length[s] = (int32_t)length;
  free(numbers);
  free(block);
  return CH_OK;
}

void ch_timeline_rewind(ch_timeline *timeline, int64_t length) {
  ch_cache_truncate(timeline->cache, (int32_t)length);
}

int64_t ch_timeline_length(const ch_timeline *timeline) {
  return timeline->cache->length[0];
}

int64_t ch_timeline_vocabulary(const ch_timeline *timeline) {
  return timeline->config->vocab_size;
}

const ch_cache *ch_timeline_cache(const ch_timeline *timeline) {
  return timeline->cache;
}

void ch_timeline_profile(ch_timeline *timeline, ch_profile *profile) {
  timeline->engine.profile = profile;
}
