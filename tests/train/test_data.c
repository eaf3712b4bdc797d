/* Tests prepared text: it is written, found again, rewritten, and refused. */
#define _GNU_SOURCE
#include "training.h"

#include <sys/stat.h>

#include "text/tokenizer.h"
#include "train/data.h"

static const char tokenizer[] = TEST_DATA "/TinyStories-656K";

/* Writes a text of `documents` little stories and returns its path. */
static char *write_text(const char *directory, const char *name, int documents, uint64_t seed) {
  static const char *const words[] = {"the", "cat", "dog", "ran",  "sat",  "on",
                                      "a",   "mat", "and", "then", "slept"};
  ch_text text = {0};
  ch_random random;
  ch_random_seed(&random, seed, 0);
  for (int d = 0; d < documents; d++) {
    for (int w = 0; w < 60; w++)
      ch_text_printf(&text, "%s ", words[ch_random_below(&random, sizeof words / sizeof *words)]);
    ch_text_printf(&text, "end %d.\n<|endoftext|>\n", d);
  }
  char *path = ch_path_join(directory, name);
  assert_ok(ch_write_file(path, text.data, text.size, &failure));
  ch_text_free(&text);
  return path;
}

typedef struct scene {
  char *directory, *text, *out;
  ch_data_options options;
} scene;

static int set_up(void **state) {
  scene *s = calloc(1, sizeof *s);
  s->directory = make_directory();
  s->text = write_text(s->directory, "text.txt", 60, 1);
  s->out = ch_path_join(s->directory, "out");
  s->options = (ch_data_options){
      .data = s->text, .tokenizer = tokenizer, .vocab_size = 2048, .directory = s->out, .sequence = 32};
  *state = s;
  return 0;
}

static int tear_down(void **state) {
  scene *s = *state;
  free(s->text);
  free(s->out);
  remove_directory(s->directory);
  free(s);
  return 0;
}

static struct stat stat_of(const scene *s, const char *name) {
  struct stat info;
  char *path = ch_path_join(s->out, name);
  assert_int_equal(stat(path, &info), 0);
  free(path);
  return info;
}

/* Opens the data, checks that this succeeds, and returns the fingerprint. */
static void open_and_close(const ch_data_options *options, char fingerprint[64]) {
  ch_data data;
  assert_ok(ch_data_open(options, &data, &failure));
  memcpy(fingerprint, data.source.fingerprint, 64);
  ch_data_close(&data);
}

static void refused(const ch_data_options *options, ch_status status, const char *part) {
  ch_data data;
  ch_error error = {0};
  assert_int_equal(ch_data_open(options, &data, &error), status);
  if (!strstr(error.message, part)) fail_msg("\"%s\" lacks \"%s\"", error.message, part);
  ch_data_close(&data);
}

static void a_text_becomes_batches_whose_targets_follow_their_tokens(void **state) {
  scene *s = *state;
  ch_data data;
  assert_ok(ch_data_open(&s->options, &data, &failure));
  assert_true(data.train_tokens > 60 * 50 && data.validation_tokens > 0 && data.text_bytes > 0);
  assert_true(data.vocab_size == 2048 && data.eos >= 0);
  assert_int_equal(data.train_sequences, (data.train_tokens - 1) / 32);
  int32_t tokens[3 * 32], targets[3 * 32], again[32], again_targets[32];
  ch_batch three = {3, 32, tokens, targets, NULL, NULL}, one = {1, 32, again, again_targets, NULL, NULL};
  assert_ok(data.source.train(data.source.context, 1000, &three, &failure));
  for (int i = 0; i + 1 < 32; i++) assert_int_equal(targets[i], tokens[i + 1]);
  assert_ok(data.source.train(data.source.context, 1002, &one, &failure));
  assert_memory_equal(again, tokens + 64, sizeof again);
  assert_ok(data.source.validate(data.source.context, data.source.validation_sequences, &one, &failure));
  for (int i = 0; i < 32; i++) assert_int_equal(again_targets[i], -1);
  ch_data_close(&data);
}

static void the_same_text_is_prepared_once(void **state) {
  scene *s = *state;
  char first[64], second[64];
  open_and_close(&s->options, first);
  struct stat before = stat_of(s, CH_DATA_TOKENS);
  s->options.seed = 9; /* orders the batches, not the file */
  open_and_close(&s->options, second);
  assert_int_equal(before.st_ino, stat_of(s, CH_DATA_TOKENS).st_ino);
  assert_string_equal(first, second);
}

static void another_text_or_setting_is_prepared_anew(void **state) {
  scene *s = *state;
  char first[64], second[64], third[64];
  open_and_close(&s->options, first);
  free(write_text(s->directory, "text.txt", 60, 2));
  open_and_close(&s->options, second);
  assert_string_not_equal(first, second);
  s->options.documents = true;
  open_and_close(&s->options, third);
  assert_string_not_equal(second, third);
  /* A damaged token file no longer fits its record. */
  char *path = ch_path_join(s->out, CH_DATA_TOKENS);
  assert_ok(ch_write_file(path, "CHTOKENS", 8, &failure));
  free(path);
  open_and_close(&s->options, first);
  assert_string_equal(first, third);
}

