/* Runs generation steps and stores their events in the jobs. Starts, pauses, resumes and cancels jobs. */
#include "serve/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "serve/request_worker.h"
#include "serve/token_names.h"
#include "serve/prompt_fields.h"

/* A stream is paused at MOST_PENDING unsent bytes, or at FEW_PENDING while all streams together have more
   than MUCH_ALTOGETHER. */
enum { MOST_PENDING = 1 << 20, FEW_PENDING = 64 << 10, MUCH_ALTOGETHER = 16 << 20 };

/* --- events of the generation --------------------------------------------------------------------------- */

/* Estimates the bytes of the event for one token. */
static size_t event_bytes(const ch_text_job *job, size_t text, int32_t top) {
  size_t probabilities = job->fields.top >= 0 ? 120 + 60 * (size_t)top : 0;
  return 220 + text + probabilities;
}

static void pause_prompts(ch_server *server, const ch_text_job *job, bool paused) {
  for (int p = 0; p < job->prompt_count; p++)
    if (job->prompts[p].id) ch_generation_pause(server->engine.generation, job->prompts[p].id, paused);
}

/* Adds to the unsent bytes of a stream and pauses its job if there are too many. Lock held. */
static void note_pending(ch_exchange *exchange, ch_choice *choice, size_t bytes) {
  ch_text_job *job = exchange->job;
  if (!job->fields.stream) return;
  choice->pending += bytes;
  job->pending += bytes;
  size_t together = atomic_fetch_add(&exchange->server->pending, bytes) + bytes;
  if (job->pending < (size_t)(together > MUCH_ALTOGETHER ? FEW_PENDING : MOST_PENDING) || job->paused) return;
  job->paused = true;
  pause_prompts(exchange->server, job, true);
}

static void fail(ch_text_job *job, unsigned status, const char *code, const char *message) {
  if (job->failed) return;
  job->failed = true;
  ch_refuse(&job->failure, status, code, NULL, "%s", message && *message ? message : "The request failed.");
}

static bool add_record(ch_text_job *job, ch_token_list *written, int64_t mark, const ch_event *event) {
  ch_token_record record = {.token = event->token,
                            .ends = event->ends,
                            .byte = event->text_offset,
                            .character = event->character_offset + mark,
                            .released = written->text.size,
                            .log_probability = event->log_probability};
  if (ch_token_list_add(written, &record, event->top_count == job->fields.top ? event->top : NULL,
                        job->fields.top))
    return true;
  fail(job, 500, "out_of_memory", "The server has no memory for the answer.");
  return false;
}

/* Returns true if a token can complete a character that was begun before it. */
static bool continues(const ch_server *server, int32_t token) {
  size_t size;
  const char *bytes = ch_name_bytes(server->tokenizer, token, &size);
  return size == 0 || (bytes[0] & 0xc0) == 0x80;
}

/* Appends the text of an event to the choice. If the echoed prompt ends inside a character, the first text
   completes it; otherwise U+FFFD replaces it. */
static void put_text(ch_exchange *exchange, const ch_prompt *prompt, ch_choice *choice,
                     const ch_event *event) {
  ch_text_job *job = exchange->job;
  const bool clear =
      event->size > 0 || event->kind == CH_EVENT_END || !continues(exchange->server, event->token);
  if (prompt->unfinished && clear && !choice->begun) {
    choice->begun = true;
    choice->mark = event->prompt_bytes == 0;
    if (choice->mark) ch_text_puts(&choice->written.text, "\xef\xbf\xbd");
  }
  job->newline |= event->size > 0 && memchr(event->text, '\n', event->size);
  ch_text_put(&choice->written.text, event->text, event->size);
  if (choice->written.text.failed)
    fail(job, 500, "out_of_memory", "The server has no memory for the answer.");
}

