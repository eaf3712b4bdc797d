/* Prints the results of experiments. */
#include "cli/results.h"

#include <crosshead/common.h>

#include "cli/output.h"
#include "cli/work.h"

enum { DIGITS = 9 };

ch_status ch_results_print_json(char *json, ch_error *error) {
  json_t *results;
  CH_TRY(ch_report_read(json, &results, error));
  return ch_print_json(results, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS), error);
}

ch_status ch_results_print_table(char *table, const char *out, ch_error *error) {
  ch_text text = {0};
  ch_text_puts(&text, table);
  ch_free(table);
  if (out) ch_text_printf(&text, "\nMore in %s/report.html (charts) and %s/results.json.\n", out, out);
  return ch_print_text(&text, error);
}
