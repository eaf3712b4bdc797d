/* Tests RMSNorm and LayerNorm of every table against their equations, and gradients against differences. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

typedef struct norm_shape {
  int64_t rows, n;
  double eps;
  bool accumulate, accumulate_weight;
} norm_shape;

static const norm_shape shapes[] = {
    {1, 1, 1e-5, false, false},   {3, 7, 1e-6, true, false},    {5, 17, 0, false, true},
    {2, 65, 1e-5, true, true},    {64, 63, 1e-6, false, false}, {400, 129, 1e-5, true, true},
    {7, 4099, 1e-6, true, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* --- equations ------------------------------------------------------------------------------------------ */

static void rmsnorm_row(int64_t n, const double *x, const double *w, double eps, double *y, double *rstd) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
  *rstd = 1 / sqrt(sum / (double)n + eps);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] * *rstd * w[i];
}

static void layernorm_row(int64_t n, const double *x, const double *w, const double *b, double eps, double *y,
                          double *moments) {
  double mean = 0, var = 0;
  for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
  for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / (double)n;
  moments[0] = mean;
  moments[1] = 1 / sqrt(var + eps);
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * moments[1] * w[i] + b[i];
}

/* --- forward -------------------------------------------------------------------------------------------- */

static void call_rmsnorm(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                         const void *data) {
  (void)scratch;
  const norm_shape *s = data;
  kernels->rmsnorm_forward(all_threads(), s->rows, s->n, 1, in[0], in[1], s->eps, out[0], out[1]);
  /* In place and without storing rstd, the bits are the same. */
  size_t bytes = (size_t)(s->rows * s->n) * ch_dtype_size(kernels->dtype);
  void *copy = malloc(bytes);
  assert_non_null(copy);
  memcpy(copy, in[0], bytes);
  kernels->rmsnorm_forward(all_threads(), s->rows, s->n, 1, copy, in[1], s->eps, copy, NULL);
  assert_memory_equal(copy, out[0], bytes);
  free(copy);
}

static void call_layernorm(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                           const void *data) {
  (void)scratch;
  const norm_shape *s = data;
  kernels->layernorm_forward(all_threads(), s->rows, s->n, in[0], in[1], in[2], s->eps, out[0], out[1]);
}

static void the_forward_norms_follow_their_equations(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 11, 0);
  for (int c = 0; c < SHAPES; c++) {
    norm_shape s = shapes[c];
    int64_t size = s.rows * s.n;
    double *x = random_values(&random, size, 2), *w = random_values(&random, s.n, 1),
           *b = random_values(&random, s.n, 1);
    if (s.eps == 0) s.eps = 1e-12;
    double *y = zeros(size), *moments = zeros(2 * s.rows), *bound = zeros(size), *loose = zeros(2 * s.rows);
    for (int64_t r = 0; r < s.rows; r++) {
      rmsnorm_row(s.n, x + r * s.n, w, s.eps, y + r * s.n, moments + r);
      loose[r] = (8 + (double)s.n) * moments[r];
    }
    for (int64_t i = 0; i < size; i++) bound[i] = (8 + (double)s.n) * fabs(y[i]);
    kernel_check check = {.what = "rmsnorm_forward",
                          .call = call_rmsnorm,
                          .data = &s,
                          .inputs = 2,
                          .outputs = 2,
                          .in_size = {size, s.n},
                          .in = {x, w},
                          .out_size = {size, s.rows},
                          .expected = {y, moments},
                          .bound = {bound, loose}};
    run_check(&check);

    for (int64_t r = 0; r < s.rows; r++) {
      layernorm_row(s.n, x + r * s.n, w, b, s.eps, y + r * s.n, moments + 2 * r);
      double most = 0, scale = moments[2 * r + 1];
      for (int64_t i = 0; i < s.n; i++) most = fmax(most, fabs(x[r * s.n + i]));
      /* The error of the mean is at most n eps max|x|. The scale magnifies it. */
      loose[2 * r] = (4 + (double)s.n) * most;
      loose[2 * r + 1] =
          scale * (8 + (double)s.n +
                   scale * scale * (double)(4 + s.n) * (double)(4 + s.n) * most * most * FLT_EPSILON);
      for (int64_t i = 0; i < s.n; i++)
        bound[r * s.n + i] = (8 + (double)s.n) * (fabs(w[i]) * scale * most * 3 + fabs(b[i]));
    }
    if (s.n > 1) { /* the deviation of one value is 0 or rounding error */
      check = (kernel_check){.what = "layernorm_forward",
                             .call = call_layernorm,
                             .data = &s,
                             .inputs = 3,
                             .outputs = 2,
                             .in_size = {size, s.n, s.n},
                             .in = {x, w, b},
                             .out_size = {size, 2 * s.rows},
                             .expected = {y, moments},
                             .bound = {bound, loose}};
      run_check(&check);
    }
    free(x), free(w), free(b), free(y), free(moments), free(bound), free(loose);
  }
}

/* --- backward in double --------------------------------------------------------------------------------- */

