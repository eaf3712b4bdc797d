/* Tests tokenizers without a model as a program would use them, with crosshead/tokenizer.h only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <crosshead/text.h>
#include <crosshead/tokenizer.h>

#define MODEL TEST_DATA "/TinyStories-656K"

/* The ids are those of transformers 5.12. */
static const char prompt[] = "Once upon a time, there was a little girl named Lily.";
static const int32_t expected[] = {1, 80, 147, 201, 282, 215, 286, 598, 629, 10};
enum { COUNT = sizeof expected / sizeof *expected };

static ch_error error;

static void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

static ch_tokenizer *opened(const char *path) {
  ch_tokenizer *tokenizer = NULL;
  must(ch_tokenizer_open(path, &tokenizer, &error));
  return tokenizer;
}

static void assert_ids(const ch_ids *ids, const int32_t *wanted, size_t count) {
  assert_int_equal(ids->size, count);
  assert_memory_equal(ids->data, wanted, count * sizeof *wanted);
}

static void a_text_becomes_the_ids_of_the_reference(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = opened(MODEL);
  ch_encoder *encoder = NULL;
  must(ch_encoder_new(tokenizer, &encoder, &error));
  ch_ids ids = {0}, again = {0};
  must(ch_tokenizer_encode(tokenizer, prompt, strlen(prompt), CH_TEXT_BEGINS, &ids, &error));
  assert_ids(&ids, expected, COUNT);
  for (int i = 0; i < 3; i++) {
    again.size = 0;
    must(ch_encoder_encode(encoder, prompt, strlen(prompt), CH_TEXT_BEGINS, &again, &error));
    assert_ids(&again, expected, COUNT);
  }
  must(ch_tokenizer_encode(tokenizer, prompt, strlen(prompt), CH_TEXT_BARE, &ids, &error)); /* appends */
  assert_int_equal(ids.size, 2 * COUNT - 1);
  assert_memory_equal(ids.data + COUNT, expected + 1, (COUNT - 1) * sizeof *expected);

  char *text = NULL;
  size_t size = 0;
  must(ch_tokenizer_decode(tokenizer, ids.data + 1, COUNT - 1, 0, &text, &size, &error));
  assert_string_equal(text, prompt);
  assert_int_equal(size, strlen(prompt));
  ch_free(text);
  ch_ids_free(&ids);
  ch_ids_free(&again);
  ch_encoder_free(encoder);
  ch_encoder_free(NULL);
  ch_tokenizer_free(tokenizer);
  ch_tokenizer_free(NULL);
}

/* The model's tokenizer adds a space before the beginning of a text and none before a continuation. */
static void where_a_text_stands_decides_what_is_put_around_it(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = opened(MODEL);
  static const unsigned flags[] = {0, CH_TEXT_BARE, CH_TEXT_BEGINS, CH_TEXT_WHOLE};
  ch_ids ids[4] = {{0}};
  for (int i = 0; i < 4; i++) must(ch_tokenizer_encode(tokenizer, "time", 4, flags[i], &ids[i], &error));
  assert_true(ch_tokenizer_adds_bos(tokenizer));
  int32_t bos = ch_tokenizer_bos(tokenizer);
  assert_int_equal(bos, 1);
  assert_int_equal(ids[2].size, ids[1].size + 1);
  assert_int_equal(ids[2].data[0], bos);
  assert_memory_equal(ids[2].data + 1, ids[1].data, ids[1].size * sizeof bos);
  assert_ids(&ids[3], ids[2].data, ids[2].size);
  char *text = NULL;
  size_t size = 0;
  int32_t after[10] = {expected[1], expected[2]}; /* "On" */
  for (int i = 0; i < 2; i++) {
    memcpy(after + 2, ids[i].data, ids[i].size * sizeof *after);
    must(ch_tokenizer_decode(tokenizer, after, 2 + ids[i].size, 0, &text, &size, &error));
    assert_string_equal(text, i ? "On time" : "Ontime");
    ch_free(text);
  }
  for (int i = 0; i < 4; i++) ch_ids_free(&ids[i]);
  ch_tokenizer_free(tokenizer);
}

