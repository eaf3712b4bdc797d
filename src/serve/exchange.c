/* Reference counting of exchanges, and suspending and resuming their connections. */
#include "serve/exchange.h"

#include <stdlib.h>

#include "base/progress.h"
#include "serve/server.h"

ch_exchange *ch_exchange_new(ch_server *server) {
  ch_exchange *exchange = calloc(1, sizeof *exchange);
  if (!exchange) return NULL;
  if (pthread_mutex_init(&exchange->lock, NULL) != 0) {
    free(exchange);
    return NULL;
  }
  atomic_init(&exchange->references, 1);
  exchange->server = server;
  exchange->began = ch_clock();
  return exchange;
}

void ch_exchange_release(ch_exchange *exchange) {
  if (atomic_fetch_sub(&exchange->references, 1) > 1) return;
  if (exchange->job) {
    atomic_fetch_sub(&exchange->server->pending, exchange->job->pending);
    ch_server_release(exchange->server, exchange->job->reserved);
  }
  ch_server_release(exchange->server, exchange->body.capacity);
  ch_text_free(&exchange->body);
  ch_text_free(&exchange->reply.body);
  ch_text_job_free(exchange->job);
  free(exchange->path);
  free(exchange->origin);
  pthread_mutex_destroy(&exchange->lock);
  free(exchange);
}

void ch_exchange_suspend(ch_exchange *exchange) {
  exchange->suspended = true;
  MHD_suspend_connection(exchange->connection);
}

void ch_exchange_wake(ch_exchange *exchange) {
  pthread_mutex_lock(&exchange->lock);
  /* Only one thread finds the connection suspended. The connection stays valid until that thread resumes it. */
  struct MHD_Connection *connection = exchange->suspended ? exchange->connection : NULL;
  exchange->woken = !exchange->suspended;
  exchange->suspended = false;
  pthread_mutex_unlock(&exchange->lock);
  if (connection) MHD_resume_connection(connection);
}

void ch_exchange_answer(ch_exchange *exchange) {
  pthread_mutex_lock(&exchange->lock);
  exchange->answered = true;
  pthread_mutex_unlock(&exchange->lock);
  ch_exchange_wake(exchange);
}

void ch_exchange_leave(ch_exchange *exchange) {
  if (atomic_exchange(&exchange->gone, true)) return;
  ch_engine_attend(exchange->server);
  ch_exchange_wake(exchange);
}
