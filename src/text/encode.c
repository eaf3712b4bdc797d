/* Encodes text: finds added tokens, normalizes the parts between them, cuts those into words and merges
 * each word.
 *
 * A cache remembers the ids of short words. It changes the speed, never the ids. */
#define _GNU_SOURCE
#include "text/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

#include "text/byte_level.h"
#include "text/hash.h"
#include "text/text_file.h"
#include "base/utf8.h"

/* Words of up to 31 bytes and 7 ids are cached, each in one line of 64 bytes. A newer word replaces an older
   one. */
enum { CACHE_ENTRIES = 1 << 15, CACHED_BYTES = 31, CACHED_IDS = 7 };

enum { BEGINNINGS = CH_TEXT_BEGINS | CH_TEXT_WHOLE | CH_TEXT_BARE };

typedef struct cached_word {
  uint64_t key[4]; /* the word's bytes, zero-padded; the last byte is its length */
  int32_t ids[CACHED_IDS];
  int32_t count;
} cached_word;

/* A range of a text that was joined from parts. */
typedef struct plain_range {
  const unsigned char *begin, *end;
} plain_range;

struct ch_encoder {
  const ch_tokenizer *tokenizer;
  cached_word *cache; /* [CACHE_ENTRIES], NULL until enough text was seen */
  size_t bytes_seen;
  ch_ids *ids;     /* destination of the ids */
  ch_error *error; /* error of the call in progress */
  unsigned flags;
  const unsigned char *normalized_text; /* the segment in progress, normalized */
  size_t added; /* bytes at the beginning of the segment that the text does not have (ch_normalize) */
  /* at_start: the segment in progress begins the text; continued: it continues an earlier text */
  bool at_start, continued;
  ch_merge_scratch merge;
  ch_regex_scratch regex;
  ch_text normalized[2];          /* results of the normalizers, in turn */
  ch_text stepped[CH_MOST_STEPS]; /* text changed by a step */
  ch_text piece, doubled;
  ch_ids window[2];         /* scratch of ch_encoder_safe_cut */
  const plain_range *plain; /* [plain_count] ranges without special tokens, in the order of the text */
  size_t plain_count;
  ch_text *words; /* destination of words that are not encoded; NULL: words are encoded */
};

void ch_ids_free(ch_ids *ids) {
  if (!ids) return;
  free(ids->data);
  *ids = (ch_ids){0};
}

bool ch_ids_reserve(ch_ids *ids, size_t more) {
  if (ids->capacity - ids->size >= more) return true;
  size_t capacity = ids->capacity ? ids->capacity : 64;
  while (capacity - ids->size < more) capacity *= 2;
  int32_t *data = realloc(ids->data, capacity * sizeof *data);
  if (!data) return false;
  ids->data = data;
  ids->capacity = capacity;
  return true;
}

ch_status ch_ids_put(ch_ids *ids, int32_t id, ch_error *error) {
  if (!ch_ids_reserve(ids, 1)) return ch_no_memory(error);
  ids->data[ids->size++] = id;
  return CH_OK;
}

static ch_status put_ids(ch_encoder *encoder, const int32_t *ids, size_t count) {
  if (!ch_ids_reserve(encoder->ids, count)) return ch_no_memory(encoder->error);
  if (count) memcpy(encoder->ids->data + encoder->ids->size, ids, count * sizeof *ids);
  encoder->ids->size += count;
  return CH_OK;
}

/* Loads 1 to 7 bytes as an integer, with overlapping loads. */
static inline uint64_t few_bytes(const unsigned char *p, size_t size) {
  if (size < 4) return p[0] | (uint64_t)p[size / 2] << size / 2 * 8 | (uint64_t)p[size - 1] << (size - 1) * 8;
  uint32_t low, high;
  memcpy(&low, p, 4);
  memcpy(&high, p + size - 4, 4);
  return low | (uint64_t)high << (size - 4) * 8;
}

/* Writes the bytes of a word as four integers, zero-padded, with its length in the last byte. 0 < size <=
   CACHED_BYTES. */
