/* Tests folding modules into weights: the plainer model has the same logits, with and without the cache. */
#include "attention/registry.h"
#include "compress/absorb.h"
#include "small_models.h"

static ch_model *random_model(const char *sizes, const char *attention) {
  char keys[1200];
  snprintf(keys, sizeof keys, "'num_hidden_layers': 3%s%s, 'attention': {%s}", *sizes ? ", " : "", sizes,
           attention);
  return model_of(keys, CH_F32);
}

typedef struct folded_case {
  const char *sizes, *attention, *model_type;
  unsigned knocked, left;
  int mixed, mixes_left; /* numbers of layers whose mix is folded, and whose mix is left */
  bool keep_cache;
} folded_case;

#define ALL (CH_ON_Q | CH_ON_K | CH_ON_V)
#define LINEAR "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"
#define OWN "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}"
#define SHARED(type) ", 'sharing': {'projections': ['q', 'k', 'v', 'o'], 'type': " type "}"
#define FOUR_TWO "'num_attention_heads': 4, 'num_key_value_heads': 2"
#define MLA                                                                                                  \
  "'type': 'mla', 'kv_lora_rank': 10, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 8, "

static const folded_case cases[] = {
    {FOUR_TWO, "'type': 'gqa', " LINEAR, "llama", ALL, 0, 0, 0, false},
    {FOUR_TWO, "'type': 'gqa', 'qk_norm': true, " LINEAR, "qwen3", ALL, 0, 0, 0, false},
    {FOUR_TWO ", 'attention_bias': true", "'type': 'gqa', " LINEAR, "qwen2", ALL, 0, 0, 0, false},
    {FOUR_TWO ", 'attention_bias': true", "'type': 'gqa', 'qk_norm': true, " LINEAR, "crosshead", ALL, 0, 0,
     0, false},
    {FOUR_TWO ", 'position': 'alibi'", "'type': 'gqa', " LINEAR, "crosshead", ALL, 0, 0, 0, false},
    {FOUR_TWO ", 'init': 'deepseek', 'tie_word_embeddings': true",
     "'type': 'gqa', 'knocking': {'type': 'linear', 'on': ['v'], 'decay_to_identity': true}", "llama",
     CH_ON_V, 0, 0, 0, false},
    {FOUR_TWO, "'type': 'gqa', 'head_norm': true, " LINEAR, "crosshead", ALL, 0, 0, 0, false},
    {FOUR_TWO ", 'attention_bias': true", "'type': 'gqa', " OWN, "qwen2", ALL, 0, 0, 0, false},
    {FOUR_TWO, "'type': 'gqa', " OWN ", 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}", "llama", ALL,
     0, 3, 0, false},
    /* Heads are mixed from cached components, so a map for each head cannot move before the mix. */
    {FOUR_TWO, "'type': 'gqa', " OWN ", 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}", "crosshead",
     CH_ON_Q, CH_ON_K | CH_ON_V, 0, 3, true},
    {"'num_attention_heads': 4",
     "'type': 'gqa', " OWN ", 'head_mix': {'on': ['v'], 'component_heads': [2, 4, 5]}", "crosshead",
     CH_ON_Q | CH_ON_K, CH_ON_V, 1, 1, true},
    {FOUR_TWO, "'type': 'gqa', 'knocking': {'type': 'mlp', 'on': ['q', 'v']}", "crosshead", 0,
     CH_ON_Q | CH_ON_V, 0, 0, false},
    {FOUR_TWO, "'type': 'gqa'", "llama", 0, 0, 0, 0, false},
    {FOUR_TWO ", 'hidden_act': 'gelu'", "'type': 'gqa'", "crosshead", 0, 0, 0, 0, false},
    {FOUR_TWO, "'type': 'gqa', 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}", "llama", 0, 0, 3, 0,
     false},
    {FOUR_TWO ", 'attention_bias': true", "'type': 'gqa', 'head_mix': {'on': ['k'], 'component_heads': 1}",
     "qwen2", 0, 0, 3, 0, false},
    {FOUR_TWO,
     "'type': 'gqa', 'qk_norm': true, " LINEAR ", 'head_mix': {'on': ['k', 'v'], 'component_heads': 1, "
     "'layers': [1, 2]}",
     "qwen3", ALL, 0, 2, 0, false},
    {FOUR_TWO, "'type': 'gqa', " LINEAR ", 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}", "crosshead",
     ALL, 0, 0, 3, true},
    {"'num_attention_heads': 4",
     "'type': 'gqa', " LINEAR ", 'head_mix': {'on': ['v'], 'component_heads': [2, 4, 5]}", "crosshead", ALL,
     0, 1, 1, true},
    {"'num_attention_heads': 4",
     "'type': 'gqa', 'head_norm': true, 'head_mix': {'on': ['k', 'v'], "
     "'component_heads': 4}",
     "crosshead", 0, 0, 3, 0, true},
    {FOUR_TWO,
     "'type': 'gqa', 'knocking': {'type': 'mlp', 'on': ['v']}, 'head_mix': {'on': ['k', 'v'], "
     "'component_heads': 2}",
     "crosshead", 0, CH_ON_V, 3, 0, false},
    {FOUR_TWO ", 'head_dim': 8", "'type': 'gta', 'knocking': {'type': 'linear', 'on': ['q', 'v']}",
     "crosshead", CH_ON_Q | CH_ON_V, 0, 0, 0, false},
    {FOUR_TWO ", 'head_dim': 8",
     "'type': 'gta', 'knocking': {'type': 'linear', 'on': ['v']}, 'head_mix': {'on': ['v'], "
     "'component_heads': "
     "1}",
     "crosshead", CH_ON_V, 0, 3, 0, false},
    {"'num_attention_heads': 4", MLA LINEAR, "crosshead", ALL, 0, 0, 0, false},
    {"'num_attention_heads': 4", MLA "'q_lora_rank': 9, " LINEAR, "crosshead", ALL, 0, 0, 0, false},
    {"'num_attention_heads': 4", MLA "'layer_group_size': 2, " OWN, "crosshead", ALL, 0, 0, 0, false},
    {"'num_attention_heads': 4", MLA "'gate_embedding_dim': 5, " LINEAR, "crosshead", ALL, 0, 0, 0, false},
    {"'num_attention_heads': 4",
     MLA "'gate_embedding_dim': 5, 'layer_group_size': 2, 'gate_op': 'add', " LINEAR, "crosshead", ALL, 0, 0,
     0, false},
    {"'num_attention_heads': 4", MLA "'layer_group_size': 2, " LINEAR, "crosshead", ALL, 0, 0, 0, false},
    {"'num_attention_heads': 3, 'head_dim': 10", "'type': 'mfa', 'q_a_norm': true, " LINEAR, "crosshead", ALL,
     0, 0, 0, false},
    {"'num_attention_heads': 3, 'head_dim': 10",
     "'type': 'mfa_kr', 'knocking': {'type': 'linear', 'on': ['q', 'k']}", "crosshead", CH_ON_Q, CH_ON_K, 0,
     0, false},
    {FOUR_TWO SHARED("'masa', 'coefficients': 'mlp', 'atoms': 2"), "'type': 'gqa', " LINEAR, "llama", ALL, 0,
     0, 0, false},
    {FOUR_TWO SHARED("'sequential', 'atoms': 2"), "'type': 'gqa', 'qk_norm': true", "qwen3", 0, 0, 0, 0,
     false},
    {FOUR_TWO SHARED("'repeat', 'atoms': 2"),
     "'type': 'gqa', 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}", "llama", 0, 0, 3, 0, false},
    {FOUR_TWO ", 'attention_bias': true" SHARED("'low_rank', 'rank': 5"), "'type': 'gqa', " LINEAR, "qwen2",
     ALL, 0, 0, 0, false},
    {"'num_attention_heads': 4, 'sharing': {'type': 'masa', 'atoms': 2, 'projections': ['kv_b_proj', 'q']}",
     MLA LINEAR, "crosshead", ALL, 0, 0, 0, false},
    {"'num_attention_heads': 4",
     "'type': 'gqa', 'num_key_heads': 4, 'num_value_heads': 2, " LINEAR
     ", 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}",
     "crosshead", ALL, 0, 3, 0, false},
    {"'num_attention_heads': 4",
     "'type': 'gqa', 'num_key_heads': 4, 'num_value_heads': 2, " LINEAR
     ", 'head_mix': {'on': ['k', 'v'], 'component_heads': [4, 2, 3]}",
     "crosshead", ALL, 0, 0, 2, true},
    {"'num_attention_heads': 4",
     "'type': 'mla', 'k_lora_rank': 10, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': "
     "8, " LINEAR,
     "crosshead", ALL, 0, 0, 0, false},
    {FOUR_TWO, "'type': 'diff', " LINEAR, "crosshead", ALL, 0, 0, 0, false},
    {FOUR_TWO, "'type': 'diff', " LINEAR ", 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}",
     "crosshead", ALL, 0, 3, 0, false},
    {"'num_attention_heads': 4", "'type': 'talking', " LINEAR, "crosshead", ALL, 0, 0, 0, false},
};

