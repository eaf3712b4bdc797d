/* Tests training of mixtures of experts: loads, both ways of balancing, resuming, the log. */
#include "training.h"

#include "attention/registry.h"

#include <jansson.h>
#include <stdbool.h>

enum { EXPERTS = 5, ACTIVE = 2, LAYERS = 2 };

/* Returns a config of three layers, the first of them dense. */
static ch_config mixture(ch_balance balance) {
  ch_config config = test_config();
  config.num_hidden_layers = 3;
  config.moe = (ch_moe_config){.experts = EXPERTS,
                               .renormalise = true,
                               .scale = 1,
                               .active = ACTIVE,
                               .shared = 1,
                               .expert_intermediate_size = 20,
                               .first_dense_layers = 1,
                               .balance = balance,
                               .aux_coefficient = 0.01};
  return config;
}

static ch_trainer *make(const ch_config *config, const ch_train_options *options) {
  ch_batch_source source = made_up_source();
  ch_trainer *trainer;
  assert_ok(ch_trainer_create(config, options, &source, &trainer, &failure));
  return trainer;
}

static ch_trainer *trained(const ch_config *config, const ch_train_options *options) {
  ch_trainer *trainer = make(config, options);
  for (int64_t i = 0; i < options->steps; i++) take_step(trainer);
  return trainer;
}

static const ch_tensor *bias_in_layer(const ch_trainer *trainer, int layer) {
  char name[96];
  snprintf(name, sizeof name, "model.layers.%d.mlp.gate.e_score_correction_bias", layer);
  int p = ch_params_find(ch_trainer_params(trainer), name);
  assert_true(p >= 0);
  return &ch_trainer_weights(trainer)[p];
}

/* Returns the bias of a layer with experts, counted from the first of them. */
static const ch_tensor *bias_of(const ch_trainer *trainer, int layer) {
  return bias_in_layer(trainer, layer + 1);
}

/* --- loads and the bias ------------------------------------------------------------------------------------- */

static void loads_are_those_of_all_batches_of_a_step_and_of_no_evaluation(void **state) {
  (void)state;
  ch_config config = mixture(CH_BALANCE_NONE);
  ch_train_options options = test_options(3), cut = options;
  cut.batch = 2;
  cut.accumulate = 3;
  cut.micro_batch = 1;
  ch_trainer *whole = make(&config, &options), *parts = make(&config, &cut);
  double loss, least, most;
  assert_false(ch_trainer_expert_shares(whole, &least, &most));
  ch_step_report a = take_step(whole), b = take_step(parts);
  assert_int_equal(a.expert_layers, LAYERS);
  assert_int_equal(a.experts, EXPERTS);
  assert_memory_equal(a.expert_load, b.expert_load, LAYERS * EXPERTS * sizeof *a.expert_load);
  assert_true(a.balance_loss == 0);
  int64_t kept[LAYERS * EXPERTS], fewest = 1 << 30, largest = 0;
  memcpy(kept, a.expert_load, sizeof kept);
  for (int l = 0; l < LAYERS; l++) {
    int64_t sum = 0;
    for (int e = 0; e < EXPERTS; e++) {
      int64_t load = kept[l * EXPERTS + e];
      sum += load;
      fewest = load < fewest ? load : fewest;
      largest = load > largest ? load : largest;
    }
    assert_int_equal(sum, ch_train_step_tokens(&options) * ACTIVE);
  }
  assert_ok(ch_trainer_evaluate(whole, NULL, NULL, &loss, &failure));
  assert_memory_equal(kept, a.expert_load, sizeof kept);
  assert_true(ch_trainer_expert_shares(whole, &least, &most));
  double all = (double)(ch_train_step_tokens(&options) * ACTIVE);
  assert_true(least == (double)fewest / all && most == (double)largest / all);
  ch_trainer_free(whole);
  ch_trainer_free(parts);
}

