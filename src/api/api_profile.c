/* The public functions that show a profile as a table and as JSON, with the slowest operations first. */
#include "bench/speed_limits.h"

#include <stdlib.h>

#include "api/adapters.h"
#include "base/json.h"
#include "base/table.h"

static double seconds_of(const ch_profile_row *row) {
  return row->forward + row->backward;
}

static int by_time(const void *pa, const void *pb) {
  double a = seconds_of(*(const ch_profile_row *const *)pa),
         b = seconds_of(*(const ch_profile_row *const *)pb);
  return (a < b) - (a > b);
}

/* Sets rows [profile->rows] to the profile's rows, the slowest first. Returns the sum of their times in seconds. */
static double sorted(const ch_profile *profile, const ch_profile_row **rows) {
  double sum = 0;
  for (int i = 0; i < profile->rows; i++) {
    rows[i] = &profile->row[i];
    sum += seconds_of(rows[i]);
  }
  qsort(rows, (size_t)profile->rows, sizeof *rows, by_time);
  return sum;
}

static double share_of_limit(const ch_profile_row *row, const ch_speed_limits *limits) {
  double seconds = seconds_of(row);
  return seconds > 0 ? ch_speed_least_seconds(limits, row->dtype, row->flops, row->bytes) / seconds : 0;
}

ch_status ch_profile_table(const ch_profile *profile, const char *title, double steps,
                           const ch_speed_limits *limits, char **text, ch_error *error) {
  if (!profile || !title || !limits || !text)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the profile, its title, the limits or the text is NULL");
  static const char *const headings[] = {"operation", "calls",   "forward ms", "backward ms",
                                         "share",     "GFLOP/s", "GB/s",       "of limit"};
  ch_table table = {.columns = "l22r7r10r11r6r8r8r9", .gap = 1};
  ch_text page = {0};
  const ch_profile_row *rows[sizeof profile->row / sizeof *profile->row];
  double sum = sorted(profile, rows), outside = profile->seconds - sum;
  ch_text_printf(&page, "%s\n", title);
  ch_table_row(&table, headings, sizeof headings / sizeof *headings);
  for (int i = 0; i < profile->rows; i++) {
    const ch_profile_row *row = rows[i];
    double seconds = seconds_of(row);
    ch_table_cell(&table, "%s%s%s", row->name, row->matrix[0] ? " " : "", row->matrix);
    ch_table_cell(&table, "%.0f", (double)row->calls / steps);
    ch_table_cell(&table, "%.3f", 1e3 * row->forward / steps);
    ch_table_cell(&table, "%.3f", 1e3 * row->backward / steps);
    ch_table_cell(&table, "%.1f%%", 100 * seconds / profile->seconds);
    ch_table_cell(&table, "%.1f", seconds > 0 ? 1e-9 * row->flops / seconds : 0);
    ch_table_cell(&table, "%.1f", seconds > 0 ? 1e-9 * row->bytes / seconds : 0);
    ch_table_cell(&table, "%.1f%%", 100 * share_of_limit(row, limits));
    ch_table_end_row(&table);
  }
  ch_table_cell(&table, "(between them)");
  ch_table_cell(&table, "%s", "");
  ch_table_cell(&table, "%.3f", 1e3 * outside / steps);
  ch_table_cell(&table, "%s", "");
  ch_table_cell(&table, "%.1f%%", 100 * outside / profile->seconds);
  ch_table_end_row(&table);
  ch_table_write(&table, &page);
  return ch_api_text(&page, text, error);
}

static json_t *list_rows(const ch_profile *profile, double steps, const ch_speed_limits *limits) {
  const ch_profile_row *rows[sizeof profile->row / sizeof *profile->row];
  json_t *list = json_array();
  sorted(profile, rows);
  for (int i = 0; i < profile->rows; i++) {
    const ch_profile_row *row = rows[i];
    json_t *object = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "operation", row->name, "calls",
                               (double)row->calls / steps, "forward_seconds", row->forward / steps,
                               "backward_seconds", row->backward / steps, "flops", row->flops / steps,
                               "bytes", row->bytes / steps, "share_of_limit", share_of_limit(row, limits));
    if (row->matrix[0]) json_object_set_new(object, "matrix", json_string(row->matrix));
    json_array_append_new(list, object);
  }
  return list;
}

ch_status ch_profile_json(const ch_profile *profile, double steps, const ch_speed_limits *limits, char **json,
                          ch_error *error) {
  if (!profile || !limits || !json)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the profile, the limits or the JSON is NULL");
  json_t *object = json_pack("{s:o}", "operations", list_rows(profile, steps, limits));
  *json = object ? ch_json_dump(object, JSON_COMPACT) : NULL;
  json_decref(object);
  return *json ? CH_OK : ch_no_memory(error);
}
