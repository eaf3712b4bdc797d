/* The decoding loop: one text or many in step. Between two tokens nothing is allocated but what the text of the longest
   piece needs, once. */
#include "infer/generate.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/progress.h"
#include "tensor/gemm.h"
#include "text/utf8.h"

enum { PROMPT_PASS = 512 }; /* tokens fed between two questions whether to stop */

/* A sequence of the timeline and the text that is being written into it. */
typedef struct place {
  ch_generation_text *text;
  const int32_t *prompt; /* whose states the sequence begins with, or NULL */
  int64_t prompt_count;
  ch_decode_stream stream;
  ch_text decoded, valid; /* reused for every token */
  double start;
  int32_t token; /* chosen, not fed yet */
  bool chosen, stopped, done;
} place;

/* One call's state. */
typedef struct generation {
  ch_timeline *timeline;
  const ch_tokenizer *tokenizer;
  ch_generation_text *texts;       /* all of them */
  ch_generation_text *next, *last; /* those that wait: from next to before last */
  bool continues;                  /* the first text goes on from what the timeline holds */
  place *places;
  int64_t count, active; /* places; those with a text come first */
  int32_t *tokens;       /* [count] */
  char *scratch;         /* of sampling, for every thread */
  int64_t vocabulary;
  /* What follows the prompt fed last, for texts that begin with the same one. */
  const int32_t *prompt;
  int64_t prompt_count;
  float *prompt_logits;
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
static ch_status hand_over(place *p, int32_t id, bool *go_on, ch_error *error) {
  const ch_generation_options *options = &p->text->options;
  p->valid.size = 0;
  ch_put_valid_utf8(&p->valid, p->decoded.data ? p->decoded.data : "", p->decoded.size);
  if (p->valid.failed || p->decoded.failed)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for a token's text");
  *go_on = !options->sink ||
           options->sink(options->context, id, p->valid.data ? p->valid.data : "", p->valid.size);
  return CH_OK;
}

/* The text that a token completes, left in `decoded`. Ids beyond the tokenizer's (padded vocabularies) have none. */
static ch_status decode(const generation *g, place *p, int32_t id, ch_error *error) {
  size_t size;
  p->decoded.size = 0;
  if (!g->tokenizer || !ch_tokenizer_piece(g->tokenizer, id, &size)) return CH_OK;
  return ch_decode_next(g->tokenizer, &p->stream, id, true, &p->decoded, error);
}

static ch_status finish_text(const generation *g, place *p, ch_error *error) {
  p->text->result.decode_seconds = ch_clock() - p->start;
  if (!g->tokenizer) return CH_OK;
  bool go_on;
  p->decoded.size = 0;
  ch_decode_finish(&p->stream, &p->decoded);
  return p->decoded.size > 0 ? hand_over(p, -1, &go_on, error) : CH_OK;
}

/* --- the prompt ---------------------------------------------------------------------------------------------- */

static int64_t held(const generation *g, const place *p) {
  return ch_timeline_cache(g->timeline)->length[p - g->places];
}

static ch_status check_prompt(const generation *g, const ch_generation_text *text, int64_t before,
                              ch_error *error) {
  int64_t capacity = ch_timeline_cache(g->timeline)->capacity;
  if (!text->prompt || text->count < 1)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "the prompt is empty and the tokenizer has no beginning-of-text token to start from; give at "
        "least one token");
  if (before + text->count > capacity)
    return ch_fail(error, CH_ERROR_FULL, "the prompt has %lld tokens%s and the context has room for %lld",
                   (long long)text->count, before ? " more" : "", (long long)(capacity - before));
  return CH_OK;
}

static ch_status feed_prompt(generation *g, place *p, const float **logits, bool *go_on, ch_error *error) {
  ch_generation_text *text = p->text;
  for (int64_t first = 0; first < text->count && *go_on; first += PROMPT_PASS) {
    int64_t length = text->count - first < PROMPT_PASS ? text->count - first : PROMPT_PASS;
    double start = ch_clock();
    CH_TRY(ch_timeline_feed_one(g->timeline, p - g->places, text->prompt + first, length, logits, error));
    text->result.prefill_seconds += ch_clock() - start;
    text->result.prompt_tokens += length;
    p->decoded.size = 0;
    CH_TRY(hand_over(p, -1, go_on, error));
  }
  return CH_OK;
}

/* A sequence that begins with the prompt fed last: the place itself, where it can be; or -1. */
static int64_t find_prompt(const generation *g, const place *p) {
  const ch_generation_text *text = p->text;
  if (!g->prompt || g->prompt != text->prompt || g->prompt_count != text->count) return -1;
  if (p->prompt == g->prompt && p->prompt_count == g->prompt_count) return p - g->places;
  for (int64_t i = 0; i < g->count; i++)
    if (g->places[i].prompt == g->prompt && g->places[i].prompt_count == g->prompt_count) return i;
  return -1;
}

