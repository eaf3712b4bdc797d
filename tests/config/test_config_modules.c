/* Tests the keys of mechanisms and modules: the meaning of each form, writing, and keys that contradict each
 * other. */
#include "config/config_testing.h"
#include "config_file/config_json.h"

/* Returns the text of a configuration with this `attention` object (malloc'd). The rows of the tests refer to its
   sizes. */
static char *with_attention(const char *attention) {
  static const char base[] =
      "{\"model_type\": \"crosshead\", \"vocab_size\": 73, \"hidden_size\": 64, \"intermediate_size\": 44,"
      " \"num_hidden_layers\": 4, \"num_attention_heads\": 8}";
  return changed(base, "attention", attention);
}

static ch_config parsed(const char *attention) {
  ch_config config;
  ch_error error = {0};
  char *text = with_attention(attention);
  if (ch_config_parse(text, "config.json", &config, &error) != CH_OK) fail_msg("%s", error.message);
  free(text);
  return config;
}

#define MLA                                                                                                  \
  "\"type\": \"mla\", \"kv_lora_rank\": 20, \"qk_nope_head_dim\": 12, \"qk_rope_head_dim\": 8, "             \
  "\"v_head_dim\": 10"

#define APART "\"type\": \"mla\", \"qk_nope_head_dim\": 12, \"qk_rope_head_dim\": 8, \"v_head_dim\": 10"

static const char *const forms[] = {
    "{\"type\": \"gqa\"}",
    "{\"type\": \"gqa\", \"knocking\": {\"type\": \"linear\", \"on\": [\"q\", \"k\", \"v\"]}}",
    "{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\", \"on\": [\"v\"], \"decay_to_identity\": true}}",
    "{\"type\": \"gqa\", \"knocking\": {\"on\": [\"v\", \"q\"], \"type\": \"gate\"}, \"qk_norm\": true}",
    "{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\", \"v\"], \"component_heads\": 2}}",
    "{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 16, \"layers\": [1, 3]}}",
    "{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"v\"], \"component_heads\": [8, 2, 8, 3]}, \"head_norm\": "
    "true}",
    "{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"v\"], \"component_heads\": [8, 2, 8, 8], \"layers\": [1, "
    "1]}}",
    "{\"type\": \"gqa\", \"num_key_heads\": 2, \"num_value_heads\": 4, \"head_mix\": {\"on\": [\"k\", "
    "\"v\"], "
    "\"component_heads\": [1, 4, 2, 3]}}",
    "{\"type\": \"gated\", \"num_value_heads\": 1}",
    "{\"type\": \"gta\"}",
    "{\"type\": \"gta\", \"knocking\": {\"type\": \"mlp\", \"on\": [\"q\", \"v\"]},"
    " \"head_mix\": {\"on\": [\"v\"], \"component_heads\": 2}}",
    "{" MLA "}",
    "{" MLA ", \"layer_group_size\": 2, \"layer_group_shares\": \"latent\"}",
    "{" MLA ", \"q_lora_rank\": 24, \"layer_group_size\": 3,"
    " \"knocking\": {\"type\": \"linear\", \"on\": [\"q\", \"k\", \"v\"]}}",
    "{" APART ", \"k_lora_rank\": 16, \"v_lora_rank\": 24}",
    "{" APART ", \"k_lora_rank\": 0, \"v_lora_rank\": 24, \"layer_group_size\": 2}",
    "{" MLA ", \"gate_embedding_dim\": 16, \"gate_op\": \"add\", \"gate_norm\": false}",
    "{" MLA ", \"gate_embedding_dim\": 16, \"gate_embedding_std\": 0}",
    "{" MLA ", \"gate_embedding_dim\": 16, \"gate_embedding_std\": 0.02}",
    "{\"type\": \"mfa\"}",
    "{\"type\": \"mfa\", \"q_lora_rank\": 24, \"q_a_norm\": true, \"qk_norm\": true}",
    "{\"type\": \"mfa_kr\", \"knocking\": {\"type\": \"linear\", \"on\": [\"k\"]}}",
    "{\"type\": \"mfa_kr\", \"value_reuse\": \"residual\", \"qk_norm\": true}",
    "{\"type\": \"diff\"}",
    "{\"type\": \"diff\", \"diff_lambda\": \"per_pair\", \"head_norm\": false,"
    " \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 4}}",
    "{\"type\": \"talking\", \"mix_logits\": false}",
    "{\"type\": \"talking\", \"mix_weights\": false, \"knocking\": {\"type\": \"gate\", \"on\": [\"v\"]}}",
    "{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\", \"on\": [\"v\"], \"init\": \"random\"}}",
    "{\"type\": \"gqa\", \"knocking\": {\"type\": \"linear\", \"on\": [\"q\"], \"init\": \"identity\"}}",
    "{\"type\": \"diff\", \"knocking\": {\"type\": \"mlp\", \"on\": [\"v\"], \"per_head\": true}}",
    "{\"type\": \"gta\", \"qk_norm\": true}",
    "{" MLA ", \"qk_norm\": true, \"gate_embedding_dim\": 16}",
};

