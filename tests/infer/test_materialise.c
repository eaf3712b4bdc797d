/* Tests that models which are materialised, reduced or unchanged have equal logits, with and without the
 * cache. */
#include "attention/weight_source.h"
#include <crosshead/bench.h>
#include "small_models.h"

#define QKVO "'projections': ['q', 'k', 'v', 'o']"

static ch_model *sharing_model(const char *rest, ch_dtype dtype) {
  char keys[1200];
  snprintf(keys, sizeof keys, "'num_hidden_layers': 5, 'num_attention_heads': 4, %s", rest);
  return model_of(keys, dtype);
}

static const char *const shared_models[] = {
    "'sharing': {'type': 'masa', " QKVO ", 'atoms': 2}",
    "'sharing': {'type': 'masa', " QKVO ", 'atoms': 5, 'coefficients': 'mlp'}",
    "'num_key_value_heads': 2, 'sharing': {'type': 'masa', " QKVO ", 'atoms': 2, 'common_dictionary': true,"
    " 'coefficients': 'mlp'}",
    "'num_key_value_heads': 2, 'attention_bias': true, 'sharing': {'type': 'masa', " QKVO ", 'atoms': 3}",
    "'sharing': {'type': 'sequential', " QKVO ", 'atoms': 2}",
    "'sharing': {'type': 'repeat', 'projections': ['q', 'o'], 'atoms': 3}",
    "'sharing': {'type': 'low_rank', " QKVO ", 'rank': 3}",
    "'attention': {'type': 'mla', 'kv_lora_rank': 10, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4,"
    " 'v_head_dim': 8}, 'sharing': {'type': 'low_rank', 'projections': ['q', 'kv_b_proj', 'o'], 'rank': 4}",
    "'attention': {'type': 'mla', 'kv_lora_rank': 10, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4,"
    " 'v_head_dim': 8, 'gate_embedding_dim': 5}, 'sharing': {'type': 'masa',"
    " 'projections': ['kv_a_proj_with_mqa', 'kv_b_proj', 'kv_gate_proj'], 'atoms': 2}",
    "'attention': {'type': 'mfa_kr'}, 'head_dim': 10, 'sharing': {'type': 'masa', 'projections': "
    "['q_b_proj', "
    "'v_reuse', 'k'], 'atoms': 2}",
};

static void every_form_says_the_same(void **state) {
  (void)state;
  static const ch_materialise_for forms[] = {CH_MATERIALISE_INFERENCE, CH_MATERIALISE_SERVING,
                                             CH_MATERIALISE_DENSE};
  float expected[LENGTH * VOCABULARY];
  for (size_t i = 0; i < sizeof shared_models / sizeof *shared_models; i++)
    for (int f = 0; f < 3; f++) {
      ch_model *model = sharing_model(shared_models[i], CH_F32);
      logits_of(model, 0, expected);
      assert_says(model, expected, 2e-5, "as it was trained");
      must(ch_model_materialise(model, forms[f], &failure));
      assert_says(model, expected, 2e-5, shared_models[i]);
      assert_int_not_equal(model->config.sharing.coefficients, CH_COEFFICIENTS_MLP);
      if (forms[f] == CH_MATERIALISE_DENSE) assert_int_equal(model->config.sharing.type, CH_SHARING_NONE);
      ch_model_unload(model);
    }
}

/* For inference, a dictionary consists of its atoms and L S coefficients. */
static void inference_drops_what_gives_coefficients(void **state) {
  (void)state;
  ch_model *model = sharing_model(shared_models[1], CH_F32);
  assert_true(ch_params_find(&model->params, "model.dictionary.q_proj.mlp.0.weight") >= 0);
  int64_t figures = 0, kept = 0;
  for (int i = 0; i < model->params.count; i++) figures += ch_param_figure(&model->params.rows[i]);
  must(ch_model_materialise(model, CH_MATERIALISE_INFERENCE, &failure));
  for (int i = 0; i < model->params.count; i++) kept += ch_param_count(&model->params.rows[i]);
  assert_int_equal(kept, figures);
  assert_int_equal(ch_params_find(&model->params, "model.dictionary.q_proj.mlp.0.weight"), -1);
  assert_true(ch_params_find(&model->params, "model.layers.4.self_attn.q_proj.coefficients") >= 0);
  ch_model_unload(model);
}

