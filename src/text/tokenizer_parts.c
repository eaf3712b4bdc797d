/* Reads the small parts of a tokenizer.json: added tokens, normalizer, pre-tokenizer, post-processor,
 * decoder. A part of an unknown kind is an error: ignoring it would give other ids. */
#include "text/tokenizer_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const char *type_of(const json_t *json) {
  const char *type = json_string_value(json_object_get(json, "type"));
  return type ? type : "?";
}

static bool is_type(const json_t *json, const char *type) {
  return strcmp(type_of(json), type) == 0;
}

static ch_status unsupported(const ch_tokenizer *tokenizer, const char *key, const char *value,
                             const char *supported, ch_error *error) {
  return ch_fail(error, CH_ERROR_FORMAT, "%s: %s \"%s\" is not supported; supported are %s", tokenizer->file,
                 key, value, supported);
}

/* Reads a boolean member; `fallback` if it is absent or null. */
static ch_status get_flag(const ch_tokenizer *tokenizer, const json_t *json, const char *key, bool fallback,
                          bool *flag, ch_error *error) {
  const json_t *value = json_object_get(json, key);
  *flag = value && !json_is_null(value) ? json_is_true(value) : fallback;
  if (!value || json_is_null(value) || json_is_boolean(value)) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT, "%s: %s must be true or false", tokenizer->file, key);
}

/* A string, which may hold NUL. */
typedef struct json_text {
  const char *data; /* NUL-terminated; NULL: no string */
  size_t size;
} json_text;

static json_text text_of(const json_t *json) {
  return (json_text){json_string_value(json), json_string_length(json)};
}

/* Reads a string member, which must exist. */
static ch_status get_text(const ch_tokenizer *tokenizer, const json_t *json, const char *key, json_text *text,
                          ch_error *error) {
  *text = text_of(json_object_get(json, key));
  return text->data ? CH_OK
                    : ch_fail(error, CH_ERROR_FORMAT, "%s: %s \"%s\" needs the string \"%s\"",
                              tokenizer->file, "type", type_of(json), key);
}

ch_status ch_read_added_tokens(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  if (!json_is_array(json))
    return ch_fail(error, CH_ERROR_FORMAT, "%s: added_tokens must be a list", tokenizer->file);
  for (size_t i = 0; i < json_array_size(json); i++) {
    const json_t *entry = json_array_get(json, i), *id = json_object_get(entry, "id");
    const json_t *content = json_object_get(entry, "content");
    if (!json_is_integer(id) || !json_is_string(content))
      return ch_fail(error, CH_ERROR_FORMAT,
                     "%s: added_tokens[%zu] needs an integer \"id\" and a string \"content\"",
                     tokenizer->file, i);
    json_int_t number = json_integer_value(id);
    if (number < 0 || number >= CH_VOCABULARY_LIMIT)
      return ch_fail(error, CH_ERROR_FORMAT, "%s: added_tokens[%zu] has the id %lld; ids go from 0 to %d",
                     tokenizer->file, i, (long long)number, CH_VOCABULARY_LIMIT - 1);
    ch_added_token token = {.content = (char *)json_string_value(content),
                            .size = json_string_length(content),
                            .id = (int32_t)number};
    CH_TRY(get_flag(tokenizer, entry, "special", false, &token.special, error));
    CH_TRY(get_flag(tokenizer, entry, "normalized", !token.special, &token.normalized, error));
    CH_TRY(get_flag(tokenizer, entry, "single_word", false, &token.single_word, error));
    CH_TRY(get_flag(tokenizer, entry, "lstrip", false, &token.lstrip, error));
    CH_TRY(get_flag(tokenizer, entry, "rstrip", false, &token.rstrip, error));
    CH_TRY(ch_tokenizer_add_token(tokenizer, token, error));
  }
  return CH_OK;
}

/* Reads {"String": text} or {"Regex": pattern}. */
static ch_status get_pattern(const ch_tokenizer *tokenizer, const json_t *json, json_text *text,
                             bool *literal, ch_error *error) {
  const json_t *pattern = json_object_get(json, "pattern");
  json_text string = text_of(json_object_get(pattern, "String")),
            regex = text_of(json_object_get(pattern, "Regex"));
  *literal = string.data != NULL;
  *text = *literal ? string : regex;
  if (text->data && !(string.data && regex.data)) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s: type \"%s\" needs a \"pattern\" that holds one \"String\" or \"Regex\"",
                 tokenizer->file, type_of(json));
}

static char *copy_text(json_text text) {
  char *copy = malloc(text.size + 1);
  if (copy) memcpy(copy, text.data, text.size + 1);
  return copy;
}

