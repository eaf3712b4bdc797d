/* Rounds of a generation: places for texts, a step of all of them, a chunk of a prompt. */
#include "infer/generation_parts.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "infer/log_probability.h"
#include "tensor/gemm.h"

_Static_assert((int)CH_BATCH_MOST == (int)CH_SKINNY_ROWS, "a step is one skinny product");

static int32_t index_of(const ch_generation *g, const ch_text_place *p) {
  return (int32_t)(p - g->places);
}

/* Tokens that a place's sequence holds. */
static int64_t held(const ch_generation *g, const ch_text_place *p) {
  return ch_session_sequence_length(g->session, index_of(g, p));
}

/* --- events --------------------------------------------------------------------------------------------- */

static bool call_sink(const ch_queued_request *r, ch_event *event) {
  event->request = r->id;
  event->user = r->asked.user;
  return !r->asked.sink || r->asked.sink(event, r->asked.user);
}

/* Says that a choice is over; with a text that was begun, the place's. */
static void report_end(ch_queued_request *r, int32_t choice, const ch_text_place *p, ch_event *event) {
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
  call_sink(r, event);
}

/* Makes the session hold the last token too, if it is to hold every token written. */
static void feed_last(ch_generation *g, ch_text_place *p) {
  const float *logits;
  const int32_t sequence = index_of(g, p);
  if (!g->manner.continues || p->generated.tokens == 0 || p->status != CH_OK) return;
  p->status = ch_session_step_some(g->session, &sequence, 1, &p->token, &logits, &p->error);
}

/* Ends the text of a place, which becomes free. Text that is held back is released, unless the text was
   cancelled. */
static void end_text(ch_generation *g, ch_text_place *p, ch_end why) {
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
  report_end(r, p->choice, p, &event);
  ch_text_stream_free(p->stream);
  p->stream = NULL;
  if (r->over == r->asked.choices) g->swept = true;
}

/* --- cancelling ----------------------------------------------------------------------------------------- */

static ch_queued_request *find_request(const ch_generation *g, int64_t id) {
  ch_queued_request *r = g->first;
  while (r && r->id != id) r = r->next;
  return r;
}

static ch_text_place *place_of(const ch_generation *g, const ch_queued_request *r, int32_t choice) {
  for (int64_t i = 0; i < g->count; i++)
    if (g->places[i].request == r && g->places[i].choice == choice) return &g->places[i];
  return NULL;
}

static bool is_cancelled(const ch_text_place *p) {
  return p->request->left[p->choice] == CH_CHOICE_CANCELLED;
}

static void mark(ch_queued_request *r, int32_t choice) {
  for (int32_t c = 0; c < r->asked.choices; c++)
    if ((choice < 0 || c == choice) && r->left[c] == CH_CHOICE_OPEN) r->left[c] = CH_CHOICE_CANCELLED;
}

/* Ends the choices that were cancelled, and removes requests that are over. */
static void sweep(ch_generation *g) {
  if (!g->swept) return;
  for (bool again = true; again;) { /* a sink may cancel more */
    again = false;
    for (ch_queued_request *r = g->first; r; r = r->next)
      for (int32_t c = 0; c < r->asked.choices; c++) {
        ch_event event = {0};
        if (r->left[c] != CH_CHOICE_CANCELLED) continue;
        again = true;
        ch_text_place *p = place_of(g, r, c);
        if (p) {
          end_text(g, p, CH_END_STOPPED);
          continue;
        }
        r->prompt->waiting--;
        report_end(r, c, NULL, &event);
      }
  }
  for (ch_queued_request *r = g->first, *next; r; r = next) {
    next = r->next;
    if (r->over == r->asked.choices) ch_request_remove(g, r);
  }
  g->swept = false;
}

/* Marks a text as cancelled because its sink returned false. */
static void refuse(ch_generation *g, ch_queued_request *r, int32_t choice) {
  mark(r, choice);
  g->swept = true;
}

