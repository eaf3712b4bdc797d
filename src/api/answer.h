/* Shared by the public functions of libcrosshead-train: adapters between their settings and the functions behind them. */
#ifndef CH_API_ANSWER_H
#define CH_API_ANSWER_H

#include <crosshead/common.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "tensor/tensor.h"

/* "WHAT is NULL". */
ch_status ch_answer_missing(ch_error *error, const char *what);
/* Hands the caller a JSON object as text. Releases `object`, which may be NULL where memory was out; json may be NULL. */
ch_status ch_answer_json(json_t *object, char **json, ch_error *error);
/* Hands the caller a text; releases it on failure. */
ch_status ch_answer_text(ch_text *text, char **answer, ch_error *error);
/* Writes a page as DIRECTORY/report.html where `status`, of its making, is CH_OK, and releases it. Returns `status`, or
   what went wrong here. */
ch_status ch_answer_report(const char *directory, ch_text *html, ch_status status, ch_error *error);
/* Sentences from training name what the command line calls its options: makes them name members of the settings instead,
   "--eval-every" eval_every. Returns status. */
ch_status ch_answer_name_settings(ch_status status, ch_error *error);
/* The element type of a precision; `fallback` for CH_PRECISION_DEFAULT, and -1 for what is no ch_precision. */
int ch_answer_dtype(ch_precision precision, ch_dtype fallback);

/* Its name as the command line spells it: "q8_0". */
const char *ch_answer_type_name(ch_dtype dtype);

/* Connects a caller's progress callback to the library's internal hooks: shares from 0 to 1 become
   thousandths. */
typedef struct ch_answer_progress {
  ch_progress progress; /* or NULL */
  void *user;
  bool cancelled; /* it has returned false */
} ch_answer_progress;

/* Calls it: false once it has cancelled. */
bool ch_answer_tell(ch_answer_progress *progress, int64_t done, int64_t total);
/* Hooks, whose context is a ch_answer_progress. */
void ch_answer_share(void *progress, double share);
bool ch_answer_cancelled(void *progress);
/* The hook of ch_model_writing. */
ch_status ch_answer_step(void *progress, const char *what, double done, double total, ch_error *error);

#endif
