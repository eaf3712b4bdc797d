/* Tests the `sharing` object: the meaning of each form, writing, and the messages of refusals. */
#include "config/config_testing.h"
#include "config_file/config_json.h"

#define SIZES                                                                                                \
  "\"model_type\": \"crosshead\", \"vocab_size\": 73, \"hidden_size\": 64, \"intermediate_size\": 44, "      \
  "\"num_hidden_layers\": 4, \"num_attention_heads\": 8"

static const char base[] = "{" SIZES "}";

static char *with_sharing(const char *attention, const char *sharing) {
  char *text = changed(base, "attention", attention), *both = changed(text, "sharing", sharing);
  free(text);
  return both;
}

static ch_config parsed(const char *attention, const char *sharing) {
  ch_config config;
  ch_error error = {0};
  char *text = with_sharing(attention, sharing);
  if (ch_config_parse(text, "config.json", &config, &error) != CH_OK)
    fail_msg("%s for %s", error.message, text);
  free(text);
  return config;
}

#define GQA "{\"type\": \"gqa\", \"qk_norm\": true}"
#define MLA(more)                                                                                            \
  "{\"type\": \"mla\", \"kv_lora_rank\": 20, \"qk_nope_head_dim\": 12, \"qk_rope_head_dim\": 8, "            \
  "\"v_head_dim\": 10" more "}"
#define GROUPS(groups) "{\"type\": \"masa\", \"projections\": [\"q\"], \"groups\": " groups "}"
#define BASES(groups) "{\"type\": \"low_rank\", \"projections\": [\"q\", \"o\"], \"groups\": " groups "}"
#define COMMON(atoms)                                                                                        \
  "{\"type\": \"masa\", \"projections\": [\"q\", \"o\"], \"common_dictionary\": true, \"atoms\": " atoms "}"
#define MASA(names) "{\"type\": \"masa\", \"projections\": [" names "], \"atoms\": 2}"

static const struct {
  const char *attention, *sharing;
} forms[] = {
    {GQA, "null"},
    {GQA, MASA("\"q\", \"k\", \"v\", \"o\"")},
    {GQA,
     "{\"type\": \"masa\", \"projections\": [\"o_proj\", \"q\"], \"atoms\": 4, \"coefficients\": \"mlp\", "
     "\"common_dictionary\": true}"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"v\"], \"atoms\": 1, \"coefficients\": \"direct\", "
          "\"common_dictionary\": false, \"rank\": null}"},
    {GQA, "{\"type\": \"sequential\", \"projections\": [\"q\"], \"atoms\": 3}"},
    {GQA, "{\"type\": \"repeat\", \"projections\": [\"q\", \"o\"], \"atoms\": 3}"},
    {GQA, "{\"type\": \"low_rank\", \"projections\": [\"k\"], \"rank\": 1000}"},
    {GQA, "{\"projections\": [\"k\"], \"type\": \"low_rank\"}"},
    {GQA, GROUPS("[[0, 3]]")},
    {GQA, GROUPS("[[0, 0], [1, 3]], \"atoms\": 2")},
    {"{\"type\": \"gta\"}", MASA("\"kv_proj\", \"k_rope_proj\"")},
    {MLA(", \"q_lora_rank\": 24"), MASA("\"q_a_proj\", \"q_b_proj\", \"kv_a_proj_with_mqa\", \"kv_b_proj\"")},
    {MLA(", \"gate_embedding_dim\": 3"), MASA("\"kv_gate_proj\", \"q\"")},
    {MLA(", \"layer_group_size\": 2"), MASA("\"q\", \"o\"")},
    {MLA(", \"layer_group_size\": 2, \"layer_group_shares\": \"latent\""), MASA("\"kv_b_proj\"")},
    {"{\"type\": \"mfa\"}", MASA("\"q_a_proj\", \"q_b_proj\", \"k\", \"v\", \"o\"")},
    {"{\"type\": \"mfa_kr\"}", MASA("\"k\", \"v_reuse\"")},
    {"{\"type\": \"diff\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": 2}}", MASA("\"k\"")},
    {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": [1, 2, 3, 4]}}",
     MASA("\"v\"")},
    {GQA, BASES("[[0, 1], [2, 3]]")},
    {GQA, BASES("[[0, 0], [1, 3]], \"rank\": 7")},
    {GQA, COMMON("8")},
};

