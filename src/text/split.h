/* Cuts text into words by a pattern (pre-tokenization). Known patterns also have hand-written ASCII
   scanners. */
#ifndef CH_TEXT_SPLIT_H
#define CH_TEXT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/regex.h"

/* Ways to split a text at a match (Hugging Face's names). */
typedef enum ch_split_behavior {
  CH_SPLIT_ISOLATED,
  CH_SPLIT_REMOVED,
  CH_SPLIT_MERGED_WITH_PREVIOUS,
  CH_SPLIT_MERGED_WITH_NEXT,
  CH_SPLIT_CONTIGUOUS
} ch_split_behavior;

/* Patterns that have a scanner. Words that ASCII text decides are found without the regex engine. */
typedef enum ch_split_scanner {
  CH_SCAN_NONE,
  CH_SCAN_GPT2,   /* contractions, " word", " 123", " !?", spaces */
  CH_SCAN_LLAMA3, /* contractions in any case, "(word", three digits, newlines */
  CH_SCAN_QWEN    /* like CH_SCAN_LLAMA3, but digits one by one */
} ch_split_scanner;

/* The pattern of GPT-2, which `ByteLevel` applies by default. */
extern const char ch_pattern_gpt2[];

/* A compiled split. Walking over words does not change it, so threads may share it. */
typedef struct ch_split {
  ch_regex *regex;
  ch_split_scanner scanner;
  ch_split_behavior behavior;
  bool invert; /* true if gaps count as matches, and matches as gaps */
} ch_split;

/* Compiles a pattern of a tokenizer.json, or a literal string. */
ch_status ch_split_compile(ch_split *split, const char *pattern, size_t size, bool literal,
                           ch_split_behavior behavior, bool invert, const char *file, ch_error *error);
void ch_split_free(ch_split *split);

/* Walks over the words of a text, left to right. Bytes that are not UTF-8 are words of their own. */
typedef struct ch_split_cursor {
  const ch_split *split;
  ch_regex_scratch *scratch;
  const unsigned char *at, *end;              /* the rest of the text */
  const unsigned char *stretch, *stretch_end; /* the well-formed part around `at` that the regex searches */
  const unsigned char *match, *match_end;     /* the next match; NULL: none is known */
  const unsigned char *last_end;              /* end of the last match in the stretch, or NULL */
  const unsigned char *held, *held_end;       /* a word that may still grow, or NULL */
  bool last_match, finished; /* last_match: the last part was a match; finished: no part is left */
} ch_split_cursor;

void ch_split_begin(ch_split_cursor *cursor, const ch_split *split, ch_regex_scratch *scratch,
                    const void *text, size_t size);
/* Finds the next word; sets *size to 0 if there are no more. */
ch_status ch_split_next(ch_split_cursor *cursor, const unsigned char **word, size_t *size, ch_error *error);

/* A match, which may be empty, or a gap between matches. */
typedef struct ch_split_part {
  const unsigned char *text;
  size_t size;
  bool is_match;
} ch_split_part;

/* Finds the next match or gap between matches and ignores the split's behaviour. Sets *more to false at the
   end. */
ch_status ch_split_next_part(ch_split_cursor *cursor, ch_split_part *part, bool *more, ch_error *error);

/* Returns the length of the word at p, or 0 if the regex must examine bytes past ASCII. p < end. */
size_t ch_scan_word(ch_split_scanner scanner, const unsigned char *p, const unsigned char *end);

#endif