static void a_resumed_run_takes_what_is_there_and_nothing_else(void **state) {
  scene *s = *state;
  char first[64], second[64];
  open_and_close(&s->options, first);
  ch_data_options resumed = s->options;
  resumed.fixed = true;
  open_and_close(&resumed, second);
  assert_string_equal(first, second);
  resumed.tokenizer = NULL;
  open_and_close(&resumed, second);
  assert_string_equal(first, second);
  resumed.data = NULL;
  open_and_close(&resumed, second);
  assert_string_equal(first, second);
  resumed.data = s->text;
  free(write_text(s->directory, "text.txt", 60, 2));
  refused(&resumed, CH_ERROR_ARGUMENT, "another text");
  char *empty = ch_path_join(s->directory, "empty");
  assert_ok(ch_make_directory(empty, &failure));
  resumed.data = NULL;
  resumed.directory = empty;
  refused(&resumed, CH_ERROR_ARGUMENT, "data");
  free(empty);
}

static void the_tokenizer_goes_along(void **state) {
  scene *s = *state;
  ch_data data;
  assert_ok(ch_data_open(&s->options, &data, &failure));
  char *model = ch_path_join(s->directory, "model");
  assert_ok(ch_make_directory(model, &failure));
  assert_ok(ch_data_give_tokenizer(&data, model, &failure));
  const char *const places[2] = {model, s->out};
  for (int i = 0; i < 2; i++) {
    ch_tokenizer *copied;
    assert_ok(ch_tokenizer_open(places[i], &copied, &failure));
    assert_int_equal(ch_tokenizer_vocab_size(copied), 2048);
    ch_tokenizer_free(copied);
  }
  ch_data_close(&data);
  free(model);
}

static void a_token_file_is_used_where_it_lies(void **state) {
  scene *s = *state;
  char first[64], second[64];
  open_and_close(&s->options, first);
  char *tokens = ch_path_join(s->out, CH_DATA_TOKENS), *other = ch_path_join(s->directory, "other");
  ch_data_options options = {.data = tokens, .directory = other, .sequence = 16};
  open_and_close(&options, second); /* the tokenizer is next to the token file */
  assert_string_equal(first, second);
  char *copy = ch_path_join(other, CH_DATA_TOKENS);
  assert_false(ch_is_file(copy));
  options.fixed = true;
  options.data = NULL;
  open_and_close(&options, second);
  assert_string_equal(first, second);
  /* A token file without its tokenizer next to it is refused if no tokenizer is named. */
  char *bytes, *alone = ch_path_join(s->directory, "alone.tokens");
  size_t size;
  assert_ok(ch_read_file(tokens, 1 << 24, &bytes, &size, &failure));
  assert_ok(ch_write_file(alone, bytes, size, &failure));
  options = (ch_data_options){.data = alone, .directory = other, .sequence = 16};
  refused(&options, CH_ERROR_ARGUMENT, "tokenizer");
  free(bytes);
  free(alone);
  free(copy);
  free(tokens);
  free(other);
}

static void documents_stay_apart_when_asked(void **state) {
  scene *s = *state;
  s->options.documents = true;
  s->options.sequence = 128;
  ch_data data;
  assert_ok(ch_data_open(&s->options, &data, &failure));
  int32_t tokens[128], targets[128], start[128];
  ch_batch batch = {1, 128, tokens, targets, start, NULL};
  int later = 0;
  for (int64_t i = 0; i < 10; i++) {
    assert_ok(data.source.train(data.source.context, i, &batch, &failure));
    for (int t = 0; t < 128; t++) {
      if (tokens[t] == data.eos) assert_int_equal(targets[t], -1);
      assert_true(start[t] <= t);
      later += start[t] > 0;
    }
  }
  assert_true(later > 0);
  ch_data_close(&data);
  /* A packed token file cannot be cut into sequences of another length. */
  char *tokens_path = ch_path_join(s->out, CH_DATA_TOKENS), *other = ch_path_join(s->directory, "other");
  ch_data_options options = {.data = tokens_path, .directory = other, .sequence = 64};
  refused(&options, CH_ERROR_ARGUMENT, "sequence 128");
  free(tokens_path);
  free(other);
}

static void a_tokenizer_is_trained_when_none_is_given(void **state) {
  scene *s = *state;
  s->options.tokenizer = NULL;
  s->options.vocab_size = 300;
  char first[64], second[64];
  open_and_close(&s->options, first);
  struct stat before = stat_of(s, "tokenizer.json");
  open_and_close(&s->options, second);
  assert_string_equal(first, second);
  assert_int_equal(before.st_ino, stat_of(s, "tokenizer.json").st_ino);
  ch_data data;
  assert_ok(ch_data_open(&s->options, &data, &failure));
  assert_true(data.vocab_size > 257 && data.vocab_size <= 300);
  ch_data_close(&data);
  s->options.vocab_size = 280;
  open_and_close(&s->options, second);
  assert_string_not_equal(first, second);
}

