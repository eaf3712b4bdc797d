/* Reads items from rows of CSV or TSV, and from lines or pages of plain text. */
#include <string.h>

#include "base/text.h"
#include "eval/tasks/items_private.h"

enum { MOST_COLUMNS = 256 };

typedef struct table_row {
  json_t *cells;    /* list of strings */
  int64_t line;     /* line at which the row begins */
  const char *next; /* text after the row */
  int64_t lines;    /* number of lines of the row */
} table_row;

typedef struct table {
  ch_item_reader *reader;
  const char *end;
  char separator;
} table;

static bool ends_row(const table *t, const char *p) {
  return p == t->end || *p == '\n' || (*p == '\r' && (p + 1 == t->end || p[1] == '\n'));
}

/* Returns true if the quote at p ends its cell in a file whose quotes inside of cells are not doubled: a quoted cell, a
 * last cell without quotes and spaces, or the row's end follows. */
static bool closes_loosely(const table *t, const char *p) {
  if (ends_row(t, p + 1)) return true;
  if (p[1] != t->separator || p + 2 >= t->end) return false;
  if (p[2] == '"') return true;
  for (p += 2; !ends_row(t, p); p++)
    if (*p == t->separator || *p == '"' || *p == ' ') return false;
  return true;
}

/* Reads a cell that begins at p, as Python's csv module does, or loosely. Returns where it ends. */
static const char *read_cell(const table *t, const char *p, bool loose, ch_text *cell) {
  bool quoted = p < t->end && *p == '"';
  if (quoted) p++;
  while (p < t->end) {
    if (quoted && *p == '"') {
      bool doubled = p + 1 < t->end && p[1] == '"';
      if (loose ? closes_loosely(t, p) : !doubled) {
        quoted = false; /* the text up to the separator belongs to the cell */
        p++;
        continue;
      }
      if (doubled) p++;
    } else if (!quoted && (*p == t->separator || ends_row(t, p))) {
      break;
    }
    ch_text_put(cell, p++, 1);
  }
  return p;
}

static ch_status read_row(const table *t, const char *p, bool loose, table_row *row, ch_error *error) {
  ch_text cell = {0};
  const char *from = p;
  row->cells = json_array();
  ch_status status = row->cells ? CH_OK : ch_no_memory(error);
  while (status == CH_OK) {
    cell.size = 0;
    p = read_cell(t, p, loose, &cell);
    if (json_array_size(row->cells) == MOST_COLUMNS)
      status = ch_fail(error, CH_ERROR_FORMAT, "%s:%lld has more than %d columns", t->reader->path,
                       (long long)row->line, MOST_COLUMNS);
    else if (cell.failed ||
             json_array_append_new(row->cells, json_stringn(cell.data ? cell.data : "", cell.size)) != 0)
      status = ch_no_memory(error);
    if (p >= t->end || *p != t->separator) break;
    p++;
  }
  ch_text_free(&cell);
  if (status != CH_OK) {
    json_decref(row->cells);
    row->cells = NULL;
    return status;
  }
  while (p < t->end && *p != '\n') p++;
  row->next = p < t->end ? p + 1 : p;
  row->lines = 0;
  for (const char *c = from; c < row->next; c++) row->lines += *c == '\n';
  return CH_OK;
}

/* Adds the row's cells under the names. If their numbers differ, the row is read again loosely. */
static ch_status add_row(const table *t, const json_t *names, const char *at, table_row *row,
                         ch_error *error) {
  size_t count = json_array_size(names), found = json_array_size(row->cells);
  if (found != count) {
    json_decref(row->cells);
    CH_TRY(read_row(t, at, true, row, error));
  }
  if (json_array_size(row->cells) != count)
    return ch_fail(error, CH_ERROR_FORMAT, "%s:%lld has %zu columns, but there are %zu names",
                   t->reader->path, (long long)row->line, found, count);
  json_t *fields = json_object();
  for (size_t i = 0; fields && i < count; i++)
    if (json_object_set(fields, json_string_value(json_array_get(names, i)), json_array_get(row->cells, i)) !=
        0) {
      json_decref(fields);
      fields = NULL;
    }
  return ch_items_add(t->reader, fields, row->line, error);
}

static bool is_blank(const json_t *cells) {
  return json_array_size(cells) == 1 && json_string_length(json_array_get(cells, 0)) == 0;
}

/* Returns true if the first row holds names, not an item. A row with as many cells as `columns` holds names only if it
 * contains all of `columns`. */
static bool are_names(const json_t *cells, const json_t *columns) {
  if (!columns || json_array_size(cells) != json_array_size(columns)) return true;
  for (size_t i = 0; i < json_array_size(columns); i++) {
    bool found = false;
    for (size_t c = 0; c < json_array_size(cells); c++)
      found |= json_equal(json_array_get(cells, c), json_array_get(columns, i));
    if (!found) return false;
  }
  return true;
}

static ch_status check_names(const ch_item_reader *r, const json_t *names, ch_error *error) {
  for (size_t i = 0; i < json_array_size(names); i++)
    for (size_t j = 0; j < i; j++)
      if (json_equal(json_array_get(names, i), json_array_get(names, j)))
        return ch_fail(error, CH_ERROR_FORMAT,
                       "%s:1: two columns have the same name; the first row must hold different names",
                       r->path);
  if (json_array_size(names) > 1) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s has an unknown format; use JSON lines, a JSON list, or CSV or TSV with a header row",
                 r->path);
}

