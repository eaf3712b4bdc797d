/* Tests comparisons through the public interface: interrupted, continued, and read. */
#include "api_testing.h"

static char data[256], out[256];

static int begin(void **state) {
  if (make_work(state) != 0) return -1;
  static char text[60000];
  static const char *const words[] = {"red ", "green ", "blue ", "and ", "or ", "not "};
  uint32_t random = 7;
  while (strlen(text) + 20 < sizeof text) {
    random = random * 1664525u + 1013904223u;
    strcat(text, words[(random >> 24) % 6]);
    if (random >> 29 == 0) strcat(text, "\n");
  }
  strcpy(data, at("text.txt"));
  strcpy(out, at("comparison"));
  write_file(data, text);
  return 0;
}

typedef struct diary {
  int steps, models, earlier, begun, prepared, turns, timings, timed, stop_after, asked;
  int32_t last_run;
  char names[64];
  bool of_other_runs; /* true if the runs are not those of mha and mqa */
} diary;

static void on_prepared(const ch_comparison_data *found, void *user) {
  diary *d = user;
  assert_string_equal(found->file, data);
  assert_true(found->train_tokens > found->validation_tokens && found->validation_tokens > 0);
  assert_true(!found->images && found->vocab_size > 256);
  d->prepared++;
}

static void on_begin(const ch_compare_position *position, const ch_model_result *model, void *user) {
  diary *d = user;
  assert_string_equal(model->name, position->name);
  assert_true(model->parameters > 0 && position->step.steps > 0 && position->seed == 1);
  d->begun++;
}

static void on_timing(int32_t turn, int32_t turns, const ch_model_result *model, void *user) {
  diary *d = user;
  assert_true(turn >= 0 && turn < turns && model->decode_tokens_per_second > 0);
  if (d->timings++ == 0) d->turns = turns;
  assert_int_equal(turns % d->turns, 0);
}

static void on_timed(const ch_model_result *model, void *user) {
  diary *d = user;
  assert_true(model->timing_turns > 1);
  d->timed++;
}

static void on_asking(const ch_model_result *model, const char *task, int64_t done, int64_t total,
                      void *user) {
  diary *d = user;
  assert_true(model->validation_loss > 0 && *task && done >= 0 && done <= total);
  d->asked++;
}

static bool on_step(const ch_compare_position *position, void *user) {
  diary *d = user;
  if (d->of_other_runs) return true;
  assert_true(position->run >= d->last_run && position->run < position->runs && position->runs == 2);
  assert_true(position->step.loss > 0 && position->step.step <= position->step.steps);
  assert_string_equal(position->name, position->run == 0 ? "mha" : "mqa");
  d->last_run = position->run;
  return ++d->steps != d->stop_after;
}

static void on_model(const ch_model_result *model, bool earlier, void *user) {
  diary *d = user;
  assert_int_equal(model->seed, 1);
  assert_true(model->validation_loss > 0 && model->curve_points > 0);
  strcat(strcat(d->names, model->name), " ");
  d->models++;
  d->earlier += earlier;
}

static bool on_event(const ch_compare_event *event, void *user) {
  switch (event->kind) {
  case CH_COMPARE_EVENT_PREPARED:
    on_prepared(event->as.prepared.data, user);
    return true;
  case CH_COMPARE_EVENT_BEGIN:
    on_begin(event->as.begin.position, event->as.begin.model, user);
    return true;
  case CH_COMPARE_EVENT_STEP:
    return on_step(event->as.step.position, user);
  case CH_COMPARE_EVENT_MODEL:
    on_model(event->as.model.model, event->as.model.earlier, user);
    return true;
  case CH_COMPARE_EVENT_TIMING:
    on_timing(event->as.timing.turn, event->as.timing.turns, event->as.timing.model, user);
    return true;
  case CH_COMPARE_EVENT_TIMED:
    on_timed(event->as.timed.model, user);
    return true;
  case CH_COMPARE_EVENT_ASKING:
    on_asking(event->as.asking.model, event->as.asking.task, event->as.asking.done, event->as.asking.total,
              user);
    return true;
  default:
    return true;
  }
}

