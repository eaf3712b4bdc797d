/* Creates a tokenizer from its parts, derives its tables, and answers questions about its vocabulary.
 * Loaders fill the parts; encode.c and decode.c use them. */
#define _GNU_SOURCE
#include "text/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/byte_level.h"
#include "text/hash.h"
#include "base/utf8.h"

ch_tokenizer *ch_tokenizer_new(const char *file) {
  ch_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
  if (!tokenizer) return NULL;
  tokenizer->file = strdup(file);
  tokenizer->unk = tokenizer->bos = tokenizer->eos = -1;
  if (tokenizer->file) return tokenizer;
  free(tokenizer);
  return NULL;
}

void ch_tokenizer_free(ch_tokenizer *tokenizer) {
  if (!tokenizer) return;
  for (size_t i = 0; i < tokenizer->normalizer_count; i++) ch_normalizer_free(&tokenizer->normalizers[i]);
  for (size_t i = 0; i < tokenizer->step_count; i++) ch_split_free(&tokenizer->steps[i].split);
  for (size_t i = 0; i < tokenizer->added_count; i++) free(tokenizer->added[i].content);
  ch_vocabulary_free(&tokenizer->vocabulary);
  ch_merges_free(&tokenizer->merges);
  ch_matcher_free(&tokenizer->raw);
  ch_matcher_free(&tokenizer->normalized);
  ch_text_free(&tokenizer->decoded);
  free(tokenizer->decoded_spans);
  free(tokenizer->special);
  free(tokenizer->joins);
  free(tokenizer->added);
  free(tokenizer->prefix);
  free(tokenizer->suffix);
  free(tokenizer->directory);
  free(tokenizer->file);
  free(tokenizer);
}

ch_status ch_tokenizer_add_token(ch_tokenizer *tokenizer, ch_added_token token, ch_error *error) {
  int32_t known = ch_vocabulary_find(&tokenizer->vocabulary, token.content, token.size);
  char shown[64];
  if (known >= 0 && known != token.id)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: added_tokens gives \"%s\" the id %d, model.vocab the id %d",
                   tokenizer->file, ch_piece_for_message(token.content, token.size, shown), token.id, known);
  if (known < 0)
    CH_TRY(ch_vocabulary_add(&tokenizer->vocabulary, token.content, token.size, token.id, tokenizer->file,
                             error));
  if ((tokenizer->added_count & (tokenizer->added_count - 1)) == 0) { /* grows at powers of two */
    size_t capacity = tokenizer->added_count ? tokenizer->added_count * 2 : 1;
    ch_added_token *added = realloc(tokenizer->added, capacity * sizeof *added);
    if (!added) return ch_no_memory(error);
    tokenizer->added = added;
  }
  char *content = malloc(token.size + 1);
  if (!content) return ch_no_memory(error);
  memcpy(content, token.content, token.size);
  content[token.size] = 0;
  token.content = content;
  tokenizer->added[tokenizer->added_count++] = token;
  return CH_OK;
}

static void find_byte_pieces(ch_tokenizer *tokenizer) {
  for (int byte = 0; byte < 256; byte++) {
    char piece[8];
    size_t size = tokenizer->byte_level
                      ? ch_utf8_encode(ch_byte_to_character((unsigned char)byte), (unsigned char *)piece)
                      : (size_t)snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)byte);
    bool wanted = tokenizer->byte_level || tokenizer->byte_fallback;
    tokenizer->byte_ids[byte] = wanted ? ch_vocabulary_find(&tokenizer->vocabulary, piece, size) : -1;
  }
  for (int c = 0; c < 128; c++) {
    char piece = (char)c;
    tokenizer->ascii_ids[c] = ch_vocabulary_find(&tokenizer->vocabulary, &piece, 1);
  }
}

