/* Counts the words into which a split cuts a text. */
#ifndef CH_TEXT_WORD_COUNT_H
#define CH_TEXT_WORD_COUNT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "text/split.h"
#include "text/text_file.h"
#include "text/text_spans.h"
#include "text/tokenizer.h"

typedef struct ch_counted_word {
  size_t at; /* offset in the pool */
  uint32_t size, hash;
  int64_t count;
} ch_counted_word;

/* Zero-initialise. */
typedef struct ch_word_counts {
  ch_text pool;
  ch_counted_word *words; /* [count], in the order in which they were added */
  size_t count, capacity;
  uint32_t *slots; /* hash table of index + 1 */
  size_t mask;     /* number of slots - 1 */
} ch_word_counts;

/* Adds `times` to the count of a word. Returns false if out of memory. */
bool ch_word_counts_add(ch_word_counts *counts, const char *word, size_t size, int64_t times);
void ch_word_counts_free(ch_word_counts *counts);

/* Adds the words of a text outside the spans `left_out` (NULL: none), with all cores. `marker` (NULL or "":
   none) separates documents and is not a word. `settings`, if not NULL, has the progress callback to call. */
ch_status ch_word_counts_text(ch_word_counts *counts, const ch_split *split, const ch_text_file *file,
                              const ch_text_spans *left_out, const char *marker,
                              const ch_tokenizer_train_settings *settings, ch_error *error);

/* Calls the progress callback, if there is one. Returns false if it cancels. */
bool ch_training_goes_on(const ch_tokenizer_train_settings *settings, const char *stage, double done,
                         double total);

#endif
