/* Prints everything recorded about a run, and the differences between runs. */
#include "cli/runs_text.h"

#include "cli/runs_cells.h"

#include <string.h>
#include "base/table.h"
#include "base/utf8.h"

enum { MOST_COMPARED_WIDTH = 32 };

/* --- one run ------------------------------------------------------------------------------------------------ */

void ch_runs_page(const ch_run_record *run, ch_text *text) {
  json_t *flat = ch_flat_run(run), *value;
  const char *key;
  int width = 0;
  ch_cell shown;
  if (!flat) {
    text->failed = true;
    return;
  }
  json_object_foreach(flat, key, value) if (ch_utf8_count(key) > width) width = ch_utf8_count(key);
  json_object_foreach(flat, key, value) {
    bool whole = json_is_string(value); /* texts such as the command may be longer than a cell */
    ch_put_json_cell(value, shown);
    ch_text_printf(text, "%-*s  %s\n", width, key, whole ? json_string_value(value) : shown);
  }
  ch_text_printf(text, "%-*s  %lld training, %lld validation points (--json has them)\n", width, "curves",
                 (long long)run->curve_points, (long long)run->validation_points);
  json_decref(flat);
}

/* --- differences -------------------------------------------------------------------------------------------- */

json_t *ch_runs_differences_json(const ch_run_list *found) {
  int64_t count = ch_run_list_count(found);
  json_t *flats = json_array(), *ids = json_array(), *differences = json_object(), *keys = json_object();
  const char *key;
  json_t *value;
  for (int64_t i = 0; i < count; i++) {
    const ch_run_record *run = ch_run_list_at(found, i);
    json_t *flat = ch_flat_run(run);
    json_object_update_missing(keys, flat);
    json_array_append_new(flats, flat);
    json_array_append_new(ids, json_integer(run->id));
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

void ch_runs_differences(const ch_run_list *found, ch_text *text) {
  int64_t count = ch_run_list_count(found);
  json_t *all = ch_runs_differences_json(found), *values;
  json_t *differences = json_object_get(all, "differences");
  ch_table table = {.columns = "l", .gap = 2};
  const char *key;
  ch_cell cell;
  ch_table_cell(&table, "run");
  for (int64_t i = 0; i < count; i++) ch_table_cell(&table, "%lld", (long long)ch_run_list_at(found, i)->id);
  ch_table_end_row(&table);
  json_object_foreach(differences, key, values) {
    ch_put_cell(cell, key);
    ch_table_cell(&table, "%s", cell);
    for (int64_t i = 0; i < count; i++) {
      ch_put_json_cell(json_array_get(values, (size_t)i), cell);
      ch_shorten_cell(cell, MOST_COMPARED_WIDTH);
      ch_table_cell(&table, "%s", cell);
    }
    ch_table_end_row(&table);
  }
  ch_table_write(&table, text);
  if (json_object_size(differences) == 0) ch_text_puts(text, "The runs do not differ.\n");
  text->failed |= !all;
  json_decref(all);
}
