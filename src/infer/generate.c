/* The decoding loop. Between two tokens nothing is allocated but what the text of the longest piece needs, once. */
#include "infer/generate.h"

#include <stdlib.h>

#include "base/progress.h"
#include "text/utf8.h"

enum { PROMPT_PASS = 512 }; /* tokens fed between two questions whether to stop */

/* One call's state. */
typedef struct generation {
  ch_timeline *timeline;
  const ch_tokenizer *tokenizer;
  ch_generation_options *options;
  ch_generation_result *result;
  void *scratch; /* of sampling; NULL when greedy */
  ch_decode_stream stream;
  ch_text decoded, valid; /* reused for every token */
} generation;

void ch_put_valid_utf8(ch_text *text, const char *bytes, size_t size) {
  while (size > 0) {
    size_t good = ch_utf8_valid_prefix((const unsigned char *)bytes, size);
    ch_text_put(text, bytes, good);
    if (good == size) return;
    ch_text_puts(text, "\xef\xbf\xbd");
    bytes += good + 1;
    size -= good + 1;
  }
}

/* --- text ---------------------------------------------------------------------------------------------------- */

/* Hands the sink what lies in `decoded`. */
static ch_status hand_over(generation *g, int32_t id, bool *go_on, ch_error *error) {
  g->valid.size = 0;
  ch_put_valid_utf8(&g->valid, g->decoded.data ? g->decoded.data : "", g->decoded.size);
  if (g->valid.failed || g->decoded.failed)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for a token's text");
  *go_on = !g->options->sink ||
           g->options->sink(g->options->context, id, g->valid.data ? g->valid.data : "", g->valid.size);
  return CH_OK;
}

/* The text that a token completes, left in `decoded`. Ids beyond the tokenizer's (padded vocabularies) have none. */
static ch_status decode(generation *g, int32_t id, ch_error *error) {
  size_t size;
  g->decoded.size = 0;
  if (!g->tokenizer || !ch_tokenizer_piece(g->tokenizer, id, &size)) return CH_OK;
  return ch_decode_next(g->tokenizer, &g->stream, id, true, &g->decoded, error);
}

static ch_status finish_text(generation *g, ch_error *error) {
  if (!g->tokenizer) return CH_OK;
  bool go_on;
  g->decoded.size = 0;
  ch_decode_finish(&g->stream, &g->decoded);
  return g->decoded.size > 0 ? hand_over(g, -1, &go_on, error) : CH_OK;
}

/* --- the prompt ---------------------------------------------------------------------------------------------- */

static ch_status check_prompt(const generation *g, const int32_t *prompt, int64_t count, ch_error *error) {
  int64_t held = ch_timeline_length(g->timeline), capacity = ch_timeline_cache(g->timeline)->capacity;
  if (!prompt || count < 1)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "the prompt is empty and the tokenizer has no beginning-of-text token to start from; give at "
        "least one token");
  if (held + count > capacity)
    return ch_fail(error, CH_ERROR_FULL, "the prompt has %lld tokens%s and the context has room for %lld",
                   (long long)count, held ? " more" : "", (long long)(capacity - held));
  return CH_OK;
}

static ch_status feed_prompt(generation *g, const int32_t *prompt, int64_t count, const float **logits,
                             bool *go_on, ch_error *error) {
  *go_on = true;
  for (int64_t first = 0; first < count && *go_on; first += PROMPT_PASS) {
    int64_t length = count - first < PROMPT_PASS ? count - first : PROMPT_PASS;
    double start = ch_clock();
    CH_TRY(ch_timeline_feed(g->timeline, prompt + first, length, logits, error));
    g->result->prefill_seconds += ch_clock() - start;
    g->result->prompt_tokens += length;
    g->decoded.size = 0;
    CH_TRY(hand_over(g, -1, go_on, error));
  }
  /* The stream must know what stands before the first token written: whether a space is due, say. */
  for (int64_t i = 0; i < count; i++) CH_TRY(decode(g, prompt[i], error));
  return CH_OK;
}

/* --- token by token ------------------------------------------------------------------------------------------ */

static bool ends_text(const ch_generation_options *options, int32_t id) {
  for (int i = 0; i < options->end_token_count; i++)
    if (options->end_tokens[i] == id) return true;
  return false;
}

static bool is_full(const generation *g) {
  return ch_timeline_length(g->timeline) >= ch_timeline_cache(g->timeline)->capacity;
}

/* Chooses a token, writes it and feeds it back. *done when the text has ended. */
static ch_status step(generation *g, int64_t vocabulary, const float **logits, bool *done, ch_error *error) {
  ch_generation_options *options = g->options;
  int32_t id;
  *done = true;
  CH_TRY(ch_sample_token(&options->sampling, &options->random, *logits, vocabulary, g->scratch, &id, error));
  if (ends_text(options, id)) {
    g->result->end = CH_GENERATION_ENDED;
    return CH_OK;
  }
  bool go_on;
  CH_TRY(decode(g, id, error));
  CH_TRY(hand_over(g, id, &go_on, error));
  CH_TRY(ch_timeline_feed(g->timeline, &id, 1, logits, error));
  g->result->tokens++;
  g->result->end = CH_GENERATION_STOPPED;
  *done = !go_on;
  return CH_OK;
}

static ch_status write_text(generation *g, int64_t vocabulary, const float *logits, ch_error *error) {
  bool done = false;
  while (!done) {
    bool enough = g->options->max_tokens > 0 && g->result->tokens >= g->options->max_tokens;
    if (enough || is_full(g)) {
      g->result->end = enough ? CH_GENERATION_LENGTH : CH_GENERATION_FULL;
      return CH_OK;
    }
    CH_TRY(step(g, vocabulary, &logits, &done, error));
  }
  return CH_OK;
}

static ch_status run(generation *g, const int32_t *prompt, int64_t count, ch_error *error) {
  int64_t vocabulary = ch_timeline_vocabulary(g->timeline);
  if (g->options->sampling.temperature > 0) {
    g->scratch = malloc(ch_sampling_scratch(vocabulary));
    if (!g->scratch)
      return ch_fail(error, CH_ERROR_MEMORY, "no memory to choose among %lld tokens", (long long)vocabulary);
  }
  const float *logits = NULL;
  bool go_on;
  CH_TRY(feed_prompt(g, prompt, count, &logits, &go_on, error));
  if (!go_on) return CH_OK;
  double start = ch_clock();
  ch_status status = write_text(g, vocabulary, logits, error);
  g->result->decode_seconds = ch_clock() - start;
  return status == CH_OK ? finish_text(g, error) : status;
}

ch_status ch_generate_tokens(ch_timeline *timeline, const ch_tokenizer *tokenizer, const int32_t *prompt,
                             int64_t count, ch_generation_options *options, ch_generation_result *result,
                             ch_error *error) {
  generation g = {.timeline = timeline, .tokenizer = tokenizer, .options = options, .result = result};
  *result = (ch_generation_result){.end = CH_GENERATION_STOPPED};
  CH_TRY(ch_sampling_check(&options->sampling, error));
  CH_TRY(check_prompt(&g, prompt, count, error));
  ch_status status = run(&g, prompt, count, error);
  free(g.scratch);
  ch_text_free(&g.decoded);
  ch_text_free(&g.valid);
  return status;
}
