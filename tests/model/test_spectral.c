/* Tests the spectral parametrisation: the initial size of products of matrices compared with a dense matrix,
 * learning rates at different widths, and tensors with the standard rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <math.h>

#include "config_file/config_json.h"
#include "model/transformer.h"

static ch_params declared(const char *text, int64_t width) {
  char whole[1200];
  snprintf(
      whole, sizeof whole,
      "{\"model_type\": \"crosshead\", \"vocab_size\": 100, \"hidden_size\": %d, \"intermediate_size\": %d, "
      "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, %s}",
      (int)width, (int)(3 * width), text);
  ch_config config;
  ch_params params = {0};
  ch_error error = {0};
  if (ch_config_parse(whole, "the test", &config, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(ch_model_declare(&config, &params, &error), CH_OK);
  return params;
}

static const ch_param *row(const ch_params *params, const char *name) {
  int index = ch_params_find(params, name);
  if (index < 0) fail_msg("no tensor %s", name);
  return &params->rows[index];
}

static void near(double got, double expected) {
  if (!(fabs(got - expected) <= 1e-12 * fabs(expected)))
    fail_msg("%.15g where %.15g was expected", got, expected);
}

#define SPECTRAL "\"parametrization\": \"spectral\", \"tie_word_embeddings\": true, "
#define Q "model.layers.1.self_attn.q_proj"
#define O "model.layers.1.self_attn.o_proj"

/* Returns the variance of an element of B A, whose factors are independent: rank var(B) var(A). */
static double product_variance(const ch_param *a, const ch_param *b) {
  return (double)a->shape[0] * a->std * a->std * b->std * b->std;
}

static void products_and_combinations_start_like_the_dense_matrix(void **state) {
  (void)state;
  ch_params dense = declared(SPECTRAL "\"attention\": {\"type\": \"gqa\"}", 64);
  ch_params low =
      declared(SPECTRAL "\"attention\": {\"type\": \"gqa\"}, \"sharing\": {\"type\": \"low_rank\", "
                        "\"rank\": 5, \"projections\": [\"q_proj\", \"o_proj\"]}",
               64);
  ch_params atoms = declared(SPECTRAL "\"attention\": {\"type\": \"gqa\"}, \"sharing\": {\"type\": \"masa\", "
                                      "\"atoms\": 2, \"projections\": [\"q_proj\", \"o_proj\"]}",
                             64);
  ch_params common =
      declared(SPECTRAL "\"attention\": {\"type\": \"gqa\"}, \"sharing\": {\"type\": \"masa\", "
                        "\"atoms\": 2, \"common_dictionary\": true, "
                        "\"projections\": [\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\"]}",
               64);
  const char *const names[] = {Q, O}, *const shared[] = {"q_proj", "o_proj"};
  for (int i = 0; i < 2; i++) {
    char name[128];
    snprintf(name, sizeof name, "%s.weight", names[i]);
    double expected = row(&dense, name)->std;
    snprintf(name, sizeof name, "%s.a.weight", names[i]);
    const ch_param *a = row(&low, name);
    snprintf(name, sizeof name, "%s.b.weight", names[i]);
    near(product_variance(a, row(&low, name)), expected * expected);
    snprintf(name, sizeof name, "%s.coefficients", names[i]);
    const ch_param *c = row(&atoms, name), *c_common = row(&common, name);
    snprintf(name, sizeof name, "model.dictionary.%s.atoms", shared[i]);
    const ch_param *d = row(&atoms, name), *d_common = row(&common, "model.dictionary.common_64x64.atoms");
    near(2 * c->std * c->std * d->std * d->std, expected * expected);
    near(2 * c_common->std * c_common->std * d_common->std * d_common->std, expected * expected);
  }
  ch_params_free(&dense);
  ch_params_free(&low);
  ch_params_free(&atoms);
  ch_params_free(&common);
}

/* A step of Adam changes each element by about the learning rate. A row of `inputs` such changes of one sign
   changes an output by the rate times `inputs` times the size of an input. */