static inline void key_of(const unsigned char *word, size_t size, uint64_t key[4]) {
  size_t full = size / 8, rest = size % 8;
  key[0] = key[1] = key[2] = key[3] = 0;
  for (size_t i = 0; i < full; i++) memcpy(&key[i], word + 8 * i, 8);
  if (rest && full) {
    memcpy(&key[full], word + size - 8, 8);
    key[full] >>= 64 - 8 * rest;
  } else if (rest) {
    key[0] = few_bytes(word, size);
  }
  key[3] |= (uint64_t)size << 56;
}

static inline cached_word *cache_slot(ch_encoder *encoder, const uint64_t key[4]) {
  uint64_t hash = ch_hash_mix(key[0] ^ 0xa0761d6478bd642fu, key[1] ^ 0xe7037ed1a0b428dbu) ^
                  ch_hash_mix(key[2] ^ 0x8ebc6af09c88c6e3u, key[3] ^ 0x589965cc75374cc3u);
  return &encoder->cache[hash & (CACHE_ENTRIES - 1)];
}

static inline bool same_key(const uint64_t a[4], const uint64_t b[4]) {
  return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
}

/* Appends bytes as the characters of the byte alphabet. */
static void spell(const unsigned char *text, size_t size, ch_text *out) {
  for (size_t i = 0; i < size; i++) {
    unsigned char spelled[4];
    ch_text_put(out, (const char *)spelled, ch_utf8_encode(ch_byte_to_character(text[i]), spelled));
  }
}

/* Returns the id of the piece that is the whole word; -1 if there is none. */
static int32_t whole_piece(ch_encoder *encoder, const unsigned char *word, size_t size) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  if (!tokenizer->byte_level) return ch_vocabulary_find(&tokenizer->vocabulary, (const char *)word, size);
  encoder->piece.size = 0;
  spell(word, size, &encoder->piece);
  if (encoder->piece.failed) return -1;
  return ch_vocabulary_find(&tokenizer->vocabulary, encoder->piece.data, encoder->piece.size);
}

static ch_status no_piece(ch_encoder *encoder, const unsigned char *character, size_t size) {
  char shown[64];
  return ch_fail(encoder->error, CH_ERROR_FORMAT,
                 "%s has no token for \"%s\" (first byte 0x%02X) and no unk_token to replace it",
                 encoder->tokenizer->file, ch_piece_for_message((const char *)character, size, shown),
                 character[0]);
}

/* Writes the ids of the single characters, before merging. A character without a piece becomes the pieces of
   its bytes, or the unknown token. As in Hugging Face's tokenizers, the unknown token is written when the next
   known character comes. */
static ch_status characters(ch_encoder *encoder, const unsigned char *word, size_t size, size_t *count) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  int32_t *ids = encoder->merge.ids;
  size_t n = 0, length;
  bool waiting = false;
  for (const unsigned char *p = word, *end = word + size; p < end; p += length) {
    uint32_t code_point;
    length = ch_utf8_decode(p, end, &code_point);
    int32_t id = length == 1  ? tokenizer->ascii_ids[*p]
                 : length > 1 ? ch_vocabulary_find(&tokenizer->vocabulary, (const char *)p, length)
                              : -1;
    if (length == 0) length = 1; /* a byte that is not UTF-8 */
    if (id >= 0) {
      if (waiting) ids[n++] = tokenizer->unk;
      waiting = false;
      ids[n++] = id;
      continue;
    }
    size_t bytes = 0;
    while (bytes < length && tokenizer->byte_ids[p[bytes]] >= 0) bytes++;
    if (bytes == length) {
      for (bytes = 0; bytes < length; bytes++) ids[n++] = tokenizer->byte_ids[p[bytes]];
      continue;
    }
    if (tokenizer->unk < 0) return no_piece(encoder, p, length);
    if (waiting && !tokenizer->fuse_unk) ids[n++] = tokenizer->unk;
    waiting = true;
  }
  if (waiting) ids[n++] = tokenizer->unk;
  *count = n;
  return CH_OK;
}

