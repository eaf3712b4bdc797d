/* Adapters between the public functions and the functions that they call. */
#include "api/adapters.h"

#include <stdlib.h>

#include "base/file.h"

ch_status ch_api_json(json_t *object, char **json, ch_error *error) {
  char *text = object && json ? ch_json_dump(object, JSON_INDENT(2)) : NULL;
  bool failed = !object || (json && !text);
  json_decref(object);
  if (failed) return ch_no_memory(error);
  if (json) *json = text;
  return CH_OK;
}

ch_status ch_api_text(ch_text *text, char **answer, ch_error *error) {
  if (!text->failed && !text->data) ch_text_put(text, "", 0);
  if (text->failed) {
    ch_text_free(text);
    return ch_no_memory(error);
  }
  *answer = text->data;
  return CH_OK;
}

ch_status ch_api_page(ch_text *page, ch_status status, char **html, ch_error *error) {
  if (status == CH_OK) return ch_api_text(page, html, error);
  ch_text_free(page);
  return status;
}

ch_status ch_api_report(const char *directory, ch_text *html, ch_status status, ch_error *error) {
  char *path = ch_path_join(directory, "report.html");
  if (status == CH_OK && (!path || html->failed)) status = ch_no_memory(error);
  if (status == CH_OK) status = ch_write_file(path, html->data, html->size, error);
  ch_text_free(html);
  free(path);
  return status;
}

int ch_api_dtype(ch_precision precision, ch_dtype fallback) {
  static const ch_dtype dtypes[] = {CH_F32, CH_F32, CH_F16, CH_BF16, CH_Q8_0, CH_Q4_0, CH_Q6_K, CH_Q4_K};
  if (precision == CH_PRECISION_DEFAULT) return (int)fallback;
  return (unsigned)precision < sizeof dtypes / sizeof *dtypes ? (int)dtypes[precision] : -1;
}

const char *ch_api_type_name(ch_dtype dtype) {
  static const struct {
    ch_dtype dtype;
    const char *name;
  } names[] = {{CH_F32, "f32"},   {CH_F16, "f16"},   {CH_BF16, "bf16"}, {CH_Q8_0, "q8_0"},
               {CH_Q6_K, "q6_k"}, {CH_Q4_K, "q4_k"}, {CH_Q4_0, "q4_0"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].dtype == dtype) return names[i].name;
  return ch_dtype_name(dtype);
}

bool ch_api_tell(ch_api_progress *p, int64_t done, int64_t total) {
  if (p->progress && !p->cancelled) p->cancelled = !p->progress(done, total, p->user);
  return !p->cancelled;
}

void ch_api_share(void *progress, double share) {
  ch_api_tell(progress, (int64_t)(1000 * share), 1000);
}

bool ch_api_cancelled(void *progress) {
  const ch_api_progress *p = progress;
  return p->cancelled;
}

ch_status ch_api_step(void *progress, const char *what, double done, double total, ch_error *error) {
  ch_api_progress *p = progress;
  (void)what;
  ch_api_tell(p, (int64_t)done, (int64_t)total);
  return p->cancelled ? ch_fail(error, CH_ERROR_INTERRUPTED, "cancelled; nothing was written") : CH_OK;
}
