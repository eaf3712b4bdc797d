/* Tests layers that differ: the meaning of "layer_types" and "linear_attention", writing, and refusals. */
#include "config/config_testing.h"

static const char base[] =
    "{\"model_type\": \"crosshead\", \"vocab_size\": 73, \"hidden_size\": 64, \"intermediate_size\": 44,"
    " \"num_hidden_layers\": 4, \"num_attention_heads\": 8, \"layer_types\": [\"linear_attention\","
    " \"linear_attention\", \"linear_attention\", \"full_attention\"],"
    " \"linear_attention\": {\"type\": \"gdn\", \"heads\": 3, \"head_dim\": 10}}";

static void what_is_left_out_follows_from_the_rest(void **state) {
  (void)state;
  ch_config c;
  read_changed(base, "bos_token_id", "null", &c);
  const ch_linear_attention *l = &c.linear_attention;
  assert_int_equal(l->value_heads, 3);
  assert_int_equal(l->value_head_dim, 20);
  assert_int_equal(l->conv, 4);
  assert_true(l->gate && !l->negative_eigenvalues);
  assert_int_equal(ch_linear_layers(&c), 3);
  assert_true(ch_layer_is_linear(&c, 2) && !ch_layer_is_linear(&c, 3));
}

static void writing_and_reading_keeps_everything(void **state) {
  (void)state;
  static const char *const forms[] = {
      "{\"type\": \"gdn\", \"heads\": 3, \"head_dim\": 10}",
      "{\"type\": \"gdn\", \"heads\": 1, \"value_heads\": 5, \"head_dim\": 1, \"value_head_dim\": 1}",
      "{\"type\": \"gdn\", \"heads\": 2, \"head_dim\": 3, \"conv\": 0, \"gate\": false}",
      "{\"type\": \"gdn\", \"heads\": 2, \"head_dim\": 3, \"conv\": 64, \"negative_eigenvalues\": true}"};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    ch_config c, again;
    ch_text text = {0};
    ch_error error;
    read_changed(base, "linear_attention", forms[i], &c);
    ch_config_write(&c, &text);
    if (ch_config_parse(text.data, "config.json", &again, &error) != CH_OK) fail_msg("%s", error.message);
    assert_memory_equal(&c, &again, sizeof c);
    ch_text_free(&text);
  }
}

