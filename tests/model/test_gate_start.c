/* Tests the embedding gate of an untrained model: its LayerNorm must have something to normalise under every
 * rule for initial weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "config_file/config_json.h"
#include "model/runner.h"
#include "model/transformer.h"
#include "train/initialise.h"

enum { LENGTH = 48, VOCABULARY = 60, LAYERS = 3 };

/* The observed outputs of the norms after gates. */
typedef struct outputs {
  double squares, smallest; /* sum of squared elements; smallest root mean square of a norm's output */
  int64_t count;
  int norms;
} outputs;

static ch_status look(void *context, const ch_run *run, const ch_node *node) {
  outputs *all = context;
  if (strcmp(node->op->name, "layernorm") != 0 || !strstr(node->in[1]->label, "kv_gate_norm")) return CH_OK;
  const float *x = ch_run_value(run, node);
  double squares = 0;
  int64_t count = ch_node_count(node);
  for (int64_t i = 0; i < count; i++) squares += (double)x[i] * (double)x[i];
  all->smallest = fmin(all->smallest, sqrt(squares / (double)count));
  all->squares += squares;
  all->count += count;
  all->norms++;
  return CH_OK;
}

static void declare(const char *attention, const char *more, ch_config *config, ch_params *params) {
  char text[1200];
  ch_error error = {0};
  snprintf(text, sizeof text,
           "{\"model_type\": \"crosshead\", \"vocab_size\": %d, \"hidden_size\": 64, "
           "\"intermediate_size\": 96, \"num_hidden_layers\": %d, \"num_attention_heads\": 4, "
           "\"attention\": {\"type\": \"mla\", \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, "
           "\"v_head_dim\": 16, %s}%s}",
           VOCABULARY, LAYERS, attention, more);
  if (ch_config_parse(text, "the test", config, &error) != CH_OK) fail_msg("%s", error.message);
  *params = (ch_params){0};
  assert_int_equal(ch_model_declare(config, params, &error), CH_OK);
}

static ch_tensor *initialised(const ch_params *params) {
  ch_tensor *weights = calloc((size_t)params->count, sizeof *weights);
  for (int p = 0; p < params->count; p++) {
    const ch_param *row = &params->rows[p];
    weights[p] = (ch_tensor){.dtype = CH_F32, .rank = row->rank};
    memcpy(weights[p].shape, row->shape, sizeof row->shape);
    weights[p].data = calloc((size_t)ch_param_count(row), sizeof(float));
  }
  ch_initialise(params, 7, weights);
  return weights;
}

/* Runs an untrained model on some tokens and returns the norms' outputs. */
static outputs outputs_of(const char *attention, const char *more) {
  ch_config config;
  ch_params params;
  ch_engine engine;
  ch_runner *runner;
  ch_error error = {0};
  int32_t tokens[LENGTH];
  outputs all = {.smallest = INFINITY};
  const void *logits;
  declare(attention, more, &config, &params);
  ch_tensor *weights = initialised(&params);
  for (int i = 0; i < LENGTH; i++) tokens[i] = i * 7 % VOCABULARY;
  const ch_model_graph shape = {.sequences = 1, .length = LENGTH, .dtype = CH_F32, .head = CH_HEAD_LOGITS};
  const ch_observer observer = {.seen = look, .context = &all};
  const ch_runner_call call = {.weights = weights, .tokens = tokens, .observer = &observer};
  assert_int_equal(ch_engine_init_host(&engine, CH_F32, &error), CH_OK);
  assert_int_equal(ch_runner_create(&engine, &config, &params, &shape, false, &runner, &error), CH_OK);
  if (ch_runner_run(runner, &call, &logits, &error) != CH_OK) fail_msg("%s", error.message);
  ch_runner_free(runner);
  ch_engine_free(&engine);
  for (int p = 0; p < params.count; p++) free(weights[p].data);
  free(weights);
  ch_params_free(&params);
  return all;
}

static double size_of(const outputs *all) {
  return sqrt(all->squares / (double)all->count);
}

#define MASA ", \"sharing\": {\"type\": \"masa\", \"atoms\": 2, \"projections\": [\"kv_gate_proj\"]}"
#define LOW_RANK ", \"sharing\": {\"type\": \"low_rank\", \"rank\": 5, \"projections\": [\"kv_gate_proj\"]}"

static const char *const starts[] = {"", ", \"init\": \"deepseek\"", ", \"init\": \"fan_in\"",
                                     ", \"parametrization\": \"spectral\""};

static void the_norm_behind_a_gate_normalises_from_the_start(void **state) {
  (void)state;
  static const char *const sizes[] = {
      "\"kv_lora_rank\": 16, \"gate_embedding_dim\": 16", "\"kv_lora_rank\": 64, \"gate_embedding_dim\": 8",
      "\"kv_lora_rank\": 16, \"gate_embedding_dim\": 96, \"gate_op\": \"add\"",
      "\"kv_lora_rank\": 16, \"gate_embedding_dim\": 16, \"gate_embedding_std\": 0.001",
      "\"kv_lora_rank\": 16, \"gate_embedding_dim\": 16, \"gate_embedding_std\": 1"};
  static const char *const sources[] = {"", MASA, LOW_RANK};
  for (int i = 0; i < 4; i++)
    for (int s = 0; s < 5; s++)
      for (int k = 0; k < 3; k++) {
        char more[300];
        snprintf(more, sizeof more, "%s%s", starts[i], sources[k]);
        outputs all = outputs_of(sizes[s], more);
        assert_int_equal(all.norms, LAYERS);
        double least = k == 1 ? 0.8 : 0.9; /* sums of two atoms are larger in some layers than in others */
        if (fabs(size_of(&all) - 1) > 0.1 || all.smallest < least)
          fail_msg("%s%s: the norm's output has a root mean square of %.3f", sizes[s], more, size_of(&all));
      }
}

/* Under every rule, the tables have the spread that the configuration sets. A table of zeros leaves nothing to
   normalise. */
static void an_explicit_spread_holds_with_every_rule(void **state) {
  (void)state;
  static const double spreads[] = {0, 0.02, 3};
  for (int i = 0; i < 4; i++)
    for (int s = 0; s < 3; s++) {
      ch_config config;
      ch_params params;
      char attention[120];
      snprintf(attention, sizeof attention,
               "\"kv_lora_rank\": 16, \"gate_embedding_dim\": 24, \"gate_embedding_std\": %g", spreads[s]);
      declare(attention, starts[i], &config, &params);
      ch_tensor *weights = initialised(&params);
      int table = ch_params_find(&params, "model.layers.1.self_attn.kv_gate_embed.weight");
      const float *x = weights[table].data;
      double squares = 0;
      for (int n = 0; n < VOCABULARY * 24; n++) squares += (double)x[n] * (double)x[n];
      double spread = sqrt(squares / (VOCABULARY * 24));
      assert_true(spread >= 0.93 * spreads[s] && spread <= 1.04 * spreads[s]);
      for (int p = 0; p < params.count; p++) free(weights[p].data);
      free(weights);
      ch_params_free(&params);
    }
  outputs none =
      outputs_of("\"kv_lora_rank\": 16, \"gate_embedding_dim\": 24, \"gate_embedding_std\": 0", "");
  assert_true(none.norms == LAYERS && none.squares == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_norm_behind_a_gate_normalises_from_the_start),
      cmocka_unit_test(an_explicit_spread_holds_with_every_rule),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
