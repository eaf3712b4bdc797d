/* Tests the trainer: parity with transformers, learning, equivalent ways to divide a step, resuming, and
 * values that are not finite. */
#define _GNU_SOURCE
#include "training.h"

#include <jansson.h>
#include <omp.h>

#include "io/safetensors.h"
#include "config/params.h"
#include "config_file/config_json.h"

/* --- against transformers ----------------------------------------------------------------------------------- */

/* The reference's tokens, the same for every step. */
typedef struct reference {
  int64_t sequences, length;
  const int32_t *tokens;
} reference;

static ch_status reference_batch(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  (void)first;
  (void)error;
  const reference *r = context;
  for (int64_t i = 0; i < r->sequences * r->length; i++) {
    batch->tokens[i] = r->tokens[i];
    batch->targets[i] = (i + 1) % r->length ? r->tokens[i + 1] : -1;
  }
  return CH_OK;
}

static void read_losses(const char *directory, double losses[10]) {
  char *text = read_whole(directory, "ref.json");
  json_t *root = json_loads(text, 0, NULL);
  const json_t *list = json_object_get(json_object_get(root, "adamw"), "losses_before_step");
  assert_int_equal(json_array_size(list), 10);
  for (size_t i = 0; i < 10; i++) losses[i] = json_number_value(json_array_get(list, i));
  json_decref(root);
  free(text);
}

/* In the reference, the row of the padding token, 0, gets no gradient and only decays. Sets the trainer's row to
   this value. */
static void undo_padding_gradient(ch_trainer *trainer, float *row) {
  const ch_tensor *embedding = &ch_trainer_weights(trainer)[0];
  for (int64_t i = 0; i < embedding->shape[1]; i++) row[i] -= (float)(0.01 * 0.1) * row[i];
  memcpy(embedding->data, row, (size_t)embedding->shape[1] * sizeof *row);
}

/* Checks ten AdamW steps from the reference's weights: every loss, and every weight afterwards. */
static void check_reference(const char *name) {
  char directory[512], path[600];
  snprintf(directory, sizeof directory, "%s/reference/%s", TEST_DATA, name);
  ch_config config;
  ch_safetensors ref, after;
  assert_ok(ch_config_read(directory, &config, &failure));
  snprintf(path, sizeof path, "%s/ref.safetensors", directory);
  assert_ok(ch_safetensors_open(path, &ref, &failure));
  snprintf(path, sizeof path, "%s/after10.safetensors", directory);
  assert_ok(ch_safetensors_open(path, &after, &failure));
  const ch_stored_tensor *tokens = ch_safetensors_find(&ref, "input_ids");
  reference text = {tokens->tensor.shape[0], tokens->tensor.shape[1], tokens->tensor.data};
  double losses[10];
  read_losses(directory, losses);

  ch_train_options options;
  ch_train_options_default(&config, &options);
  options.steps = 10;
  options.batch = text.sequences;
  options.sequence = text.length;
  options.lr = 0.01;
  options.schedule = CH_TRAIN_CONSTANT;
  options.warmup = 0;
  options.clip = 0;
  ch_batch_source source = {.context = &text, .train = reference_batch};
  ch_trainer *trainer;
  assert_ok(ch_trainer_create(&config, &options, &source, &trainer, &failure));
  assert_ok(ch_trainer_load_weights(trainer, directory, &failure));
  /* The reference decayed its norm weights too. */
  ch_params *params = (ch_params *)(uintptr_t)ch_trainer_params(trainer);
  for (int p = 0; p < params->count; p++) params->rows[p].decay = true;
  float padding[64];
  memcpy(padding, ch_trainer_weights(trainer)[0].data, (size_t)config.hidden_size * sizeof *padding);
  for (int i = 0; i < 10; i++) {
    double loss = take_step(trainer).loss;
    undo_padding_gradient(trainer, padding);
    if (fabs(loss - losses[i]) > 2e-5 * losses[i])
      fail_msg("step %d: loss %.9g, reference %.9g", i + 1, loss, losses[i]);
  }
  for (int p = 0; p < params->count; p++) {
    const ch_stored_tensor *stored = ch_safetensors_find(&after, params->rows[p].name);
    assert_non_null(stored);
    const float *got = ch_trainer_weights(trainer)[p].data, *expected = stored->tensor.data;
    double worst = 0;
    for (int64_t i = 0; i < ch_param_count(&params->rows[p]); i++)
      worst = fmax(worst, fabs((double)got[i] - (double)expected[i]));
    /* Ten steps of at most 0.01 moved each weight by up to 0.1. */
    if (worst > 2e-4) fail_msg("%s is off by %g", params->rows[p].name, worst);
  }
  ch_trainer_free(trainer);
  ch_safetensors_close(&ref);
  ch_safetensors_close(&after);
}

