/* The decoding loop: one text, or many batched. Between two tokens nothing is allocated, except once: the
   buffer for the text of the longest piece. */
#include "infer/generate.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "infer/log_probability.h"
#include "infer/stop_strings.h"
#include "tensor/gemm.h"
#include "base/utf8.h"

_Static_assert((int)CH_BATCH_MOST == (int)CH_SKINNY_ROWS, "a step is one skinny product");

enum { MOST_TOP = 100 };

/* A sequence of the session and the text that is being written into it. */
typedef struct slot {
  ch_generation_text *text;
  const int32_t *prompt; /* whose states the sequence begins with, or NULL */
  int64_t prompt_count;
  ch_decode_stream stream;
  size_t owed; /* bytes of a character that the prompt left unfinished, which the stream withholds */
  ch_text decoded, valid; /* of one token; reused for every one */
  ch_text held;           /* with stop strings: text that the sink did not get yet */
  double start;
  int32_t token; /* chosen, not fed yet */
  double log_probability;
  ch_token_probability *top; /* [top_count] */
  bool chosen;
  bool ends; /* once the chosen token is fed, for the reason in the result */
  bool done;
} slot;

/* One call's state. */
typedef struct generation {
  ch_session *session;
  const ch_tokenizer *tokenizer;
  ch_generation_text *texts;       /* all of them */
  ch_generation_text *next, *last; /* those that wait: from `next` to `last` - 1 */
  bool continues;                  /* the first text continues what the session holds */
  slot *slots;
  int64_t count, active; /* slots; those with a text come first */
  ch_token_probability *top;
  int32_t *tokens; /* [count] */
  char *scratch;   /* of sampling, for every thread */
  int64_t vocabulary;
  /* The state after the prompt fed last, for texts that begin with it too. */
  const int32_t *prompt;
  int64_t prompt_count;
  float *prompt_logits;
} generation;

/* --- text ---------------------------------------------------------------------------------------------------- */

/* The text is to end once its chosen token is fed. */
static void end_after_token(slot *p, ch_end why) {
  p->ends = true;
  p->text->asked->generated.end = why;
}

/* Hands over a token, or -1, and the whole characters that it completes. */
static bool call_sink(const slot *p, int32_t id, const char *text, size_t size) {
  const ch_batch_text *asked = p->text->asked;
  if (asked->ids && id >= 0) { /* there is room, unless several texts share the list */
    if (!ch_ids_reserve(asked->ids, 1)) return false;
    asked->ids->data[asked->ids->size++] = id;
  }
  return size == 0 || !asked->sink || asked->sink(text, size, asked->user);
}

/* Appends `valid` to `held`, and hands the sink the bytes that cannot be part of a stop string. */
static ch_status hand_over_held(slot *p, int32_t id, bool *go_on, ch_error *error) {
  const ch_batch_text *asked = p->text->asked;
  size_t seen = p->held.size;
  int found = -1;
  ch_text_put(&p->held, p->valid.data ? p->valid.data : "", p->valid.size);
  if (p->held.failed) return ch_no_memory(error);
  size_t ready = ch_stops_search(asked->stops, asked->stop_count, p->held.data, p->held.size, seen, &found);
  *go_on = call_sink(p, id, p->held.data, ready);
  memmove(p->held.data, p->held.data + ready, p->held.size - ready);
  p->held.size -= ready;
  if (found < 0 || !*go_on) return CH_OK;
  p->held.size = 0;
  p->text->asked->generated.stop_string = found;
  end_after_token(p, CH_END_STRING);
  return CH_OK;
}

/* Hands the sink what lies in `decoded`. */
static ch_status hand_over(slot *p, int32_t id, bool *go_on, ch_error *error) {
  p->valid.size = 0;
  ch_put_valid_utf8(&p->valid, p->decoded.data ? p->decoded.data : "", p->decoded.size);
  if (p->valid.failed || p->decoded.failed) return ch_no_memory(error);
  if (p->text->asked->stop_count > 0) return hand_over_held(p, id, go_on, error);
  *go_on = call_sink(p, id, p->valid.data, p->valid.size);
  return CH_OK;
}

