/* A stream of events, made as it is sent. */
#ifndef CH_SERVE_EVENTS_H
#define CH_SERVE_EVENTS_H

#include <sys/types.h>

#include "serve/exchange.h"

typedef struct ch_events ch_events;

/* The stream of a request for text. NULL when memory is out. */
ch_events *ch_events_new(const ch_writing *writing);
void ch_events_free(ch_events *events);

/* HTTP's thread: the next bytes, at most `most`. 0: there are none yet, and the connection is suspended. -1: the stream is
   complete. -2: it was cut. */
ssize_t ch_events_read(ch_exchange *exchange, char *bytes, size_t most);

#endif