static void ten_steps_of_a_llama_with_grouped_queries_match_transformers(void **state) {
  (void)state;
  check_reference("llama_gqa");
}

static void ten_steps_of_a_qwen3_match_transformers(void **state) {
  (void)state;
  check_reference("qwen3");
}

/* --- learning ----------------------------------------------------------------------------------------------- */

static void the_loss_starts_at_the_uniform_one_and_falls(void **state) {
  (void)state;
  ch_train_options options = test_options(120);
  ch_trainer *trainer = make_trainer(&options);
  double first = take_step(trainer).loss, last = first;
  assert_true(fabs(first - log(TEST_VOCABULARY)) < 0.05);
  double before, after;
  assert_ok(ch_trainer_evaluate(trainer, NULL, NULL, &before, &failure));
  for (int i = 1; i < 120; i++) last = take_step(trainer).loss;
  assert_ok(ch_trainer_evaluate(trainer, NULL, NULL, &after, &failure));
  assert_true(last < 1.5);
  assert_true(before > 4 && after < 1.5);
  ch_trainer_free(trainer);
}

/* Fills a batch with the bytes of a text as tokens. */
static ch_status bytes_of_text(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  (void)error;
  const char *text = context;
  int64_t size = (int64_t)strlen(text);
  for (int64_t s = 0; s < batch->sequences; s++)
    for (int64_t t = 0; t < batch->length; t++) {
      int64_t at = ((first + s) * batch->length + t) % (size - 1);
      batch->tokens[s * batch->length + t] = text[at] & 0x7f;
      batch->targets[s * batch->length + t] = text[at + 1] & 0x7f;
    }
  return CH_OK;
}

static void the_loss_falls_on_real_text(void **state) {
  (void)state;
  char *text = read_whole(TEST_DATA "/../..", "LICENSE");
  ch_config config = test_config();
  config.vocab_size = 128;
  ch_train_options options = test_options(150);
  options.sequence = 48;
  options.schedule = CH_TRAIN_COSINE;
  ch_batch_source source = {.context = text, .train = bytes_of_text};
  ch_trainer *trainer;
  assert_ok(ch_trainer_create(&config, &options, &source, &trainer, &failure));
  double first = take_step(trainer).loss, last = first;
  for (int i = 1; i < 150; i++) last = take_step(trainer).loss;
  assert_true(first > 4.7 && last < 2.7); /* letters alone, without context, cost about 3.1 */
  ch_trainer_free(trainer);
  free(text);
}

/* --- ways to cut a step ------------------------------------------------------------------------------------- */

/* Trains options.steps steps and returns the trainer. */
static ch_trainer *trained(ch_train_options options) {
  ch_trainer *trainer = make_trainer(&options);
  for (int64_t i = 0; i < options.steps; i++) take_step(trainer);
  return trainer;
}

static void assert_nearly_same(const ch_trainer *a, const ch_trainer *b, double tolerance) {
  const ch_params *params = ch_trainer_params(a);
  for (int p = 0; p < params->count; p++) {
    const double *left = ch_trainer_weights(a)[p].data, *right = ch_trainer_weights(b)[p].data;
    for (int64_t i = 0; i < ch_param_count(&params->rows[p]); i++)
      if (fabs(left[i] - right[i]) > tolerance)
        fail_msg("%s [%lld]: %.12g and %.12g", params->rows[p].name, (long long)i, left[i], right[i]);
  }
}

/* Trains in double, so that rounding cannot hide a wrong weighting. Documents make the numbers of predicted
   tokens differ between parts. */
