/* Reads tables: libcsv splits rows into cells; this file converts cells to numbers. */
#define _GNU_SOURCE
#include "experiment/findings/number_table.h"

#include <csv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { MOST_CELLS = 1024 };

typedef struct row {
  ch_text text;          /* all cells, each ended by NUL */
  size_t at[MOST_CELLS]; /* [cells] offsets of the cells in `text` */
  int cells;
  bool too_many;
} row;

typedef struct reader {
  const char *path;
  const ch_wanted_columns *want;
  double *const *values;
  int *count;
  long line;                   /* number of the line in which the row ends */
  int width;                   /* cells of a row; 0 before the first row */
  int columns[CH_WANTED_MOST]; /* [want->count] index of each wanted column in a row */
  row row;
  ch_status status;
  ch_error *error;
} reader;

static const char *cell(const row *r, int i) {
  return r->text.data + r->at[i];
}

static bool is_number(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return end != text && !*end;
}

static void add_cell(const char *from, size_t size, row *r) {
  while (size > 0 && strchr(" \t\r", from[size - 1])) size--;
  while (size > 0 && strchr(" \t\r", *from)) {
    from++;
    size--;
  }
  r->too_many |= r->cells == MOST_CELLS;
  if (r->too_many) return;
  r->at[r->cells++] = r->text.size;
  ch_text_put(&r->text, from, size);
  ch_text_put(&r->text, "", 1);
}

/* --- the heading ------------------------------------------------------------------------------------------------- */

/* Returns the column with this heading; -1: none, -2: several. */
static int column_named(const row *r, const char *name) {
  int found = -1;
  for (int i = 0; i < r->cells; i++)
    if (strcasecmp(cell(r, i), name) == 0) found = found == -1 ? i : -2;
  return found;
}

