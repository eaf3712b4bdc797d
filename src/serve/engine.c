/* Rounds of the generation, and what they report, put into the requests. */
#include "serve/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "serve/desk.h"
#include "serve/names.h"
#include "serve/prompt_fields.h"

/* A stream whose client does not read is paused when so many bytes wait for it; less when streams have much to send altogether. */
enum { MOST_PENDING = 1 << 20, FEW_PENDING = 64 << 10, MUCH_ALTOGETHER = 16 << 20 };

/* --- what the generation reports -------------------------------------------------------------------------------------- */

/* Bytes that an event of a token takes, about. */
static size_t event_bytes(const ch_writing *writing, size_t text, int32_t top) {
  size_t probabilities = writing->asked.top >= 0 ? 120 + 60 * (size_t)top : 0;
  return 220 + text + probabilities;
}

static void pause_prompts(ch_server *server, const ch_writing *writing, bool paused) {
  for (int p = 0; p < writing->prompt_count; p++)
    if (writing->prompts[p].id)
      ch_generation_pause(server->engine.generation, writing->prompts[p].id, paused);
}

/* Of a stream: counts what waits to be sent, and pauses the request if that is too much. Lock held. */
static void note_pending(ch_exchange *exchange, ch_choice *choice, size_t bytes) {
  ch_writing *writing = exchange->writing;
  if (!writing->asked.stream) return;
  choice->pending += bytes;
  writing->pending += bytes;
  size_t together = atomic_fetch_add(&exchange->server->pending, bytes) + bytes;
  if (writing->pending < (size_t)(together > MUCH_ALTOGETHER ? FEW_PENDING : MOST_PENDING) || writing->paused)
    return;
  writing->paused = true;
  pause_prompts(exchange->server, writing, true);
}

static void fail(ch_writing *writing, unsigned status, const char *code, const char *message) {
  if (writing->failed) return;
  writing->failed = true;
  ch_refuse(&writing->failure, status, code, NULL, "%s",
            message && *message ? message : "The request failed.");
}

static bool add_record(ch_writing *writing, ch_written *written, int64_t mark, const ch_event *event) {
  ch_record record = {.token = event->token,
                      .ends = event->ends,
                      .byte = event->text_offset,
                      .character = event->character_offset + mark,
                      .released = written->text.size,
                      .log_probability = event->log_probability};
  if (ch_written_add(written, &record, event->top_count == writing->asked.top ? event->top : NULL,
                     writing->asked.top))
    return true;
  fail(writing, 500, "out_of_memory", "The server has no memory for the answer.");
  return false;
}

/* Returns true if a token can go on with a character. */
static bool continues(const ch_server *server, int32_t token) {
  size_t size;
  const char *bytes = ch_name_bytes(server->tokenizer, token, &size);
  return size == 0 || (bytes[0] & 0xc0) == 0x80;
}

/* Puts the text of an event behind the choice's. The first one completes a character that the echoed prompt left unfinished, or
   U+FFFD stands for it. */
static void put_text(ch_exchange *exchange, const ch_prompt *prompt, ch_choice *choice,
                     const ch_event *event) {
  ch_writing *writing = exchange->writing;
  const bool clear =
      event->size > 0 || event->kind == CH_EVENT_END || !continues(exchange->server, event->token);
  if (prompt->unfinished && clear && !choice->begun) {
    choice->begun = true;
    choice->mark = event->prompt_bytes == 0;
    if (choice->mark) ch_text_puts(&choice->written.text, "\xef\xbf\xbd");
  }
  writing->newline |= event->size > 0 && memchr(event->text, '\n', event->size);
  ch_text_put(&choice->written.text, event->text, event->size);
  if (choice->written.text.failed)
    fail(writing, 500, "out_of_memory", "The server has no memory for the answer.");
}

static void note_token(ch_exchange *exchange, ch_prompt *prompt, const ch_event *event) {
  ch_writing *writing = exchange->writing;
  ch_choice *choice = &prompt->choices[event->choice];
  if (writing->first_token == 0) {
    writing->first_token = ch_clock();
    ch_metrics_observe(&exchange->server->metrics, CH_FIRST_TOKEN, writing->first_token - exchange->began);
  }
  choice->tokens++;
  put_text(exchange, prompt, choice, event);
  add_record(writing, &choice->written, choice->mark, event);
  note_pending(exchange, choice, event_bytes(writing, event->size, event->top_count));
}

