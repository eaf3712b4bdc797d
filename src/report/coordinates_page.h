/* The page of a coordinate check: each mechanism's table, and a chart for each of its activations. */
#ifndef CH_REPORT_COORDINATES_PAGE_H
#define CH_REPORT_COORDINATES_PAGE_H

#include "experiment/coordinate_check.h"
#include "report/figure.h"

/* Writes the whole page. */
ch_status ch_coordinates_page_write(const ch_coordinates *coordinates, ch_text *html, ch_error *error);

#endif
