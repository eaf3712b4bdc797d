/* Tests the names of mechanisms, and the shape that compared models share. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "attention/registry.h"
#include "model/accounting.h"
#include "model/transformer.h"
#include "config_file/config_json.h"
#include "experiment/lineup/match_size.h"
#include "experiment/lineup/presets.h"

static ch_config base(int64_t params, int64_t vocab) {
  ch_config config;
  ch_error error = {0};
  ch_shape_wishes wishes = {.params = params, .vocab = vocab, .context = 256};
  if (ch_base_shape(&wishes, &config, &error) != CH_OK) fail_msg("%s", error.message);
  return config;
}

static void names_set_the_key_value_heads(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t groups;
  } cases[] = {{"mha", 8}, {"gqa", 2}, {"gqa:1", 1}, {"gqa:4", 4}, {"gqa:8", 8}, {"mqa", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_config config = base(1000000, 1024);
    ch_error error = {0};
    assert_int_equal(config.num_attention_heads, 8);
    assert_int_equal(ch_preset_apply(cases[i].name, &config, &error), CH_OK);
    assert_int_equal(config.num_key_value_heads, cases[i].groups);
    assert_string_equal(config.attention.type, "gqa");
  }
}

/* EG-MLA recommends 512 columns at a width of 2048. */
static void lookup_tables_have_a_quarter_of_the_width(void **state) {
  (void)state;
  static const int64_t widths[][2] = {{2048, 512}, {128, 32}, {32, 8}, {30, 8}};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    ch_error error = {0};
    ch_shape_wishes wishes = {
        .params = 2000000000, .vocab = 512, .context = 64, .hidden = widths[i][0], .layers = 2, .heads = 1};
    ch_config config;
    if (ch_base_shape(&wishes, &config, &error) != CH_OK) fail_msg("%s", error.message);
    assert_int_equal(ch_preset_apply("egmla:16", &config, &error), CH_OK);
    assert_int_equal(config.attention.gate_embedding_dim, widths[i][1]);
    assert_int_equal(config.attention.kv_lora_rank, 16);
  }
}

/* Checks the elements in a layer's cache for the names of modules, with 8 heads of d = 16 in a width of 128.
   tests/attention/mechanisms checks those of mechanisms. */
static void every_module_makes_a_model_of_its_cache(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t elements;
  } cases[] = {{"mea", 2 * 8 * 16},
               {"mea:2", 2 * 2 * 16},
               {"mea-virtual", 2 * 4 * 16},
               {"mea-virtual:2", 2 * 2 * 16},
               {"kha-linear", 2 * 2 * 16},
               {"kha-mlp", 2 * 2 * 16},
               {"kha-linear-per-head:4", 2 * 4 * 16},
               {"kha-mlp-per-head", 2 * 2 * 16},
               {"kha-mlp+moe", 2 * 2 * 16},
               {"xsa", 2 * 8 * 16},
               {"gqa:4+xsa", 2 * 4 * 16},
               {"swa", 2 * 8 * 16},
               {"gqa:4+swa-all:7", 2 * 4 * 16},
               {"xsa+masa-qkvo", 2 * 8 * 16},
               {"kha-gate:4", 2 * 4 * 16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_config config = base(1000000, 1024);
    ch_error error = {0};
    int64_t count;
    assert_true(config.hidden_size == 128 && config.num_attention_heads == 8);
    assert_int_equal(ch_preset_check(cases[i].name, &error), CH_OK);
    if (ch_preset_apply(cases[i].name, &config, &error) != CH_OK) fail_msg("%s", error.message);
    assert_string_equal(config.attention.type, "gqa");
    assert_int_equal(ch_state_elements(&config), cases[i].elements * config.num_hidden_layers);
    assert_int_equal(ch_count_parameters(&config, CH_COUNT_ALL, &count, &error), CH_OK);
  }
}

