/* Tests recorded runs: written by several processes at once, found, compared with what was written, never
 * lost. */
#include "train/training.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/runs_private.h"
#include "runs/collect_run.h"
#include "scratch.h"

static ch_runs *open_runs(const char *path) {
  ch_runs *runs;
  assert_ok(ch_runs_open(path, CH_RUNS_CREATE, &runs, &failure));
  return runs;
}

static ch_run_record sample(const char *name, const char *started) {
  static const ch_curve_point curve[] = {{100, 5.5}, {200, 4.25}, {300, NAN}}, validation[] = {{300, 4.5}};
  return (ch_run_record){.kind = "train",
                         .name = name,
                         .directory = "/somewhere/model",
                         .status = "done",
                         .mechanism = "gqa",
                         .dataset = "story.txt",
                         .seed = 7,
                         .tokens = 300,
                         .parameters = 12345,
                         .lr = 1.0 / 300,
                         .loss = 4.25,
                         .validation_loss = 4.5,
                         .seconds = 1.5,
                         .started = started,
                         .finished = "2026-11-20T12:00:00Z",
                         .version = "0.1.0",
                         .config = "{\"hidden_size\":64}",
                         .options = "{\"batch\":8}",
                         .results = "{\"spikes\":2,\"verdict\":\"stable\"}",
                         .curve = curve,
                         .curve_points = 3,
                         .validation_curve = validation,
                         .validation_points = 1};
}

static int64_t found_by(ch_runs *runs, const char *term) {
  ch_run_list *found;
  ch_runs_query query = {.terms = &term, .count = term != NULL};
  assert_ok(ch_runs_find(runs, &query, &found, &failure));
  int64_t count = ch_run_list_count(found);
  ch_run_list_free(found);
  return count;
}

static void a_run_is_read_as_it_was_written(void **state) {
  (void)state;
  ch_runs *runs = open_runs(in_root("one.sqlite"));
  ch_run_record run = sample("gqa:4", "2026-11-20T11:00:00Z");
  ch_run_list *all;
  int64_t id;
  assert_ok(ch_runs_put(runs, &run, &id, &failure));
  assert_ok(ch_runs_find(runs, &(ch_runs_query){.curves = true}, &all, &failure));
  assert_int_equal(ch_run_list_count(all), 1);
  const ch_run_record *found = ch_run_list_at(all, 0);
  assert_null(ch_run_list_at(all, 1));
  assert_int_equal(found->id, id);
  assert_string_equal(found->name, "gqa:4");
  assert_string_equal(found->commit, "");
  assert_string_equal(found->machine, "{}");
  assert_string_equal(found->config, run.config);
  assert_int_equal(found->seed, 7);
  assert_true(found->lr == run.lr && found->validation_loss == 4.5);
  assert_int_equal(found->curve_points, 3);
  assert_int_equal(found->curve[1].tokens, 200);
  assert_true(found->curve[1].loss == 4.25 && isnan(found->curve[2].loss));
  assert_int_equal(found->validation_points, 1);
  ch_run_list_free(all);
  /* A continued run is recognised by directory and start. */
  run.status = "interrupted";
  run.name = run.dataset = "";
  run.curve_points = 1;
  int64_t again;
  assert_ok(ch_runs_put(runs, &run, &again, &failure));
  assert_int_equal(again, id);
  assert_ok(ch_runs_find(runs, &(ch_runs_query){.curves = true}, &all, &failure));
  assert_int_equal(ch_run_list_count(all), 1);
  found = ch_run_list_at(all, 0);
  assert_string_equal(found->status, "interrupted");
  assert_string_equal(found->name, "gqa:4");
  assert_string_equal(found->dataset, "story.txt");
  assert_int_equal(found->curve_points, 1);
  json_t *object = ch_run_record_to_json(found, true);
  assert_int_equal(json_integer_value(json_object_get(json_object_get(object, "results"), "spikes")), 2);
  json_decref(object);
  ch_run_list_free(all);
  /* A run with another start gets the next number. */
  run.started = "later";
  assert_ok(ch_runs_put(runs, &run, &again, &failure));
  assert_int_equal(again, id + 1);
  ch_runs_close(runs);
}

