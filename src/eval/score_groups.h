/* Log-likelihoods of continuations that share a context. The context is computed once and stays in the cache. */
#ifndef CH_EVAL_SCORE_GROUPS_H
#define CH_EVAL_SCORE_GROUPS_H

#include "eval/score.h"

typedef struct ch_continuation_score {
  double nll;  /* sum of -log p over the predicted tokens */
  bool greedy; /* true if each predicted token is the likeliest; of equally likely tokens the first counts */
} ch_continuation_score;

/* Scores windows [starts[groups]] in groups: group g is windows starts[g] ... starts[g + 1] - 1. The common beginning
 * of a group runs once. Neighbouring groups that begin alike (examples before every question) share their beginning
 * too. Groups of similar length run together. *computed (or NULL) receives the number of tokens that went through the
 * model, without padding. All ranks of `ranks` (NULL: this process alone) must call it with the same windows. Each runs
 * some of the batches, and all receive all scores. Errors: as ch_scorer_run. */
ch_status ch_score_groups(const ch_model *model, ch_rank_group *ranks, const ch_score_window *windows,
                          const int64_t *starts, int64_t groups, ch_continuation_score *scores,
                          int64_t *computed, ch_progress progress, void *user, ch_error *error);

#endif
