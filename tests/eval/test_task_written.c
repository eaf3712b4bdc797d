/* Tests tasks whose answers the model writes against lm-evaluation-harness 0.4.13 and TinyStories-656K: its
 * prompts, the texts that transformers generated, what the harness's filters extracted from them, and their
 * scores (tests/data/tasks/written). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>

#include "eval/harness_model.h"

#define DATA TEST_DATA "/tasks/written/"

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  assert_non_null(text);
  return text;
}

/* --- the harness -------------------------------------------------------------------------------------------- */

static void compare_item(const ch_task_evaluation *e, int64_t index, const json_t *expected) {
  const ch_answer_rules *rules = &e->task->answers;
  assert_string_equal(e->questions[index].requests->context, text_of(expected, "prompt"));
  assert_string_equal(e->outcomes[index].answer, text_of(expected, "answer"));
  assert_int_equal(json_object_size(json_object_get(expected, "filters")), rules->filter_count);
  for (int f = 0; f < rules->filter_count; f++) {
    const json_t *pair = json_object_get(json_object_get(expected, "filters"), rules->filters[f].name);
    int64_t place = index * rules->filter_count + f;
    assert_non_null(pair);
    assert_true(json_equal(e->filtered[place], json_array_get(pair, 0)));
    assert_true(e->scored[place] == json_number_value(json_array_get(pair, 1)));
  }
}

static void compare_task(const json_t *expected) {
  const char *name = text_of(expected, "task");
  char path[512], items[512], train[512];
  ch_task *task;
  ch_task_evaluation e;
  ch_error error = {0};
  snprintf(path, sizeof path, DATA "%s.json", name);
  snprintf(items, sizeof items, DATA "%s.jsonl", name);
  snprintf(train, sizeof train, DATA "%s_train.jsonl", name);
  ch_evaluate_settings settings = {.items = items,
                                   .examples = (int)json_integer_value(json_object_get(expected, "fewshot")),
                                   .example_file =
                                       json_is_true(json_object_get(expected, "train")) ? train : NULL};
  if (ch_task_open(path, &task, &error) != CH_OK) fail_msg("%s", error.message);
  if (ch_task_evaluate(task, model, tokenizer, &settings, &e, &error) != CH_OK) fail_msg("%s", error.message);
  const json_t *samples = json_object_get(expected, "samples");
  assert_int_equal(e.items.count, json_array_size(samples));
  for (int64_t i = 0; i < e.items.count; i++) compare_item(&e, i, json_array_get(samples, (size_t)i));
  for (int f = 0; f < task->answers.filter_count; f++) {
    const json_t *figure =
        json_object_get(json_object_get(expected, "figures"), task->answers.filters[f].name);
    assert_true(fabs(e.by_filter[f].value - json_number_value(json_array_get(figure, 0))) < 1e-12);
    assert_true(fabs(e.by_filter[f].error - json_number_value(json_array_get(figure, 1))) < 1e-12);
  }
  assert_true(e.acc.value == e.by_filter[0].value);
  ch_task_evaluation_free(&e);
  ch_task_free(task);
}

static void prompts_answers_and_scores_are_the_harness_s(void **state) {
  (void)state;
  json_t *all = json_load_file(DATA "expected.json", 0, NULL), *expected;
  size_t i;
  assert_true(json_array_size(all) >= 6);
  json_array_foreach(all, i, expected) compare_task(expected);
  json_decref(all);
}

/* Returns a task with these filters and this metric. */
static ch_task *task_of(const json_t *steps, const json_t *metric) {
  json_t *own = json_deep_copy(metric);
  json_object_set_new(own, "metric", json_string("exact_match"));
  json_t *root =
      json_pack("{s:s, s:s, s:[{s:[s], s:s, s:s}], s:[{s:s, s:O}], s:[o]}", "task", "t", "output_type",
                "generate_until", "forms", "fields", "q", "doc_to_text", "q", "doc_to_target", "a",
                "filter_list", "name", "f", "filter", steps, "metric_list", own);
  assert_non_null(root);
  char *text = json_dumps(root, 0);
  ch_task *task;
  ch_error error = {0};
  if (ch_task_parse(text, strlen(text), "t", &task, &error) != CH_OK) fail_msg("%s", error.message);
  free(text);
  json_decref(root);
  return task;
}

