/* The state that the server's threads share. */
#ifndef CH_SERVE_SERVER_H
#define CH_SERVE_SERVER_H

#include <crosshead/chat.h>
#include <crosshead/generation.h>

#include "serve/exchange.h"
#include "serve/access_control.h"
#include "serve/metrics.h"
#include "serve/serve.h"

/* A queue of exchanges. Zero-initialise. */
typedef struct ch_exchange_queue {
  ch_exchange *first, *last;
} ch_exchange_queue;
void ch_exchange_queue_push(ch_exchange_queue *line, ch_exchange *exchange);
ch_exchange *ch_exchange_queue_pop(ch_exchange_queue *line);

/* The engine's state, published for other threads. */
typedef struct ch_engine_view {
  ch_generation_counts counts;
  ch_generation_place places[CH_BATCH_MOST];
} ch_engine_view;

typedef struct ch_engine {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  ch_exchange_queue inbox; /* submitted exchanges that the engine has not taken yet */
  int64_t inbox_count;     /* sequences of submitted exchanges that `view` does not count yet */
  bool attention;          /* true if a job must be cancelled or resumed */
  bool quit;
  ch_engine_view view;
  /* Used by the engine's thread only. */
  ch_generation *generation;
  ch_exchange **active; /* [active_count] */
  size_t active_count, active_capacity;
} ch_engine;

typedef struct ch_request_worker {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_t thread;
  ch_exchange_queue queue;
  bool running, quit;
} ch_request_worker;

struct ch_monitor;

typedef struct ch_server {
  const ch_serve_settings *settings;
  ch_session_settings session; /* settings->session with the cache types */
  const char *name;            /* the model's id */
  char stem[256];
  ch_model *model;
  const ch_tokenizer *tokenizer;
  ch_chat *chat;               /* chat template; NULL: it does not exist or cannot be parsed */
  char chat_error[1024];       /* the parse error of the template; "" for none */
  int64_t context, vocabulary; /* maximum tokens of a sequence, number of token ids */
  uint64_t cache_bytes;
  char fingerprint[32];
  char address[80];       /* address and port: "127.0.0.1:8080" */
  ch_text model_json;     /* the model's object in /v1/models */
  ch_text tokenizer_json; /* the answer of /tokenizer_info */
  int64_t started;        /* seconds since 1970 */
  ch_access access;
  ch_metrics metrics;
  ch_engine engine;
  ch_request_worker worker;
  struct ch_monitor *monitor;
  struct MHD_Daemon *daemon;
  const char *const *endpoints; /* [endpoint_count] names of endpoints in the metrics */
  int endpoint_count;
  atomic_bool draining, cut;  /* true once the signal to stop was received; true once requests were aborted */
  atomic_int active_requests; /* number of unfinished POST requests */
  atomic_size_t memory;       /* bytes reserved for bodies and answers */
  size_t memory_limit;        /* maximum of `memory`, in bytes */
  atomic_size_t pending;      /* estimated unsent bytes of all streams */
} ch_server;

/* Reserves bytes of the budget for bodies and answers. Returns false if the budget does not suffice. */
bool ch_server_reserve(ch_server *server, size_t bytes);
void ch_server_release(ch_server *server, size_t bytes);

/* --- functions of the engine for other threads --- */

/* Returns the number of sequences of a job. */
int64_t ch_engine_sequences(const ch_text_job *job);
/* Submits a job to the engine. Returns false with *refusal filled if too many sequences are waiting. */
bool ch_engine_submit(ch_server *server, ch_exchange *exchange, ch_refusal *refusal);
/* Makes the engine check for jobs to cancel and jobs to resume. */
void ch_engine_attend(ch_server *server);
/* Makes the engine end once it has no jobs. */
void ch_engine_quit(ch_server *server);
/* Returns the engine's state. Sets *waiting to the number of waiting sequences. */
ch_engine_view ch_engine_look(ch_server *server, int64_t *waiting);

#endif
