/* Model directories: written and read back in every type and layout, and what broken ones get. */
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/random.h"
#include "io/model_files.h"
#include "model/transformer.h"
#include "tensor/kernels.h"
#include "config_file/config_json.h"

/* --- a small model in memory ----------------------------------------------------------------------------------- */

typedef struct model {
  ch_config config;
  ch_params params;
  ch_tensor *tensors; /* F32 */
} model;

static void make_model(const char *json, model *m) {
  ch_error error = {0};
  *m = (model){0};
  if (ch_config_parse(json, "config", &m->config, &error) != CH_OK) fail_msg("%s", error.message);
  if (ch_model_declare(&m->config, &m->params, &error) != CH_OK) fail_msg("%s", error.message);
  m->tensors = calloc((size_t)m->params.count, sizeof *m->tensors);
  ch_random random;
  ch_random_seed(&random, 1, 2);
  for (int i = 0; i < m->params.count; i++) {
    const ch_param *row = &m->params.rows[i];
    m->tensors[i] = (ch_tensor){.dtype = CH_F32, .rank = row->rank};
    memcpy(m->tensors[i].shape, row->shape, sizeof row->shape);
    int64_t n = ch_param_count(row);
    float *values = m->tensors[i].data = malloc((size_t)n * sizeof *values);
    for (int64_t k = 0; k < n; k++) values[k] = (float)(ch_random_normal(&random) * 0.02);
  }
}

static void free_model(model *m) {
  for (int i = 0; i < m->params.count; i++) free(m->tensors[i].data);
  free(m->tensors);
  ch_params_free(&m->params);
}

#define SIZES                                                                                                \
  "\"vocab_size\": 11, \"hidden_size\": 12, \"intermediate_size\": 10, \"num_hidden_layers\": 2,"            \
  "\"num_attention_heads\": 3, \"num_key_value_heads\": 1, \"head_dim\": 4, "
static const char ours[] =
    "{\"model_type\": \"crosshead\", " SIZES "\"attention\": {\"type\": \"gqa\", \"qk_norm\": true}}";
/* With matrices over heads, which are read as numbers of the run's type as vectors are. */
static const char talking[] =
    "{\"model_type\": \"crosshead\", \"vocab_size\": 11, \"hidden_size\": 12,"
    "\"intermediate_size\": 10, \"num_hidden_layers\": 2, \"num_attention_heads\": 3,"
    "\"attention\": {\"type\": \"talking\"}}";
static const char tied[] = "{\"model_type\": \"llama\", " SIZES "\"tie_word_embeddings\": true}";

/* --- a scratch directory --------------------------------------------------------------------------------------- */

static char directory[64];

static int make_directory(void **state) {
  (void)state;
  strcpy(directory, "/tmp/crosshead-test-XXXXXX");
  return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
  (void)state;
  DIR *open = opendir(directory);
  for (struct dirent *entry; open && (entry = readdir(open));) {
    char *path = ch_path_join(directory, entry->d_name);
    unlink(path);
    free(path);
  }
  if (open) closedir(open);
  return rmdir(directory);
}

static void put_file(const char *name, const void *data, size_t size) {
  char *path = ch_path_join(directory, name);
  ch_error error;
  if (ch_write_file(path, data, size, &error) != CH_OK) fail_msg("%s", error.message);
  free(path);
}

static void put_tensors(const char *name, const ch_stored_tensor *tensors, int64_t count) {
  char *path = ch_path_join(directory, name);
  ch_error error;
  if (ch_safetensors_write(path, tensors, count, NULL, &error) != CH_OK) fail_msg("%s", error.message);
  free(path);
}

/* The model's tensors as they would stand in a file. room: for more. */
static ch_stored_tensor *stored_tensors(const model *m, int room) {
  ch_stored_tensor *stored = calloc((size_t)(m->params.count + room), sizeof *stored);
  for (int i = 0; i < m->params.count; i++)
    stored[i] = (ch_stored_tensor){.name = (char *)m->params.rows[i].name, .tensor = m->tensors[i]};
  return stored;
}

static ch_status open_as(const model *m, ch_weights_mode mode, ch_error *error) {
  ch_weights weights;
  ch_status status = ch_weights_open(directory, &m->config, &m->params, mode, &weights, error);
  ch_weights_close(&weights);
  return status;
}

static void assert_opens(const model *m) {
  ch_error error = {0};
  if (open_as(m, CH_WEIGHTS_MAPPED, &error) != CH_OK) fail_msg("%s", error.message);
  if (open_as(m, CH_WEIGHTS_F32, &error) != CH_OK) fail_msg("%s", error.message);
}

static void assert_refused(const model *m, ch_weights_mode mode, ch_status code, const char *words) {
  ch_error error = {0};
  ch_status status = open_as(m, mode, &error);
  if (status != code || !strstr(error.message, words) || !strstr(error.message, directory) ||
      strchr(error.message, '\n'))
    fail_msg("status %d, \"%s\" where %d with \"%s\" is needed", status, error.message, code, words);
}