static ch_status bytes(ch_encoder *encoder, const unsigned char *word, size_t size, size_t *count) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  int32_t *ids = encoder->merge.ids;
  size_t n = 0;
  bool unknown = false;
  for (size_t i = 0; i < size; i++) {
    int32_t id = tokenizer->byte_ids[word[i]];
    bool fused = id < 0 && unknown && tokenizer->fuse_unk;
    unknown = id < 0;
    if (unknown && tokenizer->unk < 0) return no_piece(encoder, word + i, 1);
    if (!fused) ids[n++] = unknown ? tokenizer->unk : id;
  }
  *count = n;
  return CH_OK;
}

/* Encodes a word, or a part of one whose borders no merge crosses, into encoder->merge.ids. */
static ch_status merge_word(ch_encoder *encoder, const unsigned char *word, size_t size, size_t *count) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  if (!ch_merge_scratch_reserve(&encoder->merge, size + 1)) return ch_no_memory(encoder->error);
  int32_t whole = tokenizer->ignore_merges ? whole_piece(encoder, word, size) : -1;
  if (whole >= 0) {
    encoder->merge.ids[0] = whole;
    *count = 1;
    return CH_OK;
  }
  ch_status status =
      tokenizer->byte_level ? bytes(encoder, word, size, count) : characters(encoder, word, size, count);
  if (status != CH_OK) return status;
  return ch_merge_word(&tokenizer->merges, &encoder->merge, count) ? CH_OK : ch_no_memory(encoder->error);
}

static ch_status encode_uncached(ch_encoder *encoder, const unsigned char *word, size_t size,
                                 cached_word *slot, const uint64_t key[4]) {
  size_t count = 0;
  CH_TRY(merge_word(encoder, word, size, &count));
  if (slot && count <= CACHED_IDS) {
    memcpy(slot->key, key, sizeof slot->key);
    memcpy(slot->ids, encoder->merge.ids, count * sizeof *slot->ids);
    slot->count = (int32_t)count;
  }
  return put_ids(encoder, encoder->merge.ids, count);
}

static inline ch_status encode_word(ch_encoder *encoder, const unsigned char *word, size_t size) {
  if (size > CACHED_BYTES || !encoder->cache) return encode_uncached(encoder, word, size, NULL, NULL);
  uint64_t key[4];
  key_of(word, size, key);
  cached_word *slot = cache_slot(encoder, key);
  if (!same_key(slot->key, key)) return encode_uncached(encoder, word, size, slot, key);
  ch_ids *ids = encoder->ids;
  if (!ch_ids_reserve(ids, CACHED_IDS)) return ch_no_memory(encoder->error);
  memcpy(ids->data + ids->size, slot->ids, sizeof slot->ids);
  ids->size += (size_t)slot->count;
  return CH_OK;
}

/* Encodes one part of a word that was cut. Unknown tokens on both sides of the cut fuse, as in the whole word. */
static ch_status encode_part(ch_encoder *encoder, const unsigned char *part, size_t size, bool first) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  ch_ids *ids = encoder->ids;
  size_t start = ids->size;
  CH_TRY(encode_word(encoder, part, size));
  if (first || !tokenizer->fuse_unk || ids->size == start) return CH_OK;
  if (ids->data[start] != tokenizer->unk || ids->data[start - 1] != tokenizer->unk) return CH_OK;
  memmove(ids->data + start, ids->data + start + 1, (ids->size - start - 1) * sizeof *ids->data);
  ids->size--;
  return CH_OK;
}

