/* Tests whole sweeps on a small text: parallel and sequential, interrupted and continued, extended, judged. */
#include "train/training.h"

#include <omp.h>

#include "base/file_names.h"
#include "experiment/sweep.h"
#include "scratch.h"

static void write_text(void) {
  static const char *const words[] = {"the king",  "a sailor",     "sees",  "follows",
                                      "the river", "three apples", "nobody"};
  ch_random random;
  ch_random_seed(&random, 1, 1);
  FILE *file = fopen(in_root("text.txt"), "w");
  assert_non_null(file);
  for (int i = 0; i < 4000; i++)
    fprintf(file, "%s%s", words[ch_random_below(&random, 7)], i % 8 == 7 ? ".\n\n" : " ");
  fclose(file);
}

static const double tried[] = {1e-3, 1e-2, 2};

static ch_sweep_settings small(const char *out) {
  ch_sweep_settings options;
  ch_sweep_defaults(&options);
  options.text.data = in_root("text.txt");
  options.lineup.mechanisms = "mha,mqa";
  options.report.out = in_root(out);
  options.lineup.parameters = 40000;
  options.lineup.vocab = 300;
  options.training.tokens = 16 * 4 * 60; /* 60 steps */
  options.training.batch = 4;
  options.lineup.sequence = 16;
  options.training.eval_tokens = 128;
  options.training.evaluations = 20;
  options.report.command = "test";
  options.lr = "1e-3,1e-2,2";
  return options;
}

typedef struct watch {
  int steps, begun, finished, earlier, stop_after;
} watch;

static void on_step(const ch_sweep_result *run, const ch_train_step *step, void *user) {
  watch *w = user;
  assert_true(run->lr > 0 && step->step <= step->steps);
  w->steps++;
}

static void on_begin(const ch_sweep_result *run, void *user) {
  watch *w = user;
  (void)run;
  w->begun++;
}

static void on_run(const ch_sweep_result *run, bool earlier, void *user) {
  watch *w = user;
  assert_int_equal(run->verdict, run->stability.verdict);
  w->finished++;
  w->earlier += earlier;
}

static bool on_event(const ch_sweep_event *event, void *user) {
  if (event->kind == CH_SWEEP_EVENT_STEP) on_step(event->as.step.run, event->as.step.step, user);
  if (event->kind == CH_SWEEP_EVENT_BEGIN) on_begin(event->as.begin.run, user);
  if (event->kind == CH_SWEEP_EVENT_RUN) on_run(event->as.run.run, event->as.run.earlier, user);
  return true;
}

static bool on_stop(void *user) {
  const watch *w = user;
  return w->stop_after > 0 && w->steps >= w->stop_after;
}

static ch_status sweep(const ch_sweep_settings *options, watch *w, ch_sweep *result, ch_error *error) {
  ch_sweep_settings settings = *options;
  settings.event = on_event;
  settings.stop = on_stop;
  settings.user = w;
  return ch_sweep_make(&settings, NULL, result, error);
}

/* Returns results.json without values that depend on the clock, the machine or the number of jobs. */
static char *results_of(const char *out) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", out, CH_COMPARE_RESULTS);
  json_t *results = json_load_file(path, 0, NULL), *run;
  assert_non_null(results);
  static const char *const unlike[] = {"created", "jobs", "machine"};
  for (int i = 0; i < 3; i++) json_object_del(results, unlike[i]);
  size_t i;
  json_array_foreach(json_object_get(results, "runs"), i, run)
      json_object_del(run, "train_tokens_per_second");
  char *text = json_dumps(results, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
  json_decref(results);
  return text;
}

static void assert_same_results(const char *a, const char *b) {
  char *left = results_of(a), *right = results_of(b);
  assert_string_equal(left, right);
  free(left);
  free(right);
}

