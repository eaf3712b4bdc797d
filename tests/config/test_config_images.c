/* Tests the keys of image models: reading, writing, refusals, and Hugging Face's vit. */
#include "config_testing.h"
#include "config_file/config_json.h"

static const char base[] =
    "{\"model_type\": \"crosshead_vit\", \"image_size\": 32, \"patch_size\": 4, \"num_channels\": 3,"
    " \"num_classes\": 10, \"hidden_size\": 48, \"intermediate_size\": 96, \"num_hidden_layers\": 3,"
    " \"num_attention_heads\": 4, \"attention\": {\"type\": \"gqa\"}}";

static const char vit[] =
    "{\"model_type\": \"vit\", \"architectures\": [\"ViTForImageClassification\"], \"image_size\": 32,"
    " \"patch_size\": 4, \"hidden_size\": 48, \"intermediate_size\": 96, \"num_hidden_layers\": 3,"
    " \"num_attention_heads\": 4, \"hidden_act\": \"gelu\", \"qkv_bias\": true, \"encoder_stride\": 16,"
    " \"id2label\": {\"0\": \"cat\", \"1\": \"dog\", \"2\": \"cow\"}}";

static void every_key_is_read_and_absent_ones_have_their_defaults(void **state) {
  (void)state;
  ch_config c;
  read_changed(base, "layer_norm_eps", "1e-12", &c);
  assert_true(ch_config_is_vision(&c));
  assert_true(c.image_size == 32 && c.patch_size == 4 && c.num_channels == 3 && c.num_classes == 10);
  assert_true(c.layer_norm_eps == 1e-12 && c.rms_norm_eps == 1e-5);
  assert_true(c.position == CH_POSITION_NONE && strcmp(c.hidden_act, "gelu") == 0);
  assert_true(c.num_key_value_heads == 4 && c.head_dim == 12 && !c.attention_bias &&
              !c.attention_output_bias);
  assert_true(ch_config_patches(&c) == 64 && ch_config_image_tokens(&c) == 65);
  read_changed(base, "num_channels", NULL, &c);
  assert_true(c.num_channels == 3 && c.layer_norm_eps == 1e-6);
  read_changed(base, "attention_bias", "true", &c);
  assert_true(c.attention_bias && c.attention_output_bias);
  char *text = changed(base, "num_classes", NULL);
  read_changed(text, "num_labels", "7", &c);
  assert_true(c.num_classes == 7);
  free(text);
}

static void what_is_written_is_read_again(void **state) {
  (void)state;
  static const char *const changes[][2] = {{"attention_bias", "true"},     {"attention.type", "\"talking\""},
                                           {"layer_norm_eps", "1e-12"},    {"num_channels", "1"},
                                           {"hidden_act", "\"reglu\""},    {"norm", "\"rmsnorm\""},
                                           {"norm_placement", "\"post\""}, {"mlp_bias", "false"},
                                           {"attention.qk_norm", "true"}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    ch_config before, after;
    ch_text text = {0};
    ch_error error;
    read_changed(base, changes[i][0], changes[i][1], &before);
    ch_config_write(&before, &text);
    if (ch_config_parse(text.data, "written", &after, &error) != CH_OK) fail_msg("%s", error.message);
    assert_memory_equal(&before, &after, sizeof before);
    assert_null(strstr(text.data, "vocab_size"));
    ch_text_free(&text);
  }
}

static void a_hugging_face_vit_becomes_one_of_ours(void **state) {
  (void)state;
  ch_config c, again;
  ch_text text = {0};
  ch_error error;
  read_changed(vit, "layer_norm_eps", NULL, &c);
  assert_string_equal(c.model_type, "crosshead_vit");
  assert_true(c.num_classes == 3 && c.num_channels == 3 && c.layer_norm_eps == 1e-12);
  assert_true(c.attention_bias && c.attention_output_bias && strcmp(c.hidden_act, "gelu") == 0);
  ch_config_write(&c, &text);
  if (ch_config_parse(text.data, "written", &again, &error) != CH_OK) fail_msg("%s", error.message);
  assert_memory_equal(&c, &again, sizeof c);
  ch_text_free(&text);
  read_changed(vit, "num_labels", "5", &c);
  assert_true(c.num_classes == 5);
  read_changed(vit, "id2label", NULL, &c);
  assert_true(c.num_classes == 2);
}

typedef struct refused {
  const char *path, *value, *words;
} refused;

static void check_refused(const char *text, const refused *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char *broken = changed(text, cases[i].path, cases[i].value);
    assert_refused(broken, cases[i].words);
    free(broken);
  }
}

static void broken_values_and_contradictions_are_refused_by_name(void **state) {
  (void)state;
  static const refused ours[] = {
      {"image_size", NULL, "\"image_size\" is missing"},
      {"image_size", "0", "\"image_size\" is 0; it must be a whole number from 1 to 4096"},
      {"patch_size", "5", "\"patch_size\" is 5; it must divide \"image_size\", 32"},
      {"patch_size", "64", "must divide"},
      {"num_channels", "0", "\"num_channels\" is 0"},
      {"num_classes", NULL, "\"num_classes\" is missing"},
      {"layer_norm_eps", "0", "\"layer_norm_eps\" is 0"},
      {"vocab_size", "100", "\"vocab_size\" belongs to models of text and not to a \"crosshead_vit\""},
      {"rope_theta", "10000", "\"rope_theta\" belongs to models of text"},
      {"moe", "null", "\"moe\" belongs to models of text"},
      {"position", "\"rope\"", "\"position\" is \"rope\"; it must be \"none\""},
      {"hidden_act", "\"tanh\"", "\"hidden_act\" is \"tanh\"; it must be one of \"silu\", \"gelu\""},
      {"imagesize", "32", "did you mean \"image_size\"?"},
      {"attention",
       "{\"type\": \"mla\", \"kv_lora_rank\": 8, \"qk_nope_head_dim\": 4, \"qk_rope_head_dim\": 2, "
       "\"v_head_dim\": 4,"
       " \"gate_embedding_dim\": 3}",
       "gates by the ids of tokens"},
  };
  static const refused theirs[] = {
      {"qkv_bias", "false", "\"qkv_bias\" is not true"},
      {"hidden_act", "\"quick_gelu\"", "it must be one of \"gelu\", \"relu\", \"relu2\""},
      {"patch_size", NULL, "\"patch_size\" is missing"},
  };
  check_refused(base, ours, sizeof ours / sizeof *ours);
  check_refused(vit, theirs, sizeof theirs / sizeof *theirs);
  assert_refused("{\"model_type\": \"crosshead\", \"image_size\": 32}",
                 "\"image_size\" belongs to models of images and not to a \"crosshead\"");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_key_is_read_and_absent_ones_have_their_defaults),
      cmocka_unit_test(what_is_written_is_read_again),
      cmocka_unit_test(a_hugging_face_vit_becomes_one_of_ours),
      cmocka_unit_test(broken_values_and_contradictions_are_refused_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
