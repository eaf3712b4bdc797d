/* A whole comparison on a small text: interrupted and continued, repeated, refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <omp.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/text.h"
#include "config_file/config_json.h"
#include "experiment/compare.h"
#include "experiment/match.h"

static char root[64]; /* everything of one test run */

static const char *in_root(const char *name) {
  static char paths[64][160];
  static int next;
  next = (next + 1) % 64;
  snprintf(paths[next], sizeof paths[next], "%s/%s", root, name);
  return paths[next];
}

/* Sentences with some order in them, so that a model can learn a little. */
static void write_text(const char *name, uint32_t seed, int sentences) {
  static const char *const subjects[] = {"the king",      "a sailor", "my sister",
                                         "the old clock", "nobody",   "the river"};
  static const char *const verbs[] = {"sees", "remembers", "follows", "carries", "forgets"};
  static const char *const objects[] = {"a boat", "the city", "its own shadow", "three apples",
                                        "the song of the sea"};
  FILE *file = fopen(in_root(name), "w");
  assert_non_null(file);
  for (int i = 0; i < sentences; i++) {
    uint32_t choice[3];
    for (int k = 0; k < 3; k++) {
      seed = seed * 1664525u + 1013904223u;
      choice[k] = seed >> 16;
    }
    fprintf(file, "%s %s %s.%s", subjects[choice[0] % 6], verbs[choice[1] % 5], objects[choice[2] % 5],
            i % 4 == 3 ? "\n\n" : " ");
  }
  fclose(file);
}

static ch_compare_settings small(const char *out) {
  ch_compare_settings options;
  ch_compare_defaults(&options);
  options.data = in_root("text.txt");
  options.mechanisms = "mha,mqa";
  options.out = in_root(out);
  options.parameters = 60000;
  options.vocab = 300;
  options.tokens = 32 * 4 * 12; /* 12 steps */
  options.batch = 4;
  options.sequence = 32;
  options.lr = 1.0 / 300; /* has no short decimal form */
  options.command = "test";
  return options;
}

typedef struct watch {
  int steps, begun, finished, earlier, written, timings, timed;
  int runs;                  /* of all models and seeds; 0: 2; -1: not known */
  int deleted;               /* of them */
  int stop_after;            /* steps; 0 = never */
  bool stop_by_question;     /* when the comparison asks, not by the answer to a step */
  int stop_timing;           /* after so many timings; 0 = never */
  int again;                 /* timings of a second round, of speeds that were not steady */
  const ch_compared *timing; /* the last model timed */
} watch;

static bool on_step(const ch_compare_position *position, void *user) {
  watch *w = user;
  assert_true(position->step.step >= 1 && position->step.step <= position->step.steps);
  w->steps++;
  return w->stop_after <= 0 || w->stop_by_question || w->steps < w->stop_after;
}

static void on_begin(const ch_compare_position *position, const ch_compared *model, void *user) {
  watch *w = user;
  if (w->runs >= 0) assert_int_equal(position->runs, w->runs ? w->runs : 2);
  assert_int_equal(position->step.steps, 12);
  assert_string_equal(position->name, model->name);
  assert_int_equal(position->seed, model->seed);
  assert_true(model->parameters > 0 && model->layers > 0 && model->intermediate_size > 0);
  w->begun++;
}

static void on_model(const ch_compared *model, bool earlier, void *user) {
  watch *w = user;
  assert_true(model->validation_loss > 0);
  w->finished++;
  w->earlier += earlier;
}

/* The models take turns. */
static void on_timing(int32_t turn, int32_t turns, const ch_compared *model, void *user) {
  watch *w = user;
  int runs = (w->runs ? w->runs : 2) - w->deleted;
  if (turn >= CH_COMPARE_TURNS) {
    assert_int_equal(turns, 2 * CH_COMPARE_TURNS);
    assert_true(++w->again <= runs * CH_COMPARE_TURNS);
    return;
  }
  assert_int_equal(turns, CH_COMPARE_TURNS);
  assert_int_equal(turn, w->timings / runs);
  assert_ptr_not_equal(model, w->timing);
  w->timing = model;
  w->timings++;
}

