/* Tests GGUF files of llama.cpp: nine tensor types against the model they come from, vocabularies against
 * reference ids. */
#include "formats_testing.h"

#include "base/file.h"
#include "formats/pieces.h"
#include "tensor/kernels.h"

#define STORIES SHARED_DATA "/data/models/TinyStories-656K"
#define REFERENCE SHARED_DATA "/data/reference"

/* --- models ------------------------------------------------------------------------------------------------- */

/* Rounding to 4 to 16 bits changes the logits by an amount that depends on the type. */
static void every_tensor_type_of_a_trained_model_gives_its_logits(void **state) {
  (void)state;
  static const struct {
    const char *type;
    double most;
  } files[] = {{"f32", 2e-6}, {"F16", 2e-3},  {"BF16", 2e-2}, {"Q8_0", 3e-2}, {"Q4_0", 0.4},
               {"Q4_1", 0.4}, {"Q5_0", 0.25}, {"Q5_1", 0.25}, {"IQ4_NL", 0.4}};
  skip_without(STORIES "/gguf/ts656k-f32.gguf");
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[256], directory[64], model[96];
    scratch_begin(directory);
    snprintf(path, sizeof path, STORIES "/gguf/ts656k-%s.gguf", files[i].type);
    import_model(path, NULL, directory, model);
    double difference =
        logit_difference(model, REFERENCE "/TinyStories-656K/ref.safetensors", "input_ids", "logits");
    if (!(difference < files[i].most)) fail_msg("%s: logits differ by %g", files[i].type, difference);
    scratch_end(directory);
  }
}

/* Returns the row in a GGUF file of row `row` of q_proj in Hugging Face's order, with 8 heads of 16. In the file, the
   two rows of a rotary pair are adjacent. */
static int64_t stored_row(int64_t row) {
  int64_t head = row / 16, i = row % 16;
  return head * 16 + 2 * (i % 8) + i / 8;
}

static void compare_tensor(const ch_model *model, const ch_safetensors *reference, const char *type,
                           bool query) {
  char name[64];
  snprintf(name, sizeof name, "%s/blk.%s.weight", type, query ? "0.attn_q" : "1.ffn_down");
  const ch_stored_tensor *expected = ch_safetensors_find(reference, name);
  int index = ch_params_find(&model->params, query ? "model.layers.0.self_attn.q_proj.weight"
                                                   : "model.layers.1.mlp.down_proj.weight");
  assert_non_null(expected);
  const ch_tensor *tensor = &model->weights.tensors[index];
  int64_t rows = tensor->shape[0], columns = tensor->shape[1];
  for (int64_t r = 0; r < rows; r++)
    assert_memory_equal((const float *)tensor->data + r * columns,
                        (const float *)expected->tensor.data + (query ? stored_row(r) : r) * columns,
                        (size_t)columns * sizeof(float));
}

static void dequantised_tensors_equal_the_reference_bit_for_bit(void **state) {
  (void)state;
  static const char *const types[] = {"f32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL"};
  ch_safetensors reference;
  skip_without(REFERENCE "/gguf_dequant.safetensors");
  must(ch_safetensors_open(REFERENCE "/gguf_dequant.safetensors", &reference, &problem));
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char path[256], directory[64], written[96];
    ch_model *model;
    scratch_begin(directory);
    snprintf(path, sizeof path, STORIES "/gguf/ts656k-%s.gguf", types[i]);
    import_model(path, NULL, directory, written);
    must(ch_model_load(written, CH_WEIGHTS_F32, &model, &problem));
    compare_tensor(model, &reference, types[i], true);
    compare_tensor(model, &reference, types[i], false);
    ch_model_unload(model);
    scratch_end(directory);
  }
  ch_safetensors_close(&reference);
}

/* --- vocabularies ------------------------------------------------------------------------------------------- */

static ch_tokenizer *tokenizer_of(const char *path) {
  ch_gguf file;
  ch_pieces pieces;
  ch_text json = {0}, config = {0};
  ch_tokenizer *tokenizer;
  must(ch_gguf_open(path, &file, &problem));
  must(ch_pieces_from_gguf(&file, &pieces, &problem));
  must(ch_pieces_put_json(&pieces, path, &json, &config, &problem));
  must(ch_tokenizer_from_json(json.data, json.size, path, &tokenizer, &problem));
  ch_pieces_free(&pieces);
  ch_gguf_close(&file);
  ch_text_free(&json);
  ch_text_free(&config);
  return tokenizer;
}

