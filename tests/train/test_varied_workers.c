/* Tests training while other programs use the processors: the number of workers changes from step to step,
 * and every model has the same bits as with all threads throughout. So has a model that is trained in two
 * parts. */
#include <omp.h>

#include "training.h"

#include "experiment/lineup/presets.h"
#include "sanitized.h"

enum { THREADS = 4, STEPS = 4, HALFWAY = 2 };

/* Returns a config wide enough for kernels to divide their work and for products of every kind to go to the
   library. */
static ch_config wide_config(const char *preset) {
  ch_shape_wishes wishes = {
      .vocab = TEST_VOCABULARY, .layers = 4, .hidden = 64, .heads = 4, .context = TEST_CONTEXT};
  ch_config config;
  assert_ok(ch_base_shape(&wishes, &config, &failure));
  assert_ok(ch_preset_apply(preset, &config, &failure));
  return config;
}

static ch_train_options wide_options(bool more) {
  ch_train_options options = test_options(STEPS);
  options.batch = 8;
  options.sequence = TEST_CONTEXT;
  options.warmup = 0;
  options.documents = more;
  options.accumulate = more ? 2 : 1;
  return options;
}

static ch_trainer *trainer_of(const ch_config *config, const ch_train_options *options, const char *workers) {
  ch_batch_source source = made_up_source();
  ch_trainer *trainer;
  assert_int_equal(setenv("CROSSHEAD_WORKERS", workers, 1), 0);
  assert_ok(ch_trainer_create(config, options, &source, &trainer, &failure));
  return trainer;
}

static void train(ch_trainer *trainer, int steps) {
  double loss;
  for (int i = 0; i < steps; i++) take_step(trainer);
  assert_ok(ch_trainer_evaluate(trainer, NULL, NULL, &loss, &failure));
}

static void check(const char *name, const ch_config *config, bool more, const char *checkpoint) {
  ch_train_options options = wide_options(more);
  ch_trainer *steady = trainer_of(config, &options, "all"), *varied = trainer_of(config, &options, "varied");
  print_message("%s%s\n", name, more ? ", documents, two batches a step, resumed" : "");
  train(steady, HALFWAY);
  train(varied, HALFWAY);
  assert_same_state(steady, varied);
  if (more) {
    assert_ok(ch_trainer_save(varied, checkpoint, &failure));
    ch_trainer_free(varied);
    varied = trainer_of(config, &options, "varied");
    assert_ok(ch_trainer_resume(varied, checkpoint, &failure));
  }
  train(steady, STEPS - HALFWAY);
  train(varied, STEPS - HALFWAY);
  assert_same_state(steady, varied);
  ch_trainer_free(steady);
  ch_trainer_free(varied);
}

static void every_preset_keeps_its_bits(void **state) {
  (void)state;
  char *directory = make_directory(), *checkpoint = ch_path_join(directory, "checkpoint.safetensors");
  const ch_preset *preset;
  for (int i = 0; (preset = ch_preset_at(i)); i++) {
    ch_config config = wide_config(preset->name);
    for (int more = SANITIZED; more < 2; more++) check(preset->name, &config, more, checkpoint);
  }
  free(checkpoint);
  remove_directory(directory);
}

/* With few tokens per expert, most products have sizes that occur once. */
static void experts_keep_their_bits(void **state) {
  (void)state;
  static const ch_balance balances[] = {CH_BALANCE_LOSS_FREE, CH_BALANCE_AUX};
  char *directory = make_directory(), *checkpoint = ch_path_join(directory, "checkpoint.safetensors");
  for (int i = 0; i < 2; i++) {
    ch_config config = wide_config("gqa");
    config.moe = test_config_with_experts(balances[i]).moe;
    config.moe.experts = 6;
    config.moe.expert_intermediate_size = 24;
    config.moe.first_dense_layers = 1;
    for (int more = SANITIZED; more < 2; more++)
      check(i ? "experts, balance loss" : "experts, loss-free", &config, more, checkpoint);
  }
  free(checkpoint);
  remove_directory(directory);
}

static void an_unknown_rule_is_refused(void **state) {
  (void)state;
  ch_config config = test_config();
  ch_train_options options = test_options(STEPS);
  ch_batch_source source = made_up_source();
  ch_trainer *trainer;
  ch_error error = {0};
  assert_int_equal(setenv("CROSSHEAD_WORKERS", "some", 1), 0);
  assert_int_equal(ch_trainer_create(&config, &options, &source, &trainer, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "CROSSHEAD_WORKERS is 'some'"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_preset_keeps_its_bits),
      cmocka_unit_test(experts_keep_their_bits),
      cmocka_unit_test(an_unknown_rule_is_refused),
  };
  omp_set_num_threads(THREADS);
  /* The library's products for AVX2 divide more sums among threads than those for AVX-512. */
  if (setenv("DNNL_MAX_CPU_ISA", "AVX2", 0) != 0) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
