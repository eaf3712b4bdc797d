/* Which kernel table is chosen, and that each says what it is and lacks nothing. */
#include "tensor/kernel_testing.h"

static void every_table_is_named_and_typed(void **state) {
  (void)state;
  assert_string_equal(ch_kernels_for(CH_F64, CH_ISA_PLAIN)->name, "f64 plain");
  assert_null(ch_kernels_for(CH_F64, CH_ISA_AVX2));
  assert_null(ch_kernels_for(CH_BF16, CH_ISA_PLAIN));
  static const char *const names[] = {"f32 plain", "f32 avx2", "f32 avx512"};
  for (int isa = 0; isa < CH_ISA_COUNT; isa++) {
    const ch_kernels *kernels = ch_kernels_for(CH_F32, (ch_isa)isa);
    if (!kernels) continue;
    assert_string_equal(kernels->name, names[isa]);
    assert_true(kernels->dtype == CH_F32);
  }
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
  setenv("CROSSHEAD_ISA", "avx512", 1); /* never more than the processor has */
  assert_ptr_equal(ch_kernels_best(CH_F32), best);
  setenv("CROSSHEAD_ISA", "nonsense", 1);
  assert_ptr_equal(ch_kernels_best(CH_F32), best);
  unsetenv("CROSSHEAD_ISA");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_table_is_named_and_typed),
      cmocka_unit_test(the_environment_lowers_the_instruction_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
