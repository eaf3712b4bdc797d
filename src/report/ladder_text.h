/* Reports the results of a ladder in words, tables and a figure. */
#ifndef CH_REPORT_LADDER_TEXT_H
#define CH_REPORT_LADDER_TEXT_H

#include "base/text.h"
#include "experiment/findings/ladder_results.h"

/* The law, how it was fitted, and what it says of the largest models and the target: some lines for a terminal. */
void ch_ladder_write(const ch_ladder *ladder, ch_text *text);
/* The two tables of it, for a page: values with their intervals below. */
void ch_ladder_tables_html(const ch_ladder *ladder, ch_text *html);
/* The sentences of it, one per line. */
void ch_ladder_sentences_write(const ch_ladder *ladder, ch_text *text);

/* Losses against FLOPs with the fitted laws, in the form of report/figure.h. colours [count]: of the mechanisms. */
json_t *ch_figure_ladder(const ch_ladder *ladder, const int *colours);

#endif