static void note_end(ch_exchange *exchange, ch_prompt *prompt, const ch_event *event) {
  ch_writing *writing = exchange->writing;
  ch_choice *choice = &prompt->choices[event->choice];
  const ch_generation_result *generated = event->generated;
  put_text(exchange, prompt, choice, event);
  if (choice->written.count > 0)
    choice->written.records[choice->written.count - 1].released = choice->written.text.size;
  choice->over = true;
  choice->end = generated->end;
  choice->stop = generated->stop_string;
  choice->bytes = event->text_offset;
  writing->prompt_computed += generated->prompt_tokens;
  if (prompt == writing->prompts && event->choice == 0) {
    writing->prefill_seconds = generated->prefill_seconds;
    writing->decode_seconds = generated->decode_seconds;
  }
  if (event->choice == 0 && prompt->read)
    ch_metrics_observe(&exchange->server->metrics, CH_IN_QUEUE,
                       fmax(0, prompt->read_at - exchange->began - generated->prefill_seconds));
  if (generated->end == CH_END_ERROR) fail(writing, 500, "numeric", event->message);
  if (choice->tokens > 1)
    ch_metrics_observe(&exchange->server->metrics, CH_PER_TOKEN,
                       generated->decode_seconds / (double)(choice->tokens - 1));
  note_pending(exchange, choice, event_bytes(writing, event->size, 0));
  writing->left--;
}

/* Returns true if the client left, which counts once. */
static bool is_gone(ch_exchange *exchange) {
  if (!atomic_load(&exchange->gone)) return false;
  if (!exchange->writing->counted_gone && !atomic_load(&exchange->server->cut))
    ch_metrics_cancelled(&exchange->server->metrics);
  exchange->writing->counted_gone = true;
  return true;
}

/* Returns the prompt of a request of the generation. */
static ch_prompt *prompt_of(ch_writing *writing, int64_t id) {
  for (int p = 0; p < writing->prompt_count; p++)
    if (writing->prompts[p].id == id) return &writing->prompts[p];
  return NULL;
}

/* The sink of every request: `user` is its exchange. */
static bool take_event(const ch_event *event, void *user) {
  ch_exchange *exchange = user;
  ch_writing *writing = exchange->writing;
  pthread_mutex_lock(&exchange->lock);
  ch_prompt *prompt = prompt_of(writing, event->request);
  if (event->kind == CH_EVENT_PROMPT_TOKEN) add_record(writing, &prompt->echo, 0, event);
  if (event->kind == CH_EVENT_PROMPT) {
    prompt->read = true;
    prompt->cached = event->cached;
    prompt->read_at = ch_clock();
    if (!ch_prompt_place(exchange->server, prompt))
      fail(writing, 500, "out_of_memory", "The server has no memory for the answer.");
  }
  if (event->kind == CH_EVENT_TOKEN) note_token(exchange, prompt, event);
  if (event->kind == CH_EVENT_END) note_end(exchange, prompt, event);
  bool go_on = !writing->failed && !is_gone(exchange);
  bool streams = writing->asked.stream && event->kind != CH_EVENT_PROMPT_TOKEN;
  pthread_mutex_unlock(&exchange->lock);
  if (streams) ch_exchange_wake(exchange);
  return go_on;
}

/* --- requests come and go ----------------------------------------------------------------------------------------------- */

static ch_generation_request request_of(const ch_asked *asked, const ch_prompt *prompt,
                                        ch_exchange *exchange) {
  ch_generation_request request;
  ch_generation_request_defaults(&request);
  request.prompt = prompt->ids.data;
  request.prompt_count = prompt->ids.size;
  request.choices = (int32_t)asked->n;
  request.max_tokens = asked->max_tokens;
  request.sampler.temperature = asked->top_p == 0 ? 0 : asked->temperature;
  request.sampler.top_k = asked->top_k < 0 ? 0 : asked->top_k < INT32_MAX ? (int32_t)asked->top_k : INT32_MAX;
  request.sampler.top_p = asked->top_p == 0 ? 1 : asked->top_p;
  request.seed = (uint64_t)asked->seed;
  request.biases = asked->biases;
  request.bias_count = asked->bias_count;
  request.frequency_penalty = asked->frequency_penalty;
  request.presence_penalty = asked->presence_penalty;
  request.ban_end_tokens = asked->ignore_eos;
  request.min_tokens = asked->min_tokens;
  request.stops = (const char *const *)asked->stops;
  request.stop_count = asked->stop_count;
  request.probabilities = asked->top >= 0;
  request.top_count = asked->top > 0 ? (int32_t)asked->top : 0;
  request.echo_probabilities = asked->echo && asked->top >= 0;
  request.reuse = asked->cache_prompt;
  request.sink = take_event;
  request.user = exchange;
  return request;
}

static void cancel(ch_server *server, const ch_writing *writing) {
  for (int p = 0; p < writing->prompt_count; p++)
    if (writing->prompts[p].id) ch_generation_cancel(server->engine.generation, writing->prompts[p].id, -1);
}

