/* Runs the properties as tests over a list of combinations. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "properties.h"

/* Checks all specimens. One in eight uses all threads. The others use one, because threads only slow small models
   down on a busy machine. */
static void for_each(void **state, void (*check)(laboratory *lab, const specimen *s)) {
  laboratory *lab = *state;
  int before = complaints(), threads = omp_get_max_threads();
  for (int i = 0; i < lab->count; i++) {
    const specimen *s = &lab->specimens[i];
    omp_set_num_threads(i % 8 == 0 ? threads : 1);
    check(lab, s);
  }
  omp_set_num_threads(threads);
  if (complaints() > before) fail_msg("%d complaints", complaints() - before);
}

static void logits_and_loss_are_those_of_the_definition(void **state) {
  for_each(state, check_definition);
}

static void gradients_equal_central_differences(void **state) {
  for_each(state, check_gradients);
}

static void packed_documents_do_not_see_each_other(void **state) {
  for_each(state, check_documents);
}

static void decoding_from_the_cache_equals_one_whole_pass(void **state) {
  for_each(state, check_cached);
}

static void a_prefill_in_chunks_equals_one_whole_pass(void **state) {
  for_each(state, check_chunks);
}

static void tokens_taken_back_are_forgotten(void **state) {
  for_each(state, check_rewinding);
}

static void decoding_takes_its_own_form(void **state) {
  for_each(state, check_decoding_form);
}

static void every_form_of_a_gate_says_the_same(void **state) {
  for_each(state, check_gate_forms);
}

static void a_pretended_depth_can_be_decoded_from(void **state) {
  for_each(state, check_pretended_depth);
}

static void sequences_of_a_batch_are_what_they_are_alone(void **state) {
  for_each(state, check_batch);
}

static void sequences_of_different_lengths_are_what_they_are_alone(void **state) {
  for_each(state, check_uneven_batch);
}

static void narrow_caches_round_every_state_once_and_read_it_as_stored(void **state) {
  for_each(state, check_stored_states);
}

static void steps_allocate_nothing(void **state) {
  for_each(state, check_allocations);
}

static void shared_matrices_written_out_change_nothing(void **state) {
  for_each(state, check_forms);
}

static void absorbing_modules_and_sharing_changes_nothing(void **state) {
  for_each(state, check_absorbed);
}

static void the_cache_allocates_what_the_definition_says(void **state) {
  for_each(state, check_cache_size);
}

static void parameters_count_as_the_definition_says(void **state) {
  for_each(state, check_parameters);
}

static void a_written_model_reads_back_the_same(void **state) {
  for_each(state, check_files);
}

static void every_combination_is_there(void **state) {
  const laboratory *lab = *state;
  print_message("%d combinations, %d left out\n", lab->count, lab->left_out);
  assert_true(lab->count > 0);
  assert_int_equal(lab->left_out, 0);
}

/* The list for open_laboratory: cmocka passes no arguments to set-up functions. */
static const combination_list *list_of_this_program;

static int open_laboratory(void **state) {
  const combination_list *list = list_of_this_program;
  laboratory *lab = calloc(1, sizeof *lab);
  lab->specimens = calloc((unsigned)list->count, sizeof *lab->specimens);
  ch_error error = {0};
  if (ch_engine_init(&lab->wide, CH_F64, &error) != CH_OK ||
      ch_engine_init(&lab->narrow, CH_F32, &error) != CH_OK) {
    print_error("%s\n", error.message);
    return -1;
  }
  for (int i = 0; i < list->count; i++) {
    if (specimen_open(&list->items[i], &lab->specimens[lab->count]))
      lab->count++;
    else
      lab->left_out++;
  }
  *state = lab;
  return 0;
}

static int close_laboratory(void **state) {
  laboratory *lab = *state;
  for (int i = 0; i < lab->count; i++) specimen_close(&lab->specimens[i]);
  ch_engine_free(&lab->wide);
  ch_engine_free(&lab->narrow);
  free(lab->specimens);
  free(lab);
  return 0;
}

int run_combinations(const combination_list *list) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_combination_is_there),
      cmocka_unit_test(logits_and_loss_are_those_of_the_definition),
      cmocka_unit_test(packed_documents_do_not_see_each_other),
      cmocka_unit_test(gradients_equal_central_differences),
      cmocka_unit_test(decoding_from_the_cache_equals_one_whole_pass),
      cmocka_unit_test(a_prefill_in_chunks_equals_one_whole_pass),
      cmocka_unit_test(tokens_taken_back_are_forgotten),
      cmocka_unit_test(decoding_takes_its_own_form),
      cmocka_unit_test(every_form_of_a_gate_says_the_same),
      cmocka_unit_test(a_pretended_depth_can_be_decoded_from),
      cmocka_unit_test(sequences_of_a_batch_are_what_they_are_alone),
      cmocka_unit_test(sequences_of_different_lengths_are_what_they_are_alone),
      cmocka_unit_test(narrow_caches_round_every_state_once_and_read_it_as_stored),
      cmocka_unit_test(steps_allocate_nothing),
      cmocka_unit_test(shared_matrices_written_out_change_nothing),
      cmocka_unit_test(absorbing_modules_and_sharing_changes_nothing),
      cmocka_unit_test(the_cache_allocates_what_the_definition_says),
      cmocka_unit_test(parameters_count_as_the_definition_says),
      cmocka_unit_test(a_written_model_reads_back_the_same),
  };
  list_of_this_program = list;
  return cmocka_run_group_tests(tests, open_laboratory, close_laboratory);
}

int run_values_of_combinations(const combination_list *list) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_combination_is_there),
      cmocka_unit_test(logits_and_loss_are_those_of_the_definition),
      cmocka_unit_test(packed_documents_do_not_see_each_other),
      cmocka_unit_test(decoding_from_the_cache_equals_one_whole_pass),
      cmocka_unit_test(a_prefill_in_chunks_equals_one_whole_pass),
      cmocka_unit_test(tokens_taken_back_are_forgotten),
      cmocka_unit_test(every_form_of_a_gate_says_the_same),
      cmocka_unit_test(a_pretended_depth_can_be_decoded_from),
      cmocka_unit_test(sequences_of_a_batch_are_what_they_are_alone),
      cmocka_unit_test(sequences_of_different_lengths_are_what_they_are_alone),
  };
  list_of_this_program = list;
  return cmocka_run_group_tests(tests, open_laboratory, close_laboratory);
}
