/* A comparison for a terminal: the verdict, the table of models, tasks, notes and the ladder. */
#ifndef CH_REPORT_COMPARISON_TEXT_H
#define CH_REPORT_COMPARISON_TEXT_H

#include "base/text.h"
#include "experiment/findings/summary.h"

/* Writes the sentence that recommends a model, the table with the best model first and the best of each
 * column marked, tasks, notes and the ladder. */
void ch_comparison_write(const ch_comparison *comparison, ch_text *text);

/* Writes "Loss spikes while training: mha 3, gqa 0.5 (means over seeds)." if any run had a spike and the spikes of
 * all runs were counted. Writes nothing otherwise. */
void ch_spikes_write(const ch_summary *summary, ch_text *text);

#endif