static void writing_keeps_every_form(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    ch_config first = parsed(forms[i]), second;
    ch_text json = {0};
    ch_error error = {0};
    ch_config_write(&first, &json);
    if (ch_config_parse(json.data, "written", &second, &error) != CH_OK)
      fail_msg("%s\n%s", error.message, json.data);
    assert_memory_equal(&first, &second, sizeof first);
    ch_text again = {0};
    ch_config_write(&second, &again);
    assert_string_equal(json.data, again.data);
    ch_text_free(&again);
    ch_text_free(&json);
  }
}

static void modules_are_read(void **state) {
  (void)state;
  ch_config c = parsed(forms[2]);
  assert_int_equal(c.attention.knocking.type, CH_KNOCKING_MLP);
  assert_int_equal(c.attention.knocking.on, CH_ON_V);
  assert_true(c.attention.knocking.decay_to_identity);
  c = parsed(forms[3]);
  assert_int_equal(c.attention.knocking.type, CH_KNOCKING_GATE);
  assert_int_equal(c.attention.knocking.on, CH_ON_Q | CH_ON_V);
  assert_int_equal(c.attention.knocking.init, CH_KNOCKING_DIAGONAL);
  c = parsed("{\"knocking\": {\"type\": \"linear\", \"on\": [\"k\"], \"init\": \"random\"}}");
  assert_int_equal(c.attention.knocking.init, CH_KNOCKING_RANDOM);
  c = parsed("{\"knocking\": null, \"head_mix\": null}");
  assert_true(c.attention.knocking.on == 0 && c.attention.knocking.type == CH_KNOCKING_NONE);
  assert_true(c.attention.head_mix.on == 0 && c.attention.gate_norm && c.attention.mix_logits);
  assert_int_equal(c.attention.layer_group_size, 1);
}

static void assert_components(const char *attention, unsigned on, const int64_t expected[4]) {
  ch_config c = parsed(attention);
  for (int layer = 0; layer < 4; layer++) {
    assert_int_equal(ch_mixed_components(&c, layer, on), expected[layer]);
    assert_int_equal(ch_mixed_components(&c, layer, ~on & (CH_ON_K | CH_ON_V)), 0);
  }
}

static void each_layer_mixes_what_its_entry_says(void **state) {
  (void)state;
  ch_config c = parsed(forms[4]);
  for (int layer = 0; layer < 4; layer++) {
    assert_int_equal(ch_mixed_components(&c, layer, CH_ON_K), 2);
    assert_int_equal(ch_mixed_components(&c, layer, CH_ON_V), 2);
  }
  assert_components(forms[5], CH_ON_K, (int64_t[]){0, 16, 16, 16});
  assert_components(forms[6], CH_ON_V, (int64_t[]){0, 2, 0, 3});
  assert_components(forms[7], CH_ON_V, (int64_t[]){0, 2, 0, 0});
  assert_components("{\"head_mix\": {\"on\": [\"k\"], \"component_heads\": 8}}", CH_ON_K,
                    (int64_t[]){8, 8, 8, 8});
}

