/* A reply: a status and a body, or a refusal as one of OpenAI's error objects. */
#ifndef CH_SERVE_REPLY_H
#define CH_SERVE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* The reason for refusing a request. */
typedef struct ch_refusal {
  unsigned status;
  const char *code; /* OpenAI's error code, a static string; or NULL */
  char param[160];  /* the invalid field, such as "messages[1].content"; "" for none */
  char message[1024];
  int64_t prompt_tokens, context; /* tokens of a prompt that is too long, and of the context; else 0 */
} ch_refusal;

/* Fills *refusal; param may be NULL. Returns false. */
bool ch_refuse(ch_refusal *refusal, unsigned status, const char *code, const char *param, const char *format,
               ...) __attribute__((format(printf, 5, 6)));
/* Fills *refusal for out of memory. Returns false. */
bool ch_refuse_memory(ch_refusal *refusal);

typedef struct ch_reply {
  unsigned status;
  const char *type;  /* Content-Type; NULL: JSON */
  const char *allow; /* value of the Allow header, or NULL */
  ch_text body;
  bool events; /* true if the answer is a stream of events; `body` is then unused */
  bool close;  /* true to close the connection after the reply */
  bool page;   /* true for the web page, which has its own Content-Security-Policy */
} ch_reply;

/* Fills a reply from a refusal. */
void ch_reply_refuse(ch_reply *reply, const ch_refusal *refusal);
/* Appends the error object of a refusal. */
void ch_put_refusal(ch_text *json, const ch_refusal *refusal);

#endif