static ch_status set_replacement(json_text text, ch_normalizer *normalizer, ch_error *error) {
  normalizer->to = copy_text(text);
  normalizer->to_size = text.size;
  return normalizer->to ? CH_OK : ch_no_memory(error);
}

static ch_status read_replace(const ch_tokenizer *tokenizer, const json_t *json, ch_normalizer *normalizer,
                              ch_error *error) {
  json_text pattern, content;
  bool literal;
  CH_TRY(get_pattern(tokenizer, json, &pattern, &literal, error));
  CH_TRY(get_text(tokenizer, json, "content", &content, error));
  normalizer->type = CH_NORMALIZE_REPLACE;
  CH_TRY(set_replacement(content, normalizer, error));
  if (!literal || pattern.size == 0)
    return ch_regex_compile(&normalizer->regex, pattern.data, pattern.size, literal, tokenizer->file, error);
  normalizer->from = copy_text(pattern);
  normalizer->from_size = pattern.size;
  return normalizer->from ? CH_OK : ch_no_memory(error);
}

/* Calls `read` on each member of a Sequence's list, which may itself hold Sequences. If the part is not a Sequence,
   calls `read` on the part. */
static ch_status each_of(ch_tokenizer *tokenizer, const json_t *json, const char *list,
                         ch_status (*read)(ch_tokenizer *, const json_t *, ch_error *), ch_error *error) {
  if (!is_type(json, "Sequence")) return read(tokenizer, json, error);
  const json_t *members = json_object_get(json, list);
  if (!json_is_array(members))
    return ch_fail(error, CH_ERROR_FORMAT, "%s: a Sequence needs the list \"%s\"", tokenizer->file, list);
  for (size_t i = 0; i < json_array_size(members); i++)
    CH_TRY(each_of(tokenizer, json_array_get(members, i), list, read, error));
  return CH_OK;
}

static ch_status read_one_normalizer(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"}; /* in the order of ch_normalizer_type */
  if (tokenizer->normalizer_count == CH_MOST_NORMALIZERS)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: more than %d normalizers", tokenizer->file,
                   CH_MOST_NORMALIZERS);
  ch_normalizer *normalizer = &tokenizer->normalizers[tokenizer->normalizer_count++];
  for (int i = 0; i < 4; i++) {
    normalizer->type = (ch_normalizer_type)i;
    if (is_type(json, forms[i])) return CH_OK;
  }
  if (is_type(json, "Replace")) return read_replace(tokenizer, json, normalizer, error);
  if (!is_type(json, "Prepend"))
    return unsupported(tokenizer, "normalizer.type", type_of(json),
                       "NFC, NFD, NFKC, NFKD, Prepend, Replace and a Sequence of these", error);
  json_text prefix;
  CH_TRY(get_text(tokenizer, json, "prepend", &prefix, error));
  normalizer->type = CH_NORMALIZE_PREPEND;
  return set_replacement(prefix, normalizer, error);
}

ch_status ch_read_normalizer(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  return each_of(tokenizer, json, "normalizers", read_one_normalizer, error);
}

static ch_status new_step(ch_tokenizer *tokenizer, ch_step_type type, ch_step **step, ch_error *error) {
  if (tokenizer->step_count == CH_MOST_STEPS)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: more than %d pre-tokenizers", tokenizer->file, CH_MOST_STEPS);
  *step = &tokenizer->steps[tokenizer->step_count++];
  (*step)->type = type;
  return CH_OK;
}

static ch_status add_split(ch_tokenizer *tokenizer, json_text pattern, bool literal,
                           ch_split_behavior behavior, bool invert, ch_error *error) {
  ch_step *step = NULL;
  CH_TRY(new_step(tokenizer, CH_STEP_SPLIT, &step, error));
  return ch_split_compile(&step->split, pattern.data, pattern.size, literal, behavior, invert,
                          tokenizer->file, error);
}

static ch_status add_pattern(ch_tokenizer *tokenizer, const char *pattern, ch_split_behavior behavior,
                             ch_error *error) {
  return add_split(tokenizer, (json_text){pattern, strlen(pattern)}, false, behavior, false, error);
}

static ch_status read_behavior(const ch_tokenizer *tokenizer, const char *name, ch_split_behavior *behavior,
                               ch_error *error) {
  /* in the order of ch_split_behavior */
  static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};
  for (int i = 0; i < 5; i++)
    if (strcmp(name, names[i]) == 0) {
      *behavior = (ch_split_behavior)i;
      return CH_OK;
    }
  return unsupported(tokenizer, "pre_tokenizer.behavior", name,
                     "Isolated, Removed, MergedWithPrevious, MergedWithNext and Contiguous", error);
}

