/* Reads vocabularies: GGUF's lists, and llama2.c's tokenizer.bin. */
#include "formats/pieces.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_internal.h"
#include "base/utf8.h"

void ch_pieces_free(ch_pieces *pieces) {
  free(pieces->items);
  free(pieces->pairs);
  free(pieces->owned);
  *pieces = (ch_pieces){0};
}

/* --- GGUF ----------------------------------------------------------------------------------------------- */

static ch_status read_texts(const ch_gguf *file, const ch_gguf_value *tokens, ch_pieces *pieces,
                            ch_error *error) {
  if (tokens->count == 0 || tokens->count > CH_VOCABULARY_LIMIT)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: its vocabulary has %" PRIu64 " tokens; 1 to %d are supported",
                   file->where, tokens->count, CH_VOCABULARY_LIMIT);
  pieces->items = calloc(tokens->count, sizeof *pieces->items);
  if (!pieces->items) return ch_no_memory(error);
  pieces->count = (int32_t)tokens->count;
  const unsigned char *at = tokens->data;
  for (int32_t i = 0; i < pieces->count; i++) {
    ch_gguf_string text = ch_gguf_next_string(&at);
    pieces->items[i] = (ch_piece){text.data, text.size, 0, CH_PIECE_NORMAL};
    if (ch_utf8_valid_prefix((const unsigned char *)text.data, text.size) != text.size)
      return ch_fail(error, CH_ERROR_FORMAT, "%s: token %d of its vocabulary is not UTF-8", file->where, i);
  }
  return CH_OK;
}

static ch_status wrong_count(const ch_gguf *file, const char *key, const ch_gguf_value *list, int32_t count,
                             ch_error *error) {
  return ch_fail(error, CH_ERROR_FORMAT, "%s: \"%s\" has %" PRIu64 " entries where there are %d tokens",
                 file->where, key, list->count, count);
}

static ch_status read_kinds(const ch_gguf *file, ch_pieces *pieces, ch_error *error) {
  static const char key[] = "tokenizer.ggml.token_type";
  const ch_gguf_value *kinds;
  int64_t kind;
  CH_TRY(ch_gguf_list(file, key, CH_GGUF_I32, false, &kinds, error));
  if (!kinds) return CH_OK;
  if (kinds->count != (uint64_t)pieces->count) return wrong_count(file, key, kinds, pieces->count, error);
  for (int32_t i = 0; i < pieces->count; i++) {
    if (!ch_gguf_whole_at(kinds, (uint64_t)i, &kind) || kind < 0 || kind > CH_PIECE_BYTE)
      return ch_fail(error, CH_ERROR_FORMAT, "%s: \"%s\" gives token %d a type that is none of 1 to 6",
                     file->where, key, i);
    pieces->items[i].kind = kind ? (ch_piece_kind)kind : CH_PIECE_NORMAL;
  }
  return CH_OK;
}

static ch_status read_scores(const ch_gguf *file, ch_pieces *pieces, ch_error *error) {
  static const char key[] = "tokenizer.ggml.scores";
  const ch_gguf_value *scores;
  CH_TRY(ch_gguf_list(file, key, CH_GGUF_F32, true, &scores, error));
  if (scores->count != (uint64_t)pieces->count) return wrong_count(file, key, scores, pieces->count, error);
  for (int32_t i = 0; i < pieces->count; i++) {
    pieces->items[i].score = (float)ch_gguf_number_at(scores, (uint64_t)i);
    if (!isfinite(pieces->items[i].score))
      return ch_fail(error, CH_ERROR_FORMAT, "%s: the score of token %d is not a finite number", file->where,
                     i);
  }
  return ch_pieces_pair_up(pieces, file->where, error);
}

