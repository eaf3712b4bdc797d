/* Shared by the public functions of libcrosshead-train: adapters between their settings and the functions behind
 * them. */
#ifndef CH_API_ADAPTERS_H
#define CH_API_ADAPTERS_H

#include <crosshead/common.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "tensor/tensor.h"

/* Hands the caller a JSON object as text. Releases `object`, which may be NULL where memory was out; json may be
 * NULL. */
ch_status ch_api_json(json_t *object, char **json, ch_error *error);
/* Hands the caller a text; releases it on failure. */
ch_status ch_api_text(ch_text *text, char **answer, ch_error *error);
/* Hands the caller a page where `status`, of its making, is CH_OK; releases it otherwise. */
ch_status ch_api_page(ch_text *page, ch_status status, char **html, ch_error *error);
/* Writes a page as DIRECTORY/report.html where `status`, of its making, is CH_OK, and releases it. Returns `status`, or
   what went wrong here. */
ch_status ch_api_report(const char *directory, ch_text *html, ch_status status, ch_error *error);
/* Returns the element type of a precision; `fallback` for CH_PRECISION_DEFAULT, -1 if it is no
 * ch_precision. */
int ch_api_dtype(ch_precision precision, ch_dtype fallback);

/* Returns the name of a type as the command line spells it: "q8_0". */
const char *ch_api_type_name(ch_dtype dtype);

/* Connects a caller's progress callback to the library's internal hooks: shares from 0 to 1 become
   thousandths. */
typedef struct ch_api_progress {
  ch_progress progress; /* or NULL */
  void *user;
  bool cancelled; /* it has returned false */
} ch_api_progress;

/* Calls it: false once it has cancelled. */
bool ch_api_tell(ch_api_progress *progress, int64_t done, int64_t total);
/* Hooks, whose context is a ch_api_progress. */
void ch_api_share(void *progress, double share);
bool ch_api_cancelled(void *progress);
/* Reports progress; the hook of ch_model_writing. */
ch_status ch_api_step(void *progress, const char *what, double done, double total, ch_error *error);

#endif
