/* Tests tasks against lm-evaluation-harness 0.4.13: its requests to TinyStories-656K about small made-up
 * items in the formats of the data sets, their log-likelihoods, and its figures (tests/data/tasks). */
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

#define DATA TEST_DATA "/tasks/"

static void assert_near(double got, double expected, double tolerance, const char *what) {
  if (!(fabs(got - expected) <= tolerance * fmax(1, fabs(expected))))
    fail_msg("%s: %.9g where the harness has %.9g", what, got, expected);
}

/* Compares prompts to the letter and log-likelihoods within the rounding of F32. */
static void compare_sample(const char *what, const json_t *got, const json_t *expected) {
  size_t i;
  json_t *answer;
  if (!json_equal(json_object_get(got, "arguments"), json_object_get(expected, "arguments")))
    fail_msg("%s: asked %s\nwhere the harness asks %s", what,
             json_dumps(json_object_get(got, "arguments"), 0),
             json_dumps(json_object_get(expected, "arguments"), 0));
  json_array_foreach(json_object_get(expected, "resps"), i, answer) {
    const json_t *ours = json_array_get(json_object_get(got, "resps"), i);
    assert_near(json_number_value(json_array_get(ours, 0)), json_number_value(json_array_get(answer, 0)),
                1e-5, what);
    if (json_array_size(answer) > 1)
      assert_int_equal(json_is_true(json_array_get(ours, 1)), json_is_true(json_array_get(answer, 1)));
  }
}

static void compare_figures(const char *what, const ch_task_evaluation *e, const json_t *figures) {
  const struct {
    const char *name, *error;
    ch_task_figure ours;
  } rows[] = {{"acc", "acc_stderr", e->acc},
              {"acc_norm", "acc_norm_stderr", e->acc_norm},
              {"perplexity", "perplexity_stderr", e->perplexity},
              {"word_perplexity", "", e->word_perplexity},
              {"byte_perplexity", "", e->byte_perplexity},
              {"bits_per_byte", "", e->bits_per_byte}};
  char name[300];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const json_t *value = json_object_get(figures, rows[i].name),
                 *error = json_object_get(figures, rows[i].error);
    snprintf(name, sizeof name, "%s: %s", what, rows[i].name);
    if (value) assert_near(rows[i].ours.value, json_number_value(value), 2e-5, name);
    if (error) assert_near(rows[i].ours.error, json_number_value(error), 2e-5, name);
  }
}

static void compare_task(const json_t *expected) {
  const char *name = json_string_value(json_object_get(expected, "task"));
  const char *more = json_string_value(json_object_get(expected, "fewshot_file"));
  char items[512], examples[512], what[256];
  ch_task *task;
  ch_task_evaluation e;
  ch_error error = {0};
  ch_evaluate_settings options = {.items = items,
                                  .examples = (int)json_integer_value(json_object_get(expected, "fewshot"))};
  snprintf(items, sizeof items, DATA "%s", json_string_value(json_object_get(expected, "items")));
  snprintf(examples, sizeof examples, DATA "%s", more ? more : "");
  if (more) options.example_file = examples;
  if (ch_task_open(name, &task, &error) != CH_OK) fail_msg("%s", error.message);
  if (ch_task_evaluate(task, model, tokenizer, &options, &e, &error) != CH_OK) fail_msg("%s", error.message);
  json_t *samples = json_object_get(expected, "samples");
  assert_int_equal(e.items.count, json_array_size(samples));
  for (int64_t i = 0; i < e.items.count; i++) {
    json_t *sample = ch_task_sample(&e, i);
    snprintf(what, sizeof what, "%s, %d examples, item %lld", name, options.examples, (long long)i);
    compare_sample(what, sample, json_array_get(samples, (size_t)i));
    json_decref(sample);
  }
  compare_figures(name, &e, json_object_get(expected, "figures"));
  ch_task_evaluation_free(&e);
  ch_task_free(task);
}

static void prompts_answers_and_figures_are_the_harness_s(void **state) {
  (void)state;
  json_t *all = json_load_file(DATA "expected.json", 0, NULL), *expected;
  size_t i;
  assert_true(json_array_size(all) >= 25);
  json_array_foreach(all, i, expected) compare_task(expected);
  json_decref(all);
}