/* --- reading back ---------------------------------------------------------------------------------------------- */

static double value_at(const ch_tensor *tensor, int64_t i) {
  uint32_t bits;
  float f;
  switch (tensor->dtype) {
  case CH_F32:
    return ((const float *)tensor->data)[i];
  case CH_F64:
    return ((const double *)tensor->data)[i];
  case CH_BF16:
    bits = (uint32_t)((const uint16_t *)tensor->data)[i] << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
  case CH_F16: {
    uint16_t h = ((const uint16_t *)tensor->data)[i];
    int exponent = h >> 10 & 31;
    double fraction = h & 1023;
    double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -magnitude : magnitude;
  }
  default:
    fail_msg("no float type");
    return 0;
  }
}

static bool inside_a_mapping(const ch_weights *weights, const void *data) {
  for (int s = 0; s < weights->shard_count; s++) {
    const ch_map *map = &weights->shards[s].map;
    if ((const unsigned char *)data >= map->data && (const unsigned char *)data < map->data + map->size)
      return true;
  }
  return false;
}

/* Values as stored with `epsilon` of relative rounding; types and places as the mode promises. */
static void check_weights(const model *m, ch_dtype stored, ch_weights_mode mode, double epsilon) {
  ch_weights weights;
  ch_error error = {0};
  if (ch_weights_open(directory, &m->config, &m->params, mode, &weights, &error) != CH_OK)
    fail_msg("%s", error.message);
  for (int i = 0; i < m->params.count; i++) {
    const ch_tensor *read = &weights.tensors[i];
    bool matrix = !m->params.rows[i].always_real;
    ch_dtype expected = mode == CH_WEIGHTS_F64 ? CH_F64 : CH_F32;
    if (mode == CH_WEIGHTS_MAPPED && matrix && stored != CH_F64) expected = stored;
    assert_int_equal(read->dtype, expected);
    assert_int_equal(inside_a_mapping(&weights, read->data), matrix && expected == stored);
    assert_int_equal((uintptr_t)read->data % ch_dtype_size(read->dtype), 0);
    for (int64_t k = 0; k < ch_tensor_count(read); k++) {
      double original = value_at(&m->tensors[i], k), got = value_at(read, k);
      if (fabs(got - original) > epsilon * fabs(original) + epsilon * 1e-4)
        fail_msg("%s[%d] is %g and was %g", m->params.rows[i].name, (int)k, got, original);
    }
  }
  ch_weights_close(&weights);
}

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
  ch_dtype *dtypes = calloc((size_t)m.params.count, sizeof *dtypes);
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
    /* One space more behind the header moves all data by a byte. */
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

/* --- broken tensors -------------------------------------------------------------------------------------------- */

static void wrong_tensors_are_refused_by_name(void **state) {
  (void)state;
  model m;
  make_model(ours, &m);
  int n = m.params.count, k = ch_params_find(&m.params, "model.layers.1.self_attn.k_proj.weight");
  static const char name[] = "\"model.layers.1.self_attn.k_proj.weight\"";
  ch_stored_tensor *good = stored_tensors(&m, 1);

  put_tensors("model.safetensors", good, n);
  assert_opens(&m);

  ch_stored_tensor kept = good[k]; /* missing */
  good[k] = good[n - 1];
  put_tensors("model.safetensors", good, n - 1);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "k_proj.weight\" is missing");
  good[k] = kept;

  good[n] = good[k]; /* unknown, near a known one */
  good[n].name = (char *)"model.layers.1.self_attn.k_prj.weight";
  put_tensors("model.safetensors", good, n + 1);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT,
                 "the nearest is \"model.layers.1.self_attn.k_proj.weight\"");
  good[n].name = (char *)"model.layers.2.self_attn.k_proj.weight";
  put_tensors("model.safetensors", good, n + 1);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT,
                 "\"model.layers.2.self_attn.k_proj.weight\" is not one of");

  const struct {
    int rank;
    int64_t rows, columns;
    ch_dtype dtype;
    const char *words;
  } shapes[] = {{2, 12, 4, CH_F32, "has shape [12, 4] where the configuration asks for [4, 12]"},
                {1, 48, 0, CH_F32, "has shape [48] where"},
                {2, 4, 11, CH_F32, "has shape [4, 11] where"},
                {2, 0, 12, CH_F32, "has shape [0, 12] where"},
                {2, 4, 12, CH_I32, "has type I32; weights are F32"},
                {2, 4, 6, CH_I64, "has shape [4, 6] where"}};
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