void ch_generation_cancel(ch_generation *g, int64_t id, int32_t choice) {
  ch_queued_request *r = g ? find_request(g, id) : NULL;
  if (!r) return;
  refuse(g, r, choice);
  if (g->stepping) return;
  g->stepping = true;
  sweep(g);
  g->stepping = false;
}

void ch_generation_pause(ch_generation *g, int64_t id, bool paused) {
  ch_queued_request *r = g ? find_request(g, id) : NULL;
  if (r) r->paused = paused;
}

bool ch_generation_stopped(const ch_generation *g) {
  return g->stopped;
}

/* Ends all texts that have no place without a word, after the session's callback cancelled. */
static void drop_waiting(ch_generation *g) {
  g->stopped = true;
  for (ch_queued_request *r = g->first; r; r = r->next)
    for (int32_t c = 0; c < r->asked.choices; c++)
      if (r->left[c] == CH_CHOICE_OPEN && !place_of(g, r, c)) {
        r->left[c] = CH_CHOICE_OVER;
        r->over++;
        r->prompt->waiting--;
      }
  g->swept = true;
}

/* --- choosing ------------------------------------------------------------------------------------------- */

static size_t scratch_of(const ch_generation *g) {
  return (ch_sampling_scratch(g->vocabulary) + (size_t)g->vocabulary * sizeof(float) + 63) & ~(size_t)63;
}

/* Draws a place's next token. */
static void choose(const ch_generation *g, ch_text_place *p, const float *logits, char *scratch) {
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

/* Counts the token for penalties; false when out of memory. */
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

/* Reports the token that was chosen, and ends the text if it is over. */
static void take(ch_generation *g, ch_text_place *p) {
  ch_queued_request *r = p->request;
  const ch_generation_request *asked = &r->asked;
  if (p->status != CH_OK) {
    end_text(g, p, CH_END_ERROR);
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
  const bool wanted = call_sink(r, &event);
  if (!wanted || is_cancelled(p))
    end_text(g, p, CH_END_STOPPED);
  else if (p->status != CH_OK)
    end_text(g, p, CH_END_ERROR);
  else if (ends)
    end_text(g, p, CH_END_TOKEN);
  else if (stop >= 0)
    end_text(g, p, CH_END_STRING);
  else if (asked->max_tokens >= 0 && p->generated.tokens >= asked->max_tokens)
    end_text(g, p, CH_END_LIMIT);
  else if (held(g, p) + 1 >= g->capacity)
    end_text(g, p, CH_END_FULL);
}

/* --- beginning ------------------------------------------------------------------------------------------ */

/* Begins to write after the prompt, which the place's sequence holds. */
static void begin_writing(ch_generation *g, ch_text_place *p, const float *logits) {
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
    end_text(g, p, CH_END_ERROR);
  } else if (asked->max_tokens == 0) {
    end_text(g, p, CH_END_LIMIT);
  } else if (held(g, p) >= g->capacity) {
    end_text(g, p, CH_END_FULL);
  } else {
    choose(g, p, logits, g->scratch);
    take(g, p);
  }
}

/* The prompt is read, and `logits` are those after it: its texts that have a place begin. */
static void end_prompt(ch_generation *g, ch_text_place *p, const float *logits) {
  ch_queued_request *r = p->request;
  ch_read_prompt *prompt = r->prompt;
  const int64_t count = prompt->count;
  p->serial = prompt->serial;
  if (prompt->waiting > 0 && !prompt->logits) {
    prompt->logits = malloc((size_t)g->vocabulary * sizeof *prompt->logits);
    if (prompt->logits) memcpy(prompt->logits, logits, (size_t)g->vocabulary * sizeof *logits);
  }
  if (!r->announced) {
    ch_event event = {.kind = CH_EVENT_PROMPT, .cached = r->cached};
    r->announced = true;
    if (!call_sink(r, &event)) refuse(g, r, -1);
  }
  /* Siblings are begun after this place, whose sequence they copy before it grows. */
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *other = &g->places[i];
    if (!other->request || other->request->prompt != prompt || other->phase != CH_PLACE_WAITING) continue;
    other->status = ch_session_copy(g->session, index_of(g, p), (int32_t)i, count, &other->error);
    other->serial = prompt->serial;
    other->kept_count = p->kept_count;
    if (other->kept) memcpy(other->kept, p->kept, (size_t)p->kept_count * sizeof *p->kept);
  }
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *other = &g->places[i];
    if (other == p ||
        (other->request && other->request->prompt == prompt && other->phase == CH_PLACE_WAITING)) {
      if (is_cancelled(other))
        end_text(g, other, CH_END_STOPPED);
      else if (other->status != CH_OK)
        end_text(g, other, CH_END_ERROR);
      else
        begin_writing(g, other, logits);
    }
  }
}

