/* Training a byte-level BPE vocabulary: repeatedly the most frequent pair of neighbours becomes a token. */
#ifndef CH_TEXT_BPE_TRAIN_H
#define CH_TEXT_BPE_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/progress.h"
#include "text/word_count.h"

/* Ids of a trained vocabulary: the end token, the 256 bytes in the order of their characters, the merges. */
enum { CH_BPE_FIRST_BYTE = 1, CH_BPE_FIRST_MERGE = 257 };

typedef struct ch_bpe_settings {
  int32_t vocab_size;            /* at least CH_BPE_FIRST_MERGE */
  int64_t min_count;             /* pairs that occur less often are not merged */
  const char *end_token;         /* parts documents in the text; NULL: "<|endoftext|>" */
  const ch_text_spans *left_out; /* for each text, what not to learn from; NULL: all of every text counts */
  ch_progress progress;
} ch_bpe_settings;

/* The merges found, in order. A merge whose bytes are a token already becomes that token; all others become the next
 * new id, from CH_BPE_FIRST_MERGE on. */
typedef struct ch_bpe_merge {
  int32_t left, right, id;
} ch_bpe_merge;

typedef struct ch_bpe_merges {
  ch_bpe_merge *merges;
  int32_t count, vocab_size;
} ch_bpe_merges;

/* Finds merges until the vocabulary is full or no pair occurs often enough. Of equally frequent pairs the one whose
 * bytes are lexicographically greatest goes first, so that the result depends on the text alone. */
ch_status ch_bpe_find_merges(const ch_word_counts *words, const ch_bpe_settings *settings,
                             ch_bpe_merges *merges, ch_error *error);
void ch_bpe_merges_free(ch_bpe_merges *merges);

/* Writes a tokenizer.json of Hugging Face's form. */
ch_status ch_bpe_write(const ch_bpe_merges *merges, const char *end_token, const char *path, ch_error *error);

/* What a training did. */
typedef struct ch_bpe_report {
  int32_t vocab_size; /* reached: smaller than asked for when the text has no more pairs */
  size_t text_bytes, distinct_words;
} ch_bpe_report;

/* Trains on text files and writes the tokenizer. */
ch_status ch_bpe_train(const char *const *paths, size_t count, const ch_bpe_settings *settings,
                       const char *out, ch_bpe_report *report, ch_error *error);

#endif
