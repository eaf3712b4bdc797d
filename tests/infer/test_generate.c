/* Tests generating text: the greedy ids of transformers, whole characters, ends, continuation, determinism. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "infer/end_tokens.h"
#include "infer/generate.h"
#include "infer/model.h"
#include "base/utf8.h"

#define TRAINED TEST_DATA "/TinyStories-656K"
enum { MOST = 512 };

/* A model with a session, and its output. */
typedef struct desk {
  ch_model *model;
  ch_tokenizer *tokenizer; /* NULL if only ids are compared */
  ch_session *session;
  ch_sampler sampler;
  const int32_t *end_tokens;
  int end_token_count;
  ch_generation_result result;
  int32_t ids[MOST];
  int64_t count;
  int64_t stop_after; /* tokens after which the sink stops the text (0 = never) */
  ch_text text;
  bool broken; /* true if a piece was not valid UTF-8 */
} desk;

static bool take(const char *text, size_t size, void *user) {
  desk *d = user;
  if (ch_utf8_valid_prefix((const unsigned char *)text, size) != size) d->broken = true;
  ch_text_put(&d->text, text, size);
  return true;
}

static bool take_token(const ch_token_probability *token, const ch_token_probability *top, int32_t top_count,
                       void *user) {
  (void)top, (void)top_count;
  desk *d = user;
  if (d->count < MOST) d->ids[d->count++] = token->token;
  return d->stop_after == 0 || d->count < d->stop_after;
}

static void set_sampler(desk *d, double temperature, int32_t top_k, double top_p, uint64_t seed) {
  ch_sampler_defaults(&d->sampler, seed);
  d->sampler.temperature = temperature;
  d->sampler.top_k = top_k;
  d->sampler.top_p = top_p;
}

static void open_desk(desk *d, const char *directory, const char *tokenizer, int64_t context) {
  ch_error error = {0};
  *d = (desk){0};
  set_sampler(d, 0, 0, 1, 1);
  ch_session_options options;
  if (ch_model_load(directory, CH_WEIGHTS_MAPPED, &d->model, &error) != CH_OK ||
      (tokenizer && ch_tokenizer_open(tokenizer, &d->tokenizer, &error) != CH_OK))
    fail_msg("%s", error.message);
  ch_session_options_default(&d->model->config, &options);
  if (context > 0) options.context = context;
  if (ch_session_new(&d->model->config, &d->model->params, d->model->weights.tensors, &options, &d->session,
                     &error) != CH_OK)
    fail_msg("%s", error.message);
}

static void close_desk(desk *d) {
  ch_session_free(d->session);
  ch_tokenizer_free(d->tokenizer);
  ch_model_unload(d->model);
  ch_text_free(&d->text);
}

static ch_status write_from(desk *d, const int32_t *prompt, int64_t count, int64_t max_tokens,
                            ch_error *error) {
  ch_batch_text asked = {.max_tokens = max_tokens, .sink = take, .token_sink = take_token, .user = d};
  ch_generation_text text = {.asked = &asked,
                             .sampler = d->sampler,
                             .prompt = prompt,
                             .count = count,
                             .end_tokens = d->end_tokens,
                             .end_token_count = d->end_token_count};
  ch_status status = ch_generate_tokens(d->session, d->tokenizer, &text, error);
  d->sampler = text.sampler;
  d->result = asked.generated;
  return status;
}

static json_t *load_json(const char *path) {
  json_error_t error;
  json_t *root = json_load_file(path, 0, &error);
  if (!root) fail_msg("%s: %s", path, error.text);
  return root;
}

/* --- parity ------------------------------------------------------------------------------------------------- */

