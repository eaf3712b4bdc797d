/* The vocabulary of a tokenizer that is open here, for writing it elsewhere. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "formats/pieces.h"
#include "text/tokenizer_internal.h"

static ch_status no_memory(const ch_tokenizer *tokenizer, ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "no memory for the vocabulary of %s", tokenizer->file);
}

/* --- how it cuts text: what only the file says --------------------------------------------------------------------- */

enum { MOST_PATTERNS = 16 };

/* What a tokenizer.json has before its model. */
typedef struct habits {
  json_t *root; /* owns the patterns */
  const char *patterns[MOST_PATTERNS + 1];
  int count;
  bool gpt2, normalize, ignore_merges, space_prefix, strange;
} habits;

static bool is_type(const json_t *json, const char *type) {
  const char *given = json_string_value(json_object_get(json, "type"));
  return given && strcmp(given, type) == 0;
}

static void add_pattern(habits *h, const char *pattern) {
  if (!pattern || h->gpt2 || h->count == MOST_PATTERNS)
    h->strange = true;
  else
    h->patterns[h->count++] = pattern;
}

static void note_split(habits *h, const json_t *step) {
  const char *behavior = json_string_value(json_object_get(step, "behavior"));
  bool isolated =
      behavior && strcmp(behavior, "Isolated") == 0 && !json_is_true(json_object_get(step, "invert"));
  add_pattern(h, isolated ? json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"))
                          : NULL);
}

static void note_step(habits *h, const json_t *step) {
  const json_t *regex = json_object_get(step, "use_regex"),
               *digits = json_object_get(step, "individual_digits");
  if (is_type(step, "Split"))
    note_split(h, step);
  else if (is_type(step, "Digits"))
    add_pattern(h, json_is_true(digits) ? "\\p{N}" : NULL);
  else if (is_type(step, "ByteLevel")) {
    h->gpt2 = !regex || json_is_true(regex);
    h->strange = h->strange || json_is_true(json_object_get(step, "add_prefix_space"));
  } else if (is_type(step, "Metaspace")) {
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    h->space_prefix = !scheme || strcmp(scheme, "never") != 0;
  } else
    h->strange = true;
}

static void note_normalizer(habits *h, const json_t *normalizer) {
  if (is_type(normalizer, "NFC"))
    h->normalize = true;
  else if (is_type(normalizer, "Prepend"))
    h->space_prefix = true;
  else if (!is_type(normalizer, "Replace"))
    h->strange = true;
}

static void each(habits *h, const json_t *part, const char *list, void (*note)(habits *, const json_t *)) {
  const json_t *members = json_object_get(part, list);
  if (!part || json_is_null(part)) return;
  if (!is_type(part, "Sequence")) note(h, part);
  for (size_t i = 0; i < json_array_size(members); i++) note(h, json_array_get(members, i));
}

static ch_status read_habits(const ch_tokenizer *tokenizer, habits *h, ch_error *error) {
  json_error_t problem;
  h->root = json_load_file(tokenizer->file, 0, &problem);
  if (!h->root) return ch_fail(error, CH_ERROR_IO, "cannot read %s again: %s", tokenizer->file, problem.text);
  each(h, json_object_get(h->root, "normalizer"), "normalizers", note_normalizer);
  each(h, json_object_get(h->root, "pre_tokenizer"), "pretokenizers", note_step);
  h->ignore_merges = tokenizer->ignore_merges;
  return CH_OK;
}

static ch_status find_words(const ch_tokenizer *tokenizer, const habits *h, ch_pieces *pieces,
                            ch_error *error) {
  const ch_word_rule rule = {
      .patterns = h->patterns, .gpt2 = h->gpt2, .normalize = h->normalize, .ignore_merges = h->ignore_merges};
  pieces->words = h->strange ? NULL : ch_word_rule_like(&rule);
  if (pieces->words) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: GGUF has no name for the way it cuts text into words; --no-tokenizer leaves it out",
                 tokenizer->file);
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b) {
  const ch_merge *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->left != y->left ? (x->left < y->left ? -1 : 1) : (x->right > y->right) - (x->right < y->right);
}

