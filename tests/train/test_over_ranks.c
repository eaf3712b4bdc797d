/* Tests training over ranks: the result has the same bits as training in one process. If one rank fails, no
 * rank makes the step. */
#include "training.h"

#include "preset_config.h"
#include "rank_threads.h"
#include "train/trainer_private.h"

enum { STEPS = 3, NOT_AT_ALL = -1 };

/* One training run over ranks, and the failure of one of them. */
typedef struct job {
  const char *name;
  ch_config config;
  ch_train_options options;
  int64_t steps;
  bool evaluates;
  const char *resume, *save;     /* paths of checkpoints, or NULL */
  int failing_rank;              /* rank of the failure */
  int64_t failing_step;          /* step of the failure */
  bool text_ends, weight_is_nan; /* kinds of failure */
  int asks_before_stop;          /* calls of the stop test before it returns true; NOT_AT_ALL: never */
  ch_status expected;
  ch_trainer *trainers[MOST_RANKS];
  ch_step_report reports[MOST_RANKS];
  ch_status status[MOST_RANKS];
  double sent[MOST_RANKS], formula[MOST_RANKS]; /* bytes sent in all steps, and by the formula */
  ch_error errors[MOST_RANKS];
} job;

/* The text of one rank, and its stop test. */
typedef struct rank_place {
  job *job;
  int rank;
  int64_t asked;
  ch_trainer *trainer;
} rank_place;

static bool fails_now(const rank_place *place) {
  ch_progress_record record = {0};
  if (place->trainer) ch_trainer_progress(place->trainer, &record);
  return place->job->failing_rank == place->rank && record.step + 1 == place->job->failing_step;
}

static ch_status text(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  rank_place *place = context;
  if (place->job->text_ends && fails_now(place)) return ch_fail(error, CH_ERROR_IO, "the text is gone");
  for (int64_t s = 0; s < batch->sequences; s++) {
    made_up_sequence(batch, s, first + s, 1);
    /* Micro-batches predict different numbers of tokens. */
    for (int64_t t = 0; (first + s) % 4 == 0 && t < batch->length / 2; t++)
      batch->targets[s * batch->length + t] = -1;
  }
  return CH_OK;
}

static bool stops(void *context) {
  rank_place *place = context;
  if (place->job->asks_before_stop == NOT_AT_ALL || !fails_now(place)) return false;
  return place->asked++ >= place->job->asks_before_stop;
}

/* Returns the bytes that a rank sends for tables that are divided by columns, in a training step of so many
   micro-batches. */
static double bytes_of_shards(const ch_shards *shards, int64_t micro_batches) {
  if (shards->count == 0) return 0;
  double own = (double)micro_batches / shards->set->ranks, others = (double)micro_batches - own, bytes = 0;
  for (int t = 0; t < shards->count; t++) {
    const ch_shard_table *table = &shards->tables[t];
    double rows = (double)shards->rows * (double)ch_dtype_size(shards->set->dtype);
    bytes += others * rows * (double)table->own;
    if (table->trained) bytes += own * rows * (double)(table->columns - table->own);
  }
  /* For the gradient norm, each rank sends sums of squares of its columns to all others. */
  return bytes + (double)((shards->set->ranks - 1) * shards->set->squares_each) * (double)sizeof(double);
}

/* Returns the bytes that a rank sends in a training step. */
static double bytes_of_a_step(const ch_relay *relay) {
  const ch_parameter_set *set = relay->set;
  int rank = ch_own_rank(relay->ranks), ranks = ch_rank_count(relay->ranks);
  double sums = 0, pieces = 0, parts = 0, size = (double)ch_dtype_size(set->dtype);
  int64_t own = relay->micro_batches / ranks;
  for (int s = 0; s < relay->count; s++) sums += (double)relay->sums[s].bytes;
  for (int p = 0; p < set->params->count; p++)
    if (!set->params->rows[p].frozen && set->keeping[p] != CH_KEPT_COLUMNS)
      pieces += size * (double)(ch_param_count(&set->params->rows[p]) - set->pieces[p].count);
  parts += size * (double)set->regions[CH_KEPT_WHOLE].part;
  parts += (double)ch_dtype_size(CH_BF16) * (double)set->regions[CH_KEPT_ROUNDED].part;
  bool last = rank + 1 == ranks;
  double gradients = (double)(own - last) * sums + (last ? pieces : 0);
  return gradients + (double)(ranks - 1) * parts + bytes_of_shards(&relay->shards, relay->micro_batches);
}

