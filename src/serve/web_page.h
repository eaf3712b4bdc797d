/* The page at /, for trying the model. */
#ifndef CH_SERVE_WEB_PAGE_H
#define CH_SERVE_WEB_PAGE_H

#include "serve/exchange.h"

bool ch_get_page(ch_exchange *exchange, const char *rest, ch_refusal *refusal);
/* Its Content-Security-Policy: nothing but what the page holds, and requests to this server. */
const char *ch_page_policy(void);

#endif