/* Makes a place's sequence the first `length` tokens of another's, or of its own. */
static ch_status make(ch_generation *g, ch_text_place *p, const ch_text_place *from, int64_t length) {
  const int64_t chunks = g->manner.reuses ? length - length % g->manner.chunk : 0,
                kept = chunks < from->kept_count ? chunks : from->kept_count;
  CH_TRY(ch_session_copy(g->session, index_of(g, from), index_of(g, p), length, &p->error));
  if (from != p && kept > 0) memcpy(p->kept, from->kept, (size_t)kept * sizeof *p->kept);
  p->kept_count = kept;
  return CH_OK;
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* Scores of the prompt's tokens, as they come. */
typedef struct scoring {
  ch_generation *g;
  ch_text_place *p;
} scoring;

static void report_prompt_token(ch_generation *g, ch_queued_request *r, int64_t index, double log_probability,
                                const ch_token_probability *top, int32_t top_count) {
  ch_event event = {.kind = CH_EVENT_PROMPT_TOKEN,
                    .token = r->prompt->ids[index],
                    .log_probability = log_probability,
                    .top = top,
                    .top_count = top_count,
                    .index = index};
  if (index < r->scored) return;
  r->scored = index + 1;
  if (!call_sink(r, &event)) refuse(g, r, -1);
}

static ch_status score(int64_t first, int64_t count, const float *logits, void *user, ch_error *error) {
  const scoring *s = user;
  ch_generation *g = s->g;
  ch_queued_request *r = s->p->request;
  const int64_t next = s->p->read + first + 1, left = r->prompt->count - next, V = g->vocabulary,
                rows = count < left ? count : left;
  const int32_t top_count = r->asked.top_count;
  ch_token_probability *top = g->top + g->count * CH_MOST_TOP;
  double values[CH_SKINNY_ROWS];
#pragma omp parallel for schedule(static) num_threads(ch_session_team(g->session)->workers)
  for (int64_t i = 0; i < rows; i++) {
    const float *row = logits + i * V;
    const double log_sum = ch_log_sum_exp(row, V);
    values[i] = row[r->prompt->ids[next + i]] - log_sum;
    if (top_count > 0 && isfinite(log_sum)) ch_likeliest(row, V, log_sum, top + i * CH_MOST_TOP, top_count);
  }
  for (int64_t i = 0; i < rows; i++) {
    if (isnan(values[i]))
      return ch_fail(error, CH_ERROR_NUMERIC,
                     "a logit after token %lld of the prompt is not a number; the model is damaged, or its "
                     "cache's type is too narrow",
                     (long long)(next + i - 1));
    report_prompt_token(g, r, next + i, values[i], top + i * CH_MOST_TOP, top_count);
  }
  if (rows < count) memcpy(g->logits, logits + rows * V, (size_t)V * sizeof *logits);
  return CH_OK;
}

static bool scores(const ch_text_place *p) {
  const ch_queued_request *r = p->request;
  return r->asked.echo_probabilities && r->scored < r->prompt->count;
}

/* Feeds `count` more tokens of a place's prompt. */
static ch_status feed(ch_generation *g, ch_text_place *p, int64_t count, const float **logits,
                      ch_error *error) {
  const int32_t *ids = p->request->prompt->ids + p->read;
  if (!scores(p)) return ch_session_feed_one(g->session, index_of(g, p), ids, (size_t)count, logits, error);
  scoring s = {g, p};
  if (!g->logits) g->logits = malloc((size_t)g->vocabulary * sizeof *g->logits);
  if (!g->logits) return ch_no_memory(error);
  if (p->read == 0) report_prompt_token(g, p->request, 0, NAN, NULL, 0);
  *logits = g->logits;
  return ch_session_feed_scored(g->session, index_of(g, p), ids, (size_t)count, score, &s, error);
}

/* Notes what passes over the prompt have written. */
static void keep(ch_generation *g, ch_text_place *p, int64_t count) {
  if (!g->manner.reuses || count != g->manner.chunk) return;
  memcpy(p->kept + p->read, p->request->prompt->ids + p->read, (size_t)count * sizeof *p->kept);
  p->kept_count = p->read + count;
}

/* A text ended while its place read the prompt: one that waited for it reads the rest. */
static void hand_on(ch_generation *g, const ch_text_place *from, const ch_read_prompt *prompt) {
  const int64_t read = held(g, from) == from->read ? from->read : 0;
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    if (!p->request || p->request->prompt != prompt || p->phase != CH_PLACE_WAITING) continue;
    p->status = make(g, p, read ? from : p, read);
    p->read = p->status == CH_OK ? read : 0;
    p->phase = CH_PLACE_READING;
    return;
  }
}

