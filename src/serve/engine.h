/* The engine: one thread that owns the model's session and writes the texts of all requests. */
#ifndef CH_SERVE_ENGINE_H
#define CH_SERVE_ENGINE_H

#include "serve/server.h"

/* Puts a request for text into the engine's queue; refuses it when too many sequences wait. */
bool ch_engine_submit(ch_server *server, ch_exchange *exchange, ch_refusal *refusal);
/* The engine looks for requests whose client left and those that may go on. */
void ch_engine_attend(ch_server *server);
/* The engine's thread: works until ch_engine_quit. */
void ch_engine_run(ch_server *server);
void ch_engine_quit(ch_server *server);
/* What it does now; also the number of sequences that wait. */
ch_engine_view ch_engine_look(ch_server *server, int64_t *waiting);

#endif