/* Atoms that are themselves a layer's matrix are not copied. Sums of atoms have the atoms' type. */
static void serving_takes_no_more_memory_than_it_must(void **state) {
  (void)state;
  ch_model *model = sharing_model(shared_models[4], CH_F32);
  int atoms = ch_params_find(&model->params, "model.dictionary.v_proj.atoms");
  const float *data = model->weights.tensors[atoms].data;
  must(ch_model_materialise(model, CH_MATERIALISE_SERVING, &failure));
  for (int layer = 0; layer < 5; layer++) {
    char name[80];
    snprintf(name, sizeof name, "model.layers.%d.self_attn.v_proj.weight", layer);
    const ch_tensor *own = &model->weights.tensors[ch_params_find(&model->params, name)];
    assert_ptr_equal(own->data, data + layer * 2 / 5 * 24 * 24);
  }
  ch_model_unload(model);
  model = sharing_model(shared_models[2], CH_BF16);
  must(ch_model_materialise(model, CH_MATERIALISE_SERVING, &failure));
  int own = ch_params_find(&model->params, "model.layers.3.self_attn.k_proj.weight");
  assert_int_equal(model->weights.tensors[own].dtype, CH_BF16);
  ch_model_unload(model);
}

/* Multiplying by the factors one after the other is cheaper than by their product, unless a matrix is folded
   into queries. */
static void low_rank_factors_stay_where_they_can(void **state) {
  (void)state;
  ch_model *model = sharing_model(shared_models[7], CH_F32);
  must(ch_model_materialise(model, CH_MATERIALISE_SERVING, &failure));
  assert_true(ch_is_shared(&model->config, "q_proj") && ch_is_shared(&model->config, "o_proj"));
  assert_false(ch_is_shared(&model->config, "kv_b_proj"));
  ch_model_unload(model);
}

static void a_model_is_materialised_once(void **state) {
  (void)state;
  ch_model *model = sharing_model(shared_models[1], CH_F32);
  must(ch_model_materialise(model, CH_MATERIALISE_INFERENCE, &failure));
  assert_int_equal(ch_model_materialise(model, CH_MATERIALISE_DENSE, &failure), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(failure.message, "open it again"));
  ch_model_unload(model);
}

/* The sizes are exact. The slowdown depends on the machine. */
static void a_kept_dictionary_is_weighed_against_matrices(void **state) {
  (void)state;
  ch_model *model = sharing_model(shared_models[0], CH_F32);
  ch_dictionary_cost cost;
  must(ch_dictionary_cost_measure(model, &cost, &failure));
  assert_true(cost.bytes == 4.0 * (4 * 2 * 24 * 24 + 4 * 5 * 2));
  assert_true(cost.written_bytes == 4.0 * 4 * 5 * 24 * 24);
  assert_true(cost.slowdown > 0 && isfinite(cost.slowdown));
  ch_model_unload(model);
}

/* With S = L atoms and one-hot coefficients per layer, nothing is shared. */
static void one_hot_coefficients_are_dense_matrices(void **state) {
  (void)state;
  ch_model *model = sharing_model("'sharing': {'type': 'masa', " QKVO ", 'atoms': 5}", CH_F32);
  float expected[LENGTH * VOCABULARY];
  for (int layer = 0; layer < 5; layer++)
    for (int p = 0; p < 4; p++) {
      char name[80];
      snprintf(name, sizeof name, "model.layers.%d.self_attn.%c_proj.coefficients", layer, "qkvo"[p]);
      float *c = model->weights.tensors[ch_params_find(&model->params, name)].data;
      for (int s = 0; s < 5; s++) c[s] = s == 4 - layer;
    }
  logits_of(model, 0, expected);
  ch_materialised_model dense;
  must(ch_materialise(&model->config, &model->params, model->weights.tensors, CH_MATERIALISE_DENSE, &dense,
                      &failure));
  for (int layer = 0; layer < 5; layer++) {
    char name[80];
    snprintf(name, sizeof name, "model.layers.%d.self_attn.o_proj.weight", layer);
    const float *own = dense.tensors[ch_params_find(&dense.params, name)].data;
    const float *atoms =
        model->weights.tensors[ch_params_find(&model->params, "model.dictionary.o_proj.atoms")].data;
    assert_memory_equal(own, atoms + (4 - layer) * 24 * 24, sizeof(float) * 24 * 24);
  }
  ch_materialised_model_free(&dense);
  must(ch_model_materialise(model, CH_MATERIALISE_DENSE, &failure));
  assert_says(model, expected, 1e-6, "dense");
  ch_model_unload(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form_says_the_same),
      cmocka_unit_test(inference_drops_what_gives_coefficients),
      cmocka_unit_test(serving_takes_no_more_memory_than_it_must),
      cmocka_unit_test(low_rank_factors_stay_where_they_can),
      cmocka_unit_test(a_model_is_materialised_once),
      cmocka_unit_test(a_kept_dictionary_is_weighed_against_matrices),
      cmocka_unit_test(one_hot_coefficients_are_dense_matrices),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
