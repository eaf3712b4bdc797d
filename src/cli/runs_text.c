/* Columns as wide as their longest cell, and the members of JSON texts by their path. */
#include "cli/runs_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 96, LIST_COLUMNS = 10, MOST_COMPARED_WIDTH = 32 };

typedef char cell[CELL];

static int columns_of(const char *text) {
  int n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
  return n;
}

/* Text as a cell: control characters become '?', what is too long ends in "...". */
static void put_cell(cell to, const char *text) {
  size_t length = strlen(text), kept = length < CELL ? length : CELL - 4;
  while (kept < length && kept > 0 && ((unsigned char)text[kept] & 0xC0) == 0x80) kept--;
  memcpy(to, text, kept);
  strcpy(to + kept, kept < length ? "..." : "");
  for (char *c = to; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
}

/* rows x columns of cells, those of `right` columns set to the right. */
static void put_table(const cell *cells, int64_t rows, int columns, const bool *right, ch_text *text) {
  for (int64_t r = 0; r < rows; r++) {
    for (int c = 0; c < columns; c++) {
      int width = 0, own = columns_of(cells[r * columns + c]);
      for (int64_t k = 0; k < rows; k++) {
        int wide = columns_of(cells[k * columns + c]);
        if (wide > width) width = wide;
      }
      bool last = c + 1 == columns;
      ch_text_printf(text, "%s%*s%s%*s", c ? "  " : "", right[c] ? width - own : 0, "",
                     cells[r * columns + c], right[c] || last ? 0 : width - own, "");
    }
    ch_text_puts(text, "\n");
  }
}

/* --- the list ---------------------------------------------------------------------------------------------------- */

static void put_number(cell to, const char *format, double number) {
  if (isfinite(number))
    snprintf(to, CELL, format, number);
  else
    strcpy(to, "-");
}

static void put_count(cell to, int64_t count) {
  if (count >= 0)
    ch_format_count((double)count, to, CELL);
  else
    strcpy(to, "-");
}

static void list_row(const ch_kept_run *run, cell *row) {
  snprintf(row[0], CELL, "%lld", (long long)run->id);
  snprintf(row[1], CELL, "%.10s %.5s", run->finished, strlen(run->finished) > 11 ? run->finished + 11 : "");
  put_cell(row[2], run->kind);
  put_cell(row[3], run->name);
  snprintf(row[4], CELL, "%lld", (long long)run->seed);
  if (run->seed < 0) strcpy(row[4], "-");
  put_number(row[5], "%.3g", run->lr);
  put_count(row[6], run->parameters);
  put_count(row[7], run->tokens);
  put_number(row[8], "%.4f", isfinite(run->validation_loss) ? run->validation_loss : run->loss);
  put_cell(row[9], run->status);
}

void ch_runs_table(const ch_kept_run *runs, int64_t count, ch_text *text) {
  static const char *const headings[LIST_COLUMNS] = {"id", "finished",   "command", "name", "seed",
                                                     "lr", "parameters", "tokens",  "loss", "status"};
  static const bool right[LIST_COLUMNS] = {true, false, false, false, true, true, true, true, true, false};
  cell *cells = calloc((size_t)(count + 1) * LIST_COLUMNS, sizeof *cells);
  if (!cells) {
    text->failed = true;
    return;
  }
  for (int c = 0; c < LIST_COLUMNS; c++) put_cell(cells[c], headings[c]);
  for (int64_t i = 0; i < count; i++) list_row(&runs[i], cells + (i + 1) * LIST_COLUMNS);
  put_table((const cell *)cells, count + 1, LIST_COLUMNS, right, text);
  free(cells);
}

/* --- one run ----------------------------------------------------------------------------------------------------- */

static void put_value(const json_t *value, cell to) {
  if (json_is_string(value)) {
    put_cell(to, json_string_value(value));
    return;
  }
  if (json_is_real(value)) {
    snprintf(to, CELL, "%.6g", json_real_value(value));
    return;
  }
  char *dump = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
  put_cell(to, dump && !json_is_null(value) ? dump : "-");
  free(dump);
}

/* Every member that is no object, with its path: "config.attention.type". */
static void flatten(const json_t *object, const char *before, json_t *into) {
  const char *key;
  json_t *value;
  char path[160];
  json_object_foreach((json_t *)object, key, value) {
    snprintf(path, sizeof path, "%s%s%s", before, *before ? "." : "", key);
    if (json_is_object(value))
      flatten(value, path, into);
    else
      json_object_set(into, path, value);
  }
}

static json_t *flat_of(const ch_kept_run *run) {
  json_t *object = ch_kept_run_to_json(run, false), *flat = object ? json_object() : NULL;
  if (flat) flatten(object, "", flat);
  json_decref(object);
  return flat;
}

void ch_runs_page(const ch_kept_run *run, ch_text *text) {
  json_t *flat = flat_of(run), *value;
  const char *key;
  int width = 0;
  cell shown;
  if (!flat) {
    text->failed = true;
    return;
  }
  json_object_foreach(flat, key, value) if (columns_of(key) > width) width = columns_of(key);
  json_object_foreach(flat, key, value) {
    bool whole = json_is_string(value); /* a command may be longer than a cell */
    put_value(value, shown);
    ch_text_printf(text, "%-*s  %s\n", width, key, whole ? json_string_value(value) : shown);
  }
  ch_text_printf(text, "%-*s  %lld training, %lld validation points (--json has them)\n", width, "curves",
                 (long long)run->curve_points, (long long)run->validation_points);
  json_decref(flat);
}

/* --- differences ------------------------------------------------------------------------------------------------- */

json_t *ch_runs_differences_json(const ch_kept_run *runs, int64_t count) {
  json_t *flats = json_array(), *ids = json_array(), *differences = json_object(), *keys = json_object();
  const char *key;
  json_t *value;
  for (int64_t i = 0; i < count; i++) {
    json_t *flat = flat_of(&runs[i]);
    json_object_update_missing(keys, flat);
    json_array_append_new(flats, flat);
    json_array_append_new(ids, json_integer(runs[i].id));
  }
  json_object_del(keys, "id");
  json_object_foreach(keys, key, value) {
    bool same = true;
    json_t *values = json_array();
    for (int64_t i = 0; i < count; i++) {
      json_t *own = json_object_get(json_array_get(flats, (size_t)i), key);
      same = same && own && json_equal(own, json_object_get(json_array_get(flats, 0), key));
      json_array_append_new(values, own ? json_incref(own) : json_null());
    }
    if (!same) json_object_set(differences, key, values);
    json_decref(values);
  }
  json_decref(flats);
  json_decref(keys);
  return json_pack("{so, so}", "runs", ids, "differences", differences);
}

void ch_runs_differences(const ch_kept_run *runs, int64_t count, ch_text *text) {
  json_t *all = ch_runs_differences_json(runs, count), *values;
  json_t *differences = json_object_get(all, "differences");
  int64_t rows = (int64_t)json_object_size(differences) + 1, at = 1;
  int columns = (int)count + 1;
  cell *cells = calloc((size_t)(rows * columns), sizeof *cells);
  bool *right = calloc((size_t)columns, sizeof *right);
  const char *key;
  text->failed = text->failed || !all || !cells || !right;
  if (!text->failed) {
    put_cell(cells[0], "run");
    for (int64_t i = 0; i < count; i++) snprintf(cells[i + 1], CELL, "%lld", (long long)runs[i].id);
    json_object_foreach(differences, key, values) {
      put_cell(cells[at * columns], key);
      for (int64_t i = 0; i < count; i++) {
        cell *to = &cells[at * columns + i + 1];
        put_value(json_array_get(values, (size_t)i), *to);
        if (columns_of(*to) > MOST_COMPARED_WIDTH) strcpy(*to + MOST_COMPARED_WIDTH - 3, "...");
      }
      at++;
    }
    put_table((const cell *)cells, rows, columns, right, text);
    if (rows == 1) ch_text_puts(text, "The runs do not differ.\n");
  }
  free(cells);
  free(right);
  json_decref(all);
}
