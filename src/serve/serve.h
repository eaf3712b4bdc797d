/* The HTTP server of one model, as `crosshead serve` runs it. */
#ifndef CH_SERVE_SERVE_H
#define CH_SERVE_SERVE_H

#include <crosshead/session.h>

typedef struct ch_serve_settings {
  const char *directory;       /* the model's directory */
  const char *name;            /* the model's id; NULL: the last part of `directory` */
  const char *host;            /* a numeric address */
  int port;                    /* TCP port; 0: any free port */
  ch_model_settings model;     /* options for opening the model */
  ch_session_settings session; /* settings of the session; `cache` sets its cache types */
  const char *cache_dtype;     /* names of the cache types, which `cache` reads once the model is open */
  /* Sets the cache types of `session` from `cache_dtype`. `roles`: the roles of the model's cache. */
  ch_status (*cache)(const char *cache_dtype, unsigned roles, ch_session_settings *session, ch_error *error);
  int queue;                  /* maximum number of waiting sequences; further requests are refused */
  int prefill_chunk;          /* maximum tokens of a prefill pass */
  int64_t max_body;           /* maximum bytes of a request body */
  const char *chat_template;  /* file of the chat template; NULL: the model's template */
  const char *key_file;       /* file of API keys, one per line; or NULL */
  const char *key;            /* further API key, or NULL */
  const char *const *origins; /* NULL-terminated: origins that may read answers; "*" = all */
  const char *const *hosts;   /* NULL-terminated: further names allowed in the Host header; "*" = all */
  double drain;               /* seconds for running requests to finish after `stop` returns true */
  bool page;                  /* true to serve the web page at / */
  ch_stop_test stop;          /* returns true once SIGINT or SIGTERM was received */
  /* called if `stop` returns true before serving begins; must end the program */
  void (*leave)(void *user);
  void *user; /* argument of `stop` and `leave` */
} ch_serve_settings;

/* Serves until `stop` returns true and the running requests are complete. Prints the address on standard
   output and a line for each request on standard error. Errors: CH_ERROR_INTERRUPTED if requests were
   aborted after `drain` seconds; CH_ERROR_IO if the address cannot be bound; CH_ERROR_MEMORY if the cache
   does not fit; the errors of opening the model. */
ch_status ch_serve(const ch_serve_settings *settings, ch_error *error);

#endif
