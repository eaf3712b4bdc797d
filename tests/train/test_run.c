/* Tests whole runs: their files, interruption, SIGKILL, failing disks, and logs without gaps or
 * repetitions. */
#define _GNU_SOURCE
#include "training.h"

#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "io/safetensors.h"
#include "config_file/config_json.h"

extern char **environ;

/* --- helpers ------------------------------------------------------------------------------------------------ */

typedef struct watcher {
  ch_trainer *trainer;
  int64_t stop_after;   /* steps after which the run is interrupted; 0: never */
  int64_t poison_after; /* step after which a weight becomes NaN; 0: never */
  int64_t limit_after;  /* step after which no file may grow past 30000 bytes; 0: never */
  int64_t done;
  int steps, evaluations, checkpoints;
} watcher;

static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void on_step(void *context, const ch_step_report *report) {
  watcher *w = context;
  w->done = report->step;
  w->steps++;
  if (w->poison_after == report->step) ((float *)ch_trainer_weights(w->trainer)[2].data)[0] = NAN;
  if (w->limit_after == report->step) limit_files(30000);
}

static void on_evaluation(void *context, const ch_validation_point *point) {
  assert_true(isfinite(point->loss) && point->top1 == -1);
  ((watcher *)context)->evaluations++;
}

static void on_save(void *context, int64_t step, const char *path) {
  (void)step;
  assert_true(ch_is_file(path));
  ((watcher *)context)->checkpoints++;
}

static bool on_question(void *context) {
  const watcher *w = context;
  return w->stop_after > 0 && w->done >= w->stop_after;
}

static ch_status run(ch_trainer *trainer, const char *directory, bool resume, watcher *w, ch_error *error) {
  w->trainer = trainer;
  ch_train_events events = {.context = w,
                            .step = on_step,
                            .evaluated = on_evaluation,
                            .saved = on_save,
                            .interrupted = on_question};
  return ch_train_run(trainer, directory, resume, &events, error);
}

/* Returns a trainer that has run to its end without interruption. */
static ch_trainer *unbroken_run(const ch_train_options *options, const char *directory) {
  ch_trainer *trainer = make_trainer(options);
  watcher w = {0};
  assert_ok(run(trainer, directory, false, &w, &failure));
  return trainer;
}

/* Checks that every line is an object, and that steps 1 … steps and `evaluations` evaluations occur once each
   and in order. */
static void check_log(const char *directory, int steps, int evaluations) {
  char *text = read_whole(directory, CH_TRAIN_LOG);
  int64_t step = 0, evaluated = 0;
  int seen = 0, dones = 0;
  for (char *line = text, *end; *line; line = end + 1) {
    end = strchr(line, '\n');
    assert_non_null(end);
    json_t *object = json_loadb(line, (size_t)(end - line), 0, NULL);
    assert_non_null(object);
    const char *event = json_string_value(json_object_get(object, "event"));
    int64_t at = json_integer_value(json_object_get(object, "step"));
    if (strcmp(event, "step") == 0) {
      assert_int_equal(at, ++step);
      assert_true(json_is_number(json_object_get(object, "loss")));
      assert_true(json_is_number(json_object_get(object, "tokens_per_second")));
    }
    if (strcmp(event, "evaluation") == 0) {
      assert_true(at == step && at > evaluated);
      evaluated = at;
      seen++;
    }
    dones += strcmp(event, "done") == 0;
    json_decref(object);
  }
  assert_int_equal(step, steps);
  assert_int_equal(seen, evaluations);
  assert_int_equal(dones, 1);
  assert_int_equal(count_of(text, "\"event\":\"start\""), 1);
  free(text);
}

static void check_no_leftovers(const char *directory) {
  DIR *entries = opendir(directory);
  for (const struct dirent *entry; (entry = readdir(entries));)
    if (strstr(entry->d_name, ".tmp")) fail_msg("%s was left behind", entry->d_name);
  closedir(entries);
}

/* Checks that the exported model has the trainer's weights. */
static void check_model(const char *directory, const ch_trainer *trainer) {
  char *path = ch_path_join(directory, "model.safetensors");
  ch_safetensors file;
  ch_config config;
  assert_ok(ch_safetensors_open(path, &file, &failure));
  assert_ok(ch_config_read(directory, &config, &failure));
  assert_int_equal(config.hidden_size, 32);
  const ch_params *params = ch_trainer_params(trainer);
  assert_int_equal(file.count, params->count);
  for (int p = 0; p < params->count; p++)
    assert_memory_equal(ch_safetensors_find(&file, params->rows[p].name)->tensor.data,
                        ch_trainer_weights(trainer)[p].data,
                        ch_tensor_bytes(&ch_trainer_weights(trainer)[p]));
  ch_safetensors_close(&file);
  free(path);
}

