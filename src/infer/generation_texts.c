/* Generates texts from the first token to the end, and reports them to their requests. */
#include "infer/generation_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "infer/log_probability.h"

/* --- events --------------------------------------------------------------------------------------------- */

bool ch_request_tell(const ch_queued_request *r, ch_event *event) {
  event->request = r->id;
  event->user = r->asked.user;
  return !r->asked.sink || r->asked.sink(event, r->asked.user);
}

void ch_request_end(ch_queued_request *r, int32_t choice, const ch_text_place *p, ch_event *event) {
  const ch_generation_result none = {.end = CH_END_STOPPED, .stop_string = -1};
  event->kind = CH_EVENT_END;
  event->choice = choice;
  event->cached = r->cached;
  if (p) event->generated = &p->generated;
  if (!event->generated) event->generated = &none;
  if (p && p->stream) {
    const ch_text_length length = ch_text_stream_released(p->stream);
    event->text_offset = length.bytes;
    event->character_offset = length.characters;
    event->prompt_bytes = ch_text_stream_owed(p->stream);
  }
  if (p && p->status != CH_OK) {
    event->status = p->status;
    event->message = p->error.message;
  }
  r->left[choice] = CH_CHOICE_OVER;
  r->over++;
  ch_request_tell(r, event);
}

/* Feeds the last token, if the session must hold every generated token. */
static void feed_last(ch_generation *g, ch_text_place *p) {
  const float *logits;
  const int32_t sequence = ch_place_index(g, p);
  if (!g->manner.continues || p->generated.tokens == 0 || p->status != CH_OK) return;
  p->status = ch_session_step_some(g->session, &sequence, 1, &p->token, &logits, &p->error);
}

void ch_place_end(ch_generation *g, ch_text_place *p, ch_end why) {
  ch_queued_request *r = p->request;
  ch_event event = {0};
  int32_t stop = -1;
  p->generated.end = p->status == CH_OK ? why : CH_END_ERROR;
  if (why != CH_END_TOKEN && p->phase == CH_PLACE_WRITING) feed_last(g, p);
  if (p->phase == CH_PLACE_WRITING) p->generated.decode_seconds = ch_clock() - p->began;
  if (p->stream && p->generated.end != CH_END_STOPPED && p->generated.end != CH_END_STRING) {
    ch_error error;
    ch_status status = ch_text_stream_end(p->stream, &event.text, &event.size, &stop, &error);
    if (status != CH_OK && p->status == CH_OK) {
      p->status = status;
      p->error = error;
      p->generated.end = CH_END_ERROR;
    }
    if (stop >= 0) {
      p->generated.end = CH_END_STRING;
      p->generated.stop_string = stop;
    }
  }
  if (p->status != CH_OK) p->generated.end = CH_END_ERROR;
  if (r->has_extra && r->extra.sampler)
    memcpy(r->extra.sampler->state, p->sampler.state, sizeof p->sampler.state);
  p->request = NULL;
  p->figures.request = 0;
  p->last_use = ++g->clock;
  ch_request_end(r, p->choice, p, &event);
  ch_text_stream_free(p->stream);
  p->stream = NULL;
  if (r->over == r->asked.choices) g->swept = true;
}

/* --- cancelling ----------------------------------------------------------------------------------------- */

ch_text_place *ch_request_place(const ch_generation *g, const ch_queued_request *r, int32_t choice) {
  for (int64_t i = 0; i < g->count; i++)
    if (g->places[i].request == r && g->places[i].choice == choice) return &g->places[i];
  return NULL;
}

bool ch_place_is_cancelled(const ch_text_place *p) {
  return p->request->left[p->choice] == CH_CHOICE_CANCELLED;
}

void ch_request_cancel(ch_generation *g, ch_queued_request *r, int32_t choice) {
  for (int32_t c = 0; c < r->asked.choices; c++)
    if ((choice < 0 || c == choice) && r->left[c] == CH_CHOICE_OPEN) r->left[c] = CH_CHOICE_CANCELLED;
  g->swept = true;
}

void ch_generation_drop_waiting(ch_generation *g) {
  g->stopped = true;
  for (ch_queued_request *r = g->first; r; r = r->next)
    for (int32_t c = 0; c < r->asked.choices; c++)
      if (r->left[c] == CH_CHOICE_OPEN && !ch_request_place(g, r, c)) {
        r->left[c] = CH_CHOICE_OVER;
        r->over++;
        r->prompt->waiting--;
      }
  g->swept = true;
}

/* --- choosing ------------------------------------------------------------------------------------------- */

size_t ch_generation_scratch(const ch_generation *g) {
  return (ch_sampling_scratch(g->vocabulary) + (size_t)g->vocabulary * sizeof(float) + 63) & ~(size_t)63;
}

