/* Learned matrices as heatmaps: knocking projections (KHA, figure 3), head mixes, coefficients of shared atoms. */
#ifndef CH_REPORT_PAGE_MATRICES_H
#define CH_REPORT_PAGE_MATRICES_H

#include "base/text.h"
#include "experiment/findings/summary.h"

/* Appends a section for each mechanism that has such matrices, read from the model of its first seed below
   `out`; nothing if there is no such model. */
void ch_matrices_put(const ch_summary *summary, const char *out, ch_text *html);

#endif
