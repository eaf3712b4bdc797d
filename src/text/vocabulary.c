/* A vocabulary: one pool of bytes, spans by id, an open-addressing table by piece. */
#include "text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "text/hash.h"
#include "base/utf8.h"

static size_t slot_of(const ch_vocabulary *vocabulary, const char *piece, size_t size) {
  size_t slot = ch_hash_bytes(piece, size, 0) & vocabulary->slot_mask;
  for (;; slot = (slot + 1) & vocabulary->slot_mask) {
    uint32_t entry = vocabulary->slots[slot];
    if (entry == 0) return slot;
    ch_span span = vocabulary->spans[entry - 1];
    if (span.size == size && memcmp(vocabulary->pool.data + span.at, piece, size) == 0) return slot;
  }
}

static bool grow_slots(ch_vocabulary *vocabulary) {
  size_t slots = vocabulary->slots ? (vocabulary->slot_mask + 1) * 2 : 1024;
  uint32_t *old = vocabulary->slots, *fresh = calloc(slots, sizeof *fresh);
  if (!fresh) return false;
  vocabulary->slots = fresh;
  vocabulary->slot_mask = slots - 1;
  free(old);
  for (int32_t id = 0; id < vocabulary->size; id++) {
    ch_span span = vocabulary->spans[id];
    if (span.size == UINT32_MAX) continue;
    fresh[slot_of(vocabulary, vocabulary->pool.data + span.at, span.size)] = (uint32_t)id + 1;
  }
  return true;
}

static bool reach(ch_vocabulary *vocabulary, int32_t id) {
  if (id >= vocabulary->capacity) {
    int32_t capacity = vocabulary->capacity ? vocabulary->capacity : 1024;
    while (capacity <= id) capacity *= 2;
    ch_span *spans = realloc(vocabulary->spans, (size_t)capacity * sizeof *spans);
    if (!spans) return false;
    vocabulary->spans = spans;
    vocabulary->capacity = capacity;
  }
  for (; vocabulary->size <= id; vocabulary->size++)
    vocabulary->spans[vocabulary->size] = (ch_span){0, UINT32_MAX};
  return true;
}

ch_status ch_vocabulary_add(ch_vocabulary *vocabulary, const char *piece, size_t size, int64_t id,
                            const char *file, ch_error *error) {
  char shown[64];
  if (id < 0 || id >= CH_VOCABULARY_LIMIT)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: token \"%s\" has the id %lld; ids go from 0 to %d", file,
                   ch_piece_for_message(piece, size, shown), (long long)id, CH_VOCABULARY_LIMIT - 1);
  if (size >= UINT32_MAX || vocabulary->pool.size + size >= UINT32_MAX)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: the vocabulary's pieces exceed 4 GiB together", file);
  size_t slots = vocabulary->slots ? vocabulary->slot_mask + 1 : 0;
  if ((size_t)vocabulary->count * 2 >= slots && !grow_slots(vocabulary)) goto no_memory;
  if (!reach(vocabulary, (int32_t)id)) goto no_memory;
  size_t slot = slot_of(vocabulary, piece, size);
  if (vocabulary->slots[slot])
    return ch_fail(error, CH_ERROR_FORMAT, "%s: token \"%s\" appears twice, as id %u and as id %lld", file,
                   ch_piece_for_message(piece, size, shown), vocabulary->slots[slot] - 1, (long long)id);
  if (vocabulary->spans[id].size != UINT32_MAX)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: id %lld belongs to two tokens, the second is \"%s\"", file,
                   (long long)id, ch_piece_for_message(piece, size, shown));
  uint32_t at = (uint32_t)vocabulary->pool.size;
  ch_text_put(&vocabulary->pool, piece, size);
  if (vocabulary->pool.failed) goto no_memory;
  vocabulary->spans[id] = (ch_span){at, (uint32_t)size};
  vocabulary->slots[slot] = (uint32_t)id + 1;
  vocabulary->count++;
  return CH_OK;
no_memory:
  return ch_no_memory(error);
}

int32_t ch_vocabulary_find(const ch_vocabulary *vocabulary, const char *piece, size_t size) {
  return vocabulary->slots ? (int32_t)vocabulary->slots[slot_of(vocabulary, piece, size)] - 1 : -1;
}

int32_t ch_vocabulary_find_joined(const ch_vocabulary *vocabulary, int32_t left, int32_t right,
                                  ch_text *scratch) {
  size_t left_size, right_size;
  const char *left_piece = ch_vocabulary_piece(vocabulary, left, &left_size);
  const char *right_piece = ch_vocabulary_piece(vocabulary, right, &right_size);
  if (!left_piece || !right_piece) return -1;
  scratch->size = 0;
  ch_text_put(scratch, left_piece, left_size);
  ch_text_put(scratch, right_piece, right_size);
  return scratch->failed ? -1 : ch_vocabulary_find(vocabulary, scratch->data, scratch->size);
}

const char *ch_vocabulary_piece(const ch_vocabulary *vocabulary, int32_t id, size_t *size) {
  if (id < 0 || id >= vocabulary->size || vocabulary->spans[id].size == UINT32_MAX) return NULL;
  *size = vocabulary->spans[id].size;
  return vocabulary->pool.data ? vocabulary->pool.data + vocabulary->spans[id].at : "";
}

void ch_vocabulary_free(ch_vocabulary *vocabulary) {
  ch_text_free(&vocabulary->pool);
  free(vocabulary->spans);
  free(vocabulary->slots);
  *vocabulary = (ch_vocabulary){0};
}

const char *ch_piece_for_message(const char *piece, size_t size, char buffer[64]) {
  const unsigned char *p = (const unsigned char *)piece, *end = p + size;
  size_t used = 0;
  while (p < end && used < 56) {
    uint32_t code_point;
    size_t length = ch_utf8_decode(p, end, &code_point);
    bool plain = length > 0 && code_point >= 0x20 && code_point != 0x7f;
    if (plain)
      memcpy(buffer + used, p, length);
    else
      buffer[used] = '?';
    used += plain ? length : 1;
    p += length ? length : 1;
  }
  memcpy(buffer + used, p < end ? "..." : "", p < end ? 4 : 1);
  return buffer;
}
