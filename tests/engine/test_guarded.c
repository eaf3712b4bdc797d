/* Tests that only kernels access values. Models of every mechanism run and decode, and some models train, on an engine
 * whose memory other code cannot access (engine/guarded.h). The results must be right. In training, every bit must
 * equal that of a run in ordinary memory. */
#include "train/training.h"

#include <omp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attention/mechanisms/mechanism.h"
#include "engine/guarded.h"

enum { STEPS = 4 };

/* --- training ---------------------------------------------------------------------------------------------- */

/* Losses of a few steps, and the weights after them. */
typedef struct outcome {
  double loss[STEPS], validation;
  ch_host_tensors weights;
  ch_trainer *trainer;
} outcome;

static void train(const ch_config *config, ch_dtype dtype, bool guarded, outcome *o) {
  ch_train_options options;
  ch_train_options_default(config, &options);
  options.steps = STEPS;
  options.batch = 4;
  options.micro_batch = 2;
  options.sequence = 24;
  options.dtype = dtype;
  options.documents = true;
  ch_batch_source source = made_up_source();
  use_guarded_memory(guarded);
  assert_ok(ch_trainer_create(config, &options, &source, &o->trainer, &failure));
  for (int i = 0; i < STEPS; i++) o->loss[i] = take_step(o->trainer).loss;
  assert_ok(ch_trainer_evaluate(o->trainer, NULL, NULL, &o->validation, &failure));
  assert_ok(ch_trainer_read_weights(o->trainer, &o->weights, &failure));
}

static void assert_trains_alike(const ch_config *config, ch_dtype dtype) {
  outcome host, guarded;
  train(config, dtype, false, &host);
  train(config, dtype, true, &guarded);
  use_guarded_memory(false);
  assert_memory_equal(host.loss, guarded.loss, sizeof host.loss);
  assert_memory_equal(&host.validation, &guarded.validation, sizeof host.validation);
  for (int p = 0; p < ch_trainer_params(host.trainer)->count; p++)
    assert_memory_equal(host.weights.tensors[p].data, guarded.weights.tensors[p].data,
                        ch_tensor_bytes(&host.weights.tensors[p]));
  ch_host_tensors_free(&host.weights);
  ch_host_tensors_free(&guarded.weights);
  ch_trainer_free(host.trainer);
  ch_trainer_free(guarded.trainer);
}

static void training_is_what_it_is_in_the_hosts_memory(void **state) {
  (void)state;
  const ch_config plain = test_config(), experts = test_config_with_experts(CH_BALANCE_AUX),
                  biased = test_config_with_experts(CH_BALANCE_LOSS_FREE);
  const ch_dtype types[] = {CH_F32, CH_BF16, CH_F64};
  for (int i = 0; i < 3; i++) {
    assert_trains_alike(&plain, types[i]);
    assert_trains_alike(&experts, types[i]);
    assert_trains_alike(&biased, types[i]);
  }
}

/* --- the guard itself --------------------------------------------------------------------------------------- */

static void a_program_that_reads_a_value_dies(void **state) {
  (void)state;
  const volatile char *value = guarded_bytes(64);
  assert_non_null(value);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); /* sanitizers catch the signal otherwise */
    _exit(value[0] == 0 ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGSEGV);
}

/* --- every mechanism --------------------------------------------------------------------------------------- */

/* Adds every STRIDE-th of a mechanism's combinations, and one with experts. */
static void add_some(const tested_mechanism *mechanism, combination_list *list) {
  enum { STRIDE = 64 };
  static combination_list all;
  all = (combination_list){0};
  mechanism->combinations(&all);
  for (int i = 0; i < all.count && list->count < MOST_COMBINATIONS; i += STRIDE)
    list->items[list->count++] = all.items[i];
  if (mechanism->with_experts->attention)
    add_combination(list, "'moe': {'experts': 4, 'active': 2, 'shared': 1, 'expert_intermediate_size': 6}",
                    mechanism->name, mechanism->with_experts->attention);
}

int main(void) {
  static combination_list list;
  omp_set_num_threads(1);
  const struct CMUnitTest training[] = {cmocka_unit_test(a_program_that_reads_a_value_dies),
                                        cmocka_unit_test(training_is_what_it_is_in_the_hosts_memory)};
  int failed = cmocka_run_group_tests(training, NULL, NULL);
  for (const tested_mechanism *const *m = tested_mechanisms(); *m; m++) add_some(*m, &list);
  add_combination(&list, "'sharing': {'type': 'masa', 'projections': ['q', 'k', 'v', 'o'], 'atoms': 1}",
                  "gqa", "");
  use_guarded_memory(true);
  failed += run_values_of_combinations(&list);
  print_message("%ld kernels and products on guarded memory\n", guarded_calls());
  return failed + (guarded_calls() == 0);
}
