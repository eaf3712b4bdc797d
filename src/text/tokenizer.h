/* Functions of tokenizers for the rest of the library. <crosshead/tokenizer.h> has the public ones. */
#ifndef CH_TEXT_TOKENIZER_H
#define CH_TEXT_TOKENIZER_H

#include <crosshead/tokenizer.h>

#include "base/error.h"
#include "base/text.h"

/* Opens a tokenizer from memory, as ch_tokenizer_open does from a file. `name` is for messages. */
ch_status ch_tokenizer_from_json(const char *text, size_t size, const char *name, ch_tokenizer **tokenizer,
                                 ch_error *error);
ch_status ch_tokenizer_from_bin(const unsigned char *data, size_t size, const char *name,
                                ch_tokenizer **tokenizer, ch_error *error);

/* Returns a hash of the file's content. Tokenizers with equal hashes give equal ids. */
uint64_t ch_tokenizer_fingerprint(const ch_tokenizer *tokenizer);
/* Returns true for a tokenizer from a tokenizer.json, false for one from a tokenizer.bin. */
bool ch_tokenizer_is_json(const ch_tokenizer *tokenizer);
/* Copies the tokenizer's files into a directory (tokenizer.json and the files that belong to it, or
 * tokenizer.bin), for a model that is saved there. Fails if it was not opened from a file, or if the file has
 * changed since. */
ch_status ch_tokenizer_copy_to(const ch_tokenizer *tokenizer, const char *directory, ch_error *error);

/* A flag for tests, in addition to ch_text_flags: words are cut by the regex alone. */
enum { CH_TEXT_NO_SCANNER = 1 << 30 };
/* Fails with CH_ERROR_ARGUMENT for bits outside `known`: "flags ... are not valid for WHAT". */
ch_status ch_text_check_flags(unsigned flags, unsigned known, const char *what, ch_error *error);

/* Finds the first place in a text where the spelling of a special token begins, and the longest special token
   there. Returns false if there is none. */
bool ch_tokenizer_find_special(const ch_tokenizer *tokenizer, const char *text, size_t size, size_t *at,
                               size_t *length);

/* Appends an id. */
ch_status ch_ids_put(ch_ids *ids, int32_t id, ch_error *error);
/* Appends the ids that the tokenizer puts before a text by default. */
ch_status ch_encoder_prefix(ch_encoder *encoder, ch_ids *ids, ch_error *error);

/* Appends the words that the pre-tokenizer cuts well-formed UTF-8 into, each with a byte 0xFF after it. */
ch_status ch_encoder_words(ch_encoder *encoder, const char *text, size_t size, ch_text *words,
                           ch_error *error);

/* Finds a place at or after `from` to cut the text. Encoding the two parts, the second with no flag, gives the
   ids of the whole. *cut is `size` if none is found. */
ch_status ch_encoder_safe_cut(ch_encoder *encoder, const char *text, size_t size, size_t from, size_t *cut,
                              ch_error *error);

/* Appends the text of ids. The bytes of byte-level pieces are exact, even if they are not UTF-8. An id without
 * a piece is an error. */
ch_status ch_tokenizer_put_text(const ch_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                bool skip_special, ch_text *text, ch_error *error);

/* State of decoding one id at a time. Bytes of an unfinished character are withheld. Zero-initialise. */
typedef struct ch_decode_stream {
  unsigned char pending[4];
  unsigned char pending_size;
  bool started;
} ch_decode_stream;
ch_status ch_decode_next(const ch_tokenizer *tokenizer, ch_decode_stream *stream, int32_t id,
                         bool skip_special, ch_text *text, ch_error *error);
/* Writes the bytes withheld at the end of the text. */
void ch_decode_finish(ch_decode_stream *stream, ch_text *text);

#endif