static ch_compare_settings usual(diary *d) {
  ch_compare_settings settings;
  ch_compare_defaults(&settings);
  settings.text.data = data;
  settings.report.out = out;
  settings.lineup.mechanisms = "mha,mqa";
  settings.lineup.parameters = 40000;
  settings.training.tokens = 4000;
  settings.training.batch = 4;
  settings.lineup.sequence = 32;
  settings.event = on_event;
  settings.user = d;
  return settings;
}

static void a_stopped_comparison_goes_on_and_says_which_is_better(void **state) {
  (void)state;
  diary d = {.stop_after = 5};
  ch_compare_settings settings = usual(&d);
  ch_comparison *comparison = NULL;
  assert_int_equal(ch_compare_mechanisms(&settings, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_null(comparison);
  assert_int_equal(d.steps, 5);
  diary rest = {0};
  settings = usual(&rest);
  must(ch_compare_mechanisms(&settings, &comparison, &error));
  int steps = (4000 + 4 * 32 - 1) / (4 * 32);
  assert_int_equal(rest.steps, 2 * steps - 5);
  assert_string_equal(rest.names, "mha mqa ");
  assert_int_equal(rest.prepared, 1);
  assert_int_equal(rest.begun, 2);
  assert_int_equal(rest.timed, 2);
  /* Both models are timed in the first round, and again in further rounds if the machine was not steady. */
  assert_true(rest.timings >= 2 * rest.turns && rest.timings % rest.turns == 0);

  assert_int_equal(ch_comparison_count(comparison), 2);
  assert_null(ch_comparison_run(comparison, 2));
  assert_null(ch_comparison_run(comparison, -1));
  const ch_model_result *mha = ch_comparison_run(comparison, 0), *mqa = ch_comparison_run(comparison, 1);
  assert_string_equal(mha->name, "mha");
  assert_true(mqa->cache_bytes_per_token < mha->cache_bytes_per_token);
  assert_true(fabs((double)mqa->parameters / (double)mha->parameters - 1) < 0.05);
  assert_int_equal(mha->curve_points, steps);
  assert_int_equal(mha->curve[steps - 1].tokens, mha->tokens_trained);

  char *text;
  must(ch_comparison_json(comparison, &text, &error));
  json_t *results = read_json(text), *models = json_object_get(results, "models");
  assert_int_equal(json_array_size(models), 2);
  assert_string_equal(text_of(json_array_get(models, 1), "name"), "mqa");
  assert_true(number_of(json_array_get(models, 0), "validation_loss") == mha->validation_loss);
  json_decref(results);
  must(ch_comparison_table(comparison, &text, &error));
  assert_non_null(strstr(text, "mqa"));
  const ch_model_result *taken = NULL;
  must(ch_comparison_recommended(comparison, &taken, &error));
  char sentence[80];
  snprintf(sentence, sizeof sentence, "Take %s for now: ", taken->name);
  assert_int_equal(strncmp(text, sentence, strlen(sentence)), 0);
  ch_comparison_decision *decision;
  must(ch_comparison_verdict(comparison, &decision, &error));
  assert_int_equal(decision->kind, CH_VERDICT_UNDECIDED);
  assert_string_equal(ch_verdict_kind_name(decision->kind), "undecided");
  assert_in_range(decision->name_count, 1, 2);
  assert_ptr_equal(decision->names[0], taken->name);
  assert_in_range(decision->choice_count, 1, 2);
  assert_true(isinf(decision->choices[0].behind_high) && decision->choices[0].tied_count == 0);
  assert_int_equal(strncmp(text, decision->sentence, strlen(decision->sentence)), 0);
  assert_int_equal(decision->seeds, 1);
  ch_free(decision);
  ch_free(text);
  must(ch_comparison_page(comparison, &text, &error));
  char path[300], *written = calloc(1, strlen(text) + 2);
  snprintf(path, sizeof path, "%s/report.html", out);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_int_equal(fread(written, 1, strlen(text) + 1, file), strlen(text));
  fclose(file);
  assert_string_equal(written, text);
  free(written);
  ch_free(text);
  ch_comparison_free(comparison);

  /* Results of other settings are not continued. The message uses the caller's name of the setting. */
  settings.training.eval_tokens = 100;
  assert_int_equal(ch_compare_mechanisms(&settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, " eval_tokens "));
  assert_string_equal(error.setting, "eval_tokens");

  /* With more mechanisms, finished runs are reused. */
  diary longer = {.of_other_runs = true};
  settings = usual(&longer);
  settings.lineup.mechanisms = "mha,mqa,gqa:2";
  must(ch_compare_mechanisms(&settings, &comparison, &error));
  assert_int_equal(ch_comparison_count(comparison), 3);
  assert_int_equal(longer.earlier, 2);
  assert_int_equal(longer.begun, 1);
  ch_comparison_free(comparison);
}

static bool on_ladder_event(const ch_compare_event *event, void *user) {
  static const int64_t sizes[] = {30000, 35000, 50000};
  diary *d = user;
  if (event->kind == CH_COMPARE_EVENT_MODEL) on_model(event->as.model.model, event->as.model.earlier, user);
  if (event->kind != CH_COMPARE_EVENT_RUNG) return true;
  assert_true(event->as.rung.rungs == 4 && event->as.rung.parameters == sizes[d->begun]);
  assert_int_equal(event->as.rung.index, d->begun < 2 ? d->begun : 3);
  assert_int_equal(strncmp(event->as.rung.directory, out, strlen(out)), 0);
  d->begun++;
  return true;
}

/* Items of the task copa. */
#define ITEMS TEST_DATA "/tasks/copa.jsonl"

/* Returns true if a row of the table begins with this name and contains `rest`. */
static bool has_row(const char *text, const char *name, const char *rest) {
  for (const char *line = text; line; line = strchr(line + 1, '\n'))
    if (strncmp(line + 1, name, strlen(name)) == 0 && strstr(line, rest) &&
        (!strchr(line + 1, '\n') || strstr(line, rest) < strchr(line + 1, '\n')))
      return true;
  return false;
}

static void a_finished_comparison_answers_tasks(void **state) {
  (void)state;
  diary d = {0};
  ch_compare_settings settings = usual(&d);
  ch_comparison *comparison;
  settings.lineup.mechanisms = "mha,mqa,gqa:2";
  settings.verdict.tasks = "copa=" ITEMS;
  settings.verdict.task_items = 2;
  must(ch_compare_mechanisms(&settings, &comparison, &error));
  assert_int_equal(d.begun, 0);
  assert_true(d.asked >= 3);
  for (int i = 0; i < 3; i++) {
    const ch_model_result *run = ch_comparison_run(comparison, i);
    assert_int_equal(run->task_count, 1);
    assert_string_equal(run->tasks->task, settings.verdict.tasks);
    ch_evaluate_settings usual_settings;
    ch_model *model;
    char path[400], *text;
    snprintf(path, sizeof path, "%s/%s", out, run->directory);
    ch_evaluate_defaults(&usual_settings);
    usual_settings.items = ITEMS;
    usual_settings.limit = 2;
    must(ch_model_open(path, &model, &error));
    must(ch_evaluate_task(model, "copa", &usual_settings, &text, &error));
    ch_model_close(model);
    json_t *report = read_json(text);
    assert_true(run->tasks->value == number_of(report, run->tasks->metric));
    assert_true(run->tasks->items == 2);
    json_decref(report);
  }
  char *text, value[32];
  snprintf(value, sizeof value, "%.4g", ch_comparison_run(comparison, 0)->tasks->value);
  must(ch_comparison_table(comparison, &text, &error));
  assert_true(has_row(text, "task", "copa"));
  assert_true(has_row(text, "mha", value));
  ch_free(text);
  must(ch_comparison_page(comparison, &text, &error));
  assert_non_null(strstr(text, "tasks-heading"));
  ch_free(text);
  ch_comparison_free(comparison);
  /* Answers are reused; a different number of items is evaluated from scratch, and another task is added. */
  d.asked = 0;
  must(ch_compare_mechanisms(&settings, NULL, &error));
  assert_int_equal(d.asked, 0);
  settings.verdict.task_items = 1;
  settings.verdict.tasks = "winogrande=" TEST_DATA "/tasks/winogrande.jsonl,copa=" ITEMS;
  must(ch_compare_mechanisms(&settings, &comparison, &error));
  const ch_model_result *run = ch_comparison_run(comparison, 1);
  assert_int_equal(run->task_count, 2);
  assert_int_equal(run->tasks[0].items, 1);
  assert_int_equal(strncmp(run->tasks[1].task, "winogrande=", 11), 0);
  ch_comparison_free(comparison);
}

static void a_ladder_grows_around_a_comparison(void **state) {
  (void)state;
  diary d = {0};
  ch_comparison *comparison;
  ch_compare_settings settings = usual(&d);
  settings.report.out = strcat(strcpy(out, at("comparison")), "-ladder");
  settings.event = on_ladder_event;
  must(ch_compare_mechanisms(&settings, &comparison, &error));
  double loss = ch_comparison_run(comparison, 0)->validation_loss;
  assert_null(ch_comparison_laws(comparison));
  ch_comparison_free(comparison);
  settings.schedule.ladder = "35k,30k,50k";
  settings.schedule.target = 1000000;
  d = (diary){0};
  must(ch_compare_mechanisms(&settings, &comparison, &error));
  assert_int_equal(d.begun, 3);
  assert_int_equal(d.models, 8);
  assert_int_equal(d.earlier, 2);
  assert_true(ch_comparison_run(comparison, 0)->validation_loss == loss);
  const ch_ladder_laws *laws = ch_comparison_laws(comparison);
  assert_int_equal(ch_ladder_laws_count(laws), 2);
  const ch_ladder_law *law = ch_ladder_laws_at(laws, 1);
  assert_string_equal(law->name, "mqa");
  assert_int_equal(law->rungs, 4);
  assert_true(law->target.low <= law->target.value && law->target_flops > 1e11);
  char *text;
  must(ch_comparison_page(comparison, &text, &error));
  assert_non_null(strstr(text, "Other sizes"));
  ch_free(text);
  ch_comparison_free(comparison);
  settings.schedule.ladder = "35k";
  assert_int_equal(ch_compare_mechanisms(&settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "ladder has 2 sizes"));
}

static bool stop_at_once(void *user) {
  ++*(int *)user;
  return true;
}

static void a_comparison_is_stopped_by_the_answer_to_a_question(void **state) {
  (void)state;
  diary d = {0};
  int asked = 0;
  ch_compare_settings settings = usual(&d);
  settings.report.out = at("stopped");
  settings.stop = stop_at_once;
  settings.event = NULL;
  settings.user = &asked;
  assert_int_equal(ch_compare_mechanisms(&settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_true(asked > 0);
}

static void mechanisms_are_listed_with_what_they_are(void **state) {
  (void)state;
  ch_mechanism_name name;
  bool gqa = false;
  int32_t count = 0;
  while (ch_mechanism_name_at(count, &name)) {
    assert_true(*name.name && *name.summary);
    if (strcmp(name.name, "gqa") == 0) gqa = name.number != NULL;
    count++;
  }
  assert_true(gqa && count > 10);
  assert_false(ch_mechanism_name_at(-1, &name));
}

static void a_forecast_says_what_a_comparison_would_do(void **state) {
  (void)state;
  diary d = {0};
  ch_compare_settings settings = usual(&d);
  ch_compare_forecast *forecast = NULL;
  settings.report.out = at("foreseen");
  settings.training.seeds = 2;
  must(ch_compare_foresee(&settings, &forecast, &error));
  assert_false(is_there(at("foreseen")));
  assert_int_equal(ch_compare_forecast_count(forecast), 2);
  assert_null(ch_compare_forecast_of(forecast, 2));
  assert_null(ch_compare_forecast_of(forecast, -1));
  const ch_mechanism_forecast *mha = ch_compare_forecast_of(forecast, 0),
                              *all = ch_compare_forecast_total(forecast);
  assert_string_equal(mha->name, "mha");
  assert_true(mha->runs == 2 && mha->finished == 0 && mha->tokens == 4096);
  assert_true(mha->seconds > 0 && mha->tokens_per_second > 0 && mha->parameters > 30000);
  /* Memory includes weights, gradients, two moments and activations. The disk has a model and a checkpoint. */
  assert_true(mha->memory_bytes > 16 * mha->parameters);
  assert_true(mha->disk_bytes >= 2 * 16 * mha->parameters);
  assert_null(all->name);
  assert_true(all->runs == 4 && all->tokens == 4 * 4096 && all->memory_bytes >= mha->memory_bytes);
  char *text = NULL, *json = NULL;
  must(ch_compare_forecast_text(forecast, &text, &error));
  assert_non_null(strstr(text, "4 runs of 4.1 k tokens"));
  must(ch_compare_forecast_json(forecast, &json, &error));
  assert_non_null(strstr(json, "\"finished\""));
  ch_free(text);
  ch_free(json);
  ch_compare_forecast_free(forecast);
  ch_compare_forecast_free(NULL);
  assert_int_equal(d.steps + d.prepared + d.begun, 0);
  settings.lineup.mechanisms = "mha,nonsense";
  assert_int_equal(ch_compare_foresee(&settings, &forecast, &error), CH_ERROR_ARGUMENT);
  assert_null(forecast);
  assert_int_equal(ch_compare_foresee(NULL, &forecast, &error), CH_ERROR_ARGUMENT);
}

static void impossible_comparisons_are_refused(void **state) {
  (void)state;
  diary d = {0};
  for (int i = 0; i < 21; i++) {
    ch_compare_settings settings = usual(&d);
    settings.report.out = at("none");
    if (i == 0) settings.text.data = NULL;
    if (i == 1) settings.lineup.mechanisms = "mha,nonsense";
    if (i == 2) settings.training.tokens = 0;
    if (i == 3) settings.training.seeds = 101;
    if (i == 4) settings.training.type = CH_PRECISION_Q4_0;
    if (i == 5) settings.training.schedule = CH_TRAIN_COSINE_TO_ZERO;
    if (i == 6) settings.lineup.parameters = -5;
    if (i == 7) settings.verdict.tolerance = 2;
    if (i == 8) settings.report.out = NULL;
    if (i == 9) settings.vision.images = "images";
    if (i == 10) settings.lineup.match = (ch_match)6;
    if (i == 11) settings.lineup.init = (ch_init)7;
    if (i == 12) settings.training.warmup = -2;
    if (i == 13) settings.lineup.match = CH_MATCH_CACHE;
    if (i == 14) settings.lineup.cache_per_token = 64;
    if (i == 15) settings.lineup.cache_per_token = -1;
    if (i == 16)
      settings.text.data = NULL, settings.vision.images = "x", settings.lineup.match = CH_MATCH_CACHE,
      settings.lineup.cache_per_token = 64;
    if (i == 17) settings.verdict.tasks = "hella=items.jsonl";
    if (i == 18) settings.verdict.tasks = "ruler:vt,hellaswag";
    if (i == 19) settings.verdict.tasks = "ruler:vt@256,ruler:vt@256";
    if (i == 20) settings.verdict.task_items = -1;
    *error.message = 0;
    if (ch_compare_mechanisms(&settings, NULL, &error) != CH_ERROR_ARGUMENT)
      fail_msg("case %d: \"%s\"", i, error.message);
    assert_true(*error.message && !strstr(error.message, "--"));
    if (i != 1) /* ch_compare_check does not read the files of mechanisms */
      assert_int_equal(ch_compare_check(&settings, NULL), CH_ERROR_ARGUMENT);
  }
  assert_int_equal(ch_compare_mechanisms(NULL, NULL, &error), CH_ERROR_ARGUMENT);
  ch_compare_settings fine = usual(&d);
  must(ch_compare_check(&fine, &error));
  assert_false(is_there(at("none")));
  assert_int_equal(d.steps, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stopped_comparison_goes_on_and_says_which_is_better),
      cmocka_unit_test(a_finished_comparison_answers_tasks),
      cmocka_unit_test(a_ladder_grows_around_a_comparison),
      cmocka_unit_test(a_comparison_is_stopped_by_the_answer_to_a_question),
      cmocka_unit_test(mechanisms_are_listed_with_what_they_are),
      cmocka_unit_test(a_forecast_says_what_a_comparison_would_do),
      cmocka_unit_test(impossible_comparisons_are_refused),
  };
  return cmocka_run_group_tests(tests, begin, remove_work);
}
