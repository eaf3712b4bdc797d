/* Tests softmax cross entropy and AdamW of every table against their equations, and the gradient against
 * differences. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

/* --- cross entropy -------------------------------------------------------------------------------------- */

typedef struct loss_case {
  int64_t rows, vocabulary;
  const int32_t *targets;
  double smoothing;
} loss_case;

static void call_cross_entropy(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                               const void *data) {
  const loss_case *c = data;
  size_t bytes = (size_t)(c->rows * c->vocabulary) * ch_dtype_size(kernels->dtype);
  memcpy(out[0], in[0], bytes);
  kernels->cross_entropy(all_threads(), c->rows, c->vocabulary, c->smoothing, 0, out[0], c->targets, out[1],
                         in[1]);
  /* Computes the loss without the gradient. The logits do not change, and the loss has the same bits. */
  memcpy(scratch, in[0], bytes);
  kernels->cross_entropy(all_threads(), c->rows, c->vocabulary, c->smoothing, 0, scratch, c->targets, out[2],
                         NULL);
  assert_memory_equal(scratch, in[0], bytes);
  assert_memory_equal(out[1], out[2], (size_t)c->rows * ch_dtype_size(kernels->dtype));
}

/* Returns the expected loss of one row and computes its gradient. The loss is -sum of target shares times log
   probabilities. */
static double row_loss(int64_t n, const double *x, int32_t target, double smoothing, double scale,
                       double *gradient) {
  double max = x[0], sum = 0, loss = 0;
  for (int64_t i = 0; i < n; i++) max = fmax(max, x[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(x[i] - max);
  for (int64_t i = 0; i < n; i++) {
    double share = smoothing / (double)n + (i == target ? 1 - smoothing : 0);
    gradient[i] = target < 0 ? 0 : scale * (exp(x[i] - max) / sum - share);
    loss -= share * (x[i] - max - log(sum));
  }
  return target < 0 ? 0 : loss;
}

static void check_cross_entropy(ch_random *random, int64_t rows, int64_t vocabulary, double smoothing,
                                double spread, double shift) {
  int64_t size = rows * vocabulary;
  double *x = random_values(random, size, spread), *scale = random_values(random, rows, 1);
  int32_t *targets = malloc((size_t)rows * sizeof *targets);
  assert_non_null(targets);
  double *gradient = zeros(size), *bound = zeros(size), *loss = zeros(rows), *loss_bound = zeros(rows);
  for (int64_t i = 0; i < size; i++) x[i] = (float)(x[i] + shift);
  for (int64_t r = 0; r < rows; r++) {
    targets[r] = ch_random_below(random, 5) ? (int32_t)ch_random_below(random, (uint64_t)vocabulary) : -1;
    const double *row = x + r * vocabulary;
    loss[r] = row_loss(vocabulary, row, targets[r], smoothing, scale[r], gradient + r * vocabulary);
    double least = row[0], most = row[0];
    for (int64_t i = 0; i < vocabulary; i++) least = fmin(least, row[i]), most = fmax(most, row[i]);
    /* The relative error of an exponential is the rounding of its argument. The error of the sum of positive terms has
     * as many units as there are terms. */
    double units = (double)(vocabulary + 8) + (most - least);
    loss_bound[r] = units + fabs(loss[r]) * 2;
    for (int64_t i = 0; i < vocabulary; i++) {
      double p = targets[r] < 0 ? 0 : fabs(gradient[r * vocabulary + i]);
      double share = smoothing / (double)vocabulary + (i == targets[r] ? 2 : 0);
      bound[r * vocabulary + i] = units * (p + share * fabs(scale[r])) + 1e-30;
    }
  }
  loss_case c = {rows, vocabulary, targets, smoothing};
  kernel_check check = {.what = "cross_entropy",
                        .call = call_cross_entropy,
                        .data = &c,
                        .inputs = 2,
                        .outputs = 3,
                        .in_size = {size, rows},
                        .in = {x, scale},
                        .out_size = {size, rows, rows},
                        .expected = {gradient, loss, loss},
                        .bound = {bound, loss_bound, loss_bound},
                        .scratch_size = size};
  run_check(&check);
  free(x), free(scale), free(targets), free(gradient), free(bound), free(loss), free(loss_bound);
}

static void cross_entropy_and_its_gradient_follow_their_equations(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 61, 0);
  static const int64_t vocabularies[] = {1, 2, 3, 15, 17, 63, 65, 129, 1000, 8193};
  for (int v = 0; v < 10; v++) {
    check_cross_entropy(&random, 1 + (int64_t)ch_random_below(&random, 7), vocabularies[v], 0, 2, 0);
    check_cross_entropy(&random, 6, vocabularies[v], 0.1, 2, 0);
    check_cross_entropy(&random, 5, vocabularies[v], 0, 40, 0); /* most terms underflow */
    check_cross_entropy(&random, 5, vocabularies[v], 0, 1, 10000);
  }
  check_cross_entropy(&random, 37, 1001, 0, 3, -50);
  check_cross_entropy(&random, 37, 1001, 0.4, 3, -50);
}

static void logits_that_are_not_finite_give_a_loss_that_is_not_finite(void **state) {
  (void)state;
  const double bad[] = {NAN, INFINITY};
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    for (int n = 1; n <= 67; n += 6)
      for (int b = 0; b < 2; b++)
        for (int place = 0; place < n; place++) {
          double values[67] = {0};
          values[place] = bad[b];
          void *logits = reals_from(kernels, n, values), *loss = reals_from(kernels, 1, NULL);
          const int32_t target = 0;
          memset(loss, 0, ch_dtype_size(kernels->dtype));
          kernels->cross_entropy(all_threads(), 1, n, 0, 0, logits, &target, loss, NULL);
          assert_false(isfinite(real_at(kernels, loss, 0)));
          free(logits), free(loss);
        }
    /* A logit of minus infinity excludes its token. */
    const double masked[3] = {0, -INFINITY, 0};
    void *logits = reals_from(kernels, 3, masked), *loss = reals_from(kernels, 1, NULL);
    const int32_t target = 2;
    kernels->cross_entropy(all_threads(), 1, 3, 0, 0, logits, &target, loss, NULL);
    assert_true(fabs(real_at(kernels, loss, 0) - log(2)) < 1e-6);
    free(logits), free(loss);
  }
}

