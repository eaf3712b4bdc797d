/* Turns generated tokens into server-sent events, a few at a time, so that a slow client costs little
   memory. */
#include "serve/event_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "serve/answer.h"

enum { ENOUGH = 16 << 10 }; /* bytes of events that are written ahead */

/* The state of one choice in the stream. */
typedef struct part {
  ch_token_list taken; /* tokens taken from the engine */
  size_t at, sent;     /* number of records and bytes of `taken` that were written as events */
  int64_t released;    /* bytes of the choice's text released so far, including `taken` */
  bool begun, over, finished;
} part;

struct ch_events {
  ch_text out;         /* written events */
  size_t sent;         /* bytes of `out` that were sent */
  int64_t count, left; /* number of choices, number of unfinished choices */
  bool ended, failed;
  part parts[]; /* [count] */
};

ch_events *ch_events_new(const ch_text_job *job) {
  int64_t count = job->prompt_count * job->fields.n;
  ch_events *events = calloc(1, sizeof *events + (size_t)count * sizeof events->parts[0]);
  if (events) events->count = events->left = count;
  return events;
}

void ch_events_free(ch_events *events) {
  if (!events) return;
  for (int64_t i = 0; i < events->count; i++) ch_token_list_free(&events->parts[i].taken);
  ch_text_free(&events->out);
  free(events);
}

/* Removes the tokens and the text that were written as events from the front of the list. */
static void compact(ch_token_list *taken, part *p, int64_t width) {
  size_t left = taken->count - p->at;
  if (p->at > 0 && left > 0) {
    memmove(taken->records, taken->records + p->at, left * sizeof *taken->records);
    if (width)
      memmove(taken->top, taken->top + p->at * (size_t)width, left * (size_t)width * sizeof *taken->top);
  }
  for (size_t i = 0; i < left; i++) taken->records[i].released -= p->sent;
  if (p->sent > 0) memmove(taken->text.data, taken->text.data + p->sent, taken->text.size - p->sent);
  taken->text.size -= p->sent;
  taken->count = left;
  p->at = p->sent = 0;
}

/* Moves new tokens of a choice from the engine to the stream. Returns true if there were any, or if the choice has
   ended since the last call. Lock held. */
static bool take(ch_exchange *exchange, ch_choice *choice, part *p) {
  ch_text_job *job = exchange->job;
  ch_token_list *fresh = &choice->written;
  int64_t width = job->fields.top > 0 ? job->fields.top : 0;
  bool ended = choice->over && !p->over;
  p->over = choice->over;
  if (fresh->count == 0 && fresh->text.size == 0) return ended;
  compact(&p->taken, p, width);
  size_t before = p->taken.text.size;
  ch_text_put(&p->taken.text, fresh->text.data, fresh->text.size);
  exchange->events->failed |= p->taken.text.failed;
  for (size_t i = 0; i < fresh->count; i++) {
    fresh->records[i].released += before;
    if (!ch_token_list_add(&p->taken, &fresh->records[i], fresh->top ? fresh->top + (int64_t)i * width : NULL,
                           width))
      exchange->events->failed = true;
  }
  p->released += (int64_t)fresh->text.size;
  fresh->count = fresh->text.size = 0;
  job->pending -= choice->pending;
  atomic_fetch_sub(&exchange->server->pending, choice->pending);
  choice->pending = 0;
  return true;
}

/* Marks a paused job for resuming if the stream has taken all its tokens. Returns true if the job was marked. Lock
   held. */
static bool can_resume(ch_text_job *job) {
  if (!job->paused || job->pending > 0) return false;
  job->paused = false;
  atomic_store(&job->resume, true);
  return true;
}

/* Writes events for the taken tokens. Returns false if enough bytes are ready, true if more tokens are
   needed. */
static bool put_taken(ch_exchange *exchange, const ch_answer_format *style, const ch_view *view, part *p,
                      ch_text *out) {
  const int64_t width = view->job->fields.top > 0 ? view->job->fields.top : 0;
  const bool waits = style->waits_for_text && view->job->fields.top >= 0;
  for (; p->at < p->taken.count; p->at++) {
    const ch_token_record *record = &p->taken.records[p->at];
    /* true if the text of the token was not released: it belongs to a stop string or is still incomplete */
    bool textless = waits && record->byte >= p->released;
    if (textless && !p->over) return true;
    if (textless) continue;
    if (out->size >= ENOUGH) return false;
    style->token(out, exchange, view, p->taken.text.data ? p->taken.text.data + p->sent : "",
                 record->released - p->sent, record,
                 p->taken.top ? p->taken.top + (int64_t)p->at * width : NULL);
    p->sent = record->released;
  }
  return true;
}

