/* What the server says of itself, and its page. */
#ifndef CH_SERVE_ABOUT_H
#define CH_SERVE_ABOUT_H

#include "serve/server.h"

/* Notes what does not change: the model's card and its tokenizer's. */
ch_status ch_about_prepare(ch_server *server, ch_error *error);
/* The page's Content-Security-Policy: nothing but what the page holds, and requests to this server. */
const char *ch_page_policy(void);

#endif