static ch_status read_rows(const table *t, ch_error *error) {
  ch_item_reader *r = t->reader;
  const char *at = r->text;
  json_t *names = NULL;
  ch_status status = CH_OK;
  table_row row = {.line = 1};
  while (status == CH_OK && at < t->end && !ch_items_full(r)) {
    CH_TRY_GOTO(read_row(t, at, false, &row, error));
    if (!names) {
      bool named = are_names(row.cells, r->forms->columns);
      names = named ? json_incref(row.cells) : json_incref((json_t *)(uintptr_t)r->forms->columns);
      status = check_names(r, names, error);
      if (!named && status == CH_OK) status = add_row(t, names, at, &row, error);
    } else if (!is_blank(row.cells)) {
      status = add_row(t, names, at, &row, error);
    }
    json_decref(row.cells);
    row.cells = NULL;
    at = row.next;
    row.line += row.lines;
  }
done:
  json_decref(row.cells);
  json_decref(names);
  return status;
}

ch_status ch_items_read_table(ch_item_reader *r, ch_error *error) {
  const char *line_end = memchr(r->text, '\n', r->size), *end = r->text + r->size;
  bool tabs = memchr(r->text, '\t', (size_t)((line_end ? line_end : end) - r->text)) != NULL;
  int64_t before = r->items->count;
  CH_TRY(read_rows(&(table){.reader = r, .end = end, .separator = tabs ? '\t' : ','}, error));
  if (r->items->count > before) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT, "%s has no item: only a header row", r->path);
}

/* --- plain text ---------------------------------------------------------------------------------------------- */

/* Finds the next line, without its end. Returns false at the end of the text. */
static bool next_line(const ch_item_reader *r, size_t *at, const char **line, size_t *length) {
  if (*at >= r->size) return false;
  *line = r->text + *at;
  const char *newline = memchr(*line, '\n', r->size - *at);
  *length = newline ? (size_t)(newline - *line) : r->size - *at;
  *at += *length + 1;
  if (*length && (*line)[*length - 1] == '\r') --*length;
  return true;
}

static bool put_field(json_t *fields, const char *name, const json_t *names, const char *line,
                      size_t length) {
  json_t *value = json_stringn(line, length), *list = json_object_get(fields, name);
  int times = 0;
  for (size_t i = 0; i < json_array_size(names); i++)
    times += strcmp(json_string_value(json_array_get(names, i)), name) == 0;
  if (times == 1) return json_object_set_new(fields, name, value) == 0;
  if (!list && json_object_set_new(fields, name, list = json_array()) != 0) list = NULL;
  return json_array_append_new(list, value) == 0;
}

ch_status ch_items_read_lines(ch_item_reader *r, ch_error *error) {
  const json_t *names = r->forms->lines;
  size_t at = 0, count = json_array_size(names), length;
  const char *text;
  for (int64_t line = 1; !ch_items_full(r) && at < r->size; line += (int64_t)count) {
    json_t *fields = json_object();
    for (size_t i = 0; i < count; i++) {
      if (!next_line(r, &at, &text, &length)) {
        json_decref(fields);
        return ch_fail(error, CH_ERROR_FORMAT, "%s:%lld: the last item has %zu lines; an item has %zu",
                       r->path, (long long)line, i, count);
      }
      if (!put_field(fields, json_string_value(json_array_get(names, i)), names, text, length)) {
        json_decref(fields);
        fields = NULL;
        break;
      }
    }
    CH_TRY(ch_items_add(r, fields, line, error));
  }
  return CH_OK;
}

/* Returns true if a line is the title of a page, " = Title = ", not of a section, " = = Title = = ". */
static bool is_title(const char *line, size_t length) {
  while (length && strchr(" \t\r", *line)) line++, length--;
  while (length && strchr(" \t\r", line[length - 1])) length--;
  if (length < 5 || memcmp(line, "= ", 2) != 0 || memcmp(line + length - 2, " =", 2) != 0) return false;
  return line[2] != '=' && line[length - 3] != '=';
}

static ch_status add_page(ch_item_reader *r, const char *from, const char *to, int64_t line,
                          ch_error *error) {
  const char *p = from;
  while (p < to && strchr(" \t\r\n", *p)) p++;
  if (p == to) return CH_OK;
  json_t *fields = json_object(), *page = json_stringn(from, (size_t)(to - from));
  if (!page || json_object_set_new(fields, json_string_value(r->forms->pages), page) != 0) {
    json_decref(fields);
    fields = NULL;
  }
  return ch_items_add(r, fields, line, error);
}

/* Reads pages. A page begins at its title, or at the beginning of the text, and ends before the newline in front of the
 * next title. */
ch_status ch_items_read_pages(ch_item_reader *r, ch_error *error) {
  size_t at = 0, length;
  const char *line, *from = r->text;
  int64_t first = 1;
  for (int64_t number = 1; next_line(r, &at, &line, &length); number++) {
    if (!is_title(line, length)) continue;
    CH_TRY(add_page(r, from, line > from ? line - 1 : line, first, error));
    if (ch_items_full(r)) return CH_OK;
    from = line;
    first = number;
  }
  return add_page(r, from, r->text + r->size, first, error);
}
