/* Tests broken and hostile tokenizer files: each is refused with a one-sentence message that says what is
 * wrong. */
#include "text_test.h"

#include <math.h>

/* Parts of a small, complete tokenizer.json; tests replace one after another. */
#define VOCAB "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"<unk>\": 3}"
#define MERGES "\"merges\": [\"a b\"]"
#define MODEL(more) "\"model\": {\"type\": \"BPE\", " VOCAB ", " MERGES more "}"
#define FILE_OF(parts) "{\"version\": \"1.0\", " parts "}"
static const char whole[] =
    FILE_OF("\"added_tokens\": [{\"id\": 4, \"content\": \"<x>\", \"special\": true}], "
            "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": null, " MODEL(""));

static ch_status parse(const char *text, size_t size, ch_error *error) {
  ch_tokenizer *tokenizer;
  char *copy = malloc(size); /* without a terminator: sanitizers see every byte that is read past the end */
  memcpy(copy, text, size);
  ch_status status = ch_tokenizer_from_json(copy, size, "f.json", &tokenizer, error);
  free(copy);
  assert_true((status == CH_OK) == (tokenizer != NULL));
  ch_tokenizer_free(tokenizer);
  return status;
}

static void a_small_whole_file_is_read(void **state) {
  (void)state;
  ch_error error;
  ASSERT_OK(parse(whole, strlen(whole), &error));
}

static void a_file_cut_off_anywhere_is_refused(void **state) {
  (void)state;
  for (size_t size = 0; size < strlen(whole); size++) {
    ch_error error = {0};
    assert_int_equal(parse(whole, size, &error), CH_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "f.json"));
  }
}