static void absent_keys_mean_what_the_mechanism_says(void **state) {
  (void)state;
  ch_config c;
  assert_true(parsed("{\"type\": \"diff\"}").attention.head_norm);
  assert_false(parsed("{\"type\": \"diff\", \"head_norm\": false}").attention.head_norm);
  static const char *const one_head[] = {"{\"type\": \"mfa\"}", "{\"type\": \"mfa_kr\"}"};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(parsed(one_head[i]).num_key_value_heads, 1);
    char *text = with_attention(one_head[i]);
    read_changed(text, "num_key_value_heads", "null", &c);
    assert_int_equal(c.num_key_value_heads, 1);
    free(text);
  }
  char *text = with_attention("{" MLA "}");
  read_changed(text, "hidden_size", "50", &c); /* not a multiple of the number of heads */
  assert_int_equal(c.head_dim, 0);
  free(text);
}

static void keys_and_values_may_have_numbers_of_their_own(void **state) {
  (void)state;
  ch_config c = parsed("{\"type\": \"gqa\", \"num_key_heads\": 2, \"num_value_heads\": 4}");
  assert_int_equal(ch_heads_of(&c, CH_ON_K), 2);
  assert_int_equal(ch_heads_of(&c, CH_ON_V), 4);
  assert_true(ch_heads_differ(&c));
  c = parsed("{\"type\": \"gated\", \"num_value_heads\": 1}");
  assert_int_equal(ch_heads_of(&c, CH_ON_K), 8);
  assert_int_equal(ch_heads_of(&c, CH_ON_V), 1);
  c = parsed("{\"type\": \"gqa\", \"num_key_heads\": 4, \"num_value_heads\": 4}");
  assert_false(ch_heads_differ(&c));
  assert_int_equal(c.num_key_value_heads, 4);
  ch_config plain = parsed("{\"type\": \"gqa\"}");
  plain.num_key_value_heads = 4;
  assert_memory_equal(&c, &plain, sizeof c);
  assert_components("{\"num_key_heads\": 2, \"num_value_heads\": 4, \"head_mix\": {\"on\": [\"k\"], "
                    "\"component_heads\": [4, 2, 1, 5]}}",
                    CH_ON_K, (int64_t[]){0, 2, 1, 5});
}