/* One chunk of a place's prompt, or all of it. */
static void read_chunk(ch_generation *g, ch_text_place *p) {
  ch_queued_request *r = p->request;
  const int64_t left = r->prompt->count - p->read, before = held(g, p),
                count = g->manner.chunk && g->manner.chunk < left ? g->manner.chunk : left;
  const float *logits = NULL;
  const double start = ch_clock();
  g->reading = r->id;
  ch_status status = feed(g, p, count, &logits, &p->error);
  g->reading = 0;
  const double seconds = ch_clock() - start;
  const int64_t fed = held(g, p) > before ? held(g, p) - before : 0;
  p->generated.prefill_seconds += seconds;
  p->generated.prompt_tokens += fed;
  g->counts.prefill_seconds += seconds;
  g->counts.prompt_tokens += (uint64_t)fed;
  if (p->kept_count > held(g, p)) p->kept_count = 0; /* an interrupted pass may have emptied it */
  bool goes_on = status != CH_ERROR_INTERRUPTED;
  if (status == CH_OK) {
    keep(g, p, count);
    p->read += count;
    if (!g->manner.chunk) goes_on = ch_session_goes_on(g->session, r->prompt->count, r->prompt->count);
  }
  if (is_cancelled(p)) {
    end_text(g, p, CH_END_STOPPED);
  } else if (!goes_on) {
    drop_waiting(g);
    end_text(g, p, CH_END_STOPPED);
  } else if (status != CH_OK) {
    p->status = status;
    end_text(g, p, CH_END_ERROR);
  } else if (p->read == r->prompt->count) {
    end_prompt(g, p, logits);
    return;
  }
  if (!p->request) hand_on(g, p, r->prompt);
}

/* The oldest prompt that can be read. */
static ch_text_place *oldest_prompt(const ch_generation *g) {
  ch_text_place *oldest = NULL;
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    if (!p->request || p->phase != CH_PLACE_READING || p->request->paused) continue;
    if (!oldest || p->request->id < oldest->request->id) oldest = p;
  }
  return oldest;
}

/* --- places --------------------------------------------------------------------------------------------- */

static bool can_go_back(const ch_generation *g, const ch_text_place *p, int64_t length) {
  return held(g, p) >= length &&
         ch_cache_can_go_back(ch_session_cache(g->session), index_of(g, p), (int32_t)length);
}

/* Tokens at the beginning of a prompt whose states a place's sequence has, in whole chunks; at least one
   token is left to read. */
static int64_t common(const ch_generation *g, const ch_text_place *p, const ch_read_prompt *prompt) {
  const int64_t most = (prompt->count - 1) / g->manner.chunk * g->manner.chunk;
  int64_t length = 0;
  while (length < p->kept_count && length < most && p->kept[length] == prompt->ids[length]) length++;
  length -= length % g->manner.chunk;
  return length > 0 && can_go_back(g, p, length) ? length : 0;
}

