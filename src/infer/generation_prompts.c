/* Reads prompts chunk by chunk, and assigns places to choices. A place reuses the beginning of a prompt that a
   sequence already holds. */
#include "infer/generation_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "infer/log_probability.h"
#include "tensor/gemm.h"

/* Ends the reading of a prompt: starts all its texts that have a place. `logits`: the logits after the prompt. */
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
    if (!ch_request_tell(r, &event)) ch_request_cancel(g, r, -1);
  }
  /* waiting texts copy this place's sequence before it grows */
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *other = &g->places[i];
    if (!other->request || other->request->prompt != prompt || other->phase != CH_PLACE_WAITING) continue;
    other->status = ch_session_copy(g->session, ch_place_index(g, p), (int32_t)i, count, &other->error);
    other->serial = prompt->serial;
    other->kept_count = p->kept_count;
    if (other->kept) memcpy(other->kept, p->kept, (size_t)p->kept_count * sizeof *p->kept);
  }
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *other = &g->places[i];
    if (other == p ||
        (other->request && other->request->prompt == prompt && other->phase == CH_PLACE_WAITING)) {
      if (ch_place_is_cancelled(other))
        ch_place_end(g, other, CH_END_STOPPED);
      else if (other->status != CH_OK)
        ch_place_end(g, other, CH_END_ERROR);
      else
        ch_place_begin(g, other, logits);
    }
  }
}

/* Copies the first `length` tokens of sequence `from` to place p, or truncates p's sequence if both are the same. */
static ch_status make(ch_generation *g, ch_text_place *p, const ch_text_place *from, int64_t length) {
  const int64_t chunks = g->manner.reuses ? length - length % g->manner.chunk : 0,
                kept = chunks < from->kept_count ? chunks : from->kept_count;
  CH_TRY(ch_session_copy(g->session, ch_place_index(g, from), ch_place_index(g, p), length, &p->error));
  if (from != p && kept > 0) memcpy(p->kept, from->kept, (size_t)kept * sizeof *p->kept);
  p->kept_count = kept;
  return CH_OK;
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* Argument of `score`, which reports the log-probabilities of prompt tokens. */
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
  if (!ch_request_tell(r, &event)) ch_request_cancel(g, r, -1);
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
  if (!scores(p))
    return ch_session_feed_one(g->session, ch_place_index(g, p), ids, (size_t)count, logits, error);
  scoring s = {g, p};
  if (!g->logits) g->logits = malloc((size_t)g->vocabulary * sizeof *g->logits);
  if (!g->logits) return ch_no_memory(error);
  if (p->read == 0) report_prompt_token(g, p->request, 0, NAN, NULL, 0);
  *logits = g->logits;
  return ch_session_feed_scored(g->session, ch_place_index(g, p), ids, (size_t)count, score, &s, error);
}

/* Records a whole chunk of prompt tokens that the sequence now holds. */
static void keep(ch_generation *g, ch_text_place *p, int64_t count) {
  if (!g->manner.reuses || count != g->manner.chunk) return;
  memcpy(p->kept + p->read, p->request->prompt->ids + p->read, (size_t)count * sizeof *p->kept);
  p->kept_count = p->read + count;
}

/* Lets a waiting text read the prompt, because the text whose place was reading it has ended. */
static void hand_on(ch_generation *g, const ch_text_place *from, const ch_read_prompt *prompt) {
  const int64_t read = ch_place_length(g, from) == from->read ? from->read : 0;
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    if (!p->request || p->request->prompt != prompt || p->phase != CH_PLACE_WAITING) continue;
    p->status = make(g, p, read ? from : p, read);
    p->read = p->status == CH_OK ? read : 0;
    p->phase = CH_PLACE_READING;
    return;
  }
}

