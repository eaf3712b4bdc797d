/* Tests that a team with fewer workers than threads computes the same bits, for products and sums over rows. */
#include <stdlib.h>

#include "kernel_testing.h"
#include "tensor/gemm.h"

static float *numbers(int64_t count, unsigned seed) {
  float *x = malloc((size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
  }
  return x;
}

static void products_keep_their_bits(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{300, 128, 512}, {64, 2048, 128}, {1024, 384, 96}, {128, 64, 2048}};
  ch_team all = {.threads = 2, .workers = 2}, few = {.threads = 2, .workers = 1};
  ch_gemm *with_all, *with_few;
  ch_error error;
  assert_int_equal(ch_gemm_create(ch_kernels_best(CH_F32), &all, &with_all, &error), CH_OK);
  assert_int_equal(ch_gemm_create(ch_kernels_best(CH_F32), &few, &with_few, &error), CH_OK);
  for (int i = 0; i < 4; i++)
    for (int way = 0; way < 8; way++) {
      int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
      bool turn_a = way & 1, turn_b = way & 2, add = way & 4;
      float *a = numbers(m * k, 1), *b = numbers(k * n, 2), *c = numbers(m * n, 3);
      for (int again = 0; again < 2; again++) { /* the second product uses the trial of the first */
        float *d = numbers(m * n, 3), *e = numbers(m * n, 3);
        assert_int_equal(ch_gemm_run(with_all, turn_a, turn_b, m, n, k, a, turn_a ? m : k, b, turn_b ? k : n,
                                     d, n, add, &error),
                         CH_OK);
        assert_int_equal(ch_gemm_run(with_few, turn_a, turn_b, m, n, k, a, turn_a ? m : k, b, turn_b ? k : n,
                                     e, n, add, &error),
                         CH_OK);
        assert_memory_equal(d, e, (size_t)(m * n) * sizeof *d);
        free(d);
        free(e);
      }
      free(a);
      free(b);
      free(c);
    }
  ch_gemm_free(with_all);
  ch_gemm_free(with_few);
}

static void sums_over_rows_keep_their_bits(void **state) {
  (void)state;
  enum { ROWS = 301, N = 96, PARTS = 3 };
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  float *dy = numbers(ROWS * N, 4), *scratch = malloc(PARTS * N * sizeof *scratch), first[N], sums[N];
  for (int workers = PARTS; workers >= 1; workers--) {
    const ch_team team = {.threads = PARTS, .workers = workers};
    kernels->sum_rows(&team, ROWS, N, dy, sums, false, scratch);
    if (workers == PARTS) memcpy(first, sums, sizeof sums);
    assert_memory_equal(first, sums, sizeof sums);
  }
  free(dy);
  free(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_keep_their_bits),
      cmocka_unit_test(sums_over_rows_keep_their_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