static void batches_accumulation_and_micro_batches_give_one_result(void **state) {
  (void)state;
  ch_train_options whole = test_options(3);
  whole.dtype = CH_F64;
  whole.documents = true;
  whole.batch = whole.micro_batch = 6;
  ch_train_options halves = whole, thirds = whole, both = whole;
  halves.micro_batch = 3;
  thirds.batch = thirds.micro_batch = 2;
  thirds.accumulate = 3;
  both.batch = 2;
  both.accumulate = 3;
  both.micro_batch = 1;
  ch_trainer *at_once = trained(whole), *others[3] = {trained(halves), trained(thirds), trained(both)};
  for (int i = 0; i < 3; i++) {
    assert_nearly_same(at_once, others[i], 1e-10);
    ch_trainer_free(others[i]);
  }
  ch_trainer_free(at_once);
}

static void recomputing_activations_changes_no_bit(void **state) {
  (void)state;
  ch_train_options keep = test_options(4), drop = keep;
  drop.recompute = true;
  ch_trainer *a = trained(keep), *b = trained(drop);
  assert_same_state(a, b);
  assert_true(ch_trainer_bytes(b) <= ch_trainer_bytes(a));
  ch_trainer_free(a);
  ch_trainer_free(b);
}

static void two_runs_agree_to_the_last_bit_and_thread_counts_nearly(void **state) {
  (void)state;
  int before = omp_get_max_threads();
  ch_train_options options = test_options(6);
  omp_set_num_threads(2);
  ch_trainer *a = trained(options), *b = trained(options);
  assert_same_state(a, b);
  omp_set_num_threads(1);
  ch_trainer *c = trained(options);
  ch_progress_record left, right;
  ch_trainer_progress(a, &left);
  ch_trainer_progress(c, &right);
  for (int i = 0; i < 6; i++) assert_true(fabs(left.losses[i] - right.losses[i]) < 1e-4);
  omp_set_num_threads(before);
  ch_trainer_free(a);
  ch_trainer_free(b);
  ch_trainer_free(c);
}

static void documents_kept_apart_change_the_loss(void **state) {
  (void)state;
  ch_train_options apart = test_options(3), together = apart;
  apart.documents = true;
  ch_trainer *a = trained(apart), *b = trained(together);
  ch_progress_record left, right;
  ch_trainer_progress(a, &left);
  ch_trainer_progress(b, &right);
  assert_true(left.losses[1] != right.losses[1]);
  ch_trainer_free(a);
  ch_trainer_free(b);
}

/* Returns the length of the difference of all weights (in double). */
static double distance(const ch_trainer *a, const ch_trainer *b) {
  const ch_params *params = ch_trainer_params(a);
  double sum = 0;
  for (int p = 0; p < params->count; p++)
    for (int64_t i = 0; i < ch_param_count(&params->rows[p]); i++) {
      double x = ((double *)ch_trainer_weights(a)[p].data)[i] - ((double *)ch_trainer_weights(b)[p].data)[i];
      sum += x * x;
    }
  return sqrt(sum);
}

static void a_small_limit_on_the_gradient_is_kept(void **state) {
  (void)state;
  /* One step from equal weights, with betas of 0 and an eps so large that the update is proportional to the gradient:
     lr / eps * scale * gradient. */
  ch_train_options options = test_options(1);
  options.dtype = CH_F64;
  options.warmup = 0;
  options.beta1 = options.beta2 = 0;
  options.eps = 1;
  options.weight_decay = 0;
  options.lr = 1e-3;
  const double limits[3] = {0, 1e-4, 1e9};
  double moved[3];
  ch_step_report report[3];
  for (int i = 0; i < 3; i++) {
    options.clip = limits[i];
    ch_trainer *before = make_trainer(&options), *trainer = make_trainer(&options);
    report[i] = take_step(trainer);
    moved[i] = distance(before, trainer);
    ch_trainer_free(before);
    ch_trainer_free(trainer);
  }
  assert_true(report[0].grad_norm > 0.1 && report[0].grad_norm == report[1].grad_norm);
  assert_int_equal(report[0].tokens, 6 * 24);
  assert_true(report[0].lr == options.lr);
  assert_true(moved[0] == moved[2]);
  assert_true(fabs(moved[1] / (1e-3 * 1e-4) - 1) < 1e-3);
}

