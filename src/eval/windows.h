/* Cuts a long sequence into windows that a model can see at once, so that each token is predicted once. */
#ifndef CH_EVAL_WINDOWS_H
#define CH_EVAL_WINDOWS_H

#include "eval/score.h"

/* A growing list; zero-initialise. */
typedef struct ch_windows {
  ch_score_window *data;
  int64_t count, capacity;
} ch_windows;

void ch_windows_free(ch_windows *windows);

/* Adds windows of at most `window` tokens that begin every `stride` tokens (stride < window). The first window predicts
   all but its first token. Every other window predicts the tokens that no earlier window predicted, each from at least
   window - stride tokens. tokens [count] must outlive the list. */
ch_status ch_windows_strided(ch_windows *windows, const int32_t *tokens, int64_t count, int64_t window,
                             int64_t stride, ch_error *error);

/* Adds the rolling windows of lm-evaluation-harness with one token of context: tokens [count] is the prefix token and
 * the document. Every window has at most `window` inputs and begins one token before the first token that it predicts.
 * Only the last window may begin earlier, to be as long as the others. */
ch_status ch_windows_rolling(ch_windows *windows, const int32_t *tokens, int64_t count, int64_t window,
                             ch_error *error);

#endif
