/* Which mechanism to take: the rule, and the sentence that says so. */
#ifndef CH_REPORT_VERDICT_H
#define CH_REPORT_VERDICT_H

#include "base/text.h"
#include "train/compare_results.h"

typedef struct ch_verdict {
  int best; /* lowest validation loss, or on images highest top-1 accuracy; -1: there is no model */
  int take; /* the smallest cache - on images the fewest parameters of attention - among those whose loss or accuracy is
               within the tolerance of the best; the better one of equals */
} ch_verdict;

ch_verdict ch_verdict_of(const ch_comparison *comparison);
/* "Take gqa:2: its validation loss is 0.4 % above the best (mha), and its cache is 4 times smaller." */
void ch_verdict_sentence(const ch_comparison *comparison, ch_text *text);
/* The rule in a sentence, with the tolerance. */
void ch_verdict_rule(const ch_comparison *comparison, ch_text *text);

#endif
