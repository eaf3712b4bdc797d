/* Finds the documents in a text. */
#ifndef CH_TEXT_DOCUMENTS_H
#define CH_TEXT_DOCUMENTS_H

#include <crosshead/common.h>
#include <stdbool.h>
#include <stddef.h>

#define CH_DOCUMENT_MARKER "<|endoftext|>"

/* Decides CH_DOCUMENTS_AUTO for a text; returns other separators unchanged. */
ch_document_separator ch_separator_resolve(ch_document_separator separator, const char *text, size_t size);

/* Finds the next document at or after *place, without the separator and without newlines at its ends, and
   moves *place past it. Skips empty documents. Returns false at the end of the text. */
bool ch_next_document(ch_document_separator separator, const char *text, size_t size, size_t *place,
                      const char **document, size_t *document_size);

#endif
