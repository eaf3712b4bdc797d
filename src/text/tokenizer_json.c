/* Loader of Hugging Face's tokenizer.json: the file and its model. The large tables are read without building a
   tree. */
#include "text/tokenizer_internal.h"

#include <jansson.h>
#include <string.h>

#include "text/hash.h"
#include "text/json_scan.h"

/* A part of the file. A first pass finds the parts. They are then read in the order that the loader needs. */
typedef struct json_part {
  const char *name, *text;
  size_t size;
} json_part;

static json_part *part_named(json_part *parts, const char *name, size_t size) {
  for (; parts->name; parts++)
    if (strlen(parts->name) == size && memcmp(parts->name, name, size) == 0) return parts;
  return NULL;
}

/* Finds the texts of the members that `parts` names. Other members are skipped. */
static ch_status find_parts(const char *file, const char *text, size_t size, json_part *parts,
                            ch_error *error) {
  ch_json_scan scan;
  ch_status status = CH_OK;
  bool more;
  CH_TRY_GOTO(ch_json_scan_begin(&scan, file, text, size, error));
  CH_TRY_GOTO(ch_json_enter(&scan, '{', error));
  for (;;) {
    const char *key;
    size_t key_size;
    CH_TRY_GOTO(ch_json_more(&scan, '}', &more, error));
    if (!more) break;
    CH_TRY_GOTO(ch_json_key(&scan, &key, &key_size, error));
    json_part *found = part_named(parts, key, key_size), ignored = {0};
    if (found && found->text) {
      status = ch_fail(error, CH_ERROR_FORMAT, "%s holds the key \"%s\" twice", file, found->name);
      goto done;
    }
    if (!found) found = &ignored;
    CH_TRY_GOTO(ch_json_skip(&scan, &found->text, &found->size, error));
  }
  status = ch_json_finish(&scan, error);
done:
  ch_json_scan_end(&scan);
  return status;
}

static ch_status read_vocabulary(ch_tokenizer *tokenizer, const json_part *vocab, ch_error *error) {
  ch_json_scan scan;
  ch_status status = CH_OK;
  bool more = true;
  CH_TRY_GOTO(ch_json_scan_begin(&scan, tokenizer->file, vocab->text, vocab->size, error));
  CH_TRY_GOTO(ch_json_enter(&scan, '{', error));
  for (;;) {
    const char *piece;
    size_t size;
    int64_t id;
    CH_TRY_GOTO(ch_json_more(&scan, '}', &more, error));
    if (!more) break;
    CH_TRY_GOTO(ch_json_key(&scan, &piece, &size, error));
    CH_TRY_GOTO(ch_json_integer(&scan, &id, error));
    CH_TRY_GOTO(ch_vocabulary_add(&tokenizer->vocabulary, piece, size, id, tokenizer->file, error));
  }
done:
  ch_json_scan_end(&scan);
  return status;
}

static ch_status find_half(const ch_tokenizer *tokenizer, int32_t rank, const char *piece, size_t size,
                           int32_t *id, ch_error *error) {
  char shown[64];
  *id = ch_vocabulary_find(&tokenizer->vocabulary, piece, size);
  if (*id >= 0) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT, "%s: model.merges[%d] joins \"%s\", which is not in model.vocab",
                 tokenizer->file, rank, ch_piece_for_message(piece, size, shown));
}

/* Reads one merge, "a b" or ["a", "b"]. */
static ch_status read_merge(ch_tokenizer *tokenizer, ch_json_scan *scan, int32_t rank, int32_t *left,
                            int32_t *right, ch_error *error) {
  const char *text;
  size_t size;
  bool more;
  if (ch_json_peek(scan) == '[') {
    CH_TRY(ch_json_enter(scan, '[', error));
    CH_TRY(ch_json_more(scan, ']', &more, error));
    CH_TRY(ch_json_string(scan, &text, &size, error));
    CH_TRY(find_half(tokenizer, rank, text, size, left, error));
    CH_TRY(ch_json_more(scan, ']', &more, error));
    CH_TRY(ch_json_string(scan, &text, &size, error));
    CH_TRY(find_half(tokenizer, rank, text, size, right, error));
    CH_TRY(ch_json_more(scan, ']', &more, error));
    if (!more) return CH_OK;
  } else {
    CH_TRY(ch_json_string(scan, &text, &size, error));
    const char *space = memchr(text, ' ', size);
    size_t cut = space ? (size_t)(space - text) : size;
    if (space && !memchr(space + 1, ' ', size - cut - 1)) {
      CH_TRY(find_half(tokenizer, rank, text, cut, left, error));
      return find_half(tokenizer, rank, text + cut + 1, size - cut - 1, right, error);
    }
  }
  return ch_fail(error, CH_ERROR_FORMAT, "%s: model.merges[%d] is not a pair of pieces", tokenizer->file,
                 rank);
}

