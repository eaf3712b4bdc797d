/* Tests tensors that are missing in a model directory, unknown, or of another shape or type. */
#define _GNU_SOURCE
#include "io/model_directory.h"

static void wrong_tensors_are_refused_by_name(void **state) {
  (void)state;
  model m;
  make_model(ours, &m);
  int n = m.params.count, k = ch_params_find(&m.params, "model.layers.1.self_attn.k_proj.weight");
  static const char name[] = "\"model.layers.1.self_attn.k_proj.weight\"";
  ch_stored_tensor *good = stored_tensors(&m, 1);

  put_tensors("model.safetensors", good, n);
  assert_opens(&m);

  ch_stored_tensor kept = good[k]; /* the tensor that is left out */
  good[k] = good[n - 1];
  put_tensors("model.safetensors", good, n - 1);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "k_proj.weight\" is missing");
  good[k] = kept;

  good[n] = good[k]; /* an unknown tensor with a name near a known one */
  good[n].name = (char *)"model.layers.1.self_attn.k_prj.weight";
  put_tensors("model.safetensors", good, n + 1);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT,
                 "the nearest is \"model.layers.1.self_attn.k_proj.weight\"");
  good[n].name = (char *)"model.layers.2.self_attn.k_proj.weight";
  put_tensors("model.safetensors", good, n + 1);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT,
                 "\"model.layers.2.self_attn.k_proj.weight\" is not a tensor of");

  const struct {
    int rank;
    int64_t rows, columns;
    ch_dtype dtype;
    const char *words;
  } shapes[] = {{2, 12, 4, CH_F32, "has shape [12, 4], but the configuration requires [4, 12]"},
                {1, 48, 0, CH_F32, "has shape [48], but"},
                {2, 4, 11, CH_F32, "has shape [4, 11], but"},
                {2, 0, 12, CH_F32, "has shape [0, 12], but"},
                {2, 4, 12, CH_I32, "has type I32; weights are F32"},
                {2, 4, 6, CH_I64, "has shape [4, 6], but"}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    good[k].tensor =
        (ch_tensor){shapes[i].dtype, shapes[i].rank, {shapes[i].rows, shapes[i].columns}, kept.tensor.data};
    put_tensors("model.safetensors", good, n);
    assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, shapes[i].words);
    assert_refused(&m, CH_WEIGHTS_F64, CH_ERROR_FORMAT, name);
  }
  free(good);
  free_model(&m);
}

/* Writes the model with all values as `dtype`, without checks. */
static void put_converted(const model *m, ch_dtype dtype) {
  ch_stored_tensor *stored = stored_tensors(m, 0);
  const ch_kernels *kernels = ch_kernels_best(dtype == CH_F64 ? CH_F64 : CH_F32);
  for (int i = 0; i < m->params.count; i++) {
    ch_tensor *tensor = &stored[i].tensor;
    int64_t n = ch_tensor_count(tensor);
    tensor->data = malloc((size_t)n * sizeof(double));
    tensor->dtype = dtype;
    if (dtype == CH_F64)
      kernels->convert_from(&ch_alone, n, m->tensors[i].data, CH_F32, tensor->data);
    else
      kernels->convert_to(&ch_alone, n, m->tensors[i].data, dtype, tensor->data);
  }
  put_tensors("model.safetensors", stored, m->params.count);
  for (int i = 0; i < m->params.count; i++) free(stored[i].tensor.data);
  free(stored);
}

