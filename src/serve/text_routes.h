/* Routes that write text. */
#ifndef CH_SERVE_TEXT_ROUTES_H
#define CH_SERVE_TEXT_ROUTES_H

#include <jansson.h>

#include "serve/exchange.h"

bool ch_post_completions(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_chat(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_native(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);

#endif
