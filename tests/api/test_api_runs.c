/* Tests the record of runs through the public interface: runs are added, collected from a directory, found,
 * read as JSON, deleted. */
#include "api_testing.h"

static ch_runs *open_runs(const char *name) {
  ch_runs *runs;
  must(ch_runs_open(at(name), CH_RUNS_CREATE, &runs, &error));
  return runs;
}

static int64_t put(ch_runs *runs, const char *name, double loss) {
  const ch_curve_point curve[] = {{100, 5.5}, {200, NAN}};
  ch_run_record run = {.kind = "train", .name = name, .directory = "/somewhere", .started = name};
  run.seed = -1;
  run.tokens = 200;
  run.parameters = 12;
  run.lr = run.loss = run.seconds = NAN;
  run.validation_loss = loss;
  run.config = "{\"hidden_size\": 64}";
  run.curve = curve;
  run.curve_points = 2;
  int64_t id = 0;
  must(ch_runs_put(runs, &run, &id, &error));
  return id;
}

static void runs_are_found_and_read(void **state) {
  (void)state;
  ch_runs *runs = open_runs("runs.sqlite");
  int64_t better = put(runs, "a", 2.5), worse = put(runs, "b", 3.5);
  assert_true(better > 0 && worse > better);
  const char *terms[] = {"config.hidden_size=64", "loss<10"};
  ch_run_list *found;
  ch_runs_query query = {.terms = terms, .count = 2, .sort = "-loss", .curves = true};
  must(ch_runs_find(runs, &query, &found, &error));
  assert_int_equal(ch_run_list_count(found), 2);
  assert_null(ch_run_list_at(found, -1));
  assert_null(ch_run_list_at(found, 2));
  const ch_run_record *run = ch_run_list_at(found, 0);
  assert_int_equal(run->id, worse);
  assert_string_equal(run->name, "b");
  assert_string_equal(run->dataset, "");
  assert_int_equal(run->seed, -1);
  assert_true(isnan(run->lr) && run->validation_loss == 3.5);
  assert_int_equal(run->curve_points, 2);
  assert_true(run->curve[0].loss == 5.5 && isnan(run->curve[1].loss));
  ch_runs_close(runs); /* the list stays valid */

  char *text;
  must(ch_run_record_json(ch_run_list_at(found, 1), true, &text, &error));
  json_t *json = read_json(text);
  assert_true(number_of(json, "validation_loss") == 2.5 && number_of(json, "id") == (double)better);
  assert_true(json_is_null(json_object_get(json, "lr")) && json_is_null(json_object_get(json, "seed")));
  assert_true(number_of(json_object_get(json, "config"), "hidden_size") == 64);
  assert_int_equal(json_array_size(json_object_get(json, "curve")), 2);
  json_decref(json);
  must(ch_run_record_json(ch_run_list_at(found, 1), false, &text, &error));
  json = read_json(text);
  assert_null(json_object_get(json, "curve"));
  json_decref(json);
  ch_run_list_free(found);

  must(ch_runs_open(at("runs.sqlite"), 0, &runs, &error));
  must(ch_runs_delete(runs, &worse, 1, &error));
  must(ch_runs_find(runs, NULL, &found, &error));
  assert_int_equal(ch_run_list_count(found), 1);
  assert_int_equal(ch_run_list_at(found, 0)->id, better);
  assert_int_equal(ch_run_list_at(found, 0)->curve_points, 0);
  ch_run_list_free(found);
  ch_runs_close(runs);
}