static ch_status train(job *j, ch_rank_group *ranks, int index) {
  rank_place place = {.job = j, .rank = ch_own_rank(ranks)};
  ch_batch_source source = made_up_source();
  ch_error *error = &j->errors[index];
  double loss;
  source.train = text;
  source.context = &place;
  const ch_trainer_start start = {.ranks = ranks};
  CH_TRY(ch_trainer_create_over(&start, &j->config, &j->options, &source, &j->trainers[index], error));
  place.trainer = j->trainers[index];
  if (j->resume) CH_TRY(ch_trainer_resume(place.trainer, j->resume, error));
  ch_progress_record record;
  double before = ch_ranks_traffic(ranks).sent;
  ch_trainer_progress(place.trainer, &record);
  while (record.step < j->steps) {
    if (j->weight_is_nan && fails_now(&place)) ((float *)ch_trainer_weights(place.trainer)[0].data)[0] = NAN;
    CH_TRY(ch_trainer_step(place.trainer, stops, &place, &j->reports[index], error));
    if (j->evaluates) CH_TRY(ch_trainer_evaluate(place.trainer, NULL, NULL, &loss, error));
    ch_trainer_progress(place.trainer, &record);
  }
  j->sent[index] = ch_ranks_traffic(ranks).sent - before;
  j->formula[index] = STEPS * bytes_of_a_step(&place.trainer->relay);
  return j->save ? ch_trainer_save(place.trainer, j->save, error) : CH_OK;
}

static void train_rank(rank_thread *self) {
  job *j = self->context;
  j->status[self->rank] = train(j, self->ranks, self->rank);
}

static job job_of(const char *name, const ch_config *config, const ch_train_options *options) {
  return (job){.name = name,
               .config = *config,
               .options = *options,
               .steps = STEPS,
               .failing_rank = -1,
               .asks_before_stop = NOT_AT_ALL};
}

static void free_job(job *j) {
  for (int r = 0; r < MOST_RANKS; r++) ch_trainer_free(j->trainers[r]);
}

/* Trains in one process; its trainer is index 0 of the job. */
static void run_alone(job *j) {
  j->status[0] = train(j, NULL, 0);
  if (j->status[0] != CH_OK) fail_msg("%s: %s", j->name, j->errors[0].message);
}

/* --- bit-identical results ---------------------------------------------------------------------------------- */

static void assert_same_report(const ch_step_report *a, const ch_step_report *b) {
  assert_int_equal(a->step, b->step);
  assert_int_equal(a->tokens, b->tokens);
  assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
  assert_memory_equal(&a->grad_norm, &b->grad_norm, sizeof a->grad_norm);
  assert_memory_equal(&a->balance_loss, &b->balance_loss, sizeof a->balance_loss);
  if (b->expert_load)
    assert_memory_equal(a->expert_load, b->expert_load,
                        (size_t)(b->expert_layers * b->experts) * sizeof *b->expert_load);
}

/* Checks that the ranks' parts of a group, joined, have the bits of the whole tensor, and that every element has
   one owner. */
static void assert_same_pieces(const job *over, int ranks, const ch_trainer *alone,
                               ch_parameter_group group) {
  const ch_parameter_set *all = &alone->set;
  for (int p = 0; p < all->params->count; p++) {
    const ch_tensor *whole = &ch_parameter_pieces(all, group)[p];
    char *joined = calloc(1, ch_tensor_bytes(whole));
    int64_t covered = 0;
    for (int r = 0; r < ranks; r++) {
      const ch_parameter_set *set = &over->trainers[r]->set;
      covered += set->pieces[p].count;
      ch_parameter_piece_join(set, p, r, ch_parameter_pieces(set, group)[p].data, joined);
    }
    assert_int_equal(covered, ch_param_count(&all->params->rows[p]));
    if (memcmp(joined, whole->data, ch_tensor_bytes(whole)) != 0)
      fail_msg("%s: %s differs", over->name, all->params->rows[p].name);
    free(joined);
  }
}