static void what_is_wrong_is_named(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"[]", "'{'"},
      {"{}", "\"model\""},
      {"{\"model\": {}} x", "end of the file"},
      {"{\"model\": 3}", "'{'"},
      {"{\"model\": {\"vocab\": {}, \"merges\": []}}", "vocabulary is empty"},
      {"{\"model\": {\"merges\": []}}", "model.vocab is missing"},
      {"{\"model\": {" VOCAB "}}", "model.merges is missing"},
      {"{" MODEL("") ", " MODEL("") "}", "\"model\" twice"},
      {"{\"model\": {\"type\": \"WordPiece\", " VOCAB ", " MERGES "}}", "WordPiece"},
      {"{\"model\": {\"type\": \"Unigram\", " VOCAB ", " MERGES "}}", "Unigram"},
      {"{\"model\": {\"type\": 7, " VOCAB ", " MERGES "}}", "model.type"},
      {"{\"model\": {\"vocab\": {\"a\": 0, \"a\": 1}, " MERGES "}}", "\"a\" appears twice"},
      {"{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, " MERGES "}}", "id 0 belongs to two"},
      {"{\"model\": {\"vocab\": {\"a\": -1}, " MERGES "}}", "the id -1"},
      {"{\"model\": {\"vocab\": {\"a\": 2147483648}, " MERGES "}}", "the id 2147483648"},
      {"{\"model\": {\"vocab\": {\"a\": 99999999999999999999}, " MERGES "}}", "an integer"},
      {"{\"model\": {\"vocab\": {\"a\": 1.5}, " MERGES "}}", "an integer"},
      {"{\"model\": {\"vocab\": {\"a\": \"0\"}, " MERGES "}}", "an integer"},
      {"{\"model\": {\"vocab\": {\"a\": 0,}, " MERGES "}}", "'\"'"},
      {"{\"model\": {\"vocab\": {\"\\ud800\": 0}, " MERGES "}}", "surrogate"},
      {"{\"model\": {\"vocab\": {\"\\q\": 0}, " MERGES "}}", "an escape"},
      {"{\"model\": {\"vocab\": {\"a\n\": 0}, " MERGES "}}", "control character"},
      {"{\"model\": {\"vocab\": {\"\xff\": 0}, " MERGES "}}", "UTF-8"},
      {"{\"model\": {" VOCAB ", \"merges\": [\"a c\"]}}", "merges[0] joins \"c\""},
      {"{\"model\": {" VOCAB ", \"merges\": [\"a b\", \"b a\"]}}", "merges[1] makes"},
      {"{\"model\": {" VOCAB ", \"merges\": [\"ab\"]}}", "merges[0] is not a pair"},
      {"{\"model\": {" VOCAB ", \"merges\": [\"a b a\"]}}", "merges[0] is not a pair"},
      {"{\"model\": {" VOCAB ", \"merges\": [[\"a\", \"b\", \"a\"]]}}", "merges[0] is not a pair"},
      {"{\"model\": {" VOCAB ", \"merges\": [[\"a\"]]}}", "expected"},
      {"{\"model\": {" VOCAB ", \"merges\": {}}}", "'['"},
      {"{" MODEL(", \"unk_token\": \"?\"") "}", "unk_token"},
      {"{" MODEL(", \"unk_token\": 3") "}", "unk_token"},
      {"{" MODEL(", \"byte_fallback\": 1") "}", "byte_fallback"},
      {"{" MODEL(", \"dropout\": 0.1") "}", "dropout"},
      {"{" MODEL(", \"continuing_subword_prefix\": \"##\"") "}", "continuing_subword_prefix"},
      {"{" MODEL(", \"end_of_word_suffix\": \"</w>\"") "}", "end_of_word_suffix"},
      {"{\"normalizer\": {\"type\": \"Lowercase\"}, " MODEL("") "}", "Lowercase"},
      {"{\"normalizer\": {\"type\": \"Prepend\"}, " MODEL("") "}", "prepend"},
      {"{\"normalizer\": {\"type\": \"Replace\", \"content\": \"\"}, " MODEL("") "}", "pattern"},
      {"{\"normalizer\": {\"type\": \"Sequence\"}, " MODEL("") "}", "normalizers"},
      {"{\"normalizer\": 5, " MODEL("") "}", "normalizer"},
      {"{\"normalizer\": {\"type\": \"NFC\", \"type\": \"NFD\"}, " MODEL("") "}", "duplicate"},
      {"{\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}, " MODEL("") "}", "UnicodeScripts"},
      {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": "
       "\"Isolated\"}, " MODEL("") "}",
       "is not one of Oniguruma's"},
      {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": "
       "\"Odd\"}, " MODEL("") "}",
       "Odd"},
      {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"long mark\"}, " MODEL("") "}",
       "replacement"},
      {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": "
       "\"x\"}, " MODEL("") "}",
       "prepend_scheme"},
      {"{\"post_processor\": {\"type\": \"BertProcessing\"}, " MODEL("") "}", "BertProcessing"},
      {"{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}, " MODEL("") "}", "single"},
      {"{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
       "\"s\"}}, "
       "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"s\": {\"ids\": [77]}}}, " MODEL("") "}",
       "77"},
      {"{\"decoder\": {\"type\": \"CTC\"}, " MODEL("") "}", "CTC"},
      {"{\"decoder\": {\"type\": \"Strip\", \"content\": \" \", \"start\": 0, \"stop\": 3}, " MODEL("") "}",
       "Strip"},
      {"{\"added_tokens\": 1, " MODEL("") "}", "added_tokens"},
      {"{\"added_tokens\": [{\"id\": 4}], " MODEL("") "}", "added_tokens[0]"},
      {"{\"added_tokens\": [{\"id\": 4194304, \"content\": \"x\"}], " MODEL("") "}", "4194304"},
      {"{\"added_tokens\": [{\"id\": 2, \"content\": \"a\"}], " MODEL("") "}", "\"a\""},
      {"{\"added_tokens\": [{\"id\": 2, \"content\": \"x\"}], " MODEL("") "}", "belongs to two"},
      {"{\"added_tokens\": [{\"id\": 4, \"content\": \"x\", \"special\": 1}], " MODEL("") "}", "special"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_error error;
    print_message("           %s\n", cases[i].part);
    ASSERT_FAILS(parse(cases[i].text, strlen(cases[i].text), &error), CH_ERROR_FORMAT, cases[i].part);
  }
}

static void deep_nesting_is_refused_and_not_followed(void **state) {
  (void)state;
  enum { DEPTH = 1 << 20 };
  char *text = malloc(2 * DEPTH + 256);
  ch_error error;
  int head = sprintf(text, "{\"normalizer\": ");
  memset(text + head, '[', DEPTH);
  memset(text + head + DEPTH, ']', DEPTH);
  strcpy(text + head + 2 * DEPTH, ", " MODEL("") "}");
  ASSERT_FAILS(parse(text, strlen(text), &error), CH_ERROR_FORMAT, "normalizer");
  free(text);
}

static void a_character_without_a_token_is_an_error_and_not_lost(void **state) {
  (void)state;
  ch_tokenizer *tokenizer;
  ch_error error;
  ch_ids ids = {0};
  ASSERT_OK(ch_tokenizer_from_json(whole, strlen(whole), "f.json", &tokenizer, &error));
  ASSERT_OK(ch_tokenizer_encode(tokenizer, "abba", 4, CH_TEXT_BARE, &ids, &error));
  assert_int_equal(ids.size, 3);
  ASSERT_FAILS(ch_tokenizer_encode(tokenizer, "abz", 3, CH_TEXT_BARE, &ids, &error), CH_ERROR_FORMAT,
               "\"z\"");
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
}

