/* Two trainers that agree train as one does on all their sequences; where one fails, neither makes the step. */
#include "training.h"

#include <pthread.h>

enum { MACHINES = 2, STEPS = 5, BATCH = 3, MOST_LOADS = 64 };

/* --- machines of one process --------------------------------------------------------------------------------- */

/* What they share. Everyone adds its part, waits for the others, reads, and waits again before the next round begins. */
typedef struct meeting {
  pthread_barrier_t barrier;
  pthread_mutex_t lock;
  ch_step_counts counts;
  ch_step_sums sums;
  int64_t load[MOST_LOADS];
  double *gradients; /* all tensors after each other */
  int64_t elements;
  ch_status status; /* the first that is not CH_OK */
} meeting;

typedef struct machine {
  meeting *together;
  int index;
  int fails_in; /* a step, or 0 */
  ch_trainer *trainer;
  ch_status status;
  ch_error error;
  ch_step_report report;
} machine;

static void meet(meeting *m) {
  pthread_barrier_wait(&m->barrier);
}

static ch_status shared_status(machine *self, ch_status own, ch_error *error) {
  ch_status all = self->together->status;
  if (own != CH_OK || all == CH_OK) return own;
  return ch_fail(error, all, "another machine failed");
}

/* The last to leave a round empties what was added up in it. */
static void leave(meeting *m) {
  meet(m);
  pthread_mutex_lock(&m->lock);
  m->counts = (ch_step_counts){0};
  m->sums = (ch_step_sums){0};
  memset(m->load, 0, sizeof m->load);
  memset(m->gradients, 0, (size_t)m->elements * sizeof *m->gradients);
  m->status = CH_OK;
  pthread_mutex_unlock(&m->lock);
  meet(m);
}

static ch_status agree_on_counts(void *context, ch_status status, ch_step_counts *counts, ch_error *error) {
  machine *self = context;
  meeting *m = self->together;
  pthread_mutex_lock(&m->lock);
  m->counts.sequences += counts->sequences;
  m->counts.predicted += counts->predicted;
  if (m->status == CH_OK) m->status = status;
  pthread_mutex_unlock(&m->lock);
  meet(m);
  *counts = m->counts;
  status = shared_status(self, status, error);
  leave(m);
  return status;
}

static ch_status agree_on_sums(void *context, ch_status status, ch_step_sums *sums,
                               const ch_parameter_set *set, ch_error *error) {
  machine *self = context;
  meeting *m = self->together;
  pthread_mutex_lock(&m->lock);
  m->sums.loss += sums->loss;
  m->sums.balance_loss += sums->balance_loss;
  for (int64_t i = 0; i < sums->expert_loads; i++) m->load[i] += sums->expert_load[i];
  double *at = m->gradients;
  for (int p = 0; p < set->params->count; at += ch_tensor_count(&set->gradients[p++]))
    for (int64_t i = 0; i < ch_tensor_count(&set->gradients[p]); i++)
      at[i] += ((const double *)set->gradients[p].data)[i];
  if (m->status == CH_OK) m->status = status;
  pthread_mutex_unlock(&m->lock);
  meet(m);
  sums->loss = m->sums.loss;
  sums->balance_loss = m->sums.balance_loss;
  for (int64_t i = 0; i < sums->expert_loads; i++) sums->expert_load[i] = m->load[i];
  at = m->gradients;
  for (int p = 0; p < set->params->count; at += ch_tensor_count(&set->gradients[p++]))
    memcpy(set->gradients[p].data, at, ch_tensor_bytes(&set->gradients[p]));
  status = shared_status(self, status, error);
  leave(m);
  return status;
}

/* --- their text ---------------------------------------------------------------------------------------------- */

/* Sequence `index` of the whole text; every fourth has fewer targets, so that machines predict different numbers. */
static void put_sequence(const ch_batch *batch, int64_t row, int64_t index) {
  made_up_sequence(batch, row, index, 1);
  for (int64_t t = 0; index % 4 == 0 && t < batch->length / 2; t++)
    batch->targets[row * batch->length + t] = -1;
}

static ch_status whole_text(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  (void)context;
  (void)error;
  for (int64_t s = 0; s < batch->sequences; s++) put_sequence(batch, s, first + s);
  return CH_OK;
}

/* Of every step's MACHINES * BATCH sequences those of one machine. */
static ch_status own_share(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  const machine *self = context;
  int64_t step = first / batch->sequences;
  if (self->fails_in == step + 1) return ch_fail(error, CH_ERROR_IO, "the text is gone");
  for (int64_t s = 0; s < batch->sequences; s++)
    put_sequence(batch, s, (step * MACHINES + self->index) * batch->sequences + s);
  return CH_OK;
}

/* --- training ------------------------------------------------------------------------------------------------ */

static ch_train_options options_of(int64_t batch) {
  ch_train_options options = test_options(STEPS);
  options.batch = batch;
  options.micro_batch = 1;
  options.dtype = CH_F64;
  options.clip = 0.05;
  return options;
}

static ch_trainer *create(const ch_config *config, int64_t batch, ch_batch_source source) {
  ch_train_options options = options_of(batch);
  ch_trainer *trainer;
  assert_ok(ch_trainer_create(config, &options, &source, &trainer, &failure));
  return trainer;
}

static void *train(void *context) {
  machine *self = context;
  for (int step = 0; step < STEPS && self->status == CH_OK; step++)
    self->status = ch_trainer_step(self->trainer, NULL, NULL, &self->report, &self->error);
  return NULL;
}