typedef struct loss_data {
  norm_shape shape;
  bool layer;
  const double *x, *w, *b, *dy;
  int varied; /* argument that `values` replaces: 0 is x, 1 is w, 2 is b */
} loss_data;

/* Returns the sum of dy * norm(x), computed by the double table. */
static double norm_loss(const double *values, const void *data) {
  const loss_data *d = data;
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  int64_t size = d->shape.rows * d->shape.n;
  double *y = zeros(size), loss = 0;
  const double *x = d->varied == 0 ? values : d->x, *w = d->varied == 1 ? values : d->w;
  const double *b = d->varied == 2 ? values : d->b;
  if (d->layer)
    kernels->layernorm_forward(all_threads(), d->shape.rows, d->shape.n, x, w, b, d->shape.eps, y, NULL);
  else
    kernels->rmsnorm_forward(all_threads(), d->shape.rows, d->shape.n, 1, x, w, d->shape.eps, y, NULL);
  for (int64_t i = 0; i < size; i++) loss += d->dy[i] * y[i];
  free(y);
  return loss;
}

static void the_backward_norms_in_double_match_differences(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 12, 0);
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  const int64_t sizes[][2] = {{1, 2}, {3, 7}, {4, 65}};
  for (int c = 0; c < 3; c++) {
    norm_shape s = {sizes[c][0], sizes[c][1], 1e-5, false, false};
    int64_t size = s.rows * s.n;
    double *x = random_values(&random, size, 1), *w = random_values(&random, s.n, 1);
    double *b = random_values(&random, s.n, 1), *dy = random_values(&random, size, 1);
    double *y = zeros(size), *kept = zeros(2 * s.rows), *dx = zeros(size), *dw = zeros(s.n), *db = zeros(s.n);
    double *scratch = zeros(2 * s.n * omp_get_max_threads());
    loss_data d = {s, false, x, w, b, dy, 0};
    kernels->rmsnorm_forward(all_threads(), s.rows, s.n, 1, x, w, s.eps, y, kept);
    kernels->rmsnorm_backward(all_threads(), s.rows, s.n, 1, x, w, kept, dy, dx, false, dw, false, scratch);
    check_gradient("rmsnorm dx", norm_loss, &d, size, x, dx);
    d.varied = 1;
    check_gradient("rmsnorm dweight", norm_loss, &d, s.n, w, dw);
    d = (loss_data){s, true, x, w, b, dy, 0};
    kernels->layernorm_forward(all_threads(), s.rows, s.n, x, w, b, s.eps, y, kept);
    kernels->layernorm_backward(all_threads(), s.rows, s.n, x, w, kept, dy, dx, false, dw, db, false,
                                scratch);
    check_gradient("layernorm dx", norm_loss, &d, size, x, dx);
    d.varied = 1;
    check_gradient("layernorm dweight", norm_loss, &d, s.n, w, dw);
    d.varied = 2;
    check_gradient("layernorm dbias", norm_loss, &d, s.n, b, db);
    free(x), free(w), free(b), free(dy), free(y), free(kept), free(dx), free(dw), free(db), free(scratch);
  }
}

/* --- backward of every table ---------------------------------------------------------------------------- */

static void call_rmsnorm_backward(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                                  const void *data) {
  const norm_shape *s = data;
  kernels->rmsnorm_backward(all_threads(), s->rows, s->n, 1, in[0], in[1], in[2], in[3], out[0],
                            s->accumulate, out[1], s->accumulate_weight, scratch);
  /* Computes each gradient alone, with NULL for the other. */
  kernels->rmsnorm_backward(all_threads(), s->rows, s->n, 1, in[0], in[1], in[2], in[3], NULL, false, out[2],
                            false, scratch);
  kernels->rmsnorm_backward(all_threads(), s->rows, s->n, 1, in[0], in[1], in[2], in[3], out[3], false, NULL,
                            false, scratch);
}

static void call_layernorm_backward(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                                    const void *data) {
  const norm_shape *s = data;
  kernels->layernorm_backward(all_threads(), s->rows, s->n, in[0], in[1], in[2], in[3], out[0], s->accumulate,
                              out[1], out[2], s->accumulate_weight, scratch);
  kernels->layernorm_backward(all_threads(), s->rows, s->n, in[0], in[1], in[2], in[3], NULL, false, out[3],
                              out[4], false, scratch);
}

/* Returns factor * (|a| + |b|), the error bound of an accumulated value. */
static double *magnitudes(int64_t n, const double *a, const double *b, double factor) {
  double *sum = zeros(n);
  for (int64_t i = 0; i < n; i++) sum[i] = factor * (fabs(a[i]) + fabs(b[i]));
  return sum;
}

