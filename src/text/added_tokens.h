/* Added tokens: texts that become one id wherever they occur. They are found before the rest is encoded. */
#ifndef CH_TEXT_ADDED_TOKENS_H
#define CH_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ch_added_token {
  char *content;
  size_t size; /* bytes of `content` */
  int32_t id;
  bool special;        /* omitted from decoded text on request; not recognised in untrusted text */
  bool normalized;     /* matched in the normalized text, in its normalized form */
  bool single_word;    /* matches only where no word character touches it */
  bool lstrip, rstrip; /* true if a match includes white space on its left (on its right) */
} ch_added_token;

/* Finds the leftmost occurrence of any text in a set, and the longest of those texts there. Zero-initialise. */
typedef struct ch_matcher {
  struct ch_matcher_node *nodes; /* a trie: first child, next sibling */
  uint32_t count, capacity;
  bool starts[256]; /* bytes that some text begins with */
} ch_matcher;

/* Adds a text that maps to `value`, which must be at least 0. An empty text is ignored, and of equal texts the
   first counts. Returns false if out of memory. */
bool ch_matcher_add(ch_matcher *matcher, const char *text, size_t size, int32_t value);
void ch_matcher_free(ch_matcher *matcher);
/* Finds the first match in [p, end) and its place; returns its value, or -1 if there is none. */
int32_t ch_matcher_find(const ch_matcher *matcher, const unsigned char *p, const unsigned char *end,
                        const unsigned char **begin, const unsigned char **stop);

/* Widens a match by its token's rules. `from`: the first byte not consumed yet; [text, end): the whole text.
   Returns false if the token may not occur here. */
bool ch_added_token_fits(const ch_added_token *token, const unsigned char *text, const unsigned char *from,
                         const unsigned char *end, const unsigned char **begin, const unsigned char **stop);

#endif