/* The latent has a quarter of the columns of all heads or, from 16 heads on, DeepSeek-V2's 4 d. */
static void latents_compress_any_number_of_heads(void **state) {
  (void)state;
  /* heads, columns of a head, columns of the latent */
  static const int64_t cases[][3] = {{1, 64, 16},  {2, 64, 32},    {3, 6, 5},      {4, 64, 64},
                                     {8, 64, 128}, {16, 128, 512}, {128, 128, 512}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_config config = base(1000000, 512);
    ch_error error = {0};
    config.num_attention_heads = config.num_key_value_heads = cases[i][0];
    config.head_dim = cases[i][1];
    assert_int_equal(ch_preset_apply("mla", &config, &error), CH_OK);
    assert_int_equal(config.attention.kv_lora_rank, cases[i][2]);
    assert_true(ch_state_elements(&config) < config.num_hidden_layers * 2 * cases[i][0] * cases[i][1]);
  }
}

static void modules_come_with_their_names(void **state) {
  (void)state;
  ch_error error = {0};
  static const struct {
    const char *name;
    int64_t groups, components;
  } mixed[] = {{"mea", 8, 8}, {"mea:2", 2, 2}, {"mea-virtual", 8, 4}, {"mea-virtual:2", 8, 2}};
  for (int i = 0; i < 4; i++) {
    ch_config config = base(1000000, 1024);
    assert_int_equal(ch_preset_apply(mixed[i].name, &config, &error), CH_OK);
    assert_true(config.attention.head_norm && config.num_key_value_heads == mixed[i].groups);
    assert_int_equal(ch_mixed_components(&config, 0, CH_ON_K), mixed[i].components);
    assert_int_equal(ch_mixed_components(&config, 0, CH_ON_V), mixed[i].components);
  }
  ch_config config = base(1000000, 1024);
  assert_int_equal(ch_preset_apply("kha-linear", &config, &error), CH_OK);
  assert_true(config.attention.knocking.type == CH_KNOCKING_LINEAR &&
              config.attention.knocking.on == (CH_ON_Q | CH_ON_K | CH_ON_V));
  config = base(1000000, 1024);
  assert_int_equal(ch_preset_apply("kha-mlp", &config, &error), CH_OK);
  assert_true(config.attention.knocking.type == CH_KNOCKING_MLP && config.attention.knocking.on == CH_ON_V);
}

/* Returns the share of attention's parameters that the name `shared` saves compared with `mechanism`. */
static double saving(const char *mechanism, const char *shared, int64_t layers) {
  ch_config config[2];
  int64_t counted[2];
  const char *names[] = {mechanism, shared};
  for (int i = 0; i < 2; i++) {
    ch_error error = {0};
    ch_params params = {0};
    ch_account account;
    config[i] = base(1000000, 1024);
    config[i].hidden_size = 192;
    config[i].head_dim = 24;
    config[i].num_hidden_layers = layers;
    if (ch_preset_apply(names[i], &config[i], &error) != CH_OK) fail_msg("%s", error.message);
    if (ch_model_declare(&config[i], &params, &error) != CH_OK) fail_msg("%s: %s", names[i], error.message);
    if (ch_account_model(&config[i], &params, 0, ch_cache_of(CH_BF16), &account, &error) != CH_OK)
      fail_msg("%s", error.message);
    counted[i] = account.parameters_attention;
    ch_params_free(&params);
  }
  return 1 - (double)counted[1] / (double)counted[0];
}