/* --- saving and resuming ------------------------------------------------------------------------------------ */

static void a_resumed_run_equals_an_unbroken_one_to_the_last_bit(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, "checkpoint.safetensors");
  ch_train_options options = test_options(9);
  options.documents = true;
  ch_trainer *unbroken = make_trainer(&options), *first = make_trainer(&options);
  double loss;
  for (int i = 1; i <= 9; i++) {
    take_step(unbroken);
    if (i % 4 == 0) assert_ok(ch_trainer_evaluate(unbroken, NULL, NULL, &loss, &failure));
  }
  for (int i = 1; i <= 5; i++) {
    take_step(first);
    if (i % 4 == 0) assert_ok(ch_trainer_evaluate(first, NULL, NULL, &loss, &failure));
  }
  assert_ok(ch_trainer_save(first, path, &failure));
  ch_trainer_free(first);
  ch_trainer *second = make_trainer(&options);
  assert_ok(ch_trainer_resume(second, path, &failure));
  for (int i = 6; i <= 9; i++) {
    take_step(second);
    if (i % 4 == 0) assert_ok(ch_trainer_evaluate(second, NULL, NULL, &loss, &failure));
  }
  assert_same_state(unbroken, second);
  ch_progress_record record;
  ch_trainer_progress(second, &record);
  assert_int_equal(record.validation_points, 2);
  assert_true(record.seconds > 0);
  ch_trainer_free(unbroken);
  ch_trainer_free(second);
  free(path);
  remove_directory(directory);
}

/* Resumes the checkpoint at `path` with these options and expects an error that contains `part`. */
static void refuse(const char *path, const ch_config *config, const ch_train_options *options,
                   const ch_batch_source *source, const char *part) {
  ch_trainer *trainer;
  ch_error error = {0};
  assert_ok(ch_trainer_create(config, options, source, &trainer, &failure));
  assert_int_not_equal(ch_trainer_resume(trainer, path, &error), CH_OK);
  if (!strstr(error.message, part)) fail_msg("\"%s\" lacks \"%s\"", error.message, part);
  ch_trainer_free(trainer);
}

static void a_checkpoint_of_another_run_is_refused_by_what_differs(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, "checkpoint.safetensors");
  ch_train_options options = test_options(9);
  ch_trainer *trainer = make_trainer(&options);
  take_step(trainer);
  assert_ok(ch_trainer_save(trainer, path, &failure));
  ch_trainer_free(trainer);

  ch_config config = test_config();
  ch_batch_source source = made_up_source();
  ch_train_options other = options;
  other.lr = 0.1;
  refuse(path, &config, &other, &source, "lr 0.005, not 0.1");
  other = options;
  other.seed = 6;
  refuse(path, &config, &other, &source, "seed");
  other = options;
  other.dtype = CH_F64;
  refuse(path, &config, &other, &source, "type");
  other = options;
  other.micro_batch = 2;
  refuse(path, &config, &other, &source, "micro_batch");
  ch_config wider = config;
  wider.intermediate_size = 64;
  refuse(path, &wider, &options, &source, "intermediate_size");
  ch_config plain = config;
  plain.attention.qk_norm = false;
  refuse(path, &plain, &options, &source, "attention.qk_norm");
  ch_batch_source text = source;
  snprintf(text.fingerprint, sizeof text.fingerprint, "another text");
  refuse(path, &config, &options, &text, "another text or tokenizer");
  char *missing = ch_path_join(directory, "missing.safetensors");
  refuse(missing, &config, &options, &source, "missing.safetensors");
  free(missing);
  free(path);
  remove_directory(directory);
}