/* Finds the wanted columns by the heading. If no column is named, the table must have the wanted columns only. */
static ch_status find_columns(reader *t, bool heading) {
  const ch_wanted_columns *want = t->want;
  int named = 0, missing = 0;
  for (int k = 0; k < want->count; k++) {
    t->columns[k] = -1;
    for (const char *const *name = want->columns[k].headings; heading && *name && t->columns[k] == -1;
         name++) {
      t->columns[k] = column_named(&t->row, *name);
      if (t->columns[k] == -2)
        return ch_fail(t->error, CH_ERROR_FORMAT, "%s, line %ld: two columns are named \"%s\"", t->path,
                       t->line, *name);
    }
    named += t->columns[k] >= 0;
    if (t->columns[k] < 0) missing = k;
  }
  if (named == want->count) return CH_OK;
  if (heading && (named > 0 || t->row.cells != want->count))
    return ch_fail(t->error, CH_ERROR_FORMAT, "%s: no column is named %s", t->path,
                   want->columns[missing].name);
  if (t->row.cells != want->count)
    return ch_fail(t->error, CH_ERROR_FORMAT,
                   "%s, line %ld: %s are needed, %stokens and a loss, and there are %d; other columns need a "
                   "heading%s",
                   t->path, t->line, want->count == 2 ? "two numbers" : "three numbers",
                   want->count == 2 ? "" : "parameters, ", t->row.cells,
                   t->row.cells > want->count ? ", and decimals a point" : "");
  for (int k = 0; k < want->count; k++) t->columns[k] = k;
  return CH_OK;
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

static ch_status read_numbers(reader *t) {
  const ch_wanted_columns *want = t->want;
  int loss = want->count - 1;
  if (!*cell(&t->row, t->columns[loss])) return CH_OK; /* no loss at this point */
  for (int k = 0; k < want->count; k++) {
    const char *word = cell(&t->row, t->columns[k]);
    double *value = &t->values[k][*t->count];
    if (!is_number(word, value) || (k < loss && !isfinite(*value)))
      return ch_fail(
          t->error, CH_ERROR_FORMAT, "%s, line %ld: %s is %s%.40s%s, which is not a number%s", t->path,
          t->line, want->columns[k].name, *word ? "'" : "", *word ? word : "blank", *word ? "'" : "",
          strchr(word, ',') ? "; write decimals with a point, and no separators of thousands" : "");
  }
  (*t->count)++;
  return CH_OK;
}

static ch_status take_row(reader *t) {
  const row *r = &t->row;
  double ignored;
  int words = 0, blank = 0;
  if (r->text.failed) return ch_no_memory(t->error);
  if (r->too_many)
    return ch_fail(t->error, CH_ERROR_FORMAT, "%s, line %ld has more than %d cells", t->path, t->line,
                   MOST_CELLS);
  for (int i = 0; i < r->cells; i++) {
    blank += !*cell(r, i);
    words += *cell(r, i) && !is_number(cell(r, i), &ignored);
  }
  if (blank == r->cells) return CH_OK;
  if (t->width == 0) {
    t->width = r->cells;
    CH_TRY(find_columns(t, words > 0));
    if (words > 0) return CH_OK;
  }
  if (r->cells != t->width)
    return ch_fail(t->error, CH_ERROR_FORMAT, "%s, line %ld has %d cells, but the first row has %d%s",
                   t->path, t->line, r->cells, t->width,
                   r->cells > t->width ? "; a decimal comma makes two cells, and an index needs a heading"
                                       : "");
  return read_numbers(t);
}

static void end_row(reader *t) {
  if (t->status == CH_OK && t->row.cells > 0) t->status = take_row(t);
  t->row.cells = 0;
  t->row.text.size = 0;
}

static void on_cell(void *data, size_t size, void *context) {
  add_cell(data, size, &((reader *)context)->row);
}

static void on_row(int ended_by, void *context) {
  (void)ended_by;
  end_row(context);
}

/* --- the whole table --------------------------------------------------------------------------------------------- */

/* Returns the separator of a line's cells: a tab, else a semicolon, else a comma, else a blank. Separators in quotes do
 * not count. */
static char separator_of(const char *line) {
  bool quoted = false;
  char best = ' ';
  for (; *line && (quoted || *line != '\n'); line++) {
    quoted ^= *line == '"';
    if (quoted) continue;
    if (*line == '\t') return '\t';
    if (*line == ';' || (*line == ',' && best == ' ')) best = *line;
  }
  return best;
}

static void read_blank_separated(reader *t, char *text) {
  for (char *line; t->status == CH_OK && (line = strsep(&text, "\n")) != NULL;) {
    t->line++;
    if (*line == '#') continue;
    char *state = NULL;
    for (char *word = strtok_r(line, " \t\r", &state); word; word = strtok_r(NULL, " \t\r", &state)) {
      size_t size = strlen(word);
      bool quoted = size > 2 && word[0] == '"' && word[size - 1] == '"';
      add_cell(word + quoted, size - (quoted ? 2 : 0), &t->row);
    }
    end_row(t);
  }
}

/* Reads a table of separated values, line by line so that errors can name the line. */
static void read_separated(reader *t, const char *text, char separator) {
  struct csv_parser parser;
  bool right = csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0;
  csv_set_delim(&parser, (unsigned char)separator);
  bool inside = false; /* true within a quoted cell that continues in the next line */
  while (right && t->status == CH_OK && *text) {
    size_t size = strcspn(text, "\n") + (strchr(text, '\n') != NULL);
    t->line++;
    if (inside || *text != '#') right = csv_parse(&parser, text, size, on_cell, on_row, t) == size;
    for (size_t i = 0; i < size && (inside || *text != '#'); i++) inside ^= text[i] == '"';
    text += size;
  }
  if (right && t->status == CH_OK) right = csv_fini(&parser, on_cell, on_row, t) == 0;
  if (!right && t->status == CH_OK)
    t->status =
        csv_error(&parser) == CSV_ENOMEM
            ? ch_no_memory(t->error)
            : ch_fail(t->error, CH_ERROR_FORMAT,
                      "%s, line %ld: a quote is not closed, or not at the ends of its cell (RFC 4180)",
                      t->path, t->line);
  csv_free(&parser);
}

ch_status ch_read_number_table(const char *path, char *text, const ch_wanted_columns *want,
                               double *const values[], int *count, ch_error *error) {
  static const char mark[] = "\xef\xbb\xbf";
  if (strncmp(text, mark, 3) == 0) text += 3;
  for (char *c = strchr(text, '\n') ? NULL : text; c && *c; c++)
    if (*c == '\r') *c = '\n'; /* without LF, each CR ends a line */
  reader t = {.path = path, .want = want, .values = values, .count = count, .error = error};
  const char *first = text + strspn(text, " \t\r\n");
  while (*first == '#') {
    first += strcspn(first, "\n");
    first += strspn(first, "\r\n");
  }
  char separator = separator_of(first);
  if (separator == ' ')
    read_blank_separated(&t, text);
  else
    read_separated(&t, text, separator);
  ch_text_free(&t.row.text);
  return t.status;
}