static void writing_keeps_every_form(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    ch_config first = parsed(forms[i].attention, forms[i].sharing), second;
    ch_text json = {0}, again = {0};
    ch_error error = {0};
    ch_config_write(&first, &json);
    if (ch_config_parse(json.data, "written", &second, &error) != CH_OK)
      fail_msg("%s\n%s", error.message, json.data);
    assert_memory_equal(&first, &second, sizeof first);
    ch_config_write(&second, &again);
    assert_string_equal(json.data, again.data);
    ch_text_free(&again);
    ch_text_free(&json);
  }
}

static void letters_and_names_are_the_same(void **state) {
  (void)state;
  ch_config letters = parsed(GQA, MASA("\"q\", \"k\", \"v\", \"o\""));
  ch_config names = parsed(GQA, MASA("\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\""));
  assert_memory_equal(&letters, &names, sizeof letters);
  assert_int_equal(letters.sharing.type, CH_SHARING_MASA);
  assert_int_equal(letters.sharing.projection_count, 4);
  assert_string_equal(letters.sharing.projections[3], "o_proj");
  assert_int_equal(letters.sharing.atoms, 2);
  assert_int_equal(letters.sharing.coefficients, CH_COEFFICIENTS_DIRECT);
  assert_true(ch_is_shared(&letters, "k_proj"));
  assert_false(ch_is_shared(&letters, "k") || ch_is_shared(&letters, "kv_proj"));
  assert_false(ch_is_shared(&(ch_config){.num_hidden_layers = 1}, "k_proj"));
}

static void absent_keys_mean_the_simplest(void **state) {
  (void)state;
  ch_config c = parsed(forms[7].attention, forms[7].sharing);
  assert_true(c.sharing.rank == 0 && c.sharing.atoms == 0 && !c.sharing.common_dictionary);
  c = parsed(GQA, "null");
  assert_true(c.sharing.type == CH_SHARING_NONE && c.sharing.projection_count == 0);
}

