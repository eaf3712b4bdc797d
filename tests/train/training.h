/* Helpers of the training tests: a small config, synthetic text, a temporary directory. */
#ifndef TESTS_TRAIN_TRAINING_H
#define TESTS_TRAIN_TRAINING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/random.h"
#include "base/text.h"
#include "config_file/config_json.h"
#include "train/run.h"

enum { TEST_VOCABULARY = 97, TEST_CONTEXT = 48, TEST_VALIDATION = 5 };

/* Runs a call whose last argument is `&failure`. Fails the test with the error message if the call fails. */
#define assert_ok(call)                                                                                      \
  do {                                                                                                       \
    ch_error failure = {0};                                                                                  \
    if ((call) != CH_OK) fail_msg("%s: %s", #call, failure.message);                                         \
  } while (0)

/* Returns a config of two layers, with 4 query and 2 key-value heads. */
static inline ch_config test_config(void) {
  ch_config config;
  ch_error error = {0};
  const char *text = "{\"model_type\": \"crosshead\", \"vocab_size\": 97, \"hidden_size\": 32, "
                     "\"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                     "\"num_key_value_heads\": 2, \"max_position_embeddings\": 48, "
                     "\"attention\": {\"type\": \"gqa\", \"qk_norm\": true}, \"tie_word_embeddings\": true}";
  if (ch_config_parse(text, "test config", &config, &error) != CH_OK) fail_msg("%s", error.message);
  return config;
}

/* Returns test_config with four experts in every layer. */
static inline ch_config test_config_with_experts(ch_balance balance) {
  ch_config config = test_config();
  config.moe = (ch_moe_config){.experts = 4,
                               .renormalise = true,
                               .scale = 1,
                               .active = 2,
                               .shared = 1,
                               .expert_intermediate_size = 20,
                               .balance = balance,
                               .aux_coefficient = 0.01};
  return config;
}

/* Writes sequence `index` of the synthetic text: arithmetic progressions with random starts and strides, so that
   there is something to learn. Every third sequence is two documents. */
static inline void made_up_sequence(const ch_batch *batch, int64_t row, int64_t index, uint64_t stream) {
  ch_random random;
  ch_random_seed(&random, (uint64_t)index, stream);
  int64_t at = row * batch->length, half = batch->length / 2;
  int32_t value = 0, stride = 1;
  for (int64_t t = 0; t <= batch->length; t++) {
    bool begins = t == 0 || (index % 3 == 0 && t == half);
    if (begins) {
      value = (int32_t)ch_random_below(&random, TEST_VOCABULARY);
      stride = 1 + (int32_t)ch_random_below(&random, 3);
    } else {
      value = (value + stride) % TEST_VOCABULARY;
    }
    if (t < batch->length) batch->tokens[at + t] = value;
    if (t > 0) batch->targets[at + t - 1] = begins ? -1 : value;
    if (batch->document_start && t < batch->length)
      batch->document_start[at + t] = index % 3 == 0 && t >= half ? (int32_t)half : 0;
  }
}

static inline ch_status made_up_train(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  (void)context;
  (void)error;
  for (int64_t s = 0; s < batch->sequences; s++) made_up_sequence(batch, s, first + s, 1);
  return CH_OK;
}

static inline ch_status made_up_validate(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  (void)context;
  (void)error;
  for (int64_t s = 0; s < batch->sequences; s++) {
    made_up_sequence(batch, s, first + s, 2);
    for (int64_t t = 0; first + s >= TEST_VALIDATION && t < batch->length; t++)
      batch->targets[s * batch->length + t] = -1;
  }
  return CH_OK;
}

static inline ch_batch_source made_up_source(void) {
  return (ch_batch_source){.train = made_up_train,
                           .validate = made_up_validate,
                           .validation_sequences = TEST_VALIDATION,
                           .fingerprint = "made up"};
}

static inline ch_train_options test_options(int64_t steps) {
  ch_config config = test_config();
  ch_train_options options;
  ch_train_options_default(&config, &options);
  options.steps = steps;
  options.batch = 6;
  options.sequence = 24;
  options.lr = 5e-3;
  options.warmup = 2;
  options.eval_every = 4;
  options.eval_tokens = 0;
  options.seed = 5;
  return options;
}

static inline ch_trainer *make_trainer(const ch_train_options *options) {
  ch_config config = test_config();
  ch_batch_source source = made_up_source();
  ch_trainer *trainer;
  assert_ok(ch_trainer_create(&config, options, &source, &trainer, &failure));
  return trainer;
}

static inline ch_step_report take_step(ch_trainer *trainer) {
  ch_step_report report = {0};
  assert_ok(ch_trainer_step(trainer, NULL, NULL, &report, &failure));
  return report;
}

/* Fails unless both trainers have the same bits: weights, and losses so far. */
static inline void assert_same_state(const ch_trainer *a, const ch_trainer *b) {
  const ch_params *params = ch_trainer_params(a);
  for (int p = 0; p < params->count; p++)
    if (memcmp(ch_trainer_weights(a)[p].data, ch_trainer_weights(b)[p].data,
               ch_tensor_bytes(&ch_trainer_weights(a)[p])) != 0)
      fail_msg("%s differs", params->rows[p].name);
  ch_progress_record left, right;
  ch_trainer_progress(a, &left);
  ch_trainer_progress(b, &right);
  assert_int_equal(left.step, right.step);
  assert_int_equal(left.validation_points, right.validation_points);
  assert_memory_equal(left.losses, right.losses, (size_t)left.step * sizeof *left.losses);
  for (int64_t i = 0; i < left.validation_points; i++) {
    assert_int_equal(left.validation[i].step, right.validation[i].step);
    assert_memory_equal(&left.validation[i].loss, &right.validation[i].loss, sizeof(double));
  }
}

/* Creates a temporary directory and returns its path. Release both with remove_directory. */
static inline char *make_directory(void) {
  const char *base = getenv("TMPDIR");
  char *path = malloc(512);
  snprintf(path, 512, "%s/crosshead-test-XXXXXX", base ? base : "/tmp");
  assert_non_null(mkdtemp(path));
  return path;
}

static inline void remove_directory(char *path) {
  char command[600];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  assert_int_equal(system(command), 0);
  free(path);
}

static inline char *read_whole(const char *directory, const char *name) {
  char *path = ch_path_join(directory, name), *text = NULL;
  assert_ok(ch_read_file(path, 1 << 24, &text, NULL, &failure));
  free(path);
  return text;
}

static inline int count_of(const char *text, const char *part) {
  int count = 0;
  for (const char *p = text; (p = strstr(p, part)); p += strlen(part)) count++;
  return count;
}

#endif
