/* The request worker: one thread that parses bodies, tokenises and writes complete answers. The HTTP thread thus does
   no slow work. */
#ifndef CH_SERVE_REQUEST_WORKER_H
#define CH_SERVE_REQUEST_WORKER_H

#include "serve/server.h"

/* Starts the thread. Returns false if it could not be created. */
bool ch_request_worker_start(ch_server *server);
/* Ends the thread. Queued exchanges are dropped. */
void ch_request_worker_stop(ch_server *server);
/* Queues an exchange. If it has a job, the job is finished and needs its answer written; otherwise its
   body needs parsing. */
void ch_request_worker_put(ch_server *server, ch_exchange *exchange);
/* Processes an exchange as the thread does. */
void ch_request_worker_process(ch_server *server, ch_exchange *exchange);

#endif