static void contradictions_name_both_keys(void **state) {
  (void)state;
  static const struct {
    const char *attention, *words, *more;
  } cases[] = {
      {"{\"type\": \"gqa\", \"gate_op\": \"add\"}", "\"attention.gate_op\" is \"add\"",
       "\"attention.type\" \"mla\""},
      {"{\"type\": \"gqa\", \"gate_embedding_std\": 1}", "\"attention.gate_embedding_std\" is 1",
       "leave it out or set null"},
      {"{" MLA ", \"gate_embedding_std\": 0}", "\"attention.gate_embedding_std\" is 0",
       "\"attention.gate_embedding_dim\""},
      {"{" MLA ", \"gate_embedding_dim\": 8, \"gate_embedding_std\": -0.1}",
       "\"attention.gate_embedding_std\" is -0.1", "a number from 0 to 1000"},
      {"{" MLA ", \"gate_embedding_dim\": 8, \"gate_embedding_std\": 2000}",
       "\"attention.gate_embedding_std\" is 2000", "a number from 0 to 1000"},
      {"{\"type\": \"gqa\", \"layer_group_size\": 2}", "\"attention.layer_group_size\" is 2",
       "\"attention.type\" \"mla\" and not to \"gqa\""},
      {"{\"type\": \"gqa\", \"num_key_heads\": 3}", "\"attention.num_key_heads\" is 3",
       "\"num_attention_heads\", 8"},
      {"{\"type\": \"gqa\", \"num_value_heads\": 16}", "\"attention.num_value_heads\" is 16",
       "\"num_attention_heads\", 8"},
      {"{\"type\": \"gqa\", \"num_value_heads\": 0}", "\"attention.num_value_heads\" is 0", "from 1"},
      {"{\"type\": \"gta\", \"num_key_heads\": 2}", "\"attention.num_key_heads\" is 2",
       "\"gqa\", \"gated\", \"moh\" and not to \"gta\""},
      {"{" MLA ", \"layer_group_shares\": \"latent\"}", "\"attention.layer_group_shares\" is \"latent\"",
       "\"attention.layer_group_size\" is 1"},
      {"{" MLA ", \"layer_group_size\": 2, \"layer_group_shares\": \"cache\"}",
       "\"attention.layer_group_shares\" is \"cache\"", "one of \"all\", \"latent\""},
      {"{\"type\": \"mla\", \"k_lora_rank\": 8, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, "
       "\"v_head_dim\": 8, "
       "\"layer_group_size\": 2, \"layer_group_shares\": \"latent\"}",
       "\"attention.layer_group_shares\" is \"latent\"", "\"attention.k_lora_rank\""},
      {"{\"type\": \"gqa\", \"kv_lora_rank\": 20}", "\"attention.kv_lora_rank\" is 20", "\"attention.type\""},
      {"{\"type\": \"gqa\", \"q_lora_rank\": 20}", "\"attention.q_lora_rank\" is 20", "\"attention.type\""},
      {"{\"type\": \"gqa\", \"diff_lambda\": \"per_pair\"}", "\"attention.diff_lambda\"",
       "\"attention.type\""},
      {"{\"type\": \"gqa\", \"mix_weights\": false}", "\"attention.mix_weights\"", "\"attention.type\""},
      {"{\"type\": \"gqa\", \"knocking\": {}}", "\"attention.knocking.type\" is missing",
       "one of \"linear\", \"mlp\", \"gate\""},
      {"{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\"}}", "\"attention.knocking.on\" is missing",
       "a list of some of \"q\", \"k\", \"v\""},
      {"{\"type\": \"gqa\", \"knocking\": {\"type\": \"none\", \"on\": [\"v\"]}}",
       "\"attention.knocking.type\" is \"none\"", "\"linear\", \"mlp\", \"gate\""},
      {"{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\", \"on\": []}}",
       "\"attention.knocking.on\" is []; it must be", "some of"},
      {"{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\", \"on\": [\"v\", \"v\"]}}",
       "\"attention.knocking.on\"", "some of"},
      {"{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\", \"on\": [\"o\"]}}", "\"attention.knocking.on\"",
       "some of"},
      {"{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\", \"on\": \"v\"}}",
       "\"attention.knocking.on\" is \"v\"", "some of"},
      {"{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\", \"on\": [\"v\"], \"no\": 1}}",
       "unknown key \"no\" in knocking", "did you mean \"attention.knocking.on\"?"},
      {"{\"type\": \"gqa\", \"knocking\": {\"type\": \"mlp\", \"on\": [\"v\"], \"init\": \"zero\"}}",
       "\"attention.knocking.init\" is \"zero\"", "\"diagonal\", \"identity\", \"random\""},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"]}}",
       "\"attention.head_mix.component_heads\" is missing", "a whole number from 1"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"component_heads\": 2}}", "\"attention.head_mix.on\" is missing",
       "\"k\", \"v\""},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"q\"], \"component_heads\": 2}}",
       "\"attention.head_mix.on\"", "some of \"k\", \"v\""},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 0}}",
       "\"attention.head_mix.component_heads\" is 0", "from 1"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": []}}",
       "\"attention.head_mix.component_heads\"", "a list with one for each"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": [2, 2.5, 2, 2]}}",
       "\"attention.head_mix.component_heads\"", "a list with one for each"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": [2, 2, 2]}}",
       "\"attention.head_mix.component_heads\" is a list of 3", "\"num_hidden_layers\" is 4"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2, \"layers\": [1, 4]}}",
       "\"attention.head_mix.layers\" is [1, 4]", "\"num_hidden_layers\" 4"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2, \"layers\": [2, 1]}}",
       "\"attention.head_mix.layers\" is [2, 1]", "\"num_hidden_layers\" 4"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2, \"layers\": [-1, 1]}}",
       "\"attention.head_mix.layers\"", "a list [first, last]"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2, \"layers\": 1}}",
       "\"attention.head_mix.layers\" is 1", "a list [first, last]"},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": [8, 2, 2, 8], \"layers\": "
       "[1, 1]}}",
       "\"attention.head_mix.component_heads\" mixes layer 2", "\"attention.head_mix.layers\""},
      {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"componentheads\": 2}}",
       "unknown key \"componentheads\" in head_mix", "did you mean \"attention.head_mix.component_heads\"?"},
      {"{\"type\": \"gta\", \"knocking\": {\"type\": \"linear\", \"on\": [\"q\", \"k\"]}}",
       "\"attention.knocking.on\" names \"k\"", "\"attention.type\" \"gta\""},
      {"{\"type\": \"gta\", \"head_mix\": {\"on\": [\"k\", \"v\"], \"component_heads\": 2}}",
       "\"attention.head_mix.on\" names \"k\"", "\"attention.type\" \"gta\""},
      {"{" MLA ", \"knocking\": {\"type\": \"mlp\", \"on\": [\"v\"]}}",
       "\"attention.knocking.type\" is \"mlp\"", "\"attention.type\" \"mla\""},
      {"{" MLA ", \"knocking\": {\"type\": \"gate\", \"on\": [\"v\"]}}",
       "\"attention.knocking.type\" is \"gate\"", "\"attention.type\" \"mla\""},
      {"{" MLA ", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2}}", "\"attention.head_mix\"",
       "\"attention.type\" \"mla\""},
      {"{" MLA ", \"gate_op\": \"add\"}", "\"attention.gate_op\" is \"add\"",
       "\"attention.gate_embedding_dim\""},
      {"{" MLA ", \"gate_norm\": false}", "\"attention.gate_norm\" is false",
       "\"attention.gate_embedding_dim\""},
      {"{" MLA ", \"q_a_norm\": true}", "\"attention.q_a_norm\" is true", "\"attention.type\""},
      {"{\"type\": \"mla\", \"kv_lora_rank\": 20}", "\"attention.qk_nope_head_dim\" is missing",
       "a whole number from 1"},
      {"{\"type\": \"mla\", \"kv_lora_rank\": 0}", "\"attention.kv_lora_rank\" is 0",
       "a whole number from 1"},
      {"{" APART "}", "\"attention.kv_lora_rank\" is missing", "needs it, or \"attention.k_lora_rank\" or"},
      {"{" APART ", \"k_lora_rank\": 0, \"v_lora_rank\": 0}", "\"attention.kv_lora_rank\" is missing",
       "\"attention.v_lora_rank\" above 0"},
      {"{" MLA ", \"k_lora_rank\": 8}", "\"attention.k_lora_rank\" and \"attention.kv_lora_rank\"",
       "both given"},
      {"{" MLA ", \"v_lora_rank\": 8}", "\"attention.v_lora_rank\" and \"attention.kv_lora_rank\"",
       "both given"},
      {"{" APART ", \"k_lora_rank\": 8, \"gate_embedding_dim\": 16}", "\"attention.gate_embedding_dim\"",
       "\"attention.k_lora_rank\""},
      {"{\"type\": \"gqa\", \"k_lora_rank\": 8}", "\"attention.k_lora_rank\" is 8", "\"attention.type\""},
      {"{\"type\": \"mfa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2}}",
       "\"attention.head_mix\"", "\"attention.type\" \"mfa\""},
      {"{\"type\": \"mfa_kr\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2}}",
       "\"attention.head_mix\"", "\"attention.type\" \"mfa_kr\""},
      {"{\"type\": \"mfa_kr\", \"knocking\": {\"type\": \"linear\", \"on\": [\"v\"]}}",
       "\"attention.knocking.on\" names \"v\"", "\"attention.type\" \"mfa_kr\""},
      {"{\"type\": \"talking\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2}}",
       "\"attention.head_mix\"", "\"attention.type\" \"talking\""},
      {"{\"type\": \"mfa_kr\", \"value_reuse\": \"gate\"}", "\"attention.value_reuse\" is \"gate\"",
       "one of \"gated\", \"residual\", \"projection\", \"key\""},
      {"{\"type\": \"diff\", \"diff_lambda\": \"learned\"}", "\"attention.diff_lambda\" is \"learned\"",
       "one of \"reparameterized\", \"per_pair\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = with_attention(cases[i].attention);
    assert_refused(text, cases[i].words);
    assert_refused(text, cases[i].more);
    free(text);
  }
}

