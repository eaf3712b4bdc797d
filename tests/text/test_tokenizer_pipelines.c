/* Tests parts of a tokenizer.json on texts where other programs were reported to differ. Ids are those of the
 * package tokenizers 0.23.3, except where the names of tests say otherwise. */
#include "text_test.h"

#include "base/json.h"
#include "base/utf8.h"
#include "text/byte_level.h"

/* Returns a byte-level tokenizer: tokens 0 to 255 are bytes, and the next ones are `words`, which end with NULL.
   `parts` are the other members of its JSON. */
static ch_tokenizer *tokenizer_of(const char *parts, const char *const *words) {
  ch_text json = {0}, piece = {0};
  ch_tokenizer *tokenizer;
  ch_error error;
  ch_text_printf(&json,
                 "{%s, \"model\": {\"type\": \"BPE\", \"ignore_merges\": true, \"merges\": [], \"vocab\": {",
                 parts);
  for (int id = 0; id < 256 || words[id - 256]; id++) {
    char byte[] = {(char)id, 0};
    piece.size = 0;
    for (const char *p = id < 256 ? byte : words[id - 256]; p == byte || *p; p++) {
      unsigned char spelled[4];
      ch_text_put(&piece, (char *)spelled, ch_utf8_encode(ch_byte_to_character((unsigned char)*p), spelled));
      if (p == byte) break;
    }
    ch_text_puts(&json, id ? ", " : "");
    ch_json_put_bytes(&json, piece.data, piece.size);
    ch_text_printf(&json, ": %d", id);
  }
  ch_text_puts(&json, "}}}");
  ASSERT_OK(ch_tokenizer_from_json(json.data, json.size, "test", &tokenizer, &error));
  ch_text_free(&json);
  ch_text_free(&piece);
  return tokenizer;
}

static void check_ids(const ch_tokenizer *tokenizer, const char *text, size_t size, const char *expected) {
  ch_ids ids = {0};
  ch_text shown = {0};
  encode(tokenizer, text, size, CH_TEXT_BARE | CH_TEXT_SPECIAL, &ids);
  for (size_t i = 0; i < ids.size; i++) ch_text_printf(&shown, i ? " %d" : "%d", ids.data[i]);
  assert_string_equal(shown.data ? shown.data : "", expected);
  ch_text_free(&shown);
  ch_ids_free(&ids);
}

static const char *const none[] = {NULL};

#define BYTES(regex) "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": " regex "}"

static void an_empty_match_is_replaced_too(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *with, *text, *ids;
  } cases[] = {{"$", "!", "ab", "97 98 33"},
               {"(?=[A-Z])", "_", "camelCase", "99 97 109 101 108 95 67 97 115 101"},
               {"x*", "-", "xab", "45 97 45 98 45"},
               {"", "-", "", ""},
               /* The package doubles an inserted prefix. */
               {"\\\\b", "|", "a b", "124 124 97 124 32 124 98 124"},
               {"x*", "-", "ab", "45 45 97 45 98 45"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char parts[300];
    snprintf(
        parts, sizeof parts,
        "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"%s\"}, \"content\": \"%s\"}, "
        "\"pre_tokenizer\": " BYTES("true"),
        cases[i].pattern, cases[i].with);
    ch_tokenizer *tokenizer = tokenizer_of(parts, none);
    check_ids(tokenizer, cases[i].text, strlen(cases[i].text), cases[i].ids);
    ch_tokenizer_free(tokenizer);
  }
}

static void split_behaviours_count_empty_matches(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *behavior, *invert, *text, *ids;
  } cases[] = {{"\\\\d{1,3}+", "Isolated", "false", "123456", "256"},
               {"(?=[A-Z])", "MergedWithNext", "false", "aBC", "97 66 67"},
               {"(?=[A-Z])", "Contiguous", "false", "aBC", "97 66 67"},
               {"\\\\b", "MergedWithPrevious", "false", "ab cd", "257 32 258"},
               {"\\\\w+", "Removed", "true", "ab cd", "257 258"},
               {"(?=(\\\\d{3})+(?!\\\\d))", "Isolated", "false", "1123456", "49 259 260"}};
  static const char *const words[] = {"123456", "ab", "cd", "123", "456", "aB", "BC", "aBC", NULL};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char parts[400];
    snprintf(
        parts, sizeof parts,
        "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
        "{\"Regex\": \"%s\"}, \"behavior\": \"%s\", \"invert\": %s}, " BYTES("false") "]}",
        cases[i].pattern, cases[i].behavior, cases[i].invert);
    ch_tokenizer *tokenizer = tokenizer_of(parts, words);
    check_ids(tokenizer, cases[i].text, strlen(cases[i].text), cases[i].ids);
    ch_tokenizer_free(tokenizer);
  }
}