/* Evaluates a task on the items of a path. */
static ch_task_evaluation evaluate(const char *name, const char *path, ch_task **task) {
  ch_task_evaluation e;
  ch_error error = {0};
  if (ch_task_open(name, task, &error) != CH_OK) fail_msg("%s", error.message);
  if (ch_task_evaluate(*task, model, tokenizer, &(ch_evaluate_settings){.items = path}, &e, &error) != CH_OK)
    fail_msg("%s", error.message);
  return e;
}

/* Asserts that two forms of the same items, the paths `a` and `b`, give the same questions. */
static void assert_same_questions(const char *name, const char *a, const char *b) {
  ch_task *tasks[2];
  ch_task_evaluation x = evaluate(name, a, &tasks[0]), y = evaluate(name, b, &tasks[1]);
  assert_int_equal(x.items.count, y.items.count);
  for (int64_t i = 0; i < x.items.count; i++) {
    json_t *p = ch_task_sample(&x, i), *q = ch_task_sample(&y, i);
    assert_true(json_equal(json_object_get(p, "arguments"), json_object_get(q, "arguments")));
    assert_true(json_equal(json_object_get(p, "target"), json_object_get(q, "target")));
    json_decref(p);
    json_decref(q);
  }
  ch_task_evaluation_free(&x);
  ch_task_evaluation_free(&y);
  ch_task_free(tasks[0]);
  ch_task_free(tasks[1]);
}

static void one_task_reads_several_forms(void **state) {
  (void)state;
  assert_same_questions("race", DATA "race.jsonl", DATA "race");
  assert_same_questions("truthfulqa_mc1", DATA "truthfulqa.json", DATA "truthfulqa.jsonl");
  assert_same_questions("truthfulqa_mc2", DATA "truthfulqa.json", DATA "truthfulqa.jsonl");
  assert_same_questions("hellaswag", DATA "hellaswag_lines.txt", DATA "hellaswag_lines.txt.bz2");
  assert_same_questions("siqa", DATA "siqa.jsonl", DATA "siqa_letters.jsonl");
}

static void subjects_are_reported_by_themselves_and_pooled(void **state) {
  (void)state;
  ch_task *task;
  ch_task_evaluation e = evaluate("mmlu", DATA "mmlu/test", &task);
  assert_int_equal(e.items.count, 6);
  assert_int_equal(e.group_count, 2);
  assert_string_equal(e.groups[0].name, "plain_sums");
  assert_string_equal(e.groups[1].name, "small_animals");
  assert_int_equal(e.groups[0].count, 2);
  double right = e.groups[0].acc.value * 2 + e.groups[1].acc.value * 4;
  assert_near(e.acc.value, right / 6, 1e-12, "acc");
  double a = e.groups[0].acc.error, b = e.groups[1].acc.error;
  assert_near(e.acc.error, sqrt((1 * a * a * 2 + 3 * b * b * 4) / (6 - 2) / 6), 1e-12, "pooled error");
  ch_task_evaluation_free(&e);
  ch_task_free(task);
}

static void contexts_are_cut_on_the_left(void **state) {
  (void)state;
  ch_task *task;
  ch_task_evaluation whole, cut;
  ch_evaluate_settings options = {.items = DATA "sciq.jsonl", .window = 24};
  assert_int_equal(ch_task_open("sciq", &task, NULL), CH_OK);
  assert_int_equal(ch_task_evaluate(task, model, tokenizer, &options, &cut, NULL), CH_OK);
  options.window = 0;
  assert_int_equal(ch_task_evaluate(task, model, tokenizer, &options, &whole, NULL), CH_OK);
  for (int64_t i = 0; i < cut.starts[cut.items.count]; i++) {
    const ch_score_window *w = &whole.windows[i], *c = &cut.windows[i];
    int64_t length = w->length < 25 ? w->length : 25;
    assert_int_equal(c->length, length);
    assert_int_equal(c->length - c->first, w->length - w->first);
    assert_memory_equal(c->tokens, w->tokens + w->length - length, (size_t)length * sizeof(int32_t));
  }
  ch_task_evaluation_free(&whole);
  ch_task_evaluation_free(&cut);
  ch_task_free(task);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(prompts_answers_and_figures_are_the_harness_s),
                                     cmocka_unit_test(one_task_reads_several_forms),
                                     cmocka_unit_test(subjects_are_reported_by_themselves_and_pooled),
                                     cmocka_unit_test(contexts_are_cut_on_the_left)};
  return cmocka_run_group_tests(tests, open_model, close_model);
}
