/* Names of models as a page or a table shows them: the paths of configuration files are shortened. */
#ifndef CH_REPORT_LABELS_H
#define CH_REPORT_LABELS_H

#include "experiment/findings/summary.h"

/* Replaces each group's name by its label. A short name stays; of a longer path the last component without ".json" is
   left, and the middle of a long component becomes "…". Two groups never get the same label. The full name stays in
   runs[0]->name. */
ch_status ch_summary_label(ch_summary *summary, ch_error *error);

#endif
