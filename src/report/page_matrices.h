/* Learned matrices as heatmaps: knocking projections (KHA, figure 3), head mixes, coefficients of shared atoms. */
#ifndef CH_REPORT_PAGE_MATRICES_H
#define CH_REPORT_PAGE_MATRICES_H

#include "base/text.h"
#include "experiment/findings/summary.h"

/* Appends a figure for each mechanism and each kind of matrix that it has. The matrices are read from the model of
   its first seed below `out`. Models that cannot be read are skipped. */
void ch_matrices_put(const ch_summary *summary, const char *out, ch_text *html);

#endif
