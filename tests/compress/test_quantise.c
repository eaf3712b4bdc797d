/* Tests block-quantised models. With most mechanisms, a quantised directory computes what the plain model with the same
 * values does. */
#include "attention/registry.h"
#include "compress/quantise.h"
#include "io/model_files.h"
#include "small_models.h"
#include "tensor/quantised.h"
#include "team_testing.h"

#define FOUR_TWO "'num_attention_heads': 4, 'num_key_value_heads': 2, "

static const char *const models[] = {
    FOUR_TWO "'attention': {'type': 'gqa', 'qk_norm': true}",
    FOUR_TWO "'attention': {'type': 'gqa', 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}}",
    FOUR_TWO "'tie_word_embeddings': true, 'attention': {'type': 'gta'}",
    FOUR_TWO "'hidden_act': 'gelu', 'attention': {'type': 'diff'}",
    FOUR_TWO "'attention': {'type': 'gated', 'knocking': {'type': 'mlp', 'on': ['v']}}",
    FOUR_TWO
    "'attention': {'type': 'gqa', 'knocking': {'type': 'linear', 'on': ['q', 'v'], 'per_head': true}}",
    "'num_attention_heads': 4, 'attention': {'type': 'talking'}",
    "'num_attention_heads': 3, 'head_dim': 32, 'attention': {'type': 'mfa'}",
    "'num_attention_heads': 3, 'head_dim': 32, 'attention': {'type': 'mfa_kr'}",
    "'num_attention_heads': 4, 'attention': {'type': 'mla', 'kv_lora_rank': 32, 'qk_nope_head_dim': 16, "
    "'qk_rope_head_dim': 8, 'v_head_dim': 16, 'gate_embedding_dim': 8}",
    FOUR_TWO "'moe': {'experts': 4, 'active': 2, 'shared': 1, 'expert_intermediate_size': 32}, 'attention': "
             "{'type': 'gqa'}",
};

/* Writes the model block-quantised, and reads it back as it is or with its values in F32. */
static ch_model *quantised(const ch_model *model, ch_dtype dtype, ch_weights_mode mode) {
  ch_dtype *dtypes = calloc((size_t)model->params.count, sizeof *dtypes);
  ch_quantised_sizes sizes;
  ch_model *read;
  assert_non_null(dtypes);
  must(ch_quantise_types(model, dtype, false, dtypes, &sizes, &failure));
  assert_true(sizes.in_blocks > 0 && sizes.after < 0.6 * sizes.before);
  must(ch_model_write_as(directory, &model->config, &model->params, model->weights.tensors, dtypes,
                         &(ch_model_writing){0}, &failure));
  free(dtypes);
  must(ch_model_load(directory, mode, &read, &failure));
  return read;
}

static double distance(const float *a, const float *b, int64_t n) {
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < n; i++) {
    worst = fmax(worst, fabs((double)a[i] - b[i]));
    largest = fmax(largest, fabs((double)b[i]));
  }
  return worst / largest;
}

/* Computes the logits of so many rows that matrices are widened for them. */
static void logits_of_many(const ch_model *model, float *logits) {
  enum { SEQUENCES = 4 };
  int32_t tokens[SEQUENCES * LENGTH];
  for (int t = 0; t < SEQUENCES * LENGTH; t++) tokens[t] = (t * 7 + t * t) % VOCABULARY;
  ch_forward_request request = {.tokens = tokens, .sequences = SEQUENCES, .length = LENGTH};
  ch_forward_result result;
  must(ch_forward(model, &request, &result, &failure));
  memcpy(logits, result.logits, sizeof(float) * SEQUENCES * LENGTH * VOCABULARY);
  ch_forward_result_free(&result);
}

static void every_mechanism_computes_with_blocks(void **state) {
  (void)state;
  static const ch_dtype types[] = {CH_Q8_0, CH_Q4_0};
  static float many[2][4 * LENGTH * VOCABULARY], few[2][LENGTH * VOCABULARY];
  for (size_t m = 0; m < sizeof models / sizeof *models; m++)
    for (int t = 0; t < 2; t++) {
      char keys[800];
      snprintf(keys, sizeof keys, "'num_hidden_layers': 2, %s", models[m]);
      ch_model *model = sized_model_of(64, 96, keys, CH_F32);
      ch_model *mapped = quantised(model, types[t], CH_WEIGHTS_MAPPED),
               *plain = quantised(model, types[t], CH_WEIGHTS_F32);
      logits_of_many(mapped, many[0]);
      logits_of_many(plain, many[1]);
      double exact = distance(many[0], many[1], 4 * LENGTH * VOCABULARY);
      /* A few rows, such as those of one expert, are rounded to 8-bit integers. If the processor multiplies bytes, all
         rows are. After rounding, another expert may be chosen. */
      bool experts = model->config.moe.experts > 0, rounds = ch_kernels_best(CH_F32)->multiplies_bytes;
      double most = experts ? (rounds ? 0.4 : 0.08) : rounds ? 0.08 : 2e-5;
      if (!(exact < most)) fail_msg("%s: logits of many rows off by %g", models[m], exact);
      static const int64_t splits[] = {0, 1, 6};
      logits_of(plain, 0, few[1]);
      for (int s = 0; s < 3; s++) { /* these few rows are rounded to 8-bit integers too */
        logits_of(mapped, splits[s], few[0]);
        double rounded = distance(few[0], few[1], LENGTH * VOCABULARY);
        if (!(rounded < 0.08 && rounded > 0))
          fail_msg("%s, cached %d: logits off by %g", models[m], (int)splits[s], rounded);
      }
      ch_model_unload(model), ch_model_unload(mapped), ch_model_unload(plain);
    }
}

