/* One exchange after the other. */
#include "serve/desk.h"

#include <malloc.h>

#include "serve/answer.h"
#include "serve/body.h"
#include "serve/routes.h"

enum { LARGE = 256 << 10 }; /* bytes that go back to the system once they are not needed */

void ch_desk_put(ch_server *server, ch_exchange *exchange) {
  ch_desk *desk = &server->desk;
  ch_exchange_hold(exchange);
  pthread_mutex_lock(&desk->lock);
  ch_line_put(&desk->line, exchange);
  pthread_cond_signal(&desk->wake);
  pthread_mutex_unlock(&desk->lock);
}

/* Reads the body; *object is the caller's. The bytes that its values take are the caller's to release. */
static bool read_body(ch_server *server, ch_exchange *exchange, json_t **object, size_t *reserved,
                      ch_refusal *refusal) {
  size_t size = exchange->body.size, held = exchange->body.capacity;
  size_t most = server->memory_limit > held ? server->memory_limit - held : 0;
  *reserved = ch_body_estimate(exchange->body.data, size);
  if (*reserved <= most && !ch_server_reserve(server, *reserved)) {
    *reserved = 0;
    return ch_refuse(refusal, 429, "queue_full", NULL,
                     "The server is busy with other large requests; try again later.");
  }
  if (*reserved > most) *reserved = 0;
  bool read = ch_body_parse(exchange->body.data ? exchange->body.data : "", size, most, object, refusal);
  ch_text_free(&exchange->body);
  ch_server_release(server, held);
  return read;
}

/* Calls the route with the body. It answers, or hands the exchange to the engine. */
static void do_request(ch_server *server, ch_exchange *exchange) {
  json_t *body = NULL;
  ch_refusal refusal;
  size_t reserved = 0;
  bool large = exchange->body.size > LARGE, answers = true;
  bool fine = read_body(server, exchange, &body, &reserved, &refusal) &&
              exchange->route->post(exchange, body, &answers, &refusal);
  json_decref(body);
  ch_server_release(server, reserved);
  if (!fine) ch_reply_refuse(&exchange->reply, &refusal);
  if (!fine || answers) ch_exchange_answer(exchange);
  if (large) malloc_trim(0);
}

/* The text is written: makes its whole answer. */
static void do_answer(ch_exchange *exchange) {
  const ch_writing *writing = exchange->writing;
  if (writing->failed)
    ch_reply_refuse(&exchange->reply, &writing->failure);
  else
    ch_style_of(writing->asked.form)->whole(&exchange->reply.body, exchange);
  if (!writing->failed) exchange->reply.status = 200;
  if (exchange->reply.body.failed) {
    ch_refusal refusal;
    ch_refuse_memory(&refusal);
    ch_reply_refuse(&exchange->reply, &refusal);
  }
  ch_exchange_answer(exchange);
}

void ch_desk_do(ch_server *server, ch_exchange *exchange) {
  if (exchange->writing)
    do_answer(exchange);
  else
    do_request(server, exchange);
}

static void *work(void *user) {
  ch_server *server = user;
  ch_desk *desk = &server->desk;
  for (;;) {
    pthread_mutex_lock(&desk->lock);
    while (!desk->line.first && !desk->quit) pthread_cond_wait(&desk->wake, &desk->lock);
    ch_exchange *exchange = ch_line_take(&desk->line);
    bool quit = desk->quit;
    pthread_mutex_unlock(&desk->lock);
    if (exchange && !quit) ch_desk_do(server, exchange);
    if (exchange) ch_exchange_release(exchange);
    if (!exchange && quit) return NULL;
  }
}

bool ch_desk_start(ch_server *server) {
  server->desk.running = pthread_create(&server->desk.thread, NULL, work, server) == 0;
  return server->desk.running;
}

void ch_desk_stop(ch_server *server) {
  ch_desk *desk = &server->desk;
  if (!desk->running) return;
  pthread_mutex_lock(&desk->lock);
  desk->quit = true;
  pthread_cond_signal(&desk->wake);
  pthread_mutex_unlock(&desk->lock);
  pthread_join(desk->thread, NULL);
  desk->running = false;
}