static void sharing_saves_what_the_papers_do(void **state) {
  (void)state;
  static const struct {
    const char *mechanism, *name;
    double saves;
  } cases[] = {{"mha", "masa-qkv", 0.5},
               {"mha", "masa-qkvo", 2.0 / 3},
               {"mha", "masa-common", 2.0 / 3},
               {"gqa:2", "gqa:2+masa-common", 2.0 / 3},
               {"mla", "mla+masa-common", 2.0 / 3},
               {"mha", "masa-common:6", 0.75},
               {"mha", "sequential", 2.0 / 3},
               {"mha", "repeat", 2.0 / 3},
               {"mha", "low-rank", 2.0 / 3},
               {"mha", "masa-qkvo:3", 0.5},
               {"mfa", "mfa+masa-qkvo", 2.0 / 3},
               {"gqa:2", "gqa:2+low-rank", 2.0 / 3},
               {"mla", "mla+repeat", 2.0 / 3},
               {"gta", "gta+masa-qkvo", 2.0 / 3},
               {"mfa_kr", "mfa_kr+masa-qkvo", 2.0 / 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double saved = saving(cases[i].mechanism, cases[i].name, 6);
    if (!(saved > cases[i].saves - 0.01 && saved < cases[i].saves + 0.01))
      fail_msg("%s saves %.4f where %.4f is right", cases[i].name, saved, cases[i].saves);
  }
}

/* At any depth, the schemes that share all of attention save equally many parameters, up to the rounding of ranks. */
static void sharing_saves_the_same_at_any_depth(void **state) {
  (void)state;
  static const char *const names[] = {"sequential", "repeat", "low-rank", "masa-common"};
  for (int64_t layers = 2; layers <= 13; layers++) {
    double masa = saving("mha", "masa-qkvo", layers);
    assert_true(masa < 2.0 / 3 + 1e-6);
    for (int i = 0; i < 4; i++) {
      double saved = saving("mha", names[i], layers);
      if (!(fabs(saved - masa) < 0.006))
        fail_msg("%s saves %.4f of %d layers, masa-qkvo %.4f", names[i], saved, (int)layers, masa);
    }
  }
}

/* Expected values are from MASA, Table 2: 12 layers. */
static void numbers_of_atoms_save_what_table_2_of_masa_says(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double percent;
  } rows[] = {{"masa-qkv:2", 62.5},  {"masa-qkv:4", 50},    {"masa-qkv:6", 37.5}, {"masa-qkv:8", 25},
              {"masa-qkvo:2", 83.3}, {"masa-qkvo:4", 66.7}, {"masa-qkvo:6", 50},  {"masa-qkvo:8", 33.3}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double saved = 100 * saving("mha", rows[i].name, 12);
    if (!(fabs(saved - rows[i].percent) < 0.1))
      fail_msg("%s saves %.2f %% where the paper says %.1f %%", rows[i].name, saved, rows[i].percent);
  }
}

static void usual_groups_divide_any_number_of_heads(void **state) {
  (void)state;
  for (int64_t heads = 1; heads <= 96; heads++) {
    ch_config config = base(1000000, 1024);
    ch_error error = {0};
    config.num_attention_heads = heads;
    config.num_key_value_heads = heads;
    config.head_dim = 16;
    assert_int_equal(ch_preset_apply("gqa", &config, &error), CH_OK);
    assert_int_equal(heads % config.num_key_value_heads, 0);
    if (heads % 4 == 0 && heads >= 8) assert_int_equal(config.num_key_value_heads, heads / 4);
  }
}

static void assert_refused(const char *name, const char *part) {
  ch_error error = {0};
  assert_int_equal(ch_preset_check(name, &error), CH_ERROR_ARGUMENT);
  if (!strstr(error.message, part)) fail_msg("'%s' gave: %s", name, error.message);
}

/* Exclusive attention needs a value for every token and head. The name "xsa" is used alone or after a plus. */
static void exclusive_attention_is_added_to_a_mechanism(void **state) {
  (void)state;
  static const char *const names[] = {"xsa", "gqa:2+xsa", "gated+xsa", "moh+xsa+moe"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    ch_config config = base(1000000, 1024);
    ch_error error = {0};
    if (ch_preset_apply(names[i], &config, &error) != CH_OK) fail_msg("%s", error.message);
    assert_true(config.attention.exclusive);
  }
  ch_config config = base(1000000, 1024);
  ch_error error = {0};
  assert_int_equal(ch_preset_apply("mla+xsa", &config, &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "\"exclusive\""));
  assert_non_null(strstr(error.message, "\"mla\""));
}

/* The name decides which of eight layers have full attention. The number is the window, by default a quarter of the
   context. */