static void runs_side_by_side_give_the_same_bits_as_one_after_another(void **state) {
  (void)state;
  ch_sweep result;
  ch_error error = {0};
  ch_sweep_settings options = small("side");
  watch w = {0};
  omp_set_num_threads(2);
  if (sweep(&options, &w, &result, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(result.jobs, 2);
  assert_int_equal(result.threads, 1);
  assert_int_equal(result.count, 6);
  assert_int_equal(w.begun, 6);
  ch_arena_free(&result.about.arena);
  options = small("alone");
  omp_set_num_threads(1);
  watch alone = {0};
  assert_int_equal(sweep(&options, &alone, &result, &error), CH_OK);
  assert_int_equal(result.jobs, 1);
  ch_arena_free(&result.about.arena);
  assert_same_results(in_root("side"), in_root("alone"));
}

static void rates_are_judged_by_their_runs(void **state) {
  (void)state;
  ch_sweep result;
  ch_error error = {0};
  ch_sweep_settings options = small("side"); /* an earlier test may have finished it */
  watch w = {0};
  assert_int_equal(sweep(&options, &w, &result, &error), CH_OK);
  assert_int_equal(result.mechanisms, 2);
  for (int m = 0; m < 2; m++) {
    const ch_sweep_choice *choice = &result.choices[m];
    assert_true(choice->chosen == 1e-2);
    assert_true(choice->whole);
    assert_true(choice->lowest == 1e-3 || choice->lowest == 1e-2);
    assert_true(choice->lowest_loss <= choice->chosen_loss);
  }
  for (int i = 0; i < 6; i++) {
    const ch_sweep_result *run = &result.runs[i];
    assert_string_equal(run->name, i < 3 ? "mha" : "mqa");
    assert_true(run->lr == tried[i % 3]);
    assert_int_equal(run->verdict != CH_STABLE, i % 3 == 2);
    assert_int_equal(run->has_law, i % 3 < 2);
    if (run->has_law) {
      assert_int_equal(run->law.points, 18); /* the evaluations after the first tenth, of 20 */
      assert_true(run->law.budget == 10.0 * 16 * 4 * 60);
      assert_true(run->law.at.low <= run->law.at.value && run->law.at.value <= run->law.at.high);
      assert_true(run->law.at.value <= run->validation_loss + 0.1);
    } else {
      assert_non_null(strstr(run->no_law, "not stable"));
    }
    char path[200];
    snprintf(path, sizeof path, "%s/%s/log.jsonl", options.report.out, run->directory);
    assert_true(ch_is_file(path));
  }
  ch_arena_free(&result.about.arena);
}

static void an_interrupted_sweep_continues_to_the_same_results(void **state) {
  (void)state;
  ch_sweep result;
  ch_error error = {0};
  ch_sweep_settings options = small("stopped");
  omp_set_num_threads(2);
  const int stops[] = {15, 70, 1};
  for (int i = 0; i < 3; i++) {
    watch stopped = {.stop_after = stops[i]};
    assert_int_equal(sweep(&options, &stopped, &result, &error), CH_ERROR_INTERRUPTED);
    assert_non_null(strstr(error.message, "the same command continues it"));
    ch_arena_free(&result.about.arena);
  }
  watch w = {0};
  if (sweep(&options, &w, &result, &error) != CH_OK) fail_msg("%s", error.message);
  ch_arena_free(&result.about.arena);
  assert_same_results(in_root("stopped"), in_root("side"));
  watch again = {0};
  assert_int_equal(sweep(&options, &again, &result, &error), CH_OK);
  assert_int_equal(again.steps, 0);
  assert_int_equal(again.earlier, 6);
  ch_arena_free(&result.about.arena);
  assert_same_results(in_root("stopped"), in_root("side"));
}

static void a_sweep_can_be_given_more_rates_and_seeds(void **state) {
  (void)state;
  ch_sweep result;
  ch_error error = {0};
  ch_sweep_settings options = small("stopped");
  watch w = {0};
  options.lr = "1e-3,3e-3";
  options.training.seeds = 2;
  options.lineup.mechanisms = "mha,mqa";
  assert_int_equal(sweep(&options, &w, &result, &error), CH_OK);
  assert_int_equal(result.planned, 8);
  assert_int_equal(w.earlier, 2); /* both mechanisms at 1e-3 with the first seed */
  assert_int_equal(result.runs[0].seed, 1);
  assert_int_equal(result.runs[1].seed, 2);
  assert_true(result.runs[0].validation_loss != result.runs[1].validation_loss);
  double mean = (result.runs[2].validation_loss + result.runs[3].validation_loss) / 2;
  assert_true(result.choices[0].chosen == 3e-3 && fabs(result.choices[0].chosen_loss - mean) < 1e-12);
  ch_arena_free(&result.about.arena);
  options.training.batch = 8;
  assert_int_equal(sweep(&options, &w, &result, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "holds a sweep with batch 4"));
  ch_arena_free(&result.about.arena);
}

/* A signal between the last step and writing the result leaves a run without its result. */
static void a_run_that_lacks_only_its_result_gets_it(void **state) {
  (void)state;
  ch_sweep result;
  ch_error error = {0};
  ch_sweep_settings options = small("last step");
  watch w = {0};
  options.lr = "1e-3";
  options.lineup.mechanisms = "mha";
  assert_int_equal(sweep(&options, &w, &result, &error), CH_OK);
  char *path = ch_path_join(options.report.out, "mha/lr-0.001/" CH_COMPARE_RESULT);
  assert_int_equal(remove(path), 0);
  free(path);
  ch_arena_free(&result.about.arena);
  if (sweep(&options, &w, &result, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(result.count, 1);
  assert_true(result.runs[0].train_tokens_per_second > 0);
  ch_arena_free(&result.about.arena);
}

static void grids_are_read(void **state) {
  (void)state;
  ch_rate_grid o;
  assert_ok(ch_rate_grid_read("1e-2,1e-4..1e-2:5,0.5", &o, &failure));
  const double rates[] = {1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2, 0.5};
  assert_int_equal(o.count, 6);
  for (int i = 0; i < 6; i++) assert_true(o.rates[i] == rates[i]);
  const char *wrong[] = {"",    "x", "1e-3;2", "0", "-1", "1e-2..1e-4:3", "1e-4..1e-2", "1e-4..1e-2:1",
                         "nan", "20"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ch_error error = {0};
    assert_int_equal(ch_rate_grid_read(wrong[i], &o, &error), CH_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "lr"));
  }
}

/* Tests choices and verdicts that depend on other runs, with simulated runs. */
static void stuck_runs_and_choices(void **state) {
  (void)state;
  ch_curve_point curve[] = {{100, 8}};
  ch_sweep_result runs[4];
  ch_sweep_choice choice = {.name = "mha"};
  const double losses[] = {4, 3, 7.5, 8.5};
  for (int i = 0; i < 4; i++) {
    runs[i] = (ch_sweep_result){.name = "mha", .lr = 0.001 * (i + 1), .curve = curve, .curve_points = 1};
    runs[i].validation_loss = losses[i];
    runs[i].stability.spikes = i;
  }
  ch_sweep sweep_of = {
      .runs = runs, .count = 4, .planned = 5, .choices = &choice, .mechanisms = 1, .budget = 1e3};
  assert_int_equal(ch_sweep_judge(&sweep_of, NULL), CH_OK);
  assert_int_equal(runs[0].verdict, CH_STABLE); /* its loss fell less than run 1's, but at a smaller rate */
  assert_int_equal(runs[2].verdict, CH_STUCK);
  assert_int_equal(runs[3].verdict, CH_STUCK);
  assert_true(choice.chosen == 0.002 && choice.chosen_loss == 3);
  assert_int_equal(choice.spikes, 6);
  assert_false(choice.whole);
  runs[1].stability.verdict = CH_UNRECOVERED;
  runs[2].validation_loss = 5;
  assert_int_equal(ch_sweep_judge(&sweep_of, NULL), CH_OK);
  assert_true(choice.chosen == 0.003 && choice.chosen_loss == 5);
  assert_true(choice.lowest == 0.001 && choice.lowest_loss == 4);
  ch_arena_free(&sweep_of.about.arena);
}

static int set_up(void **state) {
  if (make_root(state) != 0) return -1;
  write_text();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_side_by_side_give_the_same_bits_as_one_after_another),
      cmocka_unit_test(rates_are_judged_by_their_runs),
      cmocka_unit_test(an_interrupted_sweep_continues_to_the_same_results),
      cmocka_unit_test(a_sweep_can_be_given_more_rates_and_seeds),
      cmocka_unit_test(a_run_that_lacks_only_its_result_gets_it),
      cmocka_unit_test(grids_are_read),
      cmocka_unit_test(stuck_runs_and_choices),
  };
  return cmocka_run_group_tests(tests, set_up, remove_root);
}