static void on_timed(const ch_compared *model, void *user) {
  watch *w = user;
  assert_int_equal(model->timing_turns, CH_COMPARE_TURNS);
  w->timed++;
}

static ch_status on_written(const ch_compare_settings *settings, const ch_comparison *comparison,
                            ch_error *error) {
  watch *w = settings->user;
  (void)comparison;
  (void)error;
  w->written++;
  return CH_OK;
}

static bool on_stop(void *user) {
  const watch *w = user;
  return (w->stop_by_question && w->steps >= w->stop_after) ||
         (w->stop_timing > 0 && w->timings >= w->stop_timing);
}

static ch_status compare(const ch_compare_settings *options, watch *w, ch_comparison *comparison,
                         ch_error *error) {
  ch_compare_settings settings = *options;
  settings.step = on_step;
  settings.begin = on_begin;
  settings.model = on_model;
  settings.timing = on_timing;
  settings.timed = on_timed;
  settings.stop = on_stop;
  settings.user = w;
  return ch_compare(&settings, on_written, comparison, error);
}

/* results.json with what depends on the clock taken out, as text. */
static char *results_without_times(const char *out) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", out, CH_COMPARE_RESULTS);
  json_t *results = json_load_file(path, 0, NULL), *model;
  assert_non_null(results);
  json_object_del(results, "created");
  json_object_del(results, "summary"); /* has mean rates */
  size_t i;
  json_array_foreach(json_object_get(results, "models"), i, model) {
    assert_true(json_number_value(json_object_get(model, "train_tokens_per_second")) > 0);
    assert_true(json_number_value(json_object_get(model, "decode_tokens_per_second")) > 0);
    assert_true(json_number_value(json_object_get(model, "train_seconds")) > 0);
    json_object_del(model, "train_tokens_per_second");
    json_object_del(model, "train_seconds");
    json_object_del(model, "decode_tokens_per_second");
    json_object_del(model, "decode_curve");
    json_object_del(model, "train_tokens_per_second_spread");
    json_object_del(model, "decode_tokens_per_second_spread");
    json_object_del(model, "train_unsteady");
    json_object_del(model, "decode_unsteady");
  }
  char *text = json_dumps(results, JSON_INDENT(1));
  json_decref(results);
  return text;
}

