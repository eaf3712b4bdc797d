/* Tests calibration: the inputs of projections against plain sums over the text, drift, shares of attention, and the
 * loss. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "compress_testing.h"

enum { WIDTH = 24, WINDOW = 40 };

static const char sizes[] = "'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 8";

/* Returns the inputs of the first layer's projections: normed embeddings. */
static void first_input(const ch_model *model, int32_t id, double x[WIDTH]) {
  const float *row = tensor_of(model, "model.embed_tokens.", "weight") + (size_t)id * WIDTH;
  const float *weight = tensor_of(model, "model.layers.0.input_layernorm.", "weight");
  double squares = 0;
  for (int i = 0; i < WIDTH; i++) squares += (double)row[i] * row[i];
  double factor = 1 / sqrt(squares / WIDTH + model->config.rms_norm_eps);
  for (int i = 0; i < WIDTH; i++) x[i] = row[i] * factor * (double)weight[i];
}

static void autocorrelation_is_the_mean_of_products_of_inputs(void **state) {
  (void)state;
  ch_model *model = random_model(sizes, "'type': 'gqa'");
  ch_calibration *calibration = calibrate(model);
  int64_t tokens = (TEXT - 1) / WINDOW * WINDOW;
  assert_int_equal(ch_calibration_tokens(calibration), tokens);
  double c[WIDTH][WIDTH] = {{0}}, mean[WIDTH] = {0}, x[WIDTH];
  for (int64_t t = 0; t < tokens; t++) {
    first_input(model, text[t], x);
    for (int i = 0; i < WIDTH; i++) {
      mean[i] += x[i] / (double)tokens;
      for (int j = 0; j < WIDTH; j++) c[i][j] += x[i] * x[j] / (double)tokens;
    }
  }
  const ch_autocorrelation *got = ch_calibration_of(calibration, 0, "v_proj");
  assert_non_null(got);
  assert_int_equal(got->n, WIDTH);
  for (int i = 0; i < WIDTH; i++) {
    assert_true(fabs(got->mean[i] - mean[i]) < 1e-4);
    for (int j = 0; j < WIDTH; j++) {
      assert_true(fabs(got->c[i * WIDTH + j] - c[i][j]) < 1e-4);
      assert_true(got->c[i * WIDTH + j] == got->c[j * WIDTH + i]);
    }
  }
  ch_calibration_free(calibration);
  unload(model);
}

static void queries_keys_and_values_share_their_input_and_outputs_have_their_own(void **state) {
  (void)state;
  ch_model *model = random_model(sizes, "'type': 'gqa'");
  ch_calibration *calibration = calibrate(model);
  for (int layer = 0; layer < LAYERS; layer++) {
    const ch_autocorrelation *q = ch_calibration_of(calibration, layer, "q_proj");
    assert_non_null(q);
    assert_ptr_equal(q, ch_calibration_of(calibration, layer, "k_proj"));
    assert_ptr_equal(q, ch_calibration_of(calibration, layer, "v_proj"));
    const ch_autocorrelation *o = ch_calibration_of(calibration, layer, "o_proj");
    assert_non_null(o);
    assert_ptr_not_equal(o, q);
    assert_int_equal(o->n, 32);
    for (int other = 0; other < layer; other++)
      assert_ptr_not_equal(q, ch_calibration_of(calibration, other, "q_proj"));
  }
  assert_null(ch_calibration_of(calibration, 0, "kv_b_proj"));
  ch_calibration_free(calibration);
  unload(model);
}

/* Blocks other than block 1 have output and down projections of zero, so they add nothing. */
static void drift_is_the_divergence_of_what_blocks_would_say(void **state) {
  (void)state;
  ch_model *model = random_model(sizes, "'type': 'gqa'");
  for (int layer = 0; layer < LAYERS; layer++) {
    char name[80];
    snprintf(name, sizeof name, "model.layers.%d.", layer);
    if (layer == 1) continue;
    memset(tensor_of(model, name, "self_attn.o_proj.weight"), 0, sizeof(float) * WIDTH * 32);
    memset(tensor_of(model, name, "mlp.down_proj.weight"), 0, sizeof(float) * WIDTH * 20);
  }
  ch_calibration *calibration = calibrate(model);
  const double *drift = ch_calibration_drift(calibration);
  assert_non_null(drift);
  assert_true(drift[0] > 1e-3);       /* block 1 changes the predictions */
  assert_true(fabs(drift[1]) < 1e-6); /* block 2 does not */
  ch_calibration_free(calibration);
  unload(model);
}

/* Returns the share of the first layer's attention if its output is multiplied by `factor`. */
static double share_of_first(double factor) {
  ch_model *model = random_model(sizes, "'type': 'gqa'");
  float *o = tensor_of(model, "model.layers.0.", "self_attn.o_proj.weight");
  for (int i = 0; i < WIDTH * 32; i++) o[i] = (float)(factor * (double)o[i]);
  ch_calibration *calibration = calibrate(model);
  double share = ch_calibration_shares(calibration)[0];
  ch_calibration_free(calibration);
  unload(model);
  return share;
}

