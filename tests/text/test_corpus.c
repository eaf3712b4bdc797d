/* Tests token files: every document is on one side, batches have random access, windows are packed, damaged
 * files are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "text/corpus.h"

enum { DOCUMENTS = 400, LENGTH = 32 };

/* Creates a byte-level tokenizer without merges: ids are bytes, and there is one end token. */
static ch_tokenizer *byte_tokenizer(void) {
  ch_text json = {0};
  ch_text_puts(
      &json,
      "{\"added_tokens\":[{\"id\":256,\"content\":\"<|endoftext|>\",\"special\":true}],"
      "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
      "\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{");
  int extra = 0;
  for (int b = 0; b < 256; b++) {
    bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    int point = printable ? b : 256 + extra++;
    ch_text_puts(&json, b ? ",\"" : "\"");
    if (point == '"' || point == '\\') ch_text_puts(&json, "\\");
    if (point < 128)
      ch_text_printf(&json, "%c", point);
    else
      ch_text_printf(&json, "\\u%04x", point);
    ch_text_printf(&json, "\":%d", b);
  }
  ch_text_puts(&json, ",\"<|endoftext|>\":256},\"merges\":[]}}");
  ch_tokenizer *tokenizer = NULL;
  ch_error error;
  if (ch_tokenizer_from_json(json.data, json.size, "test", &tokenizer, &error) != CH_OK)
    fail_msg("%s", error.message);
  ch_text_free(&json);
  return tokenizer;
}

static char directory[] = "/tmp/crosshead-corpus-XXXXXX";
static char *text_path, *out_path;
static ch_tokenizer *tokenizer;
static ch_error error;

/* Writes document k as "k:" followed by k % 13 + 1 words " wk". Returns the number of bytes. */
static size_t write_document(char *buffer, int k) {
  size_t size = (size_t)sprintf(buffer, "%d:", k);
  for (int i = 0; i < k % 13 + 1; i++) size += (size_t)sprintf(buffer + size, " w%d", k);
  return size;
}

static int setup(void **state) {
  (void)state;
  assert_non_null(mkdtemp(directory));
  text_path = ch_path_join(directory, "text");
  out_path = ch_path_join(directory, "tokens");
  ch_text text = {0};
  char document[256];
  for (int k = 0; k < DOCUMENTS; k++) {
    ch_text_put(&text, document, write_document(document, k));
    ch_text_puts(&text, "\n<|endoftext|>\n");
  }
  assert_int_equal(ch_write_file(text_path, text.data, text.size, &error), CH_OK);
  ch_text_free(&text);
  tokenizer = byte_tokenizer();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  unlink(text_path);
  unlink(out_path);
  rmdir(directory);
  free(text_path);
  free(out_path);
  ch_tokenizer_free(tokenizer);
  return 0;
}

static ch_corpus *prepare(const ch_corpus_options *options) {
  const char *paths[] = {text_path};
  ch_corpus *corpus = NULL;
  if (ch_corpus_prepare(paths, 1, tokenizer, options, out_path, NULL, NULL, &error) != CH_OK)
    fail_msg("%s", error.message);
  if (ch_corpus_open(out_path, &corpus, &error) != CH_OK) fail_msg("%s", error.message);
  return corpus;
}

static void documents_go_whole_to_one_side(void **state) {
  (void)state;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  options.validation = 0.1;
  ch_corpus *corpus = prepare(&options);
  ch_corpus_info info;
  ch_corpus_describe(corpus, &info);
  assert_int_equal(info.documents, DOCUMENTS);
  assert_int_equal(info.end_token, 256);
  int64_t expected = 0;
  char document[256];
  for (int k = 0; k < DOCUMENTS; k++) expected += (int64_t)write_document(document, k) + 1;
  assert_int_equal(info.train_tokens + info.validation_tokens, expected);
  /* The validation text is a tenth of the documents, all whole. */
  int32_t *tokens = malloc((size_t)info.validation_tokens * sizeof *tokens),
          *targets = malloc((size_t)info.validation_tokens * sizeof *targets);
  assert_int_equal(ch_corpus_windows(corpus, CH_SPLIT_VALIDATION, info.validation_tokens), 1);
  assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_VALIDATION, 0, 0, 1, info.validation_tokens, tokens,
                                   targets, NULL, &error),
                   CH_OK);
  int count = 0;
  for (int64_t i = 0; i < info.validation_tokens; count++) {
    int k = 0;
    int64_t start = i;
    while (tokens[i] != ':') k = 10 * k + tokens[i++] - '0';
    size_t size = write_document(document, k);
    for (size_t j = 0; j < size; j++) assert_int_equal(tokens[start + (int64_t)j], document[j]);
    i = start + (int64_t)size;
    assert_int_equal(tokens[i++], 256);
  }
  assert_int_equal(count, DOCUMENTS / 10);
  assert_int_equal(targets[0], tokens[1]);
  assert_int_equal(targets[info.validation_tokens - 1], -1);
  free(tokens);
  free(targets);
  ch_corpus_close(corpus);
}