static void the_backward_norms_of_all_tables_agree(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 13, 0);
  const ch_kernels *reference = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  for (int c = 0; c < SHAPES; c++) {
    norm_shape s = shapes[c];
    s.eps = 1e-3; /* so large that the gradients are well conditioned */
    int64_t size = s.rows * s.n, n = s.n;
    double *x = random_values(&random, size, 1), *w = random_values(&random, n, 1);
    double *dy = random_values(&random, size, 1), *y = zeros(size), *b = zeros(n);
    double *rstd = zeros(s.rows), *moments = zeros(2 * s.rows),
           *scratch = zeros(2 * n * omp_get_max_threads());
    reference->rmsnorm_forward(all_threads(), s.rows, n, 1, x, w, s.eps, y, rstd);
    reference->layernorm_forward(all_threads(), s.rows, n, x, w, b, s.eps, y, moments);
    for (int64_t r = 0; r < s.rows; r++) rstd[r] = (float)rstd[r];
    for (int64_t r = 0; r < 2 * s.rows; r++) moments[r] = (float)moments[r];
    double *dx0 = random_values(&random, size, 1), *dw0 = random_values(&random, n, 1);
    double *db0 = random_values(&random, n, 1);

    for (int layer = 0; layer < 2; layer++) {
      double *dx = zeros(size), *dw = zeros(n), *db = zeros(n), *fresh_dw = zeros(n), *fresh_db = zeros(n);
      double *fresh_dx = zeros(size), *dx_bound = zeros(size), *dw_bound = zeros(n), *db_bound = zeros(n);
      memcpy(dx, dx0, (size_t)size * sizeof *dx);
      memcpy(dw, dw0, (size_t)n * sizeof *dw);
      memcpy(db, db0, (size_t)n * sizeof *db);
      if (layer) {
        reference->layernorm_backward(all_threads(), s.rows, n, x, w, moments, dy, dx, s.accumulate, dw, db,
                                      s.accumulate_weight, scratch);
        reference->layernorm_backward(all_threads(), s.rows, n, x, w, moments, dy, fresh_dx, false, fresh_dw,
                                      fresh_db, false, scratch);
      } else {
        reference->rmsnorm_backward(all_threads(), s.rows, n, 1, x, w, rstd, dy, dx, s.accumulate, dw,
                                    s.accumulate_weight, scratch);
        reference->rmsnorm_backward(all_threads(), s.rows, n, 1, x, w, rstd, dy, fresh_dx, false, fresh_dw,
                                    false, scratch);
      }
      for (int64_t r = 0; r < s.rows; r++) {
        double scale = layer ? moments[2 * r + 1] : rstd[r], mean = layer ? moments[2 * r] : 0;
        double sum = 0, dot = 0;
        for (int64_t i = 0; i < n; i++) {
          double g = fabs(w[i] * dy[r * n + i]), h = (fabs(x[r * n + i]) + fabs(mean)) * scale;
          sum += g;
          dot += g * h;
        }
        for (int64_t i = 0; i < n; i++) {
          double g = fabs(w[i] * dy[r * n + i]), h = (fabs(x[r * n + i]) + fabs(mean)) * scale;
          dx_bound[r * n + i] = 8 * scale * g + (double)(8 + n) * scale * (sum + h * dot) / (double)n +
                                2 * fabs(dx0[r * n + i]);
          dw_bound[i] += (double)(8 + s.rows) * fabs(dy[r * n + i]) * h;
          db_bound[i] += (double)(8 + s.rows) * fabs(dy[r * n + i]);
        }
      }
      double *dw_all = magnitudes(n, dw_bound, dw0, 2), *db_all = magnitudes(n, db_bound, db0, 2);
      kernel_check check = {.what = layer ? "layernorm_backward" : "rmsnorm_backward",
                            .call = layer ? call_layernorm_backward : call_rmsnorm_backward,
                            .data = &s,
                            .inputs = 4,
                            .in_size = {size, n, layer ? 2 * s.rows : s.rows, size},
                            .in = {x, w, layer ? moments : rstd, dy},
                            .scratch_size = 2 * n * MOST_THREADS};
      check.initial[0] = s.accumulate ? dx0 : NULL;
      check.initial[1] = s.accumulate_weight ? dw0 : NULL;
      check.out_size[0] = size, check.expected[0] = dx, check.bound[0] = dx_bound;
      check.out_size[1] = n, check.expected[1] = dw, check.bound[1] = dw_all;
      if (layer) {
        check.outputs = 5;
        check.initial[2] = s.accumulate_weight ? db0 : NULL;
        check.out_size[2] = n, check.expected[2] = db, check.bound[2] = db_all;
        check.out_size[3] = n, check.expected[3] = fresh_dw, check.bound[3] = dw_all;
        check.out_size[4] = n, check.expected[4] = fresh_db, check.bound[4] = db_all;
      } else {
        check.outputs = 4;
        check.out_size[2] = n, check.expected[2] = fresh_dw, check.bound[2] = dw_all;
        check.out_size[3] = size, check.expected[3] = fresh_dx, check.bound[3] = dx_bound;
      }
      run_check(&check);
      free(dx), free(dw), free(db), free(fresh_dw), free(fresh_db), free(fresh_dx);
      free(dx_bound), free(dw_bound), free(db_bound), free(dw_all), free(db_all);
    }
    free(x), free(w), free(dy), free(y), free(b), free(rstd), free(moments), free(scratch);
    free(dx0), free(dw0), free(db0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_forward_norms_follow_their_equations),
      cmocka_unit_test(the_backward_norms_in_double_match_differences),
      cmocka_unit_test(the_backward_norms_of_all_tables_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