/* Writes events for one choice. */
static void serve_choice(ch_exchange *exchange, int64_t index) {
  ch_events *events = exchange->events;
  part *p = &events->parts[index];
  ch_view view = ch_view_of(exchange, index);
  const ch_answer_format *style = ch_answer_format_of(view.job->fields.form);
  ch_prompt *prompt = &exchange->job->prompts[index / exchange->job->fields.n];
  ch_choice *choice = &prompt->choices[index % exchange->job->fields.n];
  while (!p->finished && events->out.size < ENOUGH) {
    pthread_mutex_lock(&exchange->lock);
    bool ready = prompt->read || !style->waits_for_prompt || choice->over;
    pthread_mutex_unlock(&exchange->lock);
    if (!p->begun && !ready) return;
    if (!p->begun && style->begin) style->begin(&events->out, exchange, &view);
    p->begun = true;
    if (!put_taken(exchange, style, &view, p, &events->out)) return;
    if (p->over) {
      style->finish(&events->out, exchange, &view, p->taken.text.data ? p->taken.text.data + p->sent : "",
                    p->taken.text.size - p->sent);
      p->finished = true;
      events->left--;
      return;
    }
    pthread_mutex_lock(&exchange->lock);
    bool more = take(exchange, choice, p);
    pthread_mutex_unlock(&exchange->lock);
    if (!more) return;
  }
}

/* --- the stream ----------------------------------------------------------------------------------------- */

static void put_failure(ch_exchange *exchange, ch_text *out) {
  pthread_mutex_lock(&exchange->lock);
  ch_refusal failure = exchange->job->failure;
  pthread_mutex_unlock(&exchange->lock);
  ch_text_puts(out, "data: ");
  ch_put_refusal(out, &failure);
  ch_text_puts(out, "\n\n");
}

/* Writes the next events. */
static void make(ch_exchange *exchange) {
  ch_events *events = exchange->events;
  pthread_mutex_lock(&exchange->lock);
  bool failed = exchange->job->failed;
  pthread_mutex_unlock(&exchange->lock);
  if (failed && !events->failed) {
    put_failure(exchange, &events->out);
    events->failed = true;
    return;
  }
  for (int64_t i = 0; i < events->count && events->out.size < ENOUGH; i++) serve_choice(exchange, i);
  if (events->left > 0 || events->ended || events->out.size >= ENOUGH) return;
  ch_answer_format_of(exchange->job->fields.form)->end(&events->out, exchange);
  events->ended = true;
}

/* Suspends the connection until the engine has more tokens, unless there are more already. Returns true if the
   connection is suspended. Sets *comment to true if the stream must send a comment instead. */
static bool wait_for_more(ch_exchange *exchange, bool *comment) {
  ch_text_job *job = exchange->job;
  pthread_mutex_lock(&exchange->lock);
  bool resume = can_resume(job), fresh = job->failed || job->pending > 0 || exchange->woken;
  *comment = exchange->nudged;
  bool waits = !*comment && !fresh && !atomic_load(&exchange->gone);
  exchange->woken = false;
  exchange->nudged = false;
  if (waits) ch_exchange_suspend(exchange);
  pthread_mutex_unlock(&exchange->lock);
  if (resume) ch_engine_attend(exchange->server);
  return waits;
}

ssize_t ch_events_read(ch_exchange *exchange, char *bytes, size_t most) {
  ch_events *events = exchange->events;
  while (events->sent == events->out.size) {
    bool comment = false;
    events->sent = events->out.size = 0;
    if (events->ended) return -1;
    if (events->failed || atomic_load(&exchange->gone)) return -2;
    make(exchange);
    if (events->out.failed) return -2;
    if (events->out.size > 0) break;
    if (wait_for_more(exchange, &comment)) return 0;
    if (comment) ch_text_puts(&events->out, ":\n\n");
  }
  size_t size = events->out.size - events->sent;
  if (size > most) size = most;
  memcpy(bytes, events->out.data + events->sent, size);
  events->sent += size;
  pthread_mutex_lock(&exchange->lock);
  exchange->quiet = ch_clock();
  pthread_mutex_unlock(&exchange->lock);
  return (ssize_t)size;
}
