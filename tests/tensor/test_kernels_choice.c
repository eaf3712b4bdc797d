/* Tests the choice of the kernel table by processor and environment, each table's name and type, and the loops that
   measure the processor's limits. */
#include <stdio.h>

#include "tensor/kernel_testing.h"
#include "bench/limits.h"
#include "bench/limits_dots.h"

static void every_table_is_named_and_typed(void **state) {
  (void)state;
  assert_string_equal(ch_kernels_for(CH_F64, CH_ISA_PLAIN)->name, "f64 plain");
  assert_null(ch_kernels_for(CH_F64, CH_ISA_AVX2));
  assert_null(ch_kernels_for(CH_BF16, CH_ISA_PLAIN));
  static const char *const names[] = {"f32 plain", "f32 avx2", "f32 avx512", "f32 avx512_vnni",
                                      "f32 avx512_bf16"};
  for (int isa = 0; isa < CH_ISA_COUNT; isa++) {
    const ch_kernels *kernels = ch_kernels_for(CH_F32, (ch_isa)isa);
    if (!kernels) continue;
    assert_string_equal(kernels->name, names[isa]);
    assert_true(kernels->dtype == CH_F32);
    assert_true(kernels->multiplies_bytes == (isa >= CH_ISA_AVX512_VNNI));
    assert_true((kernels->gemv_bf16 != NULL) == (isa >= CH_ISA_AVX512_BF16));
  }
}

/* Returns true if /proc/cpuinfo lists the flag. This does not depend on the compiler's built-in function. */
static bool processor_has(const char *flag) {
  FILE *file = fopen("/proc/cpuinfo", "re");
  static char line[8192];
  bool has = false;
  char word[64];
  snprintf(word, sizeof word, " %s ", flag);
  while (file && !has && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = ' ';
    has = strstr(line, word) != NULL;
  }
  if (file) fclose(file);
  return has;
}

/* BF16 dots are used if there are instructions for them, except on Intel's processors, where F32 is
   faster. */
static void the_fastest_instructions_are_chosen_unasked(void **state) {
  (void)state;
  unsetenv("CROSSHEAD_ISA");
  const ch_kernels *best = ch_kernels_best(CH_F32);
  assert_int_equal(best->multiplies_bytes, processor_has("avx512_vnni") && processor_has("avx512vbmi"));
  assert_int_equal(best->gemv_bf16 != NULL, processor_has("avx512_bf16") && !processor_has("GenuineIntel"));
}

static void the_environment_lowers_the_instruction_set(void **state) {
  (void)state;
  unsetenv("CROSSHEAD_ISA");
  const ch_kernels *best = ch_kernels_best(CH_F32);
  assert_non_null(best);
  setenv("CROSSHEAD_ISA", "plain", 1);
  assert_string_equal(ch_kernels_best(CH_F32)->name, "f32 plain");
  assert_string_equal(ch_kernels_best(CH_F64)->name, "f64 plain");
  if (ch_kernels_for(CH_F32, CH_ISA_AVX2)) {
    setenv("CROSSHEAD_ISA", "avx2", 1);
    assert_string_equal(ch_kernels_best(CH_F32)->name, "f32 avx2");
  }
  if (ch_kernels_for(CH_F32, CH_ISA_AVX512)) {
    setenv("CROSSHEAD_ISA", "avx512", 1);
    assert_string_equal(ch_kernels_best(CH_F32)->name, "f32 avx512");
  }
  setenv("CROSSHEAD_ISA", "avx512_bf16", 1); /* limited to what the processor has */
  const ch_kernels *most = NULL;
  for (int isa = 0; isa < CH_ISA_COUNT; isa++)
    if (ch_kernels_for(CH_F32, (ch_isa)isa)) most = ch_kernels_for(CH_F32, (ch_isa)isa);
  assert_ptr_equal(ch_kernels_best(CH_F32), most);
  setenv("CROSSHEAD_ISA", "nonsense", 1);
  assert_ptr_equal(ch_kernels_best(CH_F32), best);
  unsetenv("CROSSHEAD_ISA");
}

