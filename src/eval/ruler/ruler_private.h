/* Making items of RULER: what the kinds of tasks share. */
#ifndef CH_EVAL_RULER_RULER_PRIVATE_H
#define CH_EVAL_RULER_RULER_PRIVATE_H

#include "base/arena.h"
#include "base/text.h"
#include "eval/ruler/ruler.h"
#include "eval/tasks/python_random.h"

/* A list of texts. Others own them. */
typedef struct ch_ruler_texts {
  const char **data;
  int64_t count, capacity;
} ch_ruler_texts;

/* A question about documents. */
typedef struct ch_ruler_question {
  const char *query;
  ch_ruler_texts answers;
  int64_t *context, *more; /* [context_count], [more_count] places in the list of documents */
  int64_t context_count, more_count;
} ch_ruler_question;

typedef struct ch_ruler_writer {
  const ch_ruler_request *request;
  const ch_ruler *ruler;
  ch_arena arena;
  ch_encoder *encoder;
  ch_ids ids;
  int64_t length; /* of the items: RULER's max_seq_length */
  int64_t most;   /* the same, less where the model would not see it with what the tokenizer puts around it */
  int64_t done, total; /* tokens, for progress */
  uint32_t seed;
  ch_python_random random;  /* Python's module `random` */
  ch_python_random numbers; /* numpy.random */
  /* Word lists: sorted, without repetition. */
  ch_ruler_texts adjectives, nouns, words; /* words: all of them, shuffled */
  ch_ruler_texts haystack;                 /* CH_RULER_ESSAY: the words of the text */
  char *text;                              /* of the haystack or the documents; or NULL */
  /* CH_RULER_TRACKING: the solved example before each question, with its last words; NULL while it is generated. */
  const char *example;
  int64_t example_tokens;
  ch_ruler_texts example_names;
  bool searches; /* for a size: the example is left out, and its tokens are added */
  /* CH_RULER_QUESTIONS */
  ch_ruler_texts documents;
  ch_ruler_question *questions;
  int64_t question_count, question_room;
} ch_ruler_writer;

/* An item that is being generated. */
typedef struct ch_ruler_item {
  ch_text input; /* with the beginning of the answer; NUL-terminated when it is done */
  size_t answer; /* where that begins */
  json_t *outputs;
} ch_ruler_item;

/* Writes item `index` with a haystack of `size` parts into *made, which is empty. */
typedef ch_status (*ch_ruler_maker)(ch_ruler_writer *making, int64_t size, int64_t index, ch_ruler_item *made,
                                    ch_error *error);
ch_status ch_ruler_needles(ch_ruler_writer *making, int64_t size, int64_t index, ch_ruler_item *made,
                           ch_error *error);
ch_status ch_ruler_tracking(ch_ruler_writer *making, int64_t size, int64_t index, ch_ruler_item *made,
                            ch_error *error);
ch_status ch_ruler_common(ch_ruler_writer *making, int64_t size, int64_t index, ch_ruler_item *made,
                          ch_error *error);
ch_status ch_ruler_questions(ch_ruler_writer *making, int64_t size, int64_t index, ch_ruler_item *made,
                             ch_error *error);
/* Tasks of words need no search for their size: all items of a length are fitted at once. */
ch_status ch_ruler_frequent(ch_ruler_writer *making, int64_t items, json_t *list, ch_error *error);

/* The search for a size that fits: RULER's from `step` on, and below it from `least`. */
typedef struct ch_ruler_fit {
  ch_ruler_maker make;
  int64_t sample; /* a first size, from which tokens per part are estimated */
  int64_t step, least;
  int64_t length, written; /* tokens that all have, and those that are written */
  int64_t extra;           /* tokens that come before every item */
  bool halves;             /* the estimate is doubled as a whole number; else tripled */
} ch_ruler_fit;

/* Reads word lists, and the text that the request names: as words for needles, as documents with
 * questions. */
ch_status ch_ruler_read_words(ch_ruler_writer *making, ch_error *error);
ch_status ch_ruler_read_haystack(ch_ruler_writer *making, ch_error *error);
ch_status ch_ruler_read_documents(ch_ruler_writer *making, ch_error *error);
ch_status ch_ruler_read_text(ch_ruler_writer *making, ch_error *error);
/* Documents and questions of a plain text that a user gave or the project has. */
ch_status ch_ruler_questions_of_text(ch_ruler_writer *making, ch_error *error);

/* The noise of needles and of variable tracking. */
extern const char ch_ruler_noise[];
/* Returns true if a word ends a sentence. */
bool ch_ruler_ends_sentence(const char *word);
ch_status ch_ruler_add(ch_ruler_writer *making, ch_ruler_texts *texts, const char *text, ch_error *error);
/* Compares two const char * by strcmp, for qsort and bsearch. */
int ch_ruler_by_text(const void *a, const void *b);
void ch_ruler_sort_unique(ch_ruler_texts *texts);
ch_status ch_ruler_add_question(ch_ruler_writer *making, const ch_ruler_question *question, ch_error *error);
/* Tokens of a text as the model reads it, what its tokenizer puts around it included. */
ch_status ch_ruler_tokens(ch_ruler_writer *making, const char *text, int64_t *tokens, ch_error *error);
/* Appends an item to the list, which then owns it. */
ch_status ch_ruler_put(ch_ruler_writer *making, json_t *list, ch_ruler_item *made, int64_t tokens,
                       ch_error *error);
/* Returns the places 0 ... count - 1 in the order of Random(seed).shuffle; the caller's, NULL when out of
 * memory. */
int64_t *ch_ruler_shuffled(const ch_ruler_writer *making, int64_t count);
/* Writes a random word: k upper or lower letters from `first` on. */
void ch_ruler_letters(ch_ruler_writer *making, char first, int count, char *letters);
ch_status ch_ruler_too_short(const ch_ruler_writer *making, int64_t least, ch_error *error);

#endif