static ch_status read_merges(ch_tokenizer *tokenizer, const json_part *merges, ch_error *error) {
  ch_json_scan scan;
  ch_text joined = {0};
  ch_status status = CH_OK;
  bool more;
  if (!ch_merges_reserve(&tokenizer->merges, (size_t)tokenizer->vocabulary.count)) return ch_no_memory(error);
  CH_TRY_GOTO(ch_json_scan_begin(&scan, tokenizer->file, merges->text, merges->size, error));
  CH_TRY_GOTO(ch_json_enter(&scan, '[', error));
  for (int32_t rank = 0;; rank++) {
    int32_t left = -1, right = -1;
    CH_TRY_GOTO(ch_json_more(&scan, ']', &more, error));
    if (!more) break;
    CH_TRY_GOTO(read_merge(tokenizer, &scan, rank, &left, &right, error));
    int32_t id = ch_vocabulary_find_joined(&tokenizer->vocabulary, left, right, &joined);
    if (id < 0)
      CH_TRY_GOTO(ch_fail(error, CH_ERROR_FORMAT,
                          "%s: model.merges[%d] makes a piece that is not in model.vocab", tokenizer->file,
                          rank));
    if (!ch_merges_set(&tokenizer->merges, (ch_merge){left, right, rank, id}))
      CH_TRY_GOTO(ch_no_memory(error));
  }
done:
  ch_text_free(&joined);
  ch_json_scan_end(&scan);
  return status;
}

/* Reads a small part with the JSON library; an absent part is null. */
static ch_status parse_part(const ch_tokenizer *tokenizer, const json_part *part, json_t **json,
                            ch_error *error) {
  json_error_t problem;
  *json = part->text ? json_loadb(part->text, part->size,
                                  JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem)
                     : json_null();
  if (*json) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT, "%s: \"%s\" is not valid JSON: %s", tokenizer->file, part->name,
                 problem.text);
}

static ch_status read_flag(const ch_tokenizer *tokenizer, const json_part *part, bool *flag,
                           ch_error *error) {
  json_t *json = NULL;
  CH_TRY(parse_part(tokenizer, part, &json, error));
  bool fine = json_is_boolean(json) || json_is_null(json);
  *flag = json_is_true(json);
  json_decref(json);
  return fine ? CH_OK
              : ch_fail(error, CH_ERROR_FORMAT, "%s: model.%s must be true or false", tokenizer->file,
                        part->name);
}

/* Fails if a key is set. It must be absent, null, an empty string or 0. */
static ch_status must_be_empty(const ch_tokenizer *tokenizer, const json_part *part, ch_error *error) {
  json_t *json = NULL;
  CH_TRY(parse_part(tokenizer, part, &json, error));
  bool empty = json_is_null(json) || (json_is_string(json) && json_string_length(json) == 0) ||
               (json_is_number(json) && json_number_value(json) == 0);
  json_decref(json);
  return empty ? CH_OK
               : ch_fail(error, CH_ERROR_FORMAT, "%s: model.%s is not supported; only null is",
                         tokenizer->file, part->name);
}

static ch_status read_unk(ch_tokenizer *tokenizer, const json_part *part, ch_error *error) {
  json_t *json = NULL;
  ch_status status = CH_OK;
  CH_TRY(parse_part(tokenizer, part, &json, error));
  if (json_is_string(json)) {
    const char *piece = json_string_value(json);
    tokenizer->unk = ch_vocabulary_find(&tokenizer->vocabulary, piece, json_string_length(json));
    if (tokenizer->unk < 0 && *piece)
      status = ch_fail(error, CH_ERROR_FORMAT, "%s: model.unk_token \"%s\" is not in model.vocab",
                       tokenizer->file, piece);
  } else if (!json_is_null(json)) {
    status = ch_fail(error, CH_ERROR_FORMAT, "%s: model.unk_token must be a string or null", tokenizer->file);
  }
  json_decref(json);
  return status;
}

static ch_status check_type(const ch_tokenizer *tokenizer, const json_part *part, ch_error *error) {
  json_t *json = NULL;
  CH_TRY(parse_part(tokenizer, part, &json, error));
  const char *type = json_is_string(json) ? json_string_value(json) : json_is_null(json) ? "BPE" : "?";
  ch_status status =
      strcmp(type, "BPE") == 0
          ? CH_OK
          : ch_fail(error, CH_ERROR_FORMAT, "%s: model.type \"%s\" is not supported; only \"BPE\" is",
                    tokenizer->file, type);
  json_decref(json);
  return status;
}

