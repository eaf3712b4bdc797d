/* The merges of BPE: a hash table of pairs. Short words are merged by scanning for the minimum, long ones with
   a heap. */
#include "text/merges.h"

#include <stdlib.h>
#include <string.h>

#include "text/hash.h"

/* Up to this length a scan over ranks in a few cache lines is faster than a heap. */
enum { SHORT_WORD = 48 };
static const int32_t no_rank = INT32_MAX;
static const uint32_t none = UINT32_MAX;

static size_t slot_of(const ch_merges *merges, int32_t left, int32_t right) {
  size_t slot = ch_hash_u64((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & merges->mask;
  while (merges->slots[slot].rank >= 0 &&
         (merges->slots[slot].left != left || merges->slots[slot].right != right))
    slot = (slot + 1) & merges->mask;
  return slot;
}

bool ch_merges_reserve(ch_merges *merges, size_t count) {
  size_t slots = merges->slots ? merges->mask + 1 : 64;
  while (slots < count * 2) slots *= 2;
  if (merges->slots && slots == merges->mask + 1) return true;
  ch_merges bigger = {malloc(slots * sizeof(ch_merge)), slots - 1, merges->count};
  if (!bigger.slots) return false;
  for (size_t i = 0; i < slots; i++) bigger.slots[i].rank = -1;
  for (size_t i = 0; merges->slots && i <= merges->mask; i++)
    if (merges->slots[i].rank >= 0)
      bigger.slots[slot_of(&bigger, merges->slots[i].left, merges->slots[i].right)] = merges->slots[i];
  free(merges->slots);
  *merges = bigger;
  return true;
}

bool ch_merges_set(ch_merges *merges, ch_merge merge) {
  if (!ch_merges_reserve(merges, merges->count + 1)) return false;
  ch_merge *slot = &merges->slots[slot_of(merges, merge.left, merge.right)];
  merges->count += slot->rank < 0;
  *slot = merge;
  return true;
}

const ch_merge *ch_merges_find(const ch_merges *merges, int32_t left, int32_t right) {
  if (!merges->slots) return NULL;
  const ch_merge *slot = &merges->slots[slot_of(merges, left, right)];
  return slot->rank < 0 ? NULL : slot;
}

void ch_merges_free(ch_merges *merges) {
  free(merges->slots);
  *merges = (ch_merges){0};
}

static bool resize(void *array, size_t count, size_t element) {
  void **pointer = array, *fresh = realloc(*pointer, count * element);
  if (fresh) *pointer = fresh;
  return fresh != NULL;
}

bool ch_merge_scratch_reserve(ch_merge_scratch *scratch, size_t count) {
  if (count <= scratch->capacity) return true;
  size_t capacity = scratch->capacity ? scratch->capacity : 256;
  while (capacity < count) capacity *= 2;
  if (!resize(&scratch->ids, capacity, sizeof(int32_t)) ||
      !resize(&scratch->ranks, capacity, sizeof(int32_t)) ||
      !resize(&scratch->merged, capacity, sizeof(int32_t)) ||
      !resize(&scratch->next, capacity, sizeof(uint32_t)) ||
      !resize(&scratch->previous, capacity, sizeof(uint32_t)))
    return false;
  scratch->capacity = capacity;
  return true;
}

void ch_merge_scratch_free(ch_merge_scratch *scratch) {
  free(scratch->ids);
  free(scratch->ranks);
  free(scratch->merged);
  free(scratch->next);
  free(scratch->previous);
  free(scratch->heap);
  *scratch = (ch_merge_scratch){0};
}

/* Looks up the pair that starts at position i with right neighbour j. */
static void rate(const ch_merges *merges, ch_merge_scratch *scratch, size_t i, size_t j) {
  const ch_merge *merge = ch_merges_find(merges, scratch->ids[i], scratch->ids[j]);
  scratch->ranks[i] = merge ? merge->rank : no_rank;
  scratch->merged[i] = merge ? merge->id : -1;
}

static void merge_short(const ch_merges *merges, ch_merge_scratch *scratch, size_t *count) {
  size_t n = *count;
  int32_t *ids = scratch->ids, *ranks = scratch->ranks, *merged = scratch->merged;
  for (size_t i = 0; i + 1 < n; i++) rate(merges, scratch, i, i + 1);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; i++)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == no_rank) break;
    ids[best] = merged[best];
    size_t tail = n - best - 2; /* symbols after the pair */
    memmove(ids + best + 1, ids + best + 2, tail * sizeof *ids);
    memmove(ranks + best, ranks + best + 1, tail * sizeof *ranks);
    memmove(merged + best, merged + best + 1, tail * sizeof *merged);
    n--;
    if (best + 1 < n) rate(merges, scratch, best, best + 1);
    if (best > 0) rate(merges, scratch, best - 1, best);
  }
  *count = n;
}