/* Cuts a word of characters where no merge can join and encodes the parts. */
static ch_status encode_characters(ch_encoder *encoder, const unsigned char *word, size_t size) {
  const uint8_t *joins = encoder->tokenizer->joins;
  const unsigned char *part = word, *p = word, *end = word + size;
  if (!joins) return encode_word(encoder, word, size);
  for (uint32_t before = UINT32_MAX, character; p < end; before = character) {
    size_t length = ch_utf8_decode(p, end, &character);
    if (length == 0) character = UINT32_MAX;
    uint32_t bit = ch_join_bit(before, character);
    if (p > part && !(joins[bit / 8] >> bit % 8 & 1)) {
      CH_TRY(encode_part(encoder, part, (size_t)(p - part), part == word));
      part = p;
    }
    p += length ? length : 1;
  }
  return part < end ? encode_part(encoder, part, (size_t)(end - part), part == word) : CH_OK;
}

static ch_status run_steps(ch_encoder *encoder, size_t index, const unsigned char *text, size_t size,
                           bool first);

/* Encodes a word that an empty match added before the text. It writes the word twice, as Hugging Face's library
   does: its bytes, then its characters as if they were of the byte alphabet. Models are trained with these
   ids. */
static ch_status encode_added(ch_encoder *encoder, const unsigned char *word, size_t size) {
  ch_text *doubled = &encoder->doubled;
  doubled->size = 0;
  ch_text_put(doubled, (const char *)word, size);
  for (size_t at = 0, length; at < size; at += length ? length : 1) {
    uint32_t character = 0;
    length = ch_utf8_decode(word + at, word + size, &character);
    int byte = length ? ch_character_to_byte(character) : -1;
    if (byte >= 0) ch_text_put(doubled, &(char){(char)byte}, 1);
  }
  if (doubled->failed) return ch_no_memory(encoder->error);
  return encode_word(encoder, (const unsigned char *)doubled->data, doubled->size);
}

static bool is_added(const ch_encoder *encoder, const unsigned char *word, size_t size) {
  return encoder->tokenizer->byte_level && word >= encoder->normalized_text &&
         word + size <= encoder->normalized_text + encoder->added;
}

static ch_status finish_word(ch_encoder *encoder, size_t index, const unsigned char *word, size_t size,
                             bool first) {
  if (index < encoder->tokenizer->step_count) return run_steps(encoder, index, word, size, first);
  if (encoder->words) {
    ch_text_put(encoder->words, (const char *)word, size);
    ch_text_put(encoder->words, "\xff", 1);
    return encoder->words->failed ? ch_no_memory(encoder->error) : CH_OK;
  }
  if (encoder->added && is_added(encoder, word, size)) return encode_added(encoder, word, size);
  return encoder->tokenizer->byte_level ? encode_word(encoder, word, size)
                                        : encode_characters(encoder, word, size);
}

static ch_status run_split(ch_encoder *encoder, size_t index, const unsigned char *text, size_t size,
                           bool first) {
  ch_split split = encoder->tokenizer->steps[index].split;
  if (encoder->flags & CH_TEXT_NO_SCANNER) split.scanner = CH_SCAN_NONE;
  ch_split_cursor cursor;
  ch_split_begin(&cursor, &split, &encoder->regex, text, size);
  for (;;) {
    const unsigned char *word;
    size_t length;
    CH_TRY(ch_split_next(&cursor, &word, &length, encoder->error));
    if (length == 0) return CH_OK;
    CH_TRY(finish_word(encoder, index + 1, word, length, first && word == text));
  }
}

static ch_status run_metaspace(ch_encoder *encoder, size_t index, const unsigned char *text, size_t size,
                               bool first) {
  const ch_step *step = &encoder->tokenizer->steps[index];
  ch_text *out = &encoder->stepped[index];
  size_t mark = strlen(step->mark);
  bool begins = *text == ' ' || (size >= mark && memcmp(text, step->mark, mark) == 0);
  bool wanted =
      step->prepend == CH_PREPEND_ALWAYS || (step->prepend == CH_PREPEND_FIRST && encoder->at_start && first);
  out->size = 0;
  if (wanted && !begins && !(first && encoder->continued)) ch_text_put(out, step->mark, mark);
  for (const unsigned char *p = text, *end = text + size; p < end;) {
    const unsigned char *space = memchr(p, ' ', (size_t)(end - p));
    ch_text_put(out, (const char *)p, (size_t)((space ? space : end) - p));
    if (space) ch_text_put(out, step->mark, mark);
    p = space ? space + 1 : end;
  }
  if (out->failed) return ch_no_memory(encoder->error);
  const unsigned char *word = (const unsigned char *)out->data, *start = word, *end = word + out->size;
  while (step->cut && word < end) {
    const unsigned char *next = memmem(word + 1, (size_t)(end - word - 1), step->mark, mark);
    if (!next) break;
    CH_TRY(finish_word(encoder, index + 1, word, (size_t)(next - word), first && word == start));
    word = next;
  }
  return word < end ? finish_word(encoder, index + 1, word, (size_t)(end - word), first && word == start)
                    : CH_OK;
}

