/* Trains a byte-level BPE vocabulary. Pair counts are updated where a merge changes them. A heap with lazy
 * updates gives the most frequent pair. */
#include "text/bpe_train.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "text/byte_level.h"
#include "text/hash.h"
#include "text/vocabulary.h"

static const uint32_t none = UINT32_MAX;

/* A pair of neighbouring tokens, its count, and the positions where it was seen. */
typedef struct pair {
  int32_t left, right;
  int64_t count;
  uint32_t *places; /* positions of the left token; outdated ones are skipped */
  uint32_t place_count, place_capacity;
  bool raised; /* true if the merge in progress created new places of the pair */
} pair;

typedef struct heap_entry {
  int64_t count; /* the pair's count when it was pushed, possibly outdated */
  uint32_t pair;
} heap_entry;

typedef struct trainer {
  /* All distinct words one after another, with one position per byte. A merge removes the right token's
     position. */
  int32_t *token;            /* -1: removed */
  uint32_t *next, *previous; /* neighbour within the word, or none */
  uint32_t *word;            /* index of the position's word */
  const ch_word_counts *words;
  uint32_t positions;

  pair *pairs;
  uint32_t pair_count, pair_capacity;
  uint32_t *slots; /* hash table of pair index + 1 */
  size_t mask;

  uint32_t *raised; /* pairs to put in the heap after the merge in progress */
  size_t raised_count, raised_capacity;

  heap_entry *heap;
  size_t heap_size, heap_capacity;

  ch_text bytes; /* the bytes of all tokens */
  struct {
    size_t at, size;
  } * spans; /* [vocab_size] place of each token in `bytes`, by id */
  int32_t token_count;
  int32_t *token_slots; /* hash table of id + 1 by bytes */
  size_t token_mask;
  bool failed; /* true when out of memory */
} trainer;

static bool resize(void *array, size_t count, size_t element) {
  void **pointer = array, *fresh = realloc(*pointer, count * element);
  if (fresh) *pointer = fresh;
  return fresh != NULL;
}

