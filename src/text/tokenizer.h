/* Tokenizers: text to token ids and back. A tokenizer is immutable and shared by threads; an encoder is one
 * thread's. */
#ifndef CH_TEXT_TOKENIZER_H
#define CH_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

typedef struct ch_tokenizer ch_tokenizer;

/* Opens a Hugging Face tokenizer.json, a llama2.c tokenizer.bin, or a directory that holds one of the two.
 * A tokenizer_config.json beside a tokenizer.json names the beginning and the end token. */
ch_status ch_tokenizer_open(const char *path, ch_tokenizer **tokenizer, ch_error *error);
/* The same from memory; `name` is for messages. */
ch_status ch_tokenizer_from_json(const char *text, size_t size, const char *name, ch_tokenizer **tokenizer,
                                 ch_error *error);
ch_status ch_tokenizer_from_bin(const unsigned char *data, size_t size, const char *name,
                                ch_tokenizer **tokenizer, ch_error *error);
void ch_tokenizer_free(ch_tokenizer *tokenizer);

/* One past the largest id. */
int32_t ch_tokenizer_vocab_size(const ch_tokenizer *tokenizer);
/* Beginning-of-text and end-of-text ids, -1 when the tokenizer names none. */
int32_t ch_tokenizer_bos(const ch_tokenizer *tokenizer);
int32_t ch_tokenizer_eos(const ch_tokenizer *tokenizer);
/* True when encoding puts the beginning-of-text (or any other) token before a text by default. */
bool ch_tokenizer_adds_bos(const ch_tokenizer *tokenizer);
/* True for control tokens, which decoding can leave out. */
bool ch_tokenizer_is_special(const ch_tokenizer *tokenizer, int32_t id);
/* The piece as the vocabulary spells it ("Ġthe", "▁the"), not NUL-terminated; NULL for an id without piece. */
const char *ch_tokenizer_piece(const ch_tokenizer *tokenizer, int32_t id, size_t *size);
/* The id of a piece in that spelling, or -1. */
int32_t ch_tokenizer_find(const ch_tokenizer *tokenizer, const char *piece, size_t size);
/* A hash of the file's content: equal files give equal ids. */
uint64_t ch_tokenizer_fingerprint(const ch_tokenizer *tokenizer);
/* Copies the tokenizer's files into a directory (tokenizer.json or tokenizer.bin, tokenizer_config.json), for a
 * model that is saved there. An error when it was not opened from a file, or the file has changed since. */
ch_status ch_tokenizer_copy_to(const ch_tokenizer *tokenizer, const char *directory, ch_error *error);

/* A growing list of ids; zero-initialise. */
typedef struct ch_ids {
  int32_t *data;
  size_t size, capacity;
} ch_ids;
void ch_ids_free(ch_ids *ids);
/* Makes room for `more` ids. False when memory is out. */
bool ch_ids_reserve(ch_ids *ids, size_t more);

enum {
  CH_ENCODE_SPECIAL = 1,   /* control tokens written out in the text ("<|endoftext|>") become their ids */
  CH_ENCODE_TEMPLATE = 2,  /* put the tokens before and after the text that the tokenizer adds by default */
  CH_ENCODE_CONTINUED = 4, /* the text goes on from an earlier part: no space is put before it */
  CH_ENCODE_NO_SCANNER = 8 /* words by the regex alone (for tests) */
};

/* Appends the ids of a text (any bytes, less than 1 GiB) to *ids. */
ch_status ch_tokenizer_encode(const ch_tokenizer *tokenizer, const char *text, size_t size, unsigned flags,
                              ch_ids *ids, ch_error *error);

/* Working memory for encoding many texts: a cache of words and buffers. Not shared by threads. */
typedef struct ch_encoder ch_encoder;
ch_status ch_encoder_new(const ch_tokenizer *tokenizer, ch_encoder **encoder, ch_error *error);
void ch_encoder_free(ch_encoder *encoder);
ch_status ch_encoder_encode(ch_encoder *encoder, const char *text, size_t size, unsigned flags, ch_ids *ids,
                            ch_error *error);

/* Appends what the tokenizer puts before a text by default. */
ch_status ch_encoder_prefix(ch_encoder *encoder, ch_ids *ids, ch_error *error);

/* A place at or after `from` where the text can be cut so that encoding the two parts (the second with
 * CH_ENCODE_CONTINUED) gives the same ids as the whole; `size` when none is found. */
ch_status ch_encoder_safe_cut(ch_encoder *encoder, const char *text, size_t size, size_t from, size_t *cut,
                              ch_error *error);

/* Appends the text of ids. Byte-level pieces give their bytes back exactly, whether they are UTF-8 or not.
 * An id without piece is an error. */
ch_status ch_tokenizer_decode(const ch_tokenizer *tokenizer, const int32_t *ids, size_t count,
                              bool skip_special, ch_text *text, ch_error *error);

/* Decoding one id at a time: bytes of an unfinished character are withheld. Zero-initialise at the start. */
typedef struct ch_decode_stream {
  unsigned char pending[4];
  unsigned char pending_size;
  bool started;
} ch_decode_stream;
ch_status ch_decode_next(const ch_tokenizer *tokenizer, ch_decode_stream *stream, int32_t id,
                         bool skip_special, ch_text *text, ch_error *error);
/* What was withheld at the end of the text. */
void ch_decode_finish(ch_decode_stream *stream, ch_text *text);

#endif