/* Checks the biases of the layers with experts, whose indices are `layers`. */
static void check_biases(const ch_config *config, const int layers[LAYERS]) {
  ch_train_options options = test_options(3);
  options.lr = 0.1; /* an update by the optimizer would be large */
  ch_trainer *trainer = make(config, &options);
  float expected[LAYERS * EXPERTS] = {0};
  bool moved = false;
  for (int i = 0; i < 3; i++) {
    ch_step_report report = take_step(trainer);
    double mean = (double)(ch_train_step_tokens(&options) * ACTIVE) / EXPERTS;
    for (int k = 0; k < LAYERS * EXPERTS; k++) {
      double load = (double)report.expert_load[k];
      if (load < mean) expected[k] += 1e-3f;
      if (load > mean) expected[k] -= 1e-3f;
      moved = moved || load != mean;
    }
    assert_true(report.balance_loss == 0);
    for (int l = 0; l < LAYERS; l++)
      assert_memory_equal(bias_in_layer(trainer, layers[l])->data, expected + l * EXPERTS,
                          EXPERTS * sizeof(float));
  }
  assert_true(moved);
  ch_trainer_free(trainer);
}

static void a_bias_moves_by_a_thousandth_towards_even_loads_and_by_nothing_else(void **state) {
  (void)state;
  ch_config config = mixture(CH_BALANCE_LOSS_FREE);
  check_biases(&config, (int[]){1, 2});
}

static void loads_belong_to_their_layer_where_one_between_is_dense(void **state) {
  (void)state;
  ch_config config = mixture(CH_BALANCE_LOSS_FREE);
  config.moe.first_dense_layers = 0;
  config.moe.dense_layers[1] = true;
  check_biases(&config, (int[]){0, 2});
}

/* By Su 2025, a bias moves by the imbalance over the root of its mean square, so that biases of experts near the
   mean hardly move. */
static void a_bias_can_move_by_its_share_of_the_imbalance(void **state) {
  (void)state;
  ch_config config = mixture(CH_BALANCE_LOSS_FREE);
  config.moe.balance_update = CH_BALANCE_RMS;
  ch_train_options options = test_options(3);
  ch_trainer *trainer = make(&config, &options);
  double expected[LAYERS * EXPERTS] = {0};
  for (int i = 0; i < 3; i++) {
    ch_step_report report = take_step(trainer);
    double mean = (double)(ch_train_step_tokens(&options) * ACTIVE) / EXPERTS, sizes[2] = {0};
    for (int l = 0; l < LAYERS; l++) {
      double squares = 0;
      for (int e = 0; e < EXPERTS; e++) {
        double lack = mean - (double)report.expert_load[l * EXPERTS + e];
        squares += lack * lack / EXPERTS;
      }
      for (int e = 0; e < EXPERTS; e++) {
        double lack = mean - (double)report.expert_load[l * EXPERTS + e], by = 1e-3 * lack / sqrt(squares);
        expected[l * EXPERTS + e] += by;
        sizes[l] += by * by / EXPERTS;
        assert_true(fabs((double)((float *)bias_of(trainer, l)->data)[e] - expected[l * EXPERTS + e]) < 1e-8);
      }
      assert_true(fabs(sqrt(sizes[l]) - 1e-3) < 1e-9);
    }
  }
  ch_trainer_free(trainer);
}

static float *weight_named(ch_trainer *trainer, const char *name) {
  int p = ch_params_find(ch_trainer_params(trainer), name);
  assert_true(p >= 0);
  return ch_trainer_weights(trainer)[p].data;
}

/* Makes expert 0 the favourite in both layers with experts: every token has a component in the first dimension, and
   expert 0 has a positive router weight there. */
static void favour_an_expert(ch_trainer *trainer) {
  float *embedding = weight_named(trainer, "model.embed_tokens.weight");
  for (int v = 0; v < TEST_VOCABULARY; v++) embedding[v * 32] = 0.2f;
  weight_named(trainer, "model.layers.1.mlp.gate.weight")[0] = 0.05f;
  weight_named(trainer, "model.layers.2.mlp.gate.weight")[0] = 0.05f;
}