static void sift_down(uint64_t *heap, size_t size, size_t at) {
  uint64_t key = heap[at];
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= size) break;
    if (child + 1 < size && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= key) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = key;
}

/* Pushes a pair onto the heap. Its key orders by rank, then by position. */
static bool push(ch_merge_scratch *scratch, size_t position) {
  if (scratch->ranks[position] == no_rank) return true;
  if (scratch->heap_size == scratch->heap_capacity) {
    size_t capacity = scratch->heap_capacity ? scratch->heap_capacity * 2 : 256;
    if (!resize(&scratch->heap, capacity, sizeof(uint64_t))) return false;
    scratch->heap_capacity = capacity;
  }
  uint64_t key = (uint64_t)scratch->ranks[position] << 32 | position;
  size_t at = scratch->heap_size++;
  for (; at > 0 && scratch->heap[(at - 1) / 2] > key; at = (at - 1) / 2)
    scratch->heap[at] = scratch->heap[(at - 1) / 2];
  scratch->heap[at] = key;
  return true;
}

static uint64_t pop(ch_merge_scratch *scratch) {
  uint64_t top = scratch->heap[0];
  scratch->heap[0] = scratch->heap[--scratch->heap_size];
  if (scratch->heap_size > 1) sift_down(scratch->heap, scratch->heap_size, 0);
  return top;
}

static bool rate_and_push(const ch_merges *merges, ch_merge_scratch *scratch, uint32_t i, uint32_t j) {
  rate(merges, scratch, i, j);
  return push(scratch, i);
}

/* Merges a long word with a heap. Entries whose rank is no longer their position's are stale and skipped. */
static bool merge_long(const ch_merges *merges, ch_merge_scratch *scratch, size_t *count) {
  uint32_t n = (uint32_t)*count;
  uint32_t *next = scratch->next, *previous = scratch->previous;
  scratch->heap_size = 0;
  for (uint32_t i = 0; i < n; i++) {
    next[i] = i + 1 < n ? i + 1 : none;
    previous[i] = i > 0 ? i - 1 : none;
    if (i + 1 < n && !rate_and_push(merges, scratch, i, i + 1)) return false;
  }
  scratch->ranks[n - 1] = no_rank;
  while (scratch->heap_size > 0) {
    uint64_t key = pop(scratch);
    uint32_t i = (uint32_t)key;
    if (scratch->ranks[i] != (int32_t)(key >> 32)) continue;
    uint32_t gone = next[i], after = next[gone];
    scratch->ids[i] = scratch->merged[i];
    scratch->ranks[i] = scratch->ranks[gone] = no_rank;
    next[i] = after;
    if (after != none) {
      previous[after] = i;
      if (!rate_and_push(merges, scratch, i, after)) return false;
    }
    if (previous[i] != none && !rate_and_push(merges, scratch, previous[i], i)) return false;
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != none; i = next[i]) scratch->ids[kept++] = scratch->ids[i];
  *count = kept;
  return true;
}

bool ch_merge_word(const ch_merges *merges, ch_merge_scratch *scratch, size_t *count) {
  if (*count < 2 || !merges->slots) return true;
  if (*count > SHORT_WORD) return merge_long(merges, scratch, count);
  merge_short(merges, scratch, count);
  return true;
}
