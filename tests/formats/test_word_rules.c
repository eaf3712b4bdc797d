/* Tests that the pre-tokenizers which GGUF names are recognised in every spelling of a tokenizer.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/text.h"
#include "formats/pieces.h"

static const ch_word_rule *rule_of(const char *normalizer, const char *pre, const char *ignore_merges) {
  ch_text json = {0};
  ch_tokenizer *tokenizer;
  ch_error error;
  const ch_word_rule *rule = NULL;
  ch_text_printf(
      &json,
      "{\"normalizer\": %s, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [%s]}, \"model\": "
      "{\"ignore_merges\": %s, \"vocab\": {\"a\": 0}, \"merges\": []}}",
      normalizer, pre, ignore_merges);
  if (ch_tokenizer_from_json(json.data, json.size, "test", &tokenizer, &error) != CH_OK)
    fail_msg("%s", error.message);
  if (ch_word_rule_like(tokenizer, strcmp(normalizer, "null") != 0, &rule, &error) != CH_OK)
    fail_msg("%s", error.message);
  ch_tokenizer_free(tokenizer);
  ch_text_free(&json);
  return rule;
}

#define BYTES(regex) "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": " regex "}"
#define SPLIT(pattern, behavior, invert)                                                                     \
  "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern "\"}, \"behavior\": \"" behavior               \
  "\", \"invert\": " invert "}, "
#define ISOLATED(pattern) SPLIT(pattern, "Isolated", "false")
#define END "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA3 "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}" END

static void spellings_of_known_rules_are_recognised(void **state) {
  (void)state;
  static const struct {
    const char *normalizer, *pre, *ignore_merges, *name;
  } cases[] = {
      {"null", ISOLATED(LLAMA3) BYTES("false"), "true", "llama-bpe"},
      {"null", SPLIT(LLAMA3, "Removed", "true") BYTES("false"), "true", "llama-bpe"},
      {"null", ISOLATED("(?:" LLAMA3 ")") BYTES("false"), "false", "dbrx"},
      /* cl100k's spelling is possessive, has one newline and orders members differently. */
      {"null",
       SPLIT("'(?i:[sdmt]|ll|ve|re)|[^\\\\p{N}\\\\p{L}\\r\\n]?+\\\\p{L}+|\\\\p{N}{1,3}| "
             "?[^\\\\s\\\\p{L}\\\\p{N}]++[\\r\\n]*|\\\\s*[\\r\\n]|\\\\s+(?!\\\\S)|\\\\s+",
             "Removed", "true") BYTES("false"),
       "false", "dbrx"},
      {"{\"type\": \"NFC\"}",
       ISOLATED("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1}" END)
           BYTES("false"),
       "false", "qwen2"},
      {"null", "{\"type\": \"Digits\", \"individual_digits\": true}, " BYTES("true"), "false", "smollm"},
      {"null",
       ISOLATED("'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| "
                "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+") BYTES("false"),
       "false", "gpt-2"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const ch_word_rule *rule = rule_of(cases[i].normalizer, cases[i].pre, cases[i].ignore_merges);
    if (!rule || rule != ch_word_rule_named(cases[i].name, strlen(cases[i].name)))
      fail_msg("%s is not found, but %s", cases[i].name, rule ? rule->names[0] : "nothing");
  }
}

static void other_rules_are_not(void **state) {
  (void)state;
  static const char *const cases[] = {
      ISOLATED("\\\\d{1,3}") ISOLATED(LLAMA3) BYTES("false"), /* digits of other scripts */
      SPLIT(LLAMA3, "Contiguous", "false") BYTES("false"),
      ISOLATED("(?i:'s|'t|'re|'ve|'m|'ll)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}" END)
          BYTES("false"),
      ISOLATED("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,4}" END)
          BYTES("false"),
      ISOLATED(" ?[^(\\\\s|[.,!?])]+") BYTES("false"),
      BYTES("false")};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const ch_word_rule *rule = rule_of("null", cases[i], "false");
    if (rule) fail_msg("%s is taken for %s", cases[i], rule->names[0]);
  }
}

static void every_name_opens(void **state) {
  (void)state;
  static const char *const names[] = {"gpt-4o",       "glm4",        "chatglm-bpe", "seed-coder",
                                      "deepseek-llm", "deepseek-v3", "tekken",      "qwen35",
                                      "bailingmoe",   "gpt-2",       "llama-bpe"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const ch_word_rule *rule = ch_word_rule_named(names[i], strlen(names[i]));
    ch_tokenizer *tokenizer;
    ch_error error;
    assert_non_null(rule);
    if (ch_word_rule_open(rule, &tokenizer, &error) != CH_OK) fail_msg("%s", error.message);
    ch_tokenizer_free(tokenizer);
  }
  assert_null(ch_word_rule_named("default", 7));
}

/* Tests letters in DeepSeek's list whose normal forms are other letters: they stay unchanged, in one word. */
static void letters_of_deepseek_are_not_normalised(void **state) {
  (void)state;
  static const char text[] = "\xe1\xbd\xbd\xe1\xbe\xbe\xe1\xbf\x93\xe1\xbf\x9b\xe2\x84\xa6\xe2\x84\xaa";
  ch_tokenizer *tokenizer;
  ch_encoder *encoder;
  ch_text words = {0};
  ch_error error;
  assert_int_equal(ch_word_rule_open(ch_word_rule_named("deepseek-llm", 12), &tokenizer, &error), CH_OK);
  assert_int_equal(ch_encoder_new(tokenizer, &encoder, &error), CH_OK);
  assert_int_equal(ch_encoder_words(encoder, text, sizeof text - 1, &words, &error), CH_OK);
  assert_int_equal(words.size, sizeof text);
  ch_text_free(&words);
  ch_encoder_free(encoder);
  ch_tokenizer_free(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spellings_of_known_rules_are_recognised),
      cmocka_unit_test(other_rules_are_not),
      cmocka_unit_test(every_name_opens),
      cmocka_unit_test(letters_of_deepseek_are_not_normalised),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
