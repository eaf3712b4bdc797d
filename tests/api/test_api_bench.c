/* Tests speed measurements, profiles and traces as a program would use them, with public headers only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include <crosshead/bench.h>
#include <crosshead/generate.h>
#include <crosshead/info.h>

#define STORIES TEST_DATA "/TinyStories-656K"
#define LLAMA TEST_DATA "/reference/llama_gqa"

static ch_error error;

/* Made-up limits: only the arithmetic of shares is checked against them. */
static const ch_speed_limits limits = {
    .fma_peak = 1e9, .bf16_peak = 4e9, .int8_peak = 8e9, .read_bandwidth = 1e9};

static void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

static ch_model *random_model(ch_precision type) {
  ch_model *model = NULL;
  must(ch_model_open_random(LLAMA "/config.json", type, 1, NULL, &model, &error));
  return model;
}

static void a_random_model_has_the_parameters_of_its_configuration(void **state) {
  (void)state;
  ch_info *info = NULL;
  ch_account account;
  must(ch_info_open(LLAMA, &info, &error));
  must(ch_info_account(info, NULL, &account, &error));
  ch_info_free(info);
  static const struct {
    ch_precision type;
    const char *name;
    double bytes;
  } types[] = {
      {CH_PRECISION_DEFAULT, "F32", 4}, {CH_PRECISION_F16, "F16", 2}, {CH_PRECISION_BF16, "BF16", 2}};
  for (int i = 0; i < 3; i++) {
    ch_model *model = random_model(types[i].type);
    ch_speed_matrices matrices;
    ch_speed_matrices_of(model, &matrices);
    assert_true(matrices.parameters == (double)account.parameters_total);
    assert_string_equal(matrices.type, types[i].name);
    /* All parameters except the norms and the untied embedding of 128 rows of 48. */
    double read = (double)(account.parameters_total - account.parameters_norm - 128 * 48);
    assert_true(matrices.bytes_decoded == types[i].bytes * read);
    ch_model_close(model);
  }
}

static void speed_is_time_and_arithmetic(void **state) {
  (void)state;
  ch_model *model = random_model(CH_PRECISION_BF16);
  ch_speed_settings settings;
  ch_speed speed;
  ch_speed_defaults(&settings);
  settings.batch = 2;
  settings.tokens = 4;
  settings.repeat = 3;
  settings.limits = &limits;
  must(ch_speed_prefill(model, &settings, &speed, &error));
  assert_true(speed.seconds > 0 && speed.flops > 0);
  assert_true(speed.tokens_per_second == 8 / speed.seconds);
  assert_string_equal(speed.limit, "BF16");
  assert_true(speed.share == speed.flops / speed.seconds / limits.bf16_peak);

  settings.depth = 16;
  must(ch_speed_decode(model, &settings, &speed, &error));
  assert_true(speed.tokens_per_second == 8 / speed.seconds);
  assert_true(speed.share > 0 && speed.bandwidth > 0);
  assert_string_equal(speed.limit, "");
  /* 4 passes of 2 sequences find 18.5 tokens of 64 elements on average: 16 + (1 + 2 + 3 + 4) / 4. */
  assert_true(speed.cache_bytes == 4 * 2 * 18.5 * 64 * 4);
  double f32_bytes = speed.cache_bytes;
  settings.cache = CH_PRECISION_F16;
  must(ch_speed_decode(model, &settings, &speed, &error));
  assert_true(speed.cache_bytes == f32_bytes / 2);
  ch_model_close(model);

  settings.depth = 0;
  settings.compute = CH_PRECISION_BF16;
  must(ch_speed_train(LLAMA "/config.json", &settings, &speed, &error));
  assert_true(speed.memory > 0);
  assert_string_equal(speed.limit, "BF16");
}

