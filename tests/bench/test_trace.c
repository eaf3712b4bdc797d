/* Tests profiles and trace files: they have every operation of a measured step, with its FLOPs and bytes. */
#define _GNU_SOURCE
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "bench/random_model.h"
#include "bench/speed_limits.h"

static const char *const CONFIGS[] = {TEST_DATA "/reference/llama_gqa/config.json",
                                      TEST_DATA "/reference/deepseek_v2/config.json"};
enum { CONFIG_COUNT = sizeof CONFIGS / sizeof *CONFIGS, TOKENS = 5, DEPTH = 7 };

static const ch_speed_limits limits = {
    .fma_peak = 1e9, .bf16_peak = 2e9, .int8_peak = 4e9, .read_bandwidth = 1e8};

static json_t *events_of(const char *path) {
  json_error_t where;
  json_t *file = json_load_file(path, 0, &where);
  if (!file) fail_msg("%s: line %d: %s", path, where.line, where.text);
  json_t *events = json_incref(json_object_get(file, "traceEvents"));
  assert_true(json_is_array(events));
  json_decref(file);
  return events;
}

static json_t *written(const ch_profile *profile, const ch_speed_limits *of) {
  char path[] = "/tmp/crosshead_trace_XXXXXX";
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  close(descriptor);
  ch_error error = {0};
  const ch_trace_part part = {.title = "a \"quoted\" title", .profile = profile};
  assert_int_equal(ch_trace_write(path, 1, &part, of, &error), CH_OK);
  json_t *events = events_of(path);
  unlink(path);
  return events;
}

static double number(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  assert_true(json_is_number(value));
  return json_number_value(value);
}

static bool has_text(const json_t *object, const char *key, const char *text) {
  const char *value = json_string_value(json_object_get(object, key));
  return value && strcmp(value, text) == 0;
}

/* --- events in files ---------------------------------------------------------------------------------------- */

static void a_trace_says_what_was_noted(void **state) {
  (void)state;
  ch_profile_event noted[] = {{CH_PROFILE_SPAN, "step", "", -1, CH_F32, 100.0, 0.01, 0, 0},
                              {CH_PROFILE_FORWARD, "linear", "q_proj", 3, CH_BF16, 100.001, 0.002, 1e6, 1e4},
                              {CH_PROFILE_BACKWARD, "attend", "", 0, CH_F32, 100.004, 0.0005, 0, 2e4}};
  const ch_profile profile = {.events = noted, .event_count = 3};
  json_t *events = written(&profile, &limits), *event;
  assert_int_equal(json_array_size(events), 3 + 3); /* names of the process and its threads, then events */
  event = json_array_get(events, 0);
  assert_true(has_text(event, "ph", "M") && has_text(event, "name", "process_name"));
  assert_true(has_text(json_object_get(event, "args"), "name", "a \"quoted\" title"));
  event = json_array_get(events, 3);
  assert_true(has_text(event, "ph", "X") && has_text(event, "name", "step") &&
              has_text(event, "cat", "span"));
  assert_true(number(event, "ts") == 0 && fabs(number(event, "dur") - 10000) < 1e-3);
  event = json_array_get(events, 4);
  assert_true(has_text(event, "name", "linear q_proj") && has_text(event, "cat", "forward"));
  assert_true(fabs(number(event, "ts") - 1000) < 1e-3 && fabs(number(event, "dur") - 2000) < 1e-3);
  const json_t *arguments = json_object_get(event, "args");
  assert_true(number(arguments, "layer") == 3 && number(arguments, "flops") == 1e6 &&
              number(arguments, "bytes") == 1e4);
  /* 0.5 ms of BF16 products in 2 ms */
  assert_true(fabs(number(arguments, "share_of_limit") - 0.25) < 1e-9);
  event = json_array_get(events, 5);
  assert_true(has_text(event, "name", "attend") && has_text(event, "cat", "backward"));
  /* 0.2 ms of reading in 0.5 ms */
  assert_true(fabs(number(json_object_get(event, "args"), "share_of_limit") - 0.4) < 1e-9);
  json_decref(events);
}

static void a_trace_that_lacks_events_is_not_written(void **state) {
  (void)state;
  const ch_profile profile = {.full = true};
  const ch_trace_part part = {.title = "decode", .profile = &profile};
  ch_error error = {0};
  assert_int_equal(ch_trace_write("/tmp/crosshead_no_trace.json", 1, &part, NULL, &error), CH_ERROR_MEMORY);
  assert_int_equal(access("/tmp/crosshead_no_trace.json", F_OK), -1);
}

/* --- real steps --------------------------------------------------------------------------------------------- */

typedef struct totals {
  double flops, matrix_bytes; /* FLOPs of all operations, and bytes of operations with FLOPs */
  int operations, spans, of_last_layer;
} totals;

/* Checks that operations follow each other without overlap, and end no later than the last span. Returns the totals of
   all operations. */
