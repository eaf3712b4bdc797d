/* A vocabulary between formats: pieces, merges and settings of a tokenizer, as far as both GGUF and
 * tokenizer.json can express them. */
#ifndef CH_FORMATS_PIECES_H
#define CH_FORMATS_PIECES_H

#include "formats/gguf.h"
#include "text/tokenizer.h"

/* The numbers are GGUF's. */
typedef enum ch_piece_kind {
  CH_PIECE_NORMAL = 1,
  CH_PIECE_UNKNOWN = 2,
  CH_PIECE_CONTROL = 3,
  CH_PIECE_USER = 4, /* found whole in the text, before anything else */
  CH_PIECE_UNUSED = 5,
  CH_PIECE_BYTE = 6
} ch_piece_kind;

typedef struct ch_piece {
  const char *text; /* UTF-8; of a byte-level vocabulary in the byte alphabet, else with U+2581 for spaces */
  size_t size;
  float score; /* higher merges first; not of byte-level ones */
  ch_piece_kind kind;
} ch_piece;

/* Pairs of pieces that merge, in the order of merging. */
typedef struct ch_piece_pair {
  int32_t left, right;
} ch_piece_pair;

/* The rule by which a byte-level vocabulary cuts text into words; rows of a table by GGUF's
   "tokenizer.ggml.pre". */
typedef struct ch_word_rule {
  const char *const *names;    /* of GGUF, the one to write first, NULL-terminated */
  const char *const *patterns; /* cut one after the other, NULL-terminated */
  bool gpt2;                   /* then by GPT-2's pattern */
  bool normalize;              /* to NFC first */
  bool ignore_merges, begins;  /* words that are pieces stay whole; a beginning token by default */
  bool approximate;            /* llama.cpp has another pattern, which cuts some words elsewhere */
} ch_word_rule;

typedef struct ch_pieces {
  ch_piece *items; /* by id */
  int32_t count;
  ch_piece_pair *pairs;
  int64_t pair_count;
  bool byte_level;
  const ch_word_rule *words;            /* of a byte-level vocabulary */
  bool space_prefix;                    /* of another one: a space before the text */
  int32_t begin, end, unknown, padding; /* ids, or -1 */
  bool add_begin, add_end;
  const char *loss; /* what the other format cannot express, as the end of a sentence; NULL: nothing */
  void *owned;      /* memory of texts that belong to nothing else, or NULL */
} ch_pieces;

/* Returns the rule of this name, or NULL. */
const ch_word_rule *ch_word_rule_named(const char *name, size_t size);
int ch_word_rule_count(void);
const ch_word_rule *ch_word_rule_at(int index);
/* Opens a tokenizer that only cuts text by the rule. */
ch_status ch_word_rule_open(const ch_word_rule *rule, ch_tokenizer **tokenizer, ch_error *error);
/* Finds the rule that cuts every text like the tokenizer; *rule is NULL if there is none. It tries a few
   hundred thousand short texts. `normalize` as in ch_word_rule; a rule that differs only in it is used if
   there is no better one. */
ch_status ch_word_rule_like(const ch_tokenizer *tokenizer, bool normalize, const ch_word_rule **rule,
                            ch_error *error);

/* Reads "tokenizer.ggml.*". Texts point into the file. *count is 0 if it has no vocabulary. Release with
   ch_pieces_free, also after a failure. */
ch_status ch_pieces_from_gguf(const ch_gguf *file, ch_pieces *pieces, ch_error *error);
/* Reads the vocabulary of a llama2.c tokenizer.bin. */
ch_status ch_pieces_from_bin(const char *path, ch_pieces *pieces, ch_error *error);
/* Lists the vocabulary of a tokenizer opened from a tokenizer.json, filled up to vocab_size with names that
   no text contains. Texts point into the tokenizer. */
ch_status ch_pieces_from_tokenizer(const ch_tokenizer *tokenizer, int64_t vocab_size, ch_pieces *pieces,
                                   ch_error *error);
/* Fills pairs of a vocabulary with scores: every way to cut a piece in two pieces, the best piece first. */
ch_status ch_pieces_pair_up(ch_pieces *pieces, const char *where, ch_error *error);
/* Appends a tokenizer.json and a tokenizer_config.json of Hugging Face's. */
ch_status ch_pieces_put_json(const ch_pieces *pieces, const char *where, ch_text *json, ch_text *config,
                             ch_error *error);
void ch_pieces_free(ch_pieces *pieces);

#endif
