/* What the threads of the server share. */
#ifndef CH_SERVE_SERVER_H
#define CH_SERVE_SERVER_H

#include <crosshead/chat.h>
#include <crosshead/generation.h>

#include "serve/exchange.h"
#include "serve/guard.h"
#include "serve/metrics.h"
#include "serve/serve.h"

/* A queue of exchanges. Zero-initialise. */
typedef struct ch_line {
  ch_exchange *first, *last;
} ch_line;
void ch_line_put(ch_line *line, ch_exchange *exchange);
ch_exchange *ch_line_take(ch_line *line);

/* What the engine's thread tells the others. */
typedef struct ch_engine_view {
  ch_generation_counts counts;
  ch_generation_place places[CH_BATCH_MOST];
} ch_engine_view;

typedef struct ch_engine {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  ch_line inbox;       /* exchanges that are admitted and not added yet */
  int64_t inbox_count; /* their sequences, until `view` has them */
  bool attention;      /* some writing is cancelled, or to go on */
  bool quit;
  ch_engine_view view;
  /* The engine's thread alone. */
  ch_generation *generation;
  ch_exchange **active; /* [active_count] */
  size_t active_count, active_capacity;
} ch_engine;

typedef struct ch_desk {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_t thread;
  ch_line line;
  bool running, quit;
} ch_desk;

struct ch_monitor;

typedef struct ch_server {
  const ch_serve_settings *settings;
  ch_session_settings session; /* with the cache's types */
  const char *name;            /* the model's id */
  char stem[256];
  ch_model *model;
  const ch_tokenizer *tokenizer;
  ch_chat *chat;         /* NULL: no template, or one that cannot be parsed */
  char chat_error[1024]; /* why it cannot be parsed; "" if it can */
  int64_t context, vocabulary;
  uint64_t cache_bytes;
  char fingerprint[32];
  char address[80];       /* "127.0.0.1:8080" */
  ch_text model_json;     /* M of /v1/models */
  ch_text tokenizer_json; /* /tokenizer_info */
  int64_t started;
  ch_guard guard;
  ch_metrics metrics;
  ch_engine engine;
  ch_desk desk;
  struct ch_monitor *monitor;
  struct MHD_Daemon *daemon;
  const char *const *endpoints; /* [endpoint_count] names of what requests are counted by */
  int endpoint_count;
  atomic_bool draining, cut;
  atomic_int under_way; /* POST requests that are not over */
  atomic_size_t memory; /* bytes of bodies and answers */
  size_t memory_limit;
  atomic_size_t pending; /* bytes that streams have to send, about */
} ch_server;

/* Takes bytes from the budget for bodies and answers; false: it is used up. */
bool ch_server_reserve(ch_server *server, size_t bytes);
void ch_server_release(ch_server *server, size_t bytes);

/* --- what other threads ask of the engine --- */

/* The sequences of a request. */
int64_t ch_engine_sequences(const ch_writing *writing);
/* Puts a request for text into the engine's queue; refuses it when too many sequences wait. */
bool ch_engine_submit(ch_server *server, ch_exchange *exchange, ch_refusal *refusal);
/* The engine looks for requests whose client left and those that may go on. */
void ch_engine_attend(ch_server *server);
/* The engine ends once it has no requests. */
void ch_engine_quit(ch_server *server);
/* What the engine does now, and how many sequences wait. */
ch_engine_view ch_engine_look(ch_server *server, int64_t *waiting);

#endif
