/* Tests that a gradient is reported as final once per trainable parameter and step, in the last micro-batch,
 * with the value that the update uses. */
#include "training.h"

#include "preset_config.h"
#include "train/trainer_private.h"

enum { STEPS = 2 };

/* The observed steps of one trainer. */
typedef struct watch {
  const char *name;
  int64_t micro_batches; /* micro-batches of a step */
  const ch_trainer *trainer;
  int params;
  int *told;     /* [params]: number of reports as final in this step */
  void **copies; /* [params]: gradients when they were reported as final */
} watch;

static void on_final(void *context, int parameter) {
  watch *w = context;
  const ch_parameter_set *set = &w->trainer->set;
  const ch_tensor *gradient = &set->gradients[parameter];
  int64_t begun = w->trainer->passes_done + 1; /* micro-batches begun in this step */
  if (begun != w->micro_batches)
    fail_msg("%s: the gradient of %s is called final in micro-batch %d of %d", w->name,
             set->params->rows[parameter].name, (int)begun, (int)w->micro_batches);
  w->told[parameter]++;
  memcpy(w->copies[parameter], gradient->data, ch_tensor_bytes(gradient));
}

/* Checks that the gradient of each trainable parameter was reported once and that the update did not change it. */
static void check_step(watch *w) {
  const ch_parameter_set *set = &w->trainer->set;
  for (int p = 0; p < w->params; p++) {
    const ch_param *param = &set->params->rows[p];
    if (w->told[p] != !param->frozen)
      fail_msg("%s: the gradient of %s is called final %d times", w->name, param->name, w->told[p]);
    if (w->told[p] && memcmp(w->copies[p], set->gradients[p].data, ch_tensor_bytes(&set->gradients[p])) != 0)
      fail_msg("%s: the gradient of %s changes after it was called final", w->name, param->name);
    w->told[p] = 0;
  }
}

static void check(const char *name, const ch_config *config, const ch_train_options *options) {
  ch_batch_source source = made_up_source();
  ch_trainer *trainer, *unwatched;
  assert_ok(ch_trainer_create(config, options, &source, &trainer, &failure));
  assert_ok(ch_trainer_create(config, options, &source, &unwatched, &failure));
  watch w = {.name = name,
             .trainer = trainer,
             .micro_batches = options->batch * options->accumulate / options->micro_batch,
             .params = ch_trainer_params(trainer)->count};
  w.told = calloc((size_t)w.params, sizeof *w.told);
  w.copies = calloc((size_t)w.params, sizeof *w.copies);
  for (int p = 0; p < w.params; p++) w.copies[p] = malloc(ch_tensor_bytes(&ch_trainer_weights(trainer)[p]));
  const ch_gradient_listener listener = {.final = on_final, .context = &w};
  trainer->listener = &listener;
  for (int step = 0; step < STEPS; step++) {
    ch_step_report report;
    assert_ok(ch_trainer_step(trainer, NULL, NULL, &report, &failure));
    check_step(&w);
    take_step(unwatched);
  }
  assert_same_state(trainer, unwatched);
  for (int p = 0; p < w.params; p++) free(w.copies[p]);
  free(w.copies);
  free(w.told);
  ch_trainer_free(trainer);
  ch_trainer_free(unwatched);
}

/* Checks one micro-batch, several with and without recomputed activations, and products in BF16. */
static void check_all_ways(const char *name, const ch_config *config) {
  ch_train_options options = test_options(STEPS);
  options.warmup = 0;
  options.batch = options.micro_batch = 2;
  check(name, config, &options);
  options.accumulate = 2;
  options.micro_batch = 1;
  check(name, config, &options);
  options.recompute = true;
  check(name, config, &options);
  options.dtype = CH_BF16;
  check(name, config, &options);
}

static void of_every_preset(void **state) {
  (void)state;
  const ch_preset *preset;
  for (int i = 0; (preset = ch_preset_at(i)); i++) {
    ch_config config = preset_config(preset->name);
    check_all_ways(preset->name, &config);
  }
}

static void of_atoms_that_layers_share_behind_mechanisms(void **state) {
  (void)state;
  static const char *const names[] = {"mla+masa-qkvo", "mfa+masa-qkvo"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    ch_config config = preset_config(names[i]);
    config.sharing.coefficients = CH_COEFFICIENTS_MLP;
    check_all_ways(names[i], &config);
  }
}

static void of_tied_and_untied_embeddings(void **state) {
  (void)state;
  ch_config config = test_config();
  assert_true(config.tie_word_embeddings);
  check_all_ways("tied", &config);
  config.tie_word_embeddings = false;
  check_all_ways("untied", &config);
}

static void of_experts_whose_bias_has_no_gradient(void **state) {
  (void)state;
  ch_config loss_free = test_config_with_experts(CH_BALANCE_LOSS_FREE),
            aux = test_config_with_experts(CH_BALANCE_AUX);
  aux.moe.first_dense_layers = 1;
  check_all_ways("loss-free balancing", &loss_free);
  check_all_ways("balance loss", &aux);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_every_preset),
      cmocka_unit_test(of_atoms_that_layers_share_behind_mechanisms),
      cmocka_unit_test(of_tied_and_untied_embeddings),
      cmocka_unit_test(of_experts_whose_bias_has_no_gradient),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