/* Returns the largest share of any expert, averaged over the last ten of fifty steps. */
static double largest_share(ch_balance balance, double coefficient) {
  ch_config config = mixture(balance);
  config.moe.aux_coefficient = coefficient;
  ch_train_options options = test_options(50);
  options.lr = 1e-3;
  options.schedule = CH_TRAIN_CONSTANT;
  ch_trainer *trainer = make(&config, &options);
  favour_an_expert(trainer);
  double sum = 0;
  for (int i = 0; i < 50; i++) {
    double least, most;
    take_step(trainer);
    assert_true(ch_trainer_expert_shares(trainer, &least, &most));
    if (i >= 40) sum += most;
  }
  ch_trainer_free(trainer);
  return sum / 10;
}

static void both_ways_of_balancing_make_loads_more_even(void **state) {
  (void)state;
  double none = largest_share(CH_BALANCE_NONE, 0.01);
  double aux = largest_share(CH_BALANCE_AUX, 0.3), loss_free = largest_share(CH_BALANCE_LOSS_FREE, 0.01);
  print_message("largest share: none %.3f, aux %.3f, loss-free %.3f\n", none, aux, loss_free);
  assert_true(aux < none - 0.02 && loss_free < none - 0.02);
}

/* --- the balance loss --------------------------------------------------------------------------------------- */

static void the_balance_loss_moves_the_router_but_is_no_part_of_the_loss(void **state) {
  (void)state;
  ch_config aux = mixture(CH_BALANCE_AUX), none = mixture(CH_BALANCE_NONE);
  ch_train_options options = test_options(3);
  options.dtype = CH_F64;
  ch_trainer *with = make(&aux, &options), *without = make(&none, &options);
  ch_step_report a = take_step(with), b = take_step(without);
  assert_true(a.loss == b.loss);
  assert_true(a.grad_norm != b.grad_norm);
  /* With nearly even probabilities the loss is about the coefficient per layer, for any loads. */
  assert_true(fabs(a.balance_loss - 0.01 * LAYERS) < 0.001 && b.balance_loss == 0);
  double left, right;
  assert_ok(ch_trainer_evaluate(with, NULL, NULL, &left, &failure));
  assert_ok(ch_trainer_evaluate(without, NULL, NULL, &right, &failure));
  assert_true(left != right && fabs(left - right) < 0.01);
  ch_trainer_free(with);
  ch_trainer_free(without);
}

/* The choice of heads has a balance loss too. With even probabilities it is the coefficient times the number of
   active heads per layer. */
static void choices_of_heads_are_balanced_in_the_same_way(void **state) {
  (void)state;
  enum { CHOSEN = 2 };
  ch_config config = test_config();
  ch_config_set_mechanism(&config, "moh");
  config.attention.active_heads = CHOSEN;
  config.attention.balance_coefficient = 0.01;
  ch_config none = config;
  none.attention.balance_coefficient = 0;
  ch_train_options options = test_options(3);
  options.dtype = CH_F64;
  ch_trainer *with = make(&config, &options), *without = make(&none, &options);
  ch_step_report a = take_step(with), b = take_step(without);
  assert_true(a.loss == b.loss && a.grad_norm != b.grad_norm);
  assert_true(fabs(a.balance_loss - 0.01 * CHOSEN * (double)config.num_hidden_layers) < 0.002);
  assert_true(b.balance_loss == 0 && a.expert_layers == 0);
  ch_trainer_free(with);
  ch_trainer_free(without);
}

static void ways_to_cut_a_step_give_one_result(void **state) {
  (void)state;
  for (int balance = CH_BALANCE_AUX; balance <= CH_BALANCE_LOSS_FREE; balance++) {
    ch_config config = mixture((ch_balance)balance);
    ch_train_options whole = test_options(3), cut;
    whole.dtype = CH_F64;
    whole.batch = whole.micro_batch = 6;
    cut = whole;
    cut.batch = 3;
    cut.accumulate = 2;
    cut.micro_batch = 1;
    ch_trainer *a = trained(&config, &whole), *b = trained(&config, &cut);
    const ch_params *params = ch_trainer_params(a);
    for (int p = 0; p < params->count; p++)
      for (int64_t i = 0; i < ch_param_count(&params->rows[p]); i++) {
        double left = ((double *)ch_trainer_weights(a)[p].data)[i];
        double right = ((double *)ch_trainer_weights(b)[p].data)[i];
        if (!(fabs(left - right) <= 1e-10))
          fail_msg("%s differs: %.12g, %.12g", params->rows[p].name, left, right);
      }
    ch_trainer_free(a);
    ch_trainer_free(b);
  }
}

