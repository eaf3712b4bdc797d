/* Tests models with shared matrices that are stored in 16 bits: loaded from files, every form has the logits of the
 * reference with the rounded values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/specimen.h"
#include "infer/model.h"
#include "team_testing.h"

#define QKVO "'projections': ['q', 'k', 'v', 'o']"
#define LATENT "'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"

static const struct {
  const char *sharing, *type, *attention;
  bool residuals;
} cases[] = {
    {"'sharing': {'type': 'masa', " QKVO ", 'atoms': 2}", "gqa", "'qk_norm': true", false},
    {"'sharing': {'type': 'masa', " QKVO ", 'atoms': 2, 'coefficients': 'mlp', 'common_dictionary': true}",
     "gqa", "", false},
    {"'sharing': {'type': 'sequential', " QKVO ", 'atoms': 2}", "talking", "", false},
    {"'sharing': {'type': 'repeat', 'projections': ['kv_b_proj', 'o'], 'atoms': 2}", "mla", LATENT, false},
    {"'sharing': {'type': 'low_rank', 'projections': ['q', 'kv_b_proj', 'kv_gate_proj'], 'rank': 4}", "mla",
     LATENT ", 'gate_embedding_dim': 3", false},
    {"'sharing': {'type': 'masa', 'projections': ['kv_b_proj', 'kv_gate_proj'], 'atoms': 2}", "mla",
     LATENT ", 'gate_embedding_dim': 3", false},
    {"'sharing': {'type': 'masa', " QKVO ", 'atoms': 1, 'groups': [[0, 1], [2, 2]]}", "gqa", "", true},
    {"'sharing': {'type': 'sequential', " QKVO ", 'atoms': 2}", "gqa", "", true},
    {"'sharing': {'type': 'low_rank', 'projections': ['q', 'o'], 'rank': 4}", "gqa", "", true},
    {"", "gqa", "'qk_norm': true", true},
};

static const reference_stored residuals[] = {{REFERENCE_RESIDUAL, 0, "q_proj", 3},
                                             {REFERENCE_RESIDUAL, 1, "k_proj", 2},
                                             {REFERENCE_RESIDUAL, 2, "o_proj", 1}};

static laboratory lab;

/* Sets the specimen's logits to those of the reference with the values in a file. */
static void read_definition(specimen *s, const ch_model *model) {
  reference_weights weights = {calloc((unsigned)model->params.count, sizeof *weights.tensors),
                               model->params.count};
  double **values = calloc((unsigned)model->params.count, sizeof *values);
  for (int p = 0; p < model->params.count; p++) {
    const ch_tensor *stored = &model->weights.tensors[p];
    int64_t count = ch_tensor_count(stored);
    float *narrow = malloc((size_t)count * sizeof *narrow);
    lab.narrow.kernels->convert_from(all_threads(), count, stored->data, stored->dtype, narrow);
    values[p] = widened(narrow, count);
    free(narrow);
    weights.tensors[p] =
        (reference_tensor){.name = model->params.rows[p].name, .rank = stored->rank, .data = values[p]};
    memcpy(weights.tensors[p].shape, stored->shape, sizeof weights.tensors[p].shape);
  }
  reference_forward(&s->definition, &weights, s->tokens, s->sequences, s->length, NULL, s->logits);
  for (int p = 0; p < model->params.count; p++) free(values[p]);
  free(values);
  free(weights.tensors);
}

static ch_model *load(const char *directory) {
  ch_model *model = NULL;
  ch_error error = {0};
  if (ch_model_load(directory, CH_WEIGHTS_MAPPED, &model, &error) != CH_OK) fail_msg("%s", error.message);
  return model;
}

static void check_logits(specimen *s, const ch_model *model, const char *what, double tolerance) {
  specimen stored = *s;
  stored.config = model->config;
  stored.params = model->params;
  int64_t count = s->sequences * s->length * s->vocab;
  ch_model_graph shape = specimen_shape(s, CH_F32, CH_HEAD_LOGITS);
  double *logits = specimen_run(&stored, &lab.narrow, &shape, model->weights.tensors, s->tokens, NULL, count);
  expect_near(s, what, count, logits, s->logits, s->largest, tolerance);
  free(logits);
}

/* Checks a model that is stored in one element type. The form for serving rounds the sums of atoms to 16 bits once
   more. */
static void check_stored(specimen *s, const char *directory, ch_dtype dtype) {
  static const struct {
    ch_materialise_for form;
    const char *what;
    bool rounds;
  } forms[] = {{CH_MATERIALISE_INFERENCE, "logits of the form for inference", false},
               {CH_MATERIALISE_DENSE, "logits of the dense form", false},
               {CH_MATERIALISE_SERVING, "logits of the form for serving", true}};
  ch_error error = {0};
  if (ch_model_write(directory, &s->config, &s->params, s->narrow, dtype, &error) != CH_OK)
    fail_msg("%s", error.message);
  ch_model *model = load(directory);
  read_definition(s, model);
  check_logits(s, model, "logits of the stored model", 1e-4);
  ch_model_unload(model);
  for (int i = 0; i < 3; i++) {
    model = load(directory);
    if (ch_model_materialise(model, forms[i].form, &error) != CH_OK) fail_msg("%s", error.message);
    check_logits(s, model, forms[i].what, !forms[i].rounds ? 1e-4 : dtype == CH_BF16 ? 0.08 : 0.01);
    ch_model_unload(model);
  }
}

static void stored_in_16_bits_they_compute_what_the_definition_says(void **state) {
  (void)state;
  const char *base = getenv("TMPDIR");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int narrow = 0; narrow < 2; narrow++) {
      combination_list *list = calloc(1, sizeof *list);
      crossing sizes[1];
      specimen s;
      char directory[512], command[600];
      cross((const char *const[]){"'num_hidden_layers': 3", NULL},
            (const char *const[]){cases[i].sharing, NULL}, sizes, 1);
      add_combination_stored(list, residuals, cases[i].residuals ? 3 : 0, sizes[0].text, cases[i].type,
                             cases[i].attention);
      assert_true(specimen_open(&list->items[0], &s));
      snprintf(directory, sizeof directory, "%s/crosshead-test-XXXXXX", base ? base : "/tmp");
      assert_non_null(mkdtemp(directory));
      check_stored(&s, directory, narrow ? CH_F16 : CH_BF16);
      snprintf(command, sizeof command, "rm -rf '%s'", directory);
      assert_int_equal(system(command), 0);
      specimen_close(&s);
      free(list);
    }
  assert_int_equal(complaints(), 0);
}

static int open_engine(void **state) {
  (void)state;
  ch_error error = {0};
  return ch_engine_init(&lab.narrow, CH_F32, &error) == CH_OK ? 0 : -1;
}

static int close_engine(void **state) {
  (void)state;
  ch_engine_free(&lab.narrow);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stored_in_16_bits_they_compute_what_the_definition_says)};
  return cmocka_run_group_tests(tests, open_engine, close_engine);
}