static double cross_entropy_loss(const double *x, const void *data) {
  const loss_case *c = data;
  double *logits = zeros(c->rows * c->vocabulary), *loss = zeros(c->rows), sum = 0;
  memcpy(logits, x, (size_t)(c->rows * c->vocabulary) * sizeof *logits);
  ch_kernels_for(CH_F64, CH_ISA_PLAIN)
      ->cross_entropy(all_threads(), c->rows, c->vocabulary, c->smoothing, 0, logits, c->targets, loss, NULL);
  for (int64_t r = 0; r < c->rows; r++) sum += loss[r];
  free(logits), free(loss);
  return sum;
}

static void the_cross_entropy_gradient_in_double_matches_differences(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 62, 0);
  const int32_t targets[4] = {3, -1, 0, 10};
  loss_case c = {4, 11, targets, 0.2};
  double *x = random_values(&random, 44, 2), *gradient = zeros(44), loss[4], ones[4] = {1, 1, 1, 1};
  memcpy(gradient, x, 44 * sizeof *x);
  ch_kernels_for(CH_F64, CH_ISA_PLAIN)
      ->cross_entropy(all_threads(), 4, 11, 0.2, 0, gradient, targets, loss, ones);
  check_gradient("cross_entropy", cross_entropy_loss, &c, 44, x, gradient);
  free(x), free(gradient);
}

/* --- AdamW ---------------------------------------------------------------------------------------------- */

typedef struct adamw_case {
  int64_t n;
  double scale, lr, beta1, beta2, eps, decay, correction1, correction2;
} adamw_case;

static void call_adamw(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                       const void *data) {
  (void)scratch;
  const adamw_case *c = data;
  kernels->adamw(all_threads(), c->n, out[0], in[0], out[1], out[2], c->scale, c->lr, c->beta1, c->beta2,
                 c->eps, c->decay, c->correction1, c->correction2);
}

static void an_adamw_step_follows_its_equations(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 63, 0);
  static const int64_t sizes[] = {1, 3, 7, 17, 63, 65, 1001, 40003};
  for (int s = 0; s < 8; s++) {
    int step = 1 + 30 * s;
    adamw_case c = {sizes[s],
                    0.7,
                    3e-2,
                    0.9,
                    0.95,
                    1e-8,
                    s & 1 ? 0.1 : 0,
                    1 / (1 - pow(0.9, step)),
                    1 / (1 - pow(0.95, step))};
    double *w0 = random_values(&random, c.n, 1), *g = random_values(&random, c.n, 1);
    double *m0 = random_values(&random, c.n, 0.1), *v0 = random_values(&random, c.n, 0.1);
    double *w = zeros(c.n), *m = zeros(c.n), *v = zeros(c.n);
    double *wb = zeros(c.n), *mb = zeros(c.n), *vb = zeros(c.n);
    g[0] = 0, v0[0] = 0, m0[0] = 0; /* a weight that never had a gradient */
    for (int64_t i = 0; i < c.n; i++) {
      v0[i] = fabs(v0[i]);
      double scaled = g[i] * c.scale;
      m[i] = c.beta1 * m0[i] + (1 - c.beta1) * scaled;
      v[i] = c.beta2 * v0[i] + (1 - c.beta2) * scaled * scaled;
      double update = m[i] * c.correction1 / (sqrt(v[i] * c.correction2) + c.eps);
      w[i] = w0[i] - c.lr * (update + c.decay * w0[i]);
      mb[i] = 4 * (fabs(m0[i]) + fabs(scaled));
      vb[i] = 6 * v[i];
      /* m may be a difference of larger numbers. Its error passes through the division. */
      double m_error = mb[i] * c.correction1 / (sqrt(v[i] * c.correction2) + c.eps);
      wb[i] = 2 * fabs(w0[i]) + c.lr * (m_error + 12 * fabs(update) + 4 * fabs(c.decay * w0[i]));
    }
    kernel_check check = {.what = "adamw",
                          .call = call_adamw,
                          .data = &c,
                          .inputs = 1,
                          .outputs = 3,
                          .in_size = {c.n},
                          .in = {g},
                          .out_size = {c.n, c.n, c.n},
                          .initial = {w0, m0, v0},
                          .expected = {w, m, v},
                          .bound = {wb, mb, vb}};
    run_check(&check);
    free(w0), free(g), free(m0), free(v0), free(w), free(m), free(v), free(wb), free(mb), free(vb);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cross_entropy_and_its_gradient_follow_their_equations),
      cmocka_unit_test(logits_that_are_not_finite_give_a_loss_that_is_not_finite),
      cmocka_unit_test(the_cross_entropy_gradient_in_double_matches_differences),
      cmocka_unit_test(an_adamw_step_follows_its_equations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
