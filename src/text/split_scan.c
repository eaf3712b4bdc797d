/* Hand-written scanners of ASCII text for three well-known split patterns. Tests compare them with the regexes. */
#include "text/split.h"

/* Classes of a byte. HIGH starts a character past ASCII, whose class only the regex knows. */
enum { OTHER = 0, LETTER = 1, DIGIT = 2, SPACE = 3, NEWLINE = 4, HIGH = 5 };

static inline int class_of(unsigned char c) {
  if ((unsigned char)((c | 32) - 'a') < 26) return LETTER;
  if (c == ' ') return SPACE;
  if (c >= 128) return HIGH;
  if ((unsigned char)(c - '0') < 10) return DIGIT;
  if (c == '\n' || c == '\r') return NEWLINE;
  return c == '\t' || c == '\v' || c == '\f' ? SPACE : OTHER;
}

static inline bool is_letter(unsigned char c) {
  return (unsigned char)((c | 32) - 'a') < 26;
}

/* Returns the length of 's 't 'm 'd 're 've 'll at an apostrophe, or 0 if there is none. `fold` is 32 to
   ignore case. */
static inline size_t contraction(const unsigned char *p, const unsigned char *end, unsigned char fold) {
  if (end - p < 2) return 0;
  unsigned char a = p[1] | fold;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (end - p < 3) return 0;
  unsigned char b = p[2] | fold;
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* Returns the end of the run of one class from q on, or NULL if a character past ASCII could continue it. */
static inline const unsigned char *run_of(int wanted, const unsigned char *q, const unsigned char *end) {
  while (q < end && class_of(*q) == wanted) q++;
  return q < end && *q >= 128 ? NULL : q;
}

static inline const unsigned char *letters(const unsigned char *q, const unsigned char *end) {
  while (q < end && is_letter(*q)) q++;
  return q < end && *q >= 128 ? NULL : q;
}

static inline size_t length_or_zero(const unsigned char *p, const unsigned char *stop) {
  return stop ? (size_t)(stop - p) : 0;
}

/* Returns the length of `\s+(?!\S)|\s+`: all of the white space at the end of the text, or else all but its last
   character, which may belong to the next word. */
static inline size_t all_but_last(const unsigned char *p, const unsigned char *stop,
                                  const unsigned char *end) {
  size_t run = (size_t)(stop - p);
  return stop == end || run == 1 ? run : run - 1;
}

/* Scans a word of the pattern
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ . */
static size_t scan_gpt2(const unsigned char *p, const unsigned char *end) {
  const unsigned char *q = p;
  if (*p == '\'') {
    size_t length = contraction(p, end, 0);
    if (length) return length;
  } else if (*p == ' ' && end - p > 1) {
    int next = class_of(p[1]);
    if (next == HIGH) return 0;
    if (next == LETTER || next == DIGIT || next == OTHER) q++;
  }
  int class = class_of(*q);
  if (class == LETTER) return length_or_zero(p, letters(q, end));
  if (class == DIGIT || class == OTHER) return length_or_zero(p, run_of(class, q, end));
  if (class == HIGH) return 0;
  while (q < end && (class_of(*q) == SPACE || class_of(*q) == NEWLINE)) q++;
  return q < end && *q >= 128 ? 0 : all_but_last(p, q, end);
}

/* Scans a word of the pattern
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
 * \s+(?!\S)|\s+ . With most_digits = 1, it has \p{N} instead of \p{N}{1,3}. */
static inline size_t scan_llama3(const unsigned char *p, const unsigned char *end, int most_digits) {
  int class = class_of(*p), next = end - p > 1 ? class_of(p[1]) : NEWLINE;
  if (class == LETTER) return length_or_zero(p, letters(p, end));
  if (class == HIGH) return 0;
  if (class == DIGIT) {
    const unsigned char *q = p + 1;
    while (q < end && q - p < most_digits && class_of(*q) == DIGIT) q++;
    return q < end && q - p < most_digits && *q >= 128 ? 0 : (size_t)(q - p);
  }
  if (*p == '\'') {
    size_t length = contraction(p, end, 32);
    if (length) return length;
  }
  if (class != NEWLINE && next == HIGH) return 0;
  if (class != NEWLINE && next == LETTER) return length_or_zero(p, letters(p + 1, end));
  if (class == OTHER || (*p == ' ' && next == OTHER)) {
    const unsigned char *q = run_of(OTHER, p + 1, end);
    while (q && q < end && (*q == '\n' || *q == '\r')) q++;
    return length_or_zero(p, q);
  }
  const unsigned char *q = p, *after_newline = NULL;
  for (; q < end; q++) {
    int c = class_of(*q);
    if (c == NEWLINE)
      after_newline = q + 1;
    else if (c != SPACE)
      break;
  }
  if (q < end && *q >= 128) return 0;
  return after_newline ? (size_t)(after_newline - p) : all_but_last(p, q, end);
}

size_t ch_scan_word(ch_split_scanner scanner, const unsigned char *p, const unsigned char *end) {
  switch (scanner) {
  case CH_SCAN_GPT2:
    return scan_gpt2(p, end);
  case CH_SCAN_LLAMA3:
    return scan_llama3(p, end, 3);
  case CH_SCAN_QWEN:
    return scan_llama3(p, end, 1);
  case CH_SCAN_NONE:
    break;
  }
  return 0;
}