/* Reads "left right". The first space that is not the first character separates them. */
static ch_status read_merge(const ch_gguf *file, const ch_vocabulary *vocabulary, ch_gguf_string text,
                            uint64_t rank, ch_piece_pair *pair, ch_error *error) {
  char shown[64];
  const char *space = text.size > 1 ? memchr(text.data + 1, ' ', text.size - 1) : NULL;
  if (space) {
    size_t cut = (size_t)(space - text.data);
    pair->left = ch_vocabulary_find(vocabulary, text.data, cut);
    pair->right = ch_vocabulary_find(vocabulary, space + 1, text.size - cut - 1);
    if (pair->left >= 0 && pair->right >= 0) return CH_OK;
  }
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s: merge %" PRIu64 ", \"%s\", is not two tokens of its vocabulary with a "
                 "space between",
                 file->where, rank, ch_piece_for_message(text.data, text.size, shown));
}

static ch_status index_pieces(const ch_pieces *pieces, const char *where, ch_vocabulary *vocabulary,
                              ch_error *error) {
  for (int32_t i = 0; i < pieces->count; i++)
    CH_TRY(ch_vocabulary_add(vocabulary, pieces->items[i].text, pieces->items[i].size, i, where, error));
  return CH_OK;
}

static ch_status read_merges(const ch_gguf *file, const ch_vocabulary *vocabulary, ch_pieces *pieces,
                             ch_error *error) {
  const ch_gguf_value *merges;
  CH_TRY(ch_gguf_list(file, "tokenizer.ggml.merges", CH_GGUF_STRING, true, &merges, error));
  /* each merge takes at least 8 bytes of the file, so the size of the file bounds the count */
  pieces->pairs = calloc(merges->count + 1, sizeof *pieces->pairs);
  if (!pieces->pairs) return ch_no_memory(error);
  const unsigned char *at = merges->data;
  for (uint64_t i = 0; i < merges->count; i++)
    CH_TRY(read_merge(file, vocabulary, ch_gguf_next_string(&at), i, &pieces->pairs[i], error));
  pieces->pair_count = (int64_t)merges->count;
  return CH_OK;
}

static ch_status read_words(const ch_gguf *file, ch_pieces *pieces, ch_error *error) {
  ch_gguf_string name = {0};
  char shown[64];
  CH_TRY(ch_gguf_text(file, "tokenizer.ggml.pre", false, &name, error));
  if (!name.data || name.size == 0 || (name.size == 7 && memcmp(name.data, "default", 7) == 0))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s does not say how its tokenizer cuts text into words (\"tokenizer.ggml.pre\" is %s), "
                   "as in files from "
                   "before May 2024; give the model's tokenizer.json with {tokenizer}",
                   file->where, name.data && name.size ? "\"default\"" : "missing");
  pieces->words = ch_word_rule_named(name.data, name.size);
  if (!pieces->words)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s: its pre-tokenizer \"%s\" is not known here; give the model's tokenizer.json with {tokenizer}",
        file->where, ch_piece_for_message(name.data, name.size, shown));
  pieces->add_begin = pieces->words->begins;
  ch_vocabulary vocabulary = {0};
  ch_status status = index_pieces(pieces, file->where, &vocabulary, error);
  if (status == CH_OK) status = read_merges(file, &vocabulary, pieces, error);
  ch_vocabulary_free(&vocabulary);
  return status;
}

static ch_status read_id(const ch_gguf *file, const char *key, int32_t count, int32_t *id, ch_error *error) {
  int64_t value = -1;
  CH_TRY(ch_gguf_whole(file, key, false, &value, error));
  *id = value >= 0 && value < count ? (int32_t)value : -1; /* 2^32 - 1 means none in some files */
  return CH_OK;
}

static ch_status read_habits(const ch_gguf *file, ch_pieces *pieces, ch_error *error) {
  CH_TRY(read_id(file, "tokenizer.ggml.bos_token_id", pieces->count, &pieces->begin, error));
  CH_TRY(read_id(file, "tokenizer.ggml.eos_token_id", pieces->count, &pieces->end, error));
  CH_TRY(read_id(file, "tokenizer.ggml.unknown_token_id", pieces->count, &pieces->unknown, error));
  CH_TRY(read_id(file, "tokenizer.ggml.padding_token_id", pieces->count, &pieces->padding, error));
  CH_TRY(ch_gguf_bool(file, "tokenizer.ggml.add_bos_token", &pieces->add_begin, error));
  CH_TRY(ch_gguf_bool(file, "tokenizer.ggml.add_eos_token", &pieces->add_end, error));
  return ch_gguf_bool(file, "tokenizer.ggml.add_space_prefix", &pieces->space_prefix, error);
}

