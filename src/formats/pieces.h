/* A vocabulary between formats: pieces, merges and settings of a tokenizer, as far as both GGUF and
 * tokenizer.json can express them. */
#ifndef CH_FORMATS_PIECES_H
#define CH_FORMATS_PIECES_H

#include "formats/gguf.h"
#include "text/tokenizer.h"

/* Kinds of tokens, numbered as in "tokenizer.ggml.token_type" of GGUF files. */
typedef enum ch_piece_kind {
  CH_PIECE_NORMAL = 1,
  CH_PIECE_UNKNOWN = 2,
  CH_PIECE_CONTROL = 3,
  CH_PIECE_USER = 4, /* found whole in the text before the rest is encoded */
  CH_PIECE_UNUSED = 5,
  CH_PIECE_BYTE = 6
} ch_piece_kind;

typedef struct ch_piece {
  const char *text; /* UTF-8: in the byte alphabet if byte-level, else with U+2581 for spaces */
  size_t size;
  float score; /* pieces with higher scores merge first; unused if byte-level */
  ch_piece_kind kind;
} ch_piece;

/* Ids of two pieces that merge. */
typedef struct ch_piece_pair {
  int32_t left, right;
} ch_piece_pair;

/* A rule by which byte-level vocabularies cut text into words: a row of a table of GGUF's "tokenizer.ggml.pre". */
typedef struct ch_word_rule {
  const char *const *names;    /* GGUF's names, NULL-terminated; the first one is written */
  const char *const *patterns; /* patterns that cut one after the other, NULL-terminated */
  bool gpt2;                   /* true if GPT-2's pattern cuts after `patterns` */
  bool normalize;              /* true if the text is normalised to NFC first */
  /* ignore_merges: true if words that are pieces stay whole; begins: true if texts get a beginning token */
  bool ignore_merges, begins;
  bool approximate; /* true if llama.cpp's pattern differs and cuts some words elsewhere */
} ch_word_rule;

typedef struct ch_pieces {
  ch_piece *items; /* [count], by id */
  int32_t count;
  ch_piece_pair *pairs; /* [pair_count], in the order of merging */
  int64_t pair_count;
  bool byte_level;
  const ch_word_rule *words;            /* rule of a byte-level vocabulary */
  bool space_prefix;                    /* true if a space is put before a text; not byte-level */
  int32_t begin, end, unknown, padding; /* ids, or -1 */
  bool add_begin, add_end;
  const char *loss; /* property that the other format cannot express, as the end of a sentence; or NULL */
  void *owned;      /* memory of texts that have no other owner, or NULL */
} ch_pieces;

/* Returns the rule of this name, or NULL. */
const ch_word_rule *ch_word_rule_named(const char *name, size_t size);
int ch_word_rule_count(void);
const ch_word_rule *ch_word_rule_at(int index);
/* Opens a tokenizer that only cuts text by the rule. */
ch_status ch_word_rule_open(const ch_word_rule *rule, ch_tokenizer **tokenizer, ch_error *error);
/* Finds the rule that has the tokenizer's ignore_merges and cuts text like the tokenizer; *rule is NULL if there is
   none. It compares them on a few hundred thousand short texts. A rule whose `normalize` differs is chosen only if no
   other rule fits. */
ch_status ch_word_rule_like(const ch_tokenizer *tokenizer, bool normalize, const ch_word_rule **rule,
                            ch_error *error);

/* Reads "tokenizer.ggml.*". Texts point into the file. pieces->count is 0 if the file has no vocabulary. Release with
   ch_pieces_free, also after a failure. */
ch_status ch_pieces_from_gguf(const ch_gguf *file, ch_pieces *pieces, ch_error *error);
/* Reads the vocabulary of a llama2.c tokenizer.bin. */
ch_status ch_pieces_from_bin(const char *path, ch_pieces *pieces, ch_error *error);
/* Lists the vocabulary of a tokenizer opened from a tokenizer.json. Ids below vocab_size that have no piece
   become pieces [PADn] of kind CH_PIECE_UNUSED. Texts point into the tokenizer. */
ch_status ch_pieces_from_tokenizer(const ch_tokenizer *tokenizer, int64_t vocab_size, ch_pieces *pieces,
                                   ch_error *error);
/* Sets the pairs of a vocabulary with scores: every way to cut a normal piece into two normal pieces. Pairs with
   higher scores of the whole piece come first. */
ch_status ch_pieces_pair_up(ch_pieces *pieces, const char *where, ch_error *error);
/* Appends a tokenizer.json and a tokenizer_config.json in Hugging Face's format. */
ch_status ch_pieces_put_json(const ch_pieces *pieces, const char *where, ch_text *json, ch_text *config,
                             ch_error *error);
void ch_pieces_free(ch_pieces *pieces);

#endif