static const struct {
  const char *attention, *sharing, *words, *more;
} refused[] = {
    /* The object and its type. */
    {GQA, "3", "\"sharing\" is 3", "an object"},
    {GQA, "[]", "\"sharing\" is []; it must be", "an object"},
    {GQA, "{}", "\"sharing.type\" is missing", "one of \"masa\", \"sequential\", \"repeat\", \"low_rank\""},
    {GQA, "{\"type\": null, \"projections\": [\"q\"], \"atoms\": 2}", "\"sharing.type\" is null", "\"masa\""},
    {GQA, "{\"type\": \"mass\", \"projections\": [\"q\"], \"atoms\": 2}", "\"sharing.type\" is \"mass\"",
     "\"low_rank\""},
    {GQA, "{\"type\": \"none\"}", "\"sharing.type\" is \"none\"", "\"masa\""},
    {GQA, "{\"type\": [\"masa\"], \"projections\": [\"q\"], \"atoms\": 2}", "\"sharing.type\" is [\"masa\"]",
     "\"masa\""},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 2, \"atom\": 3}",
     "unknown key \"atom\" in sharing", "did you mean \"sharing.atoms\"?"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 2, \"coeficients\": \"mlp\"}",
     "unknown key \"coeficients\" in sharing", "did you mean \"sharing.coefficients\"?"},
    /* Projections. */
    {GQA, "{\"type\": \"masa\", \"atoms\": 2}", "\"sharing.projections\" is missing", "\"q\""},
    {GQA, "{\"type\": \"masa\", \"projections\": null, \"atoms\": 2}", "\"sharing.projections\" is null",
     "\"q\""},
    {GQA, MASA(""), "\"sharing.projections\"", "\"q\""},
    {GQA, "{\"type\": \"masa\", \"projections\": \"q\", \"atoms\": 2}", "\"sharing.projections\" is \"q\"",
     "\"q\""},
    {GQA, MASA("\"q\", 3"), "\"sharing.projections\"", "different projections (\"q\""},
    {GQA, MASA("\"q\", null"), "\"sharing.projections\"", "different projections"},
    {GQA, MASA("\"q\", \"\""), "\"sharing.projections\"", "different projections"},
    {GQA, MASA("\"q\", [\"k\"]"), "\"sharing.projections\"", "different projections"},
    {GQA, MASA("\"q\", \"k\", \"q\""), "\"sharing.projections\" names \"q_proj\" twice", "once"},
    {GQA, MASA("\"q\", \"q_proj\""), "\"sharing.projections\" names \"q_proj\" twice", "once"},
    {GQA, MASA("\"x\""), "\"sharing.projections\" names \"x_proj\"", "\"q_proj\""},
    {GQA, MASA("\"q_prj\""), "\"sharing.projections\" names \"q_prj\"", "are \"q_proj\""},
    {GQA, MASA("\"q_proj.weight\""), "\"sharing.projections\"", "a tensor's name like \"q_b_proj\""},
    {GQA, MASA("\"q_norm\""), "\"sharing.projections\" names \"q_norm\"", "\"q_proj\""},
    {GQA, MASA("\"gate_proj\""), "\"sharing.projections\" names \"gate_proj\"", "\"q_proj\""},
    {GQA, MASA("\"%s%n\""), "\"sharing.projections\"", "different projections"},
    {GQA, MASA("\"kv_proj\""), "\"sharing.projections\" names \"kv_proj\"", "\"attention.type\" \"gqa\""},
    {GQA, MASA("\"q_b_proj\""), "\"sharing.projections\" names \"q_b_proj\"", "\"attention.type\" \"gqa\""},
    {"{\"type\": \"gta\"}", MASA("\"k\""), "\"sharing.projections\" names \"k_proj\"",
     "\"attention.type\" \"gta\""},
    {"{\"type\": \"mfa\"}", MASA("\"q\""), "\"sharing.projections\" names \"q_proj\"",
     "\"attention.type\" \"mfa\""},
    {"{\"type\": \"mfa_kr\"}", MASA("\"v\""), "\"sharing.projections\" names \"v_proj\"",
     "\"attention.type\" \"mfa_kr\""},
    {MLA(""), MASA("\"q_b_proj\""), "\"sharing.projections\" names \"q_b_proj\"",
     "\"attention.type\" \"mla\""},
    {MLA(", \"q_lora_rank\": 24"), MASA("\"q\""), "\"sharing.projections\" names \"q_proj\"",
     "\"attention.type\" \"mla\""},
    {MLA(""), MASA("\"kv_gate_proj\""), "\"sharing.projections\" names \"kv_gate_proj\"",
     "\"attention.type\" \"mla\""},
    /* Tensors of layer groups, and tensors whose shape differs between layers. */
    {MLA(", \"layer_group_size\": 2"), MASA("\"kv_b_proj\""), "\"sharing.projections\" names \"kv_b_proj\"",
     "\"attention.layer_group_size\""},
    {MLA(", \"layer_group_size\": 2, \"layer_group_shares\": \"latent\""), MASA("\"kv_a_proj_with_mqa\""),
     "\"sharing.projections\" names \"kv_a_proj_with_mqa\"", "\"attention.layer_group_size\""},
    {MLA(", \"layer_group_size\": 4"), MASA("\"q\", \"kv_a_proj_with_mqa\""),
     "\"sharing.projections\" names \"kv_a_proj_with_mqa\"", "\"attention.layer_group_size\""},
    {MLA(", \"gate_embedding_dim\": 3, \"layer_group_size\": 2"), MASA("\"kv_gate_proj\""),
     "\"sharing.projections\" names \"kv_gate_proj\"", "\"attention.layer_group_size\""},
    {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\"], \"component_heads\": [1, 2, 3, 4]}}",
     MASA("\"q\", \"k\""), "\"sharing.projections\" names \"k", "\"attention.head_mix"},
    {"{\"type\": \"gqa\", \"head_mix\": {\"on\": [\"v\"], \"component_heads\": 2, \"layers\": [1, 3]}}",
     "{\"type\": \"repeat\", \"projections\": [\"v\"], \"atoms\": 2}", "\"sharing.projections\" names \"v",
     "\"attention.head_mix"},
    {"{\"type\": \"gta\", \"head_mix\": {\"on\": [\"v\"], \"component_heads\": 2, \"layers\": [1, 3]}}",
     MASA("\"kv_proj\""), "\"sharing.projections\" names \"kv_proj\"", "\"attention.head_mix"},
    /* Atoms. */
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"]}", "\"sharing.atoms\" is missing", "from 1"},
    {GQA, "{\"type\": \"repeat\", \"projections\": [\"q\"], \"atoms\": null}", "\"sharing.atoms\"", "from 1"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 0}", "\"sharing.atoms\" is 0", "from 1"},
    {GQA, "{\"type\": \"sequential\", \"projections\": [\"q\"], \"atoms\": -1}", "\"sharing.atoms\" is -1",
     "from 1"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 1.5}", "\"sharing.atoms\" is 1.5",
     "a whole number"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": \"2\"}", "\"sharing.atoms\" is \"2\"",
     "a whole number"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 5}", "\"sharing.atoms\" is 5",
     "\"num_hidden_layers\", 4"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 9223372036854775807}",
     "\"sharing.atoms\" is 9", "whole number"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 1e300}", "\"sharing.atoms\" is 1e",
     "whole number"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": [2, 2, 2, 2]}", "\"sharing.atoms\" is [",
     "a whole number"},
    /* Keys of other types. */
    {GQA, "{\"type\": \"low_rank\", \"projections\": [\"q\"], \"atoms\": 2}", "\"sharing.atoms\" is",
     "\"sharing.type\" \"masa\""},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 2, \"rank\": 3}", "\"sharing.rank\" is",
     "\"sharing.type\" \"low_rank\""},
    {GQA, "{\"type\": \"repeat\", \"projections\": [\"q\"], \"atoms\": 2, \"rank\": 3}",
     "\"sharing.rank\" is", "\"sharing.type\" \"low_rank\""},
    {GQA, "{\"type\": \"repeat\", \"projections\": [\"q\"], \"atoms\": 2, \"coefficients\": \"mlp\"}",
     "\"sharing.coefficients\" is \"mlp\"", "\"sharing.type\" \"masa\""},
    {GQA, "{\"type\": \"low_rank\", \"projections\": [\"q\"], \"rank\": 2, \"coefficients\": \"mlp\"}",
     "\"sharing.coefficients\" is \"mlp\"", "\"sharing.type\" \"masa\""},
    {GQA, "{\"type\": \"sequential\", \"projections\": [\"q\"], \"atoms\": 2, \"common_dictionary\": true}",
     "\"sharing.common_dictionary\" is true", "\"sharing.type\" \"masa\""},
    /* Values of the other keys. */
    {GQA, "{\"type\": \"low_rank\", \"projections\": [\"q\"], \"rank\": 0}", "\"sharing.rank\" is 0",
     "from 1"},
    {GQA, "{\"type\": \"low_rank\", \"projections\": [\"q\"], \"rank\": 99999999999}",
     "\"sharing.rank\" is 9", "a whole number"},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 2, \"coefficients\": \"MLP\"}",
     "\"sharing.coefficients\" is \"MLP\"", "one of \"direct\", \"mlp\""},
    {GQA, "{\"type\": \"masa\", \"projections\": [\"q\"], \"atoms\": 2, \"common_dictionary\": 1}",
     "\"sharing.common_dictionary\" is 1", "true or false"},
    /* Groups of the 4 layers. */
    {GQA, GROUPS("3"), "\"sharing.groups\" is 3", "as in [[0, 3], [4, 11]]"},
    {GQA, GROUPS("[]"), "\"sharing.groups\"", "a list of at most 512 groups"},
    {GQA, GROUPS("[0, 3]"), "\"sharing.groups\"", "a list of at most"},
    {GQA, GROUPS("[[0, 1], [2]]"), "\"sharing.groups\"", "a list of at most"},
    {GQA, GROUPS("[[0, 1.5], [2, 3]]"), "\"sharing.groups\"", "a list of at most"},
    {GQA, GROUPS("[[-1, 3]]"), "\"sharing.groups\"", "a list of at most"},
    {GQA, GROUPS("[[1, 3]]"), "\"sharing.groups\" has [1, 3]", "must be from layer 0"},
    {GQA, GROUPS("[[0, 1], [1, 3]]"), "\"sharing.groups\" has [1, 3]", "must be from layer 2"},
    {GQA, GROUPS("[[0, 1], [3, 3]]"), "\"sharing.groups\" has [3, 3]", "must be from layer 2"},
    {GQA, GROUPS("[[0, 1], [3, 2]]"), "\"sharing.groups\" has [3, 2]", "must be from layer 2"},
    {GQA, GROUPS("[[0, 4]]"), "\"sharing.groups\" has [0, 4]", "at most 3"},
    {GQA, GROUPS("[[0, 2]]"), "\"sharing.groups\" ends with layer 2", "is 3"},
    {GQA, BASES("[[0, 2]]"), "\"sharing.groups\" ends with layer 2", "is 3"},
    {GQA, BASES("[[0, 1], [1, 3]]"), "\"sharing.groups\" has [1, 3]", "must be from layer 2"},
    {GQA, BASES("[[0, 3]], \"atoms\": 2"), "\"sharing.atoms\" is a number", "\"sharing.type\""},
    {GQA, COMMON("9"), "\"sharing.atoms\" is 9", "the 8 matrices of 4 layers and 2 projections"},
    {GQA, GROUPS("[[0, 0], [1, 1], [2, 3]], \"atoms\": 3"), "\"sharing.atoms\" is 3", "has 2 layers"},
    {GQA, GROUPS("[[0, 1], [2, 3]], \"coefficients\": \"mlp\""), "\"sharing.coefficients\" is \"mlp\"",
     "\"sharing.groups\""},
    {GQA, GROUPS("[[0, 1], [2, 3]], \"common_dictionary\": true"), "\"sharing.common_dictionary\" is true",
     "\"sharing.groups\""},
    {GQA, "{\"type\": \"repeat\", \"projections\": [\"q\"], \"atoms\": 1, \"groups\": [[0, 3]]}",
     "\"sharing.groups\" is a list", "\"sharing.type\" \"masa\""},
};