static void note_token(ch_exchange *exchange, ch_prompt *prompt, const ch_event *event) {
  ch_text_job *job = exchange->job;
  ch_choice *choice = &prompt->choices[event->choice];
  if (job->first_token == 0) {
    job->first_token = ch_clock();
    ch_metrics_observe(&exchange->server->metrics, CH_FIRST_TOKEN, job->first_token - exchange->began);
  }
  choice->tokens++;
  put_text(exchange, prompt, choice, event);
  add_record(job, &choice->written, choice->mark, event);
  note_pending(exchange, choice, event_bytes(job, event->size, event->top_count));
}

static void note_end(ch_exchange *exchange, ch_prompt *prompt, const ch_event *event) {
  ch_text_job *job = exchange->job;
  ch_choice *choice = &prompt->choices[event->choice];
  const ch_generation_result *generated = event->generated;
  put_text(exchange, prompt, choice, event);
  if (choice->written.count > 0)
    choice->written.records[choice->written.count - 1].released = choice->written.text.size;
  choice->over = true;
  choice->end = generated->end;
  choice->stop = generated->stop_string;
  choice->bytes = event->text_offset;
  job->prompt_computed += generated->prompt_tokens;
  if (prompt == job->prompts && event->choice == 0) {
    job->prefill_seconds = generated->prefill_seconds;
    job->decode_seconds = generated->decode_seconds;
  }
  if (event->choice == 0 && prompt->read)
    ch_metrics_observe(&exchange->server->metrics, CH_IN_QUEUE,
                       fmax(0, prompt->read_at - exchange->began - generated->prefill_seconds));
  if (generated->end == CH_END_ERROR) fail(job, 500, "numeric", event->message);
  if (choice->tokens > 1)
    ch_metrics_observe(&exchange->server->metrics, CH_PER_TOKEN,
                       generated->decode_seconds / (double)(choice->tokens - 1));
  note_pending(exchange, choice, event_bytes(job, event->size, 0));
  job->left--;
}

/* Returns true if the answer is not needed any more. Counts each request of a client that disconnected once. */
static bool is_gone(ch_exchange *exchange) {
  if (!atomic_load(&exchange->gone)) return false;
  if (!exchange->job->counted_gone && !atomic_load(&exchange->server->cut))
    ch_metrics_cancelled(&exchange->server->metrics);
  exchange->job->counted_gone = true;
  return true;
}

/* Returns the prompt with this generation id. */
static ch_prompt *prompt_of(ch_text_job *job, int64_t id) {
  for (int p = 0; p < job->prompt_count; p++)
    if (job->prompts[p].id == id) return &job->prompts[p];
  return NULL;
}

/* Receives the events of every generation request; `user` is the request's exchange. Returns false to cancel. */
static bool take_event(const ch_event *event, void *user) {
  ch_exchange *exchange = user;
  ch_text_job *job = exchange->job;
  pthread_mutex_lock(&exchange->lock);
  ch_prompt *prompt = prompt_of(job, event->request);
  if (event->kind == CH_EVENT_PROMPT_TOKEN) add_record(job, &prompt->echo, 0, event);
  if (event->kind == CH_EVENT_PROMPT) {
    prompt->read = true;
    prompt->cached = event->cached;
    prompt->read_at = ch_clock();
    if (!ch_prompt_place(exchange->server, prompt))
      fail(job, 500, "out_of_memory", "The server has no memory for the answer.");
  }
  if (event->kind == CH_EVENT_TOKEN) note_token(exchange, prompt, event);
  if (event->kind == CH_EVENT_END) note_end(exchange, prompt, event);
  bool go_on = !job->failed && !is_gone(exchange);
  bool streams = job->fields.stream && event->kind != CH_EVENT_PROMPT_TOKEN;
  pthread_mutex_unlock(&exchange->lock);
  if (streams) ch_exchange_wake(exchange);
  return go_on;
}

/* --- adding and removing requests ----------------------------------------------------------------------- */

