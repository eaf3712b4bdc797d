/* Tests model directories: small models are written and read in every type and mode, and real models are read. */
#define _GNU_SOURCE
#include "io/model_directory.h"

static void every_type_reads_back_in_every_mode(void **state) {
  (void)state;
  static const struct {
    ch_dtype dtype;
    double epsilon;
  } types[] = {{CH_F32, 0}, {CH_F64, 0}, {CH_F16, 0x1p-11}, {CH_BF16, 0x1p-8}};
  for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++) {
    model m;
    ch_error error = {0};
    ch_dtype dtype = types[i / 2].dtype;
    make_model(i % 2 ? talking : ours, &m);
    if (ch_model_write(directory, &m.config, &m.params, m.tensors, dtype, &error) != CH_OK)
      fail_msg("%s", error.message);
    for (ch_weights_mode mode = CH_WEIGHTS_MAPPED; mode <= CH_WEIGHTS_F64; mode++)
      check_weights(&m, dtype, mode, types[i / 2].epsilon);
    free_model(&m);
  }
}

typedef struct told {
  double done, total, most;
} told;

static ch_status stop_after(void *context, const char *what, double done, double total, ch_error *error) {
  told *t = context;
  assert_string_equal(what, "writing");
  assert_true(done >= t->done && done < total);
  *t = (told){done, total, t->most};
  return done > t->most ? ch_fail(error, CH_ERROR_INTERRUPTED, "stopped") : CH_OK;
}

static void writing_that_is_stopped_leaves_no_file(void **state) {
  (void)state;
  model m;
  ch_error error = {0};
  make_model(ours, &m);
  ch_dtype *dtypes = calloc((size_t)(unsigned)m.params.count, sizeof *dtypes);
  double bytes = 0;
  for (int i = 0; i < m.params.count; i++) {
    dtypes[i] = i % 2 ? CH_F32 : CH_BF16;
    bytes += (double)ch_tensor_count(&m.tensors[i]) * (double)ch_dtype_size(dtypes[i]);
  }
  char *config = ch_path_join(directory, "config.json"),
       *weights = ch_path_join(directory, "model.safetensors");
  for (int stopped = 1; stopped >= 0; stopped--) {
    told t = {.most = stopped ? bytes / 2 : bytes};
    ch_model_writing writing = {.step = stop_after, .context = &t};
    remove(config);
    remove(weights);
    ch_status status =
        ch_model_write_as(directory, &m.config, &m.params, m.tensors, dtypes, &writing, &error);
    assert_int_equal(status, stopped ? CH_ERROR_INTERRUPTED : CH_OK);
    assert_true(t.total == bytes && t.done > bytes / 2);
    assert_true(ch_is_file(config) == !stopped && ch_is_file(weights) == !stopped);
  }
  free(config);
  free(weights);
  free(dtypes);
  free_model(&m);
}

static void every_family_writes_a_directory_that_opens(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{\"model_type\": \"crosshead\", " SIZES "\"attention_bias\": true, \"hidden_act\": \"gelu\","
      " \"position\": \"alibi\", \"attention\": {\"type\": \"gqa\", \"head_norm\": true}}",
      "{\"model_type\": \"llama\", " SIZES "\"attention_bias\": true}",
      "{\"model_type\": \"llama\", " SIZES "\"mlp_bias\": true}",
      "{\"model_type\": \"crosshead\", " SIZES "\"hidden_act\": \"relu2\", \"mlp_bias\": true,"
      " \"norm\": \"layernorm\", \"norm_placement\": \"post\"}",
      "{\"model_type\": \"llama\", " SIZES "\"tie_word_embeddings\": true}",
      "{\"model_type\": \"qwen2\", " SIZES "\"rms_norm_eps\": 1e-5}",
      "{\"model_type\": \"qwen3\", " SIZES "\"attention_bias\": true}",
      "{\"model_type\": \"mistral\", " SIZES "\"sliding_window\": null}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    model m;
    ch_config again;
    ch_error error = {0};
    make_model(texts[i], &m);
    if (ch_model_write(directory, &m.config, &m.params, m.tensors, CH_F32, &error) != CH_OK)
      fail_msg("%s", error.message);
    if (ch_config_read(directory, &again, &error) != CH_OK) fail_msg("%s", error.message);
    assert_memory_equal(&again, &m.config, sizeof again);
    check_weights(&m, CH_F32, CH_WEIGHTS_MAPPED, 0);
    free_model(&m);
  }
}

static void q_k_and_v_have_biases_where_the_family_says(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool q, o;
  } cases[] = {{"{\"model_type\": \"llama\", " SIZES "\"attention_bias\": true}", true, true},
               {"{\"model_type\": \"qwen2\", " SIZES "\"x\": 1}", true, false},
               {"{\"model_type\": \"mistral\", " SIZES "\"attention_bias\": true}", false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    model m;
    make_model(cases[i].text, &m);
    assert_int_equal(ch_params_find(&m.params, "model.layers.1.self_attn.q_proj.bias") >= 0, cases[i].q);
    assert_int_equal(ch_params_find(&m.params, "model.layers.1.self_attn.v_proj.bias") >= 0, cases[i].q);
    assert_int_equal(ch_params_find(&m.params, "model.layers.1.self_attn.o_proj.bias") >= 0, cases[i].o);
    free_model(&m);
  }
}

