/* The columns of a comparison's tables, in the terminal and in the page: values, their better end, spreads. */
#ifndef CH_REPORT_COMPARISON_COLUMNS_H
#define CH_REPORT_COMPARISON_COLUMNS_H

#include "base/text.h"
#include "experiment/findings/summary.h"

/* A column: its values, and which end is better. */
typedef struct ch_column {
  /* headings in the terminal; `group` is the heading over several columns, or "" */
  const char *group, *heading, *unit;
  const char *title, *title_unit; /* headings in the page */
  enum { CH_BEST_NONE, CH_BEST_LOW, CH_BEST_HIGH } best;
  double (*value)(const ch_model_result *model);
  int decimals;
  bool spread; /* true if the deviation between seeds is shown */
  /* Returns the spread of a speed's measurements; NULL in other columns. */
  double (*measured)(const ch_model_result *model);
  /* Returns true if a speed is unsteady; NULL in other columns. */
  bool (*unsteady)(const ch_model_result *model);
} ch_column;

/* The columns after the name, in order, of a comparison on text or on images. */
typedef struct ch_columns {
  const ch_column *list;
  int count;
} ch_columns;
enum { CH_MOST_COLUMNS = 10 };
/* Returns the columns of a comparison. If it does not make parameters equal, they include FLOPs, tokens and time. */
ch_columns ch_columns_of(const ch_comparison *comparison);

/* The reason that a speed is marked as not steady. */
#define CH_UNSTEADY_NOTE                                                                                     \
  "other programs kept the machine busy, or the measurements spread by more than a tenth."

/* Formats a value of a column: "1,234,567" or "3.4012". Returns buffer. */
const char *ch_column_format(const ch_column *column, double value, char *buffer, size_t size);
/* Writes the mean over a group's runs, "diverged" if it is infinite, or "-" for a speed of 0. " ± " follows with the
 * standard deviation between several runs, if the column shows it, or with the spread of a speed's measurements (the
 * mean over the runs). Returns buffer. */
const char *ch_column_cell(const ch_column *column, const ch_group *group, char *buffer, size_t size);
/* Returns true if the column is a speed that is not steady for the group. Such a speed gets no star. */
bool ch_column_is_unsteady(const ch_column *column, const ch_group *group);
/* Returns true if any group has an unsteady speed in any column. A note then explains the mark. */
bool ch_columns_have_unsteady(const ch_columns *columns, const ch_summary *summary);
/* Returns true if the group has the best mean of the column, and another group has a worse one. Groups that diverged
 * do not count. Returns false if the group's speed is not steady. */
bool ch_column_is_best(const ch_column *column, const ch_summary *summary, const ch_group *group);

#endif
