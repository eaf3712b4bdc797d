/* Tests every mechanism of the registry: it has a file in mechanisms/ and presets for `compare`, and its configurations
 * accept its modules and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "attention/registry.h"
#include "config_file/config_json.h"
#include "config_file/keys.h"
#include "mechanisms/mechanism.h"
#include "experiment/lineup/match_size.h"
#include "experiment/lineup/presets.h"

static ch_config shared_shape(void) {
  ch_config config;
  ch_error error = {0};
  ch_shape_wishes wishes = {.params = 1000000, .vocab = 1024, .context = 256};
  if (ch_base_shape(&wishes, &config, &error) != CH_OK) fail_msg("%s", error.message);
  assert_true(config.hidden_size == 128 && config.num_attention_heads == 8 && config.head_dim == 16);
  return config;
}

static ch_config of_preset(const char *name) {
  ch_config config = shared_shape();
  ch_error error = {0};
  if (ch_preset_apply(name, &config, &error) != CH_OK) fail_msg("%s", error.message);
  return config;
}

static void the_registry_and_the_tests_know_the_same(void **state) {
  (void)state;
  int registered = 0, tested = 0;
  for (const ch_mechanism *const *m = ch_mechanisms(); *m; m++, registered++) {
    const tested_mechanism *t = tested_mechanism_find((*m)->name);
    if (!t) fail_msg("no file of tests/attention/mechanisms defines \"%s\"", (*m)->name);
    if (!t->with_experts->attention || !t->long_texts->attention || !t->learns->attention)
      fail_msg("%s is not tried with experts, on long texts and in training", t->name);
    if (ch_mechanism_find(t->name) != *m || strcmp(ch_mechanism_names()[registered], t->name) != 0)
      fail_msg("the registry has another mechanism than %s under this name, or its list says %s", t->name,
               ch_mechanism_names()[registered]);
  }
  while (tested_mechanisms()[tested]) tested++;
  assert_int_equal(registered, tested);
  assert_null(ch_mechanism_names()[registered]);
}

static bool is_of(const char *tested, const char *preset) {
  size_t length = strcspn(tested, ":");
  return strlen(preset) == length && strncmp(tested, preset, length) == 0;
}

static void check_preset(const ch_mechanism *m, const tested_preset *t) {
  ch_config config = of_preset(t->name);
  ch_error error = {0};
  int64_t count;
  if (ch_preset_check(t->name, &error) != CH_OK ||
      ch_count_parameters(&config, CH_COUNT_ALL, &count, &error) != CH_OK)
    fail_msg("%s, preset %s: %s", m->name, t->name, error.message);
  if (strcmp(config.attention.type, m->name) != 0)
    fail_msg("%s, preset %s: makes a model of type %s", m->name, t->name, config.attention.type);
  int64_t elements = ch_state_elements(&config), layers = config.num_hidden_layers;
  if (elements != t->elements * layers)
    fail_msg("%s, preset %s: a token writes %lld elements in %lld layers; its test file says %lld per layer, "
             "so %lld",
             m->name, t->name, (long long)elements, (long long)layers, (long long)t->elements,
             (long long)(t->elements * layers));
}

/* Checks that every preset, with and without a number, gives a model of its mechanism with the expected cache. */
static void every_preset_makes_a_model_of_its_cache(void **state) {
  (void)state;
  for (const ch_mechanism *const *m = ch_mechanisms(); *m; m++) {
    const tested_preset *tested = tested_mechanism_find((*m)->name)->presets;
    if (!(*m)->presets || !(*m)->presets->name) fail_msg("%s has no presets", (*m)->name);
    for (const tested_preset *t = tested; t->name; t++) check_preset(*m, t);
    for (const ch_preset *p = (*m)->presets; p->name; p++) {
      bool plain = false, numbered = false;
      for (const tested_preset *t = tested; t->name; t++)
        if (is_of(t->name, p->name)) *(strchr(t->name, ':') ? &numbered : &plain) = true;
      if (!plain || numbered != (p->number != NULL))
        fail_msg("tests/attention/mechanisms do not try %s, alone%s", p->name,
                 p->number ? " and with a number" : "");
      if (!*p->summary) fail_msg("%s, preset %s: has no summary for --help", (*m)->name, p->name);
    }
  }
}

