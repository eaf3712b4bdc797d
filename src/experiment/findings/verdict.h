/* Sentences about a decision. */
#ifndef CH_EXPERIMENT_FINDINGS_VERDICT_H
#define CH_EXPERIMENT_FINDINGS_VERDICT_H

#include "base/text.h"
#include "experiment/findings/summary.h"

/* The names of decisions, by ch_verdict_kind. */
extern const char *const ch_verdict_kinds[];

/* Fills names [summary->count] with the chosen mechanism and then the other candidates. Returns their number. */
int ch_verdict_names(const ch_summary *summary, const char **names);
/* Writes the answer, without a newline at its end: a line that names one choice, then lines about ties, smaller caches
 * and larger ones, as they apply. The first line is like "Take mfa: 256 bytes of cache per token, at most 1.2 % behind
 * the best of 9 (3 seeds, 95 % confidence)." */
void ch_verdict_sentence(const ch_summary *summary, const ch_comparison *comparison, ch_text *text);
/* Writes the rule and its tolerance in a sentence. */
void ch_verdict_rule(const ch_comparison *comparison, ch_text *text);
/* Writes how the intervals are computed. It writes nothing if there is one mechanism or the noise is unknown. */
void ch_verdict_noise(const ch_summary *summary, const ch_comparison *comparison, ch_text *text);
/* Writes the interval of every mechanism's distance behind the best. It writes nothing if there is one mechanism or the
 * noise is unknown. */
void ch_verdict_standings(const ch_summary *summary, ch_text *text);
/* Writes how many more tokens each choice needs to close the largest gap that it may have, if its curve has a law. */
void ch_verdict_tokens(const ch_summary *summary, const ch_comparison *comparison, ch_text *text);
/* Fills ties [summary->count] with the groups that are tied with `group`, the best first. Returns their number, 0 while
 * the noise is unknown. */
int ch_verdict_ties(const ch_summary *summary, int group, int *ties);

#endif
