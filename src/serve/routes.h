/* The routes: the path of each request and the function that answers it. */
#ifndef CH_SERVE_ROUTES_H
#define CH_SERVE_ROUTES_H

#include <jansson.h>

#include "serve/exchange.h"

typedef struct ch_route {
  const char *path; /* a path that ends with a slash, except "/", also matches every path below it */
  /* Answers a GET in the HTTP thread: fills `reply`. `rest` is the part of the path after the route's path. */
  bool (*get)(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
  /* Answers a POST in the request worker: fills `reply`, or submits the exchange to the engine and sets
     *answers to false. */
  bool (*post)(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
  bool open; /* true if no API key is needed */
} ch_route;

/* The functions of the routes; see `get` and `post`. */
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

/* Removes repeated slashes and a slash at the end, in place. */
void ch_route_tidy(char *path);
/* Finds the route of a path. Sets *rest to the part after the route's path: "name" in "/v1/models/name". Returns NULL
   if no route matches. */
const ch_route *ch_route_find(const char *path, const char **rest);
/* Refuses a path that has no route. */
bool ch_route_refuse(const char *path, ch_refusal *refusal);
/* Returns the index of a route in the metrics; for NULL, the index that counts all other paths. */
int ch_route_endpoint(const ch_route *route);
/* Sets *names to the endpoints' names in the metrics and returns their number. Call from one thread at a time. */
int ch_route_endpoints(const char *const **names);

#endif