/* Applies pre-tokenizing step `index` and those after it. `first`: the text begins its segment. */
static ch_status run_steps(ch_encoder *encoder, size_t index, const unsigned char *text, size_t size,
                           bool first) {
  if (size == 0) return CH_OK;
  if (index == encoder->tokenizer->step_count) return finish_word(encoder, index, text, size, first);
  switch (encoder->tokenizer->steps[index].type) {
  case CH_STEP_SPLIT:
    return run_split(encoder, index, text, size, first);
  case CH_STEP_METASPACE:
    return run_metaspace(encoder, index, text, size, first);
  case CH_STEP_PREFIX_SPACE:
    if (*text == ' ' || (first && encoder->continued))
      return finish_word(encoder, index + 1, text, size, first);
    break;
  case CH_STEP_SPELL:
    break;
  }
  ch_text *out = &encoder->stepped[index];
  out->size = 0;
  if (encoder->tokenizer->steps[index].type == CH_STEP_SPELL) {
    spell(text, size, out);
  } else {
    ch_text_put(out, " ", 1);
    ch_text_put(out, (const char *)text, size);
  }
  if (out->failed) return ch_no_memory(encoder->error);
  return finish_word(encoder, index + 1, (const unsigned char *)out->data, out->size, first);
}

/* Returns true if a byte in [begin, stop) is in a range without special tokens. */
static bool is_plain(const ch_encoder *encoder, const unsigned char *begin, const unsigned char *stop) {
  size_t low = 0, high = encoder->plain_count;
  while (low < high) { /* the first range that ends after `begin` */
    size_t middle = (low + high) / 2;
    if (encoder->plain[middle].end > begin)
      high = middle;
    else
      low = middle + 1;
  }
  return low < encoder->plain_count && encoder->plain[low].begin < stop;
}

typedef ch_status segment_function(ch_encoder *encoder, const unsigned char *text, size_t size, bool first);

/* Finds added tokens, appends their ids, and passes the text between them to `segment`. */
static ch_status split_added(ch_encoder *encoder, const ch_matcher *matcher, const unsigned char *text,
                             size_t size, bool first, segment_function *segment) {
  const unsigned char *from = text, *search = text, *end = text + size, *begin, *stop;
  for (;;) {
    int32_t index = ch_matcher_find(matcher, search, end, &begin, &stop);
    if (index < 0) break;
    const ch_added_token *token = &encoder->tokenizer->added[index];
    search = stop;
    if (token->special && !(encoder->flags & CH_TEXT_SPECIAL)) continue;
    if (token->special && is_plain(encoder, begin, stop)) {
      search = begin + 1;
      continue;
    }
    if (!ch_added_token_fits(token, text, from, end, &begin, &stop)) continue;
    if (token->lstrip && begin < from) begin = from; /* an earlier token took the white space */
    if (begin >= stop) continue;
    if (begin > from) CH_TRY(segment(encoder, from, (size_t)(begin - from), first && from == text));
    CH_TRY(put_ids(encoder, &token->id, 1));
    from = stop; /* may be within an earlier token's white space, as in Hugging Face's library */
  }
  return from < end ? segment(encoder, from, (size_t)(end - from), first && from == text) : CH_OK;
}

