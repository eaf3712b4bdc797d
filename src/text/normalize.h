/* Normalizers: changes that a tokenizer makes to text before it is cut into words. */
#ifndef CH_TEXT_NORMALIZE_H
#define CH_TEXT_NORMALIZE_H

#include <stddef.h>

#include "base/error.h"
#include "base/text.h"
#include "text/regex.h"

typedef enum ch_normalizer_type {
  CH_NORMALIZE_NFC,
  CH_NORMALIZE_NFD,
  CH_NORMALIZE_NFKC,
  CH_NORMALIZE_NFKD,
  CH_NORMALIZE_PREPEND, /* puts `to` before a text that is not empty */
  CH_NORMALIZE_REPLACE  /* replaces `from`, or matches of `regex`, by `to` */
} ch_normalizer_type;

typedef struct ch_normalizer {
  ch_normalizer_type type;
  char *from, *to;
  size_t from_size, to_size;
  ch_regex *regex;
} ch_normalizer;

void ch_normalizer_free(ch_normalizer *normalizer);

/* Appends the normalized text to *out. Bytes that are not UTF-8 do not change. `continued`: the text
   continues an earlier part, so nothing is prepended. *added: the number of bytes at the beginning of the text
   that an empty match inserted; it is updated for the normalized text. */
ch_status ch_normalize(const ch_normalizer *normalizer, ch_regex_scratch *scratch, const char *text,
                       size_t size, bool continued, size_t *added, ch_text *out, ch_error *error);

#endif
