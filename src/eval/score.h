/* Log-likelihoods of texts: many windows of tokens at a time, without ever storing logits of all tokens. */
#ifndef CH_EVAL_SCORE_H
#define CH_EVAL_SCORE_H

#include <crosshead/common.h>

#include "infer/model.h"
#include "model/runner.h"
#include "ranks/ranks.h"

/* A window of tokens of which those from `first` on are predicted, each from all tokens before it in the
   window. */
typedef struct ch_score_window {
  const int32_t *tokens; /* [length] */
  int64_t length;        /* number of tokens, at least 2 */
  int64_t first;         /* index of the first predicted token: 1 ... length - 1 */
} ch_score_window;

typedef struct ch_scorer ch_scorer;

/* Creates a scorer. The model must outlive it. */
ch_status ch_scorer_create(const ch_model *model, ch_scorer **scorer, ch_error *error);
void ch_scorer_free(ch_scorer *scorer);
/* Sends every later window through a cache of these types. Tokens see the cached states of earlier tokens and
 * their own, as in decoding. */
void ch_scorer_use_cache(ch_scorer *scorer, ch_cache_types types);
/* Divides later batches among ranks. All ranks must then call ch_scorer_run with the same windows, and all
 * get the sums and the status. NULL: this process alone. */
void ch_scorer_share(ch_scorer *scorer, ch_rank_group *ranks);
/* Returns a hash of windows, by which ranks check that their windows are equal. */
uint64_t ch_windows_hash(const ch_score_window *windows, int64_t count);
/* Scores windows: nll[i] is the sum of -log p over the predicted tokens of window i. Windows of similar
 * length run together, padded. `progress`, which may be NULL, is called during and after passes with the
 * predictions done and in total; false stops with CH_ERROR_INTERRUPTED. Errors: CH_ERROR_ARGUMENT for an id outside the
 * vocabulary, CH_ERROR_NUMERIC when a loss is not finite. */
ch_status ch_scorer_run(ch_scorer *scorer, const ch_score_window *windows, int64_t count, double *nll,
                        ch_progress progress, void *user, ch_error *error);

#endif