static void windows_are_added_to_a_mechanism(void **state) {
  (void)state;
  static const struct {
    const char *name, *full;
    int64_t window;
  } cases[] = {{"swa", "00010001", 64},
               {"mfa+swa:9", "00010001", 9},
               {"mla+swa-half:16", "01010101", 16},
               {"swa-five-sixths", "00000101", 64},
               {"talking+swa-all:3", "00000000", 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_config config = base(1000000, 1024);
    ch_error error = {0};
    config.num_hidden_layers = 8;
    if (ch_preset_apply(cases[i].name, &config, &error) != CH_OK) fail_msg("%s", error.message);
    assert_int_equal(config.sliding_window, cases[i].window);
    for (int layer = 0; layer < 8; layer++)
      assert_int_equal(ch_layer_slides(&config, layer), cases[i].full[layer] == '0');
  }
}

static void layers_share_keys_and_values_by_name(void **state) {
  (void)state;
  ch_config config = base(1000000, 1024), single = config;
  ch_error error = {0};
  config.num_hidden_layers = single.num_hidden_layers = 6;
  assert_int_equal(ch_preset_apply("gqa+cla:3", &config, &error), CH_OK);
  assert_int_equal(ch_preset_apply("gqa", &single, &error), CH_OK);
  assert_int_equal(3 * ch_state_elements(&config), ch_state_elements(&single));
  config = base(1000000, 1024);
  assert_int_equal(ch_preset_apply("tpa+cla", &config, &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "kv_layer_group"));
}

static void unknown_names_get_the_nearest_known_one(void **state) {
  (void)state;
  assert_refused("mah", "did you mean mha?");
  assert_refused("gqq:4", "did you mean gqa?");
  assert_refused("", "unknown name ''; use");
  assert_refused("something-else-entirely", "mha, gqa[:N], mqa");
}

static void sharing_stands_behind_one_mechanism(void **state) {
  (void)state;
  assert_refused("masa-qkvo+mfa", "must be a mechanism, and after plus signs a sharing scheme");
  assert_refused("mfa+gqa", "must be a mechanism, and after plus signs a sharing scheme");
  assert_refused("mha+masa-qkvo+repeat", "must be a mechanism, and after plus signs a sharing scheme");
  assert_refused("moe+mfa", "must be a mechanism, and after plus signs a sharing scheme, experts");
  assert_refused("mfa+moe+moe", "each once");
  assert_refused("gqa+xsa+xsa", "each once");
  assert_refused("mfa+moe:0", "whole number of experts");
  assert_refused("mha+", "; use mha");
  assert_refused("mha+masa-qkv:0", "whole number of atoms");
  ch_config config = base(1000000, 1024);
  ch_error error = {0};
  assert_int_equal(ch_preset_apply("masa-qkvo:99", &config, &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "\"sharing.atoms\" is 99, more than"));
}

static ch_config applied(const char *name) {
  ch_config config = base(1000000, 1024);
  ch_error error = {0};
  if (ch_preset_apply(name, &config, &error) != CH_OK) fail_msg("%s: %s", name, error.message);
  return config;
}

/* In the KHA paper's models 4 of 64 or 8 of 128 experts are active, and its updated strategy balances their loads. */
static void experts_are_added_to_any_mechanism(void **state) {
  (void)state;
  static const struct {
    const char *name, *type;
    int64_t experts, active;
  } cases[] = {
      {"kha-mlp+moe", "gqa", 8, 2},   {"mla+moe:16", "mla", 16, 2}, {"mfa+masa-qkvo+moe:64", "mfa", 64, 4},
      {"gta+moe:128", "gta", 128, 8}, {"moe", "gqa", 8, 2},         {"low-rank+moe:1", "gqa", 1, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_config c = applied(cases[i].name);
    assert_string_equal(c.attention.type, cases[i].type);
    assert_true(c.moe.experts == cases[i].experts && c.moe.active == cases[i].active);
    assert_true(c.moe.balance == CH_BALANCE_LOSS_FREE && c.moe.balance_update == CH_BALANCE_RMS);
    assert_true((c.sharing.type != CH_SHARING_NONE) ==
                (strstr(cases[i].name, "masa") || strstr(cases[i].name, "low")));
  }
  ch_config with = applied("kha-mlp+moe"), without = applied("kha-mlp");
  assert_memory_equal(&with.attention, &without.attention, sizeof with.attention);
  assert_int_equal(with.moe.expert_intermediate_size, without.intermediate_size / 2);
}

static void a_map_for_each_head_has_a_name(void **state) {
  (void)state;
  ch_config own = applied("kha-mlp-per-head:4"), shared = applied("kha-mlp:4");
  assert_true(own.attention.knocking.per_head && !shared.attention.knocking.per_head);
  own.attention.knocking.per_head = false;
  assert_memory_equal(&own, &shared, sizeof own);
  own = applied("kha-linear-per-head");
  assert_true(own.attention.knocking.per_head && own.attention.knocking.type == CH_KNOCKING_LINEAR);
}

static void numbers_after_the_colon_are_checked(void **state) {
  (void)state;
  assert_refused("mha:4", "does not accept a number");
  assert_refused("gqa:", "whole number of key-value heads");
  assert_refused("gqa:0", "whole number of key-value heads");
  assert_refused("gqa:-2", "whole number of key-value heads");
  assert_refused("gqa:4x", "whole number of key-value heads");
  assert_refused("gqa:99999999999999999999", "whole number of key-value heads");
  ch_config config = base(1000000, 1024);
  ch_error error = {0};
  assert_int_equal(ch_preset_apply("gqa:3", &config, &error), CH_ERROR_ARGUMENT);
  assert_non_null(
      strstr(error.message, "3 key-value heads do not divide the 8 query heads; use 1, 2, 4 or 8"));
}

static void paths_are_told_from_names(void **state) {
  (void)state;
  assert_true(ch_preset_is_path("a/b"));
  assert_true(ch_preset_is_path("mine.json"));
  assert_false(ch_preset_is_path("gqa:4"));
  assert_false(ch_preset_is_path(".json"));
}

static void shapes_are_valid_and_near_their_size_for_any_number_of_parameters(void **state) {
  (void)state;
  for (double params = 60e3; params < 3e9; params *= 1.37) {
    int64_t target = (int64_t)params, count;
    ch_config config = base(target, ch_base_vocabulary(target, 1 << 30));
    ch_error error = {0};
    assert_int_equal(ch_config_validate(&config, "test", &error), CH_OK);
    assert_true(config.num_hidden_layers >= 2);
    assert_true(config.tie_word_embeddings);
    assert_int_equal(config.num_attention_heads * config.head_dim, config.hidden_size);
    assert_int_equal(config.head_dim % 2, 0);
    assert_int_equal(ch_count_parameters(&config, CH_COUNT_ALL, &count, &error), CH_OK);
    /* The usual FFN brings the model near the target; matching the FFN's width does the rest. */
    if (target > 300000) assert_in_range(count, target * 2 / 3, target * 3 / 2);
  }
}

static void wishes_are_kept(void **state) {
  (void)state;
  ch_config config;
  ch_error error = {0};
  ch_shape_wishes wishes = {
      .params = 3000000, .vocab = 2000, .layers = 4, .hidden = 192, .heads = 6, .context = 99};
  assert_int_equal(ch_base_shape(&wishes, &config, &error), CH_OK);
  assert_int_equal(config.vocab_size, 2000);
  assert_int_equal(config.num_hidden_layers, 4);
  assert_int_equal(config.hidden_size, 192);
  assert_int_equal(config.num_attention_heads, 6);
  assert_int_equal(config.head_dim, 32);
  assert_int_equal(config.max_position_embeddings, 99);
}

static void impossible_shapes_are_refused_in_a_sentence(void **state) {
  (void)state;
  static const struct {
    ch_shape_wishes wishes;
    const char *part;
  } cases[] = {
      {{.params = 1000, .vocab = 512, .context = 64}, "parameters 1.0 k is too small"},
      {{.params = 1000000, .vocab = 50000, .context = 64}, "with a vocabulary of 50000 tokens"},
      {{.params = 1000000, .vocab = 512, .layers = 100, .hidden = 512, .context = 64},
       "100 layers of width 512"},
      {{.params = 1000000, .vocab = 512, .heads = 7, .context = 64}, "heads 7 does not divide the width"},
      {{.params = 1000000, .vocab = 512, .hidden = 96, .heads = 32, .context = 64},
       "heads of 3, an odd size"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_config config;
    ch_error error = {0};
    assert_int_equal(ch_base_shape(&cases[i].wishes, &config, &error), CH_ERROR_ARGUMENT);
    if (!strstr(error.message, cases[i].part)) fail_msg("case %zu gave: %s", i, error.message);
  }
}

static void vocabularies_grow_with_parameters_and_text(void **state) {
  (void)state;
  assert_int_equal(ch_base_vocabulary(1000000, 1 << 30), 1024);
  assert_int_equal(ch_base_vocabulary(100000000, (int64_t)1 << 40), 8192);
  assert_int_equal(ch_base_vocabulary(100000000, 1000000), 1024);
  assert_int_equal(ch_base_vocabulary(1, 1), 512);
  assert_int_equal(ch_base_vocabulary(INT64_MAX, INT64_MAX), 32768);
}

/* Requests elements per layer: 2 G d for gqa and its variants, latent and rotary part for mla. */
static void sizes_follow_a_cache(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t per_layer, elements; /* requested elements, and resulting ones; 0: refused */
    const char *said;
  } cases[] = {{"gqa", 64, 64, NULL},
               {"gqa", 80, 64, NULL},
               {"gqa", 300, 256, NULL},
               {"gqa:4", 128, 128, NULL},
               {"gqa:4", 64, 0, "its size is"},
               {"mla", 100, 100, NULL},
               {"mla+masa-qkvo", 90, 90, NULL},
               {"mha", 256, 256, NULL},
               {"mha", 128, 0, "mha cannot have"},
               {"gqa", 20, 0, "possible sizes"},
               {"mqa", 256, 0, "its size is"},
               {"mea", 64, 64, NULL},
               {"gqq", 64, 0, "did you mean"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_config config;
    ch_error error = {0};
    ch_shape_wishes wishes = {.params = 1000000, .vocab = 512, .context = 64, .layers = 3, .hidden = 128};
    assert_int_equal(ch_base_shape(&wishes, &config, &error), CH_OK);
    assert_int_equal(config.num_attention_heads * config.head_dim, 128);
    ch_status status = ch_preset_apply_cache(cases[i].name, 3 * cases[i].per_layer, &config, &error);
    if ((status == CH_OK) != (cases[i].elements > 0)) fail_msg("%s: %s", cases[i].name, error.message);
    if (status == CH_OK) assert_int_equal(ch_state_elements(&config), 3 * cases[i].elements);
    if (status != CH_OK && !strstr(error.message, cases[i].said)) fail_msg("%s", error.message);
  }
  ch_config config;
  ch_error error = {0};
  ch_shape_wishes wishes = {.params = 1000000, .vocab = 512, .context = 64, .layers = 3, .hidden = 128};
  assert_int_equal(ch_base_shape(&wishes, &config, &error), CH_OK);
  assert_int_equal(ch_preset_apply_cache("gqa", 60, &config, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "possible sizes are 96, 192, 384, 768;"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_set_the_key_value_heads),
      cmocka_unit_test(lookup_tables_have_a_quarter_of_the_width),
      cmocka_unit_test(every_module_makes_a_model_of_its_cache),
      cmocka_unit_test(latents_compress_any_number_of_heads),
      cmocka_unit_test(modules_come_with_their_names),
      cmocka_unit_test(usual_groups_divide_any_number_of_heads),
      cmocka_unit_test(exclusive_attention_is_added_to_a_mechanism),
      cmocka_unit_test(windows_are_added_to_a_mechanism),
      cmocka_unit_test(layers_share_keys_and_values_by_name),
      cmocka_unit_test(unknown_names_get_the_nearest_known_one),
      cmocka_unit_test(numbers_after_the_colon_are_checked),
      cmocka_unit_test(sharing_stands_behind_one_mechanism),
      cmocka_unit_test(experts_are_added_to_any_mechanism),
      cmocka_unit_test(a_map_for_each_head_has_a_name),
      cmocka_unit_test(sharing_saves_what_the_papers_do),
      cmocka_unit_test(sharing_saves_the_same_at_any_depth),
      cmocka_unit_test(numbers_of_atoms_save_what_table_2_of_masa_says),
      cmocka_unit_test(paths_are_told_from_names),
      cmocka_unit_test(shapes_are_valid_and_near_their_size_for_any_number_of_parameters),
      cmocka_unit_test(wishes_are_kept),
      cmocka_unit_test(impossible_shapes_are_refused_in_a_sentence),
      cmocka_unit_test(vocabularies_grow_with_parameters_and_text),
      cmocka_unit_test(sizes_follow_a_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
