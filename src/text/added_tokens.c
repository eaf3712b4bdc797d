/* Added tokens: a trie of their texts, and the rules for the characters next to them. */
#include "text/added_tokens.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "text/regex.h"

typedef struct ch_matcher_node {
  uint32_t child, sibling; /* 0 = none: node 0 is the root */
  int32_t value;
  unsigned char byte;
} ch_matcher_node;

static uint32_t child_of(const ch_matcher *matcher, uint32_t node, unsigned char byte) {
  uint32_t child = matcher->nodes[node].child;
  while (child && matcher->nodes[child].byte != byte) child = matcher->nodes[child].sibling;
  return child;
}

static bool reserve(ch_matcher *matcher, size_t more) {
  size_t needed = (size_t)matcher->count + more;
  if (needed <= matcher->capacity) return true;
  size_t capacity = matcher->capacity ? matcher->capacity : 64;
  while (capacity < needed) capacity *= 2;
  if (capacity >= UINT32_MAX) return false;
  ch_matcher_node *nodes = realloc(matcher->nodes, capacity * sizeof *nodes);
  if (!nodes) return false;
  matcher->nodes = nodes;
  matcher->capacity = (uint32_t)capacity;
  return true;
}

bool ch_matcher_add(ch_matcher *matcher, const char *text, size_t size, int32_t value) {
  if (size == 0) return true;
  if (!reserve(matcher, size + 1)) return false;
  if (matcher->count == 0) matcher->nodes[matcher->count++] = (ch_matcher_node){.value = -1};
  uint32_t node = 0;
  for (size_t i = 0; i < size; i++) {
    unsigned char byte = (unsigned char)text[i];
    uint32_t child = child_of(matcher, node, byte);
    if (!child) {
      child = matcher->count++;
      matcher->nodes[child] =
          (ch_matcher_node){.sibling = matcher->nodes[node].child, .value = -1, .byte = byte};
      matcher->nodes[node].child = child;
    }
    node = child;
  }
  /* of equal texts the first counts */
  if (matcher->nodes[node].value < 0) matcher->nodes[node].value = value;
  matcher->starts[(unsigned char)text[0]] = true;
  return true;
}

void ch_matcher_free(ch_matcher *matcher) {
  free(matcher->nodes);
  *matcher = (ch_matcher){0};
}

int32_t ch_matcher_find(const ch_matcher *matcher, const unsigned char *p, const unsigned char *end,
                        const unsigned char **begin, const unsigned char **stop) {
  if (matcher->count == 0) return -1;
  for (; p < end; p++) {
    if (!matcher->starts[*p]) continue;
    int32_t value = -1;
    uint32_t node = 0;
    for (const unsigned char *q = p; q < end; q++) {
      node = child_of(matcher, node, *q);
      if (!node) break;
      if (matcher->nodes[node].value < 0) continue;
      value = matcher->nodes[node].value;
      *stop = q + 1;
    }
    if (value < 0) continue;
    *begin = p;
    return value;
  }
  return -1;
}

static uint32_t character_before(const unsigned char *text, const unsigned char *p,
                                 const unsigned char **start) {
  uint32_t code_point = 0;
  const unsigned char *q = p;
  while (q > text && p - q < 4 && (*--q & 0xc0) == 0x80) {
  }
  if (q == p || ch_utf8_decode(q, p, &code_point) != (size_t)(p - q)) return UINT32_MAX;
  *start = q;
  return code_point;
}

static uint32_t character_at(const unsigned char *p, const unsigned char *end, const unsigned char **stop) {
  uint32_t code_point = 0;
  size_t length = p < end ? ch_utf8_decode(p, end, &code_point) : 0;
  *stop = p + length;
  return length ? code_point : UINT32_MAX;
}

static bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool ch_added_token_fits(const ch_added_token *token, const unsigned char *text, const unsigned char *from,
                         const unsigned char *end, const unsigned char **begin, const unsigned char **stop) {
  const unsigned char *place;
  if (token->single_word && (ch_is_word_character(character_before(text, *begin, &place)) ||
                             ch_is_word_character(character_at(*stop, end, &place))))
    return false;
  while (token->lstrip && *begin > from && is_space(character_before(text, *begin, &place))) *begin = place;
  while (token->rstrip && is_space(character_at(*stop, end, &place))) *stop = place;
  return true;
}
