/* Routes between texts, tokens and templates. */
#ifndef CH_SERVE_TOKEN_ROUTES_H
#define CH_SERVE_TOKEN_ROUTES_H

#include <jansson.h>

#include "serve/exchange.h"

bool ch_post_tokenize(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_detokenize(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);
bool ch_post_apply_template(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal);

#endif
