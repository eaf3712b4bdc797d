/* Splits a text into documents. */
#define _GNU_SOURCE
#include "text/documents.h"

#include <stdint.h>
#include <string.h>

/* The marker is searched for within this many bytes. Reading a huge text to its end would fill the memory. */
static const size_t LOOKED_AT = (size_t)64 << 20;

static const char *find_marker(const char *text, size_t size) {
  return memmem(text, size, CH_DOCUMENT_MARKER, sizeof CH_DOCUMENT_MARKER - 1);
}

ch_document_separator ch_separator_resolve(ch_document_separator separator, const char *text, size_t size) {
  if (separator != CH_DOCUMENTS_AUTO) return separator;
  size_t looked_at = size < LOOKED_AT ? size : LOOKED_AT;
  return looked_at > 0 && find_marker(text, looked_at) ? CH_DOCUMENTS_MARKER : CH_DOCUMENTS_NONE;
}

/* Finds the first empty line at or after `from`. *begin: the newline before the line; *end: the first byte after
   it. Lines may end in \r\n, and a line of blanks is empty. */
static void find_blank_line(const char *text, size_t size, size_t from, size_t *begin, size_t *end) {
  for (size_t at = from; at < size;) {
    const char *newline = memchr(text + at, '\n', size - at);
    if (!newline) return;
    size_t next = (size_t)(newline - text) + 1, stop = next;
    while (stop < size && (text[stop] == '\r' || text[stop] == ' ' || text[stop] == '\t')) stop++;
    if (stop < size && text[stop] == '\n') {
      *begin = next - 1;
      *end = stop + 1;
      return;
    }
    at = next;
  }
}

/* Finds the separator at or after `from`: its first byte, and the first byte after it. */
static void find_separator(ch_document_separator separator, const char *text, size_t size, size_t from,
                           size_t *begin, size_t *end) {
  *begin = *end = size;
  if (separator == CH_DOCUMENTS_MARKER) {
    const char *marker = find_marker(text + from, size - from);
    if (!marker) return;
    *begin = (size_t)(marker - text);
    *end = *begin + sizeof CH_DOCUMENT_MARKER - 1;
  } else if (separator == CH_DOCUMENTS_BLANK_LINES) {
    find_blank_line(text, size, from, begin, end);
  }
}

static bool is_newline(char c) {
  return c == '\n' || c == '\r';
}

bool ch_next_document(ch_document_separator separator, const char *text, size_t size, size_t *place,
                      const char **document, size_t *document_size) {
  while (*place < size) {
    size_t first = *place, last, after;
    find_separator(separator, text, size, first, &last, &after);
    *place = after;
    if (separator != CH_DOCUMENTS_NONE) {
      while (first < last && is_newline(text[first])) first++;
      while (first < last && is_newline(text[last - 1])) last--;
    }
    if (first == last) continue;
    *document = text + first;
    *document_size = last - first;
    return true;
  }
  return false;
}
