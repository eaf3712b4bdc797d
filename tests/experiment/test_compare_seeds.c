/* Tests comparisons with several seeds, which are given at the start or added until there is a verdict. */
#include "comparing.h"

static void seeds_repeat_every_model_and_may_be_added_later(void **state) {
  (void)state;
  static const char *const names[] = {"name", "seed", "directory", NULL};
  static const char *const losses[] = {"curve", "validation_curve", NULL};
  static const char *const pairs[] = {"name", "minus", "pairs", NULL};
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("seeds");
  options.training.seeds = 2;
  watch w = {.stop_after = 30, .runs = 4}; /* within the second seed of the first model */
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "2 of 4 models finished"));
  ch_arena_free(&comparison.arena);
  watch rest = {.runs = 4};
  if (compare(&options, &rest, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(rest.steps, 48 - 30);
  assert_int_equal(rest.earlier, 2);
  assert_int_equal(comparison.count, 4);
  /* Another seed means other initial weights and another order of the data. */
  const ch_model_result *runs = comparison.models;
  assert_true(runs[0].curve[0].loss != runs[2].curve[0].loss);
  assert_true(runs[0].curve[11].loss != runs[2].curve[11].loss);
  ch_arena_free(&comparison.arena);
  char *found = listed(options.report.out, "models", names);
  assert_string_equal(found, "\"mha\" 1 \"mha\"\n\"mqa\" 1 \"mqa\"\n\"mha\" 2 \"seed-2/mha\"\n"
                             "\"mqa\" 2 \"seed-2/mqa\"\n");
  free(found);
  char *interrupted_losses = listed(options.report.out, "models", losses);

  /* The results are equal if the second seed is added later, and if it is the only one. */
  options = small("added");
  watch first = {.runs = 2};
  assert_int_equal(compare(&options, &first, &comparison, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  found = listed(options.report.out, "differences", pairs);
  assert_non_null(strstr(found, " 1\n")); /* one pair, so no interval */
  free(found);
  options.training.seeds = 2;
  watch second = {.runs = 4};
  assert_int_equal(compare(&options, &second, &comparison, &error), CH_OK);
  assert_int_equal(second.steps, 24);
  assert_int_equal(second.timings, 0); /* seeds do not change the speed */
  assert_int_equal(second.timed, 2);
  char *added_losses = listed(options.report.out, "models", losses);
  assert_string_equal(added_losses, interrupted_losses);
  double second_loss = comparison.models[3].validation_loss;
  ch_arena_free(&comparison.arena);
  options = small("alone");
  options.training.seed = 2;
  watch alone = {.runs = 2};
  assert_int_equal(compare(&options, &alone, &comparison, &error), CH_OK);
  assert_true(comparison.models[1].validation_loss == second_loss);
  assert_string_equal(comparison.models[1].directory, "mqa");
  ch_arena_free(&comparison.arena);
  free(added_losses);
  free(interrupted_losses);
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

static void assert_complete(const char *out, bool complete) {
  json_t *results = results_of(out);
  assert_true(json_is_true(json_object_get(results, "complete")) == complete);
  json_decref(results);
}

static void seeds_are_added_until_the_verdict_and_after_an_interruption(void **state) {
  (void)state;
  static const char *const losses[] = {"name", "seed", "curve", "validation_curve", NULL};
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("until");
  /* Models that hardly learn have nearly equal losses: two seeds show that one is less than twice the other. */
  options.verdict.tolerance = options.schedule.risk = 1;
  options.rates.lr = 1e-6;
  options.schedule.until_decided = true;
  options.schedule.budget = 1e9;
  watch w = {.runs = 2, .stop_after = 12 + 5};
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_ERROR_INTERRUPTED);
  ch_arena_free(&comparison.arena);
  watch second = {.runs = 2, .stop_after = 7};
  assert_int_equal(compare(&options, &second, &comparison, &error), CH_ERROR_INTERRUPTED);
  ch_arena_free(&comparison.arena);
  /* All runs of the first request are finished, but more are being added. */
  watch between = {.runs = -1, .stop_after = 6};
  assert_int_equal(compare(&options, &between, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(comparison.count, 2);
  ch_arena_free(&comparison.arena);
  assert_complete(options.report.out, false);
  watch third = {.runs = -1, .stop_after = 17};
  assert_int_equal(compare(&options, &third, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "3 of 4 models finished"));
  ch_arena_free(&comparison.arena);
  watch last = {.runs = 4};
  if (compare(&options, &last, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  /* No step was done twice. */
  assert_int_equal(w.steps + second.steps + between.steps + third.steps + last.steps, 48);
  assert_int_equal(comparison.count, 4);
  ch_arena_free(&comparison.arena);
  assert_verdict(options.report.out, "take", "[\"mqa\"]");
  assert_complete(options.report.out, true);
  char *until = listed(options.report.out, "models", losses);
  watch again = {.runs = 4};
  assert_int_equal(compare(&options, &again, &comparison, &error), CH_OK);
  assert_int_equal(again.steps, 0);
  assert_int_equal(again.earlier, 4);
  ch_arena_free(&comparison.arena);
  /* The runs equal those of a comparison with two seeds from the start. */
  options = small("asked");
  options.training.seeds = 2;
  options.rates.lr = 1e-6;
  watch asked = {.runs = 4};
  assert_int_equal(compare(&options, &asked, &comparison, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  char *expected = listed(options.report.out, "models", losses);
  assert_string_equal(until, expected);
  free(expected);
  free(until);
}

static void a_spent_budget_adds_no_seed(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("poor");
  options.schedule.until_decided = true;
  options.schedule.budget = 1e-9;
  watch w = {.runs = 2};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(w.steps, 24);
  bool first = comparison.models[0].validation_loss * 1.01 < comparison.models[1].validation_loss;
  ch_arena_free(&comparison.arena);
  assert_verdict(options.report.out, "undecided", first ? "[\"mha\",\"mqa\"]" : "[\"mqa\",\"mha\"]");
}

/* Compares a mechanism with itself under two names: with four heads, gqa:4 is mha. */
static void a_mechanism_under_two_names_is_not_distinguishable(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  char all_heads[32];
  ch_compare_settings options = small("twice");
  options.training.seeds = 2;
  options.lineup.heads = 4;
  snprintf(all_heads, sizeof all_heads, "mha,gqa:%d", (int)options.lineup.heads);
  options.lineup.mechanisms = all_heads;
  watch w = {.runs = 4};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  ch_arena_free(&comparison.arena);
  assert_verdict(options.report.out, "not_distinguishable", "[\"mha\",\"gqa:4\"]");
  /* No number of seeds would show a difference, so none is added. */
  options.schedule.until_decided = true;
  options.schedule.budget = 1e9;
  watch more = {.runs = 4};
  assert_int_equal(compare(&options, &more, &comparison, &error), CH_OK);
  assert_int_equal(more.steps, 0);
  ch_arena_free(&comparison.arena);
}

/* Changes the validation loss of a finished run. */
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
  options.lineup.mechanisms = "mha,gqa:2,mqa";
  options.training.seeds = 2;
  watch w = {.runs = 6};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  ch_arena_free(&comparison.arena);
  pretend(options.report.out, "mha", 4.00);
  pretend(options.report.out, "seed-2/mha", 4.05);
  pretend(options.report.out, "gqa-2", 5.00);
  pretend(options.report.out, "seed-2/gqa-2", 5.04);
  pretend(options.report.out, "mqa", 4.03);
  pretend(options.report.out, "seed-2/mqa", 4.02);
  options.schedule.until_decided = true;
  options.schedule.budget = 1e9;
  watch round = {.runs = 8, .stop_after = 13}; /* in the second run of the third seed */
  assert_int_equal(compare(&options, &round, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "7 of 8 models finished"));
  assert_string_equal(comparison.models[6].directory, "seed-3/mha");
  ch_arena_free(&comparison.arena);
  assert_true(ch_is_file(in_root("out/seed-3/mqa/log.jsonl")));
  assert_false(ch_is_file(in_root("out/seed-3/gqa-2/log.jsonl")));
  /* A spent budget ends the comparison, also within a round that was begun. */
  options.schedule.budget = 1e-9;
  watch poor = {.runs = 6};
  if (compare(&options, &poor, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(poor.steps, 0);
  assert_int_equal(comparison.count, 6);
  ch_arena_free(&comparison.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(seeds_repeat_every_model_and_may_be_added_later),
      cmocka_unit_test(seeds_are_added_until_the_verdict_and_after_an_interruption),
      cmocka_unit_test(a_spent_budget_adds_no_seed),
      cmocka_unit_test(a_mechanism_under_two_names_is_not_distinguishable),
      cmocka_unit_test(seeds_are_not_added_to_what_is_out),
  };
  return cmocka_run_group_tests(tests, set_up, remove_root);
}
