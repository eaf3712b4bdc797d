/* The generation of RULER's items: declarations shared by all kinds of tasks. */
#ifndef CH_EVAL_RULER_RULER_PRIVATE_H
#define CH_EVAL_RULER_RULER_PRIVATE_H

#include "base/arena.h"
#include "base/text.h"
#include "eval/ruler/ruler.h"
#include "eval/tasks/python_random.h"

/* A list of texts that it does not own. */
typedef struct ch_ruler_texts {
  const char **data;
  int64_t count, capacity;
} ch_ruler_texts;

/* A question about documents. */
typedef struct ch_ruler_question {
  const char *query;
  ch_ruler_texts answers;
  /* indices of documents: `context` [context_count] has the question's own, `more` [more_count] those near them */
  int64_t *context, *more;
  int64_t context_count, more_count;
} ch_ruler_question;

typedef struct ch_ruler_writer {
  const ch_ruler_request *request;
  const ch_ruler *ruler;
  ch_arena arena;
  ch_encoder *encoder;
  ch_ids ids;
  int64_t length;           /* requested length of the items: RULER's max_seq_length */
  int64_t most;             /* `length`, or less so that the model sees the tokens around a text too */
  int64_t done, total;      /* lengths of the finished items and of all items, for progress */
  uint32_t seed;            /* seed of both generators */
  ch_python_random random;  /* Python's module `random` */
  ch_python_random numbers; /* numpy.random */
  /* word lists without repetition: sorted adjectives and nouns; shuffled adjectives, nouns and verbs */
  ch_ruler_texts adjectives, nouns, words;
  ch_ruler_texts haystack; /* CH_RULER_ESSAY: words of the text */
  char *text;              /* text of the haystack or the documents; or NULL */
  /* CH_RULER_TRACKING: solved example before each question, ending in its answer; NULL while it is generated */
  const char *example;
  int64_t example_tokens;
  ch_ruler_texts example_names;
  bool searches;            /* true during the search for a size, in which items do not contain the example */
  ch_ruler_texts documents; /* CH_RULER_QUESTIONS: documents, sorted */
  ch_ruler_question *questions; /* CH_RULER_QUESTIONS: [question_count] */
  int64_t question_count, question_room;
} ch_ruler_writer;

/* An item that is being generated. */
typedef struct ch_ruler_item {
  ch_text input; /* question and the beginning of the answer; NUL-terminated when it is done */
  size_t answer; /* offset at which the answer begins in `input` */
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
/* Generates all items of CH_RULER_FREQUENT for one length. It finds the number of words that fits without
 * ch_ruler_fit. */
ch_status ch_ruler_frequent(ch_ruler_writer *making, int64_t items, json_t *list, ch_error *error);

/* The search for a size that fits. RULER searches from `step` on; if nothing fits, sizes from `least` are tried. */
typedef struct ch_ruler_fit {
  ch_ruler_maker make;
  int64_t sample;          /* first size, from which tokens per part are estimated */
  int64_t step, least;     /* smallest size of RULER's search, and smallest size of any item */
  int64_t length, written; /* maximum tokens of an item with its answer, and maximum tokens of the answer */
  int64_t extra;           /* tokens of the example that precedes every item, which the search leaves out */
  /* true if the search ends at twice the estimate rounded down; false: at three times the estimate */
  bool halves;
} ch_ruler_fit;

/* Reads the word lists. */
ch_status ch_ruler_read_words(ch_ruler_writer *making, ch_error *error);
/* Reads the request's text, or the project's, as words. */
ch_status ch_ruler_read_haystack(ch_ruler_writer *making, ch_error *error);
/* Reads the request's text, or the project's, as documents with questions. */
ch_status ch_ruler_read_documents(ch_ruler_writer *making, ch_error *error);
/* Reads the request's text, or the project's, unchanged. */
ch_status ch_ruler_read_text(ch_ruler_writer *making, ch_error *error);
/* Generates documents and questions from a plain text: the request's, or the project's. */
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
/* Counts the tokens of a text as RULER does, without the tokens that the tokenizer puts around it. Reports progress. */
ch_status ch_ruler_tokens(ch_ruler_writer *making, const char *text, int64_t *tokens, ch_error *error);
/* Appends a finished item to the list as a JSON object. tokens: number of tokens of its input. */
ch_status ch_ruler_put(ch_ruler_writer *making, json_t *list, ch_ruler_item *made, int64_t tokens,
                       ch_error *error);
/* Returns the places 0 ... count - 1 in the order of Random(seed).shuffle; release with free. NULL when out of
 * memory. */
int64_t *ch_ruler_shuffled(const ch_ruler_writer *making, int64_t count);
/* Writes a random word of `count` letters: capital letters if `first` is 'A', small ones if it is 'a'. */
void ch_ruler_letters(ch_ruler_writer *making, char first, int count, char *letters);
ch_status ch_ruler_too_short(const ch_ruler_writer *making, int64_t least, ch_error *error);

#endif
