/* UTF-8: strict decoding, valid prefixes, replacement of invalid bytes, and encoding. */
#ifndef CH_BASE_UTF8_H
#define CH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"

/* Returns the number of bytes of the well-formed code point at p (1 to 4), or 0 if the bytes there are not UTF-8. p
   must be below `end`. */
size_t ch_utf8_decode(const unsigned char *p, const unsigned char *end, uint32_t *code_point);

/* Returns the length of the longest well-formed prefix. */
size_t ch_utf8_valid_prefix(const unsigned char *text, size_t size);

/* Returns the number of bytes at the end of a text that begin an unfinished character. */
size_t ch_utf8_unfinished(const unsigned char *text, size_t size);

/* Returns the number of characters of valid UTF-8, which is its columns on a terminal if no character is wide. */
int ch_utf8_count(const char *text);

/* Appends `size` bytes to `text`, with invalid bytes replaced by U+FFFD as in Python and Unicode: the longest beginning
   of a character by one U+FFFD, other bytes one by one. */
void ch_put_valid_utf8(ch_text *text, const char *bytes, size_t size);
/* Returns a copy of a string in the arena, with invalid bytes replaced as in ch_put_valid_utf8; NULL if out of
   memory. */
const char *ch_valid_text(ch_arena *arena, const char *text);

/* Writes 1 to 4 bytes. Returns their number. */
size_t ch_utf8_encode(uint32_t code_point, unsigned char out[4]);

/* Returns true for the characters that Python's str.isspace and \s accept. */
bool ch_is_white_space(uint32_t code_point);

#endif