static void terms_find_what_they_say(void **state) {
  (void)state;
  ch_runs *runs = open_runs(in_root("terms.sqlite"));
  for (int i = 0; i < 6; i++) {
    char name[8], started[32];
    snprintf(name, sizeof name, "%s%d", i % 2 ? "mqa" : "gqa:", i);
    snprintf(started, sizeof started, "2026-11-20T11:00:0%dZ", i);
    ch_run_record run = sample(name, started);
    run.seed = i;
    run.tokens = i * 1000;
    run.validation_loss = i == 5 ? NAN : 4 - 0.5 * i;
    if (i == 3) run.results = "{}";
    assert_ok(ch_runs_put(runs, &run, NULL, &failure));
  }
  const struct {
    const char *term;
    int count;
  } terms[] = {{"seed=3", 1},
               {"seed!=3", 5},
               {"seed<=2", 3},
               {"tokens>=3k", 3},
               {"validation_loss<3", 2},
               {"name~MQA", 3},
               {"name=mqa1", 1},
               {"results.spikes=2", 5},
               {"results.verdict=stable", 5},
               {"config.hidden_size>63", 6},
               {"options.batch=9", 0},
               {"dataset=story.txt", 6},
               {"name=3", 0},
               {"4", 1},
               {"id>4", 2}};
  for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
    if (found_by(runs, terms[i].term) != terms[i].count)
      fail_msg("%s finds %lld", terms[i].term, (long long)found_by(runs, terms[i].term));
  const char *wrong[] = {"sed=3", "seed", "99", "=3", "seed<", "config.a\"b=1", "results=3"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ch_run_list *found;
    ch_error error = {0};
    ch_runs_query query = {.terms = &wrong[i], .count = 1};
    assert_int_equal(ch_runs_find(runs, &query, &found, &error), CH_ERROR_ARGUMENT);
    assert_null(found);
    assert_true(strlen(error.message) > 10);
  }
  ch_run_list *found;
  assert_ok(ch_runs_find(runs, &(ch_runs_query){.sort = "validation_loss", .limit = 2}, &found, &failure));
  assert_int_equal(ch_run_list_count(found), 2);
  assert_int_equal(ch_run_list_at(found, 0)->seed, 4);
  assert_int_equal(ch_run_list_at(found, 1)->seed, 3);
  ch_run_list_free(found);
  int64_t ids[] = {1, 2};
  assert_ok(ch_runs_delete(runs, ids, 2, &failure));
  assert_int_equal(found_by(runs, NULL), 4);
  ch_runs_close(runs);
}

/* Writes `most` runs. Opens the file anew for each, as commands do. */
static void write_runs(const char *path, int writer, int most) {
  for (int i = 0; i < most; i++) {
    ch_runs *runs;
    char name[32];
    ch_error error;
    snprintf(name, sizeof name, "w%d-%d", writer, i);
    ch_run_record run = sample(name, name);
    if (ch_runs_open(path, CH_RUNS_CREATE, &runs, &error) != CH_OK ||
        ch_runs_put(runs, &run, NULL, &error) != CH_OK) {
      fprintf(stderr, "%s\n", error.message);
      _exit(1);
    }
    ch_runs_close(runs);
  }
}