ch_status ch_pieces_from_gguf(const ch_gguf *file, ch_pieces *pieces, ch_error *error) {
  *pieces = (ch_pieces){.begin = -1, .end = -1, .unknown = -1, .padding = -1};
  ch_gguf_string model = {0};
  const ch_gguf_value *tokens;
  char shown[64];
  CH_TRY(ch_gguf_text(file, "tokenizer.ggml.model", false, &model, error));
  bool none = !model.data || (model.size == 4 && memcmp(model.data, "none", 4) == 0) ||
              (model.size == 8 && memcmp(model.data, "no_vocab", 8) == 0);
  if (none) return CH_OK;
  bool scored = model.size == 5 && memcmp(model.data, "llama", 5) == 0;
  pieces->byte_level = model.size == 4 && memcmp(model.data, "gpt2", 4) == 0;
  if (!scored && !pieces->byte_level)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s: its tokenizer is of model \"%s\"; \"llama\" and \"gpt2\" are supported, others need {tokenizer}",
        file->where, ch_piece_for_message(model.data, model.size, shown));
  CH_TRY(ch_gguf_list(file, "tokenizer.ggml.tokens", CH_GGUF_STRING, true, &tokens, error));
  CH_TRY(read_texts(file, tokens, pieces, error));
  CH_TRY(read_kinds(file, pieces, error));
  pieces->space_prefix = pieces->add_begin = scored;
  CH_TRY(scored ? read_scores(file, pieces, error) : read_words(file, pieces, error));
  return read_habits(file, pieces, error);
}

/* --- pairs ---------------------------------------------------------------------------------------------- */

typedef struct scored_pair {
  ch_piece_pair pair;
  float score;
  int32_t whole;
} scored_pair;

/* Orders by falling score of the piece, then by id of the piece, then by the pair's left id. */
static int by_falling_score(const void *a, const void *b) {
  const scored_pair *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  if (x->whole != y->whole) return x->whole < y->whole ? -1 : 1;
  return x->pair.left < y->pair.left ? -1 : x->pair.left > y->pair.left;
}

typedef struct pair_list {
  scored_pair *items;
  size_t count, room;
} pair_list;

static bool add_pair(pair_list *list, scored_pair pair) {
  if (list->count == list->room) {
    size_t room = list->room ? 2 * list->room : 1024;
    scored_pair *items = realloc(list->items, room * sizeof *items);
    if (!items) return false;
    list->items = items;
    list->room = room;
  }
  list->items[list->count++] = pair;
  return true;
}

static bool merges(const ch_pieces *pieces, int32_t id) {
  return id >= 0 && pieces->items[id].kind == CH_PIECE_NORMAL;
}

/* Adds the pairs of a piece. A piece of n bytes needs up to 2 n look-ups. */
static bool add_pairs_of(const ch_pieces *pieces, const ch_vocabulary *vocabulary, int32_t id,
                         pair_list *list) {
  const ch_piece *piece = &pieces->items[id];
  for (size_t cut = 1; cut < piece->size; cut++) {
    if (((unsigned char)piece->text[cut] & 0xc0) == 0x80) continue;
    int32_t left = ch_vocabulary_find(vocabulary, piece->text, cut);
    int32_t right =
        merges(pieces, left) ? ch_vocabulary_find(vocabulary, piece->text + cut, piece->size - cut) : -1;
    if (merges(pieces, right) && !add_pair(list, (scored_pair){{left, right}, piece->score, id}))
      return false;
  }
  return true;
}

enum { MOST_PIECE = 512 };