/* Checks that the weights that a rank's graphs read are those of one process, exact or rounded. Skips tables that
   are divided by columns. */
static void assert_same_weights(const ch_trainer *rank, const ch_trainer *alone) {
  for (int p = 0; p < alone->params.count; p++) {
    const ch_tensor *weight = &rank->set.weights[p], *whole = &alone->set.weights[p];
    const ch_keeping keeping = rank->set.keeping[p];
    size_t bytes = ch_tensor_bytes(weight);
    uint16_t *rounded = malloc(2 * (size_t)ch_tensor_count(whole));
    if (keeping == CH_KEPT_ROUNDED)
      alone->engine.kernels->convert_to(&alone->engine.team, ch_tensor_count(whole), whole->data, CH_BF16,
                                        rounded);
    if (keeping != CH_KEPT_COLUMNS)
      assert_memory_equal(weight->data, keeping == CH_KEPT_ROUNDED ? rounded : whole->data, bytes);
    free(rounded);
  }
}

static void assert_same_curves(const ch_trainer *a, const ch_trainer *b) {
  assert_int_equal(a->step, b->step);
  assert_memory_equal(a->losses, b->losses, (size_t)a->step * sizeof *a->losses);
  assert_int_equal(a->validation_points, b->validation_points);
  for (int64_t i = 0; i < a->validation_points; i++)
    assert_memory_equal(&a->validation[i].loss, &b->validation[i].loss, sizeof(double));
}

static void assert_same_training(const job *over, int ranks, const ch_trainer *alone) {
  for (int r = 0; r < ranks; r++) assert_same_weights(over->trainers[r], alone);
  for (int r = 0; r < ranks; r++) assert_same_curves(over->trainers[r], alone);
  for (int g = CH_WEIGHTS; g <= CH_SECOND_MOMENTS; g++) assert_same_pieces(over, ranks, alone, g);
}

static void check_over(int ranks, const char *name, const ch_config *config,
                       const ch_train_options *options) {
  job alone = job_of(name, config, options), over = alone;
  alone.evaluates = over.evaluates = true;
  run_alone(&alone);
  run_ranks(ranks, train_rank, &over);
  for (int r = 0; r < ranks; r++) {
    if (over.status[r] != CH_OK) fail_msg("%s: %s", name, over.errors[r].message);
    assert_same_report(&over.reports[r], &alone.reports[0]);
  }
  assert_same_training(&over, ranks, alone.trainers[0]);
  free_job(&alone);
  free_job(&over);
}

static ch_train_options ranks_options(int64_t batch, int64_t accumulate) {
  ch_train_options options = test_options(STEPS);
  options.warmup = 0;
  options.batch = batch;
  options.micro_batch = 1;
  options.accumulate = accumulate;
  options.clip = 0.05;
  return options;
}

static void on_every_preset(void **state) {
  (void)state;
  const ch_preset *preset;
  for (int i = 0; (preset = ch_preset_at(i)); i++) {
    ch_config config = preset_config(preset->name);
    ch_train_options options = ranks_options(2, 3);
    check_over(2 + i % 2, preset->name, &config, &options);
    options.dtype = CH_BF16;
    check_over(3 - i % 2, preset->name, &config, &options);
  }
}

static void with_as_many_micro_batches_as_ranks(void **state) {
  (void)state;
  static const char *const names[] = {"gqa", "mla+masa-qkvo", "mfa+masa-qkvo"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    ch_config config = preset_config(names[i]);
    config.sharing.coefficients = CH_COEFFICIENTS_MLP;
    for (int ranks = 2; ranks <= 4; ranks++) {
      ch_train_options options = ranks_options(ranks, 1);
      check_over(ranks, names[i], &config, &options);
    }
  }
}

static void with_micro_batches_of_several_sequences_and_recomputed_values(void **state) {
  (void)state;
  ch_config config = test_config();
  for (int tied = 0; tied < 2; tied++) {
    config.tie_word_embeddings = tied;
    ch_train_options options = ranks_options(4, 4);
    options.micro_batch = 2;
    options.documents = true;
    options.recompute = true;
    for (int ranks = 2; ranks <= 4; ranks += 2) check_over(ranks, "documents", &config, &options);
    options.dtype = CH_F64;
    check_over(4, "double", &config, &options);
  }
}

