/* Tests llama2.c checkpoints against the logits of llama2.c's own model and its greedy text, and damaged
 * files. */
#include "formats_testing.h"

#include "base/file.h"
#include "text/tokenizer.h"

#define DATA TEST_DATA "/formats"
#define STORIES SHARED_DATA "/data/models/stories260K"

static void check_logits(const char *name, const char *logits) {
  char directory[64], model[96], path[256];
  scratch_begin(directory);
  snprintf(path, sizeof path, DATA "/%s.bin", name);
  import_model(path, NULL, directory, model);
  double difference = logit_difference(model, DATA "/llama2c.safetensors", "tokens", logits);
  if (!(difference < 1e-5)) fail_msg("%s: logits differ by %g", name, difference);
  scratch_end(directory);
}

static void every_version_computes_what_llama2c_computes(void **state) {
  (void)state;
  check_logits("tied_v0", "tied");
  check_logits("untied_v0", "untied");
  check_logits("untied_v1", "untied");
  check_logits("tied_v2", "tied_v2");
  check_logits("untied_v2", "untied_v2");
}

static void trained_checkpoints_agree_with_the_reference(void **state) {
  (void)state;
  static const char *const files[] = {STORIES "/stories260K.bin", STORIES "/stories260K_v1.bin"};
  skip_without(files[0]);
  for (int i = 0; i < 2; i++) {
    char directory[64], model[96];
    scratch_begin(directory);
    import_model(files[i], NULL, directory, model);
    assert_true(logit_difference(model, SHARED_DATA "/data/reference/stories260K/ref.safetensors",
                                 "input_ids", "logits") < 2e-5);
    scratch_end(directory);
  }
}

/* Compares the ids that the .bin and the tokenizer.json converted from it give a text. */
static void compare_tokenizers(const char *bin, const char *directory, const char *text) {
  ch_tokenizer *a, *b;
  ch_ids x = {0}, y = {0};
  must(ch_tokenizer_open(bin, &a, &problem));
  must(ch_tokenizer_open(directory, &b, &problem));
  must(ch_tokenizer_encode(a, text, strlen(text), CH_TEXT_WHOLE, &x, &problem));
  must(ch_tokenizer_encode(b, text, strlen(text), CH_TEXT_WHOLE, &y, &problem));
  assert_int_equal(x.size, y.size);
  assert_memory_equal(x.data, y.data, x.size * sizeof *x.data);
  assert_int_equal(ch_tokenizer_bos(a), ch_tokenizer_bos(b));
  assert_int_equal(ch_tokenizer_eos(a), ch_tokenizer_eos(b));
  ch_ids_free(&x);
  ch_ids_free(&y);
  ch_tokenizer_free(a);
  ch_tokenizer_free(b);
}

static void its_tokenizer_becomes_a_tokenizer_json_with_the_same_ids(void **state) {
  (void)state;
  static const char tokenizer[] = STORIES "/tok512.bin";
  skip_without(tokenizer);
  char directory[64], model[96];
  scratch_begin(directory);
  import_model(STORIES "/stories260K.bin", tokenizer, directory, model);
  compare_tokenizers(tokenizer, model,
                     "Once upon a time, there was  a caf\xc3\xa9\n\nwith \xf0\x9f\x98\x80 and tabs\t.");
  compare_tokenizers(tokenizer, model, "");
  compare_tokenizers(tokenizer, model, " leading, trailing ");
  char *text;
  size_t size;
  must(ch_read_file(TEST_DATA "/../../README.md", 1 << 20, &text, &size, &problem));
  compare_tokenizers(tokenizer, model, text);
  free(text);
  scratch_end(directory);
}

/* --- damaged files ------------------------------------------------------------------------------------------ */

static void refuse(const char *path, const char *part) {
  ch_source source;
  assert_int_not_equal(ch_llama2c_open(path, &source, &problem), CH_OK);
  if (!strstr(problem.message, part)) fail_msg("\"%s\" does not say \"%s\"", problem.message, part);
}

/* Writes the file with `value` at byte `at`, cut or extended to `size` bytes, and expects a refusal. */
static void damage(const ch_map *good, size_t at, int32_t value, size_t size, const char *part) {
  char directory[64], path[96];
  unsigned char *copy = calloc(1, size + good->size);
  assert_non_null(copy);
  memcpy(copy, good->data, good->size);
  memcpy(copy + at, &value, sizeof value);
  scratch_begin(directory);
  snprintf(path, sizeof path, "%s/damaged.bin", directory);
  must(ch_write_file(path, copy, size, &problem));
  refuse(path, part);
  free(copy);
  scratch_end(directory);
}