static void the_vocabulary_can_be_read(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = opened(MODEL);
  assert_int_equal(ch_tokenizer_vocab_size(tokenizer), 2048);
  for (int32_t id = 0; id < 2048; id++) {
    size_t size = 0;
    const char *piece = ch_tokenizer_piece(tokenizer, id, &size);
    assert_non_null(piece);
    assert_int_equal(ch_tokenizer_find(tokenizer, piece, size), id);
  }
  size_t size = 0;
  assert_null(ch_tokenizer_piece(tokenizer, 2048, &size));
  assert_int_equal(ch_tokenizer_find(tokenizer, "no such piece", 13), -1);
  assert_true(ch_tokenizer_is_special(tokenizer, ch_tokenizer_bos(tokenizer)));
  assert_false(ch_tokenizer_is_special(tokenizer, expected[1]));
  ch_model *model = NULL;
  must(ch_model_open(MODEL, &model, &error));
  assert_int_equal(ch_tokenizer_vocab_size(ch_model_tokenizer(model)), 2048);
  assert_null(ch_model_tokenizer(NULL));
  ch_model_close(model);
  ch_tokenizer_free(tokenizer);
}

static void special_tokens_are_read_and_left_out_on_request(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = opened(MODEL);
  ch_ids ids = {0};
  must(ch_tokenizer_encode(tokenizer, "<|start_story|>", 15, CH_TEXT_BARE | CH_TEXT_SPECIAL, &ids, &error));
  assert_ids(&ids, &(int32_t){1}, 1);
  ids.size = 0;
  must(ch_tokenizer_encode(tokenizer, "<|start_story|>", 15, CH_TEXT_BARE, &ids, &error));
  assert_true(ids.size > 0);
  for (size_t i = 0; i < ids.size; i++) assert_int_not_equal(ids.data[i], 1);
  char *text = NULL;
  size_t size = 0;
  must(ch_tokenizer_decode(tokenizer, expected, 1, 0, &text, &size, &error));
  assert_string_equal(text, "<|start_story|>");
  ch_free(text);
  must(ch_tokenizer_decode(tokenizer, expected, 1, CH_TEXT_NO_SPECIAL, &text, &size, &error));
  assert_string_equal(text, "");
  ch_free(text);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
}