static ch_status encode_words(ch_encoder *encoder, const unsigned char *text, size_t size, bool first) {
  return run_steps(encoder, 0, text, size, first);
}

/* Encodes text between added tokens: normalizes it and searches it for added tokens that are normalized. */
static ch_status encode_segment(ch_encoder *encoder, const unsigned char *text, size_t size, bool first) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  const char *current = (const char *)text;
  encoder->continued = first && !(encoder->flags & BEGINNINGS);
  encoder->at_start = first && !encoder->continued;
  encoder->added = 0;
  for (size_t i = 0; i < tokenizer->normalizer_count; i++) {
    ch_text *out = &encoder->normalized[i % 2];
    out->size = 0;
    CH_TRY(ch_normalize(&tokenizer->normalizers[i], &encoder->regex, current, size, encoder->continued,
                        &encoder->added, out, encoder->error));
    current = out->data ? out->data : "";
    size = out->size;
  }
  encoder->normalized_text = (const unsigned char *)current;
  return split_added(encoder, &tokenizer->normalized, (const unsigned char *)current, size, true,
                     encode_words);
}

/* Returns an empty cache, or NULL if out of memory. Encoding also works without one. */
static cached_word *new_cache(void) {
  cached_word *cache = aligned_alloc(64, CACHE_ENTRIES * sizeof *cache);
  if (cache) memset(cache, 0, CACHE_ENTRIES * sizeof *cache);
  return cache;
}

ch_status ch_encoder_new(const ch_tokenizer *tokenizer, ch_encoder **encoder, ch_error *error) {
  *encoder = NULL;
  ch_encoder *fresh = calloc(1, sizeof *fresh);
  if (!fresh) return ch_no_memory(error);
  fresh->tokenizer = tokenizer;
  ch_status status = ch_regex_scratch_open(&fresh->regex, error);
  if (status != CH_OK) {
    ch_encoder_free(fresh);
    return status;
  }
  *encoder = fresh;
  return CH_OK;
}

void ch_encoder_free(ch_encoder *encoder) {
  if (!encoder) return;
  ch_merge_scratch_free(&encoder->merge);
  ch_regex_scratch_close(&encoder->regex);
  for (int i = 0; i < 2; i++) {
    ch_text_free(&encoder->normalized[i]);
    ch_ids_free(&encoder->window[i]);
  }
  for (int i = 0; i < CH_MOST_STEPS; i++) ch_text_free(&encoder->stepped[i]);
  ch_text_free(&encoder->piece);
  ch_text_free(&encoder->doubled);
  free(encoder->cache);
  free(encoder);
}

ch_status ch_text_check_flags(unsigned flags, unsigned known, const char *what, ch_error *error) {
  if (!(flags & ~known)) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "flags 0x%x are not valid for %s; of ch_text_flags, 0x%x are",
                 flags & ~known, what, known & ~(unsigned)CH_TEXT_NO_SCANNER);
}

static ch_status check_encoding(const char *text, size_t size, unsigned flags, ch_error *error) {
  unsigned beginning = flags & BEGINNINGS;
  if (!text && size) return ch_fail(error, CH_ERROR_ARGUMENT, "the text is NULL");
  CH_TRY(ch_text_check_flags(flags, BEGINNINGS | CH_TEXT_SPECIAL | CH_TEXT_NO_SCANNER, "encoding", error));
  if (beginning & (beginning - 1))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "CH_TEXT_BEGINS, CH_TEXT_WHOLE and CH_TEXT_BARE exclude each other; give one");
  if (size >= (size_t)1 << 30)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a text of %zu bytes is too long to encode at once: at most 1 GiB", size);
  return CH_OK;
}

/* Writes the tokens that begin a text. */
static ch_status put_beginning(ch_encoder *encoder) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  if (encoder->flags & CH_TEXT_WHOLE) return put_ids(encoder, tokenizer->prefix, tokenizer->prefix_size);
  bool bos = encoder->flags & CH_TEXT_BEGINS && ch_tokenizer_adds_bos(tokenizer) && tokenizer->bos >= 0;
  return put_ids(encoder, &tokenizer->bos, bos ? 1 : 0);
}

