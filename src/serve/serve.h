/* The HTTP server of one model, as `crosshead serve` runs it. */
#ifndef CH_SERVE_SERVE_H
#define CH_SERVE_SERVE_H

#include <crosshead/session.h>

typedef struct ch_serve_settings {
  const char *directory;       /* the model's directory */
  const char *name;            /* the model's id; NULL: the last part of `directory` */
  const char *host;            /* a numeric address */
  int port;                    /* 0: any free one */
  ch_model_settings model;     /* options for opening the model */
  ch_session_settings session; /* max_tokens, sequences, types, threads */
  const char *cache_dtype;     /* names of the cache types, read by `cache` after the model is open */
  /* Sets the cache types of `session` from `cache_dtype` for a model whose cache has these roles. */
  ch_status (*cache)(const char *cache_dtype, unsigned roles, ch_session_settings *session, ch_error *error);
  int queue;                  /* waiting sequences before requests are refused */
  int prefill_chunk;          /* tokens of one prefill pass */
  int64_t max_body;           /* bytes */
  const char *chat_template;  /* a file; NULL: the model's template */
  const char *key_file;       /* a file of keys, one per line; or NULL */
  const char *key;            /* one more key, or NULL */
  const char *const *origins; /* NULL-terminated: origins that may read answers; "*" = all */
  const char *const *hosts;   /* NULL-terminated: further names allowed in the Host header; "*" = all */
  double drain;               /* seconds for running requests to finish after `stop` returns true */
  bool page;                  /* serves a page at / */
  ch_stop_test stop;          /* true once SIGINT or SIGTERM came */
  void (*leave)(
      void *user); /* called if `stop` returns true before the server listens; must end the program */
  void *user;      /* passed to `stop` and `leave` */
} ch_serve_settings;

/* Serves until `stop` returns true and the running requests are complete. Prints the address on standard
   output and a line for each request on standard error. Errors: CH_ERROR_INTERRUPTED if requests were
   aborted after `drain` seconds; CH_ERROR_IO if the address cannot be bound; CH_ERROR_MEMORY if the cache
   does not fit; the errors of opening the model. */
ch_status ch_serve(const ch_serve_settings *settings, ch_error *error);

#endif