/* Returns the byte of "<0xE2>", else -1. */
static int byte_of_piece(const char *piece, size_t size) {
  if (!piece || size != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>') return -1;
  int byte = 0;
  for (int i = 3; i < 5; i++) {
    char c = piece[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    byte = byte * 16 + digit;
  }
  return byte;
}

static bool is_byte_piece(const ch_tokenizer *tokenizer, int32_t id) {
  size_t size = 0;
  const char *piece = ch_vocabulary_piece(&tokenizer->vocabulary, id, &size);
  return byte_of_piece(piece, size) >= 0;
}

static uint32_t edge_character(const ch_tokenizer *tokenizer, int32_t id, bool last) {
  size_t size = 0;
  const unsigned char *piece = (const unsigned char *)ch_vocabulary_piece(&tokenizer->vocabulary, id, &size);
  uint32_t character = UINT32_MAX, next;
  for (size_t at = 0; piece && at < size;) {
    size_t length = ch_utf8_decode(piece + at, piece + size, &next);
    if (length == 0) return UINT32_MAX;
    character = next;
    if (!last) break;
    at += length;
  }
  return character;
}

/* Returns true if words may be cut without changing their ids. Words must consist of characters, and merges must
   not be ignored. No merge may consume a byte piece, or consume or produce the unknown piece. Either all bytes
   have pieces or none, because otherwise a cut would reorder unknown characters and bytes. */
static bool may_cut(const ch_tokenizer *tokenizer) {
  int bytes = 0;
  for (int byte = 0; byte < 256; byte++) bytes += tokenizer->byte_ids[byte] >= 0;
  if (tokenizer->byte_level || tokenizer->ignore_merges || (bytes != 0 && bytes != 256)) return false;
  for (size_t i = 0; tokenizer->merges.slots && i <= tokenizer->merges.mask; i++) {
    const ch_merge *merge = &tokenizer->merges.slots[i];
    if (merge->rank < 0) continue;
    const int32_t ids[] = {merge->left, merge->right, merge->id};
    for (int j = 0; j < 3; j++)
      if (ids[j] == tokenizer->unk || (j < 2 && bytes && is_byte_piece(tokenizer, ids[j]))) return false;
  }
  return true;
}

static ch_status find_joins(ch_tokenizer *tokenizer, ch_error *error) {
  if (!may_cut(tokenizer)) return CH_OK;
  tokenizer->joins = calloc(1, CH_JOIN_BITS / 8);
  if (!tokenizer->joins) return ch_no_memory(error);
  for (size_t i = 0; tokenizer->merges.slots && i <= tokenizer->merges.mask; i++) {
    const ch_merge *merge = &tokenizer->merges.slots[i];
    if (merge->rank < 0) continue;
    uint32_t bit = ch_join_bit(edge_character(tokenizer, merge->left, true),
                               edge_character(tokenizer, merge->right, false));
    tokenizer->joins[bit / 8] |= (uint8_t)(1u << bit % 8);
  }
  return CH_OK;
}

/* Adds a `normalized` added token to the matcher in its normalized form. */
static ch_status add_normalized(ch_tokenizer *tokenizer, size_t index, ch_error *error) {
  const ch_added_token *token = &tokenizer->added[index];
  ch_text text = {0}, next = {0};
  ch_regex_scratch scratch = {0};
  size_t added_bytes = 0;
  ch_status status = ch_regex_scratch_open(&scratch, error);
  ch_text_put(&text, token->content, token->size);
  for (size_t i = 0; status == CH_OK && i < tokenizer->normalizer_count; i++) {
    next.size = 0;
    status = ch_normalize(&tokenizer->normalizers[i], &scratch, text.data, text.size, false, &added_bytes,
                          &next, error);
    ch_text swap = text;
    text = next;
    next = swap;
  }
  bool added = status == CH_OK && !text.failed &&
               ch_matcher_add(&tokenizer->normalized, text.data, text.size, (int32_t)index);
  ch_regex_scratch_close(&scratch);
  ch_text_free(&text);
  ch_text_free(&next);
  return status == CH_OK && !added ? ch_no_memory(error) : status;
}

static ch_status build_matchers(ch_tokenizer *tokenizer, ch_error *error) {
  for (size_t i = 0; i < tokenizer->added_count; i++) {
    const ch_added_token *token = &tokenizer->added[i];
    if (token->special) tokenizer->special[token->id] = 1;
    if (token->normalized)
      CH_TRY(add_normalized(tokenizer, i, error));
    else if (!ch_matcher_add(&tokenizer->raw, token->content, token->size, (int32_t)i))
      return ch_no_memory(error);
  }
  return CH_OK;
}

/* Decodes a byte-level piece: the bytes of its characters, or the piece itself if one of them encodes no
 * byte. */
static void decode_bytes(const char *piece, size_t size, ch_text *out) {
  const unsigned char *p = (const unsigned char *)piece, *end = p + size;
  size_t start = out->size;
  while (p < end) {
    uint32_t character = 0;
    size_t length = ch_utf8_decode(p, end, &character);
    int byte = length ? ch_character_to_byte(character) : -1;
    if (byte < 0) {
      out->size = start;
      ch_text_put(out, piece, size);
      return;
    }
    char c = (char)byte;
    ch_text_put(out, &c, 1);
    p += length;
  }
}

static void put_replaced(const ch_replacement *replacement, const char *text, size_t size, ch_text *out) {
  for (const char *at = text, *end = text + size; at < end;) {
    const char *hit = memmem(at, (size_t)(end - at), replacement->from, replacement->from_size);
    ch_text_put(out, at, (size_t)((hit ? hit : end) - at));
    if (!hit) break;
    ch_text_put(out, replacement->to, replacement->to_size);
    at = hit + replacement->from_size;
  }
}

/* Applies the replacements one after the other. */
static void decode_marks(const char *piece, size_t size, const ch_replacements *replace, ch_text *out) {
  ch_text texts[2] = {{0}, {0}};
  for (size_t i = 0; replace && i + 1 < replace->count; i++) {
    texts[i % 2].size = 0;
    put_replaced(&replace->items[i], piece, size, &texts[i % 2]);
    piece = texts[i % 2].data;
    size = texts[i % 2].size;
    if (texts[i % 2].failed) out->failed = true;
  }
  if (replace && replace->count)
    put_replaced(&replace->items[replace->count - 1], piece, size, out);
  else
    ch_text_put(out, piece, size);
  ch_text_free(&texts[0]);
  ch_text_free(&texts[1]);
}

static ch_status build_decoded(ch_tokenizer *tokenizer, const ch_replacements *replace, ch_error *error) {
  int32_t count = tokenizer->vocabulary.size;
  tokenizer->decoded_spans = calloc((size_t)count, sizeof *tokenizer->decoded_spans);
  if (!tokenizer->decoded_spans) return ch_no_memory(error);
  for (int32_t id = 0; id < count; id++) {
    size_t size, start = tokenizer->decoded.size;
    const char *piece = ch_vocabulary_piece(&tokenizer->vocabulary, id, &size);
    if (!piece) continue;
    int byte = tokenizer->decoder.byte_fallback ? byte_of_piece(piece, size) : -1;
    if (byte >= 0) {
      char c = (char)byte;
      ch_text_put(&tokenizer->decoded, &c, 1);
    } else if (tokenizer->decoder.byte_level) {
      decode_bytes(piece, size, &tokenizer->decoded);
    } else {
      decode_marks(piece, size, replace, &tokenizer->decoded);
    }
    tokenizer->decoded_spans[id] = (ch_span){(uint32_t)start, (uint32_t)(tokenizer->decoded.size - start)};
  }
  /* The text of an added token is not in the byte alphabet, because it is found in the original text. */
  for (size_t i = 0; tokenizer->decoder.byte_level && i < tokenizer->added_count; i++) {
    const ch_added_token *token = &tokenizer->added[i];
    tokenizer->decoded_spans[token->id] = (ch_span){(uint32_t)tokenizer->decoded.size, (uint32_t)token->size};
    ch_text_put(&tokenizer->decoded, token->content, token->size);
  }
  if (tokenizer->decoded.failed || tokenizer->decoded.size >= UINT32_MAX) return ch_no_memory(error);
  return CH_OK;
}

/* Sets the beginning and the end token if they are not known yet: to the first id that encoding puts before a
   text and the last id that it puts after the text. Without such ids, the end token is found by its usual
   names. */
static void guess_ends(ch_tokenizer *tokenizer) {
  static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>",
                                     "<eos>",         "<|im_end|>",      "<｜end▁of▁sentence｜>"};
  if (tokenizer->bos < 0 && tokenizer->prefix_size) tokenizer->bos = tokenizer->prefix[0];
  if (tokenizer->eos < 0 && tokenizer->suffix_size)
    tokenizer->eos = tokenizer->suffix[tokenizer->suffix_size - 1];
  for (size_t i = 0; i < sizeof ends / sizeof *ends && tokenizer->eos < 0; i++)
    tokenizer->eos = ch_vocabulary_find(&tokenizer->vocabulary, ends[i], strlen(ends[i]));
}

ch_status ch_tokenizer_complete(ch_tokenizer *tokenizer, const ch_replacements *replace, ch_error *error) {
  if (tokenizer->vocabulary.count == 0)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: the vocabulary is empty", tokenizer->file);
  tokenizer->special = calloc((size_t)tokenizer->vocabulary.size, 1);
  if (!tokenizer->special) return ch_no_memory(error);
  find_byte_pieces(tokenizer);
  guess_ends(tokenizer);
  CH_TRY(find_joins(tokenizer, error));
  CH_TRY(build_matchers(tokenizer, error));
  return build_decoded(tokenizer, replace, error);
}

int32_t ch_tokenizer_vocab_size(const ch_tokenizer *tokenizer) {
  return tokenizer->vocabulary.size;
}

int32_t ch_tokenizer_bos(const ch_tokenizer *tokenizer) {
  return tokenizer->bos;
}

int32_t ch_tokenizer_eos(const ch_tokenizer *tokenizer) {
  return tokenizer->eos;
}

bool ch_tokenizer_adds_bos(const ch_tokenizer *tokenizer) {
  return tokenizer->prefix_size > 0;
}

bool ch_tokenizer_is_special(const ch_tokenizer *tokenizer, int32_t id) {
  return id >= 0 && id < tokenizer->vocabulary.size && tokenizer->special[id];
}

const char *ch_tokenizer_piece(const ch_tokenizer *tokenizer, int32_t id, size_t *size) {
  return ch_vocabulary_piece(&tokenizer->vocabulary, id, size);
}

int32_t ch_tokenizer_find(const ch_tokenizer *tokenizer, const char *piece, size_t size) {
  return ch_vocabulary_find(&tokenizer->vocabulary, piece, size);
}

uint64_t ch_tokenizer_fingerprint(const ch_tokenizer *tokenizer) {
  return tokenizer->fingerprint;
}