/* The reference's ids are `prompt` ids of the prompt, followed by the output of transformers. */
static void check_greedy_ids(const char *directory, const char *reference, int64_t prompt) {
  desk d;
  open_desk(&d, directory, NULL, 0);
  json_t *root = load_json(reference), *list = json_object_get(root, "greedy_ids");
  int64_t count = (int64_t)json_array_size(list);
  assert_in_range(count, prompt + 1, MOST);
  int32_t expected[MOST];
  for (int64_t i = 0; i < count; i++)
    expected[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
  ch_error error = {0};
  if (write_from(&d, expected, prompt, count - prompt, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(d.count, count - prompt);
  for (int64_t i = prompt; i < count; i++)
    if (d.ids[i - prompt] != expected[i])
      fail_msg("%s: token %lld is %d, the reference has %d", directory, (long long)i, d.ids[i - prompt],
               expected[i]);
  json_decref(root);
  close_desk(&d);
}

static void small_models_write_the_ids_that_transformers_writes(void **state) {
  (void)state;
  check_greedy_ids(TEST_DATA "/reference/llama_gqa", TEST_DATA "/reference/llama_gqa/ref.json", 6);
  check_greedy_ids(TEST_DATA "/reference/qwen3", TEST_DATA "/reference/qwen3/ref.json", 6);
}

static bool shared_data(void) {
  FILE *file = fopen(SHARED_DATA "/data/reference/stories260K/ref.json", "r");
  if (!file) {
    print_message("the shared data is not beside the checkout: skipped\n");
    return false;
  }
  fclose(file);
  return true;
}

static void trained_models_write_the_ids_that_transformers_writes(void **state) {
  (void)state;
  if (!shared_data()) skip();
  check_greedy_ids(TRAINED, SHARED_DATA "/data/reference/TinyStories-656K/ref.json", 10);
  check_greedy_ids(SHARED_DATA "/data/models/stories-qwen3-12L",
                   SHARED_DATA "/data/reference/stories-qwen3-12L/ref.json", 24);
  check_greedy_ids(SHARED_DATA "/data/reference/stories260K",
                   SHARED_DATA "/data/reference/stories260K/ref.json", 1);
}

/* The expected text is llama2.c's output for this model at temperature 0 (from its documentation). */
static void the_llama2c_model_tells_its_story(void **state) {
  (void)state;
  if (!shared_data()) skip();
  desk d;
  open_desk(&d, SHARED_DATA "/data/reference/stories260K", SHARED_DATA "/data/models/stories260K/tok512.bin",
            0);
  const int32_t begin = 1;
  assert_int_equal(write_from(&d, &begin, 1, 200, NULL), CH_OK);
  ch_text_put(&d.text, "", 1);
  const char *story =
      "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One "
      "day, she saw a big, red ball. She wanted to play with it, but it was too high.\nLily's mom said, "
      "\"Lily, let's go to the park.\" Lily was sad and didn't know what to do. She said, \"I want to "
      "play with your ball, but I can't find it.\"\nLily was sad";
  if (strncmp(d.text.data, story, strlen(story)) != 0) fail_msg("it tells: %s", d.text.data);
  assert_false(d.broken);
  close_desk(&d);
}

/* --- text --------------------------------------------------------------------------------------------------- */

static int64_t encode(const desk *d, const char *text, int32_t *ids) {
  ch_ids list = {0};
  assert_int_equal(ch_tokenizer_encode(d->tokenizer, text, strlen(text), CH_TEXT_WHOLE, &list, NULL), CH_OK);
  int64_t count = (int64_t)list.size;
  assert_true(count < MOST);
  memcpy(ids, list.data, list.size * sizeof *ids);
  ch_ids_free(&list);
  return count;
}

/* At a high temperature a byte-level model generates many broken characters. The output must still be valid and
   equal the text of the ids. */
static void streamed_text_is_valid_and_complete(void **state) {
  (void)state;
  desk d;
  open_desk(&d, TRAINED, TRAINED, 0);
  int32_t prompt[MOST];
  int64_t count = encode(&d, "Once", prompt);
  set_sampler(&d, 50, 0, 1, 1);
  assert_int_equal(write_from(&d, prompt, count, 300, NULL), CH_OK);
  assert_false(d.broken);
  assert_int_equal(d.count, 300);
  /* The expected text is the text of prompt and ids without the text of the prompt. Broken bytes are replaced. */
  ch_text whole = {0}, start = {0}, valid = {0};
  int32_t all[2 * MOST];
  memcpy(all, prompt, (size_t)count * sizeof *all);
  memcpy(all + count, d.ids, (size_t)d.count * sizeof *all);
  assert_int_equal(ch_tokenizer_put_text(d.tokenizer, prompt, (size_t)count, true, &start, NULL), CH_OK);
  assert_int_equal(ch_tokenizer_put_text(d.tokenizer, all, (size_t)(count + d.count), true, &whole, NULL),
                   CH_OK);
  ch_put_valid_utf8(&valid, whole.data + start.size, whole.size - start.size);
  assert_true(valid.size > 300);
  assert_int_equal(d.text.size, valid.size);
  assert_memory_equal(d.text.data, valid.data, valid.size);
  ch_text_free(&whole);
  ch_text_free(&start);
  ch_text_free(&valid);
  close_desk(&d);
}

static void broken_bytes_become_replacement_characters(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *valid;
  } cases[] = {{"", ""},
               {"plain", "plain"},
               {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82"},
               {"a\xff"
                "b",
                "a\xef\xbf\xbd"
                "b"},
               {"\xc3", "\xef\xbf\xbd"},
               {"\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
               {"x\xe2\x82y", "x\xef\xbf\xbdy"},
               {"\xf0\x9f\x98", "\xef\xbf\xbd"},
               {"\xf0\x98\xf0\x9f\x98\x80", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
               {"\xe0\x80\xed\xa0\x80z", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"},
               {"\xf4\x90\xf5\x80\xc0\xaf",
                "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_text text = {0};
    ch_put_valid_utf8(&text, cases[i].bytes, strlen(cases[i].bytes));
    ch_text_put(&text, "", 1);
    assert_string_equal(text.data, cases[i].valid);
    ch_text_free(&text);
  }
}

/* --- ends --------------------------------------------------------------------------------------------------- */

static void a_text_ends_where_it_should(void **state) {
  (void)state;
  const int32_t prompt[3] = {109, 9, 61};
  desk d;
  open_desk(&d, TEST_DATA "/reference/llama_gqa", NULL, 20);
  ch_error error = {0};
  assert_int_equal(write_from(&d, prompt, 3, 5, &error), CH_OK);
  assert_int_equal(d.result.end, CH_END_LIMIT);
  assert_int_equal(d.result.prompt_tokens, 3);
  assert_int_equal(d.result.tokens, 5);
  assert_int_equal(ch_session_length(d.session), 8);
  int32_t fourth = d.ids[3];
  /* Without a limit, the full context ends the text. The cache then contains every token. */
  assert_int_equal(ch_session_truncate(d.session, 0, NULL), CH_OK);
  d.count = 0;
  assert_int_equal(write_from(&d, prompt, 3, 0, &error), CH_OK);
  assert_int_equal(d.result.end, CH_END_FULL);
  assert_int_equal(d.count, 17);
  assert_int_equal(ch_session_length(d.session), 20);
  /* The end token is not part of the text. */
  assert_int_equal(ch_session_truncate(d.session, 0, NULL), CH_OK);
  d.count = 0;
  d.end_tokens = (int32_t[]){-5, fourth};
  d.end_token_count = 2;
  assert_int_equal(write_from(&d, prompt, 3, 0, &error), CH_OK);
  assert_int_equal(d.result.end, CH_END_TOKEN);
  for (int64_t i = 0; i < d.count; i++) assert_int_not_equal(d.ids[i], fourth);
  assert_true(d.count <= 3);
  d.end_token_count = 0;
  /* The sink can stop the text. */
  assert_int_equal(ch_session_truncate(d.session, 0, NULL), CH_OK);
  d.count = 0;
  d.stop_after = 2;
  assert_int_equal(write_from(&d, prompt, 3, 0, &error), CH_OK);
  assert_int_equal(d.result.end, CH_END_STOPPED);
  assert_int_equal(d.count, 2);
  close_desk(&d);
}

static void impossible_prompts_are_errors(void **state) {
  (void)state;
  int32_t prompt[21] = {0};
  desk d;
  open_desk(&d, TEST_DATA "/reference/llama_gqa", NULL, 20);
  ch_error error = {0};
  assert_int_equal(write_from(&d, prompt, 21, 5, &error), CH_ERROR_FULL);
  assert_non_null(strstr(error.message, "21 tokens"));
  assert_int_equal(write_from(&d, prompt, 0, 5, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(write_from(&d, NULL, 3, 5, &error), CH_ERROR_ARGUMENT);
  prompt[2] = 4000000;
  assert_int_equal(write_from(&d, prompt, 5, 5, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_length(d.session), 0);
  prompt[2] = 0;
  d.sampler.top_p = 2;
  assert_int_equal(write_from(&d, prompt, 5, 5, &error), CH_ERROR_ARGUMENT);
  d.sampler.top_p = 1;
  assert_int_equal(write_from(&d, prompt, 20, 5, &error), CH_OK);
  assert_int_equal(d.result.end, CH_END_FULL);
  assert_int_equal(d.result.tokens, 0);
  close_desk(&d);
}

/* A call for 6 tokens, followed by a call that is fed the seventh token, gives the tokens of a single call except the
   seventh. */
static void a_second_call_goes_on_from_the_first(void **state) {
  (void)state;
  const int32_t prompt[3] = {24, 105, 17};
  desk one, two;
  open_desk(&one, TEST_DATA "/reference/qwen3", NULL, 0);
  open_desk(&two, TEST_DATA "/reference/qwen3", NULL, 0);
  assert_int_equal(write_from(&one, prompt, 3, 12, NULL), CH_OK);
  assert_int_equal(write_from(&two, prompt, 3, 6, NULL), CH_OK);
  /* The caller feeds the seventh token and gets the rest. */
  assert_int_equal(write_from(&two, &one.ids[6], 1, 5, NULL), CH_OK);
  assert_int_equal(two.count, 11);
  for (int i = 0; i < 6; i++) assert_int_equal(two.ids[i], one.ids[i]);
  for (int i = 6; i < 11; i++) assert_int_equal(two.ids[i], one.ids[i + 1]);
  close_desk(&one);
  close_desk(&two);
}

static void the_same_seed_writes_the_same_text(void **state) {
  (void)state;
  const int32_t prompt[2] = {1, 80};
  desk d;
  open_desk(&d, TRAINED, TRAINED, 0);
  int32_t first[60];
  int differing = 0;
  for (uint64_t round = 0; round < 3; round++) {
    assert_int_equal(ch_session_truncate(d.session, 0, NULL), CH_OK);
    set_sampler(&d, 1, 100, 0.95, round == 2 ? 8 : 7);
    d.count = 0;
    assert_int_equal(write_from(&d, prompt, 2, 60, NULL), CH_OK);
    for (int i = 0; i < 60; i++) {
      if (round == 0) first[i] = d.ids[i];
      if (round == 1) assert_int_equal(d.ids[i], first[i]);
      if (round == 2) differing += d.ids[i] != first[i];
    }
  }
  assert_true(differing > 20);
  close_desk(&d);
}

/* --- end tokens --------------------------------------------------------------------------------------------- */

static void put_file(const char *directory, const char *name, const char *text) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  assert_int_equal(ch_write_file(path, text, strlen(text), NULL), CH_OK);
}

static void end_tokens_come_from_every_file_that_names_them(void **state) {
  (void)state;
  char directory[] = "/tmp/crosshead-ends-XXXXXX";
  assert_non_null(mkdtemp(directory));
  int32_t ids[CH_MAX_END_TOKENS];
  int count;
  ch_config config = {.eos_token_id = 2};
  ch_error error = {0};
  assert_int_equal(ch_end_tokens(directory, &config, NULL, ids, &count, &error), CH_OK);
  assert_true(count == 1 && ids[0] == 2);
  put_file(directory, "config.json", "{\"eos_token_id\": [2, 7, -4, \"x\", 2.0]}");
  put_file(directory, "generation_config.json", "{\"eos_token_id\": 9}");
  assert_int_equal(ch_end_tokens(directory, &config, NULL, ids, &count, &error), CH_OK);
  assert_true(count == 3 && ids[0] == 9 && ids[1] == 2 && ids[2] == 7);
  put_file(directory, "generation_config.json", "{\"eos_token_id\": null}");
  assert_int_equal(ch_end_tokens(directory, &config, NULL, ids, &count, &error), CH_OK);
  assert_int_equal(count, 2);
  put_file(directory, "generation_config.json", "{\"eos_token_id\": ");
  assert_int_not_equal(ch_end_tokens(directory, &config, NULL, ids, &count, &error), CH_OK);
  assert_non_null(strstr(error.message, "generation_config.json"));
  /* Ids beyond the limit are ignored. */
  put_file(directory, "generation_config.json",
           "{\"eos_token_id\": [10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27]}");
  assert_int_equal(ch_end_tokens(directory, &config, NULL, ids, &count, &error), CH_OK);
  assert_int_equal(count, CH_MAX_END_TOKENS);
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", directory);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_models_write_the_ids_that_transformers_writes),
      cmocka_unit_test(trained_models_write_the_ids_that_transformers_writes),
      cmocka_unit_test(the_llama2c_model_tells_its_story),
      cmocka_unit_test(streamed_text_is_valid_and_complete),
      cmocka_unit_test(broken_bytes_become_replacement_characters),
      cmocka_unit_test(a_text_ends_where_it_should),
      cmocka_unit_test(impossible_prompts_are_errors),
      cmocka_unit_test(a_second_call_goes_on_from_the_first),
      cmocka_unit_test(the_same_seed_writes_the_same_text),
      cmocka_unit_test(end_tokens_come_from_every_file_that_names_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