static void with_experts(void **state) {
  (void)state;
  static const ch_balance balances[] = {CH_BALANCE_AUX, CH_BALANCE_LOSS_FREE};
  for (int b = 0; b < 2; b++) {
    ch_config config = test_config_with_experts(balances[b]);
    for (int ranks = 2; ranks <= 4; ranks++) {
      ch_train_options options = ranks_options(12, 1);
      check_over(ranks, "experts", &config, &options);
      config.moe.first_dense_layers = 1;
      config.moe.balance_update = CH_BALANCE_RMS;
    }
  }
}

/* --- memory ------------------------------------------------------------------------------------------------- */

static ch_config config_with_gates(void) {
  ch_config config = preset_config("egmla");
  config.attention.gate_embedding_dim = 13; /* no number of ranks divides it */
  return config;
}

/* Returns the elements of all tensors that are stored in one way. */
static size_t elements_of(const ch_trainer *trainer, ch_keeping keeping) {
  size_t count = 0;
  for (int p = 0; p < trainer->params.count; p++)
    if (trainer->set.keeping[p] == keeping) count += (size_t)ch_param_count(&trainer->params.rows[p]);
  return count;
}

static void assert_about(size_t bytes, double expected, size_t slack) {
  if (fabs((double)bytes - expected) > (double)slack)
    fail_msg("%zu bytes where about %.0f were expected", bytes, expected);
}

/* Checks that a rank's moments, master weights and all of a divided table shrink as 1 / n. */
static void check_memory(ch_dtype dtype, int ranks) {
  ch_config config = config_with_gates();
  config.tie_word_embeddings = false;
  ch_train_options options = ranks_options(12, 1);
  options.dtype = dtype;
  options.micro_batch = 1;
  options.sequence = config.max_position_embeddings < 64 ? config.max_position_embeddings : 64;
  options.steps = 1;
  job over = job_of("memory", &config, &options);
  over.steps = 1;
  run_ranks(ranks, train_rank, &over);
  const ch_trainer *first = over.trainers[0];
  assert_int_equal(over.status[0], CH_OK);
  const size_t whole = elements_of(first, CH_KEPT_WHOLE), rounded = elements_of(first, CH_KEPT_ROUNDED),
               tables = elements_of(first, CH_KEPT_COLUMNS), lines = 256 * (size_t)first->params.count;
  size_t table_elements = 0, most = 0;
  ch_train_memory told;
  assert_ok(ch_trainer_memory(NULL, &config, &options, ranks, &told, &failure));
  assert_true(tables > 0 && (dtype == CH_BF16) == (rounded > 0));
  for (int r = 0; r < ranks; r++) {
    const ch_parameter_set *set = &over.trainers[r]->set;
    ch_parameter_bytes bytes = ch_parameter_set_bytes(set);
    double own = 0;
    for (int p = 0; p < set->params->count; p++)
      if (set->keeping[p] == CH_KEPT_COLUMNS) own += (double)set->pieces[p].count;
    table_elements += (size_t)own;
    size_t held = ch_trainer_bytes(over.trainers[r]) - over.trainers[r]->engine.workspace.bytes;
    if (held > most) most = held;
    double share = (double)(whole + rounded) / ranks;
    assert_about(bytes.moments, 8 * (share + own), 2 * lines);
    assert_about(bytes.masters, 4 * (double)rounded / ranks, lines);
    assert_about(bytes.weights, 4 * (double)whole + 2 * (double)rounded + 4 * own, lines);
    assert_about(bytes.gradients, 4 * (double)(whole + rounded) + 4 * own, lines);
  }
  assert_int_equal(table_elements, tables);
  assert_int_equal(told.total - told.activations, most);
  assert_int_equal(told.activations, first->engine.workspace.bytes);
  free_job(&over);
}

static void optimizer_state_and_tables_take_a_share_of_the_memory(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 4; ranks++) {
    check_memory(CH_F32, ranks);
    check_memory(CH_BF16, ranks);
  }
}

