/* Helpers of the tests of model directories: a small model in memory, a scratch directory, and checks of files. */
#ifndef CH_TEST_MODEL_DIRECTORY_H
#define CH_TEST_MODEL_DIRECTORY_H

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
#include "config_file/config_json.h"
#include "io/model_files.h"
#include "model/transformer.h"
#include "tensor/kernels.h"

/* --- a small model in memory -------------------------------------------------------------------------------- */

typedef struct model {
  ch_config config;
  ch_params params;
  ch_tensor *tensors; /* [params.count] in F32 */
} model;

static inline void make_model(const char *json, model *m) {
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

static inline void free_model(model *m) {
  for (int i = 0; i < m->params.count; i++) free(m->tensors[i].data);
  free(m->tensors);
  ch_params_free(&m->params);
}

#define SIZES                                                                                                \
  "\"vocab_size\": 11, \"hidden_size\": 12, \"intermediate_size\": 10, \"num_hidden_layers\": 2,"            \
  "\"num_attention_heads\": 3, \"num_key_value_heads\": 1, \"head_dim\": 4, "
static const char ours[] =
    "{\"model_type\": \"crosshead\", " SIZES "\"attention\": {\"type\": \"gqa\", \"qk_norm\": true}}";
/* A config with always_real matrices: the mixes over heads. */
static const char talking[] =
    "{\"model_type\": \"crosshead\", \"vocab_size\": 11, \"hidden_size\": 12,"
    "\"intermediate_size\": 10, \"num_hidden_layers\": 2, \"num_attention_heads\": 3,"
    "\"attention\": {\"type\": \"talking\"}}";
static const char tied[] = "{\"model_type\": \"llama\", " SIZES "\"tie_word_embeddings\": true}";

/* --- a scratch directory ------------------------------------------------------------------------------------ */

static char directory[64];

static inline int make_directory(void **state) {
  (void)state;
  strcpy(directory, "/tmp/crosshead-test-XXXXXX");
  return mkdtemp(directory) ? 0 : -1;
}

static inline int remove_directory(void **state) {
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

static inline void put_file(const char *name, const void *data, size_t size) {
  char *path = ch_path_join(directory, name);
  ch_error error;
  if (ch_write_file(path, data, size, &error) != CH_OK) fail_msg("%s", error.message);
  free(path);
}

static inline void put_tensors(const char *name, const ch_stored_tensor *tensors, int64_t count) {
  char *path = ch_path_join(directory, name);
  ch_error error;
  if (ch_safetensors_write(path, tensors, count, NULL, &error) != CH_OK) fail_msg("%s", error.message);
  free(path);
}

/* Returns the model's tensors for a file, in an array with space for `room` more. The caller frees it. */
static inline ch_stored_tensor *stored_tensors(const model *m, int room) {
  ch_stored_tensor *stored = calloc((size_t)(unsigned)(m->params.count + room), sizeof *stored);
  for (int i = 0; i < m->params.count; i++)
    stored[i] = (ch_stored_tensor){.name = (char *)m->params.rows[i].name, .tensor = m->tensors[i]};
  return stored;
}

static inline ch_status open_as(const model *m, ch_weights_mode mode, ch_error *error) {
  ch_weights weights;
  ch_status status = ch_weights_open(directory, &m->config, &m->params, mode, &weights, error);
  ch_weights_close(&weights);
  return status;
}

static inline void assert_opens(const model *m) {
  ch_error error = {0};
  if (open_as(m, CH_WEIGHTS_MAPPED, &error) != CH_OK) fail_msg("%s", error.message);
  if (open_as(m, CH_WEIGHTS_F32, &error) != CH_OK) fail_msg("%s", error.message);
}

static inline void assert_refused(const model *m, ch_weights_mode mode, ch_status code, const char *words) {
  ch_error error = {0};
  ch_status status = open_as(m, mode, &error);
  if (status != code || !strstr(error.message, words) || !strstr(error.message, directory) ||
      strchr(error.message, '\n'))
    fail_msg("status %d, \"%s\" where %d with \"%s\" is needed", status, error.message, code, words);
}

/* --- reading ------------------------------------------------------------------------------------------------ */

static inline double value_at(const ch_tensor *tensor, int64_t i) {
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

static inline bool inside_a_mapping(const ch_weights *weights, const void *data) {
  for (int s = 0; s < weights->shard_count; s++) {
    const ch_map *map = &weights->shards[s].map;
    if ((const unsigned char *)data >= map->data && (const unsigned char *)data < map->data + map->size)
      return true;
  }
  return false;
}

/* Opens the directory in a mode. Checks values, with a relative rounding of at most `epsilon`, types, and memory. */
static inline void check_weights(const model *m, ch_dtype stored, ch_weights_mode mode, double epsilon) {
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

#define IN_A_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

#endif
