/* Finds the documents of a mapped file, and splits them in two parts. Also finds the token between documents and the
   window of an evaluation. */
#include "eval/document_set.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DOCUMENTS = 1 << 28, DEFAULT_WINDOW = 1024 };

static ch_status add_document(ch_document_set *set, int64_t *capacity, ch_document document,
                              ch_error *error) {
  if (set->count == *capacity) {
    *capacity = *capacity ? 2 * *capacity : 64;
    ch_document *more =
        *capacity < MOST_DOCUMENTS ? realloc(set->documents, (size_t)*capacity * sizeof *more) : NULL;
    if (!more) return ch_no_memory(error);
    set->documents = more;
  }
  set->documents[set->count++] = document;
  return CH_OK;
}

static ch_status find_documents(ch_document_set *set, ch_document_separator separator, ch_error *error) {
  const ch_text_file *file = &set->file;
  separator = file->documents ? CH_DOCUMENTS_MARKER : ch_separator_resolve(separator, file->text, file->size);
  size_t place = 0;
  int64_t capacity = 0;
  ch_document document;
  while (ch_next_document(separator, file->text, file->size, &place, &document.text, &document.size))
    CH_TRY(add_document(set, &capacity, document, error));
  if (set->count == 0)
    return ch_fail(error, CH_ERROR_FORMAT, "%s has no document; it must hold text", file->path);
  return CH_OK;
}

ch_status ch_document_set_open(const char *path, ch_document_separator separator, ch_document_set *set,
                               ch_error *error) {
  *set = (ch_document_set){0};
  CH_TRY(ch_text_file_open(&set->file, path, error));
  ch_status status = find_documents(set, separator, error);
  if (status != CH_OK) ch_document_set_close(set);
  return status;
}

void ch_document_set_close(ch_document_set *set) {
  if (set->file.text) ch_text_file_close(&set->file);
  free(set->documents);
  *set = (ch_document_set){0};
}

/* Returns a position at or after `from` between two words; the size if there is none. */
static size_t cut_after(const ch_document *document, size_t from) {
  for (size_t i = from; i + 2 < document->size; i++) {
    size_t offset = ch_cut_offset((const unsigned char *)document->text + i);
    if (offset) return i + offset;
  }
  return document->size;
}

ch_status ch_document_set_split(ch_document_set *set, double share, ch_document_set *rest, ch_error *error) {
  *rest = (ch_document_set){0};
  double total = 0, before = 0;
  for (int64_t i = 0; i < set->count; i++) total += (double)set->documents[i].size;
  int64_t first = 0; /* document in which the last part begins */
  while (first < set->count && before + (double)set->documents[first].size <= (1 - share) * total)
    before += (double)set->documents[first++].size;
  bool whole = set->count > 1; /* documents stay whole */
  if (whole && first == 0) first = 1;
  if (whole && first == set->count) first = set->count - 1;
  rest->documents = malloc((size_t)(set->count - first + 1) * sizeof *rest->documents);
  if (!rest->documents) return ch_no_memory(error);
  rest->count = set->count - first;
  memcpy(rest->documents, set->documents + first, (size_t)rest->count * sizeof *rest->documents);
  if (whole) {
    set->count = first;
    return CH_OK;
  }
  size_t cut = cut_after(&set->documents[0], (size_t)((1 - share) * (double)set->documents[0].size));
  rest->documents[0].text += cut;
  rest->documents[0].size -= cut;
  set->documents[0].size = cut;
  if (rest->documents[0].size > 0 && cut > 0) return CH_OK;
  ch_document_set_close(rest);
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "%s is too short to hold out a part of it; give a longer text, or a separate {text} to measure on",
      set->file.path);
}

int32_t ch_token_between(const ch_tokenizer *tokenizer, const ch_config *config) {
  int32_t eos = ch_tokenizer_eos(tokenizer);
  int64_t id = eos >= 0 ? eos : config->eos_token_id;
  return id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
}

int64_t ch_longest_window(const ch_config *config) {
  return config->max_position_embeddings;
}

int64_t ch_window_of(const ch_config *config) {
  int64_t most = ch_longest_window(config);
  return most < DEFAULT_WINDOW ? most : DEFAULT_WINDOW;
}

ch_status ch_window_check(const ch_config *config, int64_t window, ch_error *error) {
  int64_t most = ch_longest_window(config);
  bool ends = config->position == CH_POSITION_ROPE || config->position == CH_POSITION_LEARNED;
  if (window < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{window} is %lld; it must be at least 0", (long long)window);
  if (window <= most || !ends) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "{window} %lld is more than the %lld tokens this model can see",
                 (long long)window, (long long)most);
}
