/* Routes that say what the server is and does. Each fills the exchange's reply. */
#ifndef CH_SERVE_ABOUT_H
#define CH_SERVE_ABOUT_H

#include "serve/server.h"

/* Notes what does not change: the model's card and its tokenizer's. */
ch_status ch_about_prepare(ch_server *server, ch_error *error);

bool ch_get_health(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_models(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_model(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_props(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_slots(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_metrics(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
bool ch_get_tokenizer_info(ch_exchange *exchange, const char *rest, ch_refusal *refusal);

#endif