static void a_step_changes_outputs_by_the_same_amount_at_every_width(void **state) {
  (void)state;
  ch_params narrow = declared(SPECTRAL "\"attention\": {\"type\": \"gqa\"}", 32);
  ch_params wide = declared(SPECTRAL "\"attention\": {\"type\": \"gqa\"}", 512);
  for (int p = 0; p < narrow.count; p++) {
    const ch_param *a = &narrow.rows[p], *b = row(&wide, a->name);
    double inputs_a = (double)a->shape[a->rank - 1], inputs_b = (double)b->shape[b->rank - 1];
    if (a->role == CH_PARAM_HIDDEN) near(b->lr_factor * inputs_b, a->lr_factor * inputs_a);
    if (a->role == CH_PARAM_TIED) { /* a token's own logit starts equal at every width */
      near(b->lr_factor * inputs_b, a->lr_factor * inputs_a);
      near(b->std * inputs_b, a->std * inputs_a);
    }
    if (a->role == CH_PARAM_RESIDUAL) { /* in units of the residual stream, that is, of embeddings */
      const char *const embeddings = "model.embed_tokens.weight";
      near(b->lr_factor * inputs_b / row(&wide, embeddings)->std,
           a->lr_factor * inputs_a / row(&narrow, embeddings)->std);
      near(b->std * sqrt(inputs_b) / row(&wide, embeddings)->std,
           a->std * sqrt(inputs_a) / row(&narrow, embeddings)->std);
    }
    if (a->role == CH_PARAM_HIDDEN) near(b->std * sqrt(inputs_b), 1);
    if (a->role == CH_PARAM_VECTOR) near(b->lr_factor, 1);
  }
  ch_params_free(&narrow);
  ch_params_free(&wide);
}

static void gates_of_mla_multiply_by_about_one(void **state) {
  (void)state;
  ch_params params = declared(SPECTRAL "\"attention\": {\"type\": \"mla\", \"kv_lora_rank\": 16, "
                                       "\"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8, "
                                       "\"gate_embedding_dim\": 24}",
                              64);
  const ch_param *table = row(&params, "model.layers.0.self_attn.kv_gate_embed.weight"),
                 *matrix = row(&params, "model.layers.0.self_attn.kv_gate_proj.weight");
  near(24 * table->std * table->std * matrix->std * matrix->std, 1);
  ch_params_free(&params);
}

/* LayerNorm cancels the scale of expansion and gate, so both learn at twice the rate. */
static void what_a_norm_follows_learns_faster(void **state) {
  (void)state;
#define GATED                                                                                                \
  SPECTRAL "\"attention\": {\"type\": \"mla\", \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, "              \
           "\"qk_rope_head_dim\": 4, \"v_head_dim\": 8, \"gate_embedding_dim\": 24"
  static const char *const names[] = {"model.layers.0.self_attn.kv_b_proj.weight",
                                      "model.layers.0.self_attn.kv_gate_proj.weight"};
  ch_params normed = declared(GATED "}", 64), plain = declared(GATED ", \"gate_norm\": false}", 64),
            added = declared(GATED ", \"gate_op\": \"add\"}", 64);
  for (int i = 0; i < 2; i++) {
    near(row(&normed, names[i])->lr_factor, 2 * row(&plain, names[i])->lr_factor);
    near(row(&normed, names[i])->std, row(&plain, names[i])->std);
    near(row(&added, names[i])->lr_factor, row(&plain, names[i])->lr_factor);
  }
  ch_params_free(&normed);
  ch_params_free(&plain);
  ch_params_free(&added);
}

static void only_unnormed_products_share_a_step(void **state) {
  (void)state;
  static const char first[] = "model.layers.0.self_attn.q_a_proj.weight";
  ch_params plain = declared(SPECTRAL "\"attention\": {\"type\": \"mfa\"}", 64);
  ch_params normed = declared(SPECTRAL "\"attention\": {\"type\": \"mfa\", \"q_a_norm\": true}", 64);
  near(row(&normed, first)->lr_factor, sqrt(2) * row(&plain, first)->lr_factor);
  near(row(&normed, "model.layers.0.self_attn.k_proj.weight")->lr_factor,
       row(&plain, "model.layers.0.self_attn.k_proj.weight")->lr_factor);
  ch_params_free(&plain);
  ch_params_free(&normed);
}

static void the_standard_one_has_one_rate_for_all(void **state) {
  (void)state;
  ch_params params = declared("\"attention\": {\"type\": \"mfa\"}", 64);
  for (int p = 0; p < params.count; p++) near(params.rows[p].lr_factor, 1);
  near(row(&params, "model.embed_tokens.weight")->std, 0.02);
  near(row(&params, "model.layers.0.self_attn.k_proj.weight")->std, 0.02);
  near(row(&params, "model.layers.2.mlp.down_proj.weight")->std, 0.02 / sqrt(6));
  ch_params_free(&params);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_and_combinations_start_like_the_dense_matrix),
      cmocka_unit_test(a_step_changes_outputs_by_the_same_amount_at_every_width),
      cmocka_unit_test(gates_of_mla_multiply_by_about_one),
      cmocka_unit_test(what_a_norm_follows_learns_faster),
      cmocka_unit_test(only_unnormed_products_share_a_step),
      cmocka_unit_test(the_standard_one_has_one_rate_for_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