static void superblocks_where_rows_are_wide_enough(void **state) {
  (void)state;
  static const ch_dtype types[] = {CH_Q4_K, CH_Q6_K};
  static float got[LENGTH * VOCABULARY], expected[LENGTH * VOCABULARY];
  for (int t = 0; t < 2; t++) {
    /* The rows of down_proj are not whole superblocks, so its type falls back. */
    ch_model *model =
        sized_model_of(256, 96, "'num_hidden_layers': 2, " FOUR_TWO "'attention': {'type': 'gqa'}", CH_F32);
    ch_dtype dtypes[64];
    ch_quantised_sizes sizes;
    must(ch_quantise_types(model, types[t], true, dtypes, &sizes, &failure));
    assert_int_equal(sizes.fallen_back, 2);
    assert_int_equal(sizes.left, 2); /* embedding and head */
    assert_int_equal(dtypes[ch_params_find(&model->params, "model.layers.1.mlp.down_proj.weight")], CH_Q8_0);
    assert_int_equal(dtypes[ch_params_find(&model->params, "model.layers.1.mlp.up_proj.weight")], types[t]);
    ch_model *mapped = quantised(model, types[t], CH_WEIGHTS_MAPPED),
             *plain = quantised(model, types[t], CH_WEIGHTS_F32);
    logits_of(plain, 0, expected);
    logits_of(mapped, 4, got);
    double off = distance(got, expected, LENGTH * VOCABULARY);
    if (!(off < 0.08 && off > 0)) fail_msg("%s: logits off by %g", ch_dtype_name(types[t]), off);
    ch_model_unload(model), ch_model_unload(mapped), ch_model_unload(plain);
  }
}

static void nothing_is_rounded_twice(void **state) {
  (void)state;
  ch_dtype dtypes[64];
  ch_quantised_sizes sizes;
  ch_model *model =
      sized_model_of(64, 96, "'num_hidden_layers': 2, " FOUR_TWO "'attention': {'type': 'gqa'}", CH_F32);
  ch_model *blocks = quantised(model, CH_Q8_0, CH_WEIGHTS_MAPPED);
  assert_int_equal(ch_quantise_types(blocks, CH_Q4_0, false, dtypes, &sizes, &failure), CH_ERROR_CONFIG);
  assert_non_null(strstr(failure.message, "cannot be quantised again; use the original model"));
  ch_model_unload(model), ch_model_unload(blocks);
  model = sized_model_of(64, 96,
                         "'num_hidden_layers': 2, 'num_attention_heads': 4, 'attention': {'type': 'gqa'}, "
                         "'sharing': {'type': 'sequential', 'projections': ['q'], 'atoms': 1}",
                         CH_F32);
  assert_int_equal(ch_quantise_types(model, CH_Q4_0, false, dtypes, &sizes, &failure), CH_ERROR_CONFIG);
  assert_non_null(strstr(failure.message, "crosshead absorb"));
  ch_model_unload(model);
}

static void sixteen_bits_are_a_type_too(void **state) {
  (void)state;
  static const ch_dtype types[] = {CH_F16, CH_BF16};
  for (int t = 0; t < 2; t++) {
    ch_dtype dtypes[64];
    ch_quantised_sizes sizes;
    ch_model *model =
        sized_model_of(64, 96, "'num_hidden_layers': 2, " FOUR_TWO "'attention': {'type': 'gqa'}", CH_F32);
    ch_model *halves = quantised(model, types[t], CH_WEIGHTS_MAPPED);
    int up = ch_params_find(&model->params, "model.layers.1.mlp.up_proj.weight"),
        norm = ch_params_find(&model->params, "model.norm.weight");
    const ch_tensor *tensor = &halves->weights.tensors[up];
    assert_int_equal(tensor->dtype, types[t]);
    assert_int_equal(halves->weights.tensors[norm].dtype, CH_F32);
    float *values = model->weights.tensors[up].data, *back = malloc(sizeof *back * 64 * 96);
    ch_kernels_best(CH_F32)->convert_from(all_threads(), 64 * 96, tensor->data, types[t], back);
    for (int i = 0; i < 64 * 96; i++)
      assert_true(fabs((double)back[i] - values[i]) <=
                  (t ? 0x1p-8 : 0x1p-11) * fabs((double)values[i]) + 1e-7);
    free(back);
    /* 70000 is more than F16 can hold. */
    must(ch_quantise_types(model, types[t], false, dtypes, &sizes, &failure));
    values[17] = 70000;
    ch_status status = ch_model_write_as(directory, &model->config, &model->params, model->weights.tensors,
                                         dtypes, &(ch_model_writing){0}, &failure);
    assert_int_equal(status, t ? CH_OK : CH_ERROR_NUMERIC);
    if (!t) assert_non_null(strstr(failure.message, "mlp.up_proj.weight holds 70000, which F16 cannot"));
    ch_model_unload(model), ch_model_unload(halves);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mechanism_computes_with_blocks),
      cmocka_unit_test(superblocks_where_rows_are_wide_enough),
      cmocka_unit_test(nothing_is_rounded_twice),
      cmocka_unit_test(sixteen_bits_are_a_type_too),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
