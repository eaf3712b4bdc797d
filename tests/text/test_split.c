/* Tests words: the hand-written scanners against the regexes that they replace, PCRE2's matches against Oniguruma's,
 * merges against the plain algorithm, and normal forms in pieces against those of the whole text. */
#include "text_test.h"

#include <utf8proc.h>

#include "text/merges.h"
#include "text/normalize.h"
#include "text/split.h"

#define LLAMA(digits)                                                                                        \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"      \
  "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
  const char *pattern;
  ch_split_scanner scanner;
} scanners[] = {{ch_pattern_gpt2, CH_SCAN_GPT2},
                {LLAMA("\\p{N}{1,3}|"), CH_SCAN_LLAMA3},
                {LLAMA("\\p{N}|"), CH_SCAN_QWEN}};

static void check_words(const ch_split *fast, ch_regex_scratch *scratch, const char *text, size_t size) {
  ch_split slow = *fast;
  ch_split_cursor a, b;
  ch_error error;
  const unsigned char *word, *expected, *reached = (const unsigned char *)text;
  size_t length, expected_length;
  slow.scanner = CH_SCAN_NONE;
  ch_split_begin(&a, fast, scratch, text, size);
  ch_split_begin(&b, &slow, scratch, text, size);
  do {
    ASSERT_OK(ch_split_next(&a, &word, &length, &error));
    ASSERT_OK(ch_split_next(&b, &expected, &expected_length, &error));
    if (length != expected_length)
      fail_msg("at byte %zu of \"%s\": %zu bytes, not %zu", (size_t)(reached - (const unsigned char *)text),
               text, length, expected_length);
    assert_true(length == 0 || word == reached);
    reached += length;
  } while (length > 0);
  assert_true(reached == (const unsigned char *)text + size);
}

static void check_parts(const ch_split *fast, const ch_split *slow, ch_regex_scratch *scratch,
                        const char *pattern, const char *text, size_t size) {
  ch_split_cursor a, b;
  bool more = true, more_slow;
  ch_error error;
  ch_split_begin(&a, fast, scratch, text, size);
  ch_split_begin(&b, slow, scratch, text, size);
  while (more) {
    ch_split_part part, expected;
    ASSERT_OK(ch_split_next_part(&a, &part, &more, &error));
    ASSERT_OK(ch_split_next_part(&b, &expected, &more_slow, &error));
    if (more != more_slow || part.size != expected.size || part.is_match != expected.is_match)
      fail_msg("%.*s on \"%.*s\": %zu bytes, not %zu", (int)strlen(pattern), pattern, (int)size, text,
               part.size, expected.size);
  }
}

static void scanners_cut_words_as_their_patterns_do(void **state) {
  (void)state;
  ch_regex_scratch scratch = {0};
  ch_text text = {0};
  ch_random random;
  ch_error error;
  ASSERT_OK(ch_regex_scratch_open(&scratch, &error));
  for (size_t s = 0; s < 3; s++) {
    ch_split split;
    const char *pattern = scanners[s].pattern;
    ASSERT_OK(
        ch_split_compile(&split, pattern, strlen(pattern), false, CH_SPLIT_ISOLATED, false, "test", &error));
    assert_int_equal(split.scanner, scanners[s].scanner);
    ch_random_seed(&random, 17, s);
    for (int i = 0; i < 20000; i++) {
      random_text(&random, 1 + ch_random_below(&random, 24), i % 3 == 0, &text);
      check_words(&split, &scratch, text.data, text.size);
    }
    /* Every pair of ASCII characters is placed among letters, among spaces and at the end. */
    for (int a = 1; a < 128; a++)
      for (int b = 1; b < 128; b++) {
        const char around[] = {'x', (char)a, (char)b, 'y', ' ', (char)a, (char)b, '\n', (char)b, (char)a, 0};
        check_words(&split, &scratch, around, 10);
        check_words(&split, &scratch, around, 3);
      }
    ch_split_free(&split);
  }
  ch_regex_scratch_close(&scratch);
  ch_text_free(&text);
}

static void a_pattern_that_is_not_quite_a_known_one_has_no_scanner(void **state) {
  (void)state;
  ch_split split;
  ch_error error;
  const char *pattern = LLAMA("\\p{N}{1,2}|");
  ASSERT_OK(
      ch_split_compile(&split, pattern, strlen(pattern), false, CH_SPLIT_ISOLATED, false, "test", &error));
  assert_int_equal(split.scanner, CH_SCAN_NONE);
  ch_split_free(&split);
  ASSERT_OK(ch_split_compile(&split, ch_pattern_gpt2, strlen(ch_pattern_gpt2), false, CH_SPLIT_REMOVED, false,
                             "test", &error));
  assert_int_equal(split.scanner, CH_SCAN_NONE);
  ch_split_free(&split);
}

