/* Long work of the library behind a command: its progress line, interruption by signals, and its report. */
#ifndef CH_CLI_WORK_H
#define CH_CLI_WORK_H

#include <crosshead/common.h>
#include <jansson.h>

#include "base/progress.h"
#include "base/text.h"

typedef struct ch_work {
  ch_progress_line line;
  const char *what; /* name of the work: "quantising" */
} ch_work;

/* Starts the progress line on standard error and the watch for signals. */
void ch_work_begin(ch_work *work, const char *what);
/* Shows the share done; a ch_progress whose `user` is the ch_work. Returns false after a signal. */
bool ch_work_progress(int64_t done, int64_t total, void *work);
/* Ends the progress line and the watch. Returns `status`; the message of CH_ERROR_INTERRUPTED becomes "interrupted;
   nothing was written". */
ch_status ch_work_end(ch_work *work, ch_status status, ch_error *error);

/* Appends a report as text; `context` is the one passed to ch_report_print. */
typedef void ch_report_page(const void *context, const json_t *report, ch_text *text);
/* Prints a JSON report of the library as JSON, or as the text that `page` appends, and releases `json`. */
ch_status ch_report_print(char *json, bool as_json, ch_report_page *page, const void *context,
                          ch_error *error);

/* Parses a JSON report of the library, and releases `text`. */
ch_status ch_report_read(char *text, json_t **report, ch_error *error);
/* Returns the report's integer `name`, or 0. */
long long ch_report_count(const json_t *report, const char *name);

#endif
