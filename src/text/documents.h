/* Where documents begin and end in a text. */
#ifndef CH_TEXT_DOCUMENTS_H
#define CH_TEXT_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ch_separator {
  CH_SEPARATOR_AUTO,   /* the marker where the first 64 MiB have one, else the whole text is one document */
  CH_SEPARATOR_MARKER, /* "<|endoftext|>" */
  CH_SEPARATOR_BLANK_LINES, /* one or more empty lines */
  CH_SEPARATOR_NONE         /* the whole text is one document */
} ch_separator;

#define CH_DOCUMENT_MARKER "<|endoftext|>"

/* Decides CH_SEPARATOR_AUTO for a text; other separators are returned as they are. */
ch_separator ch_separator_resolve(ch_separator separator, const char *text, size_t size);

/* The next document at or after *place, without the separator and without newlines at its ends; empty ones
   are skipped. False at the end of the text. *place moves past it. */
bool ch_next_document(ch_separator separator, const char *text, size_t size, size_t *place,
                      const char **document, size_t *document_size);

#endif