static void open_machines(const ch_config *config, meeting *m, machine machines[MACHINES]) {
  pthread_barrier_init(&m->barrier, NULL, MACHINES);
  pthread_mutex_init(&m->lock, NULL);
  for (int i = 0; i < MACHINES; i++) {
    machines[i].together = m;
    machines[i].index = i;
    machines[i].trainer =
        create(config, BATCH, (ch_batch_source){.train = own_share, .context = &machines[i]});
    ch_trainer_agree_with(
        machines[i].trainer,
        &(ch_agreement){.context = &machines[i], .counts = agree_on_counts, .sums = agree_on_sums});
  }
  const ch_params *params = ch_trainer_params(machines[0].trainer);
  for (int p = 0; p < params->count; p++) m->elements += ch_param_count(&params->rows[p]);
  m->gradients = calloc((size_t)m->elements, sizeof *m->gradients);
}

static void run_machines(machine machines[MACHINES]) {
  pthread_t threads[MACHINES];
  for (int i = 0; i < MACHINES; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, train, &machines[i]), 0);
  for (int i = 0; i < MACHINES; i++) pthread_join(threads[i], NULL);
}

static void close_machines(meeting *m, machine machines[MACHINES]) {
  for (int i = 0; i < MACHINES; i++) ch_trainer_free(machines[i].trainer);
  free(m->gradients);
  pthread_barrier_destroy(&m->barrier);
  pthread_mutex_destroy(&m->lock);
}

/* The largest difference between two trainers' weights. */
static double distance(const ch_trainer *a, const ch_trainer *b) {
  double largest = 0;
  for (int p = 0; p < ch_trainer_params(a)->count; p++) {
    const double *x = ch_trainer_weights(a)[p].data, *y = ch_trainer_weights(b)[p].data;
    for (int64_t i = 0; i < ch_tensor_count(&ch_trainer_weights(a)[p]); i++)
      largest = fmax(largest, fabs(x[i] - y[i]));
  }
  return largest;
}

/* --- tests --------------------------------------------------------------------------------------------------- */

static void check_as_one(const ch_config *config) {
  meeting m = {0};
  machine machines[MACHINES] = {0};
  open_machines(config, &m, machines);
  run_machines(machines);
  ch_trainer *one = create(config, MACHINES * BATCH, (ch_batch_source){.train = whole_text});
  ch_step_report last = {0};
  for (int step = 0; step < STEPS; step++) last = take_step(one);
  for (int i = 0; i < MACHINES; i++) {
    const ch_step_report *report = &machines[i].report;
    assert_int_equal(machines[i].status, CH_OK);
    assert_true(distance(machines[i].trainer, one) < 1e-10);
    assert_true(fabs(report->loss - last.loss) < 1e-10);
    assert_true(fabs(report->grad_norm - last.grad_norm) < 1e-10);
    assert_true(fabs(report->balance_loss - last.balance_loss) < 1e-10);
    assert_int_equal(report->tokens, last.tokens);
    if (last.expert_load)
      assert_memory_equal(report->expert_load, last.expert_load,
                          (size_t)(last.expert_layers * last.experts) * sizeof *last.expert_load);
  }
  assert_true(distance(machines[0].trainer, machines[1].trainer) == 0);
  ch_trainer_free(one);
  close_machines(&m, machines);
}

static void two_machines_train_as_one_does_on_all_sequences(void **state) {
  (void)state;
  ch_config config = test_config();
  check_as_one(&config);
}

static void so_they_do_with_experts_and_a_balance_loss(void **state) {
  (void)state;
  ch_config aux = test_config_with_experts(CH_BALANCE_AUX),
            loss_free = test_config_with_experts(CH_BALANCE_LOSS_FREE);
  check_as_one(&aux);
  check_as_one(&loss_free);
}

static void where_one_machine_fails_no_machine_makes_the_step(void **state) {
  (void)state;
  meeting m = {0};
  machine machines[MACHINES] = {0};
  ch_config config = test_config();
  open_machines(&config, &m, machines);
  machines[1].fails_in = 3;
  run_machines(machines);
  for (int i = 0; i < MACHINES; i++) {
    ch_progress_record record;
    ch_trainer_progress(machines[i].trainer, &record);
    assert_int_equal(record.step, 2);
    assert_int_equal(machines[i].status, CH_ERROR_IO);
  }
  assert_string_equal(machines[0].error.message, "another machine failed");
  assert_string_equal(machines[1].error.message, "the text is gone");
  assert_true(distance(machines[0].trainer, machines[1].trainer) == 0);
  close_machines(&m, machines);
}

/* A weight that is not finite on one machine alone is found while it differentiates. */
static void where_one_loss_is_not_finite_no_machine_makes_the_step(void **state) {
  (void)state;
  meeting m = {0};
  machine machines[MACHINES] = {0};
  ch_config config = test_config();
  open_machines(&config, &m, machines);
  ((double *)ch_trainer_weights(machines[0].trainer)[0].data)[0] = NAN;
  run_machines(machines);
  for (int i = 0; i < MACHINES; i++) {
    ch_progress_record record;
    ch_trainer_progress(machines[i].trainer, &record);
    assert_int_equal(record.step, 0);
    assert_int_equal(machines[i].status, CH_ERROR_NUMERIC);
  }
  assert_non_null(strstr(machines[0].error.message, "model.embed_tokens.weight"));
  close_machines(&m, machines);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_machines_train_as_one_does_on_all_sequences),
      cmocka_unit_test(so_they_do_with_experts_and_a_balance_loss),
      cmocka_unit_test(where_one_machine_fails_no_machine_makes_the_step),
      cmocka_unit_test(where_one_loss_is_not_finite_no_machine_makes_the_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