static ch_status read_split(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  json_text pattern, name;
  ch_split_behavior behavior = CH_SPLIT_ISOLATED;
  bool literal, invert;
  CH_TRY(get_pattern(tokenizer, json, &pattern, &literal, error));
  CH_TRY(get_text(tokenizer, json, "behavior", &name, error));
  CH_TRY(get_flag(tokenizer, json, "invert", false, &invert, error));
  CH_TRY(read_behavior(tokenizer, name.data, &behavior, error));
  return add_split(tokenizer, pattern, literal, behavior, invert, error);
}

static ch_status read_digits(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  bool single;
  CH_TRY(get_flag(tokenizer, json, "individual_digits", false, &single, error));
  return add_pattern(tokenizer, single ? "\\p{N}" : "\\p{N}+", CH_SPLIT_ISOLATED, error);
}

/* Punctuation of ASCII and of Unicode 7, whose tables Hugging Face's library uses. */
#define PUNCTUATION                                                                                          \
  "[[\\p{P}$+<=>\\^`|~\\x{166d}\\x{111c9}]&&[^\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b7d}"             \
  "\\x{1b7e}\\x{2e43}-\\x{2e5d}\\x{10ead}\\x{10f55}-\\x{10f89}\\x{1144b}-\\x{1145d}\\x{11660}-\\x{1166c}"    \
  "\\x{116b9}\\x{1183b}-\\x{11ef8}\\x{11fff}\\x{12ff1}\\x{12ff2}\\x{16e97}-\\x{16fe2}\\x{1e95e}\\x{1e95f}]]"

static ch_status read_punctuation(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  const char *name = json_string_value(json_object_get(json, "behavior"));
  ch_split_behavior behavior = CH_SPLIT_ISOLATED;
  CH_TRY(read_behavior(tokenizer, name ? name : "Isolated", &behavior, error));
  return add_pattern(tokenizer, PUNCTUATION, behavior, error);
}

/* \w by Unicode's rules for regular expressions, which differ from Oniguruma's here. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"

/* Adds a split into runs of word characters and runs of other characters. White space is removed. */
static ch_status read_whitespace(ch_tokenizer *tokenizer, ch_error *error) {
  static const char pattern[] = "[" WORD "]+|[^\\s" WORD "]+";
  return add_split(tokenizer, (json_text){pattern, sizeof pattern - 1}, false, CH_SPLIT_REMOVED, true, error);
}

static ch_status read_byte_level(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  bool prefix, pattern;
  ch_step *step = NULL;
  CH_TRY(get_flag(tokenizer, json, "add_prefix_space", true, &prefix, error));
  CH_TRY(get_flag(tokenizer, json, "use_regex", true, &pattern, error));
  if (prefix) CH_TRY(new_step(tokenizer, CH_STEP_PREFIX_SPACE, &step, error));
  if (pattern) CH_TRY(add_pattern(tokenizer, ch_pattern_gpt2, CH_SPLIT_ISOLATED, error));
  tokenizer->byte_level = true;
  return CH_OK;
}

/* Reads metaspace's mark, one character of text, and its scheme, which older files write as
   "add_prefix_space". */
static ch_status read_metaspace_form(const ch_tokenizer *tokenizer, const json_t *json, char mark[5],
                                     ch_prepend_scheme *scheme, ch_error *error) {
  const char *name = json_string_value(json_object_get(json, "prepend_scheme"));
  json_text replacement;
  bool prefix;
  uint32_t character;
  CH_TRY(get_text(tokenizer, json, "replacement", &replacement, error));
  CH_TRY(get_flag(tokenizer, json, "add_prefix_space", true, &prefix, error));
  const unsigned char *data = (const unsigned char *)replacement.data;
  size_t size = replacement.size ? ch_utf8_decode(data, data + replacement.size, &character) : 0;
  if (size == 0 || size != replacement.size || !*data)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s: Metaspace's \"replacement\" must be one character, not U+0000", tokenizer->file);
  memcpy(mark, replacement.data, size + 1);
  if (!name) name = prefix ? "always" : "never";
  *scheme = strcmp(name, "always") == 0  ? CH_PREPEND_ALWAYS
            : strcmp(name, "first") == 0 ? CH_PREPEND_FIRST
                                         : CH_PREPEND_NEVER;
  if (*scheme != CH_PREPEND_NEVER || strcmp(name, "never") == 0) return CH_OK;
  return unsupported(tokenizer, "prepend_scheme", name, "always, first and never", error);
}