static void an_instruction_set_that_the_machine_lacks_is_refused(void **state) {
  (void)state;
  static const char *const names[] = {"plain", "avx2", "avx512", "avx512_vnni", "avx512_bf16"};
  unsetenv("CROSSHEAD_ISA");
  assert_int_equal(ch_kernels_check(NULL), CH_OK);
  for (int isa = 0; isa < CH_ISA_COUNT; isa++) {
    setenv("CROSSHEAD_ISA", names[isa], 1);
    assert_int_equal(ch_kernels_check(NULL) == CH_OK, ch_kernels_for(CH_F32, (ch_isa)isa) != NULL);
  }
  static const char *const wrong[] = {"", "AVX2", "avx3", "plain "};
  for (int i = 0; i < 4; i++) {
    ch_error error = {0};
    setenv("CROSSHEAD_ISA", wrong[i], 1);
    assert_int_equal(ch_kernels_check(&error), CH_ERROR_ARGUMENT);
    for (int isa = 0; isa < CH_ISA_COUNT; isa++)
      assert_int_equal(strstr(error.message, names[isa]) != NULL,
                       ch_kernels_for(CH_F32, (ch_isa)isa) != NULL);
  }
  unsetenv("CROSSHEAD_ISA");
}

static void the_loops_that_measure_limits_do_what_they_count(void **state) {
  (void)state;
  double ones[1003];
  for (int i = 0; i < 1003; i++) ones[i] = 1;
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    void *values = reals_from(kernels, 1003, ones);
    for (int64_t n = 0; n <= 1003; n += 17) assert_true(kernels->read_loop(n, values) == (double)n);
    double flops[2];
    /* The chains start at different values and converge to 1. */
    assert_true(fabs(kernels->fma_loop(1000, 0.1, &flops[0]) - kernels->fma_loop(2000, 0.1, &flops[1])) <
                1e-2);
    assert_true(flops[0] > 0 && flops[1] == 2 * flops[0]);
    free(values);
  }
}

static void dot_loops_do_what_they_count_where_there_are_such_instructions(void **state) {
  (void)state;
  const ch_dot_loop loops[2] = {ch_dot_loop_bf16(), ch_dot_loop_int8()};
  const char *const flags[2] = {"avx512_bf16", "avx512_vnni"};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(loops[i] != NULL, processor_has(flags[i]));
    if (!loops[i]) continue;
    double operations = 0, rounds = 1000, starts = 16 * 15 / 2;
    /* There are 256 lanes. A round adds two products of BF16 or four of integers to each. */
    double expected = i == 0 ? 16 * (starts + 16 * 3) + 256 * rounds * 2 : 16 * starts + 256 * rounds * 16;
    assert_true(loops[i]((int64_t)rounds, 3, &operations) == expected);
    assert_true(operations == 256 * rounds * (i == 0 ? 4 : 8));
  }
}

static void a_lowered_instruction_set_has_no_dot_instructions(void **state) {
  (void)state;
  setenv("CROSSHEAD_ISA", "avx2", 1);
  assert_true(ch_measure_dot_peak_bf16(CH_LIMIT_BEST) == 0 && ch_measure_dot_peak_int8(CH_LIMIT_BEST) == 0);
  unsetenv("CROSSHEAD_ISA");
  assert_int_equal(ch_measure_dot_peak_bf16(CH_LIMIT_BEST) > 0, processor_has("avx512_bf16"));
  assert_int_equal(ch_measure_dot_peak_int8(CH_LIMIT_BEST) > 0, processor_has("avx512_vnni"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_table_is_named_and_typed),
      cmocka_unit_test(the_fastest_instructions_are_chosen_unasked),
      cmocka_unit_test(the_environment_lowers_the_instruction_set),
      cmocka_unit_test(an_instruction_set_that_the_machine_lacks_is_refused),
      cmocka_unit_test(the_loops_that_measure_limits_do_what_they_count),
      cmocka_unit_test(dot_loops_do_what_they_count_where_there_are_such_instructions),
      cmocka_unit_test(a_lowered_instruction_set_has_no_dot_instructions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