/* Adds all prompts of a request, or none. */
static void add(ch_server *server, ch_exchange *exchange) {
  ch_writing *writing = exchange->writing;
  ch_engine *engine = &server->engine;
  for (int p = 0; p < writing->prompt_count && !writing->failed; p++) {
    ch_prompt *prompt = &writing->prompts[p];
    ch_generation_request request = request_of(&writing->asked, prompt, exchange);
    ch_error error = {0};
    ch_status status = ch_generation_add(engine->generation, &request, &prompt->id, &error);
    if (status == CH_OK) continue;
    prompt->id = 0;
    fail(writing, status == CH_ERROR_MEMORY ? 500 : 400,
         status == CH_ERROR_MEMORY ? "out_of_memory" : "invalid_value", error.message);
  }
  if (writing->failed) cancel(server, writing);
}

/* Makes room for one more active exchange. */
static bool reserve_active(ch_engine *engine) {
  if (engine->active_count < engine->active_capacity) return true;
  size_t capacity = engine->active_capacity ? 2 * engine->active_capacity : 64;
  ch_exchange **active = realloc(engine->active, capacity * sizeof *active);
  if (!active) return false;
  engine->active = active;
  engine->active_capacity = capacity;
  return true;
}

/* A request is over: who waits for its whole answer gets it from the desk. */
static void finish(ch_server *server, ch_exchange *exchange) {
  ch_writing *writing = exchange->writing;
  pthread_mutex_lock(&exchange->lock);
  writing->ended = ch_clock();
  writing->left = 0;
  bool streams = writing->asked.stream;
  pthread_mutex_unlock(&exchange->lock);
  if (!atomic_load(&exchange->gone))
    ch_metrics_observe(&server->metrics, CH_WHOLE_REQUEST, writing->ended - exchange->began);
  if (streams || atomic_load(&exchange->gone))
    ch_exchange_wake(exchange);
  else
    ch_desk_put(server, exchange);
  ch_exchange_release(exchange);
}

static void admit(ch_server *server, ch_exchange *exchange) {
  if (is_gone(exchange) || !reserve_active(&server->engine)) {
    if (!atomic_load(&exchange->gone))
      fail(exchange->writing, 500, "out_of_memory", "The server has no memory for this request.");
    finish(server, exchange);
    return;
  }
  server->engine.active[server->engine.active_count++] = exchange;
  add(server, exchange);
}

/* Cancels requests whose client left, and lets those go on whose client has read. */
static void attend(ch_server *server) {
  for (size_t i = 0; i < server->engine.active_count; i++) {
    ch_exchange *exchange = server->engine.active[i];
    ch_writing *writing = exchange->writing;
    if (is_gone(exchange)) cancel(server, writing);
    if (atomic_exchange(&writing->resume, false)) pause_prompts(server, writing, false);
  }
}

/* Within long passes. */
static void watch(void *user) {
  ch_server *server = user;
  pthread_mutex_lock(&server->engine.lock);
  bool attention = server->engine.attention;
  server->engine.attention = false;
  pthread_mutex_unlock(&server->engine.lock);
  if (attention) attend(server);
}

/* A failed request ends as a whole; so does what is over. */
static void sweep(ch_server *server) {
  ch_engine *engine = &server->engine;
  size_t kept = 0;
  for (size_t i = 0; i < engine->active_count; i++) {
    ch_exchange *exchange = engine->active[i];
    if (exchange->writing->failed && exchange->writing->left > 0) cancel(server, exchange->writing);
    bool unadded = exchange->writing->failed && !exchange->writing->prompts[0].id;
    if (exchange->writing->left > 0 && !unadded)
      engine->active[kept++] = exchange;
    else
      finish(server, exchange);
  }
  engine->active_count = kept;
}

/* Publishes counts and places for the other threads. */
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
  bool busy = false;
  ch_generation_set_watch(engine->generation, watch, server);
  for (;;) {
    pthread_mutex_lock(&engine->lock);
    while (!busy && !engine->inbox.first && !engine->attention && !engine->quit)
      pthread_cond_wait(&engine->wake, &engine->lock);
    ch_line inbox = engine->inbox;
    bool quit = engine->quit, attention = engine->attention;
    engine->inbox = (ch_line){0};
    engine->attention = false;
    pthread_mutex_unlock(&engine->lock);
    int64_t taken = 0;
    for (ch_exchange *exchange; (exchange = ch_line_take(&inbox));) {
      taken += ch_engine_sequences(exchange->writing);
      admit(server, exchange);
    }
    if (attention || quit) attend(server);
    if (quit && engine->active_count == 0) break;
    ch_error error = {0};
    (void)ch_generation_step(engine->generation, &busy,
                             &error); /* an error ends every request and is reported there */
    publish(server, taken);
    sweep(server);
    publish(server, 0);
  }
  free(engine->active);
}
