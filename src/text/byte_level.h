/* The byte alphabet of byte-level BPE: every byte has a printable character, as GPT-2 introduced it. */
#ifndef CH_TEXT_BYTE_LEVEL_H
#define CH_TEXT_BYTE_LEVEL_H

#include <stdint.h>

/* Returns the character of a byte: itself for printable Latin-1; the other 68 map to the characters from
   U+0100 on, in order. */
uint32_t ch_byte_to_character(unsigned char byte);
/* Returns the byte of a character, or -1 if the character encodes none. */
int ch_character_to_byte(uint32_t character);

#endif
