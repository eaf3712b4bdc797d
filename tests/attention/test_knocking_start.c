/* Tests the initial values of knocking: the identity for "diagonal", "identity" and no value, dense matrices for
 * "random". */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config_file/config_json.h"
#include "model/transformer.h"
#include "train/initialise.h"

enum { DIM = 24, HEADS = 4, GROUPS = 2, LAYERS = 2 };

typedef struct started {
  ch_params params;
  ch_tensor *tensors;
  float *data;
} started;

static void start(const char *knocking, const char *more, started *s) {
  char json[600];
  ch_config config;
  ch_error error = {0};
  *s = (started){0};
  snprintf(
      json, sizeof json,
      "{\"model_type\": \"crosshead\", \"vocab_size\": 13, \"hidden_size\": 16, \"intermediate_size\": 8, "
      "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
      "\"head_dim\": %d%s, \"attention\": {\"type\": \"gqa\", \"knocking\": {\"on\": [\"q\", \"v\"], %s}}}",
      LAYERS, HEADS, GROUPS, DIM, more, knocking);
  if (ch_config_parse(json, "config.json", &config, &error) != CH_OK ||
      ch_model_declare(&config, &s->params, &error) != CH_OK)
    fail_msg("%s", error.message);
  int64_t total = 0, at = 0;
  for (int p = 0; p < s->params.count; p++) total += ch_param_count(&s->params.rows[p]);
  s->data = calloc((size_t)total, sizeof *s->data);
  s->tensors = calloc((size_t)s->params.count, sizeof *s->tensors);
  assert_true(s->data && s->tensors);
  for (int p = 0; p < s->params.count; p++) {
    s->tensors[p] = (ch_tensor){.dtype = CH_F32, .rank = s->params.rows[p].rank, .data = s->data + at};
    memcpy(s->tensors[p].shape, s->params.rows[p].shape, sizeof s->tensors[p].shape);
    at += ch_param_count(&s->params.rows[p]);
  }
  ch_initialise(&s->params, 5, s->tensors);
}

static void finish(started *s) {
  ch_params_free(&s->params);
  free(s->tensors);
  free(s->data);
}

/* Returns the values of a map of layer 1, and in *row its parameter. */
static const float *map_of(const started *s, const char *name, const ch_param **row) {
  char full[96];
  snprintf(full, sizeof full, "model.layers.1.self_attn.%s.weight", name);
  int index = ch_params_find(&s->params, full);
  if (index < 0) fail_msg("there is no %s", full);
  *row = &s->params.rows[index];
  return s->tensors[index].data;
}

/* Asserts that a map has a matrix for each of `heads` heads. */
static void assert_shape(const started *s, const char *name, int64_t heads) {
  const ch_param *row;
  map_of(s, name, &row);
  assert_int_equal(row->rank, 3);
  assert_int_equal(row->shape[0], heads);
  assert_true(row->shape[1] == DIM && row->shape[2] == DIM);
}

/* Asserts that all [DIM, DIM] matrices of a map are `diagonal` times the identity. */
static void assert_diagonal(const started *s, const char *name, float diagonal) {
  const ch_param *row;
  const float *data = map_of(s, name, &row);
  assert_int_equal(ch_param_count(row) % (DIM * DIM), 0);
  for (int64_t i = 0; i < ch_param_count(row); i++) {
    float expected = i / DIM % DIM == i % DIM ? diagonal : 0;
    if (data[i] != expected) fail_msg("%s: element %lld is %g", name, (long long)i, (double)data[i]);
  }
}

static void assert_spread(const started *s, const char *name, double std) {
  const ch_param *row;
  const float *data = map_of(s, name, &row);
  double squares = 0, diagonal = 0;
  int64_t count = ch_param_count(row);
  for (int64_t i = 0; i < count; i++) {
    squares += (double)data[i] * (double)data[i] / (double)count;
    if (i / DIM % DIM == i % DIM) diagonal += (double)data[i] / ((double)count / DIM);
  }
  /* 0.9866 std is the deviation of a normal distribution cut at 3 std. */
  assert_true(fabs(sqrt(squares) / (0.9866 * std) - 1) < 0.1);
  assert_true(fabs(diagonal) < 4 * std / sqrt((double)count / DIM));
  assert_true(row->lr_factor == 1);
}

static void diagonal_and_identity_are_the_identity(void **state) {
  (void)state;
  static const char *const words[] = {"", ", \"init\": \"diagonal\"", ", \"init\": \"identity\""};
  for (int i = 0; i < 3; i++) {
    char knocking[96];
    started s;
    snprintf(knocking, sizeof knocking, "\"type\": \"mlp\"%s", words[i]);
    start(knocking, "", &s);
    assert_diagonal(&s, "q_knock.up", 1);
    assert_diagonal(&s, "v_knock.up", 1);
    assert_diagonal(&s, "v_knock.gate", 0);
    assert_diagonal(&s, "v_knock.down", 1);
    finish(&s);
    snprintf(knocking, sizeof knocking, "\"type\": \"mlp\", \"per_head\": true%s", words[i]);
    start(knocking, "", &s);
    assert_shape(&s, "q_knock.down", HEADS);
    assert_shape(&s, "v_knock.gate", GROUPS);
    assert_diagonal(&s, "q_knock.down", 1);
    assert_diagonal(&s, "v_knock.gate", 0);
    finish(&s);
    snprintf(knocking, sizeof knocking, "\"type\": \"linear\"%s", words[i]);
    start(knocking, ", \"parametrization\": \"spectral\"", &s);
    assert_diagonal(&s, "q_knock", 1);
    assert_diagonal(&s, "v_knock", 1);
    finish(&s);
  }
}

/* Tests the maps of an MLP, including the gate, and linear maps. */
static void random_maps_start_like_dense_matrices(void **state) {
  (void)state;
  static const struct {
    const char *more;
    double std;
  } rules[] = {{"", 0.02},
               {", \"init\": \"deepseek\"", 0.006},
               {", \"init\": \"fan_in\"", 0.2041},
               {", \"parametrization\": \"spectral\"", 0.2041}};
  for (int i = 0; i < 4; i++) {
    started s;
    start("\"type\": \"mlp\", \"init\": \"random\"", rules[i].more, &s);
    assert_spread(&s, "v_knock.up", rules[i].std);
    assert_spread(&s, "v_knock.gate", rules[i].std);
    assert_spread(&s, "q_knock.down", rules[i].std);
    finish(&s);
    start("\"type\": \"linear\", \"init\": \"random\"", rules[i].more, &s);
    assert_spread(&s, "v_knock", rules[i].std);
    finish(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(diagonal_and_identity_are_the_identity),
      cmocka_unit_test(random_maps_start_like_dense_matrices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
