/* Appends to token lists, and releases jobs. */
#include "serve/text_job.h"

#include <stdlib.h>
#include <string.h>

bool ch_token_list_add(ch_token_list *written, const ch_token_record *record, const ch_token_probability *top,
                       int64_t most) {
  size_t width = most > 0 ? (size_t)most : 0;
  if (written->count == written->capacity) {
    size_t capacity = written->capacity ? 2 * written->capacity : 8;
    ch_token_record *records = realloc(written->records, capacity * sizeof *records);
    if (records) written->records = records;
    ch_token_probability *tops =
        width && records ? realloc(written->top, capacity * width * sizeof *tops) : NULL;
    if (tops) written->top = tops;
    if (!records || (width && !tops)) return false;
    written->capacity = capacity;
  }
  if (width && top) memcpy(written->top + written->count * width, top, width * sizeof *top);
  written->records[written->count++] = *record;
  return true;
}

void ch_token_list_free(ch_token_list *written) {
  free(written->records);
  free(written->top);
  ch_text_free(&written->text);
  *written = (ch_token_list){0};
}

void ch_text_job_free(ch_text_job *job) {
  if (!job) return;
  for (int p = 0; p < job->prompt_count; p++) {
    ch_prompt *prompt = &job->prompts[p];
    for (int64_t k = 0; prompt->choices && k < job->fields.n; k++)
      ch_token_list_free(&prompt->choices[k].written);
    ch_token_list_free(&prompt->echo);
    ch_ids_free(&prompt->ids);
    free(prompt->text);
    free(prompt->choices);
  }
  free(job->prompts);
  ch_request_fields_free(&job->fields);
  free(job);
}
