/* The layout of a token file: this header, the training ids, the validation ids. */
#ifndef CH_TEXT_CORPUS_FILE_H
#define CH_TEXT_CORPUS_FILE_H

#include "text/corpus.h"

#define CH_CORPUS_MAGIC "CHTOKENS"
enum { CH_CORPUS_VERSION = 1 };

/* Little-endian, 128 bytes. */
typedef struct ch_corpus_header {
  char magic[8];
  uint32_t version, id_bytes; /* id_bytes: 2 or 4 per id */
  uint64_t vocab_size, train_tokens, validation_tokens, documents, text_bytes, pack_length;
  uint64_t tokenizer, content;
  int32_t end_token;
  uint8_t reserved[44];
} ch_corpus_header;

_Static_assert(sizeof(ch_corpus_header) == 128, "the header's size is part of the format");

#endif
