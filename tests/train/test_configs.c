/* Tests the ready configurations of configs/: they load and train, and their names are right. */
#include "training.h"
#include "config_file/config_json.h"

static const char *const sizes[] = {"tiny", "small", "base"};
static const char *const kinds[] = {"mha", "gqa", "mqa"};

static ch_config ready_config(const char *size, const char *kind) {
  char path[512];
  ch_config config;
  snprintf(path, sizeof path, TEST_DATA "/../../configs/%s-%s.json", size, kind);
  assert_ok(ch_config_read(path, &config, &failure));
  return config;
}

static int64_t parameters_of(const ch_config *config) {
  ch_params params = {0};
  int64_t count = 0;
  assert_ok(ch_model_declare(config, &params, &failure));
  for (int p = 0; p < params.count; p++) count += ch_param_count(&params.rows[p]);
  ch_params_free(&params);
  return count;
}

static void every_size_comes_with_all_three_kinds_of_heads(void **state) {
  (void)state;
  int64_t last = 0;
  for (int i = 0; i < 3; i++) {
    ch_config mha = ready_config(sizes[i], kinds[0]), gqa = ready_config(sizes[i], kinds[1]),
              mqa = ready_config(sizes[i], kinds[2]);
    assert_int_equal(mha.num_key_value_heads, mha.num_attention_heads);
    assert_true(gqa.num_key_value_heads > 1 && gqa.num_key_value_heads < gqa.num_attention_heads);
    assert_int_equal(mqa.num_key_value_heads, 1);
    assert_int_equal(mha.hidden_size, mqa.hidden_size);
    assert_true(parameters_of(&mha) > 4 * last);
    last = parameters_of(&mha);
  }
}

static void the_tiny_ones_take_a_step(void **state) {
  (void)state;
  for (int k = 0; k < 3; k++) {
    ch_config config = ready_config("tiny", kinds[k]);
    ch_train_options options = test_options(1);
    options.warmup = 0;
    ch_batch_source source = made_up_source();
    ch_trainer *trainer;
    assert_ok(ch_trainer_create(&config, &options, &source, &trainer, &failure));
    double loss = take_step(trainer).loss;
    assert_true(fabs(loss - log((double)config.vocab_size)) < 0.1);
    ch_trainer_free(trainer);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_size_comes_with_all_three_kinds_of_heads),
      cmocka_unit_test(the_tiny_ones_take_a_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