static void what_makes_no_sense_is_an_error(void **state) {
  (void)state;
  ch_tokenizer *tokenizer = (ch_tokenizer *)1;
  assert_int_equal(ch_tokenizer_open("/nonexistent", &tokenizer, &error), CH_ERROR_IO);
  assert_null(tokenizer);
  assert_int_equal(ch_tokenizer_open(NULL, &tokenizer, &error), CH_ERROR_ARGUMENT);
  tokenizer = opened(MODEL);
  ch_ids ids = {0};
  assert_int_equal(ch_tokenizer_encode(tokenizer, "a", 1, CH_TEXT_BEGINS | CH_TEXT_BARE, &ids, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(ch_tokenizer_encode(tokenizer, "a", 1, CH_TEXT_NO_SPECIAL, &ids, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(ch_tokenizer_encode(tokenizer, NULL, 1, 0, &ids, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ids.size, 0);
  char *text = NULL;
  size_t size = 0;
  static const int32_t outside[] = {2048, -1};
  for (int i = 0; i < 2; i++)
    assert_int_equal(ch_tokenizer_decode(tokenizer, &outside[i], 1, 0, &text, &size, &error),
                     CH_ERROR_ARGUMENT);
  assert_int_equal(ch_tokenizer_decode(tokenizer, expected, 1, CH_TEXT_WHOLE, &text, &size, &error),
                   CH_ERROR_ARGUMENT);
  assert_null(text);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
}

/* --- training ----------------------------------------------------------------------------------------------- */

typedef struct files {
  char directory[40], text[64], out[64];
} files;

static void make_files(files *f, const char *text) {
  strcpy(f->directory, "/tmp/crosshead-tokenizer-XXXXXX");
  assert_non_null(mkdtemp(f->directory));
  snprintf(f->text, sizeof f->text, "%s/text", f->directory);
  snprintf(f->out, sizeof f->out, "%s/tokenizer.json", f->directory);
  FILE *file = fopen(f->text, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void remove_files(const files *f) {
  remove(f->text);
  remove(f->out);
  assert_int_equal(rmdir(f->directory), 0);
}

static bool count_stages(const char *stage, double share, void *user) {
  assert_true(share >= 0 && share <= 1);
  *(int *)user += strcmp(stage, "counting words") == 0;
  return true;
}

static bool refuse(const char *stage, double share, void *user) {
  (void)stage, (void)share, (void)user;
  return false;
}

/* "xy" occurs 8 times, with " " before it 3 times. The first pair to be merged is x, y; then xy, xy. */
static void a_tokenizer_is_trained_on_a_text(void **state) {
  (void)state;
  files f;
  make_files(&f, "xyxy xyxy xyxy xyxy");
  ch_tokenizer_train_settings settings;
  ch_tokenizer_train_defaults(&settings);
  int calls = 0;
  settings.vocab_size = CH_TOKENIZER_LEAST_VOCABULARY + 2;
  settings.progress = count_stages;
  settings.user = &calls;
  ch_tokenizer_report report = {0};
  must(ch_tokenizer_train(f.text, f.out, &settings, &report, &error));
  assert_int_equal(report.vocab_size, CH_TOKENIZER_LEAST_VOCABULARY + 2);
  assert_int_equal(report.text_bytes, 19);
  assert_int_equal(report.distinct_words, 2);
  assert_true(calls > 0);
  ch_tokenizer *tokenizer = opened(f.out);
  assert_int_equal(ch_tokenizer_vocab_size(tokenizer), report.vocab_size);
  assert_int_equal(ch_tokenizer_find(tokenizer, "<|endoftext|>", 13), 0);
  assert_int_equal(ch_tokenizer_find(tokenizer, "xy", 2), CH_TOKENIZER_LEAST_VOCABULARY);
  assert_int_equal(ch_tokenizer_find(tokenizer, "xyxy", 4), CH_TOKENIZER_LEAST_VOCABULARY + 1);
  ch_tokenizer_free(tokenizer);

  must(ch_tokenizer_train(f.text, f.out, NULL, NULL, &error)); /* merges until no pair occurs twice */
  tokenizer = opened(f.out);
  assert_int_equal(ch_tokenizer_vocab_size(tokenizer), CH_TOKENIZER_LEAST_VOCABULARY + 3);
  ch_tokenizer_free(tokenizer);
  remove_files(&f);
}

static void a_training_that_fails_leaves_no_file(void **state) {
  (void)state;
  files f;
  make_files(&f, "xyxy xyxy");
  ch_tokenizer_train_settings settings;
  ch_tokenizer_train_defaults(&settings);
  settings.progress = refuse;
  assert_int_equal(ch_tokenizer_train(f.text, f.out, &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  settings.progress = NULL;
  settings.vocab_size = CH_TOKENIZER_LEAST_VOCABULARY - 1;
  assert_int_equal(ch_tokenizer_train(f.text, f.out, &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_tokenizer_train("/nonexistent", f.out, NULL, NULL, &error), CH_ERROR_IO);
  assert_int_equal(ch_tokenizer_train(f.text, NULL, NULL, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_not_equal(access(f.out, F_OK), 0);
  remove_files(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_text_becomes_the_ids_of_the_reference),
      cmocka_unit_test(where_a_text_stands_decides_what_is_put_around_it),
      cmocka_unit_test(the_vocabulary_can_be_read),
      cmocka_unit_test(special_tokens_are_read_and_left_out_on_request),
      cmocka_unit_test(what_makes_no_sense_is_an_error),
      cmocka_unit_test(a_tokenizer_is_trained_on_a_text),
      cmocka_unit_test(a_training_that_fails_leaves_no_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
