/* Requests as windows of tokens. */
#ifndef CH_EVAL_TASKS_REQUESTS_H
#define CH_EVAL_TASKS_REQUESTS_H

#include "eval/score.h"
#include "eval/tasks/question.h"
#include "text/tokenizer.h"

typedef struct ch_request_rules {
  const ch_tokenizer *tokenizer;
  int32_t prefix;     /* token that precedes texts without context */
  int64_t max_length; /* inputs that the model sees at once; longer texts lose their beginning */
} ch_request_rules;

/* Fills in the rules for a model. window: number of inputs that the model sees at once; 0: its context. */
ch_status ch_request_rules_of(const ch_config *config, const ch_tokenizer *tokenizer, int64_t window,
                              ch_request_rules *rules, ch_error *error);

/* A window of a list of tokens; see ch_score_window. */
typedef struct ch_token_window {
  size_t at; /* offset in the list */
  int64_t length, first;
  bool empty; /* true if the continuation has no separate token: the tokenizer joins it with the context */
} ch_token_window;

typedef struct ch_token_windows {
  ch_token_window *data;
  int64_t count, capacity;
} ch_token_windows;

/* Encodes a context and its continuation: appends the tokens to *ids and their window to *windows. The continuation's
 * tokens are those of both texts together, after as many as the context alone has. White space at the end of the
 * context belongs to the continuation. */
ch_status ch_request_encode(const ch_request_rules *rules, ch_encoder *encoder,
                            const ch_question_request *request, ch_ids *ids, ch_token_windows *windows,
                            ch_error *error);
/* Encodes a context that the model continues with up to `written` tokens, as one window that predicts
 * nothing. */
ch_status ch_request_encode_prompt(const ch_request_rules *rules, ch_encoder *encoder, const char *context,
                                   int64_t written, ch_ids *ids, ch_token_windows *windows, ch_error *error);
/* Encodes a whole text as its rolling windows (ch_windows_rolling). */
ch_status ch_request_encode_rolling(const ch_request_rules *rules, ch_encoder *encoder, const char *text,
                                    ch_ids *ids, ch_token_windows *windows, ch_error *error);

#endif