/* The place whose beginning is most of the prompt. */
static ch_text_place *best_beginning(const ch_generation *g, const ch_queued_request *r, int64_t *length) {
  ch_text_place *best = NULL;
  *length = 0;
  if (!g->manner.reuses || !r->asked.reuse || (r->asked.echo_probabilities && r->scored < r->prompt->count))
    return NULL;
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    const int64_t same = common(g, p, r->prompt);
    /* Of equal ones one that is free and holds nothing else is truncated in place. */
    if (same > *length || (same && same == *length && !p->request && p->kept_count == same)) {
      best = p;
      *length = same;
    }
  }
  return best;
}

/* The free place that was not used for longest. */
static ch_text_place *free_place(const ch_generation *g) {
  ch_text_place *oldest = NULL;
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    if (!p->request && (!oldest || p->last_use < oldest->last_use)) oldest = p;
  }
  return oldest;
}

/* A place whose sequence begins with a whole prompt. */
static ch_text_place *place_with(const ch_generation *g, const ch_read_prompt *prompt,
                                 const ch_text_place *first) {
  if (first->serial == prompt->serial && can_go_back(g, first, prompt->count))
    return (ch_text_place *)(uintptr_t)first;
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    if (p->serial == prompt->serial && p->phase == CH_PLACE_WRITING && can_go_back(g, p, prompt->count))
      return p;
  }
  return NULL;
}

static bool is_being_read(const ch_generation *g, const ch_read_prompt *prompt) {
  for (int64_t i = 0; i < g->count; i++)
    if (g->places[i].request && g->places[i].request->prompt == prompt &&
        g->places[i].phase == CH_PLACE_READING)
      return true;
  return false;
}

/* Gives a choice a place: it begins at once if the prompt is read, waits if it is being read, or reads. */
static void settle(ch_generation *g, ch_text_place *p, ch_queued_request *r, int32_t choice) {
  ch_read_prompt *prompt = r->prompt;
  int64_t length = 0;
  ch_text_place *source = prompt->logits ? place_with(g, prompt, p) : NULL;
  const bool read = source, waits = !read && is_being_read(g, prompt);
  if (!read && !waits) {
    source = best_beginning(g, r, &length);
    if (source && !source->request && source->kept_count == length) p = source;
  }
  p->request = r;
  p->choice = choice;
  p->status = CH_OK;
  p->generated = (ch_generation_result){.end = CH_END_STOPPED, .stop_string = -1};
  p->last_use = ++g->clock;
  p->figures = (ch_generation_place){
      .request = r->id, .choice = choice, .prompt_tokens = prompt->count, .cached_tokens = length};
  prompt->waiting--;
  if (r->begun <= choice) r->begun = choice + 1;
  if (!g->manner.continues && !waits)
    p->status = make(g, p, source ? source : p, read ? prompt->count : length);
  p->serial = 0;
  p->read = read ? prompt->count : length;
  p->phase = read ? CH_PLACE_WRITING : waits ? CH_PLACE_WAITING : CH_PLACE_READING;
  if (!r->announced) {
    r->cached = length;
    g->counts.cached_tokens += (uint64_t)length;
  }
  if (p->status != CH_OK) {
    end_text(g, p, CH_END_ERROR);
  } else if (read) {
    if (!r->announced) {
      ch_event event = {.kind = CH_EVENT_PROMPT};
      r->announced = true;
      if (!call_sink(r, &event)) refuse(g, r, -1);
    }
    bool goes_on = g->manner.chunk || ch_session_goes_on(g->session, prompt->count, prompt->count);
    if (!goes_on) drop_waiting(g);
    if (is_cancelled(p) || !goes_on)
      end_text(g, p, CH_END_STOPPED);
    else
      begin_writing(g, p, prompt->logits);
  }
  if (prompt->waiting == 0 && prompt->logits) {
    free(prompt->logits);
    prompt->logits = NULL;
  }
}

