/* Tests the figures of a model as a program reads them, with crosshead/info.h only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <crosshead/info.h>

#define QWEN TEST_DATA "/reference/qwen3/config.json"
#define LLAMA TEST_DATA "/reference/llama_gqa"
#define DEEPSEEK TEST_DATA "/reference/deepseek_v2"
#define STORIES TEST_DATA "/TinyStories-656K"

static ch_error error;

static void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

static ch_info *opened(const char *path) {
  ch_info *info = NULL;
  must(ch_info_open(path, &info, &error));
  return info;
}

static unsigned roles_of(const char *path) {
  ch_info *info = opened(path);
  unsigned roles = 0;
  must(ch_info_cache_roles(info, &roles, &error));
  ch_info_free(info);
  return roles;
}

static void assert_holds(char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("no \"%s\" in\n%s", part, text);
}

/* llama_gqa has 2 layers with 2 key-value heads of 8: 2 * 2 * 2 * 8 elements per token. An element has two bytes in
   BF16 and four in F32. In Q8_0 the 16 elements of a layer's values are one block of 32 with a two-byte scale. */
static void the_cache_is_counted_in_the_types_asked_for(void **state) {
  (void)state;
  ch_info *info = opened(LLAMA);
  ch_info_settings settings;
  ch_account account;
  must(ch_info_account(info, NULL, &account, &error));
  assert_int_equal(account.cache_elements_per_token, 64);
  assert_int_equal(account.cache_bytes_per_token, 128);
  ch_info_defaults(&settings);
  settings.cache = CH_PRECISION_F32;
  must(ch_info_account(info, &settings, &account, &error));
  assert_int_equal(account.cache_bytes_per_token, 256);
  settings.cache_values = CH_PRECISION_Q8_0;
  must(ch_info_account(info, &settings, &account, &error));
  assert_int_equal(account.cache_bytes_per_token, 128 + 2 * 34);
  char *text = NULL;
  must(ch_info_json(info, &settings, &text, &error));
  assert_holds(text, "\"cache_dtype\": \"k=f32,v=q8_0\"");
  ch_free(text);
  settings.cache_name = "mine";
  must(ch_info_page(info, &settings, &text, &error));
  assert_holds(text, "196   mine\n");
  ch_free(text);
  ch_info_free(info);
  ch_info_free(NULL);
}

/* Comparing a query and a key costs 2 d FLOPs per head and token, and weighting the value as many. */
static void context_costs_attention_alone(void **state) {
  (void)state;
  ch_info *info = opened(LLAMA);
  ch_info_settings settings;
  ch_account short_context, long_context;
  ch_info_defaults(&settings);
  must(ch_info_account(info, &settings, &short_context, &error));
  settings.depth = 100;
  must(ch_info_account(info, &settings, &long_context, &error));
  assert_true(short_context.flops.attention_context == 0);
  assert_true(long_context.flops.attention_context == 100 * 2 * 6 * 8 * 4.0);
  assert_true(long_context.flops.feed_forward == short_context.flops.feed_forward);
  assert_int_equal(short_context.parameters_total, long_context.parameters_total);
  ch_info_free(info);
}

static void a_cache_holds_keys_and_values_or_latents(void **state) {
  (void)state;
  assert_int_equal(roles_of(QWEN), CH_CACHE_KEYS | CH_CACHE_VALUES);
  assert_int_equal(roles_of(DEEPSEEK), CH_CACHE_LATENTS);
  ch_model *model = NULL;
  unsigned roles = 0;
  must(ch_model_open(STORIES, &model, &error));
  must(ch_model_cache_roles(model, &roles, &error));
  assert_int_equal(roles, CH_CACHE_KEYS | CH_CACHE_VALUES);
  assert_int_equal(ch_model_context_limit(model), 512);
  ch_model_close(model);
}

static void several_stand_side_by_side(void **state) {
  (void)state;
  ch_info *infos[2] = {opened(QWEN), opened(LLAMA)};
  const ch_info *const *list = (const ch_info *const *)infos;
  char *text = NULL;
  must(ch_info_table(list, 2, NULL, &text, &error));
  assert_holds(text, "\nqwen3 ");
  assert_holds(text, "\nllama_gqa ");
  ch_free(text);
  must(ch_info_table_json(list, 2, NULL, &text, &error));
  assert_holds(text, "{\"models\": [{");
  assert_holds(text, "\"name\": \"llama_gqa\"");
  ch_free(text);
  assert_int_equal(ch_info_table(list, 0, NULL, &text, &error), CH_ERROR_ARGUMENT);
  for (int i = 0; i < 2; i++) ch_info_free(infos[i]);
}

static void an_open_model_says_the_same(void **state) {
  (void)state;
  ch_model *model = NULL;
  char *one = NULL, *other = NULL;
  ch_info *info = opened(STORIES);
  must(ch_model_open(STORIES, &model, &error));
  must(ch_model_info(model, &one, &error));
  must(ch_info_json(info, NULL, &other, &error));
  assert_string_equal(one, other);
  ch_free(one);
  ch_free(other);
  ch_info_free(info);
  ch_model_close(model);
}

static void what_is_wrong_is_said(void **state) {
  (void)state;
  ch_info *info = (ch_info *)1;
  assert_int_equal(ch_info_open("/nonexistent", &info, &error), CH_ERROR_IO);
  assert_null(info);
  assert_non_null(strstr(error.message, "/nonexistent"));
  assert_int_equal(ch_info_open(NULL, &info, &error), CH_ERROR_ARGUMENT);
  info = opened(LLAMA);
  ch_account account;
  ch_info_settings settings;
  ch_info_defaults(&settings);
  settings.cache_keys = CH_PRECISION_Q6_K;
  assert_int_equal(ch_info_account(info, &settings, &account, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "cache_keys"));
  ch_info_defaults(&settings);
  settings.depth = -1;
  assert_int_equal(ch_info_account(info, &settings, &account, &error), CH_ERROR_ARGUMENT);
  ch_info_free(info);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cache_is_counted_in_the_types_asked_for),
      cmocka_unit_test(context_costs_attention_alone),
      cmocka_unit_test(a_cache_holds_keys_and_values_or_latents),
      cmocka_unit_test(several_stand_side_by_side),
      cmocka_unit_test(an_open_model_says_the_same),
      cmocka_unit_test(what_is_wrong_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
