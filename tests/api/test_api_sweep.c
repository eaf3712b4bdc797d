/* Tests a sweep over learning rates through the public interface: interrupted, continued, extended, and
 * read. */
#include "api_testing.h"

static char data[256], out[256];

static int begin(void **state) {
  if (make_work(state) != 0) return -1;
  static char text[40000];
  static const char *const words[] = {"the king ", "a sailor ",   "sees ",
                                      "follows ",  "the river. ", "nobody "};
  uint32_t random = 3;
  while (strlen(text) + 20 < sizeof text) {
    random = random * 1664525u + 1013904223u;
    strcat(text, words[(random >> 24) % 6]);
  }
  strcpy(data, at("text.txt"));
  strcpy(out, at("sweep"));
  write_file(data, text);
  return 0;
}

typedef struct diary {
  int prepared, outlines, begun, steps, runs, earlier, stop_after;
} diary;

static void on_prepared(const ch_comparison_data *found, void *user) {
  assert_true(found->train_tokens > 0);
  ((diary *)user)->prepared++;
}

static void on_outline(const ch_sweep_outline *outline, void *user) {
  assert_int_equal(outline->steps, 60);
  assert_int_equal(outline->jobs, 1);
  assert_int_equal(outline->threads, 2);
  assert_true(outline->data->vocab_size > 256 && outline->data->vocab_size <= 300);
  assert_true(outline->runs == 2 || outline->runs == 3);
  ((diary *)user)->outlines++;
}

static void on_begin(const ch_sweep_result *run, void *user) {
  assert_string_equal(run->name, "mqa");
  ((diary *)user)->begun++;
}

static void on_step(const ch_sweep_result *run, const ch_train_step *step, void *user) {
  assert_true(run->lr > 0 && step->loss > 0 && step->step <= step->steps);
  ((diary *)user)->steps++;
}

static void on_run(const ch_sweep_result *run, bool earlier, void *user) {
  diary *d = user;
  char *verdict;
  must(ch_sweep_result_verdict(run, &verdict, &error));
  assert_int_equal(strcmp(verdict, "stable") == 0, run->verdict == CH_STABLE);
  ch_free(verdict);
  d->runs++;
  d->earlier += earlier;
}

static bool on_event(const ch_sweep_event *event, void *user) {
  if (event->kind == CH_SWEEP_EVENT_PREPARED) on_prepared(event->as.prepared.data, user);
  if (event->kind == CH_SWEEP_EVENT_OUTLINE) on_outline(event->as.outline.outline, user);
  if (event->kind == CH_SWEEP_EVENT_BEGIN) on_begin(event->as.begin.run, user);
  if (event->kind == CH_SWEEP_EVENT_STEP) on_step(event->as.step.run, event->as.step.step, user);
  if (event->kind == CH_SWEEP_EVENT_RUN) on_run(event->as.run.run, event->as.run.earlier, user);
  return true;
}

static bool on_stop(void *user) {
  const diary *d = user;
  return d->stop_after && d->steps >= d->stop_after;
}

static ch_sweep_settings usual(diary *d) {
  ch_sweep_settings settings;
  ch_sweep_defaults(&settings);
  settings.text.data = data;
  settings.report.out = out;
  settings.lineup.mechanisms = "mqa";
  settings.lineup.parameters = 40000;
  settings.lineup.vocab = 300;
  settings.training.tokens = 16 * 4 * 60; /* 60 steps */
  settings.training.batch = 4;
  settings.lineup.sequence = 16;
  settings.training.eval_tokens = 64;
  settings.training.evaluations = 20;
  settings.workers.threads = 2;
  settings.event = on_event;
  settings.stop = on_stop;
  settings.user = d;
  settings.lr = "1e-2,5";
  settings.jobs = 1;
  settings.budget = 1000000;
  return settings;
}

