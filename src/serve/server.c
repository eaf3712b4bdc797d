/* Queues of exchanges, and the budget for bodies and answers. */
#include "serve/server.h"

void ch_line_put(ch_line *line, ch_exchange *exchange) {
  exchange->next = NULL;
  if (line->first)
    line->last->next = exchange;
  else
    line->first = exchange;
  line->last = exchange;
}

ch_exchange *ch_line_take(ch_line *line) {
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