void ch_place_choose(const ch_generation *g, ch_text_place *p, const float *logits, char *scratch) {
  const ch_generation_request *asked = &p->request->asked;
  const float *drawn = logits;
  const bool adjusts = ch_request_adjusts(p->request, p->generated.tokens);
  if (adjusts) {
    float *adjusted = (float *)(void *)(scratch + ch_sampling_scratch(g->vocabulary));
    ch_request_adjust(g, p, logits, adjusted);
    drawn = adjusted;
  }
  p->status = ch_sample_token(&p->sampler, drawn, g->vocabulary, scratch, &p->token, &p->error);
  const double log_sum =
      asked->probabilities || p->status != CH_OK ? ch_log_sum_exp(logits, g->vocabulary) : 0;
  if (p->status != CH_OK && adjusts && isfinite(log_sum))
    p->status = ch_fail(&p->error, CH_ERROR_ARGUMENT, "every token that could be written is banned");
  if (p->status != CH_OK || !asked->probabilities) return;
  p->log_probability = logits[p->token] - log_sum;
  if (asked->top_count > 0) ch_likeliest(logits, g->vocabulary, log_sum, p->top, asked->top_count);
}

/* Counts the token for penalties. Returns false when out of memory. */
static bool count_token(ch_text_place *p) {
  const ch_generation_request *asked = &p->request->asked;
  if (asked->frequency_penalty == 0 && asked->presence_penalty == 0) return true;
  for (int32_t i = 0; i < p->count_size; i++)
    if (p->counts[i].token == p->token) {
      p->counts[i].count++;
      return true;
    }
  if (p->count_size == p->count_capacity) {
    const int32_t capacity = p->count_capacity ? 2 * p->count_capacity : 64;
    ch_token_count *more = realloc(p->counts, (size_t)capacity * sizeof *more);
    if (!more) return false;
    p->counts = more;
    p->count_capacity = capacity;
  }
  p->counts[p->count_size++] = (ch_token_count){p->token, 1};
  return true;
}

void ch_place_take(ch_generation *g, ch_text_place *p) {
  ch_queued_request *r = p->request;
  const ch_generation_request *asked = &r->asked;
  if (p->status != CH_OK) {
    ch_place_end(g, p, CH_END_ERROR);
    return;
  }
  int32_t stop = -1;
  const bool ends = ch_request_ends(r, g->session, p->token);
  ch_event event = {.kind = CH_EVENT_TOKEN,
                    .choice = p->choice,
                    .token = p->token,
                    .log_probability = asked->probabilities ? p->log_probability : NAN,
                    .top = p->top,
                    .top_count = asked->probabilities ? asked->top_count : 0,
                    .index = p->generated.tokens,
                    .ends = ends,
                    .text = ""};
  g->counts.generated_tokens++;
  p->figures.generated_tokens++;
  if (p->stream) {
    const ch_text_length before = ch_text_stream_decoded(p->stream);
    event.text_offset = before.bytes;
    event.character_offset = before.characters;
  }
  if (!ends) {
    p->generated.tokens++;
    if (p->stream)
      p->status = ch_text_stream_put(p->stream, p->token, &event.text, &event.size, &stop, &p->error);
    if (p->status == CH_OK && !count_token(p)) p->status = ch_no_memory(&p->error);
    if (p->stream) event.prompt_bytes = ch_text_stream_owed(p->stream);
    if (stop >= 0) p->generated.stop_string = stop;
  }
  const bool wanted = ch_request_tell(r, &event);
  if (!wanted || ch_place_is_cancelled(p))
    ch_place_end(g, p, CH_END_STOPPED);
  else if (p->status != CH_OK)
    ch_place_end(g, p, CH_END_ERROR);
  else if (ends)
    ch_place_end(g, p, CH_END_TOKEN);
  else if (stop >= 0)
    ch_place_end(g, p, CH_END_STRING);
  else if (asked->max_tokens >= 0 && p->generated.tokens >= asked->max_tokens)
    ch_place_end(g, p, CH_END_LIMIT);
  else if (ch_place_length(g, p) + 1 >= g->capacity)
    ch_place_end(g, p, CH_END_FULL);
}

/* --- beginning ------------------------------------------------------------------------------------------ */

void ch_place_begin(ch_generation *g, ch_text_place *p, const float *logits) {
  ch_queued_request *r = p->request;
  const ch_generation_request *asked = &r->asked;
  p->phase = CH_PLACE_WRITING;
  p->began = ch_clock();
  p->count_size = 0;
  p->serial = r->prompt->serial;
  if (r->has_extra && r->extra.sampler) {
    p->sampler = *r->extra.sampler;
  } else {
    ch_sampler_defaults(&p->sampler, asked->seed + (uint64_t)p->choice);
    p->sampler.temperature = asked->sampler.temperature;
    p->sampler.top_k = asked->sampler.top_k;
    p->sampler.top_p = asked->sampler.top_p;
  }
  if (g->tokenizer)
    p->status = ch_text_stream_new(g->tokenizer, asked->stops, asked->stop_count, CH_TEXT_NO_SPECIAL,
                                   &p->stream, &p->error);
  if (p->stream)
    p->status = ch_text_stream_begin(p->stream, r->prompt->ids, (size_t)r->prompt->count, &p->error);
  if (p->status != CH_OK) {
    ch_place_end(g, p, CH_END_ERROR);
  } else if (asked->max_tokens == 0) {
    ch_place_end(g, p, CH_END_LIMIT);
  } else if (ch_place_length(g, p) >= g->capacity) {
    ch_place_end(g, p, CH_END_FULL);
  } else {
    ch_place_choose(g, p, logits, g->scratch);
    ch_place_take(g, p);
  }
}
