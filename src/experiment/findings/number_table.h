/* Tables of numbers in text: CSV by RFC 4180, the same with semicolons or tabs, or columns separated by blanks. */
#ifndef CH_EXPERIMENT_FINDINGS_NUMBER_TABLE_H
#define CH_EXPERIMENT_FINDINGS_NUMBER_TABLE_H

#include "base/error.h"

enum { CH_WANTED_MOST = 3 };

/* The columns that are wanted, in the order that a table without a heading has them; the last one is a loss. */
typedef struct ch_wanted_columns {
  int count;
  struct {
    const char *name; /* for messages */
    /* the first that the heading has is read; ends with NULL; case does not matter */
    const char *const *headings;
  } columns[CH_WANTED_MOST];
} ch_wanted_columns;

/* Reads a table's rows into values [want->count][*count], which have room for as many rows as the text has lines.
 * `text` is changed. A heading names columns; without one, or with a heading of other words, the table has the wanted
 * columns and no others. A row whose loss is blank is left out; a loss may be nan or inf. Lines that begin with # are
 * comments. Errors (CH_ERROR_FORMAT) name the file and the line: a row with more or fewer cells than the heading, a
 * cell that is not a number, quotes that RFC 4180 does not allow. */
ch_status ch_read_number_table(const char *path, char *text, const ch_wanted_columns *want,
                               double *const values[], int *count, ch_error *error);

#endif
