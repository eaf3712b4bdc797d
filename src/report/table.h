/* The table of a comparison, for a terminal. */
#ifndef CH_REPORT_TABLE_H
#define CH_REPORT_TABLE_H

#include "base/text.h"
#include "train/compare_summary.h"

/* What a column holds, and which end of it is better. */
typedef struct ch_column {
  const char *group, *heading, *unit; /* in the text; group: over several columns, or "" */
  const char *title, *title_unit;     /* in the page */
  enum { CH_BEST_NONE, CH_BEST_LOW, CH_BEST_HIGH } best;
  double (*value)(const ch_compared *model);
  int decimals;
  bool spread; /* the deviation between seeds is shown too */
} ch_column;

/* The columns after the name, in order, of a comparison on text or on images; CH_COLUMNS of them. */
enum { CH_COLUMNS = 7 };
const ch_column *ch_columns_of(const ch_comparison *comparison);

/* Formats a value of a column: "1,234,567" or "3.4012". Returns buffer. */
const char *ch_column_format(const ch_column *column, double value, char *buffer, size_t size);
/* The mean over a group's runs, and of several " ± " their standard deviation, if the column shows it. Returns buffer. */
const char *ch_column_cell(const ch_column *column, const ch_group *group, char *buffer, size_t size);
/* True when the group has the best mean of the column, and not all have it. */
bool ch_column_is_best(const ch_column *column, const ch_summary *summary, const ch_group *group);

/* The aligned table, the best model first, the best of each column marked, with its notes and the last line that
   says which to take. */
void ch_table_write(const ch_comparison *comparison, ch_text *text);

#endif