static ch_generation_request request_of(const ch_request_fields *fields, const ch_prompt *prompt,
                                        ch_exchange *exchange) {
  ch_generation_request request;
  ch_generation_request_defaults(&request);
  request.prompt = prompt->ids.data;
  request.prompt_count = prompt->ids.size;
  request.choices = (int32_t)fields->n;
  request.max_tokens = fields->max_tokens;
  request.sampler.temperature = fields->top_p == 0 ? 0 : fields->temperature;
  request.sampler.top_k = fields->top_k < 0           ? 0
                          : fields->top_k < INT32_MAX ? (int32_t)fields->top_k
                                                      : INT32_MAX;
  request.sampler.top_p = fields->top_p == 0 ? 1 : fields->top_p;
  request.seed = (uint64_t)fields->seed;
  request.biases = fields->biases;
  request.bias_count = fields->bias_count;
  request.frequency_penalty = fields->frequency_penalty;
  request.presence_penalty = fields->presence_penalty;
  request.ban_end_tokens = fields->ignore_eos;
  request.min_tokens = fields->min_tokens;
  request.stops = (const char *const *)fields->stops;
  request.stop_count = fields->stop_count;
  request.probabilities = fields->top >= 0;
  request.top_count = fields->top > 0 ? (int32_t)fields->top : 0;
  request.echo_probabilities = fields->echo && fields->top >= 0;
  request.reuse = fields->cache_prompt;
  request.sink = take_event;
  request.user = exchange;
  return request;
}

static void cancel(ch_server *server, const ch_text_job *job) {
  for (int p = 0; p < job->prompt_count; p++)
    if (job->prompts[p].id) ch_generation_cancel(server->engine.generation, job->prompts[p].id, -1);
}

/* Adds the prompts of a job to the generation. If one prompt fails, the prompts added before it are cancelled. */
static void add(ch_server *server, ch_exchange *exchange) {
  ch_text_job *job = exchange->job;
  ch_engine *engine = &server->engine;
  int added = 0;
  for (; added < job->prompt_count && !job->failed; added++) {
    ch_prompt *prompt = &job->prompts[added];
    ch_generation_request request = request_of(&job->fields, prompt, exchange);
    ch_error error = {0};
    ch_status status = ch_generation_add(engine->generation, &request, &prompt->id, &error);
    if (status == CH_OK) continue;
    prompt->id = 0;
    pthread_mutex_lock(&exchange->lock);
    fail(job, status == CH_ERROR_MEMORY ? 500 : 400,
         status == CH_ERROR_MEMORY ? "out_of_memory" : "invalid_value", error.message);
    pthread_mutex_unlock(&exchange->lock);
    break;
  }
  if (!job->failed) return;
  pthread_mutex_lock(&exchange->lock);
  /* Prompts that were not added have no end event. */
  job->left -= (job->prompt_count - added) * job->fields.n;
  pthread_mutex_unlock(&exchange->lock);
  cancel(server, job);
}

/* Reserves room for one more active exchange. */
static bool reserve_active(ch_engine *engine) {
  if (engine->active_count < engine->active_capacity) return true;
  size_t capacity = engine->active_capacity ? 2 * engine->active_capacity : 64;
  ch_exchange **active = realloc(engine->active, capacity * sizeof *active);
  if (!active) return false;
  engine->active = active;
  engine->active_capacity = capacity;
  return true;
}

/* Finishes a job. A client that waits for a complete answer gets it from the request worker. */
static void finish(ch_server *server, ch_exchange *exchange) {
  ch_text_job *job = exchange->job;
  pthread_mutex_lock(&exchange->lock);
  job->ended = ch_clock();
  job->left = 0;
  bool streams = job->fields.stream;
  pthread_mutex_unlock(&exchange->lock);
  if (!atomic_load(&exchange->gone))
    ch_metrics_observe(&server->metrics, CH_WHOLE_REQUEST, job->ended - exchange->began);
  if (streams || atomic_load(&exchange->gone))
    ch_exchange_wake(exchange);
  else
    ch_request_worker_put(server, exchange);
  ch_exchange_release(exchange);
}

