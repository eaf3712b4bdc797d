/* HTTP through libmicrohttpd: one thread that receives requests and sends answers. It never computes. */
#ifndef CH_SERVE_HTTP_H
#define CH_SERVE_HTTP_H

#include "serve/server.h"

enum { CH_MOST_CONNECTIONS = 512, CH_IDLE_SECONDS = 60, CH_STALLED_SECONDS = 30 };

/* Listens on the address in the settings. Stores the address in server->address, and sets server->access.local. The
   caller owns *listener until ch_http_start. */
ch_status ch_http_listen(ch_server *server, int *listener, ch_error *error);
/* Starts the thread. It closes the listener when it ends. */
ch_status ch_http_start(ch_server *server, int listener, ch_error *error);
/* Ends the thread. No connection may be suspended (ch_monitor_release). */
void ch_http_stop(ch_server *server);

#endif