static totals check_order(json_t *events, int last_layer) {
  totals sum = {0};
  double span_begin = 0, span_end = 0, at = 0;
  size_t i;
  json_t *event;
  json_array_foreach(events, i, event) {
    if (!has_text(event, "cat", "span")) continue;
    span_begin = sum.spans++ ? span_begin : number(event, "ts");
    span_end = number(event, "ts") + number(event, "dur");
  }
  json_array_foreach(events, i, event) {
    if (!has_text(event, "ph", "X") || has_text(event, "cat", "span")) continue;
    const json_t *arguments = json_object_get(event, "args");
    double start = number(event, "ts"), seconds = number(event, "dur");
    assert_true(start >= at - 1e-3 && seconds >= 0);
    at = start + seconds;
    sum.operations++;
    sum.flops += number(arguments, "flops");
    assert_true(number(arguments, "bytes") > 0);
    if (number(arguments, "flops") > 0) sum.matrix_bytes += number(arguments, "bytes");
    const json_t *layer = json_object_get(arguments, "layer");
    assert_true(!layer || json_integer_value(layer) <= last_layer);
    sum.of_last_layer += layer && json_integer_value(layer) == last_layer;
  }
  assert_true(sum.operations > 0 && sum.spans > 0 && at <= span_end + 1e-3 && span_begin >= 0);
  return sum;
}

static void check_close(double a, double b) {
  if (fabs(a - b) > 1e-9 * fabs(b)) fail_msg("%.17g where %.17g is right", a, b);
}

static ch_model *random_model(const char *config, ch_dtype dtype) {
  ch_model *model = NULL;
  ch_error error = {0};
  if (ch_model_random(config, dtype, 1, &model, &error) != CH_OK) fail_msg("%s: %s", config, error.message);
  return model;
}

/* Checks that the rows of a profile add up to its events, which are all there because there is one repetition. */
static void check_rows(const ch_profile *profile, const totals *events) {
  double flops = 0;
  int64_t calls = 0;
  for (int i = 0; i < profile->rows; i++) {
    flops += profile->row[i].flops;
    calls += profile->row[i].calls;
  }
  check_close(flops, events->flops);
  assert_int_equal(calls, events->operations);
  assert_true(profile->seconds > 0);
}

static void the_arithmetic_of_a_step_is_that_of_its_operations(void **state) {
  (void)state;
  for (int c = 0; c < CONFIG_COUNT; c++) {
    ch_model *model = random_model(CONFIGS[c], CH_F32);
    ch_profile profile = {.keep_events = true};
    ch_speed speed;
    ch_error error = {0};
    const ch_speed_settings options = {.batch = 2, .tokens = TOKENS, .repeat = 1, .profile = &profile};
    int last = (int)model->config.num_hidden_layers - 1;
    assert_int_equal(ch_speed_train(CONFIGS[c], &options, &speed, &error), CH_OK);
    json_t *events = written(&profile, NULL);
    totals sum = check_order(events, last);
    check_close(sum.flops, speed.flops);
    check_rows(&profile, &sum);
    assert_true(sum.of_last_layer > 0);
    assert_int_equal(sum.spans, 1);
    json_decref(events);
    ch_profile_release(&profile);
    ch_model_unload(model);
  }
}

/* Checks that products in BF16 are reported with that type. */
static void products_of_bf16_are_told_from_those_of_f32(void **state) {
  (void)state;
  for (int rounded = 0; rounded < 2; rounded++) {
    ch_profile profile = {0};
    ch_speed speed;
    ch_error error = {0};
    const ch_speed_settings options = {.batch = 4,
                                       .tokens = 64,
                                       .repeat = 1,
                                       .compute = rounded ? CH_PRECISION_BF16 : CH_PRECISION_F32,
                                       .profile = &profile};
    assert_int_equal(ch_speed_train(CONFIGS[0], &options, &speed, &error), CH_OK);
    bool found = false;
    for (int i = 0; i < profile.rows; i++) {
      if (strcmp(profile.row[i].matrix, "up_proj") != 0) continue;
      found = true;
      assert_int_equal(profile.row[i].dtype, rounded ? CH_BF16 : CH_F32);
    }
    assert_true(found);
  }
}

static void the_arithmetic_and_bytes_of_decoding_are_those_of_its_operations(void **state) {
  (void)state;
  for (int c = 0; c < CONFIG_COUNT; c++) {
    ch_model *model = random_model(CONFIGS[c], CH_BF16);
    ch_profile profile = {.keep_events = true};
    ch_speed speed;
    ch_error error = {0};
    const ch_speed_settings options = {.batch = 2,
                                       .tokens = TOKENS,
                                       .depth = DEPTH,
                                       .cache = CH_PRECISION_F16,
                                       .repeat = 1,
                                       .profile = &profile};
    assert_int_equal(ch_speed_decode(model, &options, &speed, &error), CH_OK);
    json_t *events = written(&profile, &limits);
    totals sum = check_order(events, (int)model->config.num_hidden_layers - 1);
    check_close(sum.flops, speed.flops);
    check_rows(&profile, &sum);
    assert_int_equal(sum.spans, TOKENS);
    /* Operations read and write activations in addition to matrices and the cache. */
    assert_true(sum.matrix_bytes >= speed.bytes && sum.matrix_bytes < 1.5 * speed.bytes);
    json_decref(events);
    ch_profile_release(&profile);
    ch_model_unload(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_trace_says_what_was_noted),
      cmocka_unit_test(a_trace_that_lacks_events_is_not_written),
      cmocka_unit_test(the_arithmetic_of_a_step_is_that_of_its_operations),
      cmocka_unit_test(products_of_bf16_are_told_from_those_of_f32),
      cmocka_unit_test(the_arithmetic_and_bytes_of_decoding_are_those_of_its_operations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
