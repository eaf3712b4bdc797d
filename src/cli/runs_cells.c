/* Cells of the tables of runs, and runs as flat JSON objects. */
#include "cli/runs_cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

void ch_put_cell(ch_cell to, const char *text) {
  size_t length = strlen(text), kept = length < CH_CELL ? length : CH_CELL - 4;
  while (kept < length && kept > 0 && ((unsigned char)text[kept] & 0xC0) == 0x80) kept--;
  memcpy(to, text, kept);
  strcpy(to + kept, kept < length ? "..." : "");
  for (char *c = to; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
}

void ch_shorten_cell(ch_cell cell, int width) {
  char *end = cell;
  if (ch_utf8_count(cell) <= width) return;
  for (int begun = 0; begun <= width - 3; end++) begun += ((unsigned char)*end & 0xC0) != 0x80;
  strcpy(end - 1, "...");
}

void ch_put_json_cell(const json_t *value, ch_cell to) {
  if (json_is_string(value)) {
    ch_put_cell(to, json_string_value(value));
    return;
  }
  if (json_is_real(value)) {
    snprintf(to, CH_CELL, "%.6g", json_real_value(value));
    return;
  }
  char *dump = value ? ch_json_dump(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
  ch_put_cell(to, dump && !json_is_null(value) ? dump : "-");
  free(dump);
}

/* Adds every member that is not an object under its path: "config.attention.type". */
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

json_t *ch_run_object(const ch_run_record *run, bool curves) {
  char *text = NULL;
  json_t *object = NULL;
  if (ch_run_record_json(run, curves, &text, NULL) == CH_OK) object = json_loads(text, 0, NULL);
  ch_free(text);
  return object;
}

json_t *ch_flat_run(const ch_run_record *run) {
  json_t *object = ch_run_object(run, false), *flat = object ? json_object() : NULL;
  if (flat) flatten(object, "", flat);
  json_decref(object);
  return flat;
}
