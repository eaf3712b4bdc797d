/* HTTP by libmicrohttpd: one thread that reads requests and sends answers, and never computes. */
#ifndef CH_SERVE_HTTP_H
#define CH_SERVE_HTTP_H

#include "serve/server.h"

enum { CH_MOST_CONNECTIONS = 512, CH_IDLE_SECONDS = 60, CH_STALLED_SECONDS = 30 };

/* Binds the address of the settings and notes it in server->address; *listener is the caller's until ch_http_start. */
ch_status ch_http_listen(ch_server *server, int *listener, ch_error *error);
/* Starts the thread, which closes the listener at its end. */
ch_status ch_http_start(ch_server *server, int listener, ch_error *error);
/* Ends it. No connection may wait then (ch_monitor_release). */
void ch_http_stop(ch_server *server);

#endif
