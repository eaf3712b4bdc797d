/* Tests the reference, with which the other tests compare the library, against golden cases of a third
 * implementation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/reference/reference.h"
#include "base/file.h"
#include "golden.h"
#include "io/safetensors.h"

#define CASES SHARED_DATA "/vectors"

static char *case_file(const char *name, const char *file) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s/%s", CASES, name, file);
  return path;
}

static void open_file(const char *name, const char *file, ch_safetensors *opened) {
  ch_error error = {0};
  if (ch_safetensors_open(case_file(name, file), opened, &error) != CH_OK) fail_msg("%s", error.message);
}

static json_t *read_json(const char *name, const char *file) {
  json_t *root = json_load_file(case_file(name, file), 0, NULL);
  assert_non_null(root);
  return root;
}

/* Converts all tensors to double. Their data is one block, which begins with the first tensor. */
static reference_weights widen(const ch_safetensors *file) {
  int64_t total = 0;
  assert_true(file->count > 0);
  for (int64_t i = 0; i < file->count; i++) total += ch_tensor_count(&file->tensors[i].tensor);
  double *block = malloc((size_t)total * sizeof *block), *next = block;
  int count = (int)file->count;
  reference_weights weights = {calloc((unsigned)count, sizeof *weights.tensors), count};
  for (int64_t i = 0; i < file->count; i++) {
    const ch_tensor *tensor = &file->tensors[i].tensor;
    assert_int_equal(tensor->dtype, CH_F32);
    reference_tensor *wide = &weights.tensors[i];
    *wide = (reference_tensor){.name = file->tensors[i].name, .rank = tensor->rank, .data = next};
    memcpy(wide->shape, tensor->shape, sizeof wide->shape);
    for (int64_t e = 0; e < ch_tensor_count(tensor); e++) {
      float value;
      memcpy(&value, (const char *)tensor->data + 4 * e, sizeof value);
      *next++ = value;
    }
  }
  return weights;
}

static void free_weights(reference_weights *weights) {
  free((double *)weights->tensors[0].data);
  free(weights->tensors);
}

static int32_t *read_tokens(const ch_safetensors *file, int64_t *sequences, int64_t *length) {
  const ch_stored_tensor *stored = ch_safetensors_find(file, "tokens");
  assert_non_null(stored);
  *sequences = stored->tensor.shape[0];
  *length = stored->tensor.shape[1];
  int32_t *tokens = malloc((size_t)(*sequences * *length) * sizeof *tokens);
  for (int64_t i = 0; i < *sequences * *length; i++) {
    int64_t id;
    memcpy(&id, (const char *)stored->tensor.data + 8 * i, sizeof id);
    tokens[i] = (int32_t)id;
  }
  return tokens;
}

/* Compares logits with the golden ones, which are stored as F32. */
static void compare_logits(const char *name, const double *logits, int64_t count) {
  ch_safetensors file;
  open_file(name, "expected.safetensors", &file);
  const ch_stored_tensor *expected = ch_safetensors_find(&file, "logits");
  assert_non_null(expected);
  assert_int_equal(ch_tensor_count(&expected->tensor), count);
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < count; i++) {
    float value;
    memcpy(&value, (const char *)expected->tensor.data + 4 * i, sizeof value);
    worst = fmax(worst, fabs(logits[i] - (double)value));
    largest = fmax(largest, fabs((double)value));
  }
  if (!(worst <= 1e-6 * largest)) fail_msg("%s: logits differ by %g of the largest", name, worst / largest);
  ch_safetensors_close(&file);
}

static void compare_figures(const char *name, const reference_config *config) {
  reference_figures f;
  reference_count(config, &f);
  const struct {
    const char *key;
    int64_t value;
  } figures[] = {{"parameters_total", f.parameters_total},
                 {"parameters_attention", f.parameters_attention},
                 {"parameters_embedding", f.parameters_embedding},
                 {"parameters_gate_embedding", f.parameters_gate_embedding},
                 {"parameters_active", f.parameters_active},
                 {"cache_elements_per_token", f.cache_elements},
                 {"total_effective_rank", f.total_effective_rank},
                 {"shared_latent_dim", f.shared_latent_dim}};
  json_t *info = read_json(name, "info.json");
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    const json_t *value = json_object_get(json_object_get(info, "figures"), figures[i].key);
    if (!value) value = json_object_get(json_object_get(info, "figures_proposed"), figures[i].key);
    if (value && json_integer_value(value) != figures[i].value)
      fail_msg("%s: %s is %lld by formula and %lld in the case", name, figures[i].key,
               (long long)figures[i].value, (long long)json_integer_value(value));
  }
  json_decref(info);
}

static void check_case(const char *name) {
  char *text = NULL;
  ch_error error = {0};
  if (ch_read_file(case_file(name, "config.json"), 1 << 20, &text, NULL, &error) != CH_OK)
    fail_msg("%s", error.message);
  reference_config config;
  reference_config_parse(text, &config);
  free(text);
  ch_safetensors model, token_file;
  open_file(name, "model.safetensors", &model);
  open_file(name, "tokens.safetensors", &token_file);
  int64_t sequences, length;
  int32_t *tokens = read_tokens(&token_file, &sequences, &length);
  reference_weights weights = widen(&model);
  double *logits = malloc((size_t)(sequences * length * config.vocab) * sizeof *logits);
  double loss = reference_forward(&config, &weights, tokens, sequences, length, NULL, logits);
  compare_logits(name, logits, sequences * length * config.vocab);
  json_t *info = read_json(name, "info.json");
  double expected = json_number_value(json_object_get(info, "loss"));
  if (!(fabs(loss - expected) <= 1e-9 * expected))
    fail_msg("%s: loss %.15g, expected %.15g", name, loss, expected);
  json_decref(info);
  compare_figures(name, &config);
  free(logits);
  free_weights(&weights);
  free(tokens);
  ch_safetensors_close(&model);
  ch_safetensors_close(&token_file);
}

static void the_reference_reproduces_every_golden_case(void **state) {
  (void)state;
  DIR *directory = opendir(CASES);
  if (!directory) {
    print_message("no golden cases at %s: skipped\n", CASES);
    skip();
  }
  int cases = 0;
  for (struct dirent *entry; (entry = readdir(directory));) {
    if (entry->d_name[0] == '.' || !ch_is_file(case_file(entry->d_name, "config.json"))) continue;
    if (golden_case_is_pending(entry->d_name)) continue;
    check_case(entry->d_name);
    cases++;
  }
  closedir(directory);
  print_message("%d golden cases\n", cases);
  assert_true(cases > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_reference_reproduces_every_golden_case)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
