/* Lists that grow, and their end. */
#include "serve/writing.h"

#include <stdlib.h>
#include <string.h>

bool ch_written_add(ch_written *written, const ch_record *record, const ch_token_probability *top,
                    int64_t most) {
  size_t width = most > 0 ? (size_t)most : 0;
  if (written->count == written->capacity) {
    size_t capacity = written->capacity ? 2 * written->capacity : 8;
    ch_record *records = realloc(written->records, capacity * sizeof *records);
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

void ch_written_free(ch_written *written) {
  free(written->records);
  free(written->top);
  ch_text_free(&written->text);
  *written = (ch_written){0};
}

void ch_writing_free(ch_writing *writing) {
  if (!writing) return;
  for (int p = 0; p < writing->prompt_count; p++) {
    ch_prompt *prompt = &writing->prompts[p];
    for (int64_t k = 0; prompt->choices && k < writing->asked.n; k++)
      ch_written_free(&prompt->choices[k].written);
    ch_written_free(&prompt->echo);
    ch_ids_free(&prompt->ids);
    free(prompt->text);
    free(prompt->choices);
  }
  free(writing->prompts);
  ch_asked_free(&writing->asked);
  free(writing);
}