/* Falcon's tokenizer has a sequence of pre-tokenizers with ByteLevel in the middle. */
static void pre_tokenizers_after_byte_level_see_its_alphabet(void **state) {
  (void)state;
  static const char *const words[] = {"!?", " ab", "123", NULL};
  ch_tokenizer *tokenizer = tokenizer_of(
      "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Punctuation\", "
      "\"behavior\": \"Contiguous\"}, " BYTES(
          "true") ", {\"type\": \"Digits\", \"individual_digits\": false}, "
                  "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[0-9][0-9][0-9]\"}, \"behavior\": "
                  "\"Isolated\", "
                  "\"invert\": false}]}",
      words);
  check_ids(tokenizer, "!? ab1234\xc3\xa9", 11, "256 257 258 52 195 169");
  ch_tokenizer_free(tokenizer);
}

/* llama.cpp decodes added tokens to their content too. The package decodes "café" to one byte less. */
static void added_tokens_are_decoded_as_they_are_written(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = tokenizer_of(
      "\"added_tokens\": [{\"id\": 256, \"content\": \"caf\xc3\xa9\"}, {\"id\": 257, \"content\": "
      "\"a\\u0000b\", \"special\": true}], \"pre_tokenizer\": " BYTES("true"),
      none);
  static const char text[] = "x caf\xc3\xa9 a\0b";
  char *back;
  size_t size;
  ch_ids ids = {0};
  ch_error error;
  check_ids(tokenizer, text, sizeof text - 1, "120 32 256 32 257");
  encode(tokenizer, text, sizeof text - 1, CH_TEXT_BARE | CH_TEXT_SPECIAL, &ids);
  ASSERT_OK(ch_tokenizer_decode(tokenizer, ids.data, ids.size, 0, &back, &size, &error));
  assert_int_equal(size, sizeof text - 1);
  assert_memory_equal(back, text, size);
  free(back);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
}

static void added_tokens_share_white_space_as_there(void **state) {
  (void)state;
  static const struct {
    const char *sides, *text, *ids;
  } cases[] = {{"\"rstrip\": true", "a\n\n b", "97 256 256 98"},
               {"\"lstrip\": true, \"rstrip\": true", "a\n\n b", "97 256 98"},
               {"\"single_word\": true", "\n\xc2\xb2\n", "256 194 178 256"},
               {"\"single_word\": true", "\n\xe2\x80\x8d", "10 226 128 141"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char parts[300];
    snprintf(parts, sizeof parts,
             "\"added_tokens\": [{\"id\": 256, \"content\": \"\\n\", \"normalized\": false, %s}], "
             "\"pre_tokenizer\": " BYTES("false"),
             cases[i].sides);
    ch_tokenizer *tokenizer = tokenizer_of(parts, none);
    check_ids(tokenizer, cases[i].text, strlen(cases[i].text), cases[i].ids);
    ch_tokenizer_free(tokenizer);
  }
}

/* Ordering takes as many steps as there are marks; otherwise a test of this size would not end. */
static void a_million_marks_are_ordered(void **state) {
  (void)state;
  enum { PAIRS = 500000 };
  ch_tokenizer *tokenizer =
      tokenizer_of("\"normalizer\": {\"type\": \"NFD\"}, \"pre_tokenizer\": " BYTES("false"), none);
  ch_text text = {0};
  ch_ids ids = {0};
  ch_text_puts(&text, "e");
  for (int i = 0; i < PAIRS; i++) ch_text_puts(&text, "\xcc\x81\xcc\xa3"); /* above, below */
  encode(tokenizer, text.data, text.size, CH_TEXT_BARE, &ids);
  assert_int_equal(ids.size, 1 + 4 * PAIRS);
  for (int i = 0; i < PAIRS; i++) assert_int_equal(ids.data[2 + 2 * i], 0xa3);
  for (int i = PAIRS; i < 2 * PAIRS; i++) assert_int_equal(ids.data[2 + 2 * i], 0x81);
  ch_ids_free(&ids);
  ch_text_free(&text);
  ch_tokenizer_free(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_match_is_replaced_too),
      cmocka_unit_test(split_behaviours_count_empty_matches),
      cmocka_unit_test(pre_tokenizers_after_byte_level_see_its_alphabet),
      cmocka_unit_test(added_tokens_are_decoded_as_they_are_written),
      cmocka_unit_test(added_tokens_share_white_space_as_there),
      cmocka_unit_test(a_million_marks_are_ordered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