/* --- keys --------------------------------------------------------------------------------------------------- */

static const ch_config_key *row_of(const char *key) {
  for (int i = 0; i < ch_config_key_count; i++)
    if (strcmp(ch_config_keys[i].group, "attention") == 0 && strcmp(ch_config_keys[i].name, key) == 0)
      return &ch_config_keys[i];
  return NULL;
}

static void keys_of_single_mechanisms_are_rows_that_say_so(void **state) {
  (void)state;
  for (const ch_mechanism *const *m = ch_mechanisms(); *m; m++)
    for (const char *const *key = (*m)->keys; key && *key; key++)
      if (!row_of(*key) || !row_of(*key)->of_mechanisms)
        fail_msg("\"%s\" of %s is no row of key_table.c for single mechanisms", *key, (*m)->name);
  for (int i = 0; i < ch_config_key_count; i++) {
    bool named = false;
    for (const ch_mechanism *const *m = ch_mechanisms(); *m; m++)
      named = named || ch_mechanism_has_key(*m, ch_config_keys[i].name);
    if (ch_config_keys[i].of_mechanisms && !named)
      fail_msg("no mechanism has the key \"%s\"", ch_config_keys[i].name);
  }
}

/* --- modules ------------------------------------------------------------------------------------------------ */

/* Asserts that the config is accepted if `taken`, or else refused with a message that names the key and the type. */
static void assert_taken(const ch_config *config, bool taken, const char *key) {
  ch_error error = {0};
  const char *type = config->attention.type;
  bool valid = ch_config_validate(config, "made", &error) == CH_OK;
  if (valid != taken) fail_msg("%s with %s: %s", type, key, valid ? "is taken" : error.message);
  if (!valid && (!strstr(error.message, key) || !strstr(error.message, "\"attention.type\"") ||
                 !strstr(error.message, type)))
    fail_msg("%s with %s is refused by: %s", type, key, error.message);
}

static void assert_knocking(ch_config config, const ch_mechanism *m) {
  static const ch_knocking_type types[] = {CH_KNOCKING_LINEAR, CH_KNOCKING_MLP, CH_KNOCKING_GATE};
  for (int i = 0; i < 3; i++)
    for (unsigned on = CH_ON_Q; on <= CH_ON_V; on <<= 1) {
      unsigned bit = types[i] == CH_KNOCKING_LINEAR ? CH_MODULE_KNOCK_LINEAR : CH_MODULE_KNOCK_OTHER;
      config.attention.knocking = (ch_knocking){.type = types[i], .on = on};
      assert_taken(&config, (m->modules & bit) && (m->knocks & on), "\"attention.knocking");
    }
}

static void assert_head_mix(ch_config config, const ch_mechanism *m) {
  for (unsigned on = CH_ON_K; on <= CH_ON_V; on <<= 1) {
    config.attention.head_mix =
        (ch_head_mix){.on = on, .component_heads = 2 * config.num_key_value_heads, .last_layer = -1};
    assert_taken(&config, (m->modules & CH_MODULE_HEAD_MIX) && (m->mixes & on), "\"attention.head_mix");
  }
}

static void each_takes_the_modules_it_says_and_no_others(void **state) {
  (void)state;
  for (const ch_mechanism *const *m = ch_mechanisms(); *m; m++) {
    const ch_config plain = of_preset((*m)->presets->name);
    ch_config config = plain;
    assert_taken(&config, true, "nothing");
    config.attention.qk_norm = true;
    assert_taken(&config, (*m)->modules & CH_MODULE_QK_NORM, "\"attention.qk_norm\"");
    config = plain;
    config.attention.head_norm = true;
    assert_taken(&config, (*m)->modules & CH_MODULE_HEAD_NORM, "\"attention.head_norm\"");
    config = plain;
    config.attention_bias = true;
    assert_taken(&config, (*m)->modules & CH_MODULE_BIAS, "\"attention_bias\"");
    assert_knocking(plain, *m);
    assert_head_mix(plain, *m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_registry_and_the_tests_know_the_same),
      cmocka_unit_test(every_preset_makes_a_model_of_its_cache),
      cmocka_unit_test(keys_of_single_mechanisms_are_rows_that_say_so),
      cmocka_unit_test(each_takes_the_modules_it_says_and_no_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
