/* The GET routes about the server: health, models, properties, slots, metrics, tokenizer, and the page at /. */
#ifndef CH_SERVE_INFO_ROUTES_H
#define CH_SERVE_INFO_ROUTES_H

#include "serve/server.h"

/* Prepares the answers that never change: the model's description and the tokenizer's. */
ch_status ch_info_prepare(ch_server *server, ch_error *error);
/* Returns the page's Content-Security-Policy. It allows only the page's own script and style, and requests to this
   server. */
const char *ch_page_policy(void);

#endif
