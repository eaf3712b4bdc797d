/* Tests real tokenizers against the reference encodings in the shared data, if they exist. */
#include "text_test.h"

#include <jansson.h>

#define TOKENIZERS SHARED_DATA "/data/tokenizers/"
#define MODELS SHARED_DATA "/data/models/"
#define REFERENCE SHARED_DATA "/data/reference/"

/* Compares texts between the separators of INP with the lines of ids of OUT. */
static void check_pairs(const char *path, const char *inp, const char *out) {
  SKIP_UNLESS(path);
  ch_tokenizer *tokenizer = open_tokenizer(path);
  static const char separator[] = "\n__ggml_vocab_test__\n";
  char *texts, *lines;
  size_t texts_size, lines_size;
  int cases = 0;
  ch_error error;
  ch_ids ids = {0};
  ASSERT_OK(ch_read_file(inp, 1 << 20, &texts, &texts_size, &error));
  ASSERT_OK(ch_read_file(out, 1 << 20, &lines, &lines_size, &error));
  char *line = lines;
  for (char *text = texts; text;) {
    char *end = strstr(text, separator);
    size_t size = end ? (size_t)(end - text) : strlen(text);
    if (!end && !*line) break;
    encode(tokenizer, text, size, CH_TEXT_BARE, &ids);
    for (size_t i = 0; i < ids.size; i++) {
      char *stop;
      long expected = strtol(line, &stop, 10);
      if (stop == line || ids.data[i] != expected)
        fail_msg("%s: \"%.*s\": id %zu is %d, not %ld", path, (int)size, text, i, ids.data[i], expected);
      line = stop;
    }
    while (*line == ' ') line++;
    if (*line && *line != '\n')
      fail_msg("%s: \"%.*s\" has more ids than %zu", path, (int)size, text, ids.size);
    if (*line) line++;
    text = end ? end + strlen(separator) : NULL;
    cases++;
  }
  assert_true(cases >= 40);
  free(texts);
  free(lines);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
}

static void gpt2_ids_are_those_of_the_reference(void **state) {
  (void)state;
  check_pairs(TOKENIZERS "hf/gpt2", TOKENIZERS "hf/gpt2/reference.inp", TOKENIZERS "hf/gpt2/reference.out");
  check_pairs(TOKENIZERS "hf/gpt2", TOKENIZERS "ggml-vocab-gpt-2.gguf.inp",
              TOKENIZERS "ggml-vocab-gpt-2.gguf.out");
}

static void llama3_ids_are_those_of_the_reference(void **state) {
  (void)state;
  check_pairs(TOKENIZERS "hf/llama3", TOKENIZERS "hf/llama3/reference.inp",
              TOKENIZERS "hf/llama3/reference.out");
}

static void qwen3_ids_are_those_of_the_reference(void **state) {
  (void)state;
  check_pairs(TOKENIZERS "hf/qwen3", TOKENIZERS "hf/qwen3/reference.inp",
              TOKENIZERS "hf/qwen3/reference.out");
}

static void llama2_ids_are_those_of_sentencepiece(void **state) {
  (void)state;
  check_pairs(TOKENIZERS "llama2/tokenizer.bin", TOKENIZERS "ggml-vocab-llama-spm.gguf.inp",
              TOKENIZERS "ggml-vocab-llama-spm.gguf.out");
}

static void check_cases(const char *path, const char *reference) {
  SKIP_UNLESS(path);
  json_error_t problem;
  json_t *json = json_load_file(reference, 0, &problem), *entry;
  ch_tokenizer *tokenizer = open_tokenizer(path);
  ch_ids ids = {0};
  size_t i;
  assert_non_null(json);
  assert_true(json_array_size(json_object_get(json, "cases")) > 50);
  json_array_foreach(json_object_get(json, "cases"), i, entry) {
    const json_t *text = json_object_get(entry, "text"), *expected = json_object_get(entry, "ids");
    encode(tokenizer, json_string_value(text), json_string_length(text), CH_TEXT_BARE | CH_TEXT_SPECIAL,
           &ids);
    bool same = ids.size == json_array_size(expected);
    for (size_t j = 0; same && j < ids.size; j++)
      same = ids.data[j] == json_integer_value(json_array_get(expected, j));
    if (!same) fail_msg("%s: \"%s\" differs", path, json_string_value(text));
  }
  json_decref(json);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
}

static void ids_are_those_of_hugging_face(void **state) {
  (void)state;
  check_cases(MODELS "TinyStories-656K", REFERENCE "tok_TinyStories-656K.json");
  check_cases(TOKENIZERS "hf/gpt2", REFERENCE "tok_gpt2.json");
  check_cases(TOKENIZERS "hf/llama3", REFERENCE "tok_llama3.json");
  check_cases(TOKENIZERS "hf/qwen3", REFERENCE "tok_qwen3.json");
}

static void ends_are_those_of_the_models(void **state) {
  (void)state;
  SKIP_UNLESS(MODELS "TinyStories-656K");
  const struct {
    const char *path, *bos, *eos;
    bool adds;
  } models[] = {{MODELS "TinyStories-656K", "<|start_story|>", "<|end_story|>", true},
                {MODELS "stories-qwen3-12L", "<|endoftext|>", "<|endoftext|>", false},
                {MODELS "stories260K/tok512.bin", "<s>", "</s>", true},
                {TOKENIZERS "hf/qwen3", "", "<|im_end|>", false},
                {TOKENIZERS "hf/gpt2", "<|endoftext|>", "<|endoftext|>", false}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    ch_tokenizer *tokenizer = open_tokenizer(models[i].path);
    assert_int_equal(ch_tokenizer_bos(tokenizer),
                     ch_tokenizer_find(tokenizer, models[i].bos, strlen(models[i].bos)));
    assert_int_equal(ch_tokenizer_eos(tokenizer),
                     ch_tokenizer_find(tokenizer, models[i].eos, strlen(models[i].eos)));
    assert_true(ch_tokenizer_eos(tokenizer) >= 0);
    assert_int_equal(ch_tokenizer_adds_bos(tokenizer), models[i].adds);
    ch_tokenizer_free(tokenizer);
  }
}

/* Checks that the first sentence of llama2.c's sample text is encoded and decoded to itself. */
static void stories260K_text_round_trips(void **state) {
  (void)state;
  SKIP_UNLESS(MODELS "stories260K/tok512.bin");
  ch_tokenizer *tokenizer = open_tokenizer(MODELS "stories260K/tok512.bin");
  const char *text = "Once upon a time, there was a little girl named Lily.";
  ch_ids ids = {0};
  ch_text back = {0};
  ch_error error;
  encode(tokenizer, text, strlen(text), CH_TEXT_WHOLE, &ids);
  assert_int_equal(ids.data[0], 1);
  assert_true(ids.size < strlen(text) / 2);
  ASSERT_OK(ch_tokenizer_put_text(tokenizer, ids.data, ids.size, true, &back, &error));
  assert_string_equal(back.data, text);
  ch_ids_free(&ids);
  ch_text_free(&back);
  ch_tokenizer_free(tokenizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpt2_ids_are_those_of_the_reference),
      cmocka_unit_test(llama3_ids_are_those_of_the_reference),
      cmocka_unit_test(qwen3_ids_are_those_of_the_reference),
      cmocka_unit_test(llama2_ids_are_those_of_sentencepiece),
      cmocka_unit_test(ids_are_those_of_hugging_face),
      cmocka_unit_test(ends_are_those_of_the_models),
      cmocka_unit_test(stories260K_text_round_trips),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