static void values_that_are_not_finite_are_found_where_they_are_copied(void **state) {
  (void)state;
  model m;
  make_model(ours, &m);
  int norm = ch_params_find(&m.params, "model.norm.weight");
  int matrix = ch_params_find(&m.params, "model.layers.0.mlp.up_proj.weight");
  float *vector_value = &((float *)m.tensors[norm].data)[7],
        *matrix_value = &((float *)m.tensors[matrix].data)[99];
  static const float bad[] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
  static const ch_dtype types[] = {CH_F32, CH_F16, CH_BF16, CH_F64};
  ch_error error = {0};
  for (int b = 0; b < 3; b++)
    for (int t = 0; t < 4; t++) {
      float kept = *vector_value;
      *vector_value = bad[b];
      put_converted(&m, types[t]);
      for (ch_weights_mode mode = CH_WEIGHTS_MAPPED; mode <= CH_WEIGHTS_F64; mode++)
        assert_refused(&m, mode, CH_ERROR_NUMERIC, "\"model.norm.weight\" holds a value that is not finite");
      *vector_value = kept;
      kept = *matrix_value;
      *matrix_value = bad[b];
      put_converted(&m, types[t]);
      /* A matrix is checked when it is converted. A mapped matrix is not read. */
      for (ch_weights_mode mode = CH_WEIGHTS_MAPPED; mode <= CH_WEIGHTS_F64; mode++) {
        bool converted = mode == CH_WEIGHTS_MAPPED ? types[t] == CH_F64
                         : mode == CH_WEIGHTS_F32  ? types[t] != CH_F32
                                                   : types[t] != CH_F64;
        if (converted)
          assert_refused(&m, mode, CH_ERROR_NUMERIC, "up_proj.weight\" holds a value");
        else
          assert_int_equal(open_as(&m, mode, &error), CH_OK);
      }
      *matrix_value = kept;
    }
  free_model(&m);
}

static void old_rotary_tables_and_a_tied_head_are_tolerated(void **state) {
  (void)state;
  model m;
  make_model(tied, &m);
  int n = m.params.count, embedding = ch_params_find(&m.params, "model.embed_tokens.weight");
  ch_stored_tensor *stored = stored_tensors(&m, 3);
  stored[n] = (ch_stored_tensor){.name = (char *)"model.layers.0.self_attn.rotary_emb.inv_freq",
                                 .tensor = {CH_F32, 1, {2}, m.tensors[0].data}};
  stored[n + 1] = (ch_stored_tensor){.name = (char *)"lm_head.weight", .tensor = m.tensors[embedding]};
  put_tensors("model.safetensors", stored, n + 2);
  check_weights(&m, CH_F32, CH_WEIGHTS_MAPPED, 0);

  stored[embedding].name = (char *)"lm_head.weight"; /* the head replaces the missing embedding */
  put_tensors("model.safetensors", stored, n);
  check_weights(&m, CH_F32, CH_WEIGHTS_MAPPED, 0);
  stored[embedding].tensor.shape[0]--;
  put_tensors("model.safetensors", stored, n);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "\"lm_head.weight\" has shape [10, 12]");
  free(stored);
  free_model(&m);

  make_model(ours, &m); /* not tied: the head does not replace the embedding */
  n = m.params.count;
  stored = stored_tensors(&m, 0);
  stored[0] = stored[n - 1];
  put_tensors("model.safetensors", stored, n - 1);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "\"model.embed_tokens.weight\" is missing");
  free(stored);
  free_model(&m);
}

/* Sets a value of the first matrix of a small model, and writes the model in a type. */
static void numbers_that_a_type_cannot_hold_are_refused_by_name(void **state) {
  (void)state;
  static const struct {
    double value;
    ch_dtype dtype;
    const char *words; /* part of the message; NULL: the value can be stored */
  } cases[] = {
      {65504, CH_F16, NULL},
      {65519.9, CH_F16, NULL},
      {65520, CH_F16, "holds 65520, which F16 cannot; bf16 and f32 can"},
      {3.38e38, CH_BF16, NULL},
      {-3.4e38, CH_BF16, "holds 3.4e+38, which BF16 cannot; f32 can"},
      {3.4e38, CH_F16, "which F16 cannot; f32 can"},
      {8.3e6, CH_Q8_0, NULL},
      {-9e6, CH_Q8_0, "holds 9e+06, which Q8_0 cannot; bf16 and f32 can"},
      {4e5, CH_Q4_0, NULL},
      {9e5, CH_Q4_0, "which Q4_0 cannot"},
      {5e7, CH_Q4_K, NULL},
      {7e7, CH_Q4_K, "which Q4_K cannot"},
      {-7e7, CH_Q4_K, "which Q4_K cannot"},
      {2e8, CH_Q6_K, NULL},
      {4e8, CH_Q6_K, "which Q6_K cannot"},
      {NAN, CH_F16, "not finite"},
      {NAN, CH_BF16, "not finite"},
      {NAN, CH_F64, "not finite"},
      {NAN, CH_Q8_0, "not finite"},
      {INFINITY, CH_Q4_0, "not finite"},
      {-INFINITY, CH_Q4_K, "not finite"},
      {NAN, CH_Q6_K, "not finite"},
  };
  static float values[2 * 256];
  ch_params params = {0};
  model m;
  make_model(tied, &m);
  params.count = 1;
  ch_param row = m.params.rows[ch_params_find(&m.params, "model.layers.0.mlp.up_proj.weight")];
  row.shape[0] = 2;
  row.shape[1] = 256;
  params.rows = &row;
  ch_tensor tensor = {CH_F32, 2, {2, 256}, values};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_error error = {0};
    for (int j = 0; j < 2 * 256; j++) values[j] = (float)(j % 7) - 3;
    values[300] = (float)cases[i].value;
    ch_status status = ch_model_write(directory, &m.config, &params, &tensor, cases[i].dtype, &error);
    if (cases[i].words ? status != CH_ERROR_NUMERIC || !strstr(error.message, cases[i].words) ||
                             !strstr(error.message, "model.layers.0.mlp.up_proj.weight")
                       : status != CH_OK)
      fail_msg("%g as %s: %d, %s", cases[i].value, ch_dtype_name(cases[i].dtype), status, error.message);
  }
  free_model(&m);
}

