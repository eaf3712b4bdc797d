/* Fitted laws and spikes for a terminal. */
#ifndef CH_REPORT_FIT_TEXT_H
#define CH_REPORT_FIT_TEXT_H

#include "base/text.h"
#include "experiment/fit.h"

/* Writes some lines for every curve. */
void ch_fits_write(const ch_fits *fits, ch_text *text);

/* Writes the law of size and tokens of the file `name`. */
void ch_size_law_write(const char *name, const ch_size_law *law, ch_text *text);

#endif
