/* report.html: one self-contained file that shows a comparison and loads no other files. */
#ifndef CH_REPORT_PAGE_H
#define CH_REPORT_PAGE_H

#include "report/figure.h"
#include "experiment/findings/comparison_results.h"

/* Writes the whole page. Matrices are read from the models' directories if the comparison has an output directory. */
ch_status ch_page_write(const ch_comparison *comparison, ch_text *html, ch_error *error);

#endif
