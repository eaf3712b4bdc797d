/* The byte alphabet of byte-level BPE. The bytes without a printable Latin-1 character are 0-32, 127-160 and
   173: 33 + 34 + 1 = 68. */
#include "text/byte_level.h"

uint32_t ch_byte_to_character(unsigned char byte) {
  if (byte <= 32) return 256u + byte;
  if (byte >= 127 && byte <= 160) return 256u + 33u + (byte - 127u);
  if (byte == 173) return 256u + 67u;
  return byte;
}

int ch_character_to_byte(uint32_t character) {
  if (character < 256)
    return ch_byte_to_character((unsigned char)character) == character ? (int)character : -1;
  if (character < 256 + 33) return (int)character - 256;
  if (character < 256 + 67) return (int)character - 256 - 33 + 127;
  return character == 256 + 67 ? 173 : -1;
}
