/* The parts of a tokenizer, shared by the loaders, encoding and decoding. */
#ifndef CH_TEXT_TOKENIZER_INTERNAL_H
#define CH_TEXT_TOKENIZER_INTERNAL_H

#include "text/added_tokens.h"
#include "text/merges.h"
#include "text/normalize.h"
#include "text/split.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

typedef enum ch_step_type {
  CH_STEP_SPLIT,        /* cuts text into words by a pattern */
  CH_STEP_PREFIX_SPACE, /* puts a space before a text that does not begin with one */
  CH_STEP_METASPACE,    /* replaces spaces by a visible mark; words begin with it */
  CH_STEP_SPELL         /* replaces bytes by the characters of the byte alphabet */
} ch_step_type;

typedef enum ch_prepend_scheme { CH_PREPEND_NEVER, CH_PREPEND_FIRST, CH_PREPEND_ALWAYS } ch_prepend_scheme;

/* One step of pre-tokenizing. */
typedef struct ch_step {
  ch_step_type type;
  ch_split split;
  char mark[5]; /* metaspace: one character, NUL-terminated */
  ch_prepend_scheme prepend;
  bool cut; /* metaspace: true to cut before each mark */
} ch_step;

enum { CH_MOST_STEPS = 16, CH_MOST_NORMALIZERS = 16 };

/* The rules for the text of a piece. All rules but stripping are applied when loading, so that decoding only
   strips and copies. */
typedef struct ch_decoder {
  bool byte_level;      /* true if each character encodes one byte */
  bool byte_fallback;   /* true if "<0xE2>" is a byte */
  size_t strip_start;   /* maximum number of `strip_character`s to remove from the start of the text */
  char strip_character; /* an ASCII character */
} ch_decoder;

struct ch_tokenizer {
  char *file;      /* name for messages */
  char *directory; /* directory that it was opened from; NULL: from memory */
  bool is_json;
  uint64_t fingerprint;

  ch_vocabulary vocabulary; /* pieces of the model and added tokens */
  ch_merges merges;
  bool byte_level;        /* true: words are sequences of bytes; false: of characters */
  bool spelled;           /* true if words arrive in the byte alphabet although byte_level is false */
  bool ignore_merges;     /* true if a word that is a piece becomes that piece without merging */
  bool byte_fallback;     /* true if characters without a piece become the pieces of their bytes */
  bool fuse_unk;          /* true if unknown characters in a row become one unknown token */
  int32_t unk;            /* id of the unknown token; -1: none */
  int32_t byte_ids[256];  /* id of each byte (byte level) or of its "<0xNN>" (byte fallback); -1: none */
  int32_t ascii_ids[128]; /* id of each ASCII character, when not byte level */

  /* Pairs of characters that some merge joins: bit (x, y) is set if a merge joins a left piece that ends with
     x to a right piece that begins with y. Character-level words may be cut elsewhere. NULL: never cut. */
  uint8_t *joins; /* [CH_JOIN_BITS / 8], by a hash of x and y */

  ch_normalizer normalizers[CH_MOST_NORMALIZERS];
  size_t normalizer_count;
  ch_step steps[CH_MOST_STEPS];
  size_t step_count;

  ch_added_token *added;
  size_t added_count;
  ch_matcher raw, normalized; /* raw: added tokens searched for before normalization; normalized: after it */

  int32_t *prefix, *suffix; /* ids that encoding puts before and after a text by default */
  size_t prefix_size, suffix_size;
  int32_t bos, eos;

  ch_decoder decoder;
  uint8_t *special;       /* [vocabulary.size] */
  ch_text decoded;        /* decoded text of all pieces */
  ch_span *decoded_spans; /* [vocabulary.size] */
};

enum { CH_JOIN_BITS = 1 << 19 };

/* Returns the bit of a pair of neighbouring characters. */
static inline uint32_t ch_join_bit(uint32_t x, uint32_t y) {
  return (x * 0x9e3779b1u ^ y * 0x85ebca77u) >> 13;
}

/* Creates an empty tokenizer. */
ch_tokenizer *ch_tokenizer_new(const char *file);
/* Replacements in decoded text, such as a space for each mark. They are applied one after the other. */
enum { CH_MOST_REPLACEMENTS = 8 };
typedef struct ch_replacement {
  const char *from, *to;
  size_t from_size, to_size; /* from_size > 0 */
} ch_replacement;
typedef struct ch_replacements {
  ch_replacement items[CH_MOST_REPLACEMENTS];
  size_t count;
} ch_replacements;

/* Builds the tables that follow from vocabulary, merges, added tokens and decoder, and fails if the
   vocabulary is empty. `replace` may be NULL. */
ch_status ch_tokenizer_complete(ch_tokenizer *tokenizer, const ch_replacements *replace, ch_error *error);
/* Registers an added token. Its piece is added to the vocabulary if it is missing. */
ch_status ch_tokenizer_add_token(ch_tokenizer *tokenizer, ch_added_token token, ch_error *error);

/* These read the normalizer, pre_tokenizer, post_processor, decoder and added_tokens of a tokenizer.json. */
struct json_t;
ch_status ch_read_normalizer(ch_tokenizer *tokenizer, const struct json_t *json, ch_error *error);
ch_status ch_read_pre_tokenizer(ch_tokenizer *tokenizer, const struct json_t *json, ch_error *error);
ch_status ch_read_post_processor(ch_tokenizer *tokenizer, const struct json_t *json, ch_error *error);
/* Reads the decoder. The texts of `replace` belong to `json`. */
ch_status ch_read_decoder(ch_tokenizer *tokenizer, const struct json_t *json, ch_replacements *replace,
                          ch_error *error);
ch_status ch_read_added_tokens(ch_tokenizer *tokenizer, const struct json_t *json, ch_error *error);

#endif