/* Compares ids with a line of ids. */
static void compare_ids(const ch_ids *ids, const char *line, int text) {
  size_t count = 0;
  for (char *end; *line && *line != '\n'; line = end, count++) {
    long expected = strtol(line, &end, 10);
    if (end == line) break;
    if (count >= ids->size || ids->data[count] != expected)
      fail_msg("text %d, id %zu: %ld was expected", text, count, expected);
  }
  assert_int_equal(count, ids->size);
}

/* Checks a vocabulary against files of llama.cpp: texts separated by a line, and a line of ids for each. */
static void check_vocabulary(const char *path) {
  static const char between[] = "\n__ggml_vocab_test__\n";
  char name[256], *texts, *lines;
  skip_without(path);
  ch_tokenizer *tokenizer = tokenizer_of(path);
  snprintf(name, sizeof name, "%s.inp", path);
  must(ch_read_file(name, 1 << 20, &texts, NULL, &problem));
  snprintf(name, sizeof name, "%s.out", path);
  must(ch_read_file(name, 1 << 20, &lines, NULL, &problem));
  const char *text = texts, *line = lines;
  int compared = 0;
  for (int i = 0; text; i++) {
    const char *end = strstr(text, between);
    ch_ids ids = {0};
    if (!end && !*line) break;
    must(ch_tokenizer_encode(tokenizer, text, end ? (size_t)(end - text) : strlen(text), CH_TEXT_BARE, &ids,
                             &problem));
    compare_ids(&ids, line, i);
    compared++;
    ch_ids_free(&ids);
    line = strchr(line, '\n') + 1;
    text = end ? end + strlen(between) : NULL;
  }
  assert_true(compared > 40);
  free(texts);
  free(lines);
  ch_tokenizer_free(tokenizer);
}

static void a_sentencepiece_vocabulary_gives_the_reference_ids(void **state) {
  (void)state;
  check_vocabulary(SHARED_DATA "/data/tokenizers/ggml-vocab-llama-spm.gguf");
}

static void a_byte_level_vocabulary_gives_the_reference_ids(void **state) {
  (void)state;
  check_vocabulary(SHARED_DATA "/data/tokenizers/ggml-vocab-gpt-2.gguf");
}

static void a_vocabulary_without_a_model_says_so(void **state) {
  (void)state;
  static const char path[] = SHARED_DATA "/data/tokenizers/ggml-vocab-llama-spm.gguf";
  ch_source source;
  skip_without(path);
  assert_int_equal(ch_source_open(path, NULL, &source, &problem), CH_ERROR_FORMAT);
  assert_non_null(strstr(problem.message, "a vocabulary without a model"));
}

/* Tests projections fused into one tensor, longrope's divisors, learned positions, parallel layers,
   experts. */
static void files_of_families_give_the_logits_of_transformers(void **state) {
  (void)state;
  static const char *const names[] = {"phi3_longrope",     "glm4",   "gpt2", "stablelm",
                                      "stablelm_parallel", "mixtral"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[256], reference[256], directory[64], model[96];
    scratch_begin(directory);
    snprintf(path, sizeof path, TEST_DATA "/formats/%s.gguf", names[i]);
    snprintf(reference, sizeof reference, TEST_DATA "/reference/%s/ref.safetensors", names[i]);
    import_model(path, NULL, directory, model);
    double difference = logit_difference(model, reference, "input_ids", "logits");
    if (!(difference < 1e-5)) fail_msg("%s: logits differ by %g", names[i], difference);
    scratch_end(directory);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_tensor_type_of_a_trained_model_gives_its_logits),
      cmocka_unit_test(dequantised_tensors_equal_the_reference_bit_for_bit),
      cmocka_unit_test(a_sentencepiece_vocabulary_gives_the_reference_ids),
      cmocka_unit_test(a_byte_level_vocabulary_gives_the_reference_ids),
      cmocka_unit_test(files_of_families_give_the_logits_of_transformers),
      cmocka_unit_test(a_vocabulary_without_a_model_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
