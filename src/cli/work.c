/* Handles progress, interruption and reports of long work. */
#include "cli/work.h"

#include <string.h>

#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/output.h"

void ch_work_begin(ch_work *work, const char *what) {
  work->what = what;
  ch_progress_begin(&work->line, ch_job_leads() ? stderr : NULL);
  ch_interrupt_watch(CH_NOTHING_SAVED);
}

bool ch_work_progress(int64_t done, int64_t total, void *work) {
  ch_work *w = work;
  ch_progress_show_share(&w->line, w->what, (double)done / (double)total, ch_progress_seconds(&w->line));
  return !ch_interrupted();
}

ch_status ch_work_end(ch_work *work, ch_status status, ch_error *error) {
  ch_interrupt_release();
  ch_progress_end(&work->line);
  return status == CH_ERROR_INTERRUPTED ? ch_fail(error, status, "interrupted; nothing was written") : status;
}

ch_status ch_report_read(char *text, json_t **report, ch_error *error) {
  ch_status status = ch_json_parse(text, strlen(text), "the result", report, error);
  ch_free(text);
  return status;
}

ch_status ch_report_print(char *json, bool as_json, ch_report_page *page, const void *context,
                          ch_error *error) {
  json_t *report;
  CH_TRY(ch_report_read(json, &report, error));
  if (as_json) return ch_print_json(report, JSON_INDENT(2), error);
  ch_text text = {0};
  page(context, report, &text);
  json_decref(report);
  return ch_print_text(&text, error);
}

long long ch_report_count(const json_t *report, const char *name) {
  return json_integer_value(json_object_get(report, name));
}
