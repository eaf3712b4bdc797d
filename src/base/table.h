/* Text tables for a terminal. Cells are filled row by row; a column is as wide as its longest cell. */
#ifndef CH_BASE_TABLE_H
#define CH_BASE_TABLE_H

#include "base/text.h"

/* A table. Set `columns` and `gap`, and zero the rest.
 *
 *   ch_table table = {.columns = "lr", .gap = 2};
 *   ch_table_cell(&table, "mechanism");
 *   ch_table_cell(&table, "loss");
 *   ch_table_end_row(&table);
 *   ...
 *   ch_table_write(&table, text); */
typedef struct ch_table {
  /* For each column l or r, the side at which its cells are aligned, and optionally its minimum width: "l9r11r". The
     last one applies to all further columns. */
  const char *columns;
  int gap; /* blanks between columns */
  ch_text cells;
} ch_table;

/* Appends a cell to the last row. */
void ch_table_cell(ch_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a cell over `columns` columns, aligned like the last of them. It does not widen them. If it is too long and
   aligned right, it uses the gap before them. */
void ch_table_span(ch_table *table, int columns, const char *words);
void ch_table_end_row(ch_table *table);
/* Appends a row of words, such as headings; a word that is NULL is left out. */
void ch_table_row(ch_table *table, const char *const *words, size_t count);

/* Returns cell `column` of row `row`, or NULL if there is none. The table owns it. A span counts as one cell. */
const char *ch_table_at(const ch_table *table, int row, int column);

/* Appends the rows to `text`, without blanks at their ends, and releases the cells. Sets text->failed if out of
   memory. */
void ch_table_write(ch_table *table, ch_text *text);
void ch_table_free(ch_table *table);

#endif
