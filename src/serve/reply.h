/* What the server answers: a status and a body, or a refusal in the form of OpenAI's errors. */
#ifndef CH_SERVE_REPLY_H
#define CH_SERVE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* Why a request is refused. */
typedef struct ch_refusal {
  unsigned status;
  const char *code; /* static, or NULL */
  char param[160];  /* the field that is wrong, "messages[1].content"; "" for none */
  char message[1024];
  int64_t prompt_tokens, context; /* of a prompt that is too long; else 0 */
} ch_refusal;

/* Fills *refusal; param may be NULL. Returns false. */
bool ch_refuse(ch_refusal *refusal, unsigned status, const char *code, const char *param, const char *format,
               ...) __attribute__((format(printf, 5, 6)));
/* The refusal when memory is out. Returns false. */
bool ch_refuse_memory(ch_refusal *refusal);

typedef struct ch_reply {
  unsigned status;
  const char *type;  /* Content-Type; NULL: JSON */
  const char *allow; /* methods, or NULL */
  ch_text body;
  bool events; /* the body is a stream of events instead */
  bool close;  /* the connection is closed behind it */
  bool page;   /* it is the page, which has a policy of its own */
} ch_reply;

/* The reply that a refusal becomes. */
void ch_reply_refuse(ch_reply *reply, const ch_refusal *refusal);
/* Appends the error object of a refusal. */
void ch_put_refusal(ch_text *json, const ch_refusal *refusal);

#endif