static void with_lookup_tables_divided_by_columns_or_whole(void **state) {
  (void)state;
  ch_config config = config_with_gates();
  for (int ranks = 2; ranks <= 4; ranks++)
    for (int whole = 0; whole < 2; whole++) {
      ch_train_options options = ranks_options(12, 1);
      options.whole_tables = whole;
      options.documents = ranks == 3;
      check_over(ranks, "gates", &config, &options);
      config.attention.gate_embedding_dim = ranks == 3 ? 16 : 3;
      options.dtype = CH_BF16;
      options.sequence = 64 < config.max_position_embeddings ? 64 : config.max_position_embeddings;
      check_over(ranks, "gates in BF16", &config, &options);
    }
}

static void as_many_bytes_travel_as_the_formula_says(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    int ranks = 2 + i / 2;
    ch_config config = i % 2 ? config_with_gates() : test_config();
    config.intermediate_size = 256; /* gradients outweigh the messages of agreements */
    ch_train_options options = ranks_options(12, 1);
    job over = job_of("traffic", &config, &options);
    run_ranks(ranks, train_rank, &over);
    for (int r = 0; r < ranks; r++) {
      double formula = over.formula[r];
      if (fabs(over.sent[r] - formula) > 0.01 * formula)
        fail_msg("rank %d of %d sent %.0f bytes where the formula says %.0f", r, ranks, over.sent[r],
                 formula);
    }
    free_job(&over);
  }
}

/* --- checkpoints -------------------------------------------------------------------------------------------- */

/* Checks that the tensors of the two files have the same bits. The headers may differ, because they have the seconds of
   training. */
static void assert_same_checkpoint(const char *directory, const char *a, const char *b) {
  const char *names[2] = {a, b};
  char *texts[2];
  size_t sizes[2];
  for (int i = 0; i < 2; i++) {
    char *path = ch_path_join(directory, names[i]);
    assert_ok(ch_read_file(path, 1 << 24, &texts[i], &sizes[i], &failure));
    free(path);
  }
  uint64_t header[2];
  for (int i = 0; i < 2; i++) memcpy(&header[i], texts[i], sizeof header[i]);
  assert_int_equal(sizes[0] - header[0], sizes[1] - header[1]);
  assert_memory_equal(texts[0] + 8 + header[0], texts[1] + 8 + header[1], sizes[0] - 8 - header[0]);
  free(texts[0]);
  free(texts[1]);
}

static void a_checkpoint_goes_on_with_any_number_of_ranks(void **state) {
  (void)state;
  static const int numbers[] = {1, 3, 2, 4, 1};
  char *directory = make_directory();
  ch_config config = config_with_gates();
  config.moe = test_config_with_experts(CH_BALANCE_LOSS_FREE).moe;
  ch_train_options options = ranks_options(12, 1);
  options.steps = 5;
  job whole = job_of("whole", &config, &options);
  char *at_once = ch_path_join(directory, "at-once"), *in_parts = ch_path_join(directory, "in-parts");
  whole.steps = 5;
  whole.save = at_once;
  run_alone(&whole);
  for (int i = 0; i < 5; i++) {
    job part = job_of("part", &config, &options);
    part.steps = i + 1;
    part.resume = i > 0 ? in_parts : NULL;
    part.save = in_parts;
    if (numbers[i] == 1)
      run_alone(&part);
    else
      run_ranks(numbers[i], train_rank, &part);
    for (int r = 0; r < numbers[i]; r++) assert_int_equal(part.status[r], CH_OK);
    if (i == 4) assert_same_curves(part.trainers[0], whole.trainers[0]);
    free_job(&part);
  }
  assert_same_checkpoint(directory, "at-once", "in-parts");
  free_job(&whole);
  free(at_once);
  free(in_parts);
  remove_directory(directory);
}

/* --- failures ----------------------------------------------------------------------------------------------- */

/* Checks that all ranks fail with the same message and that none makes the step. */
static void check_failure(job *j, int ranks, int64_t steps_done, ch_status expected, const char *sentence) {
  run_ranks(ranks, train_rank, j);
  for (int r = 0; r < ranks; r++) {
    assert_int_equal(j->status[r], expected);
    assert_string_equal(j->errors[r].message, j->errors[0].message);
    if (!strstr(j->errors[r].message, sentence))
      fail_msg("'%s' is not in '%s'", sentence, j->errors[r].message);
    if (j->trainers[r]) {
      ch_progress_record record;
      ch_trainer_progress(j->trainers[r], &record);
      assert_int_equal(record.step, steps_done);
    }
  }
  free_job(j);
}