/* Writes the model with all values as `dtype`, unchecked. */
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
      /* A matrix is seen when it is converted; mapped as it is, nothing touches it. */
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

  stored[embedding].name = (char *)"lm_head.weight"; /* the head alone is the embedding */
  put_tensors("model.safetensors", stored, n);
  check_weights(&m, CH_F32, CH_WEIGHTS_MAPPED, 0);
  stored[embedding].tensor.shape[0]--;
  put_tensors("model.safetensors", stored, n);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "\"lm_head.weight\" has shape [10, 12]");
  free(stored);
  free_model(&m);

  make_model(ours, &m); /* untied: the head does not stand for the embedding */
  n = m.params.count;
  stored = stored_tensors(&m, 0);
  stored[0] = stored[n - 1];
  put_tensors("model.safetensors", stored, n - 1);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "\"model.embed_tokens.weight\" is missing");
  free(stored);
  free_model(&m);
}

/* A value of the first matrix of a small model, as it is, and written as every type. */
static void numbers_that_a_type_cannot_hold_are_refused_by_name(void **state) {
  (void)state;
  static const struct {
    double value;
    ch_dtype dtype;
    const char *words; /* NULL: it can be written */
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
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "\"model.causal_task\" is not one of this model's");
  free(path);
  free(bytes);
  free(stored);
  free_model(&m);
}

/* --- shards ---------------------------------------------------------------------------------------------------- */

/* The tensors in two shards and an index, in which `change` (or NULL) replaces a text by another. */
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
       "\"../a.safetensors\", where a file name in the same"},
      {"\"a.safetensors\"", "\"/etc/passwd\"", CH_ERROR_FORMAT, "\"/etc/passwd\", where a file name"},
      {"\"a.safetensors\"", "\"sub/a.safetensors\"", CH_ERROR_FORMAT, "where a file name in the same"},
      {"\"a.safetensors\"", "\"..\"", CH_ERROR_FORMAT, "where a file name in the same"},
      {"\"a.safetensors\"", "\"\"", CH_ERROR_FORMAT, "where a file name in the same"},
      {"\"a.safetensors\"", "7", CH_ERROR_FORMAT, "is said to be in 7"},
      {"\"a.safetensors\"", "null", CH_ERROR_FORMAT, "is said to be in null"},
      {"\"a.safetensors\"", "\"c.safetensors\"", CH_ERROR_IO, "c.safetensors"},
      {"\"a.safetensors\"", "\"b.safetensors\"", CH_ERROR_FORMAT,
       "is said to be in \"b.safetensors\" and is not there"},
      {"\"model.embed_tokens.weight\"", "\"model.embed_tokens.wait\"", CH_ERROR_FORMAT,
       "\"model.embed_tokens.wait\""},
      {"\"model.layers.0.input_layernorm.weight\"", "\"model.embed_tokens.weight\"", CH_ERROR_FORMAT,
       "duplicate"},
      {"weight_map", "weightmap", CH_ERROR_FORMAT, "has no \"weight_map\""},
      {"{", "[", CH_ERROR_FORMAT, "not valid JSON"},
      {"{\"total_size\": 1}", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
       CH_ERROR_FORMAT, "nests too much"},
  };
  model m;
  make_model(ours, &m);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put_shards(&m, cases[i].find, cases[i].replace);
    assert_refused(&m, CH_WEIGHTS_MAPPED, cases[i].status, cases[i].words);
  }
  put_file("model.safetensors.index.json", "{\"weight_map\": {}}", 18);
  assert_refused(&m, CH_WEIGHTS_MAPPED, CH_ERROR_FORMAT, "names 0 shards");
  put_shards(&m, NULL, NULL); /* a tensor in both shards */
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

/* Every truncation and a change in every byte of the header of a good file: an error, or the same table matched. */
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

/* --- real models ----------------------------------------------------------------------------------------------- */

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
  check_real(TEST_DATA "/TinyStories-656K", CH_F32); /* tied, and stores only its head */
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

#define IN_A_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_A_DIRECTORY(every_type_reads_back_in_every_mode),
      IN_A_DIRECTORY(writing_that_is_stopped_leaves_no_file),
      IN_A_DIRECTORY(every_family_writes_a_directory_that_opens),
      cmocka_unit_test(q_k_and_v_have_biases_where_the_family_says),
      IN_A_DIRECTORY(data_off_its_alignment_is_copied),
      IN_A_DIRECTORY(wrong_tensors_are_refused_by_name),
      IN_A_DIRECTORY(values_that_are_not_finite_are_found_where_they_are_copied),
      IN_A_DIRECTORY(old_rotary_tables_and_a_tied_head_are_tolerated),
      IN_A_DIRECTORY(shards_are_read_through_their_index),
      IN_A_DIRECTORY(broken_indices_are_refused),
      IN_A_DIRECTORY(a_directory_without_a_model_says_what_is_missing),
      IN_A_DIRECTORY(damaged_files_do_no_harm),
      IN_A_DIRECTORY(numbers_that_a_type_cannot_hold_are_refused_by_name),
      IN_A_DIRECTORY(a_head_with_values_of_its_own_unties_the_model),
      IN_A_DIRECTORY(tensors_of_types_that_no_model_has_may_be_left_over),
      cmocka_unit_test(reference_models_open),
      cmocka_unit_test(trained_models_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
