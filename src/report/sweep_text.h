/* A sweep for a terminal: a table, and one sentence per mechanism. */
#ifndef CH_REPORT_SWEEP_TEXT_H
#define CH_REPORT_SWEEP_TEXT_H

#include "base/text.h"
#include "experiment/findings/sweep_results.h"

/* Writes one line per run, '*' at the chosen rates, then a sentence per mechanism, the verdict on mechanisms at their
 * best rates, and warnings. */
void ch_sweep_table_write(const ch_sweep *sweep, ch_text *text);
/* Writes "mha: the largest stable rate is 0.003 (validation loss 3.2104)." */
void ch_sweep_sentence(const ch_sweep_choice *choice, ch_text *text);
/* Writes a verdict in words: "stable", "spike from step 120 on", ... */
void ch_sweep_verdict(const ch_sweep_result *run, ch_text *text);
/* Writes "2.13 [1.98, 2.20]"; a missing bound is "-". */
void ch_estimate_text(const ch_estimate *e, ch_text *text);

#endif
