/* One line on standard error for each request: never what a prompt or a text says, never a key. */
#ifndef CH_SERVE_ACCESS_LOG_H
#define CH_SERVE_ACCESS_LOG_H

#include "serve/exchange.h"

void ch_log_request(const ch_exchange *exchange, unsigned status);

#endif
