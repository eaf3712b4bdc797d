/* The forecast cost of a comparison, for a terminal. */
#ifndef CH_REPORT_FORECAST_TEXT_H
#define CH_REPORT_FORECAST_TEXT_H

#include "base/text.h"
#include "experiment/forecast.h"

/* Writes a table with a row for every mechanism, and sentences about the whole comparison. */
void ch_forecast_write(const ch_compare_forecast *forecast, ch_text *text);

#endif
