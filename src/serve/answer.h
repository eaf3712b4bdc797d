/* Writers of answers: the parts that every API shares, and one table of functions for each API. */
#ifndef CH_SERVE_ANSWER_H
#define CH_SERVE_ANSWER_H

#include "serve/token_names.h"
#include "serve/server.h"

/* One choice of an answer, with the prompt that it continues. */
typedef struct ch_view {
  ch_server *server;
  const ch_text_job *job;
  const ch_prompt *prompt;
  const ch_choice *choice;
  int64_t index; /* index of the choice among the choices of all prompts */
} ch_view;

/* Returns choice `index` of all prompts' choices. */
ch_view ch_view_of(const ch_exchange *exchange, int64_t index);

/* Returns "stop" for an end token or a stop string, else "length". */
const char *ch_finish_reason(const ch_choice *choice);
/* Appends the usage object, counting the tokens generated so far. */
void ch_put_usage(ch_text *json, const ch_text_job *job);
/* Appends `"id":...,"object":...,"created":...,"model":...,"system_fingerprint":...`. */
void ch_put_head(ch_text *json, const ch_exchange *exchange, const char *object);
/* Ends the choice and the event that holds it, with the usage so far if the client wants it in every event. */
void ch_close_event(ch_text *out, const ch_view *view);
/* Appends the events after the last choice: the usage, if the client wants it, and [DONE]. */
void ch_put_end(ch_text *out, const ch_exchange *exchange, const char *object);
/* Appends a log-probability that parses back to the same double. A value that is not finite, which JSON cannot
   represent, is written as -9999. */
void ch_put_log_probability(ch_text *json, double value);
/* Appends `"token":...,"logprob":...,"bytes":[...]`. */
void ch_put_token(ch_text *json, const ch_tokenizer *tokenizer, int32_t token, double log_probability);
/* Appends text as a JSON string. */
void ch_put_json_text(ch_text *json, const char *text, size_t size);
/* Appends `,"NAME":` and the string. */
void ch_put_member(ch_text *json, const char *name, const char *text, size_t size);

/* The functions that write the answers of one API. `piece` [size] is the text that a token released. Each
   event is complete, from "data: " to the empty line. */
typedef struct ch_answer_format {
  /* writes the opening event of a choice; NULL: choices have none */
  void (*begin)(ch_text *out, const ch_exchange *exchange, const ch_view *view);
  /* writes the event of a token; `top` holds its likeliest alternatives, or is NULL */
  void (*token)(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                size_t size, const ch_token_record *record, const ch_token_probability *top);
  /* writes the last event of a choice */
  void (*finish)(ch_text *out, const ch_exchange *exchange, const ch_view *view, const char *piece,
                 size_t size);
  void (*end)(ch_text *out, const ch_exchange *exchange);   /* writes the events after the last choice */
  void (*whole)(ch_text *out, const ch_exchange *exchange); /* writes a complete answer, not a stream */
  bool waits_for_prompt; /* true if `begin` needs the tokens of the prompt */
  bool waits_for_text;   /* true if a token with probabilities is held until its text is released */
} ch_answer_format;
extern const ch_answer_format ch_completion_format, ch_chat_format, ch_native_format;
static inline const ch_answer_format *ch_answer_format_of(ch_form form) {
  return form == CH_CHAT ? &ch_chat_format : form == CH_NATIVE ? &ch_native_format : &ch_completion_format;
}

#endif