/* Only where another text will look at them. */
static void keep_logits(generation *g, const place *p, const float *logits) {
  const ch_generation_text *text = p->text;
  if (g->next == g->last || g->next->prompt != text->prompt || g->next->count != text->count) return;
  g->prompt = text->prompt;
  g->prompt_count = text->count;
  for (int64_t i = 0; i < g->vocabulary; i++) g->prompt_logits[i] = logits[i];
}

/* The prompt's states and the logits after it, computed or another's. */
static ch_status read_prompt(generation *g, place *p, const float **logits, bool *go_on, ch_error *error) {
  const ch_generation_text *text = p->text;
  int64_t from = g->continues ? -1 : find_prompt(g, p);
  p->prompt = NULL;
  if (from >= 0) {
    ch_timeline_copy(g->timeline, from, p - g->places, text->count);
    *logits = g->prompt_logits;
  } else {
    if (!g->continues) ch_timeline_copy(g->timeline, p - g->places, p - g->places, 0);
    CH_TRY(feed_prompt(g, p, logits, go_on, error));
    if (!*go_on) return CH_OK;
    if (g->prompt_logits) keep_logits(g, p, *logits);
  }
  p->prompt = text->prompt;
  p->prompt_count = text->count;
  /* The stream must know what stands before the first token written: whether a space is due, say. */
  for (int64_t i = 0; i < text->count; i++) CH_TRY(decode(g, p, text->prompt[i], error));
  return CH_OK;
}

/* --- token by token ------------------------------------------------------------------------------------------ */

static bool ends_text(const ch_generation_options *options, int32_t id) {
  for (int i = 0; i < options->end_token_count; i++)
    if (options->end_tokens[i] == id) return true;
  return false;
}

/* A place's next token, or the end of its text. */
static void choose(const generation *g, place *p, const float *logits, char *scratch) {
  ch_generation_text *text = p->text;
  bool enough = text->options.max_tokens > 0 && text->result.tokens >= text->options.max_tokens;
  bool full = held(g, p) >= ch_timeline_cache(g->timeline)->capacity;
  p->chosen = false;
  if (p->stopped || enough || full) {
    text->result.end = p->stopped ? CH_GENERATION_STOPPED
                       : enough   ? CH_GENERATION_LENGTH
                                  : CH_GENERATION_FULL;
    p->done = true;
    return;
  }
  text->status = ch_sample_token(&text->options.sampling, &text->options.random, logits, g->vocabulary,
                                 scratch, &p->token, &text->error);
  p->chosen = text->status == CH_OK;
  if (p->chosen) return;
  text->result.end = CH_GENERATION_FAILED;
  p->done = true;
}

/* Hands over the token that a place chose. */
static ch_status take(const generation *g, place *p, ch_error *error) {
  bool go_on;
  if (!p->chosen) return CH_OK;
  if (ends_text(&p->text->options, p->token)) {
    p->text->result.end = CH_GENERATION_ENDED;
    p->done = true;
    return CH_OK;
  }
  CH_TRY(decode(g, p, p->token, error));
  CH_TRY(hand_over(p, p->token, &go_on, error));
  p->stopped = !go_on;
  return CH_OK;
}

/* Feeds what all places chose and lets them choose again, each on a thread. */
static ch_status step(generation *g, ch_error *error) {
  const float *logits;
  for (int64_t i = 0; i < g->active; i++) g->tokens[i] = g->places[i].token;
  CH_TRY(ch_timeline_step(g->timeline, g->active, g->tokens, &logits, error));
  const size_t scratch = ch_sampling_scratch(g->vocabulary);
  if (g->active == 1) {
    g->places[0].text->result.tokens++;
    choose(g, &g->places[0], logits, g->scratch);
  } else {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < g->active; i++) {
      g->places[i].text->result.tokens++;
      choose(g, &g->places[i], logits + i * g->vocabulary,
             g->scratch + (size_t)omp_get_thread_num() * scratch);
    }
  }
  for (int64_t i = 0; i < g->active; i++) CH_TRY(take(g, &g->places[i], error));
  return CH_OK;
}

/* --- texts come and go --------------------------------------------------------------------------------------- */

/* Reads a text's prompt into a place and chooses its first token. */
static ch_status begin(generation *g, place *p, ch_generation_text *text, ch_error *error) {
  const float *logits = NULL;
  bool go_on = true;
  ch_decode_stream fresh = {0};
  p->text = text;
  p->stream = fresh;
  p->done = p->stopped = p->chosen = false;
  p->decoded.size = 0;
  CH_TRY(hand_over(p, -1, &go_on, error));
  if (go_on) CH_TRY(read_prompt(g, p, &logits, &go_on, error));
  p->start = ch_clock();
  p->done = !go_on;
  if (!go_on) return CH_OK;
  choose(g, p, logits, g->scratch);
  return take(g, p, error);
}