/* With A = E|a|^2, B = E(x a) and X = E|x|^2, f times a has the share f^2 A / (X + 2 f B + f^2 A). Two shares
   give X / A and B / A, and these give all others. */
static void the_share_of_attention_is_what_it_adds_among_what_goes_on(void **state) {
  (void)state;
  const double base = 1.0 / 16;
  double plus = 1 / share_of_first(base), minus = 1 / share_of_first(-base);
  double x = (plus + minus) / 2 - 1, b = (plus - minus) / 4; /* X / A and B / A at `base` */
  if (!(x > 0.01 && fabs(b) > 1e-4)) fail_msg("X is %g A and B %g A", x, b);
  for (double f = 0.5; f < 4; f *= 2) {
    double expected = f * f / (x + 2 * f * b + f * f), got = share_of_first(base * f);
    if (fabs(got - expected) > 1e-4 * expected)
      fail_msg("%g times: a share of %g and not %g", f, got, expected);
  }
  assert_true(share_of_first(0) == 0);
  assert_true(share_of_first(1e5) > 0.999);
}

static void the_loss_is_that_of_the_text(void **state) {
  (void)state;
  ch_model *model = random_model(sizes, "'type': 'gqa'");
  ch_calibration *calibration;
  ch_calibration_options options = {.window = LENGTH - 1};
  int32_t tokens[LENGTH];
  for (int t = 0; t < LENGTH; t++) tokens[t] = (t * 7) % VOCABULARY;
  ch_forward_request request = {.tokens = tokens, .sequences = 1, .length = LENGTH};
  ch_forward_result result;
  must(ch_forward(model, &request, &result, &failure));
  must(ch_calibrate(model, tokens, LENGTH, &options, &calibration, &failure));
  assert_true(fabs(ch_calibration_loss(calibration) - result.loss) < 1e-5 * result.loss);
  assert_null(ch_calibration_drift(calibration));
  assert_null(ch_calibration_shares(calibration));
  ch_calibration_free(calibration);
  ch_forward_result_free(&result);
  unload(model);
}

typedef struct told {
  int calls, most;
  double last;
} told;

static ch_status count_steps(void *context, const char *what, double done, double total, ch_error *error) {
  told *t = context;
  assert_string_equal(what, "calibration");
  assert_true(done >= t->last && done <= total && total == LENGTH - 1);
  t->last = done;
  return ++t->calls > t->most ? ch_fail(error, CH_ERROR_INTERRUPTED, "stopped") : CH_OK;
}

/* Here, a batch is one window. With a large model, a batch takes minutes. */
static void a_batch_tells_how_far_it_is_and_can_be_stopped(void **state) {
  (void)state;
  ch_model *model = random_model(sizes, "'type': 'gqa'");
  ch_calibration *calibration;
  told t = {.most = 1000};
  ch_calibration_options options = {.window = LENGTH - 1, .step = count_steps, .context = &t};
  must(ch_calibrate(model, text, LENGTH, &options, &calibration, &failure));
  assert_true(t.calls > 2 * LAYERS && t.last == LENGTH - 1);
  ch_calibration_free(calibration);
  t = (told){.most = 4};
  assert_int_equal(ch_calibrate(model, text, LENGTH, &options, &calibration, &failure), CH_ERROR_INTERRUPTED);
  assert_true(t.calls == 5 && t.last > 0 && t.last < LENGTH - 1);
  unload(model);
}

static void a_text_of_a_token_is_refused_and_one_of_two_will_do(void **state) {
  (void)state;
  ch_model *model = random_model(sizes, "'type': 'gqa'");
  static const char *const names[] = {"q_proj"};
  ch_calibration *calibration;
  ch_calibration_options options = {.projections = names, .projection_count = 1};
  assert_int_equal(ch_calibrate(model, text, 1, &options, &calibration, &failure), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(failure.message, "1 token;"));
  must(ch_calibrate(model, text, 2, &options, &calibration, &failure));
  assert_int_equal(ch_calibration_tokens(calibration), 1);
  ch_calibration_free(calibration);
  unload(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(autocorrelation_is_the_mean_of_products_of_inputs),
      cmocka_unit_test(queries_keys_and_values_share_their_input_and_outputs_have_their_own),
      cmocka_unit_test(drift_is_the_divergence_of_what_blocks_would_say),
      cmocka_unit_test(the_share_of_attention_is_what_it_adds_among_what_goes_on),
      cmocka_unit_test(the_loss_is_that_of_the_text),
      cmocka_unit_test(a_batch_tells_how_far_it_is_and_can_be_stopped),
      cmocka_unit_test(a_text_of_a_token_is_refused_and_one_of_two_will_do),
  };
  return cmocka_run_group_tests(tests, make_directory_and_text, remove_directory);
}