static void processes_that_write_at_once_lose_nothing(void **state) {
  (void)state;
  enum { WRITERS = 4, EACH = 40 };
  const char *path = in_root("many.sqlite"); /* created by the first writer */
  pid_t children[WRITERS];
  for (int w = 0; w < WRITERS; w++) {
    children[w] = fork();
    if (children[w] == 0) {
      write_runs(path, w, EACH);
      _exit(0);
    }
  }
  for (int w = 0; w < WRITERS; w++) {
    int status;
    waitpid(children[w], &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  ch_runs *runs = open_runs(path);
  assert_int_equal(found_by(runs, NULL), WRITERS * EACH);
  ch_runs_close(runs);
}

/* A writer reports every recorded run and is killed while recording another. */
static void a_killed_writer_loses_nothing_it_had_kept(void **state) {
  (void)state;
  const char *path = in_root("killed.sqlite");
  for (int round = 0; round < 5; round++) {
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
      ch_runs *runs;
      ch_error error;
      if (ch_runs_open(path, CH_RUNS_CREATE, &runs, &error) != CH_OK) _exit(1);
      for (int i = 0;; i++) {
        char name[32];
        snprintf(name, sizeof name, "r%d-%d", round, i);
        ch_run_record run = sample(name, name);
        if (ch_runs_put(runs, &run, NULL, &error) != CH_OK || write(told[1], "x", 1) != 1) _exit(1);
      }
    }
    close(told[1]);
    char byte;
    int kept = 0;
    while (kept < 10 + 3 * round && read(told[0], &byte, 1) == 1) kept++;
    kill(child, SIGKILL);
    while (read(told[0], &byte, 1) == 1) kept++;
    close(told[0]);
    waitpid(child, NULL, 0);
    ch_runs *runs = open_runs(path);
    char term[32];
    snprintf(term, sizeof term, "name~r%d-", round);
    int64_t found = found_by(runs, term);
    assert_true(found >= kept && found <= kept + 1); /* the last one may be recorded and not reported */
    ch_runs_close(runs);
  }
}

static void assert_not_opened(const char *path, unsigned create, const char *part) {
  ch_runs *runs;
  ch_error error = {0};
  assert_int_not_equal(ch_runs_open(path, create, &runs, &error), CH_OK);
  if (!strstr(error.message, part)) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void files_that_hold_no_runs_are_refused(void **state) {
  (void)state;
  sqlite3 *other;
  assert_not_opened(in_root("none.sqlite"), 0, "there are no runs");
  assert_not_opened(root, CH_RUNS_CREATE, "is a directory");
  assert_ok(ch_write_file(in_root("text.sqlite"),
                          "no database at all, though long enough to be read as one ....", 60, &failure));
  assert_not_opened(in_root("text.sqlite"), CH_RUNS_CREATE, "is not a file of runs");
  assert_int_equal(sqlite3_open(in_root("other.sqlite"), &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "CREATE TABLE a (b)", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
  assert_not_opened(in_root("other.sqlite"), CH_RUNS_CREATE, "of another program");
  /* The file has our marks and an added trigger. */
  ch_runs_close(open_runs(in_root("added.sqlite")));
  assert_int_equal(sqlite3_open(in_root("added.sqlite"), &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  sqlite3_close(other);
  assert_not_opened(in_root("added.sqlite"), CH_RUNS_CREATE, "its tables differ");
  ch_runs_close(open_runs(in_root("newer.sqlite")));
  assert_int_equal(sqlite3_open(in_root("newer.sqlite"), &other), SQLITE_OK);
  sqlite3_exec(other, "PRAGMA user_version = 99", NULL, NULL, NULL);
  sqlite3_close(other);
  assert_not_opened(in_root("newer.sqlite"), CH_RUNS_CREATE, "newer version");
}

/* Overwrites every page in turn. The file may be refused or read, but must not cause a crash or a hang. */
static void damaged_files_are_refused_or_read(void **state) {
  (void)state;
  const char *path = in_root("damaged.sqlite");
  ch_runs *runs = open_runs(in_root("whole.sqlite"));
  ch_run_record run = sample("gqa", "2026-11-20T11:00:00Z");
  for (int i = 0; i < 30; i++) {
    char started[16];
    snprintf(started, sizeof started, "%d", i);
    run.started = started;
    assert_ok(ch_runs_put(runs, &run, NULL, &failure));
  }
  ch_runs_close(runs);
  char *whole;
  size_t size;
  int refused = 0;
  assert_ok(ch_read_file(in_root("whole.sqlite"), 1 << 24, &whole, &size, &failure));
  for (size_t page = 0; page * 4096 < size; page++)
    for (int way = 0; way < 3; way++) {
      char *bad = malloc(size);
      memcpy(bad, whole, size);
      for (size_t i = 0; i < 4096; i += way == 2 ? 97 : 1)
        bad[page * 4096 + i] = way == 0 ? 0 : way == 1 ? (char)0xff : (char)(i * 31);
      assert_ok(ch_write_file(path, bad, size, &failure));
      free(bad);
      ch_error error = {0};
      ch_run_list *found = NULL;
      ch_status status = ch_runs_open(path, CH_RUNS_CREATE, &runs, &error);
      if (status == CH_OK) {
        status = ch_runs_find(runs, &(ch_runs_query){.curves = true}, &found, &error);
        run.started = "new";
        ch_runs_put(runs, &run, NULL, NULL);
      }
      if (status != CH_OK) assert_true(strlen(error.message) > 10);
      refused += status != CH_OK;
      ch_runs_close(runs);
      ch_run_list_free(found);
    }
  assert_true(refused > 3);
  free(whole);
}

static void a_training_run_is_collected_from_its_directory(void **state) {
  (void)state;
  ch_config config = test_config();
  ch_train_options options;
  ch_trainer *trainer;
  ch_train_options_default(&config, &options);
  options.steps = 6;
  options.batch = 2;
  options.sequence = 16;
  options.eval_every = 3;
  options.seed = 11;
  ch_batch_source source = made_up_source();
  assert_ok(ch_trainer_create(&config, &options, &source, &trainer, &failure));
  assert_ok(ch_train_run(trainer, in_root("model"), false, NULL, &failure));
  ch_progress_record record;
  ch_trainer_progress(trainer, &record);
  ch_arena arena = {0};
  ch_run_record run;
  assert_ok(ch_collect_run(in_root("model"), &(ch_run_labels){.dataset = "made up", .commit = "abc"}, &arena,
                           &run, &failure));
  assert_string_equal(run.status, "done");
  assert_string_equal(run.name, "model");
  assert_string_equal(run.mechanism, "gqa");
  assert_int_equal(run.seed, 11);
  assert_int_equal(run.tokens, 6 * 32);
  assert_int_equal(run.curve_points, 6);
  assert_true(fabs(run.curve[2].loss - record.losses[2]) < 1e-6);
  assert_int_equal(run.validation_points, 2);
  assert_true(fabs(run.validation_loss - record.validation[1].loss) < 1e-6);
  assert_non_null(strstr(run.options, "\"batch\":2"));
  assert_non_null(strstr(run.machine, "cores"));
  assert_int_equal(strlen(run.started), 20);
  ch_arena_free(&arena);
  ch_trainer_free(trainer);
  ch_error error = {0};
  assert_int_equal(ch_collect_run(root, &(ch_run_labels){0}, &arena, &run, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, "give the directory of a training run"));
  ch_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_is_read_as_it_was_written),
      cmocka_unit_test(terms_find_what_they_say),
      cmocka_unit_test(processes_that_write_at_once_lose_nothing),
      cmocka_unit_test(a_killed_writer_loses_nothing_it_had_kept),
      cmocka_unit_test(files_that_hold_no_runs_are_refused),
      cmocka_unit_test(damaged_files_are_refused_or_read),
      cmocka_unit_test(a_training_run_is_collected_from_its_directory),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
