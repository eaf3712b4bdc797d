/* Tests RULER's items. They equal those of RULER's own scripts with this project's words and text
 * (tests/data/tasks/ruler.jsonl.gz). Shorter items than the scripts can create are checked for the properties
 * that an item must have. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file_bytes.h"
#include "eval/tasks/task.h"

static ch_tokenizer *tokenizer;

static int open_tokenizer(void **state) {
  (void)state;
  return ch_tokenizer_open(TEST_DATA "/TinyStories-656K", &tokenizer, NULL) != CH_OK;
}

static int close_tokenizer(void **state) {
  (void)state;
  ch_tokenizer_free(tokenizer);
  return 0;
}

/* Returns the items of a task, or NULL with *error filled. */
static json_t *make(const char *name, const char *text, const char *lengths, uint64_t seed, int64_t limit,
                    ch_error *error) {
  ch_task *task;
  json_t *items = NULL;
  if (ch_task_open(name, &task, error) != CH_OK) fail_msg("%s", error->message);
  const ch_ruler_request request = {.name = task->name,
                                    .ruler = &task->ruler,
                                    .tokenizer = tokenizer,
                                    .written = task->answers.most_tokens,
                                    .window = 1 << 20,
                                    .text = text,
                                    .lengths = lengths,
                                    .seed = seed,
                                    .limit = limit};
  ch_ruler_make(&request, &items, error);
  ch_task_free(task);
  return items;
}

static const char *field(const json_t *item, const char *key) {
  const char *text = json_string_value(json_object_get(item, key));
  assert_non_null(text);
  return text;
}

/* --- items of RULER's own scripts --------------------------------------------------------------------------- */

static void compare(const json_t *expected) {
  const char *task = field(expected, "task"), *text = NULL;
  char name[64], length[32];
  ch_error error = {0};
  snprintf(name, sizeof name, "ruler:%s", strncmp(task, "qa_", 3) == 0 ? "qa" : task);
  snprintf(length, sizeof length, "%lld", (long long)json_integer_value(json_object_get(expected, "length")));
  if (strcmp(task, "qa_1") == 0) text = TEST_DATA "/tasks/squad.json";
  if (strcmp(task, "qa_2") == 0) text = TEST_DATA "/tasks/hotpot.json";
  const json_t *theirs = json_object_get(expected, "items");
  json_t *ours = make(name, text, length, (uint64_t)json_integer_value(json_object_get(expected, "seed")),
                      (int64_t)json_array_size(theirs), &error);
  if (!ours) fail_msg("%s: %s", name, error.message);
  assert_int_equal(json_array_size(ours), json_array_size(theirs));
  for (size_t i = 0; i < json_array_size(theirs); i++) {
    const json_t *a = json_array_get(ours, i), *b = json_array_get(theirs, i);
    assert_string_equal(field(a, "input"), field(b, "input"));
    assert_string_equal(field(a, "answer_prefix"), field(b, "answer_prefix"));
    assert_true(json_equal(json_object_get(a, "outputs"), json_object_get(b, "outputs")));
    assert_true(json_equal(json_object_get(a, "length"), json_object_get(b, "length")));
  }
  json_decref(ours);
}

static void items_are_those_of_ruler_s_scripts(void **state) {
  (void)state;
  ch_file_bytes bytes;
  assert_int_equal(ch_file_bytes_open(TEST_DATA "/tasks/ruler.jsonl.gz", &bytes, NULL), CH_OK);
  const char *at = (const char *)bytes.data, *end = at + bytes.size;
  int count = 0;
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    json_t *expected = json_loadb(at, (size_t)((stop ? stop : end) - at), 0, NULL);
    assert_non_null(expected);
    compare(expected);
    json_decref(expected);
    count++;
    at = stop ? stop + 1 : end;
  }
  assert_true(count >= 17);
  ch_file_bytes_close(&bytes);
}

/* --- properties of items ------------------------------------------------------------------------------------ */

static int occurrences(const char *text, const char *part) {
  int count = 0;
  for (; (text = strstr(text, part)); text++) count++;
  return count;
}