static void check(const folded_case *c) {
  ch_model *model = random_model(c->sizes, c->attention), *folded;
  ch_absorption a;
  must(ch_absorb(model, &(ch_absorb_options){.keep_cache = c->keep_cache}, &a, &failure));
  if (strcmp(a.config.model_type, c->model_type) != 0)
    fail_msg("%s: a %s model where %s is right", c->attention, a.config.model_type, c->model_type);
  if (a.knocked != c->knocked || a.knocks_left != c->left || a.mixed_layers != c->mixed ||
      a.mixes_left != c->mixes_left)
    fail_msg("%s: folded %u, left %u, mixing of %d layers, left %d", c->attention, a.knocked, a.knocks_left,
             (int)a.mixed_layers, (int)a.mixes_left);
  assert_int_equal(a.cache_before, ch_state_elements(&model->config));
  assert_int_equal(a.shared, model->config.sharing.projection_count);
  assert_int_equal(a.config.sharing.type, CH_SHARING_NONE);
  if (c->keep_cache) assert_int_equal(a.cache_after, a.cache_before);
  must(ch_model_write(directory, &a.config, &a.params, a.tensors, CH_F32, &failure));
  ch_absorbed_free(&a);
  must(ch_model_load(directory, CH_WEIGHTS_MAPPED, &folded, &failure));
  assert_same_logits(model, folded, 2e-5, c->attention);
  ch_model_unload(folded);
  ch_model_unload(model);
}