static void an_epoch_reads_every_window_once_and_any_batch_is_found_at_once(void **state) {
  (void)state;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  ch_corpus *corpus = prepare(&options);
  int64_t windows = ch_corpus_windows(corpus, CH_SPLIT_TRAIN, LENGTH) - 1;
  int32_t *tokens = malloc((size_t)(2 * windows * LENGTH) * sizeof *tokens),
          *targets = malloc((size_t)(2 * windows * LENGTH) * sizeof *targets);
  assert_int_equal(
      ch_corpus_batch(corpus, CH_SPLIT_TRAIN, 5, 0, 2 * windows, LENGTH, tokens, targets, NULL, &error),
      CH_OK);
  /* Windows of an epoch do not overlap, so no two of them are equal. */
  for (int epoch = 0; epoch < 2; epoch++) {
    const int32_t *t = tokens + epoch * windows * LENGTH;
    for (int64_t a = 0; a < windows; a++)
      for (int64_t b = 0; b < a; b++)
        assert_memory_not_equal(t + a * LENGTH, t + b * LENGTH, LENGTH * sizeof *t);
  }
  assert_memory_not_equal(tokens, tokens + windows * LENGTH, LENGTH * sizeof *tokens);
  for (int64_t i = 0; i < 2 * windows * LENGTH; i++)
    if (i % LENGTH != LENGTH - 1) assert_int_equal(targets[i], tokens[i + 1]);
  int32_t one[LENGTH], next[LENGTH];
  for (int64_t w = 0; w < 2 * windows; w += 7) {
    assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_TRAIN, 5, w, 1, LENGTH, one, next, NULL, &error),
                     CH_OK);
    assert_memory_equal(one, tokens + w * LENGTH, sizeof one);
  }
  assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_TRAIN, 6, 0, 1, LENGTH, one, next, NULL, &error), CH_OK);
  assert_memory_not_equal(one, tokens, sizeof one);
  free(tokens);
  free(targets);
  ch_corpus_close(corpus);
}

static void packed_windows_keep_documents_apart(void **state) {
  (void)state;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  options.pack_length = LENGTH;
  ch_corpus *corpus = prepare(&options);
  int64_t windows = ch_corpus_windows(corpus, CH_SPLIT_TRAIN, LENGTH);
  assert_true(windows > 10);
  assert_int_equal(ch_corpus_windows(corpus, CH_SPLIT_TRAIN, LENGTH + 1), 0);
  int32_t tokens[LENGTH], targets[LENGTH], start[LENGTH];
  for (int64_t w = 0; w < windows; w++) {
    assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_TRAIN, 1, w, 1, LENGTH, tokens, targets, start, &error),
                     CH_OK);
    int32_t first = 0;
    for (int t = 0; t < LENGTH; t++) {
      assert_int_equal(start[t], first);
      bool last = t + 1 == LENGTH || tokens[t] == 256;
      assert_int_equal(targets[t], last ? -1 : tokens[t + 1]);
      if (tokens[t] == 256) first = t + 1;
    }
  }
  ch_corpus_close(corpus);
}

/* Overwrites a file without the fsync of ch_write_file, because there are hundreds. */
static void overwrite(const char *data, size_t size) {
  FILE *file = fopen(out_path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
}

static void damaged_files_are_refused(void **state) {
  (void)state;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  ch_corpus_close(prepare(&options));
  char *good;
  size_t size = 0;
  assert_int_equal(ch_read_file(out_path, 1 << 24, &good, &size, &error), CH_OK);
  ch_corpus *corpus;
  for (size_t cut = 0; cut < size; cut += cut < 140 ? 1 : 997) {
    overwrite(good, cut);
    assert_int_equal(ch_corpus_open(out_path, &corpus, &error), CH_ERROR_FORMAT);
  }
  for (size_t byte = 0; byte < 80; byte++) { /* no damaged header may crash the reader */
    good[byte] ^= (char)0xff;
    overwrite(good, size);
    if (ch_corpus_open(out_path, &corpus, &error) == CH_OK)
      ch_corpus_close(corpus);
    else
      assert_int_equal(error.status, CH_ERROR_FORMAT);
    good[byte] ^= (char)0xff;
  }
  free(good);
}

static void an_id_past_the_vocabulary_is_found_when_it_is_read(void **state) {
  (void)state;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  ch_corpus_close(prepare(&options));
  char *good;
  size_t size = 0, header = 128;
  assert_int_equal(ch_read_file(out_path, 1 << 24, &good, &size, &error), CH_OK);
  int32_t tokens[LENGTH], targets[LENGTH];
  ch_corpus *corpus;
  memset(good + header + 600, 0xff, 2);
  overwrite(good, size);
  assert_int_equal(ch_corpus_open(out_path, &corpus, &error), CH_OK);
  int64_t windows = ch_corpus_windows(corpus, CH_SPLIT_TRAIN, LENGTH), refused = 0;
  for (int64_t i = 0; i < windows; i++) {
    ch_status status =
        ch_corpus_batch(corpus, CH_SPLIT_TRAIN, 1, i, 1, LENGTH, tokens, targets, NULL, &error);
    refused += status == CH_ERROR_FORMAT;
    for (int t = 0; status == CH_OK && t < LENGTH; t++) assert_in_range(tokens[t], 0, 256);
  }
  assert_in_range(refused, 1, 2);
  assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_TRAIN, 1, 0, 1, 0, tokens, targets, NULL, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_TRAIN, 1, -1, 1, LENGTH, tokens, targets, NULL, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_VALIDATION, 1, INT64_MAX - 1, 1, LENGTH, tokens, targets,
                                   NULL, &error),
                   CH_OK);
  for (int t = 0; t < LENGTH; t++) assert_int_equal(targets[t], -1);
  ch_corpus_close(corpus);
  free(good);
}

