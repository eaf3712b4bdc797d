/* Parts of answers that all forms share. */
#ifndef CH_SERVE_ANSWER_H
#define CH_SERVE_ANSWER_H

#include "serve/names.h"
#include "serve/server.h"

/* One choice of an answer: choice k of a prompt. */
typedef struct ch_view {
  ch_server *server;
  const ch_writing *writing;
  const ch_prompt *prompt;
  const ch_choice *choice;
  int64_t index; /* among all choices */
} ch_view;

ch_view ch_view_of(const ch_exchange *exchange, int64_t index);

/* "stop" or "length". */
const char *ch_finish_reason(const ch_choice *choice);
/* Appends `,"usage":{...}`-like: the object alone, of what is written so far. */
void ch_put_usage(ch_text *json, const ch_writing *writing);
/* Appends `"id":...,"object":...,"created":...,"model":...,"system_fingerprint":...`. */
void ch_put_head(ch_text *json, const ch_exchange *exchange, const char *object);
/* Appends a log-probability so that reading gives the same double; -9999 for minus infinity, which JSON does not have. */
void ch_put_log_probability(ch_text *json, double value);
/* Appends `"token":...,"logprob":...,"bytes":[...]`. */
void ch_put_token(ch_text *json, const ch_tokenizer *tokenizer, int32_t token, double log_probability);
/* Appends bytes of text as a JSON string. */
void ch_put_json_text(ch_text *json, const char *text, size_t size);
/* Appends `,"NAME":` and the string. */
void ch_put_member(ch_text *json, const char *name, const char *text, size_t size);

/* How a form writes its answers. `piece` [size] is the text that a token released. Events are whole, from "data: " to the empty
   line. */
typedef struct ch_style {
  void (*begin)(ch_text *out, const ch_exchange *exchange,
                const ch_view *view); /* NULL: a choice has no first event */
  void (*token)(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                size_t size, const ch_record *record, const ch_token_probability *top);
  void (*finish)(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                 size_t size);
  void (*end)(ch_text *out, const ch_exchange *exchange);
  void (*whole)(ch_text *out, const ch_exchange *exchange);
  bool waits_for_prompt; /* `begin` needs the tokens of the prompt */
  bool waits_for_text;   /* a token with probabilities is sent once its text is */
} ch_style;
extern const ch_style ch_completion_style, ch_chat_style, ch_native_style;
static inline const ch_style *ch_style_of(ch_form form) {
  return form == CH_CHAT ? &ch_chat_style : form == CH_NATIVE ? &ch_native_style : &ch_completion_style;
}

#endif