/* Free places get the choices that have waited longest. */
static void fill(ch_generation *g) {
  for (ch_queued_request *r = g->first; r; r = r->next)
    for (int32_t c = r->begun; c < r->asked.choices && !r->paused; c = c < r->begun ? r->begun : c + 1) {
      if (r->left[c] != CH_CHOICE_OPEN) continue;
      ch_text_place *p = free_place(g);
      if (!p) return;
      settle(g, p, r, c);
    }
}

/* --- rounds --------------------------------------------------------------------------------------------- */

/* One token for every text that is being written. */
static ch_status decode(ch_generation *g, ch_error *error) {
  const float *logits;
  int64_t count = 0;
  for (int64_t i = 0; i < g->count; i++) {
    const ch_text_place *p = &g->places[i];
    if (!p->request || p->phase != CH_PLACE_WRITING || p->request->paused) continue;
    g->sequences[count] = (int32_t)i;
    g->tokens[count++] = p->token;
  }
  if (count == 0) return CH_OK;
  const double start = ch_clock();
  CH_TRY(ch_session_step_some(g->session, g->sequences, (size_t)count, g->tokens, &logits, error));
  if (count == 1) {
    choose(g, &g->places[g->sequences[0]], logits, g->scratch);
  } else {
#pragma omp parallel for schedule(static) num_threads(ch_session_team(g->session)->workers)
    for (int64_t i = 0; i < count; i++)
      choose(g, &g->places[g->sequences[i]], logits + i * g->vocabulary,
             g->scratch + (size_t)omp_get_thread_num() * scratch_of(g));
  }
  g->counts.decode_steps++;
  g->counts.decode_seconds += ch_clock() - start;
  for (int64_t i = 0; i < count; i++)
    if (!is_cancelled(&g->places[g->sequences[i]])) take(g, &g->places[g->sequences[i]]);
  return CH_OK;
}

/* Ends every request with an error. */
static void fail_all(ch_generation *g, ch_status status, const ch_error *error) {
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    if (!p->request) continue;
    p->status = status;
    p->error = *error;
    end_text(g, p, CH_END_ERROR);
  }
  const ch_generation_result failed = {.end = CH_END_ERROR, .stop_string = -1};
  for (ch_queued_request *r = g->first; r; r = r->next)
    for (int32_t c = 0; c < r->asked.choices; c++) {
      ch_event event = {.generated = &failed, .status = status, .message = error->message};
      if (r->left[c] == CH_CHOICE_OVER) continue;
      r->prompt->waiting--;
      report_end(r, c, NULL, &event);
    }
  g->swept = true;
}

static bool is_busy(const ch_generation *g) {
  for (const ch_queued_request *r = g->first; r; r = r->next)
    if (!r->paused) return true;
  return false;
}

static ch_status round_of(ch_generation *g, ch_error *error) {
  sweep(g);
  fill(g);
  sweep(g);
  if (!g->manner.chunk) {
    for (ch_text_place *p; (p = oldest_prompt(g));) {
      read_chunk(g, p);
      sweep(g);
      fill(g);
      sweep(g);
    }
    return decode(g, error);
  }
  CH_TRY(decode(g, error));
  sweep(g);
  fill(g);
  sweep(g);
  ch_text_place *p = oldest_prompt(g);
  if (p) read_chunk(g, p);
  return CH_OK;
}

ch_status ch_generation_step(ch_generation *g, bool *busy, ch_error *error) {
  ch_error why;
  if (!g) return ch_fail(error, CH_ERROR_ARGUMENT, "the generation is NULL");
  if (g->stepping)
    return ch_fail(error, CH_ERROR_ARGUMENT, "a callback cannot step the generation that calls it");
  g->stepping = true;
  ch_status status = round_of(g, &why);
  if (status != CH_OK) {
    fail_all(g, status, &why);
    if (error) *error = why;
  }
  sweep(g);
  g->stepping = false;
  if (busy) *busy = is_busy(g);
  return status;
}

/* --- figures -------------------------------------------------------------------------------------------- */