static void an_interrupted_comparison_continues_to_the_same_results(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("whole");
  watch w = {0};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(w.steps, 24);
  assert_int_equal(w.begun, 2);
  assert_int_equal(w.written, 3); /* after each model, and when all were timed in turns */
  assert_int_equal(w.timings, 2 * CH_COMPARE_TURNS);
  assert_int_equal(w.timed, 2);
  assert_int_equal(comparison.count, 2);
  ch_arena_free(&comparison.arena);
  char *expected = results_without_times(options.out);

  options = small("stopped");
  const int stops[] = {5, 9, 3}; /* in the first model, in the second after the first's end, in the second */
  int steps = 0;
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
    watch stopped = {.stop_after = stops[i], .stop_by_question = i == 1};
    assert_int_equal(compare(&options, &stopped, &comparison, &error), CH_ERROR_INTERRUPTED);
    assert_non_null(strstr(error.message, "the same command continues it"));
    assert_int_equal(stopped.steps, stops[i]);
    steps += stopped.steps;
    ch_arena_free(&comparison.arena);
  }
  watch last = {0};
  if (compare(&options, &last, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(steps + last.steps, 24); /* no step was done twice */
  assert_int_equal(last.earlier, 1);
  ch_arena_free(&comparison.arena);
  char *continued = results_without_times(options.out);
  assert_string_equal(continued, expected);

  /* Once more: nothing is trained, and nothing timed. */
  watch again = {0};
  assert_int_equal(compare(&options, &again, &comparison, &error), CH_OK);
  assert_int_equal(again.steps, 0);
  assert_int_equal(again.timings, 0);
  assert_int_equal(again.begun, 0);
  assert_int_equal(again.earlier, 2);
  ch_arena_free(&comparison.arena);
  char *repeated = results_without_times(options.out);
  assert_string_equal(repeated, expected);
  free(repeated);
  free(continued);
  free(expected);
}

/* The value of a key in every object of a list of results.json, as one text. */
static char *listed(const char *out, const char *list, const char *const *keys) {
  char path[200];
  ch_text text = {0};
  snprintf(path, sizeof path, "%s/%s", out, CH_COMPARE_RESULTS);
  json_t *results = json_load_file(path, 0, NULL), *one;
  assert_non_null(results);
  size_t i;
  json_array_foreach(json_object_get(results, list), i, one) {
    for (const char *const *key = keys; *key; key++) {
      char *value = json_dumps(json_object_get(one, *key), JSON_ENCODE_ANY | JSON_COMPACT);
      ch_text_printf(&text, "%s%s", key == keys ? "" : " ", value ? value : "-");
      free(value);
    }
    ch_text_puts(&text, "\n");
  }
  json_decref(results);
  return text.data;
}

/* What result.json of a model says of its speed. */
static json_t *speed_of(const char *out, const char *model) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s/%s", out, model, CH_COMPARE_RESULT);
  json_t *result = json_load_file(path, 0, NULL);
  assert_non_null(result);
  json_t *speed =
      json_pack("{s:O, s:O, s:O}", "rate", json_object_get(result, "decode_tokens_per_second"), "curve",
                json_object_get(result, "decode_curve"), "turns", json_object_get(result, "timing_turns"));
  assert_non_null(speed);
  json_decref(result);
  return speed;
}