static ch_status read_metaspace(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  ch_step *step = NULL;
  CH_TRY(new_step(tokenizer, CH_STEP_METASPACE, &step, error));
  CH_TRY(get_flag(tokenizer, json, "split", true, &step->cut, error));
  return read_metaspace_form(tokenizer, json, step->mark, &step->prepend, error);
}

static ch_status read_one_pre_tokenizer(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  ch_step *step = NULL;
  if (tokenizer->byte_level) { /* the following steps see the characters of the byte alphabet */
    CH_TRY(new_step(tokenizer, CH_STEP_SPELL, &step, error));
    tokenizer->byte_level = false;
    tokenizer->spelled = true;
  }
  if (is_type(json, "Split")) return read_split(tokenizer, json, error);
  if (is_type(json, "ByteLevel")) return read_byte_level(tokenizer, json, error);
  if (is_type(json, "Metaspace")) return read_metaspace(tokenizer, json, error);
  if (is_type(json, "Digits")) return read_digits(tokenizer, json, error);
  if (is_type(json, "Punctuation")) return read_punctuation(tokenizer, json, error);
  if (is_type(json, "Whitespace")) return read_whitespace(tokenizer, error);
  if (is_type(json, "WhitespaceSplit")) return add_pattern(tokenizer, "\\s", CH_SPLIT_REMOVED, error);
  return unsupported(tokenizer, "pre_tokenizer.type", type_of(json),
                     "ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit and a "
                     "Sequence of these",
                     error);
}

ch_status ch_read_pre_tokenizer(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  return each_of(tokenizer, json, "pretokenizers", read_one_pre_tokenizer, error);
}

/* Appends the ids of a template's special token. */
static ch_status add_template_ids(ch_tokenizer *tokenizer, const json_t *ids, int32_t **list, size_t *count,
                                  ch_error *error) {
  size_t more = json_array_size(ids);
  if (more == 0)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: a post_processor token has no \"ids\"", tokenizer->file);
  int32_t *grown = realloc(*list, (*count + more) * sizeof *grown);
  if (!grown) return ch_no_memory(error);
  *list = grown;
  for (size_t i = 0; i < more; i++) {
    const json_t *id = json_array_get(ids, i);
    json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
    size_t size;
    if (number < 0 || number >= CH_VOCABULARY_LIMIT ||
        !ch_vocabulary_piece(&tokenizer->vocabulary, (int32_t)number, &size))
      return ch_fail(error, CH_ERROR_FORMAT, "%s: the post_processor adds the id %lld, which is not a token",
                     tokenizer->file, (long long)number);
    grown[(*count)++] = (int32_t)number;
  }
  return CH_OK;
}

/* Reads {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, …], "special_tokens": {"<s>":
   {"ids": [1]}}}. */
static ch_status read_template(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  const json_t *single = json_object_get(json, "single"), *tokens = json_object_get(json, "special_tokens");
  bool text_seen = false;
  for (size_t i = 0; i < json_array_size(single); i++) {
    const json_t *entry = json_array_get(single, i), *special = json_object_get(entry, "SpecialToken");
    const char *name = json_string_value(json_object_get(special, "id"));
    if (!special) {
      if (text_seen || !json_object_get(entry, "Sequence"))
        return ch_fail(error, CH_ERROR_FORMAT,
                       "%s: post_processor.single[%zu] is neither a token nor the one text", tokenizer->file,
                       i);
      text_seen = true;
      continue;
    }
    const json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
    CH_TRY(text_seen ? add_template_ids(tokenizer, ids, &tokenizer->suffix, &tokenizer->suffix_size, error)
                     : add_template_ids(tokenizer, ids, &tokenizer->prefix, &tokenizer->prefix_size, error));
  }
  return text_seen ? CH_OK
                   : ch_fail(error, CH_ERROR_FORMAT, "%s: post_processor.single does not name the text",
                             tokenizer->file);
}

static ch_status read_one_post_processor(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  if (is_type(json, "ByteLevel")) return CH_OK; /* it changes offsets only */
  if (is_type(json, "TemplateProcessing")) return read_template(tokenizer, json, error);
  return unsupported(tokenizer, "post_processor.type", type_of(json),
                     "ByteLevel, TemplateProcessing and a Sequence of these", error);
}

ch_status ch_read_post_processor(ch_tokenizer *tokenizer, const json_t *json, ch_error *error) {
  return each_of(tokenizer, json, "processors", read_one_post_processor, error);
}

