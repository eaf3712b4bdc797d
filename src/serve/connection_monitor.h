/* The monitor: one thread that detects disconnected clients, slow headers and bodies, quiet streams, and the signal
   to stop. It sleeps until the next event or timeout. */
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
/* Aborts all requests and wakes their suspended connections. Later requests are aborted at once. */
void ch_monitor_release(ch_server *server);

/* --- functions that the HTTP thread calls as a connection progresses --- */

/* Registers an open connection. Returns NULL if there are too many. */
struct ch_connection *ch_monitor_open(ch_server *server, struct MHD_Connection *connection);
/* Removes a closed connection; NULL is allowed. */
void ch_monitor_close(ch_server *server, struct ch_connection *connection);
/* Notes that the header of a request is complete. */
void ch_monitor_begin(ch_server *server, struct MHD_Connection *connection, ch_exchange *exchange);
/* Notes that the body of the request is complete. */
void ch_monitor_answer(ch_server *server, ch_exchange *exchange);
/* Notes that the answer was sent or aborted. */
void ch_monitor_end(ch_server *server, struct MHD_Connection *connection);

#endif