/* Checks all cases of a file. Returns how many answers are right. */
static int check_cases(const char *path, size_t least) {
  json_t *all = json_load_file(path, 0, NULL), *c, *filtered, *target;
  size_t i, k;
  int right = 0;
  ch_template_scope scope = {0};
  ch_error error = {0};
  assert_true(json_array_size(all) >= least);
  json_array_foreach(all, i, c) {
    ch_task *task = task_of(json_object_get(c, "filter"), json_object_get(c, "metric"));
    const char *targets[8];
    double score;
    json_array_foreach(json_object_get(c, "targets"), k, target) targets[k] = json_string_value(target);
    assert_int_equal(ch_answer_filter(&task->answers, 0, &scope, json_object_get(c, "item"),
                                      text_of(c, "answer"), &filtered, &error),
                     CH_OK);
    if (!json_equal(filtered, json_object_get(c, "filtered")))
      fail_msg("case %zu: of \"%s\" it takes \"%s\", the harness \"%s\"", i, text_of(c, "answer"),
               json_string_value(filtered), text_of(c, "filtered"));
    assert_int_equal(ch_answer_judge(&task->answers, &scope, filtered, targets,
                                     (int)json_array_size(json_object_get(c, "targets")), &score, &error),
                     CH_OK);
    if (score != json_number_value(json_object_get(c, "score")))
      fail_msg("case %zu: \"%s\" beside \"%s\" is %g", i, text_of(c, "filtered"), targets[0], score);
    right += score == 1;
    json_decref(filtered);
    ch_task_free(task);
  }
  ch_template_scope_free(&scope);
  json_decref(all);
  return right;
}

static void filters_and_matches_are_the_harness_s(void **state) {
  (void)state;
  assert_in_range(check_cases(DATA "filters.json", 500), 20, 300);
}

/* Tests multi_choice_regex, map and take_first_k. */
static void choices_and_maps_are_the_harness_s(void **state) {
  (void)state;
  assert_in_range(check_cases(DATA "choices.json", 250), 20, 200);
}

static void items_without_choices_are_refused(void **state) {
  (void)state;
  static const char *const items[] = {
      "{}", "{\"choices\": \"a, b\"}", "{\"choices\": [\"a\", 2]}",
      "{\"choices\": [\"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", "
      "\"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", \"a\", "
      "\"a\", \"a\", \"a\", \"a\", \"a\", \"a\"]}"};
  json_t *steps = json_pack("[{s:s}]", "function", "multi_choice_regex"), *metric = json_object();
  ch_task *task = task_of(steps, metric);
  for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
    ch_error error = {0};
    json_t *item = json_loads(items[i], 0, NULL);
    assert_int_equal(ch_answer_check_item(&task->answers, item, &error), CH_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "a list of at most 26 strings"));
    json_decref(item);
  }
  ch_task_free(task);
  json_decref(steps);
  json_decref(metric);
}

/* --- recall ------------------------------------------------------------------------------------------------- */

/* The expected values are computed by hand from RULER's string_match_all and string_match_part. */
static void recall_is_the_share_of_answers_that_are_there(void **state) {
  (void)state;
  static const struct {
    const char *answer, *targets[4];
    int count;
    double all, any;
  } cases[] = {{"The number is 123.", {"123"}, 1, 1, 1},
               {"12 3", {"123"}, 1, 0, 0},
               {"Ab\x01"
                "cd",
                {"ab\ncd"},
                1,
                1,
                1},
               {"one TWO three", {"two", "four", "ONE", "five"}, 4, 0.5, 1},
               {"", {"x"}, 1, 0, 0},
               {"it is abc \n", {"abc "}, 1, 0, 0}, /* an answer is stripped, a reference is not */
               {"abc\x1f and", {"abc\n"}, 1, 1, 1},
               {"abc\t\x02", {"c\n"}, 1, 0, 0},
               {"\u03a4\u039f\u03a3 \u039a\u039f\u03a3\u039c\u039f\u03a3",
                {"\u03ba\u03bf\u03c3\u03bc\u03bf\u03c2"},
                1,
                1,
                1},
               /* A lone letter has no final form. */
               {"\u03c4\u03bf\u03c2", {"\u03a4\u039f\u03a3", "\u03a3"}, 2, 0.5, 1},
               {"XYZ", {"x", "y", "z"}, 3, 1, 1}};
  static const char *const descriptions[] = {"{\"metric\": \"recall\"}",
                                             "{\"metric\": \"recall\", \"any\": true}"};
  ch_template_scope scope = {0};
  for (int any = 0; any < 2; any++) {
    char text[512];
    ch_task *task;
    snprintf(text, sizeof text,
             "{\"task\": \"t\", \"output_type\": \"generate_until\", \"metric_list\": [%s], \"forms\": "
             "[{\"fields\": "
             "[\"q\"], \"doc_to_text\": \"q\", \"doc_to_target\": \"a\"}]}",
             descriptions[any]);
    assert_int_equal(ch_task_parse(text, strlen(text), "t", &task, NULL), CH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      json_t *filtered;
      double score;
      assert_int_equal(ch_answer_filter(&task->answers, 0, &scope, NULL, cases[i].answer, &filtered, NULL),
                       CH_OK);
      assert_int_equal(
          ch_answer_judge(&task->answers, &scope, filtered, cases[i].targets, cases[i].count, &score, NULL),
          CH_OK);
      assert_true(score == (any ? cases[i].any : cases[i].all));
      json_decref(filtered);
    }
    ch_task_free(task);
  }
  ch_template_scope_free(&scope);
}