static size_t slot_of(const trainer *t, int32_t left, int32_t right) {
  size_t slot = ch_hash_u64((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & t->mask;
  while (t->slots[slot]) {
    const pair *found = &t->pairs[t->slots[slot] - 1];
    if (found->left == left && found->right == right) break;
    slot = (slot + 1) & t->mask;
  }
  return slot;
}

static bool grow_pairs(trainer *t) {
  uint32_t capacity = t->pair_capacity ? t->pair_capacity * 2 : 4096;
  uint32_t *slots = calloc((size_t)capacity * 2, sizeof *slots);
  if (!slots || !resize(&t->pairs, capacity, sizeof *t->pairs)) {
    free(slots);
    return false;
  }
  free(t->slots);
  t->slots = slots;
  t->mask = (size_t)capacity * 2 - 1;
  t->pair_capacity = capacity;
  for (uint32_t i = 0; i < t->pair_count; i++)
    t->slots[slot_of(t, t->pairs[i].left, t->pairs[i].right)] = i + 1;
  return true;
}

/* Returns the index of a pair, and creates it if it is new. */
static uint32_t pair_index(trainer *t, int32_t left, int32_t right) {
  if (t->pair_count == t->pair_capacity && !grow_pairs(t)) {
    t->failed = true;
    return 0;
  }
  size_t slot = slot_of(t, left, right);
  if (t->slots[slot] == 0) {
    t->pairs[t->pair_count++] = (pair){.left = left, .right = right};
    t->slots[slot] = t->pair_count;
  }
  return t->slots[slot] - 1;
}

static void raise_pair(trainer *t, uint32_t index) {
  if (t->raised_count == t->raised_capacity) {
    size_t capacity = t->raised_capacity ? t->raised_capacity * 2 : 4096;
    if (!resize(&t->raised, capacity, sizeof *t->raised)) {
      t->failed = true;
      return;
    }
    t->raised_capacity = capacity;
  }
  t->raised[t->raised_count++] = index;
  t->pairs[index].raised = true;
}

/* Counts the pair that begins at a position and saves the position. */
static void add_pair(trainer *t, uint32_t position) {
  uint32_t index = pair_index(t, t->token[position], t->token[t->next[position]]);
  if (t->failed) return;
  pair *p = &t->pairs[index];
  if (p->place_count == p->place_capacity) {
    uint32_t capacity = p->place_capacity ? p->place_capacity * 2 : 4;
    if (!resize(&p->places, capacity, sizeof *p->places)) {
      t->failed = true;
      return;
    }
    p->place_capacity = capacity;
  }
  p->places[p->place_count++] = position;
  p->count += t->words->words[t->word[position]].count;
  if (!p->raised) raise_pair(t, index);
}

static void remove_pair(trainer *t, uint32_t position) {
  size_t slot = slot_of(t, t->token[position], t->token[t->next[position]]);
  t->pairs[t->slots[slot] - 1].count -= t->words->words[t->word[position]].count;
}

static int compare_bytes(const trainer *t, int32_t a, int32_t b) {
  size_t x = t->spans[a].size, y = t->spans[b].size;
  int order = memcmp(t->bytes.data + t->spans[a].at, t->bytes.data + t->spans[b].at, x < y ? x : y);
  return order ? order : (x > y) - (x < y);
}

/* Returns true if a goes before b: it is more frequent, or equally frequent and greater in the bytes of its left,
   then of its right token. */
static bool goes_first(const trainer *t, heap_entry a, heap_entry b) {
  if (a.count != b.count) return a.count > b.count;
  const pair *p = &t->pairs[a.pair], *q = &t->pairs[b.pair];
  int order = compare_bytes(t, p->left, q->left);
  return (order ? order : compare_bytes(t, p->right, q->right)) > 0;
}

static void push(trainer *t, uint32_t index) {
  if (t->heap_size == t->heap_capacity) {
    size_t capacity = t->heap_capacity ? t->heap_capacity * 2 : 4096;
    if (!resize(&t->heap, capacity, sizeof *t->heap)) {
      t->failed = true;
      return;
    }
    t->heap_capacity = capacity;
  }
  heap_entry entry = {t->pairs[index].count, index};
  size_t at = t->heap_size++;
  for (; at > 0 && goes_first(t, entry, t->heap[(at - 1) / 2]); at = (at - 1) / 2)
    t->heap[at] = t->heap[(at - 1) / 2];
  t->heap[at] = entry;
}

static void drop_top(trainer *t) {
  heap_entry last = t->heap[--t->heap_size];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= t->heap_size) break;
    if (child + 1 < t->heap_size && goes_first(t, t->heap[child + 1], t->heap[child])) child++;
    if (!goes_first(t, t->heap[child], last)) break;
    t->heap[at] = t->heap[child];
    at = child;
  }
  t->heap[at] = last;
}

/* Adds a heap entry for every pair whose count has risen; its older entries become stale. */
static void push_raised(trainer *t) {
  for (size_t i = 0; i < t->raised_count && !t->failed; i++) {
    t->pairs[t->raised[i]].raised = false;
    push(t, t->raised[i]);
  }
  t->raised_count = 0;
}

/* Returns the pair to merge next, or none. A stale entry is replaced by one with the current count. */
static uint32_t best_pair(trainer *t, int64_t min_count) {
  while (t->heap_size > 0 && !t->failed) {
    heap_entry top = t->heap[0];
    int64_t count = t->pairs[top.pair].count;
    if (count == top.count) return count >= min_count ? top.pair : none;
    drop_top(t);
    if (count >= min_count) push(t, top.pair);
  }
  return none;
}

/* Merges the pair that begins at a position. */
static void merge_at(trainer *t, uint32_t position, int32_t id) {
  uint32_t gone = t->next[position], after = t->next[gone], before = t->previous[position];
  remove_pair(t, position);
  if (before != none) remove_pair(t, before);
  if (after != none) remove_pair(t, gone);
  t->token[position] = id;
  t->token[gone] = -1;
  t->next[position] = after;
  if (after != none) t->previous[after] = position;
  if (before != none) add_pair(t, before);
  if (after != none) add_pair(t, position);
}

static size_t token_slot(const trainer *t, const char *bytes, size_t size) {
  size_t slot = ch_hash_bytes(bytes, size, 0) & t->token_mask;
  while (t->token_slots[slot]) {
    int32_t id = t->token_slots[slot] - 1;
    if (t->spans[id].size == size && memcmp(t->bytes.data + t->spans[id].at, bytes, size) == 0) break;
    slot = (slot + 1) & t->token_mask;
  }
  return slot;
}

