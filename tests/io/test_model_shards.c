/* Tests weights in several files, their index, and files that are damaged or missing. */
#define _GNU_SOURCE
#include "io/model_directory.h"

/* Writes the tensors in two shards, with an index in which `find` is replaced by `replace` (NULL: no change). */
static void put_shards(const model *m, const char *find, const char *replace) {
  ch_stored_tensor *stored = stored_tensors(m, 0);
  int n = m->params.count, half = n / 2;
  put_tensors("a.safetensors", stored, half);
  put_tensors("b.safetensors", stored + half, n - half);
  ch_text index = {0}, changed = {0};
  ch_text_puts(&index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
  for (int i = 0; i < n; i++)
    ch_text_printf(&index, "%s\"%s\": \"%s.safetensors\"", i ? ", " : "", stored[i].name,
                   i < half ? "a" : "b");
  ch_text_puts(&index, "}}");
  const char *at = find ? strstr(index.data, find) : index.data;
  assert_non_null(at);
  ch_text_put(&changed, index.data, (size_t)(at - index.data));
  if (find) ch_text_puts(&changed, replace);
  ch_text_puts(&changed, at + (find ? strlen(find) : 0));
  put_file("model.safetensors.index.json", changed.data, changed.size);
  ch_text_free(&index);
  ch_text_free(&changed);
  free(stored);
}

static void shards_are_read_through_their_index(void **state) {
  (void)state;
  model m;
  make_model(ours, &m);
  put_shards(&m, NULL, NULL);
  for (ch_weights_mode mode = CH_WEIGHTS_MAPPED; mode <= CH_WEIGHTS_F64; mode++)
    check_weights(&m, CH_F32, mode, 0);
  free_model(&m);
}

static void broken_indices_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *find, *replace;
    ch_status status;
    const char *words;
  } cases[] = {
      {"\"a.safetensors\"", "\"../a.safetensors\"", CH_ERROR_FORMAT,
       "\"../a.safetensors\"; it must be a file in the same"},
      {"\"a.safetensors\"", "\"/etc/passwd\"", CH_ERROR_FORMAT, "\"/etc/passwd\"; it must be a file"},
      {"\"a.safetensors\"", "\"sub/a.safetensors\"", CH_ERROR_FORMAT, "it must be a file in the same"},
      {"\"a.safetensors\"", "\"..\"", CH_ERROR_FORMAT, "it must be a file in the same"},
      {"\"a.safetensors\"", "\"\"", CH_ERROR_FORMAT, "it must be a file in the same"},
      {"\"a.safetensors\"", "7", CH_ERROR_FORMAT, "is listed in 7"},
      {"\"a.safetensors\"", "null", CH_ERROR_FORMAT, "is listed in null"},
      {"\"a.safetensors\"", "\"c.safetensors\"", CH_ERROR_IO, "c.safetensors"},
      {"\"a.safetensors\"", "\"b.safetensors\"", CH_ERROR_FORMAT,
       "should be in \"b.safetensors\" but is missing"},
      {"\"model.embed_tokens.weight\"", "\"model.embed_tokens.wait\"", CH_ERROR_FORMAT,
       "\"model.embed_tokens.wait\""},
      {"\"model.layers.0.input_layernorm.weight\"", "\"model.embed_tokens.weight\"", CH_ERROR_FORMAT,
       "duplicate"},
      {"weight_map", "weightmap", CH_ERROR_FORMAT, "has no \"weight_map\""},
      {"{", "[", CH_ERROR_FORMAT, "not valid JSON"},
      {"{\"total_size\": 1}", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
       CH_ERROR_FORMAT, "nested too deeply"},
  };
  model m;
  make_model(ours, &m);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put_shards(&m, cases[i].find, cases[i].replace);
    assert_refused(&m, CH_WEIGHTS_MAPPED, cases[i].status, cases[i].words);
  }
  put_file("model.safetensors.index.json", "{\"weight_map\": {}}", 18);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "names 0 shards");
  put_shards(&m, NULL, NULL); /* the tensors of a.safetensors are in both shards */
  ch_stored_tensor *stored = stored_tensors(&m, 0);
  put_tensors("b.safetensors", stored, m.params.count);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "is in two shards");
  put_file("b.safetensors", "garbage!", 8);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "b.safetensors");
  free(stored);
  free_model(&m);
}

static void a_directory_without_a_model_says_what_is_missing(void **state) {
  (void)state;
  model m;
  make_model(ours, &m);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_IO, "holds neither model.safetensors nor");
  put_file("model.safetensors", "", 0);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "model.safetensors has 0 bytes");
  char *path = ch_path_join(directory, "model.safetensors");
  ch_weights weights;
  ch_error error = {0};
  assert_int_equal(ch_weights_open(path, &m.config, &m.params, CH_WEIGHTS_F32, &weights, &error),
                   CH_ERROR_IO);
  assert_non_null(strstr(error.message, "is not a directory"));
  assert_int_equal(ch_model_write(path, &m.config, &m.params, m.tensors, CH_F32, &error), CH_ERROR_IO);
  free(path);
  free_model(&m);
}

/* Truncates a good file in many places: opening it must fail. Then changes single bytes of the file near its
   beginning: it must open, or fail with a message. */
static void damaged_files_do_no_harm(void **state) {
  (void)state;
  model m;
  make_model(tied, &m);
  ch_error error = {0};
  assert_int_equal(ch_model_write(directory, &m.config, &m.params, m.tensors, CH_BF16, &error), CH_OK);
  char *path = ch_path_join(directory, "model.safetensors"), *text;
  size_t size;
  assert_int_equal(ch_read_file(path, 1 << 20, &text, &size, &error), CH_OK);
  for (size_t n = 0; n < size; n += 1 + size / 60) {
    put_file("model.safetensors", text, n);
    assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "model.safetensors");
  }
  for (size_t place = 0; place < 1000; place += 17) {
    char kept = text[place];
    text[place] = (char)(kept ^ 0x15);
    put_file("model.safetensors", text, size);
    error.message[0] = 0;
    ch_status status = open_as(&m, CH_WEIGHTS_F32, &error);
    assert_true(status == CH_OK || error.message[0]);
    text[place] = kept;
  }
  free(text);
  free(path);
  free_model(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_A_DIRECTORY(shards_are_read_through_their_index),
      IN_A_DIRECTORY(broken_indices_are_refused),
      IN_A_DIRECTORY(a_directory_without_a_model_says_what_is_missing),
      IN_A_DIRECTORY(damaged_files_do_no_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
