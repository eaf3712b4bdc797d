/* Requests as tokens: what the model reads, and from which token on it is scored. */
#ifndef CH_EVAL_TASKS_REQUESTS_H
#define CH_EVAL_TASKS_REQUESTS_H

#include "eval/score.h"
#include "eval/tasks/question.h"
#include "text/tokenizer.h"

typedef struct ch_request_rules {
  const ch_tokenizer *tokenizer;
  int32_t prefix;     /* precedes texts without context */
  int64_t max_length; /* inputs that the model sees at once; longer ones lose their beginning */
} ch_request_rules;

/* Fills the rules for a model. window: the inputs it sees at once, 0 = its context. */
ch_status ch_request_rules_of(const ch_config *config, const ch_tokenizer *tokenizer, int64_t window,
                              ch_request_rules *rules, ch_error *error);

/* The windows of a context and its continuation, appended to *windows with offsets into *ids for tokens:
   the continuation's tokens are those of both texts together after as many as the context alone has; white space at
   the end of the context belongs to the continuation. A whole text (context "" of CH_TASK_ROLLING) has as many windows
   as it needs. */
typedef struct ch_token_window {
  size_t at; /* in ids */
  int64_t length, first;
  bool empty; /* the continuation has no token of its own: the tokenizer joins it with the context */
} ch_token_window;

typedef struct ch_token_windows {
  ch_token_window *data;
  int64_t count, capacity;
} ch_token_windows;

ch_status ch_request_encode(const ch_request_rules *rules, ch_encoder *encoder,
                            const ch_question_request *request, ch_ids *ids, ch_token_windows *windows,
                            ch_error *error);
/* Encodes a context that the model continues with up to `written` tokens, as one window that predicts
 * nothing. */
ch_status ch_request_encode_prompt(const ch_request_rules *rules, ch_encoder *encoder, const char *context,
                                   int64_t written, ch_ids *ids, ch_token_windows *windows, ch_error *error);
ch_status ch_request_encode_rolling(const ch_request_rules *rules, ch_encoder *encoder, const char *text,
                                    ch_ids *ids, ch_token_windows *windows, ch_error *error);

#endif