static void data_off_its_alignment_is_copied(void **state) {
  (void)state;
  model m;
  make_model(ours, &m);
  ch_error error = {0};
  static const ch_dtype types[] = {CH_F32, CH_BF16, CH_F64};
  for (int t = 0; t < 3; t++) {
    assert_int_equal(ch_model_write(directory, &m.config, &m.params, m.tensors, types[t], &error), CH_OK);
    char *path = ch_path_join(directory, "model.safetensors"), *text;
    size_t size;
    assert_int_equal(ch_read_file(path, 1 << 20, &text, &size, &error), CH_OK);
    /* Another space at the end of the header moves all data by a byte. */
    uint64_t length;
    memcpy(&length, text, 8);
    char *moved = malloc(size + 1);
    memcpy(moved, text, 8 + length);
    moved[8 + length] = ' ';
    memcpy(moved + 9 + length, text + 8 + length, size - 8 - length);
    length++;
    memcpy(moved, &length, 8);
    put_file("model.safetensors", moved, size + 1);
    for (ch_weights_mode mode = CH_WEIGHTS_MAPPED; mode <= CH_WEIGHTS_F64; mode++) {
      ch_weights weights;
      assert_int_equal(ch_weights_open(directory, &m.config, &m.params, mode, &weights, &error), CH_OK);
      for (int i = 0; i < m.params.count; i++) {
        assert_false(inside_a_mapping(&weights, weights.tensors[i].data));
        double original = value_at(&m.tensors[i], 0), got = value_at(&weights.tensors[i], 0);
        assert_true(fabs(got - original) <= fabs(original) * 0x1p-8);
      }
      ch_weights_close(&weights);
    }
    free(moved);
    free(text);
    free(path);
  }
  free_model(&m);
}

/* --- real models -------------------------------------------------------------------------------------------- */

static void check_real(const char *place, ch_dtype stored) {
  ch_config config;
  ch_params params = {0};
  ch_error error = {0};
  if (ch_config_read(place, &config, &error) != CH_OK) fail_msg("%s", error.message);
  if (ch_model_declare(&config, &params, &error) != CH_OK) fail_msg("%s", error.message);
  char *path = ch_path_join(place, "model.safetensors");
  ch_safetensors file;
  assert_int_equal(ch_safetensors_open(path, &file, &error), CH_OK);
  for (ch_weights_mode mode = CH_WEIGHTS_MAPPED; mode <= CH_WEIGHTS_F64; mode++) {
    ch_weights weights;
    if (ch_weights_open(place, &config, &params, mode, &weights, &error) != CH_OK)
      fail_msg("%s", error.message);
    assert_int_equal(weights.tensors[params.count - 2].dtype, mode == CH_WEIGHTS_MAPPED ? stored
                                                              : mode == CH_WEIGHTS_F32  ? CH_F32
                                                                                        : CH_F64);
    for (int i = 0; i < params.count; i++) {
      const ch_stored_tensor *raw = ch_safetensors_find(&file, params.rows[i].name);
      if (!raw) raw = ch_safetensors_find(&file, "lm_head.weight");
      int64_t n = ch_tensor_count(&weights.tensors[i]);
      for (int64_t k = 0; k < n; k += 1 + n / 100)
        assert_true(value_at(&weights.tensors[i], k) == value_at(&raw->tensor, k));
    }
    ch_weights_close(&weights);
  }
  ch_safetensors_close(&file);
  ch_params_free(&params);
  free(path);
}

static void reference_models_open(void **state) {
  (void)state;
  check_real(TEST_DATA "/reference/llama_gqa", CH_F32);
  check_real(TEST_DATA "/reference/llama3_rope", CH_F32);
  check_real(TEST_DATA "/reference/qwen3", CH_F32);
  check_real(TEST_DATA "/TinyStories-656K", CH_F32); /* a tied model with only a head in its file */
}

static void trained_models_open(void **state) {
  (void)state;
  if (!ch_is_directory(SHARED_DATA "/data/models")) {
    print_message("no shared data beside the checkout: trained models are not opened\n");
    skip();
  }
  check_real(SHARED_DATA "/data/models/stories-qwen3-12L", CH_BF16);
  check_real(SHARED_DATA "/data/reference/stories260K", CH_F32);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_A_DIRECTORY(every_type_reads_back_in_every_mode),
      IN_A_DIRECTORY(writing_that_is_stopped_leaves_no_file),
      IN_A_DIRECTORY(every_family_writes_a_directory_that_opens),
      cmocka_unit_test(q_k_and_v_have_biases_where_the_family_says),
      IN_A_DIRECTORY(data_off_its_alignment_is_copied),
      cmocka_unit_test(reference_models_open),
      cmocka_unit_test(trained_models_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
