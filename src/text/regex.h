/* Patterns of tokenizer.json, with Oniguruma's semantics. */
#ifndef CH_TEXT_REGEX_H
#define CH_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* A compiled pattern. Matching does not change it, so threads may share it. */
typedef struct ch_regex ch_regex;

/* Compiles a pattern (UTF-8), or a literal string. An empty pattern matches between all characters. */
ch_status ch_regex_compile(ch_regex **regex, const char *pattern, size_t size, bool literal, const char *file,
                           ch_error *error);
void ch_regex_free(ch_regex *regex);

/* Returns true if the pattern is matched by PCRE2's compiled code, which is faster. This requires a syntax that
   has one meaning in both libraries. */
bool ch_regex_is_fast(const ch_regex *regex);
/* Makes the pattern match by Oniguruma alone from now on (for tests). */
void ch_regex_slow_down(ch_regex *regex);

/* Working memory of matching; one per thread. Zero-initialise. */
typedef struct ch_regex_scratch {
  struct pcre2_real_match_data_8 *data;
  struct pcre2_real_match_context_8 *context;
  struct pcre2_real_jit_stack_8 *stack;
  struct re_registers *region;
  struct OnigMatchParamStruct *limits;
} ch_regex_scratch;

ch_status ch_regex_scratch_open(ch_regex_scratch *scratch, ch_error *error);
void ch_regex_scratch_close(ch_regex_scratch *scratch);
/* Finds the first match at or after `from` in well-formed UTF-8. *found is false if there is none. Fails with
   CH_ERROR_FORMAT if the pattern needs too many steps on the text. */
ch_status ch_regex_find(const ch_regex *regex, ch_regex_scratch *scratch, const unsigned char *text,
                        size_t size, size_t from, bool *found, size_t *begin, size_t *end, ch_error *error);

/* Returns true for a word character by Unicode's rules for regular expressions: letters and other alphabetic
   characters, marks, decimal digits, connecting punctuation, joiners. */
bool ch_is_word_character(unsigned code_point);

#endif