static void models_are_timed_in_turns_when_all_are_trained(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("turns");
  watch stopped = {.stop_timing = 3}; /* in the second turn */
  assert_int_equal(compare(&options, &stopped, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(stopped.steps, 24);
  assert_int_equal(stopped.timed, 0);
  assert_int_equal(comparison.models[1].timing_turns, 0);
  ch_arena_free(&comparison.arena);
  json_t *alone = speed_of(options.out, "mqa");
  assert_int_equal(json_integer_value(json_object_get(alone, "turns")), 0);
  assert_true(json_number_value(json_object_get(alone, "rate")) > 0);
  watch last = {0};
  assert_int_equal(compare(&options, &last, &comparison, &error), CH_OK);
  assert_int_equal(last.steps, 0);
  assert_int_equal(last.timings, 2 * CH_COMPARE_TURNS);
  json_t *turns = speed_of(options.out, "mqa");
  assert_int_equal(json_integer_value(json_object_get(turns, "turns")), CH_COMPARE_TURNS);
  assert_false(json_equal(json_object_get(alone, "rate"), json_object_get(turns, "rate")));
  assert_int_equal(json_array_size(json_object_get(alone, "curve")),
                   json_array_size(json_object_get(turns, "curve")));
  assert_true(json_number_value(json_object_get(turns, "rate")) ==
              comparison.models[1].decode_tokens_per_second);
  ch_arena_free(&comparison.arena);
  json_decref(alone);
  /* All is timed again when that is asked for, and nothing is trained. */
  options.remeasure = true;
  watch again = {0};
  assert_int_equal(compare(&options, &again, &comparison, &error), CH_OK);
  assert_int_equal(again.steps, 0);
  assert_int_equal(again.timings, 2 * CH_COMPARE_TURNS);
  assert_int_equal(again.timed, 2);
  assert_true(comparison.models[0].train_spread > 0);
  ch_arena_free(&comparison.arena);
  json_t *measured = speed_of(options.out, "mqa");
  assert_false(json_equal(measured, turns));
  json_decref(turns);
  turns = measured;
  options.remeasure = false;
  /* Of a model that was deleted but for its results, what was measured stays; the other's next seed is timed without it. */
  assert_int_equal(unlink(in_root("turns/mqa/model.safetensors")), 0);
  options.seeds = 2;
  watch more = {.runs = 4, .deleted = 1};
  if (compare(&options, &more, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(more.timings, 3 * CH_COMPARE_TURNS);
  assert_int_equal(more.timed, 3);
  assert_int_equal(comparison.models[3].timing_turns, CH_COMPARE_TURNS);
  ch_arena_free(&comparison.arena);
  json_t *kept = speed_of(options.out, "mqa");
  assert_true(json_equal(kept, turns));
  json_decref(kept);
  json_decref(turns);
}

static void seeds_repeat_every_model_and_may_be_added_later(void **state) {
  (void)state;
  static const char *const names[] = {"name", "seed", "directory", NULL};
  static const char *const losses[] = {"curve", "validation_curve", NULL};
  static const char *const pairs[] = {"name", "minus", "pairs", NULL};
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("seeds");
  options.seeds = 2;
  watch w = {.stop_after = 30, .runs = 4}; /* within the second seed of the first model */
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "2 of 4 models finished"));
  ch_arena_free(&comparison.arena);
  watch rest = {.runs = 4};
  if (compare(&options, &rest, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(rest.steps, 48 - 30);
  assert_int_equal(rest.earlier, 2);
  assert_int_equal(comparison.count, 4);
  /* What a seed gives does not depend on the others: the data's order and the initial weights are the seed's. */
  const ch_compared *runs = comparison.models;
  assert_true(runs[0].curve[0].loss != runs[2].curve[0].loss);
  assert_true(runs[0].curve[11].loss != runs[2].curve[11].loss);
  ch_arena_free(&comparison.arena);
  char *found = listed(options.out, "models", names);
  assert_string_equal(found, "\"mha\" 1 \"mha\"\n\"mqa\" 1 \"mqa\"\n\"mha\" 2 \"seed-2/mha\"\n"
                             "\"mqa\" 2 \"seed-2/mqa\"\n");
  free(found);
  char *interrupted_losses = listed(options.out, "models", losses);

  /* The same from one seed that another was added to, and a single run of the second seed. */
  options = small("added");
  watch first = {.runs = 2};
  assert_int_equal(compare(&options, &first, &comparison, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  found = listed(options.out, "differences", pairs);
  assert_non_null(strstr(found, " 1\n")); /* one pair: no interval */
  free(found);
  options.seeds = 2;
  watch second = {.runs = 4};
  assert_int_equal(compare(&options, &second, &comparison, &error), CH_OK);
  assert_int_equal(second.steps, 24);
  assert_int_equal(second.timings, 4 * CH_COMPARE_TURNS); /* all of them, beside those that came */
  char *added_losses = listed(options.out, "models", losses);
  assert_string_equal(added_losses, interrupted_losses);
  double second_loss = comparison.models[3].validation_loss;
  ch_arena_free(&comparison.arena);
  options = small("alone");
  options.seed = 2;
  watch alone = {.runs = 2};
  assert_int_equal(compare(&options, &alone, &comparison, &error), CH_OK);
  assert_true(comparison.models[1].validation_loss == second_loss);
  assert_string_equal(comparison.models[1].directory, "mqa");
  ch_arena_free(&comparison.arena);
  free(added_losses);
  free(interrupted_losses);
}

static json_t *results_of(const char *out) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", out, CH_COMPARE_RESULTS);
  json_t *results = json_load_file(path, 0, NULL);
  assert_non_null(results);
  return results;
}

static void assert_verdict(const char *out, const char *kind, const char *names) {
  json_t *results = results_of(out), *verdict = json_object_get(results, "verdict");
  assert_string_equal(json_string_value(json_object_get(verdict, "kind")), kind);
  char *found = json_dumps(json_object_get(verdict, "names"), JSON_COMPACT);
  assert_string_equal(found, names);
  assert_true(strlen(json_string_value(json_object_get(verdict, "sentence"))) > 10);
  free(found);
  json_decref(results);
}

static void seeds_are_added_until_the_verdict_and_after_an_interruption(void **state) {
  (void)state;
  static const char *const losses[] = {"name", "seed", "curve", "validation_curve", NULL};
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("until");
  /* Models that hardly learn have nearly the same loss: two seeds show that one is less than twice the other. */
  options.tolerance = 1;
  options.lr = 1e-6;
  options.until_decided = true;
  options.budget = 1e9;
  watch w = {.runs = 2, .stop_after = 12 + 5};
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_ERROR_INTERRUPTED);
  ch_arena_free(&comparison.arena);
  watch second = {.runs = 2, .stop_after = 7};
  assert_int_equal(compare(&options, &second, &comparison, &error), CH_ERROR_INTERRUPTED);
  ch_arena_free(&comparison.arena);
  watch third = {.runs = -1, .stop_after = 23};
  assert_int_equal(compare(&options, &third, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "3 of 4 models finished"));
  ch_arena_free(&comparison.arena);
  watch last = {.runs = 4};
  if (compare(&options, &last, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(w.steps + second.steps + third.steps + last.steps, 48); /* no step was done twice */
  assert_int_equal(comparison.count, 4);
  ch_arena_free(&comparison.arena);
  assert_verdict(options.out, "take", "[\"mqa\"]");
  char *until = listed(options.out, "models", losses);
  watch again = {.runs = 4};
  assert_int_equal(compare(&options, &again, &comparison, &error), CH_OK);
  assert_int_equal(again.steps, 0);
  assert_int_equal(again.earlier, 4);
  ch_arena_free(&comparison.arena);
  /* The runs are those that two seeds asked for give. */
  options = small("asked");
  options.seeds = 2;
  options.lr = 1e-6;
  watch asked = {.runs = 4};
  assert_int_equal(compare(&options, &asked, &comparison, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  char *expected = listed(options.out, "models", losses);
  assert_string_equal(until, expected);
  free(expected);
  free(until);
}

static void a_spent_budget_adds_no_seed(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("poor");
  options.until_decided = true;
  options.budget = 1e-9;
  watch w = {.runs = 2};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(w.steps, 24);
  bool first = comparison.models[0].validation_loss * 1.01 < comparison.models[1].validation_loss;
  ch_arena_free(&comparison.arena);
  assert_verdict(options.out, "undecided", first ? "[\"mha\",\"mqa\"]" : "[\"mqa\",\"mha\"]");
}

/* A mechanism under two names: eight heads with keys and values of their own. */
static void a_mechanism_under_two_names_is_not_distinguishable(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  char all_heads[32];
  ch_compare_settings options = small("twice");
  options.seeds = 2;
  options.heads = 4;
  snprintf(all_heads, sizeof all_heads, "mha,gqa:%d", (int)options.heads);
  options.mechanisms = all_heads;
  watch w = {.runs = 4};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  ch_arena_free(&comparison.arena);
  assert_verdict(options.out, "not_distinguishable", "[\"mha\",\"gqa:4\"]");
  /* No number of seeds would show a difference: none is added. */
  options.until_decided = true;
  options.budget = 1e9;
  watch more = {.runs = 4};
  assert_int_equal(compare(&options, &more, &comparison, &error), CH_OK);
  assert_int_equal(more.steps, 0);
  ch_arena_free(&comparison.arena);
}

/* Gives a finished run another validation loss. */
static void pretend(const char *out, const char *run, double loss) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s/%s", out, run, CH_COMPARE_RESULT);
  json_t *result = json_load_file(path, 0, NULL);
  assert_non_null(result);
  json_object_set_new(result, "validation_loss", json_real(loss));
  assert_int_equal(json_dump_file(result, path, 0), 0);
  json_decref(result);
}

static void seeds_are_not_added_to_what_is_out(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("out");
  options.mechanisms = "mha,gqa:2,mqa";
  options.seeds = 2;
  watch w = {.runs = 6};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  ch_arena_free(&comparison.arena);
  pretend(options.out, "mha", 4.00);
  pretend(options.out, "seed-2/mha", 4.05);
  pretend(options.out, "gqa-2", 5.00);
  pretend(options.out, "seed-2/gqa-2", 5.04);
  pretend(options.out, "mqa", 4.03);
  pretend(options.out, "seed-2/mqa", 4.02);
  options.until_decided = true;
  options.budget = 1e9;
  watch round = {.runs = 8, .stop_after = 13}; /* in the second run of the third seed */
  assert_int_equal(compare(&options, &round, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "7 of 8 models finished"));
  assert_string_equal(comparison.models[6].directory, "seed-3/mha");
  ch_arena_free(&comparison.arena);
  assert_true(ch_is_file(in_root("out/seed-3/mqa/log.jsonl")));
  assert_false(ch_is_file(in_root("out/seed-3/gqa-2/log.jsonl")));
  /* A budget that is spent stops it, also within the round that it began. */
  options.budget = 1e-9;
  watch poor = {.runs = 6};
  if (compare(&options, &poor, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(poor.steps, 0);
  assert_int_equal(comparison.count, 6);
  ch_arena_free(&comparison.arena);
}

static void assert_refused(const ch_compare_settings *options, const char *part) {
  ch_comparison comparison;
  ch_error error = {0};
  watch w = {0};
  assert_int_not_equal(compare(options, &w, &comparison, &error), CH_OK);
  if (!strstr(error.message, part)) fail_msg("expected '%s' in: %s", part, error.message);
  assert_int_equal(w.steps, 0);
  ch_arena_free(&comparison.arena);
}

static void mechanisms_may_be_added_behind_those_that_are_there(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("longer");
  watch first = {.runs = 2};
  assert_int_equal(compare(&options, &first, &comparison, &error), CH_OK);
  double loss = comparison.models[1].validation_loss;
  ch_arena_free(&comparison.arena);
  options.mechanisms = "mha,mqa,gqa:2";
  watch third = {.runs = 3};
  if (compare(&options, &third, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(third.earlier, 2);
  assert_int_equal(third.steps, 12);
  assert_int_equal(comparison.count, 3);
  assert_true(comparison.models[1].validation_loss == loss);
  ch_arena_free(&comparison.arena);
  /* What was added belongs to the comparison, and its order stays. */
  options.mechanisms = "mha,mqa";
  assert_refused(&options, "with --mechanisms \"mha,mqa,gqa:2\"");
  options.mechanisms = "gqa:2,mha,mqa";
  assert_refused(&options, "more may be appended");
}

static void results_agree_with_the_models(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("whole"); /* left there by the test before, or made now */
  watch w = {0};
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_OK);
  assert_int_equal(comparison.count, 2);
  for (int i = 0; i < 2; i++) {
    const ch_compared *model = &comparison.models[i];
    char path[200];
    ch_config config;
    int64_t parameters;
    snprintf(path, sizeof path, "%s/%s", options.out, model->directory);
    assert_int_equal(ch_config_read(path, &config, &error), CH_OK);
    assert_int_equal(ch_count_parameters(&config, CH_COUNT_ALL, &parameters, &error), CH_OK);
    assert_int_equal(parameters, model->parameters);
    assert_int_equal(config.num_key_value_heads, i == 0 ? config.num_attention_heads : 1);
    assert_int_equal(model->cache_elements_per_token,
                     2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim);
    assert_int_equal(model->cache_bytes_per_token, 2 * model->cache_elements_per_token);
    assert_int_equal(model->tokens_trained, 32 * 4 * 12);
    assert_int_equal(model->curve_points, 12);
    assert_true(model->curve[11].loss < model->curve[0].loss);
    assert_true(model->validation_points >= 4);
    assert_int_equal(model->validation_curve[model->validation_points - 1].tokens, model->tokens_trained);
    assert_true(model->validation_curve[model->validation_points - 1].loss == model->validation_loss);
    snprintf(path, sizeof path, "%s/%s/tokenizer.json", options.out, model->directory);
    assert_true(ch_is_file(path));
  }
  double difference = (double)(comparison.models[0].parameters - comparison.models[1].parameters);
  assert_true(difference * difference < 0.005 * 0.005 * 60000.0 * 60000.0);
  ch_arena_free(&comparison.arena);
}

static void other_options_in_the_same_directory_are_refused_by_name(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("whole");
  watch w = {0};
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  options.tokens = 4096;
  assert_refused(&options, "with --tokens 1536 and a learning rate that has fallen");
  options.tokens = 1000;
  assert_refused(&options, "with --tokens 1536, where this command has 1000");
  options = small("whole");
  options.parameters = 0;
  assert_refused(&options, "with --params 60000, where this command has its default");
  options = small("whole");
  options.mechanisms = "mha,gqa";
  assert_refused(&options, "with --mechanisms \"mha,mqa\", where this command has \"mha,gqa\"");
  options = small("whole");
  options.seed = 2;
  assert_refused(&options, "--seed 1");
  options = small("whole");
  options.lr = 1e-3;
  assert_refused(&options, "--lr");
  options = small("whole");
  write_text("other.txt", 77, 800);
  options.data = in_root("other.txt");
  assert_refused(&options, "another text");
  /* What does not change the results may differ. */
  options = small("whole");
  options.mechanisms = " mha , mqa ";
  options.tolerance = 0.05;
  watch same = {0};
  assert_int_equal(compare(&options, &same, &comparison, &error), CH_OK);
  assert_true(comparison.tolerance == 0.05);
  ch_arena_free(&comparison.arena);
}

/* Comparisons of earlier versions lack settings: those had their defaults. */
/* As comparisons were before there was more than one parametrisation. */
static ch_compare_settings earlier(const char *out) {
  ch_compare_settings options = small(out);
  options.parametrization = CH_PARAMETRIZATION_STANDARD;
  return options;
}

static void settings_that_came_later_had_their_defaults(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = earlier("earlier");
  watch w = {0};
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  char path[200];
  snprintf(path, sizeof path, "%s/%s", options.out, CH_COMPARE_SETTINGS);
  json_t *kept = json_load_file(path, 0, NULL);
  assert_non_null(kept);
  static const char *const later[] = {"--init", "--match", "--dtype", "--warmup", "--parametrization"};
  for (int i = 0; i < 5; i++) assert_int_equal(json_object_del(kept, later[i]), 0);
  assert_int_equal(json_dump_file(kept, path, 0), 0);
  for (int i = 0; i < 4; i++) {
    options = earlier("earlier");
    if (i == 0) options.init = CH_INIT_FAN_IN;
    if (i == 1) options.match = CH_MATCH_ACTIVE;
    if (i == 2) options.type = CH_PRECISION_BF16;
    if (i == 3) options.warmup = 2;
    assert_refused(&options, i == 2 ? "with --compute its default, where this command has \"bf16\""
                                    : "its default, where this command has");
  }
  options = earlier("earlier");
  watch same = {0};
  if (compare(&options, &same, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(same.steps, 0);
  ch_arena_free(&comparison.arena);
  /* And now the file has them. */
  json_decref(kept);
  kept = json_load_file(path, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(kept, "--dtype")), "f32");
  assert_int_equal(json_integer_value(json_object_get(kept, "--warmup")), -1);
  json_decref(kept);
}

static void write_file(const char *name, const char *content, size_t size) {
  ch_error error = {0};
  assert_int_equal(ch_write_file(in_root(name), content, size, &error), CH_OK);
}

static void config_files_take_part(void **state) {
  (void)state;
  static const char config[] =
      "{\"model_type\": \"crosshead\", \"vocab_size\": 999, \"hidden_size\": 48,"
      " \"intermediate_size\": 100, \"num_hidden_layers\": 3, \"num_attention_heads\": 4,"
      " \"num_key_value_heads\": 2, \"max_position_embeddings\": 16,"
      " \"tie_word_embeddings\": true, \"attention\": {\"type\": \"gqa\", \"qk_norm\": true}}";
  ch_comparison comparison;
  ch_error error = {0};
  char mechanisms[200];
  write_file("mine.json", config, sizeof config - 1);
  snprintf(mechanisms, sizeof mechanisms, "mha,%s", in_root("mine.json"));
  ch_compare_settings options = small("files");
  options.mechanisms = mechanisms;
  watch w = {0};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  const ch_compared *model = &comparison.models[1];
  assert_string_equal(model->directory, "mine");
  assert_int_equal(model->layers, 3);
  assert_int_equal(model->hidden_size, 48);
  assert_int_equal(model->key_value_heads, 2);
  assert_in_range(model->parameters, 59700, 60300);
  assert_int_equal(model->cache_elements_per_token, 3 * 2 * 2 * 12);
  ch_arena_free(&comparison.arena);
  /* The same command again is the same comparison: nothing is trained twice. */
  watch again = {0};
  if (compare(&options, &again, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(again.steps, 0);
  ch_arena_free(&comparison.arena);
  /* The file is one of the settings. */
  char changed[sizeof config];
  memcpy(changed, config, sizeof config);
  *strstr(changed, "48") = '5';
  strstr(changed, "58")[1] = '6';
  write_file("mine.json", changed, sizeof config - 1);
  assert_refused(&options, "was another configuration");
}

static void bad_input_is_refused_in_a_sentence(void **state) {
  (void)state;
  ch_compare_settings options = small("bad");
  options.mechanisms = "mha,gqq";
  assert_refused(&options, "did you mean gqa?");
  options.mechanisms = "mha,,mqa";
  assert_refused(&options, "empty name");
  options.mechanisms = "mha,mha";
  assert_refused(&options, "names mha twice");
  options.mechanisms = "mha,nowhere.json";
  assert_refused(&options, "nowhere.json");
  options = small("bad");
  options.data = in_root("missing.txt");
  assert_refused(&options, "missing.txt");
  write_file("empty.txt", "", 0);
  options.data = in_root("empty.txt");
  assert_refused(&options, "empty.txt");
  static const char binary[4096] = {1, 0, 2, 0, (char)0xff};
  write_file("binary.txt", binary, sizeof binary);
  options.data = in_root("binary.txt");
  assert_refused(&options, "binary.txt");
  write_file("short.txt", "Too short to learn from.", 24);
  options.data = in_root("short.txt");
  assert_refused(&options, "too");
  options = small("bad");
  options.parameters = 3000;
  assert_refused(&options, "--params 3.0 k is too small");
  options = small("text.txt"); /* a file is in the way */
  assert_refused(&options, "text.txt");
  options = small("bad");
  options.lr = -1;
  assert_refused(&options, "--lr");
  options = small("bad");
  options.until_decided = true;
  assert_refused(&options, "--until-decided needs --budget");
  options.until_decided = false;
  options.budget = 60;
  assert_refused(&options, "--budget is for --until-decided");
}

static int set_up(void **state) {
  (void)state;
  snprintf(root, sizeof root, "/tmp/crosshead-compare-XXXXXX");
  if (!mkdtemp(root)) return -1;
  omp_set_num_threads(1); /* models this small are no work for more */
  write_text("text.txt", 1, 1000);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_interrupted_comparison_continues_to_the_same_results),
      cmocka_unit_test(models_are_timed_in_turns_when_all_are_trained),
      cmocka_unit_test(seeds_repeat_every_model_and_may_be_added_later),
      cmocka_unit_test(seeds_are_added_until_the_verdict_and_after_an_interruption),
      cmocka_unit_test(a_spent_budget_adds_no_seed),
      cmocka_unit_test(a_mechanism_under_two_names_is_not_distinguishable),
      cmocka_unit_test(seeds_are_not_added_to_what_is_out),
      cmocka_unit_test(mechanisms_may_be_added_behind_those_that_are_there),
      cmocka_unit_test(results_agree_with_the_models),
      cmocka_unit_test(other_options_in_the_same_directory_are_refused_by_name),
      cmocka_unit_test(settings_that_came_later_had_their_defaults),
      cmocka_unit_test(config_files_take_part),
      cmocka_unit_test(bad_input_is_refused_in_a_sentence),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
