/* The page is in the program, with the hashes of its script and its style. */
#include "serve/web_page.h"

#include <string.h>

#include "serve/server.h"

extern const unsigned char ch_embedded_serve_page[], ch_embedded_serve_policy[];

bool ch_get_page(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  (void)rest;
  if (!exchange->server->settings->page)
    return ch_refuse(refusal, 404, "not_found", NULL,
                     "There is no page: the server was started with --no-web.");
  const char *page = (const char *)ch_embedded_serve_page;
  ch_text_put(&exchange->reply.body, page, strlen(page));
  exchange->reply.type = "text/html; charset=utf-8";
  exchange->reply.page = true;
  return true;
}

const char *ch_page_policy(void) {
  return (const char *)ch_embedded_serve_policy;
}