ch_status ch_encoder_encode(ch_encoder *encoder, const char *text, size_t size, unsigned flags, ch_ids *ids,
                            ch_error *error) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  CH_TRY(check_encoding(text, size, flags, error));
  encoder->ids = ids;
  encoder->error = error;
  encoder->flags = flags;
  encoder->bytes_seen += size;
  if (!encoder->cache && encoder->bytes_seen > 4096) encoder->cache = new_cache();
  CH_TRY(put_beginning(encoder));
  CH_TRY(split_added(encoder, &tokenizer->raw, (const unsigned char *)text, size, true, encode_segment));
  if (flags & CH_TEXT_WHOLE) CH_TRY(put_ids(encoder, tokenizer->suffix, tokenizer->suffix_size));
  return CH_OK;
}

ch_status ch_encoder_words(ch_encoder *encoder, const char *text, size_t size, ch_text *words,
                           ch_error *error) {
  encoder->error = error;
  encoder->flags = CH_TEXT_BARE;
  encoder->at_start = true;
  encoder->continued = false;
  encoder->words = words;
  ch_status status = run_steps(encoder, 0, (const unsigned char *)text, size, true);
  encoder->words = NULL;
  return status;
}

ch_status ch_encoder_prefix(ch_encoder *encoder, ch_ids *ids, ch_error *error) {
  encoder->ids = ids;
  encoder->error = error;
  return put_ids(encoder, encoder->tokenizer->prefix, encoder->tokenizer->prefix_size);
}

ch_status ch_tokenizer_encode(const ch_tokenizer *tokenizer, const char *text, size_t size, unsigned flags,
                              ch_ids *ids, ch_error *error) {
  ch_encoder *encoder;
  CH_TRY(ch_encoder_new(tokenizer, &encoder, error));
  ch_status status = ch_encoder_encode(encoder, text, size, flags, ids, error);
  ch_encoder_free(encoder);
  return status;
}

/* Searches for the literal spelling of all special tokens. It may also find places where the encoder would not
   match a token that it searches for in normalized text. */
bool ch_tokenizer_find_special(const ch_tokenizer *tokenizer, const char *text, size_t size, size_t *at,
                               size_t *length) {
  *at = size;
  *length = 0;
  for (size_t i = 0; i < tokenizer->added_count; i++) {
    const ch_added_token *token = &tokenizer->added[i];
    const size_t end = *at + token->size < size ? *at + token->size : size;
    if (!token->special || token->size == 0) continue;
    const char *found = memmem(text, end, token->content, token->size);
    if (!found || ((size_t)(found - text) == *at && token->size < *length)) continue;
    *at = (size_t)(found - text);
    *length = token->size;
  }
  return *length > 0;
}

/* Joins all parts into one text and lists the ranges of the plain parts. */
static ch_status join_parts(const ch_prompt_part *parts, size_t count, ch_text *text, plain_range *plain,
                            size_t *plain_count, ch_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (!parts[i].text && parts[i].size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "the text of part %zu is NULL", i);
    ch_text_put(text, parts[i].text ? parts[i].text : "", parts[i].size);
  }
  if (text->failed) return ch_no_memory(error);
  const unsigned char *at = (const unsigned char *)text->data;
  for (size_t i = 0; i < count; at += parts[i++].size)
    if (!parts[i].special && parts[i].size) plain[(*plain_count)++] = (plain_range){at, at + parts[i].size};
  return CH_OK;
}

/* Returns true if some special token is searched for in normalized text, whose offsets are not those of the
   original. */
static bool normalizes_specials(const ch_tokenizer *tokenizer) {
  for (size_t i = 0; i < tokenizer->added_count; i++)
    if (tokenizer->added[i].special && tokenizer->added[i].normalized) return true;
  return false;
}