static void where_the_text_of_one_ends_no_rank_makes_the_step(void **state) {
  (void)state;
  ch_train_options options = ranks_options(12, 1);
  for (int rank = 0; rank < 3; rank++) {
    ch_config config = rank == 1 ? test_config() : config_with_gates();
    job j = job_of("text", &config, &options);
    j.text_ends = true;
    j.failing_rank = rank;
    j.failing_step = 2;
    check_failure(&j, 3, 1, CH_ERROR_IO, "the text is gone");
  }
}

static void where_the_loss_of_one_is_not_finite_no_rank_makes_the_step(void **state) {
  (void)state;
  ch_train_options options = ranks_options(12, 1);
  for (int rank = 0; rank < 4; rank++) {
    ch_config config = rank % 2 ? test_config() : config_with_gates();
    job j = job_of("nan", &config, &options);
    j.weight_is_nan = true;
    j.failing_rank = rank;
    j.failing_step = 2;
    check_failure(&j, 4, 1, CH_ERROR_NUMERIC, "model.embed_tokens.weight");
  }
}

/* Stops at every place of a step where a rank checks for a stop. */
static void where_one_is_stopped_no_rank_makes_the_step(void **state) {
  (void)state;
  ch_train_options options = ranks_options(6, 1);
  for (int asks = 0; asks < 10; asks++) {
    ch_config config = asks % 2 ? test_config() : config_with_gates();
    job j = job_of("stop", &config, &options);
    j.asks_before_stop = asks;
    j.failing_rank = asks % 3;
    j.failing_step = 3;
    run_ranks(3, train_rank, &j);
    for (int r = 0; r < 3; r++) {
      ch_progress_record record;
      ch_trainer_progress(j.trainers[r], &record);
      assert_int_equal(j.status[r], j.status[0]);
      assert_int_equal(record.step, j.status[0] == CH_OK ? 3 : 2);
      if (asks < 3) assert_int_equal(j.status[r], CH_ERROR_INTERRUPTED);
    }
    /* The trainers have the state of the last finished step. */
    job alone = job_of("alone", &config, &options);
    alone.steps = j.status[0] == CH_OK ? 3 : 2;
    run_alone(&alone);
    assert_same_training(&j, 3, alone.trainers[0]);
    free_job(&alone);
    free_job(&j);
  }
}

static void a_checkpoint_that_cannot_be_written_fails_on_all(void **state) {
  (void)state;
  ch_config config = test_config();
  ch_train_options options = ranks_options(6, 1);
  job j = job_of("full", &config, &options);
  j.save = "/dev/full/checkpoint";
  check_failure(&j, 3, STEPS, CH_ERROR_IO, "/dev/full/checkpoint");
}

static void a_step_that_ranks_cannot_share_is_refused(void **state) {
  (void)state;
  ch_config config = test_config();
  ch_train_options options = ranks_options(4, 1);
  job odd = job_of("odd", &config, &options);
  check_failure(&odd, 3, 0, CH_ERROR_ARGUMENT, "their product is a multiple of 3");
  options.micro_batch = 4;
  job few = job_of("few", &config, &options);
  check_failure(&few, 2, 0, CH_ERROR_ARGUMENT, "micro_batch 2 makes 2 of them");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_every_preset),
      cmocka_unit_test(with_as_many_micro_batches_as_ranks),
      cmocka_unit_test(with_micro_batches_of_several_sequences_and_recomputed_values),
      cmocka_unit_test(with_experts),
      cmocka_unit_test(with_lookup_tables_divided_by_columns_or_whole),
      cmocka_unit_test(optimizer_state_and_tables_take_a_share_of_the_memory),
      cmocka_unit_test(as_many_bytes_travel_as_the_formula_says),
      cmocka_unit_test(a_checkpoint_goes_on_with_any_number_of_ranks),
      cmocka_unit_test(where_the_text_of_one_ends_no_rank_makes_the_step),
      cmocka_unit_test(where_the_loss_of_one_is_not_finite_no_rank_makes_the_step),
      cmocka_unit_test(where_one_is_stopped_no_rank_makes_the_step),
      cmocka_unit_test(a_checkpoint_that_cannot_be_written_fails_on_all),
      cmocka_unit_test(a_step_that_ranks_cannot_share_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