static void impossible_texts_and_options_are_explained(void **state) {
  (void)state;
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  const char *paths[] = {out_path};
  assert_int_equal(ch_write_file(out_path, "", 0, &error), CH_OK);
  assert_int_equal(ch_corpus_prepare(paths, 1, tokenizer, &options, out_path, NULL, NULL, &error),
                   CH_ERROR_FORMAT);
  assert_int_equal(ch_write_file(out_path, "a\0b", 3, &error), CH_OK);
  assert_int_equal(ch_corpus_prepare(paths, 1, tokenizer, &options, out_path, NULL, NULL, &error),
                   CH_ERROR_FORMAT);
  paths[0] = text_path;
  options.validation = 2;
  assert_int_equal(ch_corpus_prepare(paths, 1, tokenizer, &options, out_path, NULL, NULL, &error),
                   CH_ERROR_ARGUMENT);
  ch_corpus_options_default(&options);
  char *missing = ch_path_join(directory, "none/tokens");
  assert_int_equal(ch_corpus_prepare(paths, 1, tokenizer, &options, missing, NULL, NULL, &error),
                   CH_ERROR_IO);
  free(missing);
  ch_corpus *corpus = prepare(&options);
  int32_t ids[2];
  assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_VALIDATION, 0, 0, 1, 1, ids, ids, NULL, &error), CH_OK);
  assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_TRAIN, 0, 0, 1, 1 << 20, ids, ids, NULL, &error),
                   CH_ERROR_ARGUMENT);
  ch_corpus_close(corpus);
}

/* The only document is longer than a part that is encoded at a time. Its tail is the validation text, and no
   id is lost. */
static void a_single_long_document_is_cut_at_its_tail(void **state) {
  (void)state;
  ch_text text = {0};
  for (int i = 0; i < 300000; i++) ch_text_printf(&text, "line %d\n", i);
  assert_int_equal(ch_write_file(text_path, text.data, text.size, &error), CH_OK);
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  ch_corpus *corpus = prepare(&options);
  ch_corpus_info info;
  ch_corpus_describe(corpus, &info);
  assert_int_equal(info.train_tokens + info.validation_tokens, (int64_t)text.size + 2);
  assert_in_range(info.validation_tokens, text.size / 21, text.size / 19);
  int32_t tokens[8], targets[8];
  assert_int_equal(ch_corpus_batch(corpus, CH_SPLIT_VALIDATION, 0, 0, 1, 8, tokens, targets, NULL, &error),
                   CH_OK);
  for (int i = 0; i < 5; i++) assert_int_equal(tokens[i], "line "[i]);
  ch_corpus_close(corpus);
  ch_text_free(&text);
}

/* The text is "abab...": two letters, with few ends of lines and documents. */
static void the_entropy_is_that_of_single_tokens(void **state) {
  (void)state;
  enum { LINES = 4000, PAIRS = 50 };
  ch_text text = {0};
  for (int i = 0; i < LINES; i++) {
    for (int k = 0; k < PAIRS; k++) ch_text_puts(&text, "ab");
    ch_text_puts(&text, "\n");
  }
  assert_int_equal(ch_write_file(text_path, text.data, text.size, &error), CH_OK);
  ch_corpus_options options;
  ch_corpus_options_default(&options);
  ch_corpus *corpus = prepare(&options);
  double letter = PAIRS / (2.0 * PAIRS + 1), line = 1 / (2.0 * PAIRS + 1);
  assert_float_equal(ch_corpus_token_entropy(corpus), -2 * letter * log(letter) - line * log(line), 1e-4);
  ch_corpus_close(corpus);
  ch_text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(documents_go_whole_to_one_side),
      cmocka_unit_test(an_epoch_reads_every_window_once_and_any_batch_is_found_at_once),
      cmocka_unit_test(packed_windows_keep_documents_apart),
      cmocka_unit_test(damaged_files_are_refused),
      cmocka_unit_test(an_id_past_the_vocabulary_is_found_when_it_is_read),
      cmocka_unit_test(impossible_texts_and_options_are_explained),
      cmocka_unit_test(a_single_long_document_is_cut_at_its_tail),
      cmocka_unit_test(the_entropy_is_that_of_single_tokens),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
