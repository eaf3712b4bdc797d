/* The access log: one line per request on standard error. A line that would block is dropped. The log never
   contains prompts, generated text or keys. */
#ifndef CH_SERVE_ACCESS_LOG_H
#define CH_SERVE_ACCESS_LOG_H

#include "serve/exchange.h"

void ch_log_request(const ch_exchange *exchange, unsigned status);

#endif