/* Every message names the keys. */
static void what_contradicts_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *path, *value, *words;
  } cases[] = {
      {"linear_attention", NULL, "for layer 0, but \"linear_attention\" is missing"},
      {"layer_types", NULL, "\"layer_types\" says \"linear_attention\" for no layer"},
      {"layer_types", "[\"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\"]",
       "\"linear_attention\" is given, but \"layer_types\""},
      {"layer_types", "[\"linear_attention\", \"full_attention\"]", "\"layer_types\" is a list of 2"},
      {"layer_types", "[\"linear\", \"linear\", \"linear\", \"full_attention\"]", "\"linear_attention\""},
      {"linear_attention", "[]", "\"linear_attention\" is []; it must be an object"},
      {"linear_attention", "{}", "\"linear_attention.type\" is missing"},
      {"linear_attention.type", "\"mamba\"", "\"linear_attention.type\" is \"mamba\"; it must be \"gdn\""},
      {"linear_attention.heads", NULL, "\"linear_attention.heads\" is missing"},
      {"linear_attention.head_dim", NULL, "\"linear_attention.head_dim\" is missing"},
      {"linear_attention.head_dim", "null", "\"linear_attention.head_dim\" is null"},
      {"linear_attention.heads", "0", "\"linear_attention.heads\" is 0; it must be"},
      {"linear_attention.heads", "-3", "\"linear_attention.heads\" is -3; it must be"},
      {"linear_attention.heads", "9223372036854775807", "\"linear_attention.heads\" is 9223372036854775807"},
      {"linear_attention.head_dim", "2.5", "\"linear_attention.head_dim\" is 2.5"},
      {"linear_attention.value_heads", "4",
       "\"linear_attention.value_heads\" is 4; it must be a multiple of \"linear_attention.heads\", 3"},
      {"linear_attention.value_heads", "1", "a multiple of \"linear_attention.heads\", 3"},
      {"linear_attention.value_heads", "65536", "multiple"},
      {"linear_attention.conv", "-1", "\"linear_attention.conv\" is -1; it must be"},
      {"linear_attention.conv", "65",
       "\"linear_attention.conv\" is 65; it must be a whole number from 0 to 64"},
      {"linear_attention.gate", "1", "\"linear_attention.gate\" is 1; it must be true or false"},
      {"linear_attention.negative_eigenvalues", "\"yes\"", "true or false"},
      {"linear_attention.heads_dim", "4", "unknown key"},
      {"linear_attention", "{\"type\": \"gdn\", \"heads\": 65536, \"head_dim\": 65536}",
       "\"linear_attention.heads\" times \"linear_attention.head_dim\" is 4294967296"},
      {"linear_attention",
       "{\"type\": \"gdn\", \"heads\": 1, \"value_heads\": 65536, \"head_dim\": 1, \"value_head_dim\": "
       "65536}",
       "\"linear_attention.value_heads\" times \"linear_attention.value_head_dim\""},
      {"linear_attention",
       "{\"type\": \"gdn\", \"heads\": 256, \"head_dim\": 65536, \"value_head_dim\": 65536}",
       "256 value heads with states of 65536 by 65536"},
      {"attention.kv_layer_group", "2",
       "\"attention.kv_layer_group\" is 2, but \"layer_types\" has different types for layers 2 and 3"},
      {"sharing", "{\"type\": \"low_rank\", \"projections\": [\"q\"], \"rank\": 2}",
       "\"sharing\" is for projections that all layers have, but \"layer_types\""},
      {"sliding_window", "8", "\"sliding_window\" is 8, but \"layer_types\""},
      {"attention_sinks", "2", "\"attention_sinks\""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = changed(base, cases[i].path, cases[i].value);
    assert_refused(text, cases[i].words);
    free(text);
  }
}

/* Layers of one group read the same keys. */
static void groups_rotate_alike(void **state) {
  (void)state;
  static const char grouped[] =
      "{\"model_type\": \"crosshead\", \"vocab_size\": 16, \"hidden_size\": 16, \"intermediate_size\": 8, "
      "\"num_hidden_layers\": 4, \"num_attention_heads\": 2, \"local_rope_theta\": 100, "
      "\"local_rope_layers\": "
      "[2, 3], \"nope_layers\": [0, 1], \"attention\": {\"type\": \"gqa\", \"kv_layer_group\": 2}}";
  char *nope = changed(grouped, "nope_layers", "[1]"), *local = changed(grouped, "local_rope_layers", "[2]");
  ch_config config;
  ch_error error;
  assert_int_equal(ch_config_parse(grouped, "c", &config, &error), CH_OK);
  assert_refused(nope,
                 "\"attention.kv_layer_group\" is 2, but \"nope_layers\" names only one of layers 0 and 1");
  assert_refused(local, "but \"local_rope_layers\" names only one of layers 2 and 3 of one group");
  free(nope);
  free(local);
}

static void images_have_no_such_layers(void **state) {
  (void)state;
  static const char images[] =
      "{\"model_type\": \"crosshead_vit\", \"image_size\": 8, \"patch_size\": 4, \"num_classes\": 3,"
      " \"hidden_size\": 16, \"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}";
  char *types = changed(images, "layer_types", "[\"linear_attention\"]"),
       *linear = changed(images, "linear_attention", "{\"type\": \"gdn\", \"heads\": 1, \"head_dim\": 2}");
  assert_refused(types, "\"layer_types\" belongs to models of text");
  assert_refused(linear, "\"linear_attention\" belongs to models of text");
  free(types);
  free(linear);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_left_out_follows_from_the_rest),
      cmocka_unit_test(writing_and_reading_keeps_everything),
      cmocka_unit_test(what_contradicts_is_refused),
      cmocka_unit_test(groups_rotate_alike),
      cmocka_unit_test(images_have_no_such_layers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
