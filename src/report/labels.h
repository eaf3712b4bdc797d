/* Names of models as a page or a table shows them: the paths of configuration files are shortened. */
#ifndef CH_REPORT_LABELS_H
#define CH_REPORT_LABELS_H

#include "experiment/findings/summary.h"

/* Replaces each group's name of more than 24 bytes by a label: the last component of the path without ".json". In a
   component of more than 28 bytes, "…" replaces the middle. A name stays if its label is the name of another
   group. runs[0]->name stays the full name. */
ch_status ch_summary_label(ch_summary *summary, ch_error *error);

#endif