static void merges_in_a_circle_end(void **state) {
  (void)state;
  /* "a" + "" is "a" again: such a merge would never end. */
  static const char text[] =
      "{\"model\": {\"vocab\": {\"a\": 0, \"\": 1, \"aa\": 2}, \"merges\": [[\"a\", \"\"], [\"\", "
      "\"a\"], [\"a\", \"a\"]]}}";
  ch_tokenizer *tokenizer;
  ch_error error;
  ch_ids ids = {0};
  if (ch_tokenizer_from_json(text, strlen(text), "f.json", &tokenizer, &error) != CH_OK) return;
  ASSERT_OK(ch_tokenizer_encode(tokenizer, "aaaa", 4, CH_TEXT_BARE, &ids, &error));
  assert_int_equal(ids.size, 2);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
}

static ch_status parse_bin(const unsigned char *data, size_t size, ch_error *error) {
  ch_tokenizer *tokenizer;
  unsigned char *copy = malloc(size ? size : 1);
  if (size) memcpy(copy, data, size);
  ch_status status = ch_tokenizer_from_bin(copy, size, "f.bin", &tokenizer, error);
  free(copy);
  ch_tokenizer_free(tokenizer);
  return status;
}

static void a_broken_tokenizer_bin_is_refused(void **state) {
  (void)state;
  char *text;
  size_t size;
  ch_error error;
  ASSERT_OK(ch_read_file(TEST_DATA "/text/spm.bin", 1 << 20, &text, &size, &error));
  unsigned char *data = (unsigned char *)text;
  ASSERT_OK(parse_bin(data, size, &error));
  /* After the tokens of single bytes, a cut between two tokens is not an error. */
  for (size_t cut = 0; cut < size; cut += 7) {
    ch_status status = parse_bin(data, cut, &error);
    if (cut < 259 * 9) assert_int_equal(status, CH_ERROR_FORMAT);
  }
  ch_random random;
  ch_random_seed(&random, 1, 0);
  for (int i = 0; i < 2000; i++) { /* any result but a crash is right */
    size_t at = ch_random_below(&random, size);
    unsigned char kept = data[at];
    data[at] = (unsigned char)ch_random_u64(&random);
    parse_bin(data, size, &error);
    data[at] = kept;
  }
  float not_a_number = NAN;
  int32_t huge = INT32_MAX, negative = -1;
  unsigned char first[12];
  memcpy(first, data, sizeof first);
  memcpy(data + 4, &not_a_number, 4);
  ASSERT_FAILS(parse_bin(data, size, &error), CH_ERROR_FORMAT, "not a finite number");
  memcpy(data, first, sizeof first);
  memcpy(data + 8, &huge, 4);
  ASSERT_FAILS(parse_bin(data, size, &error), CH_ERROR_FORMAT, "length");
  memcpy(data + 8, &negative, 4);
  ASSERT_FAILS(parse_bin(data, size, &error), CH_ERROR_FORMAT, "length");
  memcpy(data, first, sizeof first);
  memcpy(data, &negative, 4);
  ASSERT_FAILS(parse_bin(data, size, &error), CH_ERROR_FORMAT, "size");
  free(text);
}

static void paths_without_a_tokenizer_are_explained(void **state) {
  (void)state;
  char *directory = new_directory();
  ch_tokenizer *tokenizer;
  ch_error error;
  ASSERT_FAILS(ch_tokenizer_open(directory, &tokenizer, &error), CH_ERROR_IO, "tokenizer.json");
  char *empty = write_beside(directory, "tokenizer.json", "", 0);
  ASSERT_FAILS(ch_tokenizer_open(directory, &tokenizer, &error), CH_ERROR_FORMAT, "empty");
  char *model = write_beside(directory, "tokenizer.model", "\n\x0e\n\x05<unk>", 9);
  ASSERT_FAILS(ch_tokenizer_open(model, &tokenizer, &error), CH_ERROR_FORMAT, "SentencePiece");
  char *missing = ch_path_join(directory, "none.json");
  ASSERT_FAILS(ch_tokenizer_open(missing, &tokenizer, &error), CH_ERROR_IO, "none.json");
  char *json = write_beside(directory, "tokenizer.json", whole, strlen(whole));
  char *config = write_beside(directory, "tokenizer_config.json", "{", 1);
  ASSERT_FAILS(ch_tokenizer_open(directory, &tokenizer, &error), CH_ERROR_FORMAT, "tokenizer_config.json");
  free(empty);
  free(model);
  free(missing);
  free(json);
  free(config);
  remove_directory(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_small_whole_file_is_read),
      cmocka_unit_test(a_file_cut_off_anywhere_is_refused),
      cmocka_unit_test(what_is_wrong_is_named),
      cmocka_unit_test(deep_nesting_is_refused_and_not_followed),
      cmocka_unit_test(a_character_without_a_token_is_an_error_and_not_lost),
      cmocka_unit_test(merges_in_a_circle_end),
      cmocka_unit_test(a_broken_tokenizer_bin_is_refused),
      cmocka_unit_test(paths_without_a_tokenizer_are_explained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