/* --- ordinary runs ------------------------------------------------------------------------------------------ */

static void a_run_leaves_a_log_a_checkpoint_and_a_model(void **state) {
  (void)state;
  char *directory = make_directory(), *below = ch_path_join(directory, "a/b");
  ch_train_options options = test_options(10);
  options.checkpoint_every = 3;
  ch_trainer *trainer = make_trainer(&options);
  watcher w = {0};
  assert_ok(run(trainer, below, false, &w, &failure));
  assert_int_equal(w.steps, 10);
  assert_int_equal(w.evaluations, 3); /* after 4, 8 and 10 */
  assert_int_equal(w.checkpoints, 4); /* after 3, 6, 9 and 10 */
  check_log(below, 10, 3);
  check_model(below, trainer);
  check_no_leftovers(below);
  char *text = read_whole(below, CH_TRAIN_LOG);
  assert_int_equal(count_of(text, "\"config\":{"), 1);
  assert_int_equal(count_of(text, "\"lr\":0.005"), 2); /* the options, and the step at the peak */
  free(text);
  ch_trainer_free(trainer);
  free(below);
  remove_directory(directory);
}

static void a_finished_run_is_left_as_it_is(void **state) {
  (void)state;
  char *directory = make_directory();
  ch_train_options options = test_options(5);
  ch_trainer *first = unbroken_run(&options, directory), *again = make_trainer(&options);
  watcher w = {0};
  assert_ok(run(again, directory, true, &w, &failure));
  assert_int_equal(w.steps + w.evaluations + w.checkpoints, 0);
  assert_same_state(first, again);
  check_log(directory, 5, 2);
  ch_error error = {0};
  ch_trainer *third = make_trainer(&options);
  assert_int_equal(run(third, directory, false, &w, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "resume"));
  ch_trainer_free(first);
  ch_trainer_free(again);
  ch_trainer_free(third);
  remove_directory(directory);
}

static void an_interrupted_run_goes_on_to_the_same_bits(void **state) {
  (void)state;
  char *directory = make_directory(), *other = make_directory();
  ch_train_options options = test_options(11);
  ch_trainer *unbroken = unbroken_run(&options, other);
  for (int64_t stop = 3; stop <= 9; stop += 3) { /* three interruptions on the way */
    ch_trainer *trainer = make_trainer(&options);
    watcher w = {.stop_after = stop};
    ch_error error = {0};
    assert_int_equal(run(trainer, directory, true, &w, &error), CH_ERROR_INTERRUPTED);
    assert_non_null(strstr(error.message, "resume"));
    assert_int_equal(w.done, stop);
    assert_int_equal(w.steps, 3); /* those since the last interruption */
    ch_trainer_free(trainer);
  }
  ch_trainer *last = make_trainer(&options);
  watcher w = {0};
  assert_ok(run(last, directory, true, &w, &failure));
  assert_int_equal(w.steps, 2);
  assert_same_state(unbroken, last);
  check_log(directory, 11, 3);
  check_model(directory, last);
  ch_trainer_free(unbroken);
  ch_trainer_free(last);
  remove_directory(directory);
  remove_directory(other);
}

