/* A request of a client and its answer, from the header to the last byte. Three threads have part in it: HTTP's reads and sends,
 * the desk reads the body and writes the answer, the engine writes text. Each holds a reference. */
#ifndef CH_SERVE_EXCHANGE_H
#define CH_SERVE_EXCHANGE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "serve/writing.h"

struct ch_server;
struct ch_connection;
struct ch_route;
struct ch_events;

/* What is logged and counted for a client that left. */
enum { CH_LEFT = 499 };

typedef struct ch_exchange {
  atomic_int references;
  struct ch_server *server;
  /* HTTP's thread. */
  const struct ch_route *route; /* NULL: none fits */
  char *path;                   /* as it was asked for, slashes tidied */
  char method[16];
  bool allowed_origin; /* the Origin header may read the answer */
  bool preflight;
  char *origin;
  ch_text body;
  size_t body_limit, body_seen; /* bytes beyond the limit are thrown away */
  bool discard;                 /* the answer is known: the body is not looked at */
  bool counted;                 /* in the server's exchanges under way */
  double began;
  struct ch_events *events; /* of a stream: what is sent next */
  /* Guarded by `lock`. */
  pthread_mutex_t lock;
  struct MHD_Connection *connection; /* NULL once the exchange is over for HTTP */
  bool suspended;                    /* the connection waits for a resume */
  bool answered;                     /* `reply` is what is to be sent */
  bool woken;                        /* there may be something new, though the connection did not wait */
  bool nudged;                       /* nothing was sent for long: a comment line is due */
  double quiet;                      /* when the stream last sent something */
  ch_reply reply;
  ch_writing *writing; /* of a request for text; does not change once it is set */
  /* Any thread. */
  atomic_bool gone;         /* the client left, or the server ends: nobody reads the answer */
  struct ch_exchange *next; /* in a queue */
} ch_exchange;

ch_exchange *ch_exchange_new(struct ch_server *server);
static inline void ch_exchange_hold(ch_exchange *exchange) {
  atomic_fetch_add(&exchange->references, 1);
}
void ch_exchange_release(ch_exchange *exchange);

/* HTTP's thread, within a callback: the connection waits until another thread wakes it. Call with the lock held. */
void ch_exchange_suspend(ch_exchange *exchange);
/* Wakes the connection if it waits. Call without the lock. */
void ch_exchange_wake(ch_exchange *exchange);
/* The answer is ready: `answered`, and wakes the connection. */
void ch_exchange_answer(ch_exchange *exchange);
/* The client left. */
void ch_exchange_leave(ch_exchange *exchange);

#endif
