/* Counts the words of a text. Chunks are counted in parallel and added up. */
#define _GNU_SOURCE
#include "text/word_count.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "text/hash.h"

static size_t slot_of(const ch_word_counts *counts, const char *word, size_t size, uint32_t hash) {
  size_t slot = hash & counts->mask;
  for (;; slot = (slot + 1) & counts->mask) {
    uint32_t entry = counts->slots[slot];
    if (entry == 0) return slot;
    const ch_counted_word *found = &counts->words[entry - 1];
    if (found->hash == hash && found->size == size && memcmp(counts->pool.data + found->at, word, size) == 0)
      return slot;
  }
}

static bool grow(ch_word_counts *counts) {
  size_t capacity = counts->capacity ? counts->capacity * 2 : 4096;
  if (capacity > UINT32_MAX / 2) return false;
  ch_counted_word *words = realloc(counts->words, capacity * sizeof *words);
  if (words) counts->words = words;
  uint32_t *slots = words ? calloc(capacity * 2, sizeof *slots) : NULL;
  if (!slots) return false;
  free(counts->slots);
  counts->slots = slots;
  counts->mask = capacity * 2 - 1;
  counts->capacity = capacity;
  for (size_t i = 0; i < counts->count; i++) {
    size_t slot = words[i].hash & counts->mask;
    while (slots[slot]) slot = (slot + 1) & counts->mask;
    slots[slot] = (uint32_t)i + 1;
  }
  return true;
}

bool ch_word_counts_add(ch_word_counts *counts, const char *word, size_t size, int64_t times) {
  if (size > UINT32_MAX || (counts->count == counts->capacity && !grow(counts))) return false;
  uint32_t hash = (uint32_t)ch_hash_bytes(word, size, 0);
  size_t slot = slot_of(counts, word, size, hash);
  if (counts->slots[slot] == 0) {
    size_t at = counts->pool.size;
    ch_text_put(&counts->pool, word, size);
    if (counts->pool.failed) return false;
    counts->words[counts->count++] = (ch_counted_word){at, (uint32_t)size, hash, 0};
    counts->slots[slot] = (uint32_t)counts->count;
  }
  counts->words[counts->slots[slot] - 1].count += times;
  return true;
}

void ch_word_counts_free(ch_word_counts *counts) {
  ch_text_free(&counts->pool);
  free(counts->words);
  free(counts->slots);
  *counts = (ch_word_counts){0};
}

static ch_status count_words(ch_word_counts *counts, const ch_split *split, ch_regex_scratch *scratch,
                             const char *text, size_t size, ch_error *error) {
  ch_split_cursor cursor;
  ch_split_begin(&cursor, split, scratch, text, size);
  for (;;) {
    const unsigned char *word;
    size_t length;
    CH_TRY(ch_split_next(&cursor, &word, &length, error));
    if (length == 0) return CH_OK;
    if (!ch_word_counts_add(counts, (const char *)word, length, 1)) return ch_no_memory(error);
  }
}

/* Counts the words of each document, so that no word spans the marker. */
static ch_status count_documents(ch_word_counts *counts, const ch_split *split, ch_regex_scratch *scratch,
                                 const char *marker, const char *text, size_t size, ch_error *error) {
  size_t marker_size = marker ? strlen(marker) : 0;
  for (const char *end = text + size; text < end;) {
    const char *hit = marker_size ? memmem(text, (size_t)(end - text), marker, marker_size) : NULL;
    CH_TRY(count_words(counts, split, scratch, text, (size_t)((hit ? hit : end) - text), error));
    text = hit ? hit + marker_size : end;
  }
  return CH_OK;
}

/* Counts the words of [from, to) between the spans that are left out. */
static ch_status count_chunk(ch_word_counts *counts, const ch_split *split, const char *marker,
                             const char *text, const ch_text_spans *left_out, size_t from, size_t to,
                             ch_error *error) {
  static const ch_text_spans none;
  const ch_text_spans *spans = left_out ? left_out : &none;
  ch_regex_scratch scratch = {0};
  CH_TRY(ch_regex_scratch_open(&scratch, error));
  ch_status status = CH_OK;
  for (size_t s = ch_text_spans_find(spans, from); from < to && status == CH_OK; s++) {
    size_t stop = s < spans->count && spans->span[s].begin < to ? spans->span[s].begin : to;
    if (stop > from)
      status = count_documents(counts, split, &scratch, marker, text + from, stop - from, error);
    from = s < spans->count ? spans->span[s].end : to;
  }
  ch_regex_scratch_close(&scratch);
  return status;
}

/* Returns the first place at or after `from` where the text may be cut, or its end if there is none. */
static size_t next_cut(const ch_text_file *file, size_t from) {
  for (size_t i = from; i + 3 < file->size; i++) {
    size_t offset = ch_cut_offset((const unsigned char *)file->text + i);
    if (offset) return i + offset;
  }
  return file->size;
}

bool ch_training_goes_on(const ch_tokenizer_train_settings *settings, const char *stage, double done,
                         double total) {
  return !settings || !settings->progress ||
         settings->progress(stage, total > 0 ? done / total : 1, settings->user);
}

ch_status ch_word_counts_text(ch_word_counts *counts, const ch_split *split, const ch_text_file *file,
                              const ch_text_spans *left_out, const char *marker,
                              const ch_tokenizer_train_settings *settings, ch_error *error) {
  enum { CHUNK = 4 << 20 };
  int threads = omp_get_max_threads();
  ch_word_counts *parts = calloc((size_t)threads, sizeof *parts);
  ch_status status = parts ? CH_OK : ch_no_memory(error);
  for (size_t from = 0; status == CH_OK && from < file->size;) {
    size_t borders[257] = {from}, count = 0; /* one round: a chunk for each thread */
    for (; count < (size_t)threads && count < 256 && borders[count] < file->size; count++)
      borders[count + 1] =
          borders[count] + CHUNK < file->size ? next_cut(file, borders[count] + CHUNK) : file->size;
#pragma omp parallel for schedule(static, 1)
    for (size_t i = 0; i < count; i++) {
      ch_error problem;
      ch_status done =
          count_chunk(&parts[i], split, marker, file->text, left_out, borders[i], borders[i + 1], &problem);
#pragma omp critical(word_count_status)
      if (done != CH_OK && status == CH_OK) {
        status = done;
        if (error) *error = problem;
      }
    }
    from = borders[count];
    ch_text_file_release(file, borders[0], from);
    if (status == CH_OK && !ch_training_goes_on(settings, "counting words", (double)from, (double)file->size))
      status = ch_fail(error, CH_ERROR_INTERRUPTED, "stopped while counting the words of %s", file->path);
  }
  for (int i = 0; i < threads && parts; i++) {
    const ch_counted_word *words = parts[i].words;
    for (size_t w = 0; status == CH_OK && w < parts[i].count; w++)
      if (!ch_word_counts_add(counts, parts[i].pool.data + words[w].at, words[w].size, words[w].count))
        status = ch_no_memory(error);
    ch_word_counts_free(&parts[i]);
  }
  free(parts);
  return status;
}
