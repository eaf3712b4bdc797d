/* Tests that checkpoints, results and sweeps survive the failure of any allocation. */
#include "allocations/every_allocation.h"
#include "base/json.h"
#include "report/sample.h"
#include "experiment/findings/comparison_json.h"
#include "experiment/findings/sweep_results.h"
#include "train/training.h"

enum { STEPS = 2 };

/* --- checkpoints -------------------------------------------------------------------------------------------- */

static ch_config config;
static ch_train_options base_options;

static ch_status train(const char *resumed, const char *saved, int steps, ch_error *error) {
  ch_train_options options = base_options;
  ch_batch_source source = made_up_source();
  ch_trainer *trainer;
  ch_step_report report;
  CH_TRY(ch_trainer_create(&config, &options, &source, &trainer, error));
  ch_status status = resumed ? ch_trainer_resume(trainer, resumed, error) : CH_OK;
  for (int i = 0; status == CH_OK && i < steps; i++)
    status = ch_trainer_step(trainer, NULL, NULL, &report, error);
  if (status == CH_OK && saved) status = ch_trainer_save(trainer, saved, error);
  ch_trainer_free(trainer);
  return status;
}

static ch_status train_and_save(const char *directory, ch_error *error) {
  char path[256];
  snprintf(path, sizeof path, "%s/checkpoint.safetensors", directory);
  return train(NULL, path, STEPS, error);
}

static const char *saved_path;

static ch_status resume(const char *directory, ch_error *error) {
  (void)directory;
  ch_train_options options;
  ch_config made_with;
  int64_t step;
  CH_TRY(ch_checkpoint_read_options(saved_path, &options, &made_with, &step, error));
  return train(saved_path, NULL, 1, error);
}

static void checkpoints(void **state) {
  (void)state;
  char made[] = "/tmp/crosshead-test-XXXXXX", path[256];
  ch_error error = {0};
  config = test_config();
  base_options = test_options(4);
  assert_non_null(mkdtemp(made));
  assert_int_equal(train_and_save(made, &error), CH_OK);
  snprintf(path, sizeof path, "%s/checkpoint.safetensors", made);
  saved_path = path;
  check_every_allocation("training two steps", train_and_save, false);
  check_every_allocation("resuming", resume, false);
  left_files(made);
  rmdir(made);
}

/* Fills *made with a comparison that has short curves. */
static void short_comparison(ch_comparison *made, int count) {
  sample_comparison(made, count);
  for (int i = 0; i < count; i++) made->models[i].curve_points = made->models[i].validation_points = 2;
}

/* --- results ------------------------------------------------------------------------------------------------ */

static ch_comparison comparison;

static ch_status write_and_read_results(const char *directory, ch_error *error) {
  char path[256];
  json_t *root = NULL;
  ch_arena arena = {0};
  ch_model_result model;
  snprintf(path, sizeof path, "%s/result.json", directory);
  CH_TRY(ch_write_json(path, ch_model_result_to_json(&comparison.models[0]), CH_DIGITS_EXACT, error));
  ch_status status = ch_json_read(path, 1 << 20, &root, error);
  if (status == CH_OK) status = ch_model_result_from_json(root, path, &arena, &model, error);
  json_decref(root);
  ch_arena_free(&arena);
  unlink(path);
  if (status != CH_OK) return status;
  snprintf(path, sizeof path, "%s/results.json", directory);
  return ch_write_json(path, ch_comparison_to_json(&comparison), CH_DIGITS_SHOWN, error);
}

static void results(void **state) {
  (void)state;
  short_comparison(&comparison, 1);
  check_every_allocation("results", write_and_read_results, false);
  ch_arena_free(&comparison.arena);
}

/* --- sweeps ------------------------------------------------------------------------------------------------- */

static ch_sweep sweep;

static ch_status write_and_read_sweep(const char *directory, ch_error *error) {
  char path[256];
  json_t *root = NULL;
  ch_arena arena = {0};
  ch_sweep_result run;
  snprintf(path, sizeof path, "%s/result.json", directory);
  CH_TRY(ch_write_json(path, ch_sweep_result_to_json(&sweep.runs[0], false), CH_DIGITS_EXACT, error));
  ch_status status = ch_json_read(path, 1 << 20, &root, error);
  if (status == CH_OK) status = ch_sweep_result_from_json(root, path, &arena, &run, error);
  json_decref(root);
  ch_arena_free(&arena);
  unlink(path);
  if (status != CH_OK) return status;
  ch_sweep judged = sweep; /* a copy with its own arena, which is freed */
  judged.about.arena = (ch_arena){0};
  status = ch_sweep_judge(&judged, error);
  snprintf(path, sizeof path, "%s/results.json", directory);
  if (status == CH_OK) status = ch_write_json(path, ch_sweep_to_json(&judged), CH_DIGITS_SHOWN, error);
  ch_arena_free(&judged.about.arena);
  return status;
}

static void sweeps(void **state) {
  (void)state;
  short_comparison(&sweep.about, 1);
  const ch_model_result *model = &sweep.about.models[0];
  ch_sweep_result run = {.name = model->name,
                         .directory = model->name,
                         .mechanism = "gqa",
                         .lr = 1e-3,
                         .seed = 1,
                         .parameters = 1000,
                         .cache_bytes_per_token = 64,
                         .tokens_trained = 2000000,
                         .threads = 1,
                         .validation_loss = model->validation_loss,
                         .training_loss = 3,
                         .train_tokens_per_second = 5,
                         .curve = model->curve,
                         .validation_curve = model->validation_curve,
                         .curve_points = model->curve_points,
                         .validation_points = model->validation_points};
  ch_sweep_choice choice = {.name = model->name};
  sweep.about.count = 0;
  sweep.runs = &run;
  sweep.count = sweep.planned = 1;
  sweep.choices = &choice;
  sweep.mechanisms = 1;
  sweep.budget = 1e9;
  check_every_allocation("sweeps", write_and_read_sweep, false);
  ch_arena_free(&sweep.about.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checkpoints),
      cmocka_unit_test(results),
      cmocka_unit_test(sweeps),
  };
  return RUN_ON_ONE_THREAD(tests);
}
