/* RULER (Hsieh et al., 2024): texts of any length with something to find in them, generated from a seed for any
 * tokenizer.
 *
 * Items are generated as by RULER's own scripts, with Python's random numbers in the same order. The scripts download
 * lists of words and the text around needles; here these come from this project or the user. docs/ruler.md has the
 * definition. */
#ifndef CH_EVAL_RULER_RULER_H
#define CH_EVAL_RULER_RULER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <crosshead/common.h>

#include "base/error.h"
#include "text/tokenizer.h"

typedef enum ch_ruler_kind {
  CH_RULER_NONE,
  CH_RULER_NEEDLES,  /* "niah": sentences with the value of a key, hidden in other text */
  CH_RULER_TRACKING, /* "variable_tracking": chains of assignments */
  CH_RULER_COMMON,   /* "common_words_extraction": the words of a list that occur most often */
  CH_RULER_FREQUENT, /* "freq_words_extraction": the most frequent of generated words, by Zipf's law */
  CH_RULER_QUESTIONS /* "qa": questions about one or a few of many documents */
} ch_ruler_kind;

typedef enum ch_ruler_haystack {
  CH_RULER_NOISE,  /* lines of the same five short sentences */
  CH_RULER_ESSAY,  /* a text */
  CH_RULER_NEEDLE, /* needles with other keys */
} ch_ruler_haystack;

typedef enum ch_ruler_content { CH_RULER_WORDS, CH_RULER_NUMBERS, CH_RULER_UUIDS } ch_ruler_content;

enum { CH_RULER_MOST_NEEDLES = 40, CH_RULER_MOST_HOPS = 10, CH_RULER_MOST_CHAINS = 10 };

/* The settings that generate items; members have the names of RULER's arguments. */
typedef struct ch_ruler {
  ch_ruler_kind kind;
  ch_ruler_haystack type_haystack;
  ch_ruler_content type_needle_k, type_needle_v;
  int num_needle_k, num_needle_v, num_needle_q;
  int num_chains, num_hops;
  int freq_cw, freq_ucw, num_cw;
} ch_ruler;

typedef struct ch_ruler_request {
  const char *name; /* name of the task, for messages */
  const ch_ruler *ruler;
  const ch_tokenizer *tokenizer;
  int64_t written;      /* tokens that the model writes; a length includes them */
  int64_t window;       /* tokens that the model sees at once */
  const char *text;     /* file of the text, or of documents with questions; NULL: the project's text */
  const char *lengths;  /* numbers of tokens, "4096" or "4k,8k", separated by commas; NULL: 4096 */
  uint64_t seed;        /* seed below 2^32 */
  int64_t limit;        /* items of each length; 0: 100 */
  ch_progress progress; /* called with tokens done and in total; or NULL */
  void *user;
} ch_ruler_request;

/* Generates a list of objects with RULER's names: index, input, outputs, answer_prefix, length (tokens of the input,
 * the prefix and the answer), max_length (the requested length). Errors: CH_ERROR_ARGUMENT for a length that the task
 * or the model cannot have or a text without enough words or questions, CH_ERROR_FORMAT for a text that is not UTF-8 or
 * documents of an unknown form, CH_ERROR_INTERRUPTED. */
ch_status ch_ruler_make(const ch_ruler_request *request, json_t **items, ch_error *error);

/* Sets *holds to true if `path` is a directory or a file of finished items, and to false if it is a text to generate
 * items from, or NULL. */
ch_status ch_ruler_holds_items(const char *path, bool *holds, ch_error *error);

#endif