/* Tests published mechanisms at width 64, with 8 heads and 4 layers: sizes that do not fit, and modules that
   they do not accept. */
static void contradictions_of_the_fields_mechanisms_name_both_keys(void **state) {
  (void)state;
#define LATENTS "\"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8"
#define GLA "{\"type\": \"gla\", " LATENTS
#define MLRA "{\"type\": \"mlra\", " LATENTS
#define TPA "{\"type\": \"tpa\", \"k_rank\": 2, \"v_rank\": 2"
#define COLLABORATIVE "{\"type\": \"collaborative\", \"shared_qk_dim\": 16"
#define MOH "{\"type\": \"moh\", \"active_heads\": 2"
  static const struct {
    const char *attention, *words, *more;
  } cases[] = {
      {GLA ", \"latent_heads\": 3}", "\"attention.latent_heads\" is 3", "\"attention.kv_lora_rank\", 16"},
      {GLA ", \"latent_heads\": 16}", "\"attention.latent_heads\" is 16", "\"num_attention_heads\", 8"},
      {GLA ", \"latent_heads\": 0}", "\"attention.latent_heads\" is 0", "from 1"},
      {GLA ", \"branches\": 2}", "\"attention.branches\" is 2", "\"mlra\" and not to \"gla\""},
      {GLA ", \"qk_norm\": true}", "\"attention.qk_norm\"", "\"attention.type\" \"gla\""},
      {GLA ", \"gate_embedding_dim\": 8}", "\"attention.gate_embedding_dim\" is 8",
       "\"mla\" and not to \"gla\""},
      {GLA ", \"exclusive\": true}", "\"attention.exclusive\" is true",
       "\"gqa\", \"gated\", \"moh\" and not to"},
      {GLA ", \"knocking\": {\"type\": \"mlp\", \"on\": [\"v\"]}}", "\"attention.knocking.type\" is \"mlp\"",
       "\"attention.type\" \"gla\""},
      {"{\"type\": \"gla\", \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"v_head_dim\": 8}",
       "\"attention.qk_rope_head_dim\" is missing", "whole number from 1"},
      {"{\"type\": \"gla\", \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8}",
       "\"attention.kv_lora_rank\" is missing", "\"attention.type\" \"gla\""},
      {MLRA ", \"branches\": 3}", "\"attention.branches\" is 3", "\"attention.latent_heads\", 4"},
      {MLRA ", \"latent_heads\": 16, \"branches\": 1}", "\"attention.latent_heads\" is 16",
       "\"num_attention_heads\", 8"},
      {"{\"type\": \"mlra\", \"kv_lora_rank\": 65536, \"latent_heads\": 65536, \"qk_nope_head_dim\": 1024, "
       "\"qk_rope_head_dim\": 4, \"v_head_dim\": 1024}",
       "\"attention.branches\" is 65536", "at most 16777216"},
      {MLRA ", \"knocking\": {\"type\": \"linear\", \"on\": [\"k\"], \"per_head\": true}}",
       "\"attention.knocking.per_head\"", "\"attention.branches\" 4"},
      {"{\"type\": \"tpa\", \"k_rank\": 0, \"v_rank\": 2}", "\"attention.k_rank\" is 0", "from 1"},
      {"{\"type\": \"tpa\", \"k_rank\": 2}", "\"attention.v_rank\" is missing", "from 1"},
      {TPA ", \"q_rank\": -1}", "\"attention.q_rank\" is -1", "from 0"},
      {TPA ", \"a_factors\": \"learned\"}", "\"attention.a_factors\" is \"learned\"",
       "\"contextual\", \"fixed\""},
      {TPA ", \"qk_norm\": true}", "\"attention.qk_norm\"", "\"attention.type\" \"tpa\""},
      {TPA ", \"knocking\": {\"type\": \"linear\", \"on\": [\"q\"]}}", "\"attention.knocking\"",
       "\"attention.type\" \"tpa\""},
      {TPA ", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2}}", "\"attention.head_mix\"",
       "\"attention.type\" \"tpa\""},
      {"{\"type\": \"collaborative\"}", "\"attention.shared_qk_dim\" is missing", "from 1"},
      {"{\"type\": \"collaborative\", \"shared_qk_dim\": 12}", "\"attention.shared_qk_dim\" is 12",
       "\"head_dim\", 8"},
      {"{\"type\": \"collaborative\", \"shared_qk_dim\": 16777216}", "\"attention.shared_qk_dim\", 16777216",
       "\"num_attention_heads\", 8"},
      {COLLABORATIVE ", \"knocking\": {\"type\": \"linear\", \"on\": [\"q\"]}}",
       "\"attention.knocking.on\" names \"q\"", "\"attention.type\" \"collaborative\""},
      {COLLABORATIVE ", \"qk_norm\": true}", "\"attention.qk_norm\"", "\"attention.type\" \"collaborative\""},
      {"{\"type\": \"moh\"}", "\"attention.active_heads\" is missing", "from 1"},
      {"{\"type\": \"moh\", \"active_heads\": 0}", "\"attention.active_heads\" is 0", "from 1"},
      {"{\"type\": \"moh\", \"active_heads\": 9}", "\"attention.active_heads\" is 9",
       "\"num_attention_heads\""},
      {MOH ", \"shared_heads\": 7}", "\"attention.active_heads\" is 2", "\"attention.shared_heads\""},
      {MOH ", \"shared_heads\": 8}", "\"attention.shared_heads\" is 8", "\"num_attention_heads\", 8"},
      {MOH ", \"balance_coefficient\": -1}", "\"attention.balance_coefficient\" is -1", "from 0 to 1000"},
      {"{\"type\": \"gqa\", \"active_heads\": 2}", "\"attention.active_heads\" is 2",
       "\"moh\" and not to \"gqa\""},
      {"{\"type\": \"mla\", " LATENTS ", \"exclusive\": true}", "\"attention.exclusive\" is true",
       "and not to \"mla\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = with_attention(cases[i].attention);
    assert_refused(text, cases[i].words);
    assert_refused(text, cases[i].more);
    free(text);
  }
}

static void sizes_that_do_not_apply_are_refused(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{" MLA "}", "does not apply to \"attention.type\" \"mla\""},
      {"{\"type\": \"mfa\"}", "\"num_key_value_heads\""},
      {"{\"type\": \"mfa_kr\"}", "\"num_key_value_heads\""},
      {"{\"type\": \"talking\"}", "\"num_key_value_heads\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = with_attention(cases[i][0]), *two = changed(text, "num_key_value_heads", "2");
    assert_refused(two, cases[i][1]);
    free(text);
    free(two);
  }
}

