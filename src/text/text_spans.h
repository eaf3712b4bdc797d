/* A list of ranges of bytes in a text, in order. */
#ifndef CH_TEXT_TEXT_SPANS_H
#define CH_TEXT_TEXT_SPANS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ch_text_span {
  size_t begin, end; /* bytes */
} ch_text_span;

/* Zero-initialise. */
typedef struct ch_text_spans {
  ch_text_span *span; /* [count] spans in ascending order, without overlap */
  size_t count, capacity;
} ch_text_spans;

/* Appends a span that begins no earlier than the last one ends. Returns false if out of memory. */
bool ch_text_spans_add(ch_text_spans *spans, size_t begin, size_t end);
/* Frees the spans of `count` texts and their list, which may be NULL. */
void ch_text_spans_free(ch_text_spans *spans, int count);
/* Returns the index of the first span that ends after `place`, or `count` if there is none. */
size_t ch_text_spans_find(const ch_text_spans *spans, size_t place);

#endif
