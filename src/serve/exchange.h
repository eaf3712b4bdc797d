/* A request and its answer, from the header to the last byte. Three threads share it, each with a
   reference: the HTTP thread receives and sends, the request worker parses the body and writes the answer,
   the engine generates text. */
#ifndef CH_SERVE_EXCHANGE_H
#define CH_SERVE_EXCHANGE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "serve/text_job.h"

struct ch_server;
struct ch_connection;
struct ch_route;
struct ch_events;

/* The status that is logged and counted if the client disconnects. */
enum { CH_CLIENT_CLOSED = 499 };

typedef struct ch_exchange {
  atomic_int references;
  struct ch_server *server;
  /* Used by the HTTP thread only. */
  const struct ch_route *route; /* route of the path; NULL: none matches */
  char *path;                   /* path of the URL, without repeated slashes */
  char method[16];
  bool allowed_origin; /* true if the page of the Origin header may read the answer */
  bool preflight;      /* true for an OPTIONS request */
  char *origin;
  ch_text body;
  size_t body_limit, body_seen; /* maximum bytes of a body; bytes received, even if discarded */
  bool discard;                 /* true if the body is ignored, because the answer is already known */
  bool counted;                 /* true if counted in server->active_requests */
  double began;                 /* ch_clock at the start of the request */
  struct ch_events *events;     /* stream of the answer; NULL: the answer is not a stream */
  /* Guarded by `lock`. */
  pthread_mutex_t lock;
  struct MHD_Connection *connection; /* NULL after the HTTP thread has finished the exchange */
  bool suspended;                    /* true while the connection is suspended */
  bool answered;                     /* true once `reply` is complete */
  bool woken;                        /* true if a wake arrived while the connection was not suspended */
  bool nudged;                       /* true if the stream was quiet for too long and must send a comment */
  double quiet;                      /* ch_clock at which the stream last sent bytes or was nudged */
  ch_reply reply;
  ch_text_job *job; /* the job of a request for text, or NULL; constant once set */
  /* Used by any thread. */
  atomic_bool gone; /* true if the answer is not needed: the client disconnected or the server is ending */
  struct ch_exchange *next; /* next exchange of the queue that holds it */
} ch_exchange;

ch_exchange *ch_exchange_new(struct ch_server *server);
static inline void ch_exchange_hold(ch_exchange *exchange) {
  atomic_fetch_add(&exchange->references, 1);
}
void ch_exchange_release(ch_exchange *exchange);

/* Suspends the connection until another thread wakes it. Only for the HTTP thread, inside a callback, with
   the lock held. */
void ch_exchange_suspend(ch_exchange *exchange);
/* Resumes the connection if it is suspended, else sets `woken`. Call without the lock. */
void ch_exchange_wake(ch_exchange *exchange);
/* Sets `answered` and wakes the connection. */
void ch_exchange_answer(ch_exchange *exchange);
/* Sets `gone`, notifies the engine and wakes the connection. */
void ch_exchange_leave(ch_exchange *exchange);

#endif