static void damaged_checkpoints_are_refused(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, "checkpoint.safetensors");
  ch_train_options options = test_options(9);
  ch_config config = test_config();
  ch_batch_source source = made_up_source();
  ch_trainer *trainer = make_trainer(&options);
  take_step(trainer);
  assert_ok(ch_trainer_save(trainer, path, &failure));
  char *bytes = NULL;
  size_t size = 0;
  assert_ok(ch_read_file(path, 1 << 24, &bytes, &size, &failure));
  assert_ok(ch_write_file(path, bytes, size / 2, &failure));
  refuse(path, &config, &options, &source, path);
  /* A model is not a checkpoint. */
  assert_ok(ch_trainer_export(trainer, directory, &failure));
  char *model = ch_path_join(directory, "model.safetensors");
  refuse(model, &config, &options, &source, "not a training checkpoint");
  ch_trainer_free(trainer);
  free(model);
  free(bytes);
  free(path);
  remove_directory(directory);
}

static void a_constant_schedule_may_be_prolonged(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, "checkpoint.safetensors");
  ch_train_options options = test_options(4), longer;
  options.schedule = CH_TRAIN_CONSTANT;
  ch_trainer *first = trained(options);
  assert_ok(ch_trainer_save(first, path, &failure));
  ch_trainer_free(first);
  longer = options;
  longer.steps = 7;
  ch_trainer *second = make_trainer(&longer), *unbroken = trained(longer);
  assert_ok(ch_trainer_resume(second, path, &failure));
  for (int i = 0; i < 3; i++) take_step(second);
  assert_same_state(unbroken, second);
  ch_train_options read;
  ch_config config;
  int64_t step;
  assert_ok(ch_checkpoint_read_options(path, &read, &config, &step, &failure));
  assert_true(read.lr == options.lr && read.steps == 4 && step == 4 && config.hidden_size == 32);
  assert_true(read.micro_batch > 0);
  ch_trainer_free(second);
  ch_trainer_free(unbroken);
  free(path);
  remove_directory(directory);
}

/* --- numbers gone wrong, and being stopped ------------------------------------------------------------------ */

static float *weight_named(ch_trainer *trainer, const char *name) {
  int p = ch_params_find(ch_trainer_params(trainer), name);
  assert_true(p >= 0);
  return ch_trainer_weights(trainer)[p].data;
}

static void a_weight_that_is_not_finite_stops_the_run_by_name(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, "checkpoint.safetensors");
  ch_train_options options = test_options(9);
  ch_trainer *trainer = make_trainer(&options);
  take_step(trainer);
  assert_ok(ch_trainer_save(trainer, path, &failure));
  char *good = NULL, *still = NULL;
  size_t size, size_now;
  assert_ok(ch_read_file(path, 1 << 24, &good, &size, &failure));
  weight_named(trainer, "model.layers.1.mlp.up_proj.weight")[7] = NAN;
  ch_step_report report;
  ch_error error = {0};
  assert_int_equal(ch_trainer_step(trainer, NULL, NULL, &report, &error), CH_ERROR_NUMERIC);
  assert_non_null(strstr(error.message, "step 2"));
  assert_non_null(strstr(error.message, "model.layers.1.mlp.up_proj.weight"));
  /* A state that is not finite never replaces a good checkpoint. */
  assert_int_equal(ch_trainer_save(trainer, path, &error), CH_ERROR_NUMERIC);
  assert_non_null(strstr(error.message, "model.layers.1.mlp.up_proj.weight"));
  assert_ok(ch_read_file(path, 1 << 24, &still, &size_now, &failure));
  assert_int_equal(size, size_now);
  assert_memory_equal(good, still, size);
  ch_trainer_free(trainer);
  free(good);
  free(still);
  free(path);
  remove_directory(directory);
}

static void a_gradient_that_overflows_is_named_and_changes_no_weight(void **state) {
  (void)state;
  ch_train_options options = test_options(9);
  ch_trainer *trainer = make_trainer(&options), *untouched = make_trainer(&options);
  /* An FFN whose hidden values are 0 adds 0 however large its last matrix is; the gradient that flows back through
     that matrix overflows, as the scale of the last norm makes it large. */
  for (int side = 0; side < 2; side++) {
    ch_trainer *t = side ? untouched : trainer;
    float *last = weight_named(t, "model.norm.weight");
    float *gate = weight_named(t, "model.layers.0.mlp.gate_proj.weight");
    float *up = weight_named(t, "model.layers.0.mlp.up_proj.weight");
    float *down = weight_named(t, "model.layers.0.mlp.down_proj.weight");
    for (int i = 0; i < 32; i++) last[i] = 1e5f;
    for (int i = 0; i < 32 * 48; i++) gate[i] = up[i] = 0, down[i] = 3e38f;
  }
  ch_step_report report;
  ch_error error = {0};
  assert_int_equal(ch_trainer_step(trainer, NULL, NULL, &report, &error), CH_ERROR_NUMERIC);
  assert_non_null(strstr(error.message, "step 1"));
  assert_non_null(strstr(error.message, "gradient of model."));
  assert_same_state(trainer, untouched);
  ch_trainer_free(trainer);
  ch_trainer_free(untouched);
}

