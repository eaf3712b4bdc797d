/* The queue in front of the engine, and what the engine shows. */
#include "serve/inbox.h"

int64_t ch_inbox_sequences(const ch_writing *writing) {
  return writing->prompt_count * writing->asked.n;
}

bool ch_inbox_submit(ch_server *server, ch_exchange *exchange, ch_refusal *refusal) {
  ch_engine *engine = &server->engine;
  pthread_mutex_lock(&engine->lock);
  bool full = engine->inbox_count + engine->view.counts.waiting >= server->settings->queue;
  if (!full) {
    ch_exchange_hold(exchange);
    ch_line_put(&engine->inbox, exchange);
    engine->inbox_count += ch_inbox_sequences(exchange->writing);
    pthread_cond_signal(&engine->wake);
  }
  pthread_mutex_unlock(&engine->lock);
  return !full ||
         ch_refuse(refusal, 429, "queue_full", NULL,
                   "The queue is full: %d sequences wait already; try again later.", server->settings->queue);
}

void ch_inbox_attend(ch_server *server) {
  ch_engine *engine = &server->engine;
  pthread_mutex_lock(&engine->lock);
  engine->attention = true;
  pthread_cond_signal(&engine->wake);
  pthread_mutex_unlock(&engine->lock);
}

void ch_inbox_quit(ch_server *server) {
  pthread_mutex_lock(&server->engine.lock);
  server->engine.quit = true;
  pthread_cond_signal(&server->engine.wake);
  pthread_mutex_unlock(&server->engine.lock);
}

ch_engine_view ch_inbox_look(ch_server *server, int64_t *waiting) {
  pthread_mutex_lock(&server->engine.lock);
  ch_engine_view view = server->engine.view;
  *waiting = view.counts.waiting + server->engine.inbox_count;
  pthread_mutex_unlock(&server->engine.lock);
  return view;
}