/* The text that a token completes, left in `decoded`. Ids beyond the tokenizer's (padded vocabularies) have none. */
static ch_status decode(const generation *g, slot *p, int32_t id, ch_error *error) {
  size_t size;
  p->decoded.size = 0;
  if (!g->tokenizer || !ch_tokenizer_piece(g->tokenizer, id, &size)) return CH_OK;
  return ch_decode_next(g->tokenizer, &p->stream, id, true, &p->decoded, error);
}

/* The prompt's unfinished character is part of the text if the text completed it; else its bytes are left out. */
static void settle_with_prompt(slot *p) {
  uint32_t character;
  const unsigned char *text = (const unsigned char *)p->decoded.data;
  if (p->owed == 0 || p->decoded.size < p->owed) return;
  if (ch_utf8_decode(text, text + p->decoded.size, &character) > p->owed) {
    p->text->asked->prompt_bytes = (int32_t)p->owed;
  } else {
    p->decoded.size -= p->owed;
    memmove(p->decoded.data, p->decoded.data + p->owed, p->decoded.size);
  }
  p->owed = 0;
}

/* The text that is held back: an unfinished character, or the beginning of a stop string that did not come. */
static ch_status finish_text(const generation *g, slot *p, ch_error *error) {
  bool go_on = true;
  p->text->asked->generated.decode_seconds = ch_clock() - p->start;
  if (!g->tokenizer || p->text->asked->generated.end == CH_END_STRING) return CH_OK;
  p->decoded.size = 0;
  ch_decode_finish(&p->stream, &p->decoded);
  settle_with_prompt(p);
  if (p->decoded.size > 0) CH_TRY(hand_over(p, -1, &go_on, error));
  if (go_on && p->text->asked->generated.end != CH_END_STOPPED && p->held.size > 0)
    call_sink(p, -1, p->held.data, p->held.size);
  return CH_OK;
}

/* --- the prompt ---------------------------------------------------------------------------------------------- */

static int64_t held(const generation *g, const slot *p) {
  return ch_session_cache(g->session)->length[p - g->slots];
}

