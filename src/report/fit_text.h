/* Fitted laws and loss spikes, for a terminal. */
#ifndef CH_REPORT_FIT_TEXT_H
#define CH_REPORT_FIT_TEXT_H

#include "base/text.h"
#include "experiment/fit.h"

/* Writes the law, the spikes and the verdict of every curve. */
void ch_fits_write(const ch_fits *fits, ch_text *text);

/* Writes the fitted law of size and tokens with its warnings. `name` is the title. */
void ch_size_law_write(const char *name, const ch_size_law *law, ch_text *text);

#endif