/* Ends what is done at a place and gives it the next text, if there is one that has more to say. */
static ch_status refill(generation *g, place *p, ch_error *error) {
  while (!p->text || p->done) {
    if (p->text) CH_TRY(finish_text(g, p, error));
    p->text = NULL;
    if (g->next == g->last) return CH_OK;
    CH_TRY(begin(g, p, g->next++, error));
  }
  return CH_OK;
}

/* The last text moves to a place that is empty, so that those in step stand side by side. */
static void move_last(generation *g, place *p) {
  place *last = &g->places[--g->active], empty = *p;
  if (p == last) return;
  ch_timeline_copy(g->timeline, last - g->places, p - g->places, held(g, last));
  *p = *last;
  empty.prompt = NULL;
  *last = empty;
}

static ch_status run(generation *g, ch_error *error) {
  g->active = g->count;
  for (bool any = true; any;) {
    for (int64_t i = 0; i < g->active;) {
      place *p = &g->places[i];
      CH_TRY(refill(g, p, error));
      if (p->text)
        i++;
      else
        move_last(g, p);
    }
    any = g->active > 0;
    if (any) CH_TRY(step(g, error));
  }
  return CH_OK;
}

/* Says which of several texts an error is about. */
static void name_text(const generation *g, const ch_generation_text *text, ch_error *error) {
  char name[40];
  snprintf(name, sizeof name, "texts[%lld]", (long long)(text - g->texts));
  if (!g->continues && error) ch_fail_in(error, name);
}

static ch_status check(const generation *g, ch_error *error) {
  for (ch_generation_text *text = g->next; text < g->last; text++) {
    text->result = (ch_generation_result){.end = CH_GENERATION_STOPPED};
    text->status = CH_OK;
    ch_status status = ch_sampling_check(&text->options.sampling, error);
    if (status == CH_OK)
      status = check_prompt(g, text, g->continues ? ch_timeline_length(g->timeline) : 0, error);
    if (status != CH_OK) return name_text(g, text, error), status;
  }
  return CH_OK;
}

static ch_status reserve(generation *g, ch_error *error) {
  const size_t threads = g->count > 1 ? (size_t)omp_get_max_threads() : 1;
  g->vocabulary = ch_timeline_vocabulary(g->timeline);
  g->places = calloc((size_t)g->count, sizeof *g->places);
  g->tokens = malloc((size_t)g->count * sizeof *g->tokens);
  g->scratch = malloc(threads * ch_sampling_scratch(g->vocabulary));
  if (!g->continues) g->prompt_logits = malloc((size_t)g->vocabulary * sizeof *g->prompt_logits);
  return g->places && g->tokens && g->scratch && (g->continues || g->prompt_logits)
             ? CH_OK
             : ch_fail(error, CH_ERROR_MEMORY, "no memory to choose among %lld tokens",
                       (long long)g->vocabulary);
}

/* The first failure of a text by itself. */
static ch_status first_failure(const generation *g, ch_error *error) {
  for (const ch_generation_text *text = g->texts; text < g->last; text++)
    if (text->status != CH_OK) {
      if (error) *error = text->error;
      name_text(g, text, error);
      return text->status;
    }
  return CH_OK;
}

static ch_status generate(generation *g, ch_error *error) {
  g->texts = g->next;
  CH_TRY(check(g, error));
  ch_status status = reserve(g, error);
  if (status == CH_OK) status = run(g, error);
  if (status == CH_OK) status = first_failure(g, error);
  for (int64_t i = 0; g->places && i < g->count; i++) {
    ch_text_free(&g->places[i].decoded);
    ch_text_free(&g->places[i].valid);
  }
  free(g->places);
  free(g->tokens);
  free(g->scratch);
  free(g->prompt_logits);
  return status;
}

ch_status ch_generate_texts(ch_timeline *timeline, const ch_tokenizer *tokenizer, ch_generation_text *texts,
                            int64_t count, ch_error *error) {
  int64_t places = ch_timeline_cache(timeline)->sequences;
  if (places > CH_FEW_ROWS) places = CH_FEW_ROWS;
  if (count < 1) return CH_OK;
  generation g = {.timeline = timeline,
                  .tokenizer = tokenizer,
                  .next = texts,
                  .last = texts + count,
                  .count = count < places ? count : places};
  return generate(&g, error);
}

ch_status ch_generate_tokens(ch_timeline *timeline, const ch_tokenizer *tokenizer, const int32_t *prompt,
                             int64_t count, ch_generation_options *options, ch_generation_result *result,
                             ch_error *error) {
  ch_generation_text text = {.prompt = prompt, .count = count, .options = *options};
  generation g = {.timeline = timeline,
                  .tokenizer = tokenizer,
                  .next = &text,
                  .last = &text + 1,
                  .count = 1,
                  .continues = true};
  ch_status status = generate(&g, error);
  options->random = text.options.random;
  *result = text.result;
  return status;
}
