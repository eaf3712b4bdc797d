/* Tests learning rates step by step, and the options' defaults, checks and JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "config_file/config_json.h"
#include "train/options_json.h"
#include "train/schedule.h"

static ch_config a_config(void) {
  ch_config config;
  ch_config_defaults(&config);
  config.max_position_embeddings = 256;
  return config;
}

static ch_train_options some_options(void) {
  ch_config config = a_config();
  ch_train_options options;
  ch_train_options_default(&config, &options);
  options.steps = 100;
  return options;
}

static void assert_near(double value, double expected) {
  if (fabs(value - expected) > 1e-12 * fabs(expected) + 1e-300)
    fail_msg("%.17g where %.17g was expected", value, expected);
}

static void a_cosine_warms_up_to_the_peak_and_ends_at_a_tenth(void **state) {
  (void)state;
  ch_train_options options = some_options();
  options.lr = 0.5;
  options.warmup = 9;
  assert_near(ch_schedule_lr(&options, 1), 0.05);
  assert_near(ch_schedule_lr(&options, 5), 0.25);
  assert_near(ch_schedule_lr(&options, 10), 0.5);
  assert_near(ch_schedule_lr(&options, 55), 0.5 * 0.55); /* half way down */
  assert_near(ch_schedule_lr(&options, 100), 0.05);
  for (int64_t step = 11; step <= 100; step++)
    assert_true(ch_schedule_lr(&options, step) < ch_schedule_lr(&options, step - 1));
}

static void a_cosine_to_zero_gets_there_after_the_last_step(void **state) {
  (void)state;
  ch_train_options options = some_options();
  options.schedule = CH_TRAIN_COSINE_TO_ZERO;
  options.lr = 0.5;
  options.warmup = 0;
  options.steps = 99;
  assert_near(ch_schedule_lr(&options, 1), 0.5);
  assert_near(ch_schedule_lr(&options, 1 + 49), 0.25 * (1 + cos(3.14159265358979323846 * 49 / 99)));
  assert_true(ch_schedule_lr(&options, 99) > 0);
  assert_true(ch_schedule_lr(&options, 99) < 0.001);
  assert_true(fabs(ch_schedule_lr(&options, 100)) < 1e-12);
}

static void a_constant_rate_stays_at_the_peak(void **state) {
  (void)state;
  ch_train_options options = some_options();
  options.schedule = CH_TRAIN_CONSTANT;
  options.lr = 0.5;
  options.warmup = 3;
  assert_near(ch_schedule_lr(&options, 1), 0.125);
  assert_near(ch_schedule_lr(&options, 4), 0.5);
  assert_near(ch_schedule_lr(&options, 100), 0.5);
}

static void without_warm_up_the_first_step_has_the_peak(void **state) {
  (void)state;
  ch_train_options options = some_options();
  options.warmup = 0;
  assert_near(ch_schedule_lr(&options, 1), options.lr);
  options.steps = 1;
  assert_near(ch_schedule_lr(&options, 1), options.lr);
}

static void the_default_warm_up_is_a_twentieth_and_at_most_a_thousand(void **state) {
  (void)state;
  ch_train_options options = some_options();
  assert_int_equal(ch_schedule_warmup(&options), 5);
  options.steps = 10;
  assert_int_equal(ch_schedule_warmup(&options), 0);
  options.steps = 1000000;
  assert_int_equal(ch_schedule_warmup(&options), 1000);
  options.warmup = 0;
  assert_int_equal(ch_schedule_warmup(&options), 0);
}

static void the_defaults_are_those_of_the_specification(void **state) {
  (void)state;
  ch_train_options options = some_options();
  assert_true(options.beta1 == 0.9 && options.beta2 == 0.95 && options.eps == 1e-8);
  assert_true(options.weight_decay == 0.1 && options.clip == 1 && options.schedule == CH_TRAIN_COSINE);
  assert_int_equal(options.sequence, 256); /* the model's context */
  ch_config config = a_config();
  ch_error error = {0};
  assert_int_equal(ch_train_options_check(&options, &config, &error), CH_OK);
}

static void the_usual_rate_follows_from_the_parametrisation(void **state) {
  (void)state;
  ch_config config = a_config();
  ch_train_options options;
  ch_train_options_default(&config, &options);
  assert_true(options.lr == 1e-3);
  config.parametrization = CH_PARAMETRIZATION_SPECTRAL;
  ch_train_options_default(&config, &options);
  assert_true(options.lr == 4e-3);
}