static void find(const char *pattern, const char *text, bool slow, size_t *begin, size_t *end) {
  ch_regex_scratch scratch = {0};
  ch_regex *regex;
  ch_error error;
  bool found;
  ASSERT_OK(ch_regex_scratch_open(&scratch, &error));
  ASSERT_OK(ch_regex_compile(&regex, pattern, strlen(pattern), false, "test", &error));
  if (slow) ch_regex_slow_down(regex);
  ASSERT_OK(ch_regex_find(regex, &scratch, (const unsigned char *)text, strlen(text), 0, &found, begin, end,
                          &error));
  if (!found) *begin = *end = SIZE_MAX;
  ch_regex_free(regex);
  ch_regex_scratch_close(&scratch);
}

/* Each expected value is what the package tokenizers 0.23.3 matches. */
static void patterns_mean_what_they_mean_to_oniguruma(void **state) {
  (void)state;
  const struct {
    const char *pattern, *text;
    size_t begin, end;
  } cases[] = {
      {"\\s", "\xe1\xa0\x8e\xc2\x85", 3, 5}, /* Unicode's White_Space */
      {"[^\\s]", "\xc2\x85x", 2, 3},
      {"\\S", "\xe3\x80\x80x", 3, 4},
      {"\\w+", "-e\xcc\x81_-", 1, 5}, /* marks, connectors and numbers of Latin-1 belong to words */
      {"\\w+", " x\xc2\xb2", 1, 4},
      {"\\W", "e\xcc\x81-", 3, 4},
      {"[^\\W\\d_]+", "1nai\xcc\x88ve", 1, 8},
      {"e\\b", "e\xcc\x81 e", 4, 5},
      {"a$", "ba\nc", 1, 2}, /* $ matches the end of a line */
      {"[[:digit:]a]+", "x1a", 1, 3},
      {"[[:punct:]]", "a\xe2\x82\xac+", 1, 4}, /* symbols are punctuation */
      {"[[:^punct:]]",
       "+\xe2\x82\xac"
       "a",
       4, 5},
      {"[]a]+", "x]a", 1, 3},
      {"[a-z&&[^m-p]]+", "nabm", 1, 3},                            /* sets within sets */
      {"\\h+", "xfF0", 1, 4},                                      /* hexadecimal digits */
      {"\\v", "\r\n\v", 2, 3},                                     /* one character */
      {"\\d{1,3}+", "12345", 0, 5},                                /* repeats the repetition */
      {"\\d{2}?", "1", 0, 0},                                      /* may be absent */
      {"\\p{Han}+", "\xe3\x80\x81\xe4\xb8\xad\xe3\x80\x81", 3, 6}, /* scripts, not their extensions */
      {"(?i:ss)", "\xc3\x9f", 0, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t begin, end;
    find(cases[i].pattern, cases[i].text, false, &begin, &end);
    if (begin != cases[i].begin || end != cases[i].end)
      fail_msg("%s on \"%s\": %zu to %zu, not %zu to %zu", cases[i].pattern, cases[i].text, begin, end,
               cases[i].begin, cases[i].end);
  }
}

/* Writes a random pattern, mostly of parts that both libraries interpret equally. */
static void random_pattern(ch_random *random, ch_text *pattern) {
  static const char *const atoms[] = {"a",
                                      " ",
                                      "\\s",
                                      "\\S",
                                      "\\d",
                                      "\\p{L}",
                                      "\\p{Lu}",
                                      "\\P{N}",
                                      "[^\\s\\p{L}\\p{N}]",
                                      "[\\r\\n]",
                                      "[a-z]",
                                      "[^\\r\\n\\p{L}\\p{N}]",
                                      "[\\p{Ll}\\p{M}]",
                                      "\xc3\xa9",
                                      "'",
                                      "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
                                      "(?:a|\\p{N})",
                                      "(?!\\S)",
                                      "(?=\\p{L})",
                                      "[!-/:-~]",
                                      "$",
                                      "\\w",
                                      "[[:alpha:]]"};
  static const char *const repetitions[] = {"", "", "", "?", "*", "+", "{1,3}", "{2}", "+?", "*+", "{1,2}+"};
  pattern->size = 0;
  for (uint64_t alternatives = 1 + ch_random_below(random, 4); alternatives > 0; alternatives--) {
    for (uint64_t items = 1 + ch_random_below(random, 3); items > 0; items--) {
      ch_text_puts(pattern, atoms[ch_random_below(random, sizeof atoms / sizeof *atoms)]);
      ch_text_puts(pattern, repetitions[ch_random_below(random, sizeof repetitions / sizeof *repetitions)]);
    }
    if (alternatives > 1) ch_text_puts(pattern, "|");
  }
}

/* Returns true if PCRE2 is used. It is used only if it knows the characters that Oniguruma knows: in Debian
   13 one has Unicode 16 and the other 15. */
static bool is_fast(const char *pattern) {
  ch_regex *regex;
  ch_error error;
  ASSERT_OK(ch_regex_compile(&regex, pattern, strlen(pattern), false, "test", &error));
  bool fast = ch_regex_is_fast(regex);
  ch_regex_free(regex);
  return fast;
}

static void skip_without_fast_patterns(void) {
  if (is_fast("[a-z]")) return;
  print_message(
      "PCRE2 and Oniguruma know different versions of Unicode here, so Oniguruma matches every pattern\n");
  skip();
}

static void fast_patterns_match_as_oniguruma_does(void **state) {
  (void)state;
  skip_without_fast_patterns();
  ch_regex_scratch scratch = {0};
  ch_random random;
  ch_text pattern = {0}, text = {0};
  ch_error error;
  int fast = 0;
  ASSERT_OK(ch_regex_scratch_open(&scratch, &error));
  ch_random_seed(&random, 29, 0);
  for (int i = 0; i < 4000; i++) {
    ch_regex *regex;
    random_pattern(&random, &pattern);
    if (ch_regex_compile(&regex, pattern.data, pattern.size, false, "test", &error) != CH_OK) continue;
    if (ch_regex_is_fast(regex)) {
      ch_split split = {.regex = regex}, plain = {.behavior = CH_SPLIT_ISOLATED};
      ASSERT_OK(ch_regex_compile(&plain.regex, pattern.data, pattern.size, false, "test", &error));
      ch_regex_slow_down(plain.regex);
      for (int j = 0; j < 20; j++) {
        random_text(&random, 1 + ch_random_below(&random, 16), j % 4 == 0, &text);
        check_parts(&split, &plain, &scratch, pattern.data, text.data, text.size);
      }
      ch_regex_free(plain.regex);
      fast++;
    }
    ch_regex_free(regex);
  }
  assert_in_range(fast, 800, 4000);
  ch_regex_scratch_close(&scratch);
  ch_text_free(&pattern);
  ch_text_free(&text);
}

static void known_patterns_are_fast_and_others_are_not(void **state) {
  (void)state;
  skip_without_fast_patterns();
  static const char *const patterns[] = {
      ch_pattern_gpt2, LLAMA("\\p{N}{1,3}|"), "\\p{N}{1,3}", "\\s+$", "[\\r\\n]",
      /* Oniguruma matches the rest. Most of these patterns mean something else to PCRE2. */
      "\\p{N}{1,3}+", "\\p{Han}+", "\\w+", "\\b", "[[:punct:]]", "[^\\W\\d]", "\\v", "(?i:ss)", "[a-z&&[^m]]",
      "x{,3}", "(a*)+", "(a)\\1", "a{2}?", "^a", "(?<!a)b"};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
    if (is_fast(patterns[i]) != (i < 5)) fail_msg("%s", patterns[i]);
}

static void a_pattern_that_takes_too_long_is_an_error(void **state) {
  (void)state;
  ch_regex_scratch scratch = {0};
  ch_regex *regex;
  ch_error error;
  bool found;
  size_t begin, end;
  const char *pattern = "(a|aa)+(?<!x)$",
             *text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
  ASSERT_OK(ch_regex_scratch_open(&scratch, &error));
  ASSERT_OK(ch_regex_compile(&regex, pattern, strlen(pattern), false, "test", &error));
  assert_int_equal(ch_regex_find(regex, &scratch, (const unsigned char *)text, strlen(text), 0, &found,
                                 &begin, &end, &error),
                   CH_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "too many steps"));
  ch_regex_free(regex);
  ch_regex_scratch_close(&scratch);
}