/* --- refusals and limits ------------------------------------------------------------------------------------ */

static const char rest[] =
    "\"task\": \"t\", \"output_type\": \"generate_until\", \"forms\": [{\"fields\": [\"q\"], "
    "\"doc_to_text\": \"{{ q }}\", \"doc_to_target\": \"{{ a }}\"}]";

static void wrong_descriptions_are_refused_with_a_sentence(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"\"generation_kwargs\": 3", "\"generation_kwargs\" must be an object"},
      {"\"generation_kwargs\": {\"untill\": []}", "\"untill\" is not known; did you mean \"until\"?"},
      {"\"generation_kwargs\": {\"do_sample\": true}", "\"do_sample\" must be false"},
      {"\"generation_kwargs\": {\"temperature\": 0.7}", "\"temperature\" must be 0"},
      {"\"generation_kwargs\": {\"max_gen_toks\": 0}", "\"max_gen_toks\" must be a whole number from 1"},
      {"\"generation_kwargs\": {\"max_gen_toks\": 1e12}", "\"max_gen_toks\" must be a whole number from 1"},
      {"\"generation_kwargs\": {\"until\": [3]}", "\"until\" must be a string or a list of strings"},
      {"\"filter_list\": []", "\"filter_list\" must be a list of 1 to 16 objects"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": []}]",
       "\"filter\" must be a list of 1 to 16 objects"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"regexp\"}]}]",
       "\"function\" must be regex"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"regex\", \"regex_pattern\": "
       "\"(\"}]}]",
       "\"regex_pattern\" the pattern \"(\" is invalid at 1"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"take_first\"}]}, {\"name\": \"a\", "
       "\"filter\": [{\"function\": \"take_first\"}]}]",
       "\"name\" is used by two filters"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"format_span\"}]}]",
       "\"function\" must be regex, multi_choice_regex, map"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"take_first_k\", \"k\": 8}]}]",
       "\"k\" must be 1"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"take_first_k\"}]}]",
       "\"k\" must be 1"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"map\", \"default_value\": \"\", "
       "\"mapping_dict\": [1]}]}]",
       "\"mapping_dict\" must be an object"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"map\", \"mapping_dict\": {}}]}]",
       "\"default_value\" must be a string"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"multi_choice_regex\", "
       "\"regexes_to_ignore\": [\"[\"]}]}]",
       "\"regexes_to_ignore\" the"},
      {"\"filter_list\": [{\"name\": \"a\", \"filter\": [{\"function\": \"regex\", \"ignore_case\": true}]}]",
       "\"ignore_case\" is not known"},
      {"\"repeats\": 8", "\"repeats\" must be 1"},
      {"\"process_results\": \"f\"", "\"process_results\" is a Python function"},
      {"\"metric_list\": [{\"metric\": \"em\"}, {\"metric\": \"f1\"}]",
       "\"metric\" must be exact_match or recall"},
      {"\"metric_list\": [{\"metric\": \"exact_match\"}, {\"metric\": \"recall\"}]",
       "\"metric_list\" must be a list of one object"},
      {"\"metric_list\": [{\"metric\": \"bleu\"}]", "\"metric\" must be exact_match or recall"},
      {"\"metric_list\": [{\"metric\": \"exact_match\", \"ignore_case\": 1}]",
       "\"ignore_case\" must be true or false"},
      {"\"metric_list\": [{\"metric\": \"exact_match\", \"regexes_to_ignore\": [\"[\"]}]",
       "\"regexes_to_ignore\" the"},
      {"\"metrics\": [\"acc\"]", "\"metrics\" is not for generate_until"},
      {"\"num_fewshot\": -1", "\"num_fewshot\" must be a whole number from 0"},
      {"\"fewshot\": {\"samples\": [1]}", "\"samples\" must be a list of objects"},
      {"\"ruler\": {\"task\": \"niahs\"}", "\"task\" must be niah, variable_tracking"},
      {"\"ruler\": {\"task\": \"niah\", \"num_needle_k\": 9, \"num_needle_v\": 9}",
       "makes more than 40 needles"},
      {"\"ruler\": {\"task\": \"qa\", \"num_hops\": 2}", "\"num_hops\" is not known"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1024];
    ch_task *task;
    ch_error error = {0};
    snprintf(text, sizeof text, "{%s, %s}", rest, cases[i][0]);
    assert_int_equal(ch_task_parse(text, strlen(text), "t", &task, &error), CH_ERROR_CONFIG);
    if (!strstr(error.message, cases[i][1])) fail_msg("%s: %s", cases[i][0], error.message);
  }
}