static ch_status check_prompt(const generation *g, const ch_generation_text *text, int64_t before,
                              ch_error *error) {
  int64_t capacity = ch_session_cache(g->session)->capacity;
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

/* The slot's sequence becomes the first `length` tokens of sequence `from`. */
static ch_status copy_slot(const generation *g, int64_t from, const slot *to, int64_t length,
                           ch_error *error) {
  return ch_session_copy(g->session, (int32_t)from, (int32_t)(to - g->slots), length, error);
}

/* *go_on becomes false where the session's progress callback cancels. */
static ch_status feed_prompt(generation *g, slot *p, const float **logits, bool *go_on, ch_error *error) {
  const ch_generation_text *text = p->text;
  ch_generated *generated = &text->asked->generated;
  double start = ch_clock();
  int64_t before = held(g, p);
  ch_status status = ch_session_feed_one(g->session, (int32_t)(p - g->slots), text->prompt,
                                         (size_t)text->count, logits, error);
  generated->prefill_seconds += ch_clock() - start;
  if (held(g, p) > before) generated->prompt_tokens += held(g, p) - before;
  *go_on = status != CH_ERROR_INTERRUPTED;
  return *go_on ? status : CH_OK;
}

/* Returns true if a slot's sequence begins with the prompt fed last, and can go back to its end. */
static bool has_prompt(const generation *g, const slot *p) {
  return p->prompt == g->prompt && p->prompt_count == g->prompt_count &&
         ch_cache_can_go_back(ch_session_cache(g->session), p - g->slots, (int32_t)g->prompt_count);
}

/* Such a sequence: the slot itself, where it can be; or -1. */
static int64_t find_prompt(const generation *g, const slot *p) {
  const ch_generation_text *text = p->text;
  if (!g->prompt || g->prompt != text->prompt || g->prompt_count != text->count) return -1;
  if (has_prompt(g, p)) return p - g->slots;
  for (int64_t i = 0; i < g->count; i++)
    if (has_prompt(g, &g->slots[i])) return i;
  return -1;
}

/* Only if another text needs them. */
static void keep_logits(generation *g, const slot *p, const float *logits) {
  const ch_generation_text *text = p->text;
  if (g->next == g->last || g->next->prompt != text->prompt || g->next->count != text->count) return;
  g->prompt = text->prompt;
  g->prompt_count = text->count;
  for (int64_t i = 0; i < g->vocabulary; i++) g->prompt_logits[i] = logits[i];
}

/* The prompt's states and the logits after it, computed or another's. */
static ch_status read_prompt(generation *g, slot *p, const float **logits, bool *go_on, ch_error *error) {
  const ch_generation_text *text = p->text;
  int64_t from = g->continues ? -1 : find_prompt(g, p);
  p->prompt = NULL;
  if (from >= 0) {
    CH_TRY(copy_slot(g, from, p, text->count, error));
    *logits = g->prompt_logits;
  } else {
    if (!g->continues) CH_TRY(copy_slot(g, p - g->slots, p, 0, error));
    CH_TRY(feed_prompt(g, p, logits, go_on, error));
    if (*go_on && g->prompt_logits) keep_logits(g, p, *logits);
  }
  /* A prompt that is copied, or short, is not cancelled within itself. */
  *go_on = *go_on && ch_session_goes_on(g->session, text->count, text->count);
  if (!*go_on) {
    g->next = g->last; /* nor is another text begun */
    return CH_OK;
  }
  p->prompt = text->prompt;
  p->prompt_count = text->count;
  /* The decoder must know what comes before the first generated token, for example to decide about a space.
     */
  for (int64_t i = 0; i < text->count; i++) CH_TRY(decode(g, p, text->prompt[i], error));
  p->owed = p->stream.pending_size;
  text->asked->prompt_bytes = 0;
  return CH_OK;
}

/* --- token by token ------------------------------------------------------------------------------------------ */

static bool ends_text(const ch_generation_text *text, int32_t id) {
  for (int i = 0; i < text->end_token_count; i++)
    if (text->end_tokens[i] == id) return true;
  return false;
}

/* Notes the probabilities of the chosen token for the token sink. */
static void note_probabilities(const generation *g, slot *p, const float *logits) {
  const ch_batch_text *asked = p->text->asked;
  if (!asked->token_sink) return;
  double log_sum = ch_log_sum_exp(logits, g->vocabulary);
  p->log_probability = logits[p->token] - log_sum;
  if (asked->top_count > 0) ch_likeliest(logits, g->vocabulary, log_sum, p->top, asked->top_count);
}

/* A slot's next token, or the end of its text. */
static void choose(const generation *g, slot *p, const float *logits, char *scratch) {
  ch_generation_text *text = p->text;
  ch_batch_text *asked = text->asked;
  bool enough = asked->max_tokens > 0 && asked->generated.tokens >= asked->max_tokens;
  bool full = held(g, p) >= ch_session_capacity(g->session);
  p->chosen = false;
  if (p->ends || enough || full) {
    if (!p->ends) asked->generated.end = enough ? CH_END_LIMIT : CH_END_FULL;
    p->done = true;
    return;
  }
  asked->status = ch_sample_token(&text->sampler, logits, g->vocabulary, scratch, &p->token, &text->error);
  p->chosen = asked->status == CH_OK;
  if (p->chosen) {
    note_probabilities(g, p, logits);
    return;
  }
  asked->generated.end = CH_END_ERROR;
  p->done = true;
}

static bool call_token_sink(const slot *p) {
  const ch_batch_text *asked = p->text->asked;
  const ch_token_probability token = {p->token, p->log_probability};
  return !asked->token_sink || asked->token_sink(&token, p->top, asked->top_count, asked->user);
}

/* Hands over the token that a slot chose. */
static ch_status take(const generation *g, slot *p, ch_error *error) {
  bool go_on = true;
  if (!p->chosen) return CH_OK;
  if (ends_text(p->text, p->token)) {
    p->text->asked->generated.end = CH_END_TOKEN;
    p->done = true;
    return CH_OK;
  }
  if (!call_token_sink(p)) {
    end_after_token(p, CH_END_STOPPED);
    return CH_OK;
  }
  CH_TRY(decode(g, p, p->token, error));
  settle_with_prompt(p);
  CH_TRY(hand_over(p, p->token, &go_on, error));
  if (!go_on) end_after_token(p, CH_END_STOPPED);
  return CH_OK;
}

/* Feeds what all slots chose and lets them choose again, each on a thread. */
static ch_status step(generation *g, ch_error *error) {
  const float *logits;
  for (int64_t i = 0; i < g->active; i++) g->tokens[i] = g->slots[i].token;
  CH_TRY(ch_session_step(g->session, (size_t)g->active, g->tokens, &logits, error));
  const size_t scratch = ch_sampling_scratch(g->vocabulary);
  if (g->active == 1) {
    g->slots[0].text->asked->generated.tokens++;
    choose(g, &g->slots[0], logits, g->scratch);
  } else {
#pragma omp parallel for schedule(static) num_threads(ch_session_team(g->session)->workers)
    for (int64_t i = 0; i < g->active; i++) {
      g->slots[i].text->asked->generated.tokens++;
      choose(g, &g->slots[i], logits + i * g->vocabulary,
             g->scratch + (size_t)omp_get_thread_num() * scratch);
    }
  }
  for (int64_t i = 0; i < g->active; i++) CH_TRY(take(g, &g->slots[i], error));
  return CH_OK;
}

/* --- texts come and go --------------------------------------------------------------------------------------- */

/* Reads a text's prompt into a slot and chooses its first token. */
static ch_status begin(generation *g, slot *p, ch_generation_text *text, ch_error *error) {
  const float *logits = NULL;
  bool go_on = true;
  ch_decode_stream fresh = {0};
  p->text = text;
  p->stream = fresh;
  p->done = p->ends = p->chosen = false;
  p->held.size = 0;
  CH_TRY(read_prompt(g, p, &logits, &go_on, error));
  p->start = ch_clock();
  p->done = !go_on;
  if (!go_on) return CH_OK;
  choose(g, p, logits, g->scratch);
  return take(g, p, error);
}

/* Ends the text of a slot and gives the slot the next text that is not over at once, if there is one. */
static ch_status refill(generation *g, slot *p, ch_error *error) {
  while (!p->text || p->done) {
    if (p->text) CH_TRY(finish_text(g, p, error));
    p->text = NULL;
    if (g->next == g->last) return CH_OK;
    CH_TRY(begin(g, p, g->next++, error));
  }
  return CH_OK;
}

/* The last text moves to an empty slot, so that the slots in use lie side by side. */
static ch_status move_last(generation *g, slot *p, ch_error *error) {
  slot *last = &g->slots[--g->active], empty = *p;
  if (p == last) return CH_OK;
  CH_TRY(copy_slot(g, last - g->slots, p, held(g, last), error));
  *p = *last;
  empty.prompt = NULL;
  *last = empty;
  return CH_OK;
}

static ch_status run(generation *g, ch_error *error) {
  g->active = g->count;
  for (bool any = true; any;) {
    for (int64_t i = 0; i < g->active;) {
      slot *p = &g->slots[i];
      CH_TRY(refill(g, p, error));
      if (p->text)
        i++;
      else
        CH_TRY(move_last(g, p, error));
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

static ch_status check_stops(const generation *g, const ch_generation_text *text, ch_error *error) {
  const ch_batch_text *asked = text->asked;
  if (asked->stop_count > 0 && !g->tokenizer)
    return ch_fail(error, CH_ERROR_ARGUMENT, "stop strings need a tokenizer, and the model has none");
  return ch_stops_check(asked->stops, asked->stop_count, error);
}

static ch_status check_top(const generation *g, const ch_generation_text *text, ch_error *error) {
  int32_t most = g->vocabulary < MOST_TOP ? (int32_t)g->vocabulary : MOST_TOP;
  int32_t asked = text->asked->top_count;
  if (asked >= 0 && asked <= most) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "top_count is %d; it must be from 0 to %d", asked, most);
}

/* Room for the ids of a whole text, so that a token allocates nothing. */
static ch_status reserve_ids(const generation *g, const ch_generation_text *text, ch_error *error) {
  int64_t most = ch_session_capacity(g->session), wanted = text->asked->max_tokens;
  if (wanted > 0 && wanted < most) most = wanted;
  if (!text->asked->ids || ch_ids_reserve(text->asked->ids, (size_t)most)) return CH_OK;
  return ch_no_memory(error);
}

static ch_status check(const generation *g, ch_error *error) {
  for (ch_generation_text *text = g->next; text < g->last; text++) {
    text->asked->generated = (ch_generated){.end = CH_END_STOPPED, .stop_string = -1};
    text->asked->status = CH_OK;
    ch_status status = ch_sampling_check(&text->sampler, error);
    if (status == CH_OK) status = check_stops(g, text, error);
    if (status == CH_OK) status = check_top(g, text, error);
    if (status == CH_OK)
      status = check_prompt(g, text, g->continues ? ch_session_length(g->session) : 0, error);
    if (status == CH_OK) status = reserve_ids(g, text, error);
    if (status != CH_OK) return name_text(g, text, error), status;
  }
  return CH_OK;
}

static ch_status reserve(generation *g, ch_error *error) {
  const size_t threads = g->count > 1 ? (size_t)ch_session_team(g->session)->threads : 1;
  g->slots = calloc((size_t)g->count, sizeof *g->slots);
  g->tokens = malloc((size_t)g->count * sizeof *g->tokens);
  g->scratch = malloc(threads * ch_sampling_scratch(g->vocabulary));
  if (!g->continues) g->prompt_logits = malloc((size_t)g->vocabulary * sizeof *g->prompt_logits);
  g->top = malloc((size_t)g->count * MOST_TOP * sizeof *g->top);
  for (int64_t i = 0; g->slots && g->top && i < g->count; i++) g->slots[i].top = g->top + i * MOST_TOP;
  return g->slots && g->tokens && g->scratch && g->top && (g->continues || g->prompt_logits)
             ? CH_OK
             : ch_no_memory(error);
}

/* The first failure of a text by itself. */
static ch_status first_failure(const generation *g, ch_error *error) {
  for (const ch_generation_text *text = g->texts; text < g->last; text++)
    if (text->asked->status != CH_OK) {
      if (error) *error = text->error;
      name_text(g, text, error);
      return text->asked->status;
    }
  return CH_OK;
}

static ch_status generate(generation *g, ch_error *error) {
  g->texts = g->next;
  g->vocabulary = ch_session_vocab_size(g->session);
  CH_TRY(check(g, error));
  ch_status status = reserve(g, error);
  if (status == CH_OK) status = run(g, error);
  if (status == CH_OK) status = first_failure(g, error);
  for (int64_t i = 0; g->slots && i < g->count; i++) {
    ch_text_free(&g->slots[i].decoded);
    ch_text_free(&g->slots[i].valid);
    ch_text_free(&g->slots[i].held);
  }
  free(g->slots);
  free(g->tokens);
  free(g->scratch);
  free(g->top);
  free(g->prompt_logits);
  return status;
}

ch_status ch_generate_texts(ch_session *session, const ch_tokenizer *tokenizer, ch_generation_text *texts,
                            int64_t count, ch_error *error) {
  int64_t slots = ch_session_cache(session)->sequences;
  if (slots > CH_SKINNY_ROWS) slots = CH_SKINNY_ROWS;
  if (count < 1) return CH_OK;
  generation g = {.session = session,
                  .tokenizer = tokenizer,
                  .next = texts,
                  .last = texts + count,
                  .count = count < slots ? count : slots};
  return generate(&g, error);
}

ch_status ch_generate_tokens(ch_session *session, const ch_tokenizer *tokenizer, ch_generation_text *text,
                             ch_error *error) {
  generation g = {.session = session,
                  .tokenizer = tokenizer,
                  .next = text,
                  .last = text + 1,
                  .count = 1,
                  .continues = true};
  return generate(&g, error);
}
