/* What other threads ask of the engine. */
#ifndef CH_SERVE_INBOX_H
#define CH_SERVE_INBOX_H

#include "serve/server.h"

/* The sequences of a request. */
int64_t ch_inbox_sequences(const ch_writing *writing);
/* Puts a request for text into the engine's queue; refuses it when too many sequences wait. */
bool ch_inbox_submit(ch_server *server, ch_exchange *exchange, ch_refusal *refusal);
/* The engine looks for requests whose client left and those that may go on. */
void ch_inbox_attend(ch_server *server);
/* The engine ends once it has no requests. */
void ch_inbox_quit(ch_server *server);
/* What the engine does now, and how many sequences wait. */
ch_engine_view ch_inbox_look(ch_server *server, int64_t *waiting);

#endif
