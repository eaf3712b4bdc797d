/* Tests training with products in BF16: it is close to training in F32, and as repeatable. */
#define _GNU_SOURCE
#include "training.h"

#include "io/safetensors.h"

enum { STEPS = 120, TAIL = 20, SEEDS = 3 };

static ch_train_options bf16_options(int64_t steps) {
  ch_train_options options = test_options(steps);
  options.dtype = CH_BF16;
  return options;
}

/* Returns the mean loss of the last steps. */
static double tail_of(ch_dtype dtype, uint64_t seed) {
  ch_train_options options = test_options(STEPS);
  options.dtype = dtype;
  options.seed = seed;
  ch_trainer *trainer = make_trainer(&options);
  double sum = 0;
  for (int i = 0; i < STEPS; i++) {
    double loss = take_step(trainer).loss;
    if (i >= STEPS - TAIL) sum += loss;
  }
  ch_trainer_free(trainer);
  return sum / TAIL;
}

static void losses_are_those_of_f32_within_the_noise_of_seeds(void **state) {
  (void)state;
  double narrow[SEEDS], least = INFINITY, most = -INFINITY, far = 0;
  for (int s = 0; s < SEEDS; s++) {
    double exact = tail_of(CH_F32, 11 + (uint64_t)s);
    narrow[s] = tail_of(CH_BF16, 11 + (uint64_t)s) - exact;
    far += narrow[s] / SEEDS;
    least = fmin(least, exact);
    most = fmax(most, exact);
  }
  assert_true(most - least > 0.002); /* seeds differ */
  assert_true(fabs(far) < most - least);
  for (int s = 0; s < SEEDS; s++) assert_true(narrow[s] != 0 && fabs(narrow[s]) < 0.05);
}

static void a_resumed_run_equals_an_unbroken_one_to_the_last_bit(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, "checkpoint.safetensors");
  ch_train_options options = bf16_options(7);
  options.micro_batch = 2;
  options.recompute = true;
  ch_trainer *unbroken = make_trainer(&options), *first = make_trainer(&options);
  for (int i = 0; i < 7; i++) take_step(unbroken);
  for (int i = 0; i < 4; i++) take_step(first);
  assert_ok(ch_trainer_save(first, path, &failure));
  ch_trainer_free(first);
  options.recompute = false; /* a resumed run may change it without changing a bit */
  ch_trainer *second = make_trainer(&options);
  assert_ok(ch_trainer_resume(second, path, &failure));
  for (int i = 4; i < 7; i++) take_step(second);
  assert_same_state(unbroken, second);
  ch_trainer_free(unbroken);
  ch_trainer_free(second);
  ch_train_options narrow = options;
  narrow.dtype = CH_F32;
  ch_trainer *other = make_trainer(&narrow);
  ch_error error = {0};
  assert_int_not_equal(ch_trainer_resume(other, path, &error), CH_OK);
  assert_non_null(strstr(error.message, "type"));
  ch_trainer_free(other);
  free(path);
  remove_directory(directory);
}

/* Weights are rounded once per step, however many passes it has; the loss is that of the rounded weights. */
static void micro_batches_and_accumulation_give_nearly_one_result(void **state) {
  (void)state;
  ch_train_options whole = bf16_options(3);
  whole.batch = whole.micro_batch = 6;
  ch_train_options parts = whole;
  parts.batch = parts.micro_batch = 2;
  parts.accumulate = 3;
  ch_trainer *a = make_trainer(&whole), *b = make_trainer(&parts);
  for (int i = 0; i < 3; i++) {
    double one = take_step(a).loss, other = take_step(b).loss;
    if (!(fabs(one - other) < 2e-4 * one)) fail_msg("step %d: losses %.9g and %.9g", i + 1, one, other);
  }
  ch_trainer_free(a);
  ch_trainer_free(b);
}

static void the_saved_model_has_the_weights_in_f32(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, "model.safetensors");
  ch_train_options options = bf16_options(5);
  ch_trainer *trainer = make_trainer(&options);
  take_step(trainer);
  assert_ok(ch_trainer_export(trainer, directory, &failure));
  ch_safetensors file;
  assert_ok(ch_safetensors_open(path, &file, &failure));
  const ch_params *params = ch_trainer_params(trainer);
  for (int p = 0; p < params->count; p++) {
    const ch_stored_tensor *stored = ch_safetensors_find(&file, params->rows[p].name);
    assert_non_null(stored);
    assert_int_equal(stored->tensor.dtype, CH_F32);
    assert_memory_equal(stored->tensor.data, ch_trainer_weights(trainer)[p].data,
                        ch_tensor_bytes(&stored->tensor));
  }
  ch_safetensors_close(&file);
  ch_trainer_free(trainer);
  free(path);
  remove_directory(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_are_those_of_f32_within_the_noise_of_seeds),
      cmocka_unit_test(a_resumed_run_equals_an_unbroken_one_to_the_last_bit),
      cmocka_unit_test(micro_batches_and_accumulation_give_nearly_one_result),
      cmocka_unit_test(the_saved_model_has_the_weights_in_f32),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