static void a_made_config_keeps_to_the_rules(void **state) {
  (void)state;
  ch_error error = {0};
  ch_config c = parsed("{\"type\": \"gqa\"}");
  c.attention.knocking.on = CH_ON_V;
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "\"attention.knocking\" needs both"));
  c.attention.knocking = (ch_knocking){.type = CH_KNOCKING_LINEAR, .on = 64};
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_ERROR_CONFIG);
  c.attention.knocking = (ch_knocking){.init = CH_KNOCKING_RANDOM};
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_ERROR_CONFIG);
  c = parsed("{\"type\": \"gqa\"}");
  c.attention.head_mix.on = CH_ON_K;
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_ERROR_CONFIG);
  c.attention.head_mix.listed_layers = CH_MAX_LISTED_LAYERS + 1;
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_ERROR_CONFIG);
  c = parsed("{\"type\": \"gqa\"}");
  c.attention.kv_lora_rank = 3;
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "\"kv_lora_rank\" is set, but it belongs to"));
  c = parsed("{\"type\": \"gqa\"}");
  snprintf(c.model_type, sizeof c.model_type, "llama");
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_OK);
  c.attention.knocking = (ch_knocking){.type = CH_KNOCKING_LINEAR, .on = CH_ON_V};
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "cannot express this \"attention.knocking\""));
  c.attention.knocking = (ch_knocking){0};
  c.attention.num_value_heads = 2;
  assert_int_equal(ch_config_validate(&c, "made", &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "cannot express this \"attention.num_value_heads\""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writing_keeps_every_form),
      cmocka_unit_test(modules_are_read),
      cmocka_unit_test(each_layer_mixes_what_its_entry_says),
      cmocka_unit_test(absent_keys_mean_what_the_mechanism_says),
      cmocka_unit_test(keys_and_values_may_have_numbers_of_their_own),
      cmocka_unit_test(contradictions_name_both_keys),
      cmocka_unit_test(contradictions_of_the_fields_mechanisms_name_both_keys),
      cmocka_unit_test(sizes_that_do_not_apply_are_refused),
      cmocka_unit_test(a_made_config_keeps_to_the_rules),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
