/* Tests models written as GGUF and read back: their logits, their vocabularies, and refusals. */
#include "formats_testing.h"

#include "base/file.h"
#include "compress/absorb.h"
#include "formats/gguf.h"
#include "formats/gguf_export.h"
#include "config_file/config_json.h"

#define REFERENCE TEST_DATA "/reference"

typedef struct desk {
  char directory[64], path[96], back[96];
  ch_model *model;
  ch_absorption plain;
  const char *loss;
} desk;

static void open_desk(desk *d, const char *model) {
  scratch_begin(d->directory);
  snprintf(d->path, sizeof d->path, "%s/model.gguf", d->directory);
  must(ch_model_load(model, CH_WEIGHTS_MAPPED, &d->model, &problem));
  must(ch_absorb(d->model, &(ch_absorb_options){.keep_cache = false}, &d->plain, &problem));
}

static ch_status write_as(desk *d, ch_block_type type, const ch_tokenizer *tokenizer) {
  const ch_gguf_export how = {.name = "test", .type = type, .tokenizer = tokenizer};
  return ch_gguf_write(d->path, &d->plain.config, &d->plain.params, d->plain.tensors, &how, &d->loss,
                       &problem);
}

static void refuse(desk *d, ch_block_type type, const char *part) {
  assert_int_not_equal(write_as(d, type, NULL), CH_OK);
  if (!strstr(problem.message, part)) fail_msg("\"%s\" does not say \"%s\"", problem.message, part);
  assert_false(ch_is_file(d->path));
  problem = (ch_error){0};
}

static void close_desk(desk *d) {
  ch_absorbed_free(&d->plain);
  ch_model_unload(d->model);
  scratch_end(d->directory);
}

static double difference_after(const char *model, ch_block_type type) {
  desk d;
  char reference[256];
  open_desk(&d, model);
  must(write_as(&d, type, NULL));
  import_model(d.path, NULL, d.directory, d.back);
  snprintf(reference, sizeof reference, "%s/ref.safetensors", model);
  double difference = logit_difference(d.back, reference, "input_ids", "logits");
  close_desk(&d);
  return difference;
}

static void models_compute_the_same_when_they_come_back(void **state) {
  (void)state;
  assert_true(difference_after(REFERENCE "/llama_gqa", CH_BLOCK_F32) < 2e-5);
  assert_true(difference_after(REFERENCE "/llama3_rope", CH_BLOCK_F32) < 2e-5);
  assert_true(difference_after(REFERENCE "/qwen3", CH_BLOCK_F32) < 2e-5);
  assert_true(difference_after(REFERENCE "/qwen3_moe", CH_BLOCK_F32) < 2e-5);
}

/* Tests imported families, among them some with tensors of several projections and of experts' biases. */
static void families_compute_the_same_when_they_come_back(void **state) {
  (void)state;
  static const char *const names[] = {"glm4",     "gpt2",     "gpt_oss_mxfp4",     "granite",
                                      "mixtral",  "olmo3",    "phi3_longrope",     "phi3_shortrope",
                                      "seed_oss", "stablelm", "stablelm_parallel", "starcoder2"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char model[256];
    snprintf(model, sizeof model, REFERENCE "/%s", names[i]);
    double difference = difference_after(model, CH_BLOCK_F32);
    if (!(difference < 2e-5)) fail_msg("%s: logits differ by %g", names[i], difference);
  }
}

/* Tests windows in some layers, bases of RoPE and soft caps, with the scale of scores that is fixed in
   llama.cpp. */
static void configurations_of_gemma_come_back(void **state) {
  (void)state;
  static const char *const names[] = {"gemma2", "gemma3_windows"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    desk d;
    char model[256];
    ch_config config;
    snprintf(model, sizeof model, REFERENCE "/%s", names[i]);
    open_desk(&d, model);
    refuse(&d, CH_BLOCK_F32, "scale of scores");
    d.plain.config.attention_multiplier = 1 / sqrt((double)d.plain.config.head_dim);
    d.plain.config.bos_token_id = d.plain.config.eos_token_id = -1; /* ids come with a vocabulary */
    must(write_as(&d, CH_BLOCK_F32, NULL));
    import_model(d.path, NULL, d.directory, d.back);
    must(ch_config_read(d.back, &config, &problem));
    ch_text before = {0}, after = {0};
    ch_config_write(&d.plain.config, &before);
    ch_config_write(&config, &after);
    assert_string_equal(after.data, before.data);
    ch_text_free(&before);
    ch_text_free(&after);
    close_desk(&d);
  }
}

static void scalings_of_positions_come_back(void **state) {
  (void)state;
  const ch_rope_scaling cases[] = {{.type = CH_ROPE_LINEAR, .truncate = true, .factor = 2.5},
                                   {.type = CH_ROPE_YARN,
                                    .truncate = true,
                                    .factor = 4,
                                    .original_max_position_embeddings = 32,
                                    .beta_fast = 16}};
  for (int i = 0; i < 2; i++) {
    desk d;
    ch_config config;
    open_desk(&d, REFERENCE "/qwen3");
    d.plain.config.rope_scaling = cases[i];
    must(write_as(&d, CH_BLOCK_F32, NULL));
    import_model(d.path, NULL, d.directory, d.back);
    must(ch_config_read(d.back, &config, &problem));
    assert_memory_equal(&config.rope_scaling, &cases[i], sizeof config.rope_scaling);
    close_desk(&d);
  }
}