static void a_head_with_values_of_its_own_unties_the_model(void **state) {
  (void)state;
  model m;
  make_model(tied, &m);
  ch_config config;
  ch_error error = {0};
  int n = m.params.count, embedding = ch_params_find(&m.params, "model.embed_tokens.weight");
  ch_tensor head = m.tensors[embedding];
  ch_stored_tensor *stored = stored_tensors(&m, 1);
  float *values = malloc(ch_tensor_bytes(&head));
  memcpy(values, head.data, ch_tensor_bytes(&head));
  head.data = values;
  stored[n] = (ch_stored_tensor){.name = (char *)"lm_head.weight", .tensor = head};
  assert_int_equal(ch_config_store(directory, &m.config, &error), CH_OK);
  for (int differs = 0; differs < 2; differs++) {
    values[ch_tensor_count(&head) - 1] += (float)differs;
    put_tensors("model.safetensors", stored, n + 1);
    assert_int_equal(ch_config_read_stored(directory, &config, &error), CH_OK);
    assert_int_equal(config.tie_word_embeddings, !differs);
  }
  put_tensors("model.safetensors", stored, n);
  assert_int_equal(ch_config_read_stored(directory, &config, &error), CH_OK);
  assert_true(config.tie_word_embeddings);
  free(values);
  free(stored);
  free_model(&m);
}

static void tensors_of_types_that_no_model_has_may_be_left_over(void **state) {
  (void)state;
  model m;
  make_model(tied, &m);
  int n = m.params.count;
  ch_stored_tensor *stored = stored_tensors(&m, 1);
  unsigned char mask[4] = {1, 0, 1, 1};
  stored[n] = (ch_stored_tensor){.name = (char *)"model.causal_mask", .tensor = {CH_U8, 2, {2, 2}, mask}};
  put_tensors("model.safetensors", stored, n + 1);
  char *bytes = NULL, *path = ch_path_join(directory, "model.safetensors");
  size_t size = 0;
  assert_int_equal(ch_read_file(path, 1 << 20, &bytes, &size, NULL), CH_OK);
  char *type = memmem(bytes, size, "\"U8\"", 4);
  assert_non_null(type);
  memcpy(type, "\"I8\"", 4);
  put_file("model.safetensors", bytes, size);
  check_weights(&m, CH_F32, CH_WEIGHTS_MAPPED, 0);
  memcpy(memmem(bytes, size, "model.causal_mask", 17), "model.causal_task", 17);
  put_file("model.safetensors", bytes, size);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT,
                 "\"model.causal_task\" is not a tensor of this model");
  free(path);
  free(bytes);
  free(stored);
  free_model(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_A_DIRECTORY(wrong_tensors_are_refused_by_name),
      IN_A_DIRECTORY(values_that_are_not_finite_are_found_where_they_are_copied),
      IN_A_DIRECTORY(old_rotary_tables_and_a_tied_head_are_tolerated),
      IN_A_DIRECTORY(numbers_that_a_type_cannot_hold_are_refused_by_name),
      IN_A_DIRECTORY(a_head_with_values_of_its_own_unties_the_model),
      IN_A_DIRECTORY(tensors_of_types_that_no_model_has_may_be_left_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