/* Merges by rank. The best one that makes a piece is its score. */
static ch_status take_merges(const ch_tokenizer *tokenizer, ch_pieces *pieces, ch_error *error) {
  const ch_merges *merges = &tokenizer->merges;
  ch_merge *sorted = malloc((merges->count + 1) * sizeof *sorted);
  pieces->pairs = malloc((merges->count + 1) * sizeof *pieces->pairs);
  if (!sorted || !pieces->pairs) {
    free(sorted);
    return no_memory(tokenizer, error);
  }
  size_t count = 0;
  for (size_t i = 0; merges->slots && i <= merges->mask; i++)
    if (merges->slots[i].rank >= 0) sorted[count++] = merges->slots[i];
  if (count) qsort(sorted, count, sizeof *sorted, by_rank);
  for (int32_t i = 0; i < pieces->count; i++) pieces->items[i].score = -(float)count - 1;
  for (size_t i = count; i-- > 0;) {
    pieces->pairs[i] = (ch_piece_pair){sorted[i].left, sorted[i].right};
    pieces->items[sorted[i].id].score = -(float)sorted[i].rank;
  }
  pieces->pair_count = (int64_t)count;
  free(sorted);
  return CH_OK;
}

static void take_kinds(const ch_tokenizer *tokenizer, ch_pieces *pieces) {
  for (int byte = 0; byte < 256 && tokenizer->byte_fallback; byte++)
    if (tokenizer->byte_ids[byte] >= 0) pieces->items[tokenizer->byte_ids[byte]].kind = CH_PIECE_BYTE;
  for (size_t i = 0; i < tokenizer->added_count; i++)
    pieces->items[tokenizer->added[i].id].kind =
        tokenizer->added[i].special ? CH_PIECE_CONTROL : CH_PIECE_USER;
  if (tokenizer->unk >= 0) pieces->items[tokenizer->unk].kind = CH_PIECE_UNKNOWN;
}

/* Ids without a piece, and rows of the embedding that no token has, get names that no text holds. */
static ch_status name_gaps(const ch_tokenizer *tokenizer, ch_pieces *pieces, ch_error *error) {
  enum { NAME = 20 };
  int32_t known = ch_tokenizer_vocab_size(tokenizer);
  char *names = pieces->owned = malloc((size_t)pieces->count * NAME);
  if (!names) return no_memory(tokenizer, error);
  for (int32_t i = 0; i < pieces->count; i++) {
    ch_piece *piece = &pieces->items[i];
    piece->text = i < known ? ch_tokenizer_piece(tokenizer, i, &piece->size) : NULL;
    piece->kind = CH_PIECE_NORMAL;
    if (piece->text) continue;
    char *name = names + (size_t)i * NAME;
    *piece = (ch_piece){name, (size_t)snprintf(name, NAME, "[PAD%d]", i), 0, CH_PIECE_UNUSED};
  }
  return CH_OK;
}

static ch_status take_json(const ch_tokenizer *tokenizer, ch_pieces *pieces, ch_error *error) {
  habits h = {0};
  ch_status status = name_gaps(tokenizer, pieces, error);
  if (status == CH_OK) status = read_habits(tokenizer, &h, error);
  if (status == CH_OK) status = take_merges(tokenizer, pieces, error);
  if (status == CH_OK) take_kinds(tokenizer, pieces);
  pieces->space_prefix = h.space_prefix;
  if (status == CH_OK && pieces->byte_level)
    status = find_words(tokenizer, &h, pieces, error);
  else if (status == CH_OK && (h.strange || !tokenizer->byte_fallback))
    status = ch_fail(
        error, CH_ERROR_CONFIG,
        "%s is neither byte-level nor SentencePiece's kind with bytes, which GGUF knows; --no-tokenizer "
        "leaves it out",
        tokenizer->file);
  json_decref(h.root);
  return status;
}

ch_status ch_pieces_from_tokenizer(const ch_tokenizer *tokenizer, int64_t vocab_size, ch_pieces *pieces,
                                   ch_error *error) {
  *pieces = (ch_pieces){.byte_level = tokenizer->byte_level,
                        .count = (int32_t)vocab_size,
                        .begin = ch_tokenizer_bos(tokenizer),
                        .end = ch_tokenizer_eos(tokenizer),
                        .unknown = tokenizer->unk,
                        .padding = -1,
                        .add_begin = tokenizer->prefix_size > 0,
                        .add_end = tokenizer->suffix_size > 0};
  if (ch_tokenizer_vocab_size(tokenizer) > vocab_size)
    return ch_fail(error, CH_ERROR_CONFIG, "%s has %d tokens, more than the model's vocabulary of %lld",
                   tokenizer->file, ch_tokenizer_vocab_size(tokenizer), (long long)vocab_size);
  pieces->items = calloc((size_t)vocab_size, sizeof *pieces->items);
  return pieces->items ? take_json(tokenizer, pieces, error) : no_memory(tokenizer, error);
}