static int64_t tokens_of(const json_t *item) {
  char *text = NULL;
  ch_ids ids = {0};
  assert_true(asprintf(&text, "%s%s", field(item, "input"), field(item, "answer_prefix")) > 0);
  assert_int_equal(ch_tokenizer_encode(tokenizer, text, strlen(text), CH_TEXT_BARE, &ids, NULL), CH_OK);
  int64_t count = (int64_t)ids.size;
  free(text);
  ch_ids_free(&ids);
  return count;
}

static const char *const needles[] = {"niah_single_1",   "niah_single_2",   "niah_single_3",
                                      "niah_multikey_1", "niah_multikey_2", "niah_multikey_3",
                                      "niah_multivalue", "niah_multiquery"};

/* Includes sizes that RULER's own scripts cannot create: texts of less than 500 words, five lines of
   noise. */
static void needles_are_there_once_at_all_depths_and_fill_the_length(void **state) {
  (void)state;
  static const int64_t lengths[] = {512, 700, 1000};
  for (size_t t = 0; t < 8; t++)
    for (size_t l = 0; l < 3; l++) {
      char name[64], length[32];
      ch_error error = {0};
      int depths[4] = {0};
      int64_t longest = 0;
      snprintf(name, sizeof name, "ruler:%s", needles[t]);
      snprintf(length, sizeof length, "%lld", (long long)lengths[l]);
      json_t *items = make(name, NULL, length, 42, 40, &error), *item, *answer;
      size_t i, k;
      if (!items) fail_msg("%s: %s", name, error.message);
      json_array_foreach(items, i, item) {
        const char *input = field(item, "input");
        json_array_foreach(json_object_get(item, "outputs"), k, answer) {
          assert_int_equal(occurrences(input, json_string_value(answer)), 1);
          const char *place = strstr(input, json_string_value(answer));
          depths[4 * (place - input) / (int64_t)strlen(input)]++;
        }
        int64_t tokens = tokens_of(item) + 128;
        assert_int_equal(tokens, json_integer_value(json_object_get(item, "length")));
        assert_true(tokens <= lengths[l]);
        if (tokens > longest) longest = tokens;
      }
      assert_true(longest > lengths[l] - 128);
      if (lengths[l] == 1000)
        for (int d = 0; d < 4; d++) assert_true(depths[d] > 0);
      json_decref(items);
    }
}

static void variables_of_a_chain_have_its_value(void **state) {
  (void)state;
  ch_error error = {0};
  json_t *items = make("ruler:vt", NULL, "1200", 3, 20, &error), *item, *name;
  size_t i, k;
  if (!items) fail_msg("%s", error.message);
  json_array_foreach(items, i, item) {
    /* Interprets the assignments after the solved example. */
    const char *text = strstr(field(item, "input"), "\n\nMemorize")
                           ? strstr(field(item, "input"), "\n\nMemorize") + 2
                           : field(item, "input");
    assert_true(text != field(item, "input"));
    char known[8][16] = {""}, value[16] = "", asked[16] = "";
    int count = 0;
    for (const char *line = strstr(text, "VAR "); line && line < strstr(text, "\nQuestion:");
         line = strchr(line, '\n') ? strstr(strchr(line, '\n'), "VAR ") : NULL) {
      char left[16], right[16];
      if (sscanf(line, "VAR %15s = VAR %15s", left, right) == 2) {
        for (int n = 0; n < count; n++)
          if (strcmp(known[n], right) == 0) snprintf(known[count], sizeof known[count], "%s", left);
        count += *known[count] != 0;
      } else if (sscanf(line, "VAR %15s = %15s", left, right) == 2) {
        snprintf(known[count++], sizeof known[0], "%s", left);
        snprintf(value, sizeof value, "%s", right);
      }
    }
    assert_int_equal(sscanf(strstr(text, "assigned the value"), "assigned the value %15s", asked), 1);
    assert_string_equal(asked, value);
    assert_int_equal(count, 5);
    json_array_foreach(json_object_get(item, "outputs"), k, name)
        assert_string_equal(json_string_value(name), known[k]);
    assert_int_equal(k, 5);
    assert_true(json_integer_value(json_object_get(item, "length")) <= 1200);
  }
  json_decref(items);
}