static bool stop_at_third_question(void *context) {
  return ++*(int *)context == 3;
}

static void a_step_stopped_half_way_is_taken_again_in_full(void **state) {
  (void)state;
  ch_train_options options = test_options(2);
  options.warmup = 0;
  options.micro_batch = 2;
  ch_trainer *stopped = make_trainer(&options), *unbroken = trained(options);
  int asked = 0;
  ch_step_report report;
  ch_error error = {0};
  assert_int_equal(ch_trainer_step(stopped, stop_at_third_question, &asked, &report, &error),
                   CH_ERROR_INTERRUPTED);
  take_step(stopped);
  take_step(stopped);
  assert_same_state(stopped, unbroken);
  assert_int_equal(ch_trainer_step(stopped, NULL, NULL, &report, &error), CH_ERROR_ARGUMENT);
  ch_trainer_free(stopped);
  ch_trainer_free(unbroken);
}

static void an_evaluation_covers_exactly_the_tokens_asked_for(void **state) {
  (void)state;
  ch_train_options options = test_options(3);
  options.micro_batch = 3; /* does not divide the five validation sequences */
  ch_trainer *all = make_trainer(&options);
  options.micro_batch = 1;
  ch_trainer *one = make_trainer(&options);
  options.eval_tokens = 24 + 1; /* two sequences */
  options.micro_batch = 6;
  ch_trainer *two = make_trainer(&options);
  options.micro_batch = 2;
  ch_trainer *same = make_trainer(&options);
  ch_trainer *trainers[4] = {all, one, two, same};
  double loss[4];
  for (int i = 0; i < 4; i++) {
    take_step(trainers[i]);
    assert_ok(ch_trainer_evaluate(trainers[i], NULL, NULL, &loss[i], &failure));
    ch_trainer_free(trainers[i]);
  }
  assert_true(fabs(loss[0] - loss[1]) < 1e-5 && fabs(loss[2] - loss[3]) < 1e-5);
  assert_true(fabs(loss[0] - loss[2]) > 1e-4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ten_steps_of_a_llama_with_grouped_queries_match_transformers),
      cmocka_unit_test(ten_steps_of_a_qwen3_match_transformers),
      cmocka_unit_test(the_loss_starts_at_the_uniform_one_and_falls),
      cmocka_unit_test(the_loss_falls_on_real_text),
      cmocka_unit_test(batches_accumulation_and_micro_batches_give_one_result),
      cmocka_unit_test(recomputing_activations_changes_no_bit),
      cmocka_unit_test(two_runs_agree_to_the_last_bit_and_thread_counts_nearly),
      cmocka_unit_test(documents_kept_apart_change_the_loss),
      cmocka_unit_test(a_small_limit_on_the_gradient_is_kept),
      cmocka_unit_test(a_resumed_run_equals_an_unbroken_one_to_the_last_bit),
      cmocka_unit_test(a_checkpoint_of_another_run_is_refused_by_what_differs),
      cmocka_unit_test(damaged_checkpoints_are_refused),
      cmocka_unit_test(a_constant_schedule_may_be_prolonged),
      cmocka_unit_test(a_weight_that_is_not_finite_stops_the_run_by_name),
      cmocka_unit_test(a_gradient_that_overflows_is_named_and_changes_no_weight),
      cmocka_unit_test(a_step_stopped_half_way_is_taken_again_in_full),
      cmocka_unit_test(an_evaluation_covers_exactly_the_tokens_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