static void damaged_checkpoints_are_refused(void **state) {
  (void)state;
  ch_map v0, v2;
  must(ch_map_open(DATA "/tied_v0.bin", &v0, &problem));
  must(ch_map_open(DATA "/tied_v2.bin", &v2, &problem));
  damage(&v0, 0, 32, v0.size - 1, "truncated");
  damage(&v0, 0, 32, v0.size + 1, "after the last tensor");
  damage(&v0, 0, 32, 40, "shorter than a header");
  damage(&v0, 0, 0, v0.size, "not above 0");
  damage(&v0, 0, -32, v0.size, "not above 0");
  damage(&v0, 4, INT32_MAX, v0.size, "intermediate_size");
  damage(&v0, 8, INT32_MAX, v0.size, "contradict");
  damage(&v0, 12, 5, v0.size, "contradict");
  damage(&v0, 20, INT32_MIN, v0.size, "not above 0");
  damage(&v0, 20, INT32_MAX, v0.size, "truncated");
  damage(&v0, 20, -48, v0.size, "truncated"); /* untied, but without a classifier */
  damage(&v0, 24, INT32_MAX, v0.size, "truncated");
  damage(&v2, 4, 3, v2.size, "version 3");
  damage(&v2, 37, 0, v2.size, "group size");
  damage(&v2, 37, -8, v2.size, "group size");
  damage(&v2, 37, 7, v2.size, "group size");
  ch_map_close(&v0);
  ch_map_close(&v2);
}

static void a_value_that_is_not_finite_stops_the_import_and_leaves_nothing(void **state) {
  (void)state;
  ch_map good;
  char directory[64], path[96], model[96];
  must(ch_map_open(DATA "/tied_v0.bin", &good, &problem));
  unsigned char *copy = malloc(good.size);
  assert_non_null(copy);
  memcpy(copy, good.data, good.size);
  static const float infinite = INFINITY;
  memcpy(copy + 28 + 4 * 100, &infinite, sizeof infinite);
  scratch_begin(directory);
  snprintf(path, sizeof path, "%s/damaged.bin", directory);
  snprintf(model, sizeof model, "%s/model", directory);
  must(ch_write_file(path, copy, good.size, &problem));
  ch_source source;
  must(ch_llama2c_open(path, &source, &problem));
  assert_int_equal(ch_source_write(&source, model, &(ch_source_writing){0}, &problem), CH_ERROR_NUMERIC);
  assert_false(ch_is_directory(model));
  ch_source_close(&source);
  free(copy);
  ch_map_close(&good);
  scratch_end(directory);
}

static bool at_once(void *context) {
  return ++*(int *)context > 3;
}

static void an_interrupted_import_leaves_nothing(void **state) {
  (void)state;
  char directory[64], model[96];
  int asked = 0;
  ch_source source;
  scratch_begin(directory);
  snprintf(model, sizeof model, "%s/model", directory);
  must(ch_llama2c_open(DATA "/tied_v0.bin", &source, &problem));
  ch_source_writing writing = {.stop = at_once, .context = &asked};
  assert_int_equal(ch_source_write(&source, model, &writing, &problem), CH_ERROR_INTERRUPTED);
  assert_false(ch_is_directory(model));
  ch_source_close(&source);
  scratch_end(directory);
}

static void a_directory_with_a_model_is_not_written_over(void **state) {
  (void)state;
  char directory[64], model[96];
  ch_source source;
  scratch_begin(directory);
  import_model(DATA "/tied_v0.bin", NULL, directory, model);
  must(ch_llama2c_open(DATA "/untied_v0.bin", &source, &problem));
  assert_int_equal(ch_source_write(&source, model, &(ch_source_writing){0}, &problem), CH_ERROR_ARGUMENT);
  assert_true(logit_difference(model, DATA "/llama2c.safetensors", "tokens", "tied") < 1e-5);
  ch_source_close(&source);
  scratch_end(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_version_computes_what_llama2c_computes),
      cmocka_unit_test(trained_checkpoints_agree_with_the_reference),
      cmocka_unit_test(its_tokenizer_becomes_a_tokenizer_json_with_the_same_ids),
      cmocka_unit_test(damaged_checkpoints_are_refused),
      cmocka_unit_test(a_value_that_is_not_finite_stops_the_import_and_leaves_nothing),
      cmocka_unit_test(an_interrupted_import_leaves_nothing),
      cmocka_unit_test(a_directory_with_a_model_is_not_written_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
