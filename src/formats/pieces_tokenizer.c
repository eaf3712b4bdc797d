/* Extracts the vocabulary of an open tokenizer, to write it as GGUF. Refuses tokenizers that GGUF cannot express. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "formats/pieces.h"
#include "text/tokenizer_internal.h"

/* --- settings that only the file has -------------------------------------------------------------------- */

/* The parts of a tokenizer.json before its model. */
typedef struct habits {
  json_t *root;
  bool normalize;      /* true if text is normalised to NFC */
  bool prefix;         /* true if every text gets a mark before it */
  bool maybe_prefix;   /* true if a text gets a mark before it unless it begins with one */
  bool marks;          /* true if spaces become marks */
  bool cut;            /* true if words end before marks */
  const char *strange; /* feature that GGUF cannot express, or NULL */
} habits;

static const char mark[] = "\xe2\x96\x81"; /* U+2581 */

static bool is_type(const json_t *json, const char *type) {
  const char *given = json_string_value(json_object_get(json, "type"));
  return given && strcmp(given, type) == 0;
}

static bool is_text(const json_t *json, const char *text) {
  return json_is_string(json) && json_string_length(json) == strlen(text) &&
         strcmp(json_string_value(json), text) == 0;
}

static const json_t *literal_of(const json_t *step) {
  return json_object_get(json_object_get(step, "pattern"), "String");
}

static void note_metaspace(habits *h, const json_t *step) {
  const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
  const json_t *prefix = json_object_get(step, "add_prefix_space"), *cut = json_object_get(step, "split");
  if (!is_text(json_object_get(step, "replacement"), mark))
    h->strange = "another mark for spaces than U+2581";
  h->maybe_prefix = scheme ? strcmp(scheme, "never") != 0 : !json_is_false(prefix);
  h->cut = !json_is_false(cut);
  h->marks = true;
}

/* Records a pre-tokenizer of a vocabulary that is not byte-level. */
static void note_step(habits *h, const json_t *step) {
  const json_t *literal = literal_of(step);
  /* a split at spaces does nothing once marks have replaced them */
  if (is_type(step, "Metaspace"))
    note_metaspace(h, step);
  else if (!(is_type(step, "Split") && h->marks && literal && strchr(json_string_value(literal), ' ')))
    h->strange = "its pre_tokenizer";
}

static void note_normalizer(habits *h, const json_t *normalizer) {
  if (is_type(normalizer, "NFC"))
    h->normalize = true;
  else if (is_type(normalizer, "Prepend") && is_text(json_object_get(normalizer, "prepend"), mark))
    h->prefix = true;
  else if (is_type(normalizer, "Replace") && literal_of(normalizer) && is_text(literal_of(normalizer), " ") &&
           is_text(json_object_get(normalizer, "content"), mark))
    h->marks = true;
  else
    h->strange = "its normalizer";
}

static void each(habits *h, const json_t *part, const char *list, void (*note)(habits *, const json_t *)) {
  const json_t *members = json_object_get(part, list);
  if (!part || json_is_null(part)) return;
  if (!is_type(part, "Sequence")) note(h, part);
  for (size_t i = 0; i < json_array_size(members); i++) each(h, json_array_get(members, i), list, note);
}

static ch_status read_habits(const ch_tokenizer *tokenizer, habits *h, ch_error *error) {
  json_error_t problem;
  h->root = json_load_file(tokenizer->file, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &problem);
  if (!h->root) return ch_fail(error, CH_ERROR_IO, "cannot read %s again: %s", tokenizer->file, problem.text);
  each(h, json_object_get(h->root, "normalizer"), "normalizers", note_normalizer);
  if (!tokenizer->byte_level)
    each(h, json_object_get(h->root, "pre_tokenizer"), "pretokenizers", note_step);
  else if (h->marks || h->prefix)
    h->strange = "its normalizer";
  else if (tokenizer->step_count && tokenizer->steps[0].type == CH_STEP_PREFIX_SPACE)
    h->strange = "a space before a text (add_prefix_space)";
  if (!tokenizer->byte_level && !h->strange && !h->marks) h->strange = "spaces that stay spaces";
  if (!tokenizer->byte_level && h->normalize) h->strange = "its normalizer";
  return CH_OK;
}

static ch_status find_words(const ch_tokenizer *tokenizer, const habits *h, ch_pieces *pieces,
                            ch_error *error) {
  CH_TRY(ch_word_rule_like(tokenizer, h->normalize, &pieces->words, error));
  if (pieces->words) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: GGUF cannot express how it splits text into words; {no_tokenizer} leaves it out",
                 tokenizer->file);
}

/* --- losses in GGUF ------------------------------------------------------------------------------------- */

