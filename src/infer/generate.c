/* Generates a list of texts, or one text that continues a session, with a generation. */
#include "infer/generate.h"

#include <stdio.h>

#include "infer/generation.h"

/* The state of one call. */
typedef struct text_job {
  ch_generation *generation;
  ch_generation_text *texts, *next, *last; /* all texts; `next` to `last` - 1 are not added yet */
  int64_t room;                            /* free tokens of the session */
  bool continues;                          /* true if the text continues the session's tokens */
  const ch_generation_text *failed;        /* text that failed for another reason than its logits, or NULL */
} text_job;

/* --- events --------------------------------------------------------------------------------------------- */

/* Appends a token, unless it is -1, to the list of ids, and passes the characters that it completes to the sink.
   Returns false if memory runs out or the sink stops the text. */
static bool call_sink(ch_batch_text *asked, int32_t id, const char *text, size_t size) {
  if (asked->ids && id >= 0) { /* room was reserved, unless several texts share the list */
    if (!ch_ids_reserve(asked->ids, 1)) return false;
    asked->ids->data[asked->ids->size++] = id;
  }
  return size == 0 || !asked->sink || asked->sink(text, size, asked->user);
}

static bool take(const ch_event *event, void *user) {
  ch_generation_text *text = user;
  ch_batch_text *asked = text->asked;
  const ch_token_probability token = {event->token, event->log_probability};
  if (event->kind == CH_EVENT_PROMPT) return true;
  asked->prompt_bytes = event->prompt_bytes;
  if (event->kind == CH_EVENT_TOKEN) {
    if (event->ends) return true;
    if (asked->token_sink && !asked->token_sink(&token, event->top, event->top_count, asked->user))
      return false;
    return call_sink(asked, event->token, event->text, event->size);
  }
  asked->generated = *event->generated;
  asked->status = event->status;
  if (event->status != CH_OK) ch_fail(&text->error, event->status, "%s", event->message);
  if (event->status != CH_OK && event->status != CH_ERROR_NUMERIC) ((text_job *)text->own)->failed = text;
  return call_sink(asked, -1, event->text, event->size);
}

/* --- the list ------------------------------------------------------------------------------------------- */

static ch_generation_request request_of(ch_generation_text *text) {
  const ch_batch_text *asked = text->asked;
  ch_generation_request request;
  ch_generation_request_defaults(&request);
  request.prompt = text->prompt;
  request.prompt_count = text->count > 0 ? (size_t)text->count : 0;
  request.max_tokens = asked->max_tokens > 0 ? asked->max_tokens : -1;
  request.sampler = text->sampler;
  request.stops = asked->stops;
  request.stop_count = asked->stop_count;
  request.probabilities = asked->token_sink;
  request.top_count = asked->top_count;
  request.sink = take;
  request.user = text;
  return request;
}

/* Adds the number of the text to an error about one of several texts. */
static void name_text(const text_job *w, const ch_generation_text *text, ch_error *error) {
  char name[40];
  snprintf(name, sizeof name, "texts[%lld]", (long long)(text - w->texts));
  if (!w->continues && error) ch_fail_in(error, name);
}

/* Allocates memory for the ids of a whole text, so that a token allocates nothing. */
static ch_status reserve_ids(const text_job *w, const ch_generation_text *text, ch_error *error) {
  int64_t most = w->room, wanted = text->asked->max_tokens;
  if (wanted > 0 && wanted < most) most = wanted;
  if (!text->asked->ids || ch_ids_reserve(text->asked->ids, (size_t)most)) return CH_OK;
  return ch_no_memory(error);
}

/* Checks all texts before any is started. */
static ch_status check(text_job *w, ch_error *error) {
  for (ch_generation_text *text = w->texts; text < w->last; text++) {
    const ch_generation_request request = request_of(text);
    text->asked->generated = (ch_generation_result){.end = CH_END_STOPPED, .stop_string = -1};
    text->asked->status = CH_OK;
    text->own = w;
    ch_status status = ch_generation_check(w->generation, &request, error);
    if (status == CH_OK) status = reserve_ids(w, text, error);
    if (status != CH_OK) return name_text(w, text, error), status;
  }
  return CH_OK;
}

/* Adds texts until twice as many wait as there are places. All places can then be filled, and shared prompts are
   found. */
static ch_status add(text_job *w, int64_t places, ch_error *error) {
  ch_generation_counts counts;
  ch_generation_count(w->generation, &counts);
  if (ch_generation_stopped(w->generation)) w->next = w->last;
  for (int64_t waiting = counts.waiting; w->next < w->last && waiting < 2 * places; waiting++) {
    ch_generation_text *text = w->next++;
    const ch_generation_request request = request_of(text);
    const ch_generation_extra extra = {
        .ends = text->end_tokens, .end_count = text->end_token_count, .sampler = &text->sampler};
    CH_TRY(ch_generation_put(w->generation, &request, &extra, NULL, error));
  }
  return CH_OK;
}

static ch_status failure_of(const text_job *w, const ch_generation_text *text, ch_error *error) {
  if (error) *error = text->error;
  name_text(w, text, error);
  return text->asked->status;
}

static ch_status write_all(text_job *w, int64_t places, ch_error *error) {
  CH_TRY(check(w, error));
  for (bool busy = true; busy || w->next < w->last;) {
    CH_TRY(add(w, places, error));
    CH_TRY(ch_generation_step(w->generation, &busy, error));
    if (w->failed) return failure_of(w, w->failed, error);
  }
  for (const ch_generation_text *text = w->texts; text < w->last; text++)
    if (text->asked->status != CH_OK) return failure_of(w, text, error);
  return CH_OK;
}

static ch_status generate(ch_session *session, const ch_tokenizer *tokenizer, ch_generation_text *texts,
                          int64_t count, bool continues, ch_error *error) {
  const ch_cache *cache = ch_session_cache(session);
  const ch_generation_manner manner = {.continues = continues};
  text_job w = {.texts = texts,
                .next = texts,
                .last = texts + count,
                .room = cache->capacity - (continues ? cache->length[0] : 0),
                .continues = continues};
  CH_TRY(ch_generation_over(session, tokenizer, &manner, &w.generation, error));
  ch_status status = write_all(&w, cache->sequences, error);
  ch_generation_free(w.generation);
  return status;
}

ch_status ch_generate_texts(ch_session *session, const ch_tokenizer *tokenizer, ch_generation_text *texts,
                            int64_t count, ch_error *error) {
  return count < 1 ? CH_OK : generate(session, tokenizer, texts, count, false, error);
}

ch_status ch_generate_tokens(ch_session *session, const ch_tokenizer *tokenizer, ch_generation_text *text,
                             ch_error *error) {
  return generate(session, tokenizer, text, 1, true, error);
}