static void tokens_become_whole_steps(void **state) {
  (void)state;
  ch_train_options options = some_options();
  options.batch = 3;
  options.sequence = 7;
  options.accumulate = 2;
  assert_int_equal(ch_train_step_tokens(&options), 42);
  assert_int_equal(ch_train_steps_for(&options, 1), 1);
  assert_int_equal(ch_train_steps_for(&options, 42), 1);
  assert_int_equal(ch_train_steps_for(&options, 43), 2);
}

/* Changes one option and expects an error that names it. */
#define REFUSED(change, named)                                                                               \
  do {                                                                                                       \
    ch_train_options options = some_options();                                                               \
    ch_config config = a_config();                                                                           \
    ch_error error = {0};                                                                                    \
    change;                                                                                                  \
    assert_int_equal(ch_train_options_check(&options, &config, &error), CH_ERROR_ARGUMENT);                  \
    if (!strstr(error.message, named)) fail_msg("\"%s\" does not name %s", error.message, named);            \
  } while (0)

static void impossible_options_are_refused_by_name(void **state) {
  (void)state;
  REFUSED(options.batch = 0, "batch");
  REFUSED(options.sequence = 257, "max_position_embeddings");
  REFUSED(options.accumulate = -1, "accumulate");
  REFUSED(options.micro_batch = 3, "micro_batch");
  REFUSED(options.steps = 0, "steps");
  REFUSED(options.lr = 0, "lr");
  REFUSED(options.lr = NAN, "lr");
  REFUSED(options.lr = INFINITY, "lr");
  REFUSED(options.warmup = 100, "warmup");
  REFUSED(options.beta1 = 1, "beta1");
  REFUSED(options.eps = 0, "eps");
  REFUSED(options.weight_decay = -0.1, "weight_decay");
  REFUSED(options.clip = -1, "clip");
  REFUSED(options.dtype = CH_F16, "type");
  REFUSED((options.batch = 1000000, options.accumulate = 1000000), "batch");
}

static void options_survive_json_to_the_last_bit(void **state) {
  (void)state;
  ch_train_options options = some_options(), read;
  options.lr = 0.1 + 0.2;
  options.seed = UINT64_MAX - 1;
  options.schedule = CH_TRAIN_CONSTANT;
  options.documents = true;
  options.dtype = CH_F64;
  ch_error error = {0};
  json_t *json = ch_train_options_to_json(&options);
  char *text = json_dumps(json, JSON_REAL_PRECISION(17));
  json_decref(json);
  json = json_loads(text, 0, NULL);
  assert_int_equal(ch_train_options_from_json(json, "file", &read, &error), CH_OK);
  assert_true(read.lr == options.lr && read.seed == options.seed && read.schedule == options.schedule);
  assert_true(read.documents && read.dtype == CH_F64 && read.batch == options.batch && read.warmup == -1);
  assert_int_equal(ch_train_options_match(&options, &read, "file", &error), CH_OK);
  json_object_del(json, "clip");
  assert_int_equal(ch_train_options_from_json(json, "file", &read, &error), CH_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "clip"));
  json_decref(json);
  free(text);
}

static void what_decides_the_result_must_match_and_the_rest_may_change(void **state) {
  (void)state;
  ch_train_options before = some_options(), now = before;
  ch_error error = {0};
  now.eval_every = 7;
  now.checkpoint_every = 9;
  now.recompute = true;
  assert_int_equal(ch_train_options_match(&before, &now, "file", &error), CH_OK);
  now.weight_decay = 0.2;
  assert_int_equal(ch_train_options_match(&before, &now, "file", &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "weight_decay 0.1, not 0.2"));
  now = before;
  now.steps = 200; /* a cosine would differ */
  assert_int_equal(ch_train_options_match(&before, &now, "file", &error), CH_ERROR_ARGUMENT);
  before.schedule = now.schedule = CH_TRAIN_CONSTANT;
  assert_int_equal(ch_train_options_match(&before, &now, "file", &error), CH_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cosine_warms_up_to_the_peak_and_ends_at_a_tenth),
      cmocka_unit_test(a_cosine_to_zero_gets_there_after_the_last_step),
      cmocka_unit_test(a_constant_rate_stays_at_the_peak),
      cmocka_unit_test(without_warm_up_the_first_step_has_the_peak),
      cmocka_unit_test(the_default_warm_up_is_a_twentieth_and_at_most_a_thousand),
      cmocka_unit_test(the_defaults_are_those_of_the_specification),
      cmocka_unit_test(the_usual_rate_follows_from_the_parametrisation),
      cmocka_unit_test(tokens_become_whole_steps),
      cmocka_unit_test(impossible_options_are_refused_by_name),
      cmocka_unit_test(options_survive_json_to_the_last_bit),
      cmocka_unit_test(what_decides_the_result_must_match_and_the_rest_may_change),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