/* Merges the pair of lowest rank, the leftmost first, after looking at all pairs every time. Returns the number of
   ids. */
static size_t merge_plainly(const ch_merges *merges, int32_t *ids, size_t count) {
  for (;;) {
    const ch_merge *best = NULL;
    size_t place = 0;
    for (size_t i = 0; i + 1 < count; i++) {
      const ch_merge *merge = ch_merges_find(merges, ids[i], ids[i + 1]);
      if (merge && (!best || merge->rank < best->rank)) {
        best = merge;
        place = i;
      }
    }
    if (!best) return count;
    ids[place] = best->id;
    count--;
    memmove(ids + place + 1, ids + place + 2, (count - place - 1) * sizeof *ids);
  }
}

static void words_of_any_length_merge_as_by_the_plain_algorithm(void **state) {
  (void)state;
  ch_random random;
  ch_merge_scratch scratch = {0};
  ch_random_seed(&random, 21, 0);
  for (int round = 0; round < 300; round++) {
    ch_merges merges = {0};
    int32_t known = 4, expected[600];
    for (int i = 0; i < 40; i++) { /* any pairs, also of equal rank */
      ch_merge merge = {(int32_t)ch_random_below(&random, (uint64_t)known),
                        (int32_t)ch_random_below(&random, (uint64_t)known),
                        round % 2 ? i : (int32_t)ch_random_below(&random, 8), known};
      assert_true(ch_merges_set(&merges, merge));
      known++;
    }
    for (int word = 0; word < 8; word++) {
      size_t count = ch_random_below(&random, word % 2 ? 40 : 600);
      assert_true(ch_merge_scratch_reserve(&scratch, count + 1));
      for (size_t i = 0; i < count; i++) scratch.ids[i] = expected[i] = (int32_t)ch_random_below(&random, 4);
      size_t wanted = merge_plainly(&merges, expected, count);
      assert_true(ch_merge_word(&merges, &scratch, &count));
      assert_int_equal(count, wanted);
      if (count) assert_memory_equal(scratch.ids, expected, count * sizeof *expected);
    }
    ch_merges_free(&merges);
  }
  ch_merge_scratch_free(&scratch);
}