static void smaller_types_round_as_much_as_they_must(void **state) {
  (void)state;
  static const struct {
    ch_block_type type;
    double least, most;
  } cases[] = {{CH_BLOCK_F16, 1e-5, 5e-3}, {CH_BLOCK_BF16, 1e-4, 4e-2}, {CH_BLOCK_Q8_0, 1e-4, 4e-2}};
  for (int i = 0; i < 3; i++) {
    double difference = difference_after(REFERENCE "/qwen3", cases[i].type);
    if (!(difference > cases[i].least && difference < cases[i].most)) fail_msg("type %d: %g", i, difference);
  }
}

static void q8_0_stands_back_where_rows_do_not_fit_its_blocks(void **state) {
  (void)state;
  desk d;
  ch_gguf file;
  open_desk(&d, REFERENCE "/llama_gqa");
  must(write_as(&d, CH_BLOCK_Q8_0, NULL));
  must(ch_gguf_open(d.path, &file, &problem));
  int blocks = 0, halves = 0;
  for (int64_t i = 0; i < file.tensor_count; i++) {
    const ch_gguf_tensor *t = &file.tensors[i];
    bool fits = t->shape[t->rank - 1] % 32 == 0;
    ch_block_type wanted = t->rank == 1 ? CH_BLOCK_F32 : fits ? CH_BLOCK_Q8_0 : CH_BLOCK_F16;
    assert_int_equal(t->format->type, wanted);
    blocks += wanted == CH_BLOCK_Q8_0;
    halves += wanted == CH_BLOCK_F16;
  }
  assert_true(blocks + halves > 0);
  ch_gguf_close(&file);
  close_desk(&d);
}

/* --- vocabularies ------------------------------------------------------------------------------------------- */

static const char sample[] =
    "Once upon a time, there was  a caf\xc3\xa9 - \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80\n\n"
    "It's 12345 o'clock, WE'LL see\t. End";

static void compare_ids(const ch_tokenizer *a, const ch_tokenizer *b, const char *text, size_t size) {
  ch_ids x = {0}, y = {0};
  must(ch_tokenizer_encode(a, text, size, CH_TEXT_WHOLE, &x, &problem));
  must(ch_tokenizer_encode(b, text, size, CH_TEXT_WHOLE, &y, &problem));
  assert_int_equal(x.size, y.size);
  assert_memory_equal(x.data, y.data, x.size * sizeof *x.data);
  ch_ids_free(&x);
  ch_ids_free(&y);
}

/* Checks a vocabulary through a model of `vocab_size` tokens whose weights do not matter. */
static void check_vocabulary(const char *path, int64_t vocab_size) {
  desk d;
  ch_tokenizer *before, *after;
  char *text;
  size_t size;
  open_desk(&d, TEST_DATA "/TinyStories-656K");
  must(ch_tokenizer_open(path, &before, &problem));
  if (!vocab_size) vocab_size = ch_tokenizer_vocab_size(before);
  assert_true(vocab_size <= d.plain.config.vocab_size);
  int embedding = ch_params_find(&d.plain.params, "model.embed_tokens.weight");
  d.plain.config.vocab_size = d.plain.params.rows[embedding].shape[0] = vocab_size;
  must(write_as(&d, CH_BLOCK_F16, before));
  import_model(d.path, NULL, d.directory, d.back);
  must(ch_tokenizer_open(d.back, &after, &problem));
  compare_ids(before, after, sample, strlen(sample));
  must(ch_read_file(TEST_DATA "/../../README.md", 1 << 20, &text, &size, &problem));
  compare_ids(before, after, text, size);
  assert_int_equal(ch_tokenizer_bos(before), ch_tokenizer_bos(after));
  assert_int_equal(ch_tokenizer_eos(before), ch_tokenizer_eos(after));
  assert_int_equal(ch_tokenizer_adds_bos(before), ch_tokenizer_adds_bos(after));
  free(text);
  ch_tokenizer_free(before);
  ch_tokenizer_free(after);
  close_desk(&d);
}

static void a_byte_level_vocabulary_comes_back_with_its_ids(void **state) {
  (void)state;
  check_vocabulary(TEST_DATA "/text/bytelevel.json", 0);
}

static void a_sentencepiece_vocabulary_comes_back_with_its_ids(void **state) {
  (void)state;
  check_vocabulary(TEST_DATA "/text/spm.json", 0);
}

static void rows_without_a_token_get_names(void **state) {
  (void)state;
  check_vocabulary(TEST_DATA "/text/bytelevel.json", 2048);
}

/* --- refusals ----------------------------------------------------------------------------------------------- */

