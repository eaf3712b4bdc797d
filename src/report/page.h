/* report.html: one file that shows a comparison, with nothing to fetch from anywhere. */
#ifndef CH_REPORT_PAGE_H
#define CH_REPORT_PAGE_H

#include "base/text.h"
#include "train/compare_results.h"

/* Appends text for HTML content or a quoted attribute: & < > " ' as references, other control characters left out. */
void ch_html_escape(const char *string, ch_text *html);

/* The whole page. */
ch_status ch_page_write(const ch_comparison *comparison, ch_text *html, ch_error *error);

#endif
