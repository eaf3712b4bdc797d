/* Runs the rounds of a generation. A round decodes one token for every text. It reads one chunk of one prompt, or all
   prompts if ch_generation_manner.chunk is 0. */
#include "infer/generation_parts.h"

#include <omp.h>
#include <stdlib.h>

#include "base/progress.h"
#include "tensor/gemm.h"

_Static_assert((int)CH_BATCH_MOST == (int)CH_SKINNY_ROWS, "a step is one skinny product");

/* --- cancelling ----------------------------------------------------------------------------------------- */

static ch_queued_request *find_request(const ch_generation *g, int64_t id) {
  ch_queued_request *r = g->first;
  while (r && r->id != id) r = r->next;
  return r;
}

/* Ends the choices that were cancelled, and removes requests that are over. */
static void sweep(ch_generation *g) {
  if (!g->swept) return;
  for (bool again = true; again;) { /* sinks may cancel more choices */
    again = false;
    for (ch_queued_request *r = g->first; r; r = r->next)
      for (int32_t c = 0; c < r->asked.choices; c++) {
        ch_event event = {0};
        if (r->left[c] != CH_CHOICE_CANCELLED) continue;
        again = true;
        ch_text_place *p = ch_request_place(g, r, c);
        if (p) {
          ch_place_end(g, p, CH_END_STOPPED);
          continue;
        }
        r->prompt->waiting--;
        ch_request_end(r, c, NULL, &event);
      }
  }
  for (ch_queued_request *r = g->first, *next; r; r = next) {
    next = r->next;
    if (r->over == r->asked.choices) ch_request_remove(g, r);
  }
  g->swept = false;
}

void ch_generation_cancel(ch_generation *g, int64_t id, int32_t choice) {
  ch_queued_request *r = g ? find_request(g, id) : NULL;
  if (!r) return;
  ch_request_cancel(g, r, choice);
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

/* --- rounds --------------------------------------------------------------------------------------------- */

/* Decodes one token for every text in phase CH_PLACE_WRITING whose request is not paused. */
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
    ch_place_choose(g, &g->places[g->sequences[0]], logits, g->scratch);
  } else {
#pragma omp parallel for schedule(static) num_threads(ch_session_team(g->session)->workers)
    for (int64_t i = 0; i < count; i++)
      ch_place_choose(g, &g->places[g->sequences[i]], logits + i * g->vocabulary,
                      g->scratch + (size_t)omp_get_thread_num() * ch_generation_scratch(g));
  }
  g->counts.decode_steps++;
  g->counts.decode_seconds += ch_clock() - start;
  for (int64_t i = 0; i < count; i++)
    if (!ch_place_is_cancelled(&g->places[g->sequences[i]])) ch_place_take(g, &g->places[g->sequences[i]]);
  return CH_OK;
}

/* Ends every request with an error. */
static void fail_all(ch_generation *g, ch_status status, const ch_error *error) {
  for (int64_t i = 0; i < g->count; i++) {
    ch_text_place *p = &g->places[i];
    if (!p->request) continue;
    p->status = status;
    p->error = *error;
    ch_place_end(g, p, CH_END_ERROR);
  }
  const ch_generation_result failed = {.end = CH_END_ERROR, .stop_string = -1};
  for (ch_queued_request *r = g->first; r; r = r->next)
    for (int32_t c = 0; c < r->asked.choices; c++) {
      ch_event event = {.generated = &failed, .status = status, .message = error->message};
      if (r->left[c] == CH_CHOICE_OVER) continue;
      r->prompt->waiting--;
      ch_request_end(r, c, NULL, &event);
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
  ch_generation_fill(g);
  sweep(g);
  if (!g->manner.chunk) {
    for (ch_text_place *p; (p = ch_generation_oldest(g));) {
      ch_place_read(g, p);
      sweep(g);
      ch_generation_fill(g);
      sweep(g);
    }
    return decode(g, error);
  }
  CH_TRY(decode(g, error));
  sweep(g);
  ch_generation_fill(g);
  sweep(g);
  ch_text_place *p = ch_generation_oldest(g);
  if (p) ch_place_read(g, p);
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
    counts->cache_tokens += ch_place_length(g, &g->places[i]);
  }
}

bool ch_generation_at(const ch_generation *g, int32_t index, ch_generation_place *place) {
  if (index < 0 || index >= g->count) return false;
  *place = g->places[index].figures;
  return true;
}

bool ch_generation_warm(const ch_generation *g, int32_t index) {
  enum { FIRST_TOKENS = 512 };
  if (index < 0 || index >= g->count) return false;
  ch_cache_touch(ch_session_cache(g->session), index, FIRST_TOKENS);
  return true;
}

/* --- opening -------------------------------------------------------------------------------------------- */

/* Calls the watch during the pass over a chunk, which can be long. Returns false if the watch cancelled the
   request. */
static bool watch_pass(int64_t done, int64_t total, void *user) {
  ch_generation *g = user;
  (void)done, (void)total;
  if (!g->watch || !g->reading) return true;
  g->watch(g->watch_user);
  for (int64_t i = 0; i < g->count; i++) {
    const ch_text_place *p = &g->places[i];
    if (p->request && p->request->id == g->reading && p->phase == CH_PLACE_READING)
      return !ch_place_is_cancelled(p);
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
  g->scratch = malloc(threads * ch_generation_scratch(g));
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
  /* sequences with states of a fixed size cannot go back */
  g->manner.reuses = manner->reuses && !cache->any_fixed;
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
