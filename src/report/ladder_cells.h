/* The two tables of a ladder, as cells: the terminal and the page write the same tables. */
#ifndef CH_REPORT_LADDER_CELLS_H
#define CH_REPORT_LADDER_CELLS_H

#include "base/table.h"
#include "experiment/findings/ladder_results.h"

/* Returns the loss of every mechanism at every size. Release with ch_table_write or ch_table_free. */
ch_table ch_ladder_losses(const ch_ladder *ladder);
/* Returns the law of every mechanism and its predictions, with intervals: "3.31 (3.25 to 3.37)"; "-" if
 * unknown, "and more" if an interval has no upper bound. */
ch_table ch_ladder_predictions(const ch_ladder *ladder);

#endif
