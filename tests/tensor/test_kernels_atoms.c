/* Tests weighted sums of atoms on every table against plain loops, also for 16-bit atoms. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

enum { SMALL = 37, LARGE = (1 << 15) + 5, ATOMS = 3 };

static ch_random randomness;

typedef struct combining {
  int64_t n;
  bool accumulate;
} combining;

static void call(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  const combining *c = data;
  k->combine_forward(all_threads(), c->n, ATOMS, in[0], in[1], k->dtype, out[0]);
  k->combine_backward(all_threads(), c->n, ATOMS, in[0], in[1], in[2], out[1], c->accumulate, out[2],
                      c->accumulate, scratch);
}

static void check_combining(int64_t n, bool accumulate) {
  double *c = random_values(&randomness, ATOMS, 1), *x = random_values(&randomness, ATOMS * n, 1),
         *dy = random_values(&randomness, n, 1), *old = random_values(&randomness, ATOMS * n, 1);
  double *y = zeros(n), *dx = zeros(ATOMS * n), *dc = zeros(ATOMS),
         *near[3] = {zeros(n), zeros(ATOMS * n), zeros(ATOMS)};
  for (int64_t s = 0; s < ATOMS; s++) {
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
      y[i] += c[s] * x[s * n + i];
      near[0][i] += 4 * fabs(c[s] * x[s * n + i]);
      dx[s * n + i] = (accumulate ? old[s * n + i] : 0) + c[s] * dy[i];
      near[1][s * n + i] = 4 * (fabs(old[s * n + i]) + fabs(c[s] * dy[i]));
      sum += x[s * n + i] * dy[i];
      size += fabs(x[s * n + i] * dy[i]);
    }
    dc[s] = (accumulate ? old[s] : 0) + sum;
    near[2][s] = 4 * (fabs(old[s]) + size);
  }
  const combining data = {n, accumulate};
  const double *before = accumulate ? old : NULL;
  kernel_check check = {.what = "combined atoms",
                        .call = call,
                        .data = &data,
                        .inputs = 3,
                        .in_size = {ATOMS, ATOMS * n, n},
                        .in = {c, x, dy},
                        .outputs = 3,
                        .out_size = {n, ATOMS * n, ATOMS},
                        .initial = {NULL, before, before},
                        .expected = {y, dx, dc},
                        .bound = {near[0], near[1], near[2]},
                        .scratch_size = MOST_THREADS * ATOMS};
  run_check(&check);
  free(c), free(x), free(dy), free(old), free(y), free(dx), free(dc);
  for (int i = 0; i < 3; i++) free(near[i]);
}

static void combinations_and_their_gradients_follow_the_equation(void **state) {
  (void)state;
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    check_combining(SMALL, accumulate);
    check_combining(LARGE, accumulate);
  }
}

/* A gradient that is not requested is not written. */
static void either_gradient_can_be_left_out(void **state) {
  (void)state;
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *k = table_number(number);
    if (!k) continue;
    double ones[ATOMS * SMALL];
    for (int i = 0; i < ATOMS * SMALL; i++) ones[i] = 1;
    void *c = reals_from(k, ATOMS, ones), *x = reals_from(k, ATOMS * SMALL, ones),
         *dy = reals_from(k, SMALL, ones);
    void *dc = reals_from(k, ATOMS, NULL), *dx = reals_from(k, ATOMS * SMALL, NULL);
    void *scratch = reals_from(k, MOST_THREADS * ATOMS, NULL);
    k->combine_backward(all_threads(), SMALL, ATOMS, c, x, dy, NULL, false, dc, false, scratch);
    k->combine_backward(all_threads(), SMALL, ATOMS, c, x, dy, dx, false, NULL, false, scratch);
    for (int s = 0; s < ATOMS; s++) assert_true(real_at(k, dc, s) == SMALL);
    for (int i = 0; i < ATOMS * SMALL; i++) assert_true(real_at(k, dx, i) == 1);
    free(c), free(x), free(dy), free(dc), free(dx), free(scratch);
  }
}

/* The sums are those of the 16-bit values. */
static void atoms_in_16_bits_are_widened(void **state) {
  (void)state;
  static const ch_dtype types[] = {CH_F16, CH_BF16};
  double *c = random_values(&randomness, ATOMS, 1), *x = random_values(&randomness, ATOMS * SMALL, 1);
  for (int number = 0; number < TABLE_COUNT; number++)
    for (int t = 0; t < 2; t++) {
      const ch_kernels *k = table_number(number);
      if (!k) continue;
      uint16_t halves[ATOMS * SMALL];
      void *coefficients = reals_from(k, ATOMS, c), *wide = reals_from(k, ATOMS * SMALL, x);
      void *expected = reals_from(k, SMALL, NULL), *got = reals_from(k, SMALL, NULL);
      k->convert_to(all_threads(), ATOMS * SMALL, wide, types[t], halves);
      k->convert_from(all_threads(), ATOMS * SMALL, halves, types[t], wide);
      k->combine_forward(all_threads(), SMALL, ATOMS, coefficients, wide, k->dtype, expected);
      k->combine_forward(all_threads(), SMALL, ATOMS, coefficients, halves, types[t], got);
      for (int i = 0; i < SMALL; i++) { /* one of the loops may fuse multiplications and additions */
        double size = 0;
        for (int a = 0; a < ATOMS; a++) size += fabs(c[a] * real_at(k, wide, a * SMALL + i));
        assert_true(fabs(real_at(k, got, i) - real_at(k, expected, i)) <= 2 * table_eps(k) * size);
      }
      free(coefficients), free(wide), free(expected), free(got);
    }
  free(c), free(x);
}

int main(void) {
  ch_random_seed(&randomness, 31, 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(combinations_and_their_gradients_follow_the_equation),
      cmocka_unit_test(either_gradient_can_be_left_out),
      cmocka_unit_test(atoms_in_16_bits_are_widened),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