/* Returns the token of some bytes, and creates it if it is new. */
static int32_t token_of(trainer *t, const char *bytes, size_t size) {
  size_t slot = token_slot(t, bytes, size);
  if (t->token_slots[slot] == 0) {
    t->spans[t->token_count].at = t->bytes.size;
    t->spans[t->token_count].size = size;
    ch_text_put(&t->bytes, bytes, size);
    if (t->bytes.failed) {
      t->failed = true;
      return 0;
    }
    t->token_slots[slot] = ++t->token_count;
  }
  return t->token_slots[slot] - 1;
}

static int32_t joined_token(trainer *t, int32_t left, int32_t right) {
  size_t x = t->spans[left].size, y = t->spans[right].size;
  char *joined = malloc(x + y);
  if (!joined) {
    t->failed = true;
    return 0;
  }
  memcpy(joined, t->bytes.data + t->spans[left].at, x);
  memcpy(joined + x, t->bytes.data + t->spans[right].at, y);
  int32_t id = token_of(t, joined, x + y);
  free(joined);
  return id;
}

static int by_place(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void merge_everywhere(trainer *t, uint32_t index, int32_t id) {
  int32_t left = t->pairs[index].left, right = t->pairs[index].right;
  uint32_t *places = t->pairs[index].places, count = t->pairs[index].place_count;
  t->pairs[index].places = NULL; /* merging may find the pair again, and may move t->pairs */
  t->pairs[index].place_count = t->pairs[index].place_capacity = 0;
  if (left == right) qsort(places, count, sizeof *places, by_place); /* "aaa" merges from the left */
  for (uint32_t i = 0; i < count && !t->failed; i++) {
    uint32_t neighbour = t->next[places[i]];
    if (t->token[places[i]] != left || neighbour == none || t->token[neighbour] != right) continue;
    merge_at(t, places[i], id);
  }
  free(places);
  push_raised(t);
}

/* Prepares training. Bytes get their ids in the order of the characters that spell them. */
static ch_status lay_out(trainer *t, const ch_word_counts *words, int32_t vocab_size, ch_error *error) {
  int32_t ids[256];
  t->words = words;
  if (words->pool.size >= none || words->count >= none)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the text has more than 4 GB of distinct words; train on a part of it");
  t->positions = (uint32_t)words->pool.size;
  size_t room = (size_t)t->positions + 1;
  t->token = malloc(room * sizeof *t->token);
  t->next = malloc(room * sizeof *t->next);
  t->previous = malloc(room * sizeof *t->previous);
  t->word = malloc(room * sizeof *t->word);
  t->spans = calloc((size_t)vocab_size, sizeof *t->spans);
  t->token_mask = 1023;
  while (t->token_mask < 2 * (size_t)vocab_size) t->token_mask = t->token_mask * 2 + 1;
  t->token_slots = calloc(t->token_mask + 1, sizeof *t->token_slots);
  if (!t->token || !t->next || !t->previous || !t->word || !t->spans || !t->token_slots || !grow_pairs(t))
    return ch_no_memory(error);
  t->token_count = CH_BPE_FIRST_BYTE;
  for (uint32_t character = 0; character < 512; character++) {
    int byte = ch_character_to_byte(character);
    if (byte < 0) continue;
    char c = (char)byte;
    ids[byte] = token_of(t, &c, 1);
  }
  for (size_t w = 0; w < words->count; w++) {
    size_t begin = words->words[w].at, end = begin + words->words[w].size;
    for (size_t i = begin; i < end; i++) {
      t->token[i] = ids[(unsigned char)words->pool.data[i]];
      t->word[i] = (uint32_t)w;
      t->next[i] = i + 1 < end ? (uint32_t)i + 1 : none;
      t->previous[i] = i > begin ? (uint32_t)i - 1 : none;
    }
  }
  for (uint32_t i = 0; i < t->positions && !t->failed; i++)
    if (t->next[i] != none) add_pair(t, i);
  push_raised(t);
  return CH_OK;
}

static void trainer_free(trainer *t) {
  for (uint32_t i = 0; i < t->pair_count; i++) free(t->pairs[i].places);
  free(t->token);
  free(t->next);
  free(t->previous);
  free(t->word);
  free(t->pairs);
  free(t->slots);
  free(t->raised);
  free(t->heap);
  free(t->token_slots);
  free(t->spans);
  ch_text_free(&t->bytes);
}

ch_status ch_bpe_find_merges(const ch_word_counts *words, const ch_tokenizer_train_settings *settings,
                             ch_bpe_merges *merges, ch_error *error) {
  trainer t = {0};
  int64_t min_count = settings->min_count > 1 ? settings->min_count : 1;
  *merges = (ch_bpe_merges){0};
  if (settings->vocab_size < CH_BPE_FIRST_MERGE || settings->vocab_size > CH_VOCABULARY_LIMIT)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a vocabulary of %d is out of range: %d (256 bytes and the end token) to %d",
                   settings->vocab_size, CH_BPE_FIRST_MERGE, CH_VOCABULARY_LIMIT);
  ch_status status = lay_out(&t, words, settings->vocab_size, error);
  int32_t capacity = 0;
  while (status == CH_OK && !t.failed && t.token_count < settings->vocab_size) {
    uint32_t best = best_pair(&t, min_count);
    if (best == none) break;
    if (merges->count == capacity) {
      capacity = capacity ? capacity * 2 : 1024;
      t.failed |= !resize(&merges->merges, (size_t)capacity, sizeof *merges->merges);
      if (t.failed) break;
    }
    int32_t left = t.pairs[best].left, right = t.pairs[best].right, id = joined_token(&t, left, right);
    merges->merges[merges->count++] = (ch_bpe_merge){left, right, id};
    merge_everywhere(&t, best, id);
    if (merges->count % 64 == 0 &&
        !ch_training_goes_on(settings, "merging pairs", t.token_count, settings->vocab_size))
      status = ch_fail(error, CH_ERROR_INTERRUPTED, "stopped after %d merges", merges->count);
  }
  merges->vocab_size = t.token_count;
  if (status == CH_OK && t.failed) status = ch_no_memory(error);
  trainer_free(&t);
  if (status != CH_OK) ch_bpe_merges_free(merges);
  return status;
}

