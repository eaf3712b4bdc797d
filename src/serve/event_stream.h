/* A stream of server-sent events, written on demand while it is sent. */
#ifndef CH_SERVE_EVENT_STREAM_H
#define CH_SERVE_EVENT_STREAM_H

#include <sys/types.h>

#include "serve/exchange.h"

typedef struct ch_events ch_events;

/* Creates the stream of a job. NULL: out of memory. */
ch_events *ch_events_new(const ch_text_job *job);
void ch_events_free(ch_events *events);

/* Reads the next bytes, at most `most`, in the HTTP thread. Returns 0 if there are none yet and the connection is
   suspended, -1 at the end of the stream, -2 if the stream failed or was aborted. */
ssize_t ch_events_read(ch_exchange *exchange, char *bytes, size_t most);

#endif
