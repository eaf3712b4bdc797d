/* A fast 64-bit hash of bytes for tables and fingerprints (not for secrets). Files store such
   hashes, so the function must never change. */
#ifndef CH_TEXT_HASH_H
#define CH_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Multiplies to 128 bits and folds the halves together. */
static inline uint64_t ch_hash_mix(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t ch_hash_u64(uint64_t value) {
  return ch_hash_mix(value ^ 0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u);
}

static inline uint64_t ch_hash_bytes(const void *data, size_t size, uint64_t seed) {
  const unsigned char *p = data;
  uint64_t hash = seed ^ 0x2545f4914f6cdd1du ^ (uint64_t)size * 0x9e3779b97f4a7c15u, word;
  size_t left = size;
  for (; left >= 8; p += 8, left -= 8) {
    memcpy(&word, p, 8);
    hash = ch_hash_mix(hash ^ word, 0xa0761d6478bd642fu);
  }
  word = 0;
  if (left) memcpy(&word, p, left);
  return ch_hash_mix(hash ^ word, 0xe7037ed1a0b428dbu);
}

/* Returns the hash of a text, or 0 for NULL. */
static inline uint64_t ch_hash_text(const char *text) {
  return text ? ch_hash_bytes(text, strlen(text), 1) : 0;
}

/* Returns the hash of several texts in this order. Each may be NULL. */
static inline uint64_t ch_hash_texts(const char *const *texts, size_t count) {
  uint64_t hash = 1;
  for (size_t i = 0; i < count; i++) hash = ch_hash_mix(hash ^ ch_hash_text(texts[i]), i + 7);
  return hash;
}

#endif