void ch_bpe_merges_free(ch_bpe_merges *merges) {
  free(merges->merges);
  *merges = (ch_bpe_merges){0};
}

ch_status ch_bpe_train(const char *const *paths, size_t count, const ch_text_spans *left_out,
                       const ch_tokenizer_train_settings *settings, const char *out,
                       ch_tokenizer_report *report, ch_error *error) {
  const char *end_token = settings->end_token ? settings->end_token : "<|endoftext|>";
  ch_word_counts words = {0};
  ch_bpe_merges merges = {0};
  ch_split split = {0};
  *report = (ch_tokenizer_report){0};
  ch_status status = ch_split_compile(&split, ch_pattern_gpt2, strlen(ch_pattern_gpt2), false,
                                      CH_SPLIT_ISOLATED, false, out, error);
  for (size_t i = 0; i < count && status == CH_OK; i++) {
    ch_text_file file;
    CH_TRY_GOTO(ch_text_file_open(&file, paths[i], error));
    status = ch_word_counts_text(&words, &split, &file, left_out ? &left_out[i] : NULL, end_token, settings,
                                 error);
    report->text_bytes += file.size;
    ch_text_file_close(&file);
  }
  if (status != CH_OK) goto done;
  CH_TRY_GOTO(ch_bpe_find_merges(&words, settings, &merges, error));
  CH_TRY_GOTO(ch_bpe_write(&merges, end_token, out, error));
  report->vocab_size = merges.vocab_size;
  report->distinct_words = words.count;
done:
  ch_bpe_merges_free(&merges);
  ch_word_counts_free(&words);
  ch_split_free(&split);
  return status;
}

void ch_tokenizer_train_defaults(ch_tokenizer_train_settings *settings) {
  *settings = (ch_tokenizer_train_settings){.vocab_size = 8192, .min_count = 2};
}

ch_status ch_tokenizer_train(const char *data, const char *out, const ch_tokenizer_train_settings *settings,
                             ch_tokenizer_report *report, ch_error *error) {
  ch_tokenizer_train_settings defaults;
  ch_tokenizer_report unread;
  char **paths = NULL;
  size_t count = 0;
  if (!data || !out)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL", data ? "the tokenizer's file" : "the text's file");
  ch_tokenizer_train_defaults(&defaults);
  CH_TRY(ch_text_paths(data, &paths, &count, error));
  ch_status status = ch_bpe_train((const char *const *)paths, count, NULL, settings ? settings : &defaults,
                                  out, report ? report : &unread, error);
  free(paths);
  return status;
}
