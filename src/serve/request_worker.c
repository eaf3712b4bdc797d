/* Processes exchanges one at a time: parses bodies, runs their routes and writes complete answers. */
#include "serve/request_worker.h"

#include <malloc.h>

#include "serve/answer.h"
#include "serve/request_body.h"
#include "serve/routes.h"

enum { LARGE = 256 << 10 }; /* memory of bodies above this many bytes is returned to the system after use */

void ch_request_worker_put(ch_server *server, ch_exchange *exchange) {
  ch_request_worker *worker = &server->worker;
  ch_exchange_hold(exchange);
  pthread_mutex_lock(&worker->lock);
  ch_exchange_queue_push(&worker->queue, exchange);
  pthread_cond_signal(&worker->wake);
  pthread_mutex_unlock(&worker->lock);
}

/* Parses the body. The caller releases *object and the *reserved bytes of its values. */
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

/* Calls the route with the body. The route answers, or submits the exchange to the engine. */
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

/* Writes the complete answer after generation has finished. */
static void do_answer(ch_exchange *exchange) {
  const ch_text_job *job = exchange->job;
  if (job->failed)
    ch_reply_refuse(&exchange->reply, &job->failure);
  else
    ch_answer_format_of(job->fields.form)->whole(&exchange->reply.body, exchange);
  if (!job->failed) exchange->reply.status = 200;
  if (exchange->reply.body.failed) {
    ch_refusal refusal;
    ch_refuse_memory(&refusal);
    ch_reply_refuse(&exchange->reply, &refusal);
  }
  ch_exchange_answer(exchange);
}

void ch_request_worker_process(ch_server *server, ch_exchange *exchange) {
  if (exchange->job)
    do_answer(exchange);
  else
    do_request(server, exchange);
}

static void *work(void *user) {
  ch_server *server = user;
  ch_request_worker *worker = &server->worker;
  for (;;) {
    pthread_mutex_lock(&worker->lock);
    while (!worker->queue.first && !worker->quit) pthread_cond_wait(&worker->wake, &worker->lock);
    ch_exchange *exchange = ch_exchange_queue_pop(&worker->queue);
    bool quit = worker->quit;
    pthread_mutex_unlock(&worker->lock);
    if (exchange && !quit) ch_request_worker_process(server, exchange);
    if (exchange) ch_exchange_release(exchange);
    if (!exchange && quit) return NULL;
  }
}

bool ch_request_worker_start(ch_server *server) {
  server->worker.running = pthread_create(&server->worker.thread, NULL, work, server) == 0;
  return server->worker.running;
}

void ch_request_worker_stop(ch_server *server) {
  ch_request_worker *worker = &server->worker;
  if (!worker->running) return;
  pthread_mutex_lock(&worker->lock);
  worker->quit = true;
  pthread_cond_signal(&worker->wake);
  pthread_mutex_unlock(&worker->lock);
  pthread_join(worker->thread, NULL);
  worker->running = false;
}
