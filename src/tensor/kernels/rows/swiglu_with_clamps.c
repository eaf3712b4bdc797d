/* The SwiGLU with clamps of gpt-oss: y = g s(alpha g) (u + 1), where g = min(gate, limit), and u = up clamped to
 * -limit … limit. */
#include "tensor/kernels/vector/math.h"

/* The inputs of a call. */
typedef struct glu_rows {
  int64_t n;
  real alpha, limit;
  const real *gate, *up, *scale; /* [rows, n], [rows, n], [rows]; scale NULL: 1 */
} glu_rows;

static void clamped_range(int64_t first, int64_t last, const glu_rows *rows, real *y) {
  const vec limit = splat(rows->limit);
  for (int64_t r = first; r < last; r++) {
    const real scale = rows->scale ? rows->scale[r] : 1;
    for (int64_t i = 0; i < rows->n; i += VL) {
      int64_t at = r * rows->n + i, left = rows->n - i;
      vec g = vec_min(load_some(rows->gate + at, left), limit);
      vec u = vec_min(vec_max(load_some(rows->up + at, left), -limit), limit);
      store_some(y + at, scale * (g * vec_sigmoid(rows->alpha * g) * (u + 1)), left);
    }
  }
}

void KERNEL(clamped_swiglu_forward)(const ch_team *team, int64_t rows, int64_t n, double alpha, double limit,
                                    const void *gate, const void *up, const void *scale, void *y) {
  const glu_rows all = {n, (real)alpha, (real)limit, gate, up, scale};
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS, clamped_range(first, last, &all, y));
}

/* The addresses of a call's gradients. */
typedef struct glu_gradients {
  real *gate, *up, *scale;             /* gradients to compute; NULL: skipped */
  bool accumulate_gate, accumulate_up; /* true adds to the gradient, false overwrites it */
} glu_gradients;

/* (g s(a g))' = s (1 + a g (1 - s)). Past a limit the slope is 0. */
static void clamped_back_range(int64_t first, int64_t last, const glu_rows *rows, const real *dy,
                               const glu_gradients *to) {
  const vec limit = splat(rows->limit), zero = splat(0);
  for (int64_t r = first; r < last; r++) {
    const real scale = rows->scale ? rows->scale[r] : 1;
    vec sum = zero;
    for (int64_t i = 0; i < rows->n; i += VL) {
      int64_t at = r * rows->n + i, left = rows->n - i;
      vec gate = load_some(rows->gate + at, left), up = load_some(rows->up + at, left);
      vec d = load_some(dy + at, left), g = vec_min(gate, limit), s = vec_sigmoid(rows->alpha * g);
      vec u = vec_min(vec_max(up, -limit), limit) + 1;
      sum = vec_fma(d, g * s * u, sum);
      d *= scale;
      vec dgate = choose(gate > limit, zero, d * u * silu_slope(rows->alpha * g, s));
      vec dup = choose((up > limit) | (up < -limit), zero, d * (g * s));
      if (to->gate) put(to->gate + at, dgate, left, to->accumulate_gate);
      if (to->up) put(to->up + at, dup, left, to->accumulate_up);
    }
    if (to->scale) to->scale[r] = lanes_sum(sum);
  }
}

void KERNEL(clamped_swiglu_backward)(const ch_team *team, int64_t rows, int64_t n, double alpha, double limit,
                                     const void *gate, const void *up, const void *scale, const void *dy,
                                     void *dgate, bool accumulate_gate, void *dup, bool accumulate_up,
                                     void *dscale) {
  const glu_rows all = {n, (real)alpha, (real)limit, gate, up, scale};
  const glu_gradients to = {dgate, dup, dscale, accumulate_gate, accumulate_up};
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS,
            clamped_back_range(first, last, &all, dy, &to));
}
