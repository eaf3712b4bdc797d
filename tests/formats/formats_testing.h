/* Shared by the tests of formats: scratch directories, importing, and logits against a reference. */
#ifndef TESTS_FORMATS_TESTING_H
#define TESTS_FORMATS_TESTING_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "formats/source.h"
#include "infer/api_forward.h"
#include "io/model_files.h"
#include "train/initialise.h"

static ch_error problem;

static inline void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", problem.message);
}

/* Creates a directory. scratch_end removes it with the files that tests write there. */
static inline void scratch_begin(char directory[64]) {
  strcpy(directory, "/tmp/crosshead-formats-XXXXXX");
  assert_non_null(mkdtemp(directory));
}

static inline void scratch_end(const char *directory) {
  char command[160];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  assert_int_equal(system(command), 0);
}

static inline void skip_without(const char *path) {
  if (access(path, R_OK) == 0) return;
  print_message("%s is not there: skipped\n", path);
  skip();
}

/* Imports `path` into DIRECTORY/model and stores that name in `model`. */
static inline void import_model(const char *path, const char *tokenizer, const char *directory,
                                char model[96]) {
  ch_source source;
  snprintf(model, 96, "%s/model", directory);
  must(ch_source_open(path, tokenizer, &source, &problem));
  must(ch_source_write(&source, model, &(ch_source_writing){0}, &problem));
  ch_source_close(&source);
}

/* Writes a model with the initial weights of seed 4. Frees the parameters. */
static inline void write_model(const char *directory, const ch_config *config, ch_params *params,
                               ch_dtype dtype) {
  ch_tensor *tensors = calloc((unsigned)params->count, sizeof *tensors);
  for (int p = 0; p < params->count; p++) {
    tensors[p] = (ch_tensor){.dtype = CH_F32, .rank = params->rows[p].rank};
    memcpy(tensors[p].shape, params->rows[p].shape, sizeof tensors[p].shape);
    tensors[p].data = calloc((size_t)ch_param_count(&params->rows[p]), sizeof(float));
  }
  ch_initialise(params, 4, tensors);
  must(ch_model_write(directory, config, params, tensors, dtype, &problem));
  for (int p = 0; p < params->count; p++) free(tensors[p].data);
  free(tensors);
  ch_params_free(params);
}

/* Returns the largest difference between a model's logits and a reference file's, in units of the largest
   logit. */
static inline double logit_difference(const char *model_directory, const char *reference,
                                      const char *tokens_name, const char *logits_name) {
  ch_safetensors file;
  ch_model *model;
  ch_forward_result result;
  must(ch_safetensors_open(reference, &file, &problem));
  must(ch_model_load(model_directory, CH_WEIGHTS_MAPPED, &model, &problem));
  const ch_stored_tensor *tokens = ch_safetensors_find(&file, tokens_name);
  const ch_stored_tensor *logits = ch_safetensors_find(&file, logits_name);
  assert_non_null(tokens);
  assert_non_null(logits);
  ch_forward_request request = {
      .tokens = tokens->tensor.data, .sequences = tokens->tensor.shape[0], .length = tokens->tensor.shape[1]};
  must(ch_forward(model, &request, &result, &problem));
  const float *expected = logits->tensor.data;
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < ch_tensor_count(&logits->tensor); i++) {
    worst = fmax(worst, fabs((double)result.logits[i] - expected[i]));
    largest = fmax(largest, fabs((double)expected[i]));
  }
  ch_forward_result_free(&result);
  ch_model_unload(model);
  ch_safetensors_close(&file);
  return worst / largest;
}

#endif
