/* The merges of BPE: pairs of ids, each with a rank and the id that it becomes. A word is merged by
 * repeatedly replacing its pair of the lowest rank. */
#ifndef CH_TEXT_MERGES_H
#define CH_TEXT_MERGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One pair. Lower ranks merge first; pairs of equal rank merge from left to right. */
typedef struct ch_merge {
  int32_t left, right, rank, id;
} ch_merge;

/* An open-addressing hash table of pairs. Zero-initialise. */
typedef struct ch_merges {
  ch_merge *slots;    /* rank < 0: free */
  size_t mask, count; /* mask: number of slots - 1; count: number of pairs */
} ch_merges;

/* Makes room for `count` pairs. Returns false if out of memory. */
bool ch_merges_reserve(ch_merges *merges, size_t count);
/* Adds a pair or replaces its rank and id. Returns false if out of memory. */
bool ch_merges_set(ch_merges *merges, ch_merge merge);
/* Returns the merge of a pair, or NULL if the pair does not merge. */
const ch_merge *ch_merges_find(const ch_merges *merges, int32_t left, int32_t right);
void ch_merges_free(ch_merges *merges);

/* Working memory of ch_merge_word; zero-initialise, reuse, release. */
typedef struct ch_merge_scratch {
  int32_t *ids, *ranks, *merged; /* [capacity], by position */
  uint32_t *next, *previous;     /* linked list of the remaining symbols, for long words */
  uint64_t *heap;
  size_t capacity, heap_size, heap_capacity;
} ch_merge_scratch;

/* Makes room for `count` symbols in scratch->ids. Its contents are preserved. Returns false if out of
   memory. */
bool ch_merge_scratch_reserve(ch_merge_scratch *scratch, size_t count);
void ch_merge_scratch_free(ch_merge_scratch *scratch);

/* Merges the first `count` ids of scratch->ids in place until no pair is left: always the pair of lowest
 * rank, the leftmost first. O(n log n). Sets *count to the number of ids that remain. Returns false
 * if out of memory. */
bool ch_merge_word(const ch_merges *merges, ch_merge_scratch *scratch, size_t *count);

#endif
