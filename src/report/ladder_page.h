/* The results of a ladder in the page of a comparison: tables and a figure. */
#ifndef CH_REPORT_LADDER_PAGE_H
#define CH_REPORT_LADDER_PAGE_H

#include <jansson.h>

#include "base/text.h"
#include "experiment/findings/ladder_results.h"

/* Writes the two tables, with intervals below their values. */
void ch_ladder_put_tables(const ch_ladder *ladder, ch_text *html);

/* Returns losses against FLOPs with the fitted laws, in the form of report/figure.h. colours [count] are the
 * mechanisms' colours. */
json_t *ch_figure_ladder(const ch_ladder *ladder, const int *colours);

#endif