ch_status ch_pieces_pair_up(ch_pieces *pieces, const char *where, ch_error *error) {
  pair_list list = {0};
  ch_vocabulary vocabulary = {0};
  bool done = true;
  ch_status status = index_pieces(pieces, where, &vocabulary, error);
  for (int32_t id = 0; status == CH_OK && done && id < pieces->count; id++) {
    if (pieces->items[id].kind != CH_PIECE_NORMAL) continue;
    if (pieces->items[id].size > MOST_PIECE)
      status = ch_fail(error, CH_ERROR_FORMAT, "%s: token %d has %zu bytes; the limit is %d", where, id,
                       pieces->items[id].size, MOST_PIECE);
    else
      done = add_pairs_of(pieces, &vocabulary, id, &list);
  }
  ch_vocabulary_free(&vocabulary);
  if (status == CH_OK && done) {
    if (list.count) qsort(list.items, list.count, sizeof *list.items, by_falling_score);
    pieces->pairs = malloc((list.count + 1) * sizeof *pieces->pairs);
    pieces->pair_count = pieces->pairs ? (int64_t)list.count : 0;
    for (int64_t i = 0; i < pieces->pair_count; i++) pieces->pairs[i] = list.items[i].pair;
  }
  free(list.items);
  if (status == CH_OK && !pieces->pairs) status = ch_no_memory(error);
  return status;
}

/* --- tokenizer.bin -------------------------------------------------------------------------------------- */

static const char mark[] = "\xe2\x96\x81"; /* U+2581 */

/* Spells the pieces with marks for their spaces, in one block of memory. */
static ch_status spell_with_marks(const ch_tokenizer *tokenizer, const char *where, ch_pieces *pieces,
                                  ch_error *error) {
  size_t size, total = 1;
  for (int32_t i = 0; i < pieces->count; i++) {
    const char *text = ch_tokenizer_piece(tokenizer, i, &size);
    if (!text) return ch_fail(error, CH_ERROR_FORMAT, "%s has no token %d", where, i);
    total += 3 * size;
  }
  char *out = pieces->owned = malloc(total);
  if (!out) return ch_no_memory(error);
  for (int32_t i = 0; i < pieces->count; i++) {
    const char *text = ch_tokenizer_piece(tokenizer, i, &size);
    ch_piece *piece = &pieces->items[i];
    piece->text = out;
    for (size_t j = 0; j < size; j++)
      if (text[j] == ' ') {
        memcpy(out, mark, 3);
        out += 3;
      } else
        *out++ = text[j];
    piece->size = (size_t)(out - piece->text);
  }
  return CH_OK;
}

static ch_status take_bin(const ch_tokenizer *tokenizer, const char *path, ch_pieces *pieces,
                          ch_error *error) {
  pieces->count = ch_tokenizer_vocab_size(tokenizer);
  pieces->items = calloc((size_t)pieces->count, sizeof *pieces->items);
  if (!pieces->items) return ch_no_memory(error);
  CH_TRY(spell_with_marks(tokenizer, path, pieces, error));
  for (int32_t i = 0; i < pieces->count; i++)
    pieces->items[i].kind = i == 0    ? CH_PIECE_UNKNOWN
                            : i < 3   ? CH_PIECE_CONTROL
                            : i < 259 ? CH_PIECE_BYTE
                                      : CH_PIECE_NORMAL;
  /* A piece's rank among the merges gives the order of its original score. */
  const ch_merges *merges = &tokenizer->merges;
  for (size_t i = 0; merges->slots && i <= merges->mask; i++)
    if (merges->slots[i].rank >= 0) pieces->items[merges->slots[i].id].score = -(float)merges->slots[i].rank;
  return ch_pieces_pair_up(pieces, path, error);
}

ch_status ch_pieces_from_bin(const char *path, ch_pieces *pieces, ch_error *error) {
  *pieces =
      (ch_pieces){.begin = 1, .end = 2, .unknown = 0, .padding = -1, .space_prefix = true, .add_begin = true};
  ch_tokenizer *tokenizer;
  CH_TRY(ch_tokenizer_open(path, &tokenizer, error));
  ch_status status = take_bin(tokenizer, path, pieces, error);
  ch_tokenizer_free(tokenizer);
  return status;
}
