/* Tests perplexities against a token-by-token computation from their definitions, word counts against
 * Python's, and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "eval/brute_force.h"
#include "eval/perplexity.h"

#define TRAINED TEST_DATA "/TinyStories-656K"
enum { BEGIN = 1, END = 2 };

typedef struct bench {
  ch_model *model;
  ch_tokenizer *tokenizer;
  ch_scorer *scorer;
} bench;

static int open_bench(void **state) {
  bench *b = calloc(1, sizeof *b);
  assert_non_null(b);
  assert_int_equal(ch_model_load(TRAINED, CH_WEIGHTS_MAPPED, &b->model, NULL), CH_OK);
  assert_int_equal(ch_tokenizer_open(TRAINED, &b->tokenizer, NULL), CH_OK);
  assert_int_equal(ch_scorer_create(b->model, &b->scorer, NULL), CH_OK);
  *state = b;
  return 0;
}

static int close_bench(void **state) {
  bench *b = *state;
  ch_scorer_free(b->scorer);
  ch_tokenizer_free(b->tokenizer);
  ch_model_unload(b->model);
  free(b);
  return 0;
}

static ch_document document(const char *text) {
  return (ch_document){text, strlen(text)};
}

static const char *const stories[] = {
    "Once upon a time, there was a little girl named Lily. She loved to play outside with her ball.",
    "Tom saw a big dog. \xe2\x80\x9cHello\xe2\x80\x9d, he said. The dog ran to the park and they were "
    "happy.\n\nThe end.",
    "A cat.",
};
enum { STORIES = 3 };

static void set_documents(ch_document *documents) {
  for (int i = 0; i < STORIES; i++) documents[i] = document(stories[i]);
}

static void encode(const bench *b, const char *text, unsigned flags, ch_ids *ids) {
  assert_int_equal(ch_tokenizer_encode(b->tokenizer, text, strlen(text), flags, ids, NULL), CH_OK);
}

/* Token i is predicted in the first of the windows [k stride, k stride + window) in which it is not the first
   token. */
static double strided_nll(const bench *b, const ch_ids *ids, int64_t window, int64_t stride) {
  double nll = 0;
  for (int64_t i = 1; i < (int64_t)ids->size; i++) {
    int64_t begin = 0;
    while (i >= begin + window) begin += stride;
    nll += brute_force_nll(b->model, ids->data + begin, i - begin + 1, i - begin);
  }
  return nll;
}

static void token_perplexity_follows_its_definition(void **state) {
  const bench *b = *state;
  ch_ids ids = {0};
  assert_true(ch_tokenizer_adds_bos(b->tokenizer));
  for (int i = 0; i < STORIES; i++) {
    if (i > 0) {
      assert_true(ch_ids_reserve(&ids, 1));
      ids.data[ids.size++] = END;
    }
    encode(b, stories[i], i == 0 ? CH_TEXT_WHOLE : CH_TEXT_BARE, &ids);
  }
  assert_int_equal(ids.data[0], BEGIN);
  ch_document documents[STORIES];
  set_documents(documents);
  static const int shapes[][2] = {{16, 8}, {16, 15}, {10, 1}, {7, 3}, {1000, 500}};
  for (int s = 0; s < 5; s++) {
    ch_evaluate_settings options = {.window = shapes[s][0], .stride = shapes[s][1]};
    ch_token_perplexity result;
    ch_error error = {0};
    if (ch_token_perplexity_of(b->scorer, b->tokenizer, documents, STORIES, END, &options, &result, &error) !=
        CH_OK)
      fail_msg("%s", error.message);
    double expected = strided_nll(b, &ids, options.window, options.stride);
    assert_int_equal(result.tokens, ids.size - 1);
    if (!(fabs(result.nll - expected) <= 1e-5 * expected))
      fail_msg("window %d, stride %d: %.6f where %.6f is right", shapes[s][0], shapes[s][1], result.nll,
               expected);
    assert_true(fabs(result.loss - expected / (double)result.tokens) < 1e-4);
    assert_true(fabs(result.perplexity - exp(result.loss)) < 1e-9);
  }
  ch_ids_free(&ids);
}

/* The tokenizer puts an end token after a whole text. */
static void one_end_token_is_between_two_documents(void **state) {
  (void)state;
  static const char json[] =
      "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"</s>\": 2}, \"merges\": []},"
      " \"added_tokens\": [{\"id\": 2, \"content\": \"</s>\", \"special\": true}], \"post_processor\":"
      " {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\":"
      " {\"id\": \"</s>\"}}], \"special_tokens\": {\"</s>\": {\"ids\": [2]}}}}";
  static const int32_t expected[] = {0, END, 1, END, 0, 1};
  const ch_document documents[] = {document("a"), document("b"), document("ab")};
  ch_tokenizer *tokenizer = NULL;
  ch_ids ids = {0};
  ch_error error = {0};
  char path[] = "/tmp/crosshead-suffix-XXXXXX";
  close(mkstemp(path));
  if (ch_write_file(path, json, strlen(json), &error) != CH_OK ||
      ch_tokenizer_open(path, &tokenizer, &error) != CH_OK ||
      ch_encode_joined(tokenizer, documents, 3, END, 0, &ids, &error) != CH_OK)
    fail_msg("%s", error.message);
  assert_int_equal(ids.size, 6);
  assert_memory_equal(ids.data, expected, sizeof expected);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
  unlink(path);
}