static void interrupted_before_the_evaluation_it_is_made_up_for(void **state) {
  (void)state;
  char *directory = make_directory(), *other = make_directory();
  ch_train_options options = test_options(9);
  ch_trainer *unbroken = unbroken_run(&options, other), *first = make_trainer(&options);
  watcher w = {.stop_after = 4}; /* the evaluation after step 4 is interrupted */
  ch_error error = {0};
  assert_int_equal(run(first, directory, false, &w, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(w.evaluations, 0);
  ch_trainer *second = make_trainer(&options);
  w = (watcher){0};
  assert_ok(run(second, directory, true, &w, &failure));
  assert_int_equal(w.evaluations, 3);
  assert_same_state(unbroken, second);
  check_log(directory, 9, 3);
  ch_trainer_free(unbroken);
  ch_trainer_free(first);
  ch_trainer_free(second);
  remove_directory(directory);
  remove_directory(other);
}

static void a_log_ahead_of_its_checkpoint_is_cut_back(void **state) {
  (void)state;
  char *directory = make_directory();
  ch_train_options options = test_options(9);
  ch_trainer *first = make_trainer(&options);
  watcher w = {.stop_after = 5};
  ch_error error = {0};
  assert_int_equal(run(first, directory, false, &w, &error), CH_ERROR_INTERRUPTED);
  /* Simulates a program that reached step 7 and was killed while writing a line. */
  char *path = ch_path_join(directory, CH_TRAIN_LOG);
  FILE *log = fopen(path, "a");
  fputs("{\"event\":\"step\",\"step\":6,\"loss\":1.5,\"tokens_per_second\":1}\n"
        "{\"event\":\"step\",\"step\":7,\"loss\":1.5,\"tokens_per_second\":1}\n{\"event\":\"st",
        log);
  fclose(log);
  ch_trainer *second = make_trainer(&options);
  w = (watcher){0};
  assert_ok(run(second, directory, true, &w, &failure));
  assert_int_equal(w.steps, 4);
  check_log(directory, 9, 3);
  ch_trainer_free(first);
  ch_trainer_free(second);
  free(path);
  remove_directory(directory);
}

/* --- SIGKILL ------------------------------------------------------------------------------------------------ */

enum { KILLED_STEPS = 60 };

static ch_train_options killed_options(void) {
  ch_train_options options = test_options(KILLED_STEPS);
  options.checkpoint_every = 1; /* the run is nearly always writing a checkpoint */
  options.sequence = 12;
  options.batch = 2;
  return options;
}

/* Continues a run in `directory`, in the child process. */
static int child(const char *directory) {
  ch_train_options options = killed_options();
  ch_trainer *trainer = make_trainer(&options);
  ch_error error = {0};
  ch_status status = ch_train_run(trainer, directory, true, NULL, &error);
  if (status != CH_OK) fprintf(stderr, "%s\n", error.message);
  ch_trainer_free(trainer);
  return status == CH_OK ? 0 : 1;
}

static pid_t start_child(const char *directory) {
  char *arguments[] = {(char *)"test_run", (char *)"--child", (char *)(uintptr_t)directory, NULL};
  pid_t pid;
  assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
  return pid;
}

static void wait_milliseconds(long milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void killed_at_any_moment_a_run_can_be_resumed_to_the_same_bits(void **state) {
  (void)state;
  char *directory = make_directory(), *other = make_directory();
  char *path = ch_path_join(directory, CH_TRAIN_CHECKPOINT);
  ch_train_options options = killed_options();
  int status = -1, kills = 0;
  ch_random random;
  ch_random_seed(&random, 11, 0);
  for (int attempt = 0; attempt < 40 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0); attempt++) {
    pid_t pid = start_child(directory);
    wait_milliseconds(20 + (long)ch_random_below(&random, 150));
    if (attempt < 12) kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) kills++;
    if (!WIFSIGNALED(status)) assert_int_equal(status, 0);
    if (ch_is_file(path)) assert_ok(ch_checkpoint_read_options(path, NULL, NULL, NULL, &failure));
  }
  assert_int_equal(status, 0);
  assert_true(kills > 0);
  ch_trainer *unbroken = unbroken_run(&options, other), *resumed = make_trainer(&options);
  assert_ok(ch_trainer_resume(resumed, path, &failure));
  assert_same_state(unbroken, resumed);
  check_log(directory, KILLED_STEPS, KILLED_STEPS / 4);
  check_model(directory, unbroken);
  check_no_leftovers(directory);
  ch_trainer_free(unbroken);
  ch_trainer_free(resumed);
  free(path);
  remove_directory(directory);
  remove_directory(other);
}

/* --- what can go wrong -------------------------------------------------------------------------------------- */

static void numbers_that_go_wrong_leave_the_last_good_checkpoint(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, CH_TRAIN_CHECKPOINT);
  ch_train_options options = test_options(9);
  options.checkpoint_every = 2;
  ch_trainer *first = make_trainer(&options);
  watcher w = {.poison_after = 5};
  ch_error error = {0};
  assert_int_equal(run(first, directory, false, &w, &error), CH_ERROR_NUMERIC);
  assert_non_null(strstr(error.message, "step 6"));
  assert_non_null(strstr(error.message, ch_trainer_params(first)->rows[2].name));
  int64_t step;
  assert_ok(ch_checkpoint_read_options(path, NULL, NULL, &step, &failure));
  assert_int_equal(step, 4);
  char *text = read_whole(directory, CH_TRAIN_LOG);
  assert_int_equal(count_of(text, "\"event\":\"error\""), 1);
  free(text);
  ch_trainer *second = make_trainer(&options);
  w = (watcher){0};
  assert_ok(run(second, directory, true, &w, &failure));
  assert_int_equal(w.steps, 5);
  check_log(directory, 9, 3);
  ch_trainer_free(first);
  ch_trainer_free(second);
  free(path);
  remove_directory(directory);
}