static void questions_of_a_text_have_their_answer_in_one_document(void **state) {
  (void)state;
  ch_error error = {0};
  json_t *items = make("ruler:qa", NULL, "700", 1, 100, &error), *item;
  size_t i;
  if (!items) fail_msg("%s", error.message);
  assert_in_range(json_array_size(items), 8, 100); /* no more than the text has questions */
  json_array_foreach(items, i, item) {
    const char *input = field(item, "input"),
               *answer = json_string_value(json_array_get(json_object_get(item, "outputs"), 0));
    assert_int_equal(occurrences(input, answer), 1);
    assert_true(strstr(input, answer) < strstr(input, "\n\nQuestion: Which word is missing in \""));
    assert_non_null(strstr(input, "____"));
  }
  json_decref(items);
}

static void a_seed_gives_the_same_items_and_another_seed_others(void **state) {
  (void)state;
  ch_error error = {0};
  json_t *a = make("ruler:niah_multikey_1", NULL, "600,800", 5, 3, &error),
         *b = make("ruler:niah_multikey_1", NULL, "600,800", 5, 3, &error),
         *c = make("ruler:niah_multikey_1", NULL, "600,800", 6, 3, &error);
  assert_int_equal(json_array_size(a), 6);
  assert_true(json_equal(a, b));
  assert_false(json_equal(a, c));
  json_decref(a);
  json_decref(b);
  json_decref(c);
}

/* --- refusals ----------------------------------------------------------------------------------------------- */

static void refuse(const char *name, const char *text, const char *lengths, const char *why) {
  ch_error error = {0};
  assert_null(make(name, text, lengths, 42, 2, &error));
  if (!strstr(error.message, why)) fail_msg("%s %s: %s", name, lengths, error.message);
}

/* Checks that the number in the message works, or a number that is larger by less than 40. */
static void the_least_length_is_said(void **state) {
  (void)state;
  static const char *const names[] = {
      "ruler:niah_single_1", "ruler:niah_multivalue", "ruler:vt", "ruler:cwe", "ruler:fwe", "ruler:qa"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    ch_error error = {0};
    long long least = 0;
    char length[32];
    assert_null(make(names[i], NULL, "140", 42, 1, &error));
    const char *place = strstr(error.message, "needs at least ");
    if (!place || sscanf(place, "needs at least %lld tokens", &least) != 1)
      fail_msg("%s: %s", names[i], error.message);
    /* Another draw may have other tokens, so the item of that length may be a little longer. */
    bool made = false;
    for (int more = 0; !made && more < 40; more++) {
      snprintf(length, sizeof length, "%lld", least + more);
      json_t *items = make(names[i], NULL, length, 42, 1, &error);
      made = items != NULL;
      json_decref(items);
    }
    if (!made) fail_msg("%s: %lld, but %s", names[i], least, error.message);
  }
}

static void wrong_lengths_and_texts_are_refused(void **state) {
  (void)state;
  refuse("ruler:vt", NULL, "", "must be from 1 to 16M tokens");
  refuse("ruler:vt", NULL, "4096,", "must be from 1 to 16M tokens");
  refuse("ruler:vt", NULL, "4x", "must be from 1 to 16M tokens");
  refuse("ruler:vt", NULL, "-4", "must be from 1 to 16M tokens");
  refuse("ruler:vt", NULL, "0", "must be from 1 to 16M tokens");
  refuse("ruler:vt", NULL, "99999999999999999999", "must be from 1 to 16M tokens");
  refuse("ruler:vt", NULL, "17M", "must be from 1 to 16M tokens");
  refuse("ruler:vt", NULL, "4k,4096", "contain 4096 twice");
  refuse("ruler:vt", NULL, "2M", "longer than the 1048576 tokens");
  refuse("ruler:niah_single_2", TEST_DATA "/tasks/none.txt", "1k", "none.txt");
  refuse("ruler:niah_single_2", TEST_DATA "/TinyStories-656K/model.safetensors", "1k", "is not UTF-8 text");
  refuse("ruler:qa", TEST_DATA "/tasks/expected.json", "1k", "SQuAD");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(items_are_those_of_ruler_s_scripts),
      cmocka_unit_test(needles_are_there_once_at_all_depths_and_fill_the_length),
      cmocka_unit_test(variables_of_a_chain_have_its_value),
      cmocka_unit_test(questions_of_a_text_have_their_answer_in_one_document),
      cmocka_unit_test(a_seed_gives_the_same_items_and_another_seed_others),
      cmocka_unit_test(the_least_length_is_said),
      cmocka_unit_test(wrong_lengths_and_texts_are_refused),
  };
  return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