void ch_generation_count(const ch_generation *g, ch_generation_counts *counts) {
  *counts = g->counts;
  for (const ch_queued_request *r = g->first; r; r = r->next) counts->waiting += r->asked.choices - r->over;
  for (int64_t i = 0; i < g->count; i++) {
    if (!g->places[i].request) continue;
    counts->processing++;
    counts->waiting--;
    counts->cache_tokens += held(g, &g->places[i]);
  }
}

bool ch_generation_at(const ch_generation *g, int32_t index, ch_generation_place *place) {
  if (index < 0 || index >= g->count) return false;
  *place = g->places[index].figures;
  return true;
}

/* --- opening -------------------------------------------------------------------------------------------- */

/* A chunk's pass can be long: the watch may cancel its request. */
static bool watch_pass(int64_t done, int64_t total, void *user) {
  ch_generation *g = user;
  (void)done, (void)total;
  if (!g->watch || !g->reading) return true;
  g->watch(g->watch_user);
  for (int64_t i = 0; i < g->count; i++) {
    const ch_text_place *p = &g->places[i];
    if (p->request && p->request->id == g->reading && p->phase == CH_PLACE_READING) return !is_cancelled(p);
  }
  return true;
}

void ch_generation_set_watch(ch_generation *g, void (*watch)(void *user), void *user) {
  g->watch = watch;
  g->watch_user = user;
}

void ch_generation_own(ch_generation *g, ch_session *session) {
  g->owned = session;
  ch_session_set_progress(session, watch_pass, g);
}

ch_session *ch_generation_session(ch_generation *g) {
  return g->session;
}

static bool reserve(ch_generation *g) {
  const size_t count = (size_t)g->count,
               threads = count > 1 ? (size_t)ch_session_team(g->session)->threads : 1;
  g->places = calloc(count, sizeof *g->places);
  g->top = malloc((count + CH_SKINNY_ROWS) * CH_MOST_TOP * sizeof *g->top);
  g->sequences = malloc(count * sizeof *g->sequences);
  g->tokens = malloc(count * sizeof *g->tokens);
  g->scratch = malloc(threads * scratch_of(g));
  if (!g->places || !g->top || !g->sequences || !g->tokens || !g->scratch) return false;
  for (int64_t i = 0; i < g->count; i++) {
    g->places[i].top = g->top + i * CH_MOST_TOP;
    if (!g->manner.reuses) continue;
    g->places[i].kept = malloc((size_t)g->capacity * sizeof *g->places[i].kept);
    if (!g->places[i].kept) return false;
  }
  return true;
}

ch_status ch_generation_over(ch_session *session, const ch_tokenizer *tokenizer,
                             const ch_generation_manner *manner, ch_generation **result, ch_error *error) {
  const ch_cache *cache = ch_session_cache(session);
  *result = NULL;
  ch_generation *g = calloc(1, sizeof *g);
  if (!g) return ch_no_memory(error);
  g->session = session;
  g->tokenizer = tokenizer;
  g->manner = *manner;
  g->vocabulary = ch_session_vocab_size(session);
  g->capacity = cache->capacity;
  g->count = cache->sequences < CH_SKINNY_ROWS ? cache->sequences : CH_SKINNY_ROWS;
  g->manner.reuses = manner->reuses && !cache->any_fixed; /* such sequences cannot go back */
  if (!reserve(g)) {
    ch_generation_free(g);
    return ch_no_memory(error);
  }
  *result = g;
  return CH_OK;
}

void ch_generation_free(ch_generation *g) {
  if (!g) return;
  while (g->first) ch_request_remove(g, g->first);
  ch_prompt_release(g->shared);
  for (int64_t i = 0; g->places && i < g->count; i++) {
    ch_text_stream_free(g->places[i].stream);
    free(g->places[i].counts);
    free(g->places[i].kept);
  }
  free(g->places);
  free(g->top);
  free(g->sequences);
  free(g->tokens);
  free(g->scratch);
  free(g->logits);
  ch_session_free(g->owned);
  free(g);
}