static void what_makes_no_sense_is_refused_by_name(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    char *text = with_sharing(refused[i].attention, refused[i].sharing);
    ch_config config;
    ch_error error = {0};
    ch_status status = ch_config_parse(text, "dir/config.json", &config, &error);
    if (status != CH_ERROR_CONFIG || !strstr(error.message, refused[i].words) ||
        !strstr(error.message, refused[i].more) || !strstr(error.message, "dir/config.json") ||
        strchr(error.message, '\n')) {
      print_error("%s with %s:\n    status %d, \"%s\"\n    where a message with %s and %s is needed\n",
                  refused[i].attention, refused[i].sharing, status, error.message, refused[i].words,
                  refused[i].more);
      wrong++;
    }
    free(text);
  }
  assert_int_equal(wrong, 0);
}

/* Tests a hostile list with a very long name, and one with very many names. */
static void long_lists_and_names_are_refused(void **state) {
  (void)state;
  enum { MANY = 5000 };
  static char sharing[16 * MANY + 200];
  size_t used =
      (size_t)snprintf(sharing, sizeof sharing, "{\"type\": \"masa\", \"atoms\": 2, \"projections\": [\"");
  memset(sharing + used, 'q', MANY);
  snprintf(sharing + used + MANY, sizeof sharing - used - MANY, "_proj\"]}");
  char *text = with_sharing(GQA, sharing);
  assert_refused(text, "\"sharing.projections\"");
  free(text);
  used = (size_t)snprintf(sharing, sizeof sharing, "{\"type\": \"masa\", \"atoms\": 2, \"projections\": [");
  for (int i = 0; i < MANY; i++)
    used += (size_t)snprintf(sharing + used, sizeof sharing - used, "%s\"q%d\"", i ? ", " : "", i);
  snprintf(sharing + used, sizeof sharing - used, "]}");
  text = with_sharing(GQA, sharing);
  assert_refused(text, "\"sharing.projections\"");
  free(text);
}