/* Writes documents that each repeat a word of their own twenty times. */
static void write_words(const char *path, int documents, const char *separator) {
  ch_text text = {0};
  for (int d = 0; d < documents; d++) {
    for (int i = 0; i < 20; i++) ch_text_printf(&text, "z%c%cq ", 'a' + d / 26, 'a' + d % 26);
    ch_text_printf(&text, "\n%s", separator);
  }
  assert_ok(ch_write_file(path, text.data, text.size, &failure));
  ch_text_free(&text);
}

/* Returns how many words of write_words are one token in the tokenizer of `directory`. */
static int words_known(const char *directory, int documents) {
  ch_tokenizer *trained = NULL;
  int known = 0;
  assert_ok(ch_tokenizer_open(directory, &trained, &failure));
  for (int d = 0; d < documents; d++) {
    char word[8];
    ch_ids ids = {0};
    int size = snprintf(word, sizeof word, " z%c%cq", 'a' + d / 26, 'a' + d % 26);
    assert_ok(ch_tokenizer_encode(trained, word, (size_t)size, CH_TEXT_BARE, &ids, &failure));
    known += ids.size == 1;
    ch_ids_free(&ids);
  }
  ch_tokenizer_free(trained);
  return known;
}

/* If the tokenizer learned words that only the validation part has, models would have to predict tokens they
   have never seen. */
static void a_tokenizer_learns_from_the_training_part_alone(void **state) {
  enum { WORDS = 100 };
  scene *s = *state;
  char fingerprint[64];
  s->options.tokenizer = NULL;
  s->options.vocab_size = 2048;
  s->options.sequence = 16;
  s->options.validation = 0.2;
  write_words(s->text, WORDS, "<|endoftext|>\n"); /* whole documents validate */
  open_and_close(&s->options, fingerprint);
  assert_int_equal(words_known(s->out, WORDS), WORDS - WORDS / 5);
  write_words(s->text, WORDS, ""); /* the tail validates, after the line in which the last fifth begins */
  open_and_close(&s->options, fingerprint);
  assert_int_equal(words_known(s->out, WORDS), WORDS - WORDS / 5 + 1);
}

static void what_cannot_be_trained_on_is_refused(void **state) {
  scene *s = *state;
  ch_data_options options = s->options;
  options.vocab_size = 1000;
  refused(&options, CH_ERROR_CONFIG, "vocab_size");
  options = s->options;
  options.tokenizer = NULL;
  options.vocab_size = 97;
  refused(&options, CH_ERROR_CONFIG, "257");
  options = s->options;
  options.sequence = 100000;
  refused(&options, CH_ERROR_ARGUMENT, "too few");
  char *path = ch_path_join(s->directory, "strange");
  options = s->options;
  options.data = path;
  refused(&options, CH_ERROR_IO, "strange");
  assert_ok(ch_write_file(path, "", 0, &failure));
  refused(&options, CH_ERROR_FORMAT, "strange");
  char binary[4096];
  for (size_t i = 0; i < sizeof binary; i++) binary[i] = (char)(i * 37 + i / 7);
  assert_ok(ch_write_file(path, binary, sizeof binary, &failure));
  refused(&options, CH_ERROR_FORMAT, "strange");
  assert_ok(ch_write_file(path, "a", 1, &failure));
  refused(&options, CH_ERROR_ARGUMENT, "too");
  options = s->options;
  options.directory = path; /* a file in the way */
  refused(&options, CH_ERROR_IO, "strange");
  free(path);
}

static bool refuse_to_go_on(void *context, const char *stage, double done, double total) {
  (void)context;
  (void)done;
  (void)total;
  return strcmp(stage, "tokenizing") != 0;
}

static void preparing_can_be_interrupted(void **state) {
  scene *s = *state;
  ch_data_options options = s->options;
  options.report = refuse_to_go_on;
  refused(&options, CH_ERROR_INTERRUPTED, "interrupted");
  char *record = ch_path_join(s->out, CH_DATA_RECORD), first[64];
  assert_false(ch_is_file(record));
  /* A killed program would have left this file. */
  char *leftover = ch_path_join(s->out, CH_DATA_TOKENS ".tmp.123");
  assert_ok(ch_write_file(leftover, "x", 1, &failure));
  open_and_close(&s->options, first);
  assert_false(ch_is_file(leftover));
  free(leftover);
  free(record);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_text_becomes_batches_whose_targets_follow_their_tokens, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(the_same_text_is_prepared_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(another_text_or_setting_is_prepared_anew, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_resumed_run_takes_what_is_there_and_nothing_else, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_tokenizer_goes_along, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_token_file_is_used_where_it_lies, set_up, tear_down),
      cmocka_unit_test_setup_teardown(documents_stay_apart_when_asked, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_tokenizer_is_trained_when_none_is_given, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_tokenizer_learns_from_the_training_part_alone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_cannot_be_trained_on_is_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(preparing_can_be_interrupted, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
