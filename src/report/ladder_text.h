/* The results of a ladder in words and tables, for a terminal. */
#ifndef CH_REPORT_LADDER_TEXT_H
#define CH_REPORT_LADDER_TEXT_H

#include "base/text.h"
#include "experiment/findings/ladder_results.h"

/* Writes the two tables, then the sentences. */
void ch_ladder_write(const ch_ladder *ladder, ch_text *text);
/* Writes the law and how it was fitted, its test on the largest models, the crossings of mechanisms, and warnings:
 * one sentence per line. */
void ch_ladder_sentences_write(const ch_ladder *ladder, ch_text *text);

#endif