/* A config that was not read from a file gets the same checks. */
static void made_configs_are_checked_too(void **state) {
  (void)state;
  ch_error error = {0};
  ch_config good = parsed(GQA, MASA("\"q\", \"k\"")), bad;
  assert_int_equal(ch_config_validate(&good, "made", &error), CH_OK);
#define EXPECT_INVALID(change, words)                                                                        \
  do {                                                                                                       \
    bad = good;                                                                                              \
    change;                                                                                                  \
    error = (ch_error){0};                                                                                   \
    if (ch_config_validate(&bad, "made", &error) == CH_OK || !strstr(error.message, words))                  \
      fail_msg("%s: \"%s\" where %s is needed", #change, error.message, words);                              \
  } while (0)
  EXPECT_INVALID(bad.sharing.atoms = 0, "sharing.atoms");
  EXPECT_INVALID(bad.sharing.atoms = 5, "sharing.atoms");
  EXPECT_INVALID(bad.sharing.atoms = -1, "atoms");
  EXPECT_INVALID(bad.sharing.rank = 2, "sharing.rank");
  EXPECT_INVALID(bad.sharing.type = CH_SHARING_NONE, "sharing");
  EXPECT_INVALID(bad.sharing.type = (ch_sharing_type)9, "type");
  EXPECT_INVALID(bad.sharing.type = CH_SHARING_LOW_RANK, "sharing.atoms");
  EXPECT_INVALID(bad.sharing.coefficients = (ch_coefficients)2, "coefficients");
  EXPECT_INVALID(bad.sharing.projection_count = 0, "projections");
  EXPECT_INVALID(bad.sharing.group_count = -1, "groups");
  EXPECT_INVALID(bad.sharing.group_count = 5000, "groups");
  EXPECT_INVALID(bad.sharing.group_count = 1, "groups");
  EXPECT_INVALID(bad.sharing.projection_count = 1000, "projections");
  EXPECT_INVALID(bad.sharing.projection_count = -1, "projections");
  EXPECT_INVALID(strcpy(bad.sharing.projections[1], "q_proj"), "projections");
  EXPECT_INVALID(strcpy(bad.sharing.projections[1], "nope"), "projections");
  EXPECT_INVALID(bad.num_hidden_layers = 1, "sharing.atoms");
  EXPECT_INVALID(memset(bad.sharing.projections[1], 'q', sizeof bad.sharing.projections[1]), "projections");
}

/* Hugging Face families have no key `sharing`, so it is ignored like other unknown keys. */
static void other_families_do_not_share(void **state) {
  (void)state;
  ch_config config;
  char *llama = changed(base, "model_type", "\"llama\"");
  read_changed(llama, "sharing", MASA("\"q\""), &config);
  assert_int_equal(config.sharing.type, CH_SHARING_NONE);
  free(llama);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writing_keeps_every_form),
      cmocka_unit_test(letters_and_names_are_the_same),
      cmocka_unit_test(absent_keys_mean_the_simplest),
      cmocka_unit_test(what_makes_no_sense_is_refused_by_name),
      cmocka_unit_test(long_lists_and_names_are_refused),
      cmocka_unit_test(made_configs_are_checked_too),
      cmocka_unit_test(other_families_do_not_share),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
