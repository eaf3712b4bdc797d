/* Loader of llama2.c's tokenizer.bin: SentencePiece pieces with scores. */
#include "text/tokenizer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/hash.h"
#include "base/utf8.h"

/* Layout: int32 longest piece, then for each id: float score, int32 length, bytes. The mark U+2581 is a
   space. */
enum { UNKNOWN = 0, BEGIN = 1, END = 2, FIRST_BYTE = 3, FIRST_PIECE = FIRST_BYTE + 256 };

typedef struct piece_score {
  float score;
  int32_t id;
} piece_score;

static ch_status format_error(const ch_tokenizer *tokenizer, ch_error *error, const char *problem,
                              size_t at) {
  return ch_fail(error, CH_ERROR_FORMAT, "%s is not a llama2.c tokenizer.bin: %s at byte %zu",
                 tokenizer->file, problem, at);
}

static ch_status add_piece(ch_tokenizer *tokenizer, int32_t id, const char *piece, size_t size,
                           ch_error *error) {
  static const char *const controls[] = {"<unk>", "<s>", "</s>"};
  if (id < FIRST_BYTE) {
    size_t length = strlen(controls[id]);
    CH_TRY(ch_vocabulary_add(&tokenizer->vocabulary, controls[id], length, id, tokenizer->file, error));
    ch_added_token token = {.content = (char *)controls[id], .size = length, .id = id, .special = true};
    return ch_tokenizer_add_token(tokenizer, token, error);
  }
  return ch_vocabulary_add(&tokenizer->vocabulary, piece, size, id, tokenizer->file, error);
}

static ch_status read_pieces(ch_tokenizer *tokenizer, const unsigned char *data, size_t size, float **scores,
                             ch_error *error) {
  int32_t longest = 0, id = 0;
  if (size < 4) return format_error(tokenizer, error, "the file ends", size);
  memcpy(&longest, data, 4);
  size_t at = 4, most = (size - at) / 8;
  if (longest <= 0 || most > CH_VOCABULARY_LIMIT) return format_error(tokenizer, error, "impossible size", 0);
  *scores = calloc(most + 1, sizeof **scores);
  if (!*scores) return ch_no_memory(error);
  for (; at < size; id++) {
    int32_t length = 0;
    if (size - at < 8) return format_error(tokenizer, error, "a token is cut off", at);
    memcpy(&(*scores)[id], data + at, 4);
    memcpy(&length, data + at + 4, 4);
    if (length < 0 || (length > longest && id >= FIRST_BYTE) || (size_t)length > size - at - 8)
      return format_error(tokenizer, error, "impossible token length", at + 4);
    if (!isfinite((*scores)[id])) return format_error(tokenizer, error, "a score is not a finite number", at);
    const unsigned char *piece = data + at + 8;
    if (ch_utf8_valid_prefix(piece, (size_t)length) != (size_t)length)
      return format_error(tokenizer, error, "a token is not UTF-8", at + 8);
    CH_TRY(add_piece(tokenizer, id, (const char *)piece, (size_t)length, error));
    at += 8 + (size_t)length;
  }
  if (id < FIRST_PIECE) return format_error(tokenizer, error, "fewer than 259 tokens", at);
  return CH_OK;
}

static int by_falling_score(const void *a, const void *b) {
  const piece_score *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

/* Adds a pair for every way to cut a piece in two pieces. Each pair merges into it. */
static bool add_pairs(ch_tokenizer *tokenizer, int32_t id, int32_t rank) {
  size_t size;
  const ch_vocabulary *vocabulary = &tokenizer->vocabulary;
  const char *piece = ch_vocabulary_piece(vocabulary, id, &size);
  for (size_t cut = 1; cut < size; cut++) {
    if (((unsigned char)piece[cut] & 0xc0) == 0x80) continue;
    int32_t left = ch_vocabulary_find(vocabulary, piece, cut);
    int32_t right = left < FIRST_PIECE ? -1 : ch_vocabulary_find(vocabulary, piece + cut, size - cut);
    if (right < FIRST_PIECE) continue;
    if (!ch_merges_set(&tokenizer->merges, (ch_merge){left, right, rank, id})) return false;
  }
  return true;
}

/* Ranks pairs in SentencePiece's order. SentencePiece merges the pair whose piece has the highest score and, of
   equals, the leftmost, so pairs of equal score share a rank. Control and byte pieces are excluded. */
static ch_status rank_pairs(ch_tokenizer *tokenizer, const float *scores, ch_error *error) {
  int32_t count = tokenizer->vocabulary.size, rank = -1;
  piece_score *order = malloc((size_t)count * sizeof *order);
  bool done = order != NULL;
  for (int32_t id = FIRST_PIECE; done && id < count; id++)
    order[id - FIRST_PIECE] = (piece_score){scores[id], id};
  if (done) qsort(order, (size_t)(count - FIRST_PIECE), sizeof *order, by_falling_score);
  for (int32_t i = 0; done && i < count - FIRST_PIECE; i++) {
    if (i == 0 || order[i].score != order[i - 1].score) rank++;
    done = add_pairs(tokenizer, order[i].id, rank);
  }
  free(order);
  return done ? CH_OK : ch_no_memory(error);
}

static ch_status check_bytes(const ch_tokenizer *tokenizer, ch_error *error) {
  for (int byte = 0; byte < 256; byte++)
    if (tokenizer->byte_ids[byte] != FIRST_BYTE + byte)
      return ch_fail(error, CH_ERROR_FORMAT, "%s is not a llama2.c tokenizer.bin: token %d is not <0x%02X>",
                     tokenizer->file, FIRST_BYTE + byte, (unsigned)byte);
  return CH_OK;
}

/* Adds what SentencePiece adds for Llama: a space before the text, and <s> before that. */
static ch_status add_habits(ch_tokenizer *tokenizer, ch_error *error) {
  ch_normalizer *space = &tokenizer->normalizers[0];
  tokenizer->normalizer_count = 1;
  *space = (ch_normalizer){.type = CH_NORMALIZE_PREPEND, .to = strdup(" "), .to_size = 1};
  tokenizer->prefix = malloc(sizeof *tokenizer->prefix);
  if (!space->to || !tokenizer->prefix) return ch_no_memory(error);
  tokenizer->prefix[0] = tokenizer->bos = BEGIN;
  tokenizer->prefix_size = 1;
  tokenizer->eos = END;
  tokenizer->byte_fallback = tokenizer->decoder.byte_fallback = true;
  tokenizer->decoder.strip_start = 1;
  tokenizer->decoder.strip_character = ' ';
  return CH_OK;
}

ch_status ch_tokenizer_from_bin(const unsigned char *data, size_t size, const char *name,
                                ch_tokenizer **tokenizer, ch_error *error) {
  float *scores = NULL;
  ch_tokenizer *fresh = ch_tokenizer_new(name);
  *tokenizer = NULL;
  if (!fresh) return ch_no_memory(error);
  ch_status status = CH_OK;
  CH_TRY_GOTO(read_pieces(fresh, data, size, &scores, error));
  CH_TRY_GOTO(rank_pairs(fresh, scores, error));
  CH_TRY_GOTO(add_habits(fresh, error));
  CH_TRY_GOTO(ch_tokenizer_complete(fresh, NULL, error));
  CH_TRY_GOTO(check_bytes(fresh, error));
  fresh->fingerprint = ch_hash_bytes(data, size, 1);
  *tokenizer = fresh;
  fresh = NULL;
done:
  free(scores);
  ch_tokenizer_free(fresh);
  return status;
}
