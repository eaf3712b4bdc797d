/* Reads tables of numbers: CSV (RFC 4180) with commas, semicolons or tabs, or columns separated by blanks. */
#ifndef CH_EXPERIMENT_FINDINGS_NUMBER_TABLE_H
#define CH_EXPERIMENT_FINDINGS_NUMBER_TABLE_H

#include "base/error.h"

enum { CH_WANTED_MOST = 3 };

/* The columns to read, in the order of a table without a heading. The last one is a loss. */
typedef struct ch_wanted_columns {
  int count;
  struct {
    const char *name; /* name in messages */
    /* accepted headings, the preferred first, ended by NULL; case does not matter */
    const char *const *headings;
  } columns[CH_WANTED_MOST];
} ch_wanted_columns;

/* Reads a table's rows into values [want->count][*count], which must have room for as many rows as the text has lines.
 * `text` is changed. A heading names columns; without one, or with a heading of other words, the table must have the
 * wanted columns and no others. A row whose loss is blank is left out; a loss may be nan or inf. Lines that begin with
 * # are comments. Errors (CH_ERROR_FORMAT) name the file and the line: a row with more or fewer cells than the first, a
 * cell that is not a number, quotes that RFC 4180 does not allow. */
ch_status ch_read_number_table(const char *path, char *text, const ch_wanted_columns *want,
                               double *const values[], int *count, ch_error *error);

#endif