void ch_place_read(ch_generation *g, ch_text_place *p) {
  ch_queued_request *r = p->request;
  const int64_t left = r->prompt->count - p->read, before = ch_place_length(g, p),
                count = g->manner.chunk && g->manner.chunk < left ? g->manner.chunk : left;
  const float *logits = NULL;
  const double start = ch_clock();
  g->reading = r->id;
  ch_status status = feed(g, p, count, &logits, &p->error);
  g->reading = 0;
  const double seconds = ch_clock() - start;
  const int64_t fed = ch_place_length(g, p) > before ? ch_place_length(g, p) - before : 0;
  p->generated.prefill_seconds += seconds;
  p->generated.prompt_tokens += fed;
  g->counts.prefill_seconds += seconds;
  g->counts.prompt_tokens += (uint64_t)fed;
  if (p->kept_count > ch_place_length(g, p)) p->kept_count = 0; /* an interrupted pass may have emptied it */
  bool goes_on = status != CH_ERROR_INTERRUPTED;
  if (status == CH_OK) {
    keep(g, p, count);
    p->read += count;
    if (!g->manner.chunk) goes_on = ch_session_goes_on(g->session, r->prompt->count, r->prompt->count);
  }
  if (ch_place_is_cancelled(p)) {
    ch_place_end(g, p, CH_END_STOPPED);
  } else if (!goes_on) {
    ch_generation_drop_waiting(g);
    ch_place_end(g, p, CH_END_STOPPED);
  } else if (status != CH_OK) {
    p->status = status;
    ch_place_end(g, p, CH_END_ERROR);
  } else if (p->read == r->prompt->count) {
    end_prompt(g, p, logits);
    return;
  }
  if (!p->request) hand_on(g, p, r->prompt);
}

ch_text_place *ch_generation_oldest(const ch_generation *g) {
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
  return ch_place_length(g, p) >= length &&
         ch_cache_can_go_back(ch_session_cache(g->session), ch_place_index(g, p), (int32_t)length);
}

/* Returns the number of tokens at the beginning of a prompt that a place's sequence holds, in whole chunks. At least
   one token is left to read. */
static int64_t common(const ch_generation *g, const ch_text_place *p, const ch_read_prompt *prompt) {
  const int64_t most = (prompt->count - 1) / g->manner.chunk * g->manner.chunk;
  int64_t length = 0;
  while (length < p->kept_count && length < most && p->kept[length] == prompt->ids[length]) length++;
  length -= length % g->manner.chunk;
  return length > 0 && can_go_back(g, p, length) ? length : 0;
}

/* Returns the place whose sequence shares the longest beginning of the prompt, or NULL. */
static ch_text_place *best_beginning(const ch_generation *g, const ch_queued_request *r, int64_t *length) {
  ch_text_place *best = NULL;
  *length = 0;
  if (!g->manner.reuses || !r->asked.reuse || (r->asked.echo_probabilities && r->scored < r->prompt->count))
    return NULL;
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    const int64_t same = common(g, p, r->prompt);
    /* Of equally long beginnings, prefers that of a free place without further chunks: it is truncated in place. */
    if (same > *length || (same && same == *length && !p->request && p->kept_count == same)) {
      best = p;
      *length = same;
    }
  }
  return best;
}

/* Returns the free place that has been unused for longest. */
static ch_text_place *free_place(const ch_generation *g) {
  ch_text_place *oldest = NULL;
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    if (!p->request && (!oldest || p->last_use < oldest->last_use)) oldest = p;
  }
  return oldest;
}

/* Returns a place whose sequence begins with a whole prompt, or NULL. */
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

/* Assigns a place to a choice. The choice starts at once if the prompt has been read, waits if another place reads
   it, or else reads it. */
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
    ch_place_end(g, p, CH_END_ERROR);
  } else if (read) {
    if (!r->announced) {
      ch_event event = {.kind = CH_EVENT_PROMPT};
      r->announced = true;
      if (!ch_request_tell(r, &event)) ch_request_cancel(g, r, -1);
    }
    bool goes_on = g->manner.chunk || ch_session_goes_on(g->session, prompt->count, prompt->count);
    if (!goes_on) ch_generation_drop_waiting(g);
    if (ch_place_is_cancelled(p) || !goes_on)
      ch_place_end(g, p, CH_END_STOPPED);
    else
      ch_place_begin(g, p, prompt->logits);
  }
  if (prompt->waiting == 0 && prompt->logits) {
    free(prompt->logits);
    prompt->logits = NULL;
  }
}

void ch_generation_fill(ch_generation *g) {
  for (ch_queued_request *r = g->first; r; r = r->next)
    for (int32_t c = r->begun; c < r->asked.choices && !r->paused; c = c < r->begun ? r->begun : c + 1) {
      if (r->left[c] != CH_CHOICE_OPEN) continue;
      ch_text_place *p = free_place(g);
      if (!p) return;
      settle(g, p, r, c);
    }
}