/* Checks that patterns with exponential backtracking fail with a message. */
static void hostile_patterns_are_stopped(void **state) {
  (void)state;
  static const char *const patterns[] = {"(a+)+b", "(a|a)*b", "(?:a*)*?b", "^(([a-z])+.)+[A-Z]([a-z])+$",
                                         "(a*)\\1*b"};
  char answer[4000];
  memset(answer, 'a', sizeof answer - 1);
  answer[sizeof answer - 1] = 0;
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    json_t *steps = json_pack("[{s:s, s:s}]", "function", "regex", "regex_pattern", patterns[i]),
           *metric = json_object();
    ch_task *task = task_of(steps, metric);
    ch_template_scope scope = {0};
    ch_error error = {0};
    json_t *filtered;
    ch_status status = ch_answer_filter(&task->answers, 0, &scope, NULL, answer, &filtered, &error);
    if (status == CH_OK) /* PCRE2 sees at once that there is no b */
      json_decref(filtered);
    else
      assert_true(status == CH_ERROR_FORMAT &&
                  (strstr(error.message, "MiB of strings") || strstr(error.message, "too many steps")));
    ch_template_scope_free(&scope);
    ch_task_free(task);
    json_decref(steps);
    json_decref(metric);
  }
}

/* Evaluates a task on one item, whose prompt is "One day". `more` has further keys of the task's description. */
static ch_status ask(const char *more, const ch_evaluate_settings *more_settings, ch_error *error) {
  char text[1024], path[] = "/tmp/crosshead-item-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  static const char item[] = "{\"q\": \"One day\", \"a\": \"x\"}\n";
  FILE *stream = fdopen(file, "w");
  fputs(item, stream);
  fclose(stream);
  ch_task *task;
  ch_task_evaluation e;
  ch_evaluate_settings settings = *more_settings;
  settings.items = path;
  snprintf(text, sizeof text, "{%s, %s}", rest, more);
  assert_int_equal(ch_task_parse(text, strlen(text), "t", &task, error), CH_OK);
  ch_status status = ch_task_evaluate(task, model, tokenizer, &settings, &e, error);
  if (status == CH_OK) assert_in_range(e.written, 1, 600);
  ch_task_evaluation_free(&e);
  ch_task_free(task);
  remove(path);
  return status;
}

static bool stop(int64_t done, int64_t total, void *user) {
  (void)done, (void)total, (void)user;
  return false;
}

static void answers_must_fit_and_can_be_stopped(void **state) {
  (void)state;
  ch_error error = {0};
  ch_evaluate_settings none = {0}, small = {.window = 64}, stopped = {.progress = stop};
  assert_int_equal(ask("\"generation_kwargs\": {\"max_gen_toks\": 511, \"until\": []}", &none, &error),
                   CH_OK);
  assert_int_equal(ask("\"generation_kwargs\": {\"max_gen_toks\": 512}", &none, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "sees only 512 at once"));
  assert_int_equal(ask("\"generation_kwargs\": {\"max_gen_toks\": 64}", &small, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ask("\"generation_kwargs\": {\"max_gen_toks\": 20}", &stopped, &error),
                   CH_ERROR_INTERRUPTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prompts_answers_and_scores_are_the_harness_s),
      cmocka_unit_test(filters_and_matches_are_the_harness_s),
      cmocka_unit_test(choices_and_maps_are_the_harness_s),
      cmocka_unit_test(items_without_choices_are_refused),
      cmocka_unit_test(recall_is_the_share_of_answers_that_are_there),
      cmocka_unit_test(wrong_descriptions_are_refused_with_a_sentence),
      cmocka_unit_test(hostile_patterns_are_stopped),
      cmocka_unit_test(answers_must_fit_and_can_be_stopped),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
