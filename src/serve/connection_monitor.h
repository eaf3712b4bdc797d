/* The monitor: one thread that detects disconnected clients, slow headers and bodies, quiet streams, and
   the signal to stop. It sleeps in between. */
#ifndef CH_SERVE_CONNECTION_MONITOR_H
#define CH_SERVE_CONNECTION_MONITOR_H

#include "serve/server.h"

/* Starts the thread. The calling thread must block the signals that the settings' `stop` reports. */
ch_status ch_monitor_start(ch_server *server, ch_error *error);
/* Switches to serving. Before this call the signal to stop ends the program at once; after it, the server
   drains. */
void ch_monitor_serve(ch_server *server);
/* Ends the thread. */
void ch_monitor_stop(ch_server *server);
/* Wakes all suspended connections, and prevents new ones. */
void ch_monitor_release(ch_server *server);

/* Called by the HTTP thread as a connection progresses. */
struct ch_connection *ch_monitor_open(ch_server *server,
                                      struct MHD_Connection *connection); /* NULL: too many connections */
void ch_monitor_close(ch_server *server, struct ch_connection *connection);
void ch_monitor_begin(ch_server *server, struct MHD_Connection *connection,
                      ch_exchange *exchange);                              /* header read */
void ch_monitor_answer(ch_server *server, ch_exchange *exchange);          /* body read */
void ch_monitor_end(ch_server *server, struct MHD_Connection *connection); /* answer sent or aborted */

#endif