/* After its prefix, token j >= 1 of a document is predicted in block (j - 1) / window. A block's window has
   at most window + 1 tokens and ends with the block. */
static double rolling_nll(const bench *b, const char *text, int64_t window, int64_t *tokens) {
  ch_ids ids = {0};
  assert_true(ch_ids_reserve(&ids, 1));
  ids.data[ids.size++] = BEGIN;
  encode(b, text, CH_TEXT_BARE, &ids);
  double nll = 0;
  int64_t count = (int64_t)ids.size;
  for (int64_t j = 1; j < count; j++) {
    int64_t end = ((j - 1) / window + 1) * window + 1;
    if (end > count) end = count;
    int64_t begin = end - window - 1 > 0 ? end - window - 1 : 0;
    nll += brute_force_nll(b->model, ids.data + begin, j - begin + 1, j - begin);
  }
  *tokens += count - 1;
  ch_ids_free(&ids);
  return nll;
}

static void document_perplexities_follow_the_harness(void **state) {
  const bench *b = *state;
  ch_document documents[STORIES + 1];
  set_documents(documents);
  documents[STORIES] = document(""); /* empty documents are left out */
  static const int windows[] = {9, 16, 256};
  for (int w = 0; w < 3; w++) {
    double expected = 0;
    int64_t tokens = 0, bytes = 0;
    for (int i = 0; i < STORIES; i++) {
      expected += rolling_nll(b, stories[i], windows[w], &tokens);
      bytes += (int64_t)strlen(stories[i]);
    }
    ch_evaluate_settings options = {.window = windows[w], .stride = 1};
    ch_document_perplexity result;
    assert_int_equal(ch_document_perplexity_of(b->scorer, b->tokenizer, documents, STORIES + 1, BEGIN,
                                               &options, &result, NULL),
                     CH_OK);
    if (!(fabs(result.nll - expected) <= 1e-5 * expected))
      fail_msg("window %d: %.6f where %.6f is right", windows[w], result.nll, expected);
    assert_int_equal(result.documents, STORIES);
    assert_int_equal(result.tokens, tokens);
    assert_int_equal(result.words, 19 + 20 + 2);
    assert_int_equal(result.bytes, bytes);
    assert_true(fabs(result.word_perplexity / exp(expected / 41) - 1) < 1e-4);
    assert_true(fabs(result.byte_perplexity / exp(expected / (double)bytes) - 1) < 1e-5);
    assert_true(fabs(result.bits_per_byte - log2(result.byte_perplexity)) < 1e-9);
  }
}

/* The counts are those of len(re.split(r"\s+", text)) in Python 3. */
static void words_are_counted_as_the_harness_counts_them(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int words;
  } cases[] = {{"", 1},
               {"one", 1},
               {"one two", 2},
               {" one two", 3},
               {"one two\n", 3},
               {"\n", 2},
               {"a\t\t b\r\n\r\nc", 3},
               {"a\xc2\xa0"
                "b",
                2}, /* no-break space */
               {"a\xe3\x80\x80"
                "b\xe2\x80\xa8"
                "c",
                3}, /* ideographic space, line separator */
               {"a\x1c"
                "b\x1f"
                "c",
                3},
               {"a\xe2\x80\x8b"
                "b",
                1}, /* a zero-width space does not separate words */
               {"\xff \xff", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (ch_count_words(cases[i].text, strlen(cases[i].text)) != cases[i].words)
      fail_msg("case %zu has %lld words", i, (long long)ch_count_words(cases[i].text, strlen(cases[i].text)));
}

static void what_cannot_be_measured_is_an_error(void **state) {
  const bench *b = *state;
  ch_document documents[STORIES];
  set_documents(documents);
  ch_token_perplexity tokens;
  ch_document_perplexity per_document;
  ch_error error = {0};
  static const int wrong[][2] = {{16, 16}, {16, 17}, {16, 0}, {1, 1}, {0, 0}, {-3, 1}};
  for (int i = 0; i < 6; i++) {
    ch_evaluate_settings options = {.window = wrong[i][0], .stride = wrong[i][1]};
    assert_int_equal(
        ch_token_perplexity_of(b->scorer, b->tokenizer, documents, STORIES, END, &options, &tokens, &error),
        CH_ERROR_ARGUMENT);
    assert_int_equal(ch_document_perplexity_of(b->scorer, b->tokenizer, documents, STORIES, BEGIN, &options,
                                               &per_document, &error),
                     CH_ERROR_ARGUMENT);
  }
  ch_evaluate_settings options = {.window = 16, .stride = 8};
  documents[0] = document("");
  assert_int_equal(
      ch_token_perplexity_of(b->scorer, b->tokenizer, documents, 1, END, &options, &tokens, &error),
      CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "1 token;"));
  assert_int_equal(ch_document_perplexity_of(b->scorer, b->tokenizer, documents, 1, BEGIN, &options,
                                             &per_document, &error),
                   CH_ERROR_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(token_perplexity_follows_its_definition),
      cmocka_unit_test(one_end_token_is_between_two_documents),
      cmocka_unit_test(document_perplexities_follow_the_harness),
      cmocka_unit_test(words_are_counted_as_the_harness_counts_them),
      cmocka_unit_test(what_cannot_be_measured_is_an_error),
  };
  return cmocka_run_group_tests(tests, open_bench, close_bench);
}