static void models_without_an_architecture_are_refused(void **state) {
  (void)state;
  desk d;
  open_desk(&d, REFERENCE "/deepseek_v3");
  refuse(&d, CH_BLOCK_F32, "cannot be written as GGUF");
  close_desk(&d);
  open_desk(&d, REFERENCE "/qwen3");
  d.plain.config.rope_scaling = (ch_rope_scaling){.type = CH_ROPE_LLAMA3, .truncate = true, .factor = 8};
  refuse(&d, CH_BLOCK_F32, "llama3 scaling");
  d.plain.config.rope_scaling =
      (ch_rope_scaling){.type = CH_ROPE_YARN, .truncate = true, .factor = 8, .mscale = 1};
  refuse(&d, CH_BLOCK_F32, "factors of YaRN");
  close_desk(&d);
  static const char *const refused[][2] = {{"olmo2", "biases in some projections"},
                                           {"phi3", "heads of another width"},
                                           {"smollm3", "every fourth"},
                                           {"gpt_oss", "other clamps"},
                                           {"qwen2_windows", "sliding window in some layers"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    char model[256];
    snprintf(model, sizeof model, REFERENCE "/%s", refused[i][0]);
    open_desk(&d, model);
    refuse(&d, CH_BLOCK_F32, refused[i][1]);
    close_desk(&d);
  }
}

static void mixtures_that_llama_cpp_computes_otherwise_are_refused(void **state) {
  (void)state;
  desk d;
  open_desk(&d, REFERENCE "/qwen3_moe");
  d.plain.config.moe.renormalise = false;
  refuse(&d, CH_BLOCK_F32, "do not add up to 1");
  d.plain.config.moe.renormalise = true;
  d.plain.config.moe.dense_layers[2] = true;
  refuse(&d, CH_BLOCK_F32, "do not support layers with experts mixed with layers without");
  close_desk(&d);
}

/* The experts of a layer are one tensor with one type. */
static void stacks_have_the_type_of_their_matrices(void **state) {
  (void)state;
  desk d;
  ch_gguf file;
  open_desk(&d, REFERENCE "/qwen3_moe");
  must(write_as(&d, CH_BLOCK_Q8_0, NULL));
  must(ch_gguf_open(d.path, &file, &problem));
  const ch_gguf_tensor *up = ch_gguf_find_tensor(&file, "blk.2.ffn_up_exps.weight"),
                       *down = ch_gguf_find_tensor(&file, "blk.2.ffn_down_exps.weight");
  assert_true(up && down && up->rank == 3 && up->shape[0] == 6 && up->shape[1] == 32 && up->shape[2] == 48);
  assert_int_equal(up->format->type, CH_BLOCK_F16); /* rows of 48 are not whole blocks */
  assert_int_equal(down->format->type, CH_BLOCK_Q8_0);
  ch_gguf_close(&file);
  close_desk(&d);
  open_desk(&d, REFERENCE "/qwen3_moe");
  int index = ch_params_find(&d.plain.params, "model.layers.1.mlp.experts.4.up_proj.weight");
  d.plain.tensors[index].dtype = CH_BF16;
  const ch_gguf_export own = {.name = "test", .type = CH_BLOCK_F32, .own = true};
  assert_int_not_equal(
      ch_gguf_write(d.path, &d.plain.config, &d.plain.params, d.plain.tensors, &own, &d.loss, &problem),
      CH_OK);
  assert_non_null(strstr(problem.message, "matrices of several types"));
  close_desk(&d);
}

static void values_that_a_type_cannot_hold_are_refused(void **state) {
  (void)state;
  desk d;
  open_desk(&d, REFERENCE "/llama_gqa");
  int index = ch_params_find(&d.plain.params, "model.layers.0.mlp.up_proj.weight");
  ch_tensor *tensor = &d.plain.tensors[index];
  float *copy = malloc(ch_tensor_bytes(tensor));
  assert_non_null(copy);
  memcpy(copy, tensor->data, ch_tensor_bytes(tensor));
  tensor->data = copy;
  copy[17] = 70000;
  refuse(&d, CH_BLOCK_F16, "70000, which F16 cannot");
  must(write_as(&d, CH_BLOCK_BF16, NULL));
  assert_int_equal(unlink(d.path), 0);
  copy[17] = NAN;
  refuse(&d, CH_BLOCK_BF16, "not finite");
  free(copy);
  close_desk(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(models_compute_the_same_when_they_come_back),
      cmocka_unit_test(families_compute_the_same_when_they_come_back),
      cmocka_unit_test(configurations_of_gemma_come_back),
      cmocka_unit_test(scalings_of_positions_come_back),
      cmocka_unit_test(smaller_types_round_as_much_as_they_must),
      cmocka_unit_test(q8_0_stands_back_where_rows_do_not_fit_its_blocks),
      cmocka_unit_test(a_byte_level_vocabulary_comes_back_with_its_ids),
      cmocka_unit_test(a_sentencepiece_vocabulary_comes_back_with_its_ids),
      cmocka_unit_test(rows_without_a_token_get_names),
      cmocka_unit_test(models_without_an_architecture_are_refused),
      cmocka_unit_test(mixtures_that_llama_cpp_computes_otherwise_are_refused),
      cmocka_unit_test(stacks_have_the_type_of_their_matrices),
      cmocka_unit_test(values_that_a_type_cannot_hold_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