static void folded_models_say_the_same(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i]);
}

static void what_is_folded_twice_stays_as_it_is(void **state) {
  (void)state;
  ch_model *model = random_model(FOUR_TWO, "'type': 'gqa', " LINEAR), *folded;
  ch_absorption a;
  must(ch_absorb(model, &(ch_absorb_options){0}, &a, &failure));
  must(ch_model_write(directory, &a.config, &a.params, a.tensors, CH_F32, &failure));
  ch_absorbed_free(&a);
  must(ch_model_load(directory, CH_WEIGHTS_MAPPED, &folded, &failure));
  must(ch_absorb(folded, &(ch_absorb_options){0}, &a, &failure));
  assert_int_equal(a.knocked, 0);
  assert_string_equal(a.config.model_type, "llama");
  for (int i = 0; i < a.params.count; i++)
    assert_ptr_equal(a.tensors[i].data, folded->weights.tensors[i].data);
  ch_absorbed_free(&a);
  ch_model_unload(folded);
  ch_model_unload(model);
}

/* Writes a model in BF16 that has a residual of rank 1 on one matrix. */
static void write_with_residual(void) {
  enum { WIDTH = 24, MOST = 64 };
  static uint16_t factor[WIDTH];
  for (int i = 0; i < WIDTH; i++) factor[i] = (uint16_t)(0x3e80 + i); /* from 0.25 on */
  ch_model *model = model_of(FOUR_TWO ", 'num_hidden_layers': 1, 'position': 'alibi'", CH_BF16);
  char a[] = "model.layers.0.self_attn.q_proj.residual.a.weight",
       b[] = "model.layers.0.self_attn.q_proj.residual.b.weight";
  ch_stored_tensor tensors[MOST];
  int count = 0;
  for (; count < model->params.count; count++)
    tensors[count] = (ch_stored_tensor){.name = (char *)model->params.rows[count].name,
                                        .tensor = model->weights.tensors[count]};
  tensors[count++] = (ch_stored_tensor){.name = a, .tensor = {CH_BF16, 2, {1, WIDTH}, factor}};
  tensors[count++] = (ch_stored_tensor){.name = b, .tensor = {CH_BF16, 2, {WIDTH, 1}, factor}};
  char *path = ch_path_join(directory, "model.safetensors");
  must(ch_safetensors_write(path, tensors, count, NULL, &failure));
  free(path);
  ch_model_unload(model);
}

static void a_residual_is_something_to_fold(void **state) {
  (void)state;
  ch_model *model;
  ch_absorption absorbed;
  write_with_residual();
  must(ch_model_load(directory, CH_WEIGHTS_MAPPED, &model, &failure));
  must(ch_absorb(model, &(ch_absorb_options){0}, &absorbed, &failure));
  assert_int_equal(absorbed.residuals, 1);
  int row = ch_params_find(&absorbed.params, "model.layers.0.self_attn.q_proj.weight");
  assert_int_equal(absorbed.tensors[row].dtype, CH_F32);
  assert_int_equal(ch_params_find(&absorbed.params, "model.layers.0.self_attn.q_proj.residual.a.weight"), -1);
  ch_absorbed_free(&absorbed);
  ch_model_unload(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(folded_models_say_the_same),
      cmocka_unit_test(what_is_folded_twice_stays_as_it_is),
      cmocka_unit_test(a_residual_is_something_to_fold),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