static void a_disk_that_fills_up_leaves_the_last_good_checkpoint(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, CH_TRAIN_CHECKPOINT);
  ch_train_options options = test_options(9);
  options.checkpoint_every = 3;
  ch_trainer *first = make_trainer(&options);
  watcher w = {.limit_after = 4};
  ch_error error = {0};
  ch_status status = run(first, directory, false, &w, &error);
  limit_files(RLIM_INFINITY);
  assert_int_equal(status, CH_ERROR_IO);
  assert_non_null(strstr(error.message, CH_TRAIN_CHECKPOINT));
  check_no_leftovers(directory);
  int64_t step;
  assert_ok(ch_checkpoint_read_options(path, NULL, NULL, &step, &failure));
  assert_int_equal(step, 3);
  ch_trainer *second = make_trainer(&options);
  w = (watcher){0};
  assert_ok(run(second, directory, true, &w, &failure));
  check_log(directory, 9, 3);
  ch_trainer_free(first);
  ch_trainer_free(second);
  free(path);
  remove_directory(directory);
}

static void a_directory_that_cannot_be_written_is_named_before_training(void **state) {
  (void)state;
  char *directory = make_directory();
  ch_train_options options = test_options(3);
  ch_trainer *trainer = make_trainer(&options);
  watcher w = {0};
  ch_error error = {0};
  char *below_file = ch_path_join(directory, "file"), *impossible = ch_path_join(below_file, "run");
  assert_ok(ch_write_file(below_file, "x", 1, &failure));
  assert_int_equal(run(trainer, impossible, false, &w, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, impossible));
  assert_int_equal(chmod(directory, 0555), 0);
  bool root = geteuid() == 0; /* permissions do not stop root */
  if (root) assert_int_equal(seteuid(65534), 0);
  ch_status status = run(trainer, directory, false, &w, &error);
  if (root) assert_int_equal(seteuid(0), 0);
  assert_int_equal(status, CH_ERROR_IO);
  assert_non_null(strstr(error.message, directory));
  assert_int_equal(w.steps, 0);
  chmod(directory, 0755);
  ch_trainer_free(trainer);
  free(below_file);
  free(impossible);
  remove_directory(directory);
}

static void a_log_on_a_full_device_stops_the_run_with_a_checkpoint(void **state) {
  (void)state;
  char *directory = make_directory(), *log = ch_path_join(directory, CH_TRAIN_LOG);
  if (access("/dev/full", W_OK) != 0 || symlink("/dev/full", log) != 0) {
    print_message("no /dev/full here\n");
    skip();
  }
  ch_train_options options = test_options(3);
  ch_trainer *trainer = make_trainer(&options);
  watcher w = {0};
  ch_error error = {0};
  assert_int_equal(run(trainer, directory, false, &w, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, CH_TRAIN_LOG));
  ch_trainer_free(trainer);
  free(log);
  remove_directory(directory);
}

static ch_trainer *intruder;

static void intrude(void *context, const ch_step_report *report) {
  ch_error error = {0};
  if (report->step != 2) return;
  assert_int_equal(ch_train_run(intruder, context, true, NULL, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, "in use"));
}

static void two_runs_cannot_share_a_directory(void **state) {
  (void)state;
  char *directory = make_directory();
  ch_train_options options = test_options(3);
  ch_trainer *trainer = make_trainer(&options);
  intruder = make_trainer(&options);
  ch_train_events events = {.context = directory, .step = intrude};
  assert_ok(ch_train_run(trainer, directory, false, &events, &failure));
  check_log(directory, 3, 1);
  ch_trainer_free(trainer);
  ch_trainer_free(intruder);
  remove_directory(directory);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--child") == 0) return child(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_leaves_a_log_a_checkpoint_and_a_model),
      cmocka_unit_test(a_finished_run_is_left_as_it_is),
      cmocka_unit_test(an_interrupted_run_goes_on_to_the_same_bits),
      cmocka_unit_test(interrupted_before_the_evaluation_it_is_made_up_for),
      cmocka_unit_test(a_log_ahead_of_its_checkpoint_is_cut_back),
      cmocka_unit_test(killed_at_any_moment_a_run_can_be_resumed_to_the_same_bits),
      cmocka_unit_test(numbers_that_go_wrong_leave_the_last_good_checkpoint),
      cmocka_unit_test(a_disk_that_fills_up_leaves_the_last_good_checkpoint),
      cmocka_unit_test(a_directory_that_cannot_be_written_is_named_before_training),
      cmocka_unit_test(a_log_on_a_full_device_stops_the_run_with_a_checkpoint),
      cmocka_unit_test(two_runs_cannot_share_a_directory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