static bool any_inner_mark(const ch_pieces *pieces) {
  for (int32_t i = 0; i < pieces->count; i++) {
    const ch_piece *piece = &pieces->items[i];
    if (piece->kind == CH_PIECE_NORMAL && piece->size > 1 &&
        memmem(piece->text + 1, piece->size - 1, mark, sizeof mark - 1))
      return true;
  }
  return false;
}

/* Returns true if normalization changes the text of an added token. */
static bool changes(const ch_tokenizer *tokenizer, const ch_added_token *token) {
  const unsigned char *begin, *stop, *end = (const unsigned char *)token->content + token->size;
  if (!token->normalized) return false;
  return ch_matcher_find(&tokenizer->normalized, (const unsigned char *)token->content, end, &begin, &stop) <
             0 ||
         begin != (const unsigned char *)token->content || stop != end;
}

static const char *loss_of_added(const ch_tokenizer *tokenizer) {
  for (size_t i = 0; i < tokenizer->added_count; i++) {
    const ch_added_token *token = &tokenizer->added[i];
    if (token->lstrip || token->rstrip) return "added tokens that strip the white space around them";
    if (token->single_word) return "added tokens that must be words of their own";
    if (changes(tokenizer, token)) return "added tokens that are matched in normalised text";
  }
  return NULL;
}

/* Returns true if encoding adds at most the beginning token before a text and the end token after it. */
static bool surrounds_plainly(const ch_tokenizer *tokenizer) {
  bool before =
      tokenizer->prefix_size == 0 || (tokenizer->prefix_size == 1 && tokenizer->prefix[0] == tokenizer->bos);
  bool after =
      tokenizer->suffix_size == 0 || (tokenizer->suffix_size == 1 && tokenizer->suffix[0] == tokenizer->eos);
  return before && after;
}

static const char *loss_of(const ch_tokenizer *tokenizer, const habits *h, const ch_pieces *pieces) {
  if (h->normalize) return "that text is normalised to Unicode NFC";
  if (h->maybe_prefix) return "that a space goes before a text only if it begins with none";
  if (h->cut && any_inner_mark(pieces)) return "that words end before spaces";
  if (!pieces->byte_level && tokenizer->ignore_merges) return "that words of the vocabulary are left whole";
  if (pieces->words && pieces->words->approximate)
    return "the exact pattern of words, for letters outside ASCII";
  if (!surrounds_plainly(tokenizer)) return "all tokens that surround a text";
  return loss_of_added(tokenizer);
}

/* --- pieces --------------------------------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b) {
  const ch_merge *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->left != y->left ? (x->left < y->left ? -1 : 1) : (x->right > y->right) - (x->right < y->right);
}

/* Lists the merges by rank. A piece's score follows from the first merge that forms it. */
static ch_status take_merges(const ch_tokenizer *tokenizer, ch_pieces *pieces, ch_error *error) {
  const ch_merges *merges = &tokenizer->merges;
  ch_merge *sorted = malloc((merges->count + 1) * sizeof *sorted);
  pieces->pairs = malloc((merges->count + 1) * sizeof *pieces->pairs);
  if (!sorted || !pieces->pairs) {
    free(sorted);
    return ch_no_memory(error);
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

/* Sets the texts of all pieces. Ids without a piece, and unused rows of the embedding, become unused pieces with the
 * name [PADn]. */
static ch_status name_gaps(const ch_tokenizer *tokenizer, ch_pieces *pieces, ch_error *error) {
  enum { NAME = 20 };
  int32_t known = ch_tokenizer_vocab_size(tokenizer);
  char *names = pieces->owned = malloc((size_t)pieces->count * NAME);
  if (!names) return ch_no_memory(error);
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
  pieces->space_prefix = h.prefix || h.maybe_prefix;
  if (status == CH_OK && !tokenizer->byte_level && (tokenizer->spelled || !tokenizer->byte_fallback))
    status = ch_fail(error, CH_ERROR_CONFIG,
                     "%s is neither byte-level nor SentencePiece's kind with bytes, the two that GGUF "
                     "supports; {no_tokenizer} leaves it out",
                     tokenizer->file);
  if (status == CH_OK && h.strange)
    status = ch_fail(error, CH_ERROR_CONFIG, "%s: GGUF cannot express %s; {no_tokenizer} leaves it out",
                     tokenizer->file, h.strange);
  if (status == CH_OK && pieces->byte_level) status = find_words(tokenizer, &h, pieces, error);
  if (status == CH_OK) pieces->loss = loss_of(tokenizer, &h, pieces);
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
  return pieces->items ? take_json(tokenizer, pieces, error) : ch_no_memory(error);
}
