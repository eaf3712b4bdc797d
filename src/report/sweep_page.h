/* The page of a sweep: the answer, losses against rates, curves with their laws, a table, machine and command. */
#ifndef CH_REPORT_SWEEP_PAGE_H
#define CH_REPORT_SWEEP_PAGE_H

#include "report/figure.h"
#include "experiment/findings/sweep_results.h"

ch_status ch_sweep_page_write(const ch_sweep *sweep, ch_text *html, ch_error *error);

#endif