/* The settings that a Sequence of decoders has given so far. */
typedef struct decoder_reading {
  ch_replacements *replace;
  bool fused;
} decoder_reading;

static ch_status read_strip(ch_tokenizer *tokenizer, const json_t *json, const decoder_reading *reading,
                            ch_error *error) {
  json_text content;
  CH_TRY(get_text(tokenizer, json, "content", &content, error));
  const json_t *start = json_object_get(json, "start"), *stop = json_object_get(json, "stop");
  json_int_t most = json_is_integer(start) ? json_integer_value(start) : -1;
  if (!reading->fused || content.size != 1 || (unsigned char)*content.data >= 0x80 || most < 0 || most > 64 ||
      json_integer_value(stop) != 0)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s: the decoder Strip is supported after Fuse, with one ASCII character, start at most 64 and "
        "stop 0",
        tokenizer->file);
  tokenizer->decoder.strip_character = *content.data;
  tokenizer->decoder.strip_start = (size_t)most;
  return CH_OK;
}

static ch_status add_replacement(ch_tokenizer *tokenizer, decoder_reading *reading, json_text from,
                                 json_text to, ch_error *error) {
  ch_replacements *list = reading->replace;
  if (from.size == 0)
    return unsupported(tokenizer, "decoder.pattern", "", "String patterns that are not empty", error);
  if (list->count == CH_MOST_REPLACEMENTS)
    return ch_fail(error, CH_ERROR_FORMAT, "%s: more than %d Replace decoders", tokenizer->file,
                   CH_MOST_REPLACEMENTS);
  list->items[list->count++] = (ch_replacement){from.data, to.data, from.size, to.size};
  return CH_OK;
}

static ch_status read_metaspace_decoder(ch_tokenizer *tokenizer, const json_t *json, decoder_reading *reading,
                                        ch_error *error) {
  char mark[5];
  ch_prepend_scheme scheme;
  CH_TRY(read_metaspace_form(tokenizer, json, mark, &scheme, error));
  tokenizer->decoder.strip_character = ' ';
  tokenizer->decoder.strip_start = scheme != CH_PREPEND_NEVER;
  return add_replacement(tokenizer, reading, text_of(json_object_get(json, "replacement")),
                         (json_text){" ", 1}, error);
}

static ch_status read_one_decoder(ch_tokenizer *tokenizer, const json_t *json, decoder_reading *reading,
                                  ch_error *error) {
  json_text pattern, content;
  bool literal;
  if (is_type(json, "ByteLevel"))
    tokenizer->decoder.byte_level = true;
  else if (is_type(json, "ByteFallback"))
    tokenizer->decoder.byte_fallback = true;
  else if (is_type(json, "Fuse"))
    reading->fused = true;
  else if (is_type(json, "Strip"))
    return read_strip(tokenizer, json, reading, error);
  else if (is_type(json, "Metaspace"))
    return read_metaspace_decoder(tokenizer, json, reading, error);
  else if (is_type(json, "Replace")) {
    CH_TRY(get_pattern(tokenizer, json, &pattern, &literal, error));
    CH_TRY(get_text(tokenizer, json, "content", &content, error));
    if (literal) return add_replacement(tokenizer, reading, pattern, content, error);
    return unsupported(tokenizer, "decoder.pattern", "Regex", "String patterns", error);
  } else {
    return unsupported(tokenizer, "decoder.type", type_of(json),
                       "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace and a Sequence of these",
                       error);
  }
  return CH_OK;
}

static ch_status read_decoders(ch_tokenizer *tokenizer, const json_t *json, decoder_reading *reading,
                               ch_error *error) {
  if (!is_type(json, "Sequence")) return read_one_decoder(tokenizer, json, reading, error);
  const json_t *members = json_object_get(json, "decoders");
  if (!json_is_array(members))
    return ch_fail(error, CH_ERROR_FORMAT, "%s: a Sequence needs the list \"decoders\"", tokenizer->file);
  for (size_t i = 0; i < json_array_size(members); i++)
    CH_TRY(read_decoders(tokenizer, json_array_get(members, i), reading, error));
  return CH_OK;
}

ch_status ch_read_decoder(ch_tokenizer *tokenizer, const json_t *json, ch_replacements *replace,
                          ch_error *error) {
  decoder_reading reading = {.replace = replace};
  if (!json_is_null(json)) return read_decoders(tokenizer, json, &reading, error);
  /* without a decoder, the kind of pieces determines how they decode */
  tokenizer->decoder.byte_level = tokenizer->byte_level || tokenizer->spelled;
  tokenizer->decoder.byte_fallback = tokenizer->byte_fallback;
  return CH_OK;
}
