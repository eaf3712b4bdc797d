/* A vocabulary: pieces by id and ids by piece. */
#ifndef CH_TEXT_VOCABULARY_H
#define CH_TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/* Ids must be below this. Larger ones can only be a mistake, and tables are as long as the largest id. */
enum { CH_VOCABULARY_LIMIT = 1 << 22 };

typedef struct ch_span {
  uint32_t at, size; /* offset and size in bytes */
} ch_span;

/* Zero-initialise. Pieces may be added in any order of ids. An id without a piece has size UINT32_MAX. */
typedef struct ch_vocabulary {
  ch_text pool;     /* bytes of all pieces */
  ch_span *spans;   /* [size] place of each piece in `pool`, by id */
  int32_t size;     /* one past the largest id */
  int32_t count;    /* number of pieces */
  uint32_t *slots;  /* hash table of id + 1; 0: free */
  size_t slot_mask; /* number of slots - 1 */
  int32_t capacity;
} ch_vocabulary;

/* Adds a piece. A piece or an id that exists already, or an impossible id, is an error that names both. */
ch_status ch_vocabulary_add(ch_vocabulary *vocabulary, const char *piece, size_t size, int64_t id,
                            const char *file, ch_error *error);
/* Returns the id of a piece, or -1 if there is no such piece. */
int32_t ch_vocabulary_find(const ch_vocabulary *vocabulary, const char *piece, size_t size);
/* Returns the id of left + right, or -1. `scratch` is reused. */
int32_t ch_vocabulary_find_joined(const ch_vocabulary *vocabulary, int32_t left, int32_t right,
                                  ch_text *scratch);
/* Returns the piece of an id (not NUL-terminated), or NULL if the id has none. */
const char *ch_vocabulary_piece(const ch_vocabulary *vocabulary, int32_t id, size_t *size);
void ch_vocabulary_free(ch_vocabulary *vocabulary);

/* Copies a piece for a message: shortened, control characters and broken UTF-8 replaced, NUL-terminated. */
const char *ch_piece_for_message(const char *piece, size_t size, char buffer[64]);

#endif