/* --- resuming and the log ----------------------------------------------------------------------------------- */

static void a_resumed_mixture_equals_an_unbroken_one_to_the_last_bit(void **state) {
  (void)state;
  for (int balance = CH_BALANCE_AUX; balance <= CH_BALANCE_LOSS_FREE; balance++) {
    char *directory = make_directory(), *path = ch_path_join(directory, "checkpoint.safetensors");
    ch_config config = mixture((ch_balance)balance);
    ch_train_options options = test_options(8);
    ch_trainer *unbroken = trained(&config, &options), *first = make(&config, &options);
    for (int i = 0; i < 5; i++) take_step(first);
    assert_ok(ch_trainer_save(first, path, &failure));
    ch_trainer_free(first);
    ch_trainer *second = make(&config, &options);
    assert_ok(ch_trainer_resume(second, path, &failure));
    for (int i = 5; i < 8; i++) take_step(second);
    assert_same_state(unbroken, second);
    if (balance == CH_BALANCE_LOSS_FREE) {
      const float *bias = bias_of(second, 1)->data;
      double size = 0;
      for (int e = 0; e < EXPERTS; e++) size += fabs((double)bias[e]);
      assert_true(size > 1e-3);
    }
    ch_trainer_free(unbroken);
    ch_trainer_free(second);
    free(path);
    remove_directory(directory);
  }
}

static void every_step_in_the_log_has_the_load_of_every_expert(void **state) {
  (void)state;
  char *directory = make_directory();
  ch_config config = mixture(CH_BALANCE_AUX);
  ch_train_options options = test_options(3);
  ch_trainer *trainer = make(&config, &options);
  assert_ok(ch_train_run(trainer, directory, false, NULL, &failure));
  char *text = read_whole(directory, CH_TRAIN_LOG);
  int steps = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    json_t *object = json_loads(line, 0, NULL), *load = json_object_get(object, "expert_load");
    assert_non_null(object);
    bool step = strcmp(json_string_value(json_object_get(object, "event")), "step") == 0;
    assert_true((load != NULL) == step);
    if (step) {
      assert_true(json_real_value(json_object_get(object, "balance_loss")) > 0);
      assert_int_equal(json_array_size(load), LAYERS);
      for (size_t l = 0; l < LAYERS; l++) {
        json_int_t sum = 0;
        assert_int_equal(json_array_size(json_array_get(load, l)), EXPERTS);
        for (size_t e = 0; e < EXPERTS; e++)
          sum += json_integer_value(json_array_get(json_array_get(load, l), e));
        assert_int_equal(sum, ch_train_step_tokens(&options) * ACTIVE);
      }
      steps++;
    }
    json_decref(object);
  }
  assert_int_equal(steps, 3);
  free(text);
  ch_trainer_free(trainer);
  remove_directory(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loads_are_those_of_all_batches_of_a_step_and_of_no_evaluation),
      cmocka_unit_test(a_bias_moves_by_a_thousandth_towards_even_loads_and_by_nothing_else),
      cmocka_unit_test(loads_belong_to_their_layer_where_one_between_is_dense),
      cmocka_unit_test(a_bias_can_move_by_its_share_of_the_imbalance),
      cmocka_unit_test(both_ways_of_balancing_make_loads_more_even),
      cmocka_unit_test(the_balance_loss_moves_the_router_but_is_no_part_of_the_loss),
      cmocka_unit_test(choices_of_heads_are_balanced_in_the_same_way),
      cmocka_unit_test(ways_to_cut_a_step_give_one_result),
      cmocka_unit_test(a_resumed_mixture_equals_an_unbroken_one_to_the_last_bit),
      cmocka_unit_test(every_step_in_the_log_has_the_load_of_every_expert),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
