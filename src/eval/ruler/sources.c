/* Reads the sources of items: word lists and a text. */
#include <stdlib.h>
#include <string.h>

#include "base/embedded_text.h"
#include "base/file_bytes.h"
#include "base/utf8.h"
#include "eval/ruler/ruler_private.h"

/* --- words --------------------------------------------------------------------------------------------------- */

static const char *embedded(const char *name) {
  for (int i = 0; ch_embedded_ruler[i].name; i++)
    if (strcmp(ch_embedded_ruler[i].name, name) == 0) return (const char *)ch_embedded_ruler[i].text;
  return "";
}

/* Adds the words of a text. A run of white space separates two words, as after re.sub(r"\s+", " ", text). */
static ch_status add_words(ch_ruler_writer *m, const char *text, size_t size, ch_ruler_texts *words,
                           ch_error *error) {
  const unsigned char *at = (const unsigned char *)text, *end = at + size, *word = NULL;
  while (at < end) {
    uint32_t c = 0;
    size_t length = ch_utf8_decode(at, end, &c);
    bool space = length > 0 && ch_is_white_space(c);
    if (!length) length = 1;
    if (!space && !word) word = at;
    at += length;
    if (word && (space || at == end)) {
      size_t taken = (size_t)((space ? at - length : at) - word);
      char *copy = ch_arena_alloc(&m->arena, taken + 1);
      if (!copy) return ch_no_memory(error);
      memcpy(copy, word, taken);
      copy[taken] = 0;
      CH_TRY(ch_ruler_add(m, words, copy, error));
      word = NULL;
    }
  }
  return CH_OK;
}

ch_status ch_ruler_read_words(ch_ruler_writer *m, ch_error *error) {
  ch_ruler_texts *const lists[] = {&m->adjectives, &m->nouns};
  static const char *const names[] = {"adjectives", "nouns", "verbs"};
  if (m->words.count > 0) return CH_OK;
  for (int i = 0; i < 3; i++) {
    const char *text = embedded(names[i]);
    if (i < 2) CH_TRY(add_words(m, text, strlen(text), lists[i], error));
    if (i < 2) ch_ruler_sort_unique(lists[i]);
    CH_TRY(add_words(m, text, strlen(text), &m->words, error));
  }
  ch_ruler_sort_unique(&m->words);
  int64_t *order = ch_ruler_shuffled(m, m->words.count);
  const char **shuffled = ch_arena_alloc(&m->arena, (size_t)m->words.count * sizeof *shuffled);
  if (order && shuffled)
    for (int64_t i = 0; i < m->words.count; i++) shuffled[i] = m->words.data[order[i]];
  free(order);
  m->words.data = shuffled;
  return order && shuffled ? CH_OK : ch_no_memory(error);
}

/* --- the text ------------------------------------------------------------------------------------------------ */

ch_status ch_ruler_read_text(ch_ruler_writer *m, ch_error *error) {
  const char *path = m->request->text;
  if (m->text) return CH_OK;
  if (!path) {
    m->text = strdup(embedded("essay"));
    return m->text ? CH_OK : ch_no_memory(error);
  }
  ch_file_bytes bytes;
  CH_TRY(ch_file_bytes_open(path, &bytes, error));
  ch_status status = CH_OK;
  bool mark = bytes.size >= 3 && memcmp(bytes.data, "\xef\xbb\xbf", 3) == 0;
  size_t size = bytes.size - (mark ? 3 : 0);
  const char *text = bytes.size ? (const char *)bytes.data + (mark ? 3 : 0) : "";
  if (ch_utf8_valid_prefix((const unsigned char *)text, size) != size || memchr(text, 0, size))
    status = ch_fail(error, CH_ERROR_FORMAT, "%s is not UTF-8 text", path);
  if (status == CH_OK) {
    m->text = malloc(size + 1);
    if (m->text) {
      memcpy(m->text, text, size);
      m->text[size] = 0;
    } else {
      status = ch_no_memory(error);
    }
  }
  ch_file_bytes_close(&bytes);
  return status;
}

ch_status ch_ruler_read_haystack(ch_ruler_writer *m, ch_error *error) {
  if (m->haystack.count > 0) return CH_OK;
  CH_TRY(ch_ruler_read_text(m, error));
  CH_TRY(add_words(m, m->text, strlen(m->text), &m->haystack, error));
  if (m->haystack.count > 0) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s has no words; %s needs a text", m->request->text,
                 m->request->name);
}
