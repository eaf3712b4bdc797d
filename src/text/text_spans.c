/* A sorted list of ranges of bytes. Look-ups are binary searches. */
#include "text/text_spans.h"

#include <stdlib.h>

bool ch_text_spans_add(ch_text_spans *spans, size_t begin, size_t end) {
  if (spans->count == spans->capacity) {
    size_t capacity = spans->capacity ? 2 * spans->capacity : 64;
    ch_text_span *more = realloc(spans->span, capacity * sizeof *more);
    if (!more) return false;
    spans->span = more;
    spans->capacity = capacity;
  }
  spans->span[spans->count++] = (ch_text_span){begin, end};
  return true;
}

void ch_text_spans_free(ch_text_spans *spans, int count) {
  for (int i = 0; spans && i < count; i++) free(spans[i].span);
  free(spans);
}

size_t ch_text_spans_find(const ch_text_spans *spans, size_t place) {
  size_t low = 0, high = spans->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (spans->span[middle].end <= place)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