static ch_status read_model(ch_tokenizer *tokenizer, const json_part *model, ch_error *error) {
  enum { TYPE, VOCAB, MERGES, UNK, FUSE, FALLBACK, IGNORE, PREFIX, SUFFIX, DROPOUT };
  json_part parts[] = {{"type", NULL, 0},
                       {"vocab", NULL, 0},
                       {"merges", NULL, 0},
                       {"unk_token", NULL, 0},
                       {"fuse_unk", NULL, 0},
                       {"byte_fallback", NULL, 0},
                       {"ignore_merges", NULL, 0},
                       {"continuing_subword_prefix", NULL, 0},
                       {"end_of_word_suffix", NULL, 0},
                       {"dropout", NULL, 0},
                       {NULL, NULL, 0}};
  CH_TRY(find_parts(tokenizer->file, model->text, model->size, parts, error));
  CH_TRY(check_type(tokenizer, &parts[TYPE], error));
  for (int i = VOCAB; i <= MERGES; i++)
    if (!parts[i].text)
      return ch_fail(error, CH_ERROR_FORMAT, "%s: model.%s is missing", tokenizer->file, parts[i].name);
  for (int i = PREFIX; i <= DROPOUT; i++) CH_TRY(must_be_empty(tokenizer, &parts[i], error));
  CH_TRY(read_flag(tokenizer, &parts[FUSE], &tokenizer->fuse_unk, error));
  CH_TRY(read_flag(tokenizer, &parts[FALLBACK], &tokenizer->byte_fallback, error));
  CH_TRY(read_flag(tokenizer, &parts[IGNORE], &tokenizer->ignore_merges, error));
  CH_TRY(read_vocabulary(tokenizer, &parts[VOCAB], error));
  CH_TRY(read_merges(tokenizer, &parts[MERGES], error));
  return read_unk(tokenizer, &parts[UNK], error);
}

typedef ch_status part_reader(ch_tokenizer *tokenizer, const json_t *json, ch_error *error);

static ch_status read_part(ch_tokenizer *tokenizer, const json_part *part, part_reader *reader,
                           ch_error *error) {
  json_t *json = NULL;
  CH_TRY(parse_part(tokenizer, part, &json, error));
  ch_status status = json_is_null(json) ? CH_OK : reader(tokenizer, json, error);
  json_decref(json);
  return status;
}

static ch_status complete(ch_tokenizer *tokenizer, const json_part *decoder, ch_error *error) {
  ch_replacements replace = {.count = 0};
  json_t *json = NULL;
  CH_TRY(parse_part(tokenizer, decoder, &json, error));
  ch_status status = ch_read_decoder(tokenizer, json, &replace, error);
  if (status == CH_OK) status = ch_tokenizer_complete(tokenizer, &replace, error);
  json_decref(json);
  return status;
}

static ch_status read_file(ch_tokenizer *tokenizer, const char *text, size_t size, ch_error *error) {
  enum { MODEL, ADDED, NORMALIZER, PRE, POST, DECODER };
  json_part parts[] = {{"model", NULL, 0},
                       {"added_tokens", NULL, 0},
                       {"normalizer", NULL, 0},
                       {"pre_tokenizer", NULL, 0},
                       {"post_processor", NULL, 0},
                       {"decoder", NULL, 0},
                       {NULL, NULL, 0}};
  CH_TRY(find_parts(tokenizer->file, text, size, parts, error));
  if (!parts[MODEL].text)
    return ch_fail(error, CH_ERROR_FORMAT, "%s has no \"model\"; a tokenizer.json of Hugging Face has one",
                   tokenizer->file);
  CH_TRY(read_model(tokenizer, &parts[MODEL], error));
  CH_TRY(read_part(tokenizer, &parts[ADDED], ch_read_added_tokens, error));
  CH_TRY(read_part(tokenizer, &parts[NORMALIZER], ch_read_normalizer, error));
  CH_TRY(read_part(tokenizer, &parts[PRE], ch_read_pre_tokenizer, error));
  CH_TRY(read_part(tokenizer, &parts[POST], ch_read_post_processor, error));
  return complete(tokenizer, &parts[DECODER], error);
}

ch_status ch_tokenizer_from_json(const char *text, size_t size, const char *name, ch_tokenizer **tokenizer,
                                 ch_error *error) {
  *tokenizer = NULL;
  ch_tokenizer *fresh = ch_tokenizer_new(name);
  if (!fresh) return ch_no_memory(error);
  ch_status status = read_file(fresh, text, size, error);
  if (status != CH_OK) {
    ch_tokenizer_free(fresh);
    return status;
  }
  fresh->is_json = true;
  fresh->fingerprint = ch_hash_bytes(text, size, 1);
  *tokenizer = fresh;
  return CH_OK;
}
