/* Rows of a profile, those that took longest first. */
#include "bench/speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static double seconds_of(const ch_profile_row *row) {
  return row->forward + row->backward;
}

static int by_time(const void *pa, const void *pb) {
  double a = seconds_of(*(const ch_profile_row *const *)pa),
         b = seconds_of(*(const ch_profile_row *const *)pb);
  return (a < b) - (a > b);
}

/* The rows in order; returns their sum in seconds. */
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

static ch_status give(ch_text *text, char **out, ch_error *error) {
  if (text->failed) {
    ch_text_free(text);
    return ch_no_memory(error);
  }
  *out = text->data;
  return CH_OK;
}

ch_status ch_profile_table(const ch_profile *profile, const char *title, double steps,
                           const ch_speed_limits *limits, char **text, ch_error *error) {
  if (!profile || !title || !limits || !text)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the profile, its title, the limits or the text is NULL");
  ch_text table = {0};
  const ch_profile_row *rows[sizeof profile->row / sizeof *profile->row];
  double sum = sorted(profile, rows), outside = profile->seconds - sum;
  ch_text_printf(&table, "%s\n%-22s %7s %10s %11s %6s %8s %8s %9s\n", title, "operation", "calls",
                 "forward ms", "backward ms", "share", "GFLOP/s", "GB/s", "of limit");
  for (int i = 0; i < profile->rows; i++) {
    const ch_profile_row *row = rows[i];
    double seconds = seconds_of(row);
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", row->name, row->matrix[0] ? " " : "", row->matrix);
    ch_text_printf(&table, "%-22s %7.0f %10.3f %11.3f %5.1f%% %8.1f %8.1f %8.1f%%\n", name,
                   (double)row->calls / steps, 1e3 * row->forward / steps, 1e3 * row->backward / steps,
                   100 * seconds / profile->seconds, seconds > 0 ? 1e-9 * row->flops / seconds : 0,
                   seconds > 0 ? 1e-9 * row->bytes / seconds : 0, 100 * share_of_limit(row, limits));
  }
  ch_text_printf(&table, "%-22s %7s %10.3f %11s %5.1f%%\n", "(between them)", "", 1e3 * outside / steps, "",
                 100 * outside / profile->seconds);
  return give(&table, text, error);
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
