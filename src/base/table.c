/* Collects the cells of a table as text, and aligns them when it is written. */
#include "base/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* In `cells`, each cell is a byte, the cell's words and a NUL. A further NUL ends a row. The byte is CELL, plus the
 * number of columns if the cell spans several. */
enum { CELL = 1, MOST_SPAN = 100 };

static void put_byte(ch_table *table, int byte) {
  const char one = (char)byte;
  ch_text_put(&table->cells, &one, 1);
}

void ch_table_cell(ch_table *table, const char *format, ...) {
  va_list list;
  va_start(list, format);
  put_byte(table, CELL);
  ch_text_vprintf(&table->cells, format, list);
  put_byte(table, 0);
  va_end(list);
}

void ch_table_span(ch_table *table, int columns, const char *words) {
  put_byte(table, CELL + (columns < MOST_SPAN ? columns : MOST_SPAN));
  ch_text_puts(&table->cells, words);
  put_byte(table, 0);
}

void ch_table_end_row(ch_table *table) {
  put_byte(table, 0);
}

void ch_table_row(ch_table *table, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (words[i]) ch_table_cell(table, "%s", words[i]);
  ch_table_end_row(table);
}

/* A cell and its position in the table. */
typedef struct position {
  const char *next;  /* the byte after the cell in `cells` */
  const char *words; /* text of the cell; NULL: the end of a row */
  bool spans;
  int first, last; /* first and last column of the cell */
} position;

/* Moves to the next cell, or to the end of a row. Returns false after the last row. */
static bool next_cell(const ch_table *table, position *at) {
  if (!at->next) *at = (position){.next = table->cells.data, .last = -1};
  if (!at->next || at->next == table->cells.data + table->cells.size) return false;
  int kind = *at->next++;
  at->first = at->last + 1;
  at->words = kind ? at->next : NULL;
  at->spans = kind > CELL;
  at->last = at->spans ? at->last + kind - CELL : at->first;
  if (kind)
    at->next += strlen(at->next) + 1;
  else
    at->last = -1;
  return true;
}

const char *ch_table_at(const ch_table *table, int row, int column) {
  int in_row = 0;
  for (position at = {0}; row >= 0 && next_cell(table, &at);) {
    if (!at.words)
      row--, in_row = 0;
    else if (row == 0 && in_row++ == column)
      return at.words;
  }
  return NULL;
}

typedef struct column {
  bool right;
  int width;
} column;

/* Measures the columns. *columns [*count] is malloc'd. */
static bool measure_columns(const ch_table *table, column **columns, int *count) {
  *count = 0;
  for (position at = {0}; next_cell(table, &at);)
    if (at.last >= *count) *count = at.last + 1;
  *columns = calloc((size_t)*count + 1, sizeof **columns);
  if (!*columns) return false;
  const char *spec = table->columns;
  for (int c = 0; c < *count; c++) {
    const char *own = spec;
    (*columns)[c].right = *own == 'r';
    (*columns)[c].width = atoi(own + 1);
    for (spec++; isdigit((unsigned char)*spec); spec++) {
    }
    if (!*spec) spec = own;
  }
  for (position at = {0}; next_cell(table, &at);)
    if (at.words && !at.spans && ch_utf8_count(at.words) > (*columns)[at.last].width)
      (*columns)[at.last].width = ch_utf8_count(at.words);
  return true;
}

static void put_rows(const ch_table *table, const column *columns, ch_text *text) {
  size_t row = text->size;
  for (position at = {0}; next_cell(table, &at);) {
    if (!at.words) {
      while (text->size > row && text->data[text->size - 1] == ' ') text->data[--text->size] = 0;
      ch_text_puts(text, "\n");
      row = text->size;
      continue;
    }
    int width = table->gap * (at.last - at.first);
    for (int c = at.first; c <= at.last; c++) width += columns[c].width;
    int blanks = width - ch_utf8_count(at.words), gap = at.first ? table->gap : 0;
    bool right = columns[at.last].right;
    int before = right ? gap + blanks : gap, after = right ? 0 : blanks;
    ch_text_printf(text, "%*s%s%*s", before > 0 ? before : 0, "", at.words, after > 0 ? after : 0, "");
  }
}

void ch_table_write(ch_table *table, ch_text *text) {
  column *columns;
  int count;
  if (table->cells.failed || !measure_columns(table, &columns, &count)) {
    text->failed = true;
  } else {
    put_rows(table, columns, text);
    free(columns);
  }
  ch_table_free(table);
}

void ch_table_free(ch_table *table) {
  ch_text_free(&table->cells);
}
