/* Queues of exchanges, the memory budget for bodies and answers, and submitting jobs to the engine. */
#include "serve/server.h"

void ch_exchange_queue_push(ch_exchange_queue *line, ch_exchange *exchange) {
  exchange->next = NULL;
  if (line->first)
    line->last->next = exchange;
  else
    line->first = exchange;
  line->last = exchange;
}

ch_exchange *ch_exchange_queue_pop(ch_exchange_queue *line) {
  ch_exchange *exchange = line->first;
  if (exchange) line->first = exchange->next;
  return exchange;
}

bool ch_server_reserve(ch_server *server, size_t bytes) {
  if (atomic_fetch_add(&server->memory, bytes) + bytes <= server->memory_limit) return true;
  atomic_fetch_sub(&server->memory, bytes);
  return false;
}

void ch_server_release(ch_server *server, size_t bytes) {
  atomic_fetch_sub(&server->memory, bytes);
}

int64_t ch_engine_sequences(const ch_text_job *job) {
  return job->prompt_count * job->fields.n;
}

bool ch_engine_submit(ch_server *server, ch_exchange *exchange, ch_refusal *refusal) {
  ch_engine *engine = &server->engine;
  pthread_mutex_lock(&engine->lock);
  bool full = engine->inbox_count + engine->view.counts.waiting >= server->settings->queue;
  if (!full) {
    ch_exchange_hold(exchange);
    ch_exchange_queue_push(&engine->inbox, exchange);
    engine->inbox_count += ch_engine_sequences(exchange->job);
    pthread_cond_signal(&engine->wake);
  }
  pthread_mutex_unlock(&engine->lock);
  return !full ||
         ch_refuse(refusal, 429, "queue_full", NULL,
                   "The queue is full: %d sequences wait already; try again later.", server->settings->queue);
}

void ch_engine_attend(ch_server *server) {
  ch_engine *engine = &server->engine;
  pthread_mutex_lock(&engine->lock);
  engine->attention = true;
  pthread_cond_signal(&engine->wake);
  pthread_mutex_unlock(&engine->lock);
}

void ch_engine_quit(ch_server *server) {
  pthread_mutex_lock(&server->engine.lock);
  server->engine.quit = true;
  pthread_cond_signal(&server->engine.wake);
  pthread_mutex_unlock(&server->engine.lock);
}

ch_engine_view ch_engine_look(ch_server *server, int64_t *waiting) {
  pthread_mutex_lock(&server->engine.lock);
  ch_engine_view view = server->engine.view;
  *waiting = view.counts.waiting + server->engine.inbox_count;
  pthread_mutex_unlock(&server->engine.lock);
  return view;
}