static void normal_forms_are_those_of_the_whole_text(void **state) {
  (void)state;
  const struct {
    ch_normalizer_type type;
    int form;
  } forms[] = {{CH_NORMALIZE_NFC, UTF8PROC_COMPOSE},
               {CH_NORMALIZE_NFD, UTF8PROC_DECOMPOSE},
               {CH_NORMALIZE_NFKC, UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
               {CH_NORMALIZE_NFKD, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  ch_random random;
  ch_text text = {0}, out = {0};
  size_t added = 0;
  ch_error error;
  ch_random_seed(&random, 23, 0);
  for (size_t f = 0; f < 4; f++) {
    ch_normalizer normalizer = {.type = forms[f].type};
    for (int i = 0; i < 3000; i++) {
      text.size = out.size = 0;
      for (int j = 0; j < 12; j++) {
        static const utf8proc_int32_t ends[] = {0x80, 0x400, 0x3200, 0xd800, 0x20000};
        utf8proc_int32_t c =
            (utf8proc_int32_t)ch_random_below(&random, (uint64_t)ends[ch_random_below(&random, 5)]);
        if (ch_random_below(&random, 3) == 0) c = 0x300 + (utf8proc_int32_t)ch_random_below(&random, 0x70);
        if (c >= 0xd800 && c < 0xe000) c = 'x';
        unsigned char bytes[4];
        ch_text_put(&text, (char *)bytes, (size_t)utf8proc_encode_char(c ? c : 1, bytes));
      }
      utf8proc_uint8_t *expected;
      utf8proc_ssize_t size = utf8proc_map((utf8proc_uint8_t *)text.data, (utf8proc_ssize_t)text.size,
                                           &expected, (utf8proc_option_t)(forms[f].form | UTF8PROC_STABLE));
      ASSERT_OK(ch_normalize(&normalizer, NULL, text.data, text.size, false, &added, &out, &error));
      assert_int_equal(out.size, size);
      assert_memory_equal(out.data, expected, out.size);
      free(expected);
    }
    random_text(&random, 50, 1, &text); /* normal forms leave invalid bytes unchanged */
    out.size = 0;
    ASSERT_OK(ch_normalize(&normalizer, NULL,
                           "\xff"
                           "a\x80\xcc",
                           4, false, &added, &out, &error));
    assert_int_equal(out.size, 4);
    assert_memory_equal(out.data,
                        "\xff"
                        "a\x80\xcc",
                        4);
  }
  ch_text_free(&text);
  ch_text_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scanners_cut_words_as_their_patterns_do),
      cmocka_unit_test(a_pattern_that_is_not_quite_a_known_one_has_no_scanner),
      cmocka_unit_test(patterns_mean_what_they_mean_to_oniguruma),
      cmocka_unit_test(fast_patterns_match_as_oniguruma_does),
      cmocka_unit_test(known_patterns_are_fast_and_others_are_not),
      cmocka_unit_test(a_pattern_that_takes_too_long_is_an_error),
      cmocka_unit_test(words_of_any_length_merge_as_by_the_plain_algorithm),
      cmocka_unit_test(normal_forms_are_those_of_the_whole_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
