/* Which mechanism to take: the rule, and the sentence that says so. */
#ifndef CH_REPORT_VERDICT_H
#define CH_REPORT_VERDICT_H

#include "base/text.h"
#include "train/compare_summary.h"

typedef struct ch_verdict {
  int best; /* lowest validation loss, or on images highest top-1 accuracy; -1: there is no model */
  int take; /* the smallest cache - on images the fewest parameters of attention - among those whose loss or accuracy is
               within the tolerance of the best; the better one of equals */
} ch_verdict;

/* Indices of groups; all by the means over seeds. */
ch_verdict ch_verdict_of(const ch_summary *summary, double tolerance);
/* "Take gqa:2: its validation loss is 0.4 % above the best (mha), and its cache is 4 times smaller." */
void ch_verdict_sentence(const ch_summary *summary, const ch_comparison *comparison, ch_text *text);
/* The rule in a sentence, with the tolerance. */
void ch_verdict_rule(const ch_comparison *comparison, ch_text *text);
/* What the seeds say about the differences: which pairs differ beyond the noise; of one seed, that nothing is known. */
void ch_verdict_noise(const ch_summary *summary, ch_text *text);

#endif
