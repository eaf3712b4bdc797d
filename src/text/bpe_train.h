/* Training a byte-level BPE vocabulary: repeatedly the most frequent pair of neighbours becomes a token. */
#ifndef CH_TEXT_BPE_TRAIN_H
#define CH_TEXT_BPE_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/word_count.h"

/* Ids of a trained vocabulary: the end token, the 256 bytes in the order of GPT-2's characters for them, the merges. */
enum { CH_BPE_FIRST_BYTE = 1, CH_BPE_FIRST_MERGE = CH_TOKENIZER_LEAST_VOCABULARY };

/* A merge of tokens `left` and `right` into token `id`. If an existing token has the same bytes, `id` is that
   token. Otherwise `id` is the next new id, from CH_BPE_FIRST_MERGE on. */
typedef struct ch_bpe_merge {
  int32_t left, right, id;
} ch_bpe_merge;

/* The merges in the order in which they were found. */
typedef struct ch_bpe_merges {
  ch_bpe_merge *merges;
  int32_t count, vocab_size;
} ch_bpe_merges;

/* Finds merges until the vocabulary is full or no pair is frequent enough. Of equally frequent pairs, the one
   whose left token, then whose right token, has the lexicographically greatest bytes is merged first, so that
   the result depends on the text alone. */
ch_status ch_bpe_find_merges(const ch_word_counts *words, const ch_tokenizer_train_settings *settings,
                             ch_bpe_merges *merges, ch_error *error);
void ch_bpe_merges_free(ch_bpe_merges *merges);

/* Writes a tokenizer.json in Hugging Face's format. */
ch_status ch_bpe_write(const ch_bpe_merges *merges, const char *end_token, const char *path, ch_error *error);

/* Trains on text files and writes the tokenizer. left_out: the spans of each text to skip; NULL: none. */
ch_status ch_bpe_train(const char *const *paths, size_t count, const ch_text_spans *left_out,
                       const ch_tokenizer_train_settings *settings, const char *out,
                       ch_tokenizer_report *report, ch_error *error);

#endif
