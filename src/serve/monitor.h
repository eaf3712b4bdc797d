/* The monitor: one thread that sees clients leave, headers and bodies that take too long, streams that say nothing, and the signal to
 * stop. It sleeps until there is something to see. */
#ifndef CH_SERVE_MONITOR_H
#define CH_SERVE_MONITOR_H

#include "serve/server.h"

/* Starts the thread; signals that the settings' `stop` is about must be blocked in the calling thread. */
ch_status ch_monitor_start(ch_server *server, ch_error *error);
/* From here on the signal to stop drains; before, it leaves. */
void ch_monitor_serve(ch_server *server);
/* Ends the thread. */
void ch_monitor_stop(ch_server *server);
/* No connection waits any more, and none will. */
void ch_monitor_release(ch_server *server);

/* HTTP's thread says what a connection does. */
struct ch_connection *ch_monitor_open(ch_server *server,
                                      struct MHD_Connection *connection); /* NULL: no place */
void ch_monitor_close(ch_server *server, struct ch_connection *connection);
void ch_monitor_begin(ch_server *server, struct MHD_Connection *connection,
                      ch_exchange *exchange);                              /* header read */
void ch_monitor_answer(ch_server *server, ch_exchange *exchange);          /* body read */
void ch_monitor_end(ch_server *server, struct MHD_Connection *connection); /* answer sent, or given up */

#endif