/* Encodes the parts one after the other, each as the continuation of those before it. */
static ch_status encode_each(ch_encoder *encoder, const ch_prompt_part *parts, size_t count, unsigned flags,
                             ch_ids *ids, ch_error *error) {
  const ch_tokenizer *tokenizer = encoder->tokenizer;
  size_t seen = 0;
  CH_TRY(check_encoding("", 0, flags, error));
  encoder->ids = ids;
  encoder->error = error;
  encoder->flags = flags;
  CH_TRY(put_beginning(encoder));
  for (size_t i = 0; i < count; seen += parts[i++].size) {
    encoder->flags = (seen ? 0 : flags) | (parts[i].special ? CH_TEXT_SPECIAL : 0);
    CH_TRY(split_added(encoder, &tokenizer->raw, (const unsigned char *)parts[i].text, parts[i].size, true,
                       encode_segment));
  }
  return flags & CH_TEXT_WHOLE ? put_ids(encoder, tokenizer->suffix, tokenizer->suffix_size) : CH_OK;
}

ch_status ch_tokenizer_encode_parts(const ch_tokenizer *tokenizer, const ch_prompt_part *parts, size_t count,
                                    unsigned flags, ch_ids *ids, ch_error *error) {
  if (!tokenizer || (!parts && count) || !ids)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the tokenizer, the parts or the ids pointer is NULL");
  ch_text text = {0};
  size_t plain_count = 0;
  plain_range *plain = malloc((count + 1) * sizeof *plain);
  ch_encoder *encoder = NULL;
  ch_status status = CH_OK;
  CH_TRY_GOTO(plain ? CH_OK : ch_no_memory(error));
  CH_TRY_GOTO(join_parts(parts, count, &text, plain, &plain_count, error));
  CH_TRY_GOTO(ch_encoder_new(tokenizer, &encoder, error));
  if (plain_count > 0 && normalizes_specials(tokenizer)) {
    status = encode_each(encoder, parts, count, flags, ids, error);
  } else {
    encoder->plain = plain;
    encoder->plain_count = plain_count;
    status = ch_encoder_encode(encoder, text.data, text.size, flags | CH_TEXT_SPECIAL, ids, error);
  }
done:
  ch_encoder_free(encoder);
  ch_text_free(&text);
  free(plain);
  return status;
}

/* Encodes the text around the cut whole and in two parts, and compares the ids. */
static ch_status cut_is_safe(ch_encoder *encoder, const char *text, size_t size, size_t cut, bool *safe,
                             ch_error *error) {
  enum { AROUND = 256 };
  size_t start = cut > AROUND ? cut - AROUND : 0, end = size - cut > AROUND ? cut + AROUND : size;
  ch_ids *whole = &encoder->window[0], *parts = &encoder->window[1];
  whole->size = parts->size = 0;
  while (start < cut && ((unsigned char)text[start] & 0xc0) == 0x80) start++;
  CH_TRY(ch_encoder_encode(encoder, text + start, end - start, 0, whole, error));
  CH_TRY(ch_encoder_encode(encoder, text + start, cut - start, 0, parts, error));
  CH_TRY(ch_encoder_encode(encoder, text + cut, end - cut, 0, parts, error));
  *safe = whole->size == parts->size &&
          (whole->size == 0 || memcmp(whole->data, parts->data, whole->size * sizeof *whole->data) == 0);
  return CH_OK;
}

ch_status ch_encoder_safe_cut(ch_encoder *encoder, const char *text, size_t size, size_t from, size_t *cut,
                              ch_error *error) {
  enum { MOST_TRIES = 64 };
  int tries = 0;
  *cut = size;
  for (size_t i = from > 0 ? from - 1 : 0; i + 2 < size && tries < MOST_TRIES; i++) {
    size_t offset = ch_cut_offset((const unsigned char *)text + i);
    if (offset == 0 || i + offset < from) continue;
    bool safe = false;
    CH_TRY(cut_is_safe(encoder, text, size, i + offset, &safe, error));
    tries++;
    if (!safe) continue;
    *cut = i + offset;
    break;
  }
  return CH_OK;
}
