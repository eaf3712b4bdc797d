/* Adapters between the public functions of libcrosshead-train and the functions that they call. */
#ifndef CH_API_ADAPTERS_H
#define CH_API_ADAPTERS_H

#include <crosshead/common.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "tensor/tensor.h"

/* Sets *json to the text of a JSON object for the caller, and releases `object`. Fails with CH_ERROR_MEMORY if
 * `object` is NULL. json may be NULL. */
ch_status ch_api_json(json_t *object, char **json, ch_error *error);
/* Passes the data of a text to the caller, who releases it. If the text ran out of memory, releases it and fails. */
ch_status ch_api_text(ch_text *text, char **answer, ch_error *error);
/* Passes a page to the caller as ch_api_text does if `status` is CH_OK; otherwise releases the page and returns
   `status`. */
ch_status ch_api_page(ch_text *page, ch_status status, char **html, ch_error *error);
/* Writes a page as DIRECTORY/report.html if `status` is CH_OK, and releases it. Returns `status`, or the error of
   writing. */
ch_status ch_api_report(const char *directory, ch_text *html, ch_status status, ch_error *error);
/* Returns the element type of a precision: `fallback` for CH_PRECISION_DEFAULT, -1 for CH_PRECISION_F64 and invalid
   values. */
int ch_api_dtype(ch_precision precision, ch_dtype fallback);

/* Returns the name of a type in lower case: "q8_0". */
const char *ch_api_type_name(ch_dtype dtype);

/* Connects the caller's progress callback to the library's internal hooks. Shares become thousandths. */
typedef struct ch_api_progress {
  ch_progress progress; /* callback, or NULL */
  void *user;
  bool cancelled; /* true once the callback has returned false */
} ch_api_progress;

/* Calls the callback. Returns false once it has cancelled. */
bool ch_api_tell(ch_api_progress *progress, int64_t done, int64_t total);
/* Reports a share from 0 to 1; a hook whose context is a ch_api_progress. */
void ch_api_share(void *progress, double share);
/* Returns true once the callback has cancelled; a hook whose context is a ch_api_progress. */
bool ch_api_cancelled(void *progress);
/* Reports progress, and fails with CH_ERROR_INTERRUPTED once the callback has cancelled; a ch_model_writing.step. */
ch_status ch_api_step(void *progress, const char *what, double done, double total, ch_error *error);

#endif
