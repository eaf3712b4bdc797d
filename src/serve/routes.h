/* The routes: which path answers what. */
#ifndef CH_SERVE_ROUTES_H
#define CH_SERVE_ROUTES_H

#include <jansson.h>

#include "serve/exchange.h"

typedef struct ch_route {
  const char *path;
  /* Answers at once, in HTTP's thread: fills `reply`; `rest` is what follows a path that ends in a slash. */
  bool (*get)(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
  /* Answers at the desk: fills `reply`, or hands the exchange to the engine and sets *answers to false. */
  bool (*post)(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
  bool open; /* no key is needed */
} ch_route;

/* What routes do. */
bool ch_get_page(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_health(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_models(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_model(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_props(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_slots(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_metrics(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_tokenizer_info(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_post_tokenize(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_detokenize(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_apply_template(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_completions(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_chat(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_native(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);

/* Tidies a path: repeated slashes are one, and one at the end does not count. In place. */
void ch_route_tidy(char *path);
/* The route of a path; *rest is what follows "/v1/models/". NULL: there is none. */
const ch_route *ch_route_find(const char *path, const char **rest);
/* Why there is none. */
bool ch_route_refuse(const char *path, ch_refusal *refusal);
/* The route's place among the endpoints that are counted; that of all other paths for NULL. */
int ch_route_endpoint(const ch_route *route);
/* Names of the endpoints; returns how many there are. One thread at a time. */
int ch_route_endpoints(const char *const **names);

#endif