static void what_cannot_be_measured_is_an_error(void **state) {
  (void)state;
  ch_model *model = NULL;
  ch_speed_settings settings;
  ch_speed speed;
  ch_speed_defaults(&settings);
  assert_int_equal(ch_model_open_random("/nonexistent", 0, 1, NULL, &model, &error), CH_ERROR_IO);
  assert_int_equal(ch_model_open_random(LLAMA, CH_PRECISION_Q8_0, 1, NULL, &model, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(
      ch_model_open_random(LLAMA, 0, 1, &(ch_model_settings){.keep_dictionary = true}, &model, &error),
      CH_ERROR_ARGUMENT);
  assert_null(model);
  model = random_model(CH_PRECISION_F32);
  assert_int_equal(ch_speed_prefill(model, NULL, &speed, &error), CH_ERROR_ARGUMENT);
  settings.tokens = 0;
  assert_int_equal(ch_speed_prefill(model, &settings, &speed, &error), CH_ERROR_ARGUMENT);
  ch_speed_defaults(&settings);
  settings.repeat = 0;
  assert_int_equal(ch_speed_decode(model, &settings, &speed, &error), CH_ERROR_ARGUMENT);
  ch_speed_defaults(&settings);
  settings.cache_values = CH_PRECISION_Q6_K;
  assert_int_equal(ch_speed_decode(model, &settings, &speed, &error), CH_ERROR_ARGUMENT);
  ch_dictionary_cost cost;
  assert_int_equal(ch_dictionary_cost_measure(model, &cost, &error), CH_ERROR_ARGUMENT);
  ch_model_close(model);
}

/* Checks that the trace and the table's JSON have the same seconds of operations. */
static void a_profile_of_a_text_becomes_a_table_and_a_trace(void **state) {
  (void)state;
  enum { TOKENS = 5 };
  ch_model *model = NULL;
  ch_session *session = NULL;
  ch_profile *profile = NULL;
  must(ch_model_open(STORIES, &model, &error));
  must(ch_session_create(model, NULL, &session, &error));
  must(ch_profile_new(true, &profile, &error));
  ch_session_profile(session, profile);
  must(ch_generate(session, "Once upon a time", TOKENS, NULL, NULL, NULL, NULL, &error));
  ch_session_profile(session, NULL);
  must(ch_generate(session, " and", TOKENS, NULL, NULL, NULL, NULL, &error)); /* no longer recorded */

  char *text = NULL;
  must(ch_profile_table(profile, "a text", 1, &limits, &text, &error));
  assert_memory_equal(text, "a text\noperation ", 17);
  assert_non_null(strstr(text, "\nattend "));
  ch_free(text);
  must(ch_profile_json(profile, TOKENS, &limits, &text, &error));
  json_error_t problem;
  json_t *rows = json_loads(text, 0, &problem), *row;
  ch_free(text);
  size_t i;
  double of_rows = 0, of_events = 0;
  int spans = 0;
  json_array_foreach(json_object_get(rows, "operations"), i, row) of_rows +=
      TOKENS * json_real_value(json_object_get(row, "forward_seconds"));

  char path[] = "/tmp/crosshead-trace-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  must(ch_trace_write(path, 1, &(ch_trace_part){.title = "a text", .profile = profile}, NULL, &error));
  json_t *trace = json_load_file(path, 0, &problem);
  json_array_foreach(json_object_get(trace, "traceEvents"), i, row) {
    const char *kind = json_string_value(json_object_get(row, "cat"));
    if (!kind) continue;
    if (strcmp(kind, "forward") == 0) of_events += 1e-6 * json_number_value(json_object_get(row, "dur"));
    spans += strcmp(kind, "span") == 0;
  }
  assert_int_equal(spans, 1 + TOKENS); /* one pass for the prompt and one for each token */
  assert_true(of_rows > 0 && of_events > 0.999 * of_rows && of_events < 1.001 * of_rows);
  json_decref(rows);
  json_decref(trace);
  assert_int_equal(remove(path), 0);
  ch_profile_free(profile);
  ch_profile_free(NULL);
  ch_session_free(session);
  ch_model_close(model);
}

static void the_machine_has_processors(void **state) {
  (void)state;
  ch_machine machine;
  ch_machine_describe(&machine);
  assert_true(machine.cores > 0 && machine.threads > 0 && machine.memory_bytes > 0);
  assert_memory_equal(machine.kernels, "f32", 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_random_model_has_the_parameters_of_its_configuration),
      cmocka_unit_test(speed_is_time_and_arithmetic),
      cmocka_unit_test(what_cannot_be_measured_is_an_error),
      cmocka_unit_test(a_profile_of_a_text_becomes_a_table_and_a_trace),
      cmocka_unit_test(the_machine_has_processors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