static void admit(ch_server *server, ch_exchange *exchange) {
  if (is_gone(exchange) || !reserve_active(&server->engine)) {
    pthread_mutex_lock(&exchange->lock);
    if (!atomic_load(&exchange->gone))
      fail(exchange->job, 500, "out_of_memory", "The server has no memory for this request.");
    pthread_mutex_unlock(&exchange->lock);
    finish(server, exchange);
    return;
  }
  server->engine.active[server->engine.active_count++] = exchange;
  add(server, exchange);
}

/* Cancels jobs whose client disconnected, and resumes paused jobs whose client has caught up. */
static void attend(ch_server *server) {
  for (size_t i = 0; i < server->engine.active_count; i++) {
    ch_exchange *exchange = server->engine.active[i];
    ch_text_job *job = exchange->job;
    if (is_gone(exchange)) cancel(server, job);
    if (atomic_exchange(&job->resume, false)) pause_prompts(server, job, false);
  }
}

/* Cancels and resumes jobs if another thread called ch_engine_attend. The generation calls it during long passes, so
   that cancellation does not wait for their end. */
static void watch(void *user) {
  ch_server *server = user;
  pthread_mutex_lock(&server->engine.lock);
  bool attention = server->engine.attention;
  server->engine.attention = false;
  pthread_mutex_unlock(&server->engine.lock);
  if (attention) attend(server);
}

/* Cancels the remaining choices of failed jobs, and removes finished jobs. */
static void sweep(ch_server *server) {
  ch_engine *engine = &server->engine;
  size_t kept = 0;
  for (size_t i = 0; i < engine->active_count; i++) {
    ch_exchange *exchange = engine->active[i];
    if (exchange->job->failed && exchange->job->left > 0) cancel(server, exchange->job);
    if (exchange->job->left > 0)
      engine->active[kept++] = exchange;
    else
      finish(server, exchange);
  }
  engine->active_count = kept;
}

/* Publishes counts and slots for the other threads. Subtracts the `taken` sequences, which the counts now include,
   from the inbox. */
static void publish(ch_server *server, int64_t taken) {
  ch_engine *engine = &server->engine;
  pthread_mutex_lock(&engine->lock);
  ch_generation_count(engine->generation, &engine->view.counts);
  for (int32_t i = 0; i < server->session.sequences; i++)
    ch_generation_at(engine->generation, i, &engine->view.places[i]);
  engine->inbox_count -= taken;
  pthread_mutex_unlock(&engine->lock);
}

void ch_engine_run(ch_server *server) {
  ch_engine *engine = &server->engine;
  bool busy = false, cold = true;
  int32_t warmed = 0;
  ch_generation_set_watch(engine->generation, watch, server);
  for (;;) {
    pthread_mutex_lock(&engine->lock);
    while (!busy && !engine->inbox.first && !engine->attention && !engine->quit) {
      if (!cold) {
        pthread_cond_wait(&engine->wake, &engine->lock);
        continue;
      }
      pthread_mutex_unlock(&engine->lock);
      cold = ch_generation_warm(engine->generation, warmed++);
      pthread_mutex_lock(&engine->lock);
    }
    ch_exchange_queue inbox = engine->inbox;
    bool quit = engine->quit, attention = engine->attention;
    engine->inbox = (ch_exchange_queue){0};
    engine->attention = false;
    pthread_mutex_unlock(&engine->lock);
    int64_t taken = 0;
    for (ch_exchange *exchange; (exchange = ch_exchange_queue_pop(&inbox));) {
      taken += ch_engine_sequences(exchange->job);
      admit(server, exchange);
    }
    if (attention || quit) attend(server);
    if (quit && engine->active_count == 0) break;
    ch_error error = {0};
    /* the generation reports an error to every job */
    (void)ch_generation_step(engine->generation, &busy, &error);
    publish(server, taken);
    sweep(server);
    publish(server, 0);
  }
  free(engine->active);
}