static void a_directory_and_an_evaluation_become_runs(void **state) {
  (void)state;
  ch_runs *runs = open_runs("added.sqlite");
  int64_t id = 0, again = 0;
  char log[300];
  assert_int_equal(mkdir(at("model"), 0777), 0);
  snprintf(log, sizeof log, "%s/log.jsonl", at("model"));
  assert_int_equal(ch_runs_record(runs, at("model"), NULL, &id, &error), CH_ERROR_IO);
  write_file(
      log,
      "{\"event\": \"start\", \"time\": \"2026-01-01T00:00:00Z\", \"version\": \"x\", \"parameters\": 7, "
      "\"options\": {\"lr\": 0.5, \"seed\": \"3\"}, \"config\": {\"attention\": {\"type\": \"mla\"}}}\n"
      "{\"event\": \"step\", \"tokens\": 64, \"loss\": 4.5, \"seconds\": 1}\n");
  must(ch_runs_record(runs, at("model"), NULL, &id, &error));
  must(ch_runs_record(runs, at("model"), &(ch_run_labels){.dataset = "a.txt", .status = "stopped"}, &again,
                      &error));
  assert_int_equal(again, id); /* recording a run again updates it */

  ch_model *model;
  must(ch_model_open(MODEL, &model, &error));
  const ch_run_labels labels = {.name = "text", .dataset = "b.txt"};
  assert_int_equal(ch_runs_record_evaluation(runs, model, "[1]", &labels, NULL, &error), CH_ERROR_FORMAT);
  must(ch_runs_record_evaluation(runs, model, "{\"tokens\": 9, \"loss\": 2, \"seconds\": 3}", &labels, &again,
                                 &error));
  ch_model_close(model);

  ch_run_list *found;
  must(ch_runs_find(runs, NULL, &found, &error));
  assert_int_equal(ch_run_list_count(found), 2);
  const ch_run_record *trained = ch_run_list_at(found, 0), *evaluated = ch_run_list_at(found, 1);
  assert_string_equal(trained->kind, "train");
  assert_string_equal(trained->name, "model");
  assert_string_equal(trained->mechanism, "mla");
  assert_string_equal(trained->dataset, "a.txt");
  assert_string_equal(trained->status, "stopped");
  assert_true(trained->seed == 3 && trained->lr == 0.5 && trained->loss == 4.5);
  assert_string_equal(evaluated->kind, "eval");
  assert_string_equal(evaluated->name, "text");
  assert_true(evaluated->validation_loss == 2 && evaluated->seconds == 3 && evaluated->parameters > 600000);
  json_t *results = json_loads(evaluated->results, 0, NULL);
  assert_true(number_of(results, "tokens") == 9);
  json_decref(results);
  ch_run_list_free(found);
  ch_runs_close(runs);
}

static void errors_say_what_to_do(void **state) {
  (void)state;
  ch_runs *runs = NULL;
  assert_int_equal(ch_runs_open(at("nothing.sqlite"), 0, &runs, &error), CH_ERROR_IO);
  assert_null(runs);
  write_file(at("text"), "no database at all, though long enough to be read as if it were one");
  assert_int_equal(ch_runs_open(at("text"), 0, &runs, &error), CH_ERROR_FORMAT);
  assert_string_equal(error.setting, "runs");
  runs = open_runs("empty.sqlite");
  ch_run_list *found;
  const char *const wrong[] = {"los=3", "7", "loss"};
  for (int i = 0; i < 3; i++) {
    ch_runs_query query = {.terms = &wrong[i], .count = 1};
    assert_int_equal(ch_runs_find(runs, &query, &found, &error), CH_ERROR_ARGUMENT);
    assert_null(found);
    if (i == 0) assert_non_null(strstr(error.message, "\"loss\""));
  }
  ch_runs_close(runs);
  ch_runs_close(NULL);
  ch_run_list_free(NULL);
  char *beside = ch_runs_beside("/tmp/none/model");
  assert_string_equal(beside, "/tmp/none/" CH_RUNS_FILE);
  ch_free(beside);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_are_found_and_read),
      cmocka_unit_test(a_directory_and_an_evaluation_become_runs),
      cmocka_unit_test(errors_say_what_to_do),
  };
  return cmocka_run_group_tests(tests, make_work, remove_work);
}