static void a_stopped_sweep_goes_on_and_finds_the_largest_stable_rate(void **state) {
  (void)state;
  diary first = {.stop_after = 10}, rest = {0}, more = {0};
  ch_sweep *sweep = NULL;
  ch_sweep_settings settings = usual(&first);
  assert_int_equal(ch_sweep_rates(&settings, &sweep, &error), CH_ERROR_INTERRUPTED);
  assert_null(sweep);
  assert_int_equal(first.steps, 10);
  assert_true(first.prepared == 1 && first.outlines == 1 && first.begun == 1 && first.runs == 0);

  settings = usual(&rest);
  must(ch_sweep_rates(&settings, &sweep, &error));
  assert_true(rest.runs == 2 && rest.begun == 2 && rest.earlier == 0);
  assert_int_equal(ch_sweep_count(sweep), 2);
  assert_null(ch_sweep_run(sweep, 2));
  assert_null(ch_sweep_run(sweep, -1));
  const ch_sweep_result *low = ch_sweep_run(sweep, 0), *high = ch_sweep_run(sweep, 1);
  assert_true(low->lr == 0.01 && high->lr == 5 && low->seed == 1);
  assert_int_equal(low->verdict, CH_STABLE);
  assert_true(high->verdict != CH_STABLE && !high->has_law);
  assert_non_null(strstr(high->no_law, "not stable"));
  assert_true(low->has_law && low->law.points == 18 && low->law.budget == 1e6);
  assert_int_equal(low->validation_points, 20);
  assert_true(low->validation_loss == low->validation_curve[19].loss);
  const ch_sweep_choice *choice = ch_sweep_choice_of(sweep, 0);
  assert_string_equal(choice->name, "mqa");
  assert_true(choice->chosen == 0.01 && choice->chosen_loss == low->validation_loss && choice->whole);
  assert_null(ch_sweep_choice_of(sweep, 1));

  char *text;
  must(ch_sweep_json(sweep, &text, &error));
  json_t *results = read_json(text);
  assert_int_equal(json_array_size(json_object_get(results, "runs")), 2);
  json_decref(results);
  must(ch_sweep_table(sweep, &text, &error));
  assert_non_null(strstr(text, "mqa: the largest stable rate is 0.01"));
  ch_free(text);
  must(ch_sweep_page(sweep, &text, &error));
  assert_non_null(strstr(text, "</html>"));
  ch_free(text);
  ch_sweep_free(sweep);
  char path[300];
  snprintf(path, sizeof path, "%s/report.html", out);
  assert_true(is_there(path));

  settings = usual(&more);
  settings.lr = "1e-3,1e-2,5";
  must(ch_sweep_rates(&settings, NULL, &error));
  assert_true(more.earlier == 2 && more.begun == 1 && more.steps == 60);

  /* The results of a sweep are a file of curves. */
  ch_fits *fits;
  snprintf(path, sizeof path, "%s/results.json", out);
  must(ch_fit_file(path, NULL, &fits, &error));
  assert_int_equal(ch_fits_count(fits), 3);
  assert_int_equal(ch_fits_curve(fits, 1)->points, 20);
  ch_fits_free(fits);
}

static void impossible_sweeps_are_refused(void **state) {
  (void)state;
  diary d = {0};
  for (int i = 0; i < 9; i++) {
    ch_sweep_settings settings = usual(&d);
    settings.report.out = at("none");
    if (i == 0) settings.text.data = NULL;
    if (i == 1) settings.lr = NULL;
    if (i == 2) settings.lr = "1e-3,x";
    if (i == 3) settings.lr = "20";
    if (i == 4) settings.training.seeds = CH_SWEEP_MOST_SEEDS + 1;
    if (i == 5) settings.lineup.match = CH_MATCH_TIME;
    if (i == 6) settings.jobs = -1;
    if (i == 7) settings.budget = -1;
    if (i == 8) settings.training.evaluations = 0;
    *error.message = 0;
    assert_int_equal(ch_sweep_check(&settings, NULL), CH_ERROR_ARGUMENT);
    if (ch_sweep_rates(&settings, NULL, &error) != CH_ERROR_ARGUMENT)
      fail_msg("case %d: \"%s\"", i, error.message);
    assert_true(*error.message && !strstr(error.message, "--"));
  }
  ch_sweep_settings settings = usual(&d);
  must(ch_sweep_check(&settings, &error));
  settings.lr = "x";
  assert_int_equal(ch_sweep_check(&settings, &error), CH_ERROR_ARGUMENT);
  assert_string_equal(error.setting, "lr");
  assert_int_equal(ch_sweep_rates(NULL, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(d.begun, 0);
  assert_false(is_there(at("none")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stopped_sweep_goes_on_and_finds_the_largest_stable_rate),
      cmocka_unit_test(impossible_sweeps_are_refused),
  };
  return cmocka_run_group_tests(tests, begin, remove_work);
}
