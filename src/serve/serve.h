/* The server of one model over HTTP: what `crosshead serve` runs. */
#ifndef CH_SERVE_SERVE_H
#define CH_SERVE_SERVE_H

#include <crosshead/session.h>

typedef struct ch_serve_settings {
  const char *directory;       /* the model's */
  const char *name;            /* the model's id; NULL: the last part of `directory` */
  const char *host;            /* a numeric address */
  int port;                    /* 0: any free one */
  ch_model_settings model;     /* how the model is opened */
  ch_session_settings session; /* max_tokens, sequences, types, threads */
  const char *cache_dtype;     /* the types of the cache by name, read once the model is open; see `cache` */
  /* Sets the cache types of `session` from `cache_dtype`, for a model whose cache holds `roles`. */
  ch_status (*cache)(const char *cache_dtype, unsigned roles, ch_session_settings *session, ch_error *error);
  int queue;                  /* sequences that may wait before requests are refused */
  int prefill_chunk;          /* tokens of one prefill pass */
  int64_t max_body;           /* bytes */
  const char *chat_template;  /* a file, or NULL: the model's */
  const char *key_file;       /* keys, one a line; or NULL */
  const char *key;            /* one more key, or NULL */
  const char *const *origins; /* NULL-terminated: origins that may read answers; "*" = all */
  const char *const *hosts;   /* NULL-terminated: further names that a Host header may have; "*" = all */
  double drain;               /* seconds that running requests have once `stop` says so */
  bool page;                  /* there is a page at / */
  ch_stop_test stop;          /* true once SIGINT or SIGTERM came */
  void (*leave)(void *user);  /* called when that is before the server listens: ends the program */
  void *user;                 /* of both */
} ch_serve_settings;

/* Serves until `stop` returns true and the running requests are complete. Prints where it listens on standard output, and a line
   for each request on standard error. Errors: CH_ERROR_INTERRUPTED when requests were cut after `drain` seconds; what is wrong
   with the model; CH_ERROR_IO for an address that cannot be listened on; CH_ERROR_MEMORY when the cache does not fit. */
ch_status ch_serve(const ch_serve_settings *settings, ch_error *error);

#endif
