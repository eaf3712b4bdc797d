/* The desk: one thread that reads bodies, makes tokens of texts and writes answers, so that HTTP's thread never does long work. */
#ifndef CH_SERVE_DESK_H
#define CH_SERVE_DESK_H

#include "serve/server.h"

/* Starts the thread. False: it cannot be made. */
bool ch_desk_start(ch_server *server);
/* Ends it; what waits is not done. */
void ch_desk_stop(ch_server *server);
/* Puts an exchange on the desk: its body, or, where it has a writing, the whole answer is to be made. */
void ch_desk_put(ch_server *server, ch_exchange *exchange);
/* What the thread does with an exchange. */
void ch_desk_do(ch_server *server, ch_exchange *exchange);

#endif
