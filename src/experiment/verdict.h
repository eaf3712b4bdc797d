/* The words for a decision: which mechanism to take, by which rule, and what the noise between seeds has to do with it. */
#ifndef CH_EXPERIMENT_VERDICT_H
#define CH_EXPERIMENT_VERDICT_H

#include "base/text.h"
#include "experiment/summary.h"

/* The names that a decision is about, as runs spell them, [summary->count]: first the rule's choice by the means, then
   the other candidates. Returns how many. */
int ch_verdict_names(const ch_summary *summary, const char **names);
/* Of these, the ones that decision->more_seeds would leave; 0 where no number of seeds would leave fewer. */
int ch_verdict_left(const ch_summary *summary, const char **names);
/* One sentence or two. "Take gqa:2: its mean validation loss, 3.4254, is within 1 % of the lowest (mha, 3.4012), and its
   cache is 4 times smaller (3 seeds, 95 % confidence)." */
void ch_verdict_sentence(const ch_summary *summary, const ch_comparison *comparison, ch_text *text);
/* The rule in a sentence, with the tolerance. */
void ch_verdict_rule(const ch_comparison *comparison, ch_text *text);
/* With several seeds: how the intervals are made. */
void ch_verdict_noise(const ch_summary *summary, const ch_comparison *comparison, ch_text *text);
/* With several seeds: how far every model is behind the best, as intervals. */
void ch_verdict_standings(const ch_summary *summary, ch_text *text);
/* The ends of such an interval, "0.12 to 0.31 %" of the best loss or "0 to 1.20 points" of accuracy. */
void ch_verdict_interval(const ch_summary *summary, const ch_standing *standing, ch_text *text);

#endif
