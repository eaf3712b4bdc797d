/* Exclusive attention: a head's context without its part along the token's own value. */
#include "tensor/kernels/vector/dot.h"

/* Smaller norms are replaced by this one. */
#define LEAST_NORM ((real)1e-12)

/* Returns 1 / max(norm, LEAST_NORM). */
static real inverse_norm(int64_t n, const real *v) {
  real norm = (real)sqrt((double)dot(n, v, v));
  return 1 / (norm > LEAST_NORM ? norm : LEAST_NORM);
}

/* to = (+=) y - (y . v) / |v|^2 v. If y = v, as for the first token of a text, the quotient is exactly 1 and
   the result is 0. Rounding errors would matter here, because a norm after this would amplify them. */
static void leave_out(int64_t n, const real *y, const real *v, real *to, bool accumulate) {
  real square = dot(n, v, v), least = LEAST_NORM * LEAST_NORM;
  vec along = splat(dot(n, y, v) / (square > least ? square : least));
  for (int64_t i = 0; i < n; i += VL)
    put(to + i, vec_fnma(along, load_some(v + i, n - i), load_some(y + i, n - i)), n - i, accumulate);
}

static void exclude_rows(int64_t first, int64_t last, int64_t heads, int64_t groups, int64_t dim,
                         const real *y, const real *v, real *z) {
  for (int64_t r = first; r < last; r++)
    for (int64_t h = 0; h < heads; h++) {
      const real *own = v + (r * groups + h * groups / heads) * dim;
      leave_out(dim, y + (r * heads + h) * dim, own, z + (r * heads + h) * dim, false);
    }
}

void KERNEL(exclude_forward)(const ch_team *team, int64_t rows, int64_t heads, int64_t groups, int64_t dim,
                             const void *y, const void *v, void *z) {
  FOR_RANGE(rows, rows > 1 && rows * heads * dim >= CH_PARALLEL_ELEMENTS,
            exclude_rows(first, last, heads, groups, dim, y, v, z));
}

/* With u = v / |v|, z = y - (y . u) u has the gradients dy = dz - (dz . u) u and du = -(dz . u) y - (y . u)
   dz. This gives dv = (du - (du . u) u) / |v|. A norm clamped to LEAST_NORM does not depend on v. */
static void add_value_gradient(int64_t n, const real *y, const real *v, real scale, const real *dz,
                               real *dv) {
  real of_z = dot(n, dz, v) * scale, of_y = dot(n, y, v) * scale;
  bool normed = scale * LEAST_NORM < 1;
  real along = normed ? -2 * of_z * of_y : 0; /* du . u */
  for (int64_t i = 0; i < n; i += VL) {
    vec du = -(of_z * load_some(y + i, n - i)) - of_y * load_some(dz + i, n - i);
    du -= along * scale * load_some(v + i, n - i);
    put(dv + i, du * scale, n - i, true);
  }
}

static void exclude_back_rows(int64_t first, int64_t last, int64_t heads, int64_t groups, int64_t dim,
                              const real *y, const real *v, const real *dz, real *dy, bool accumulate_y,
                              real *dv, bool accumulate_v) {
  for (int64_t r = first; r < last; r++) {
    if (dv && !accumulate_v) memset(dv + r * groups * dim, 0, (size_t)(groups * dim) * sizeof *dv);
    for (int64_t h = 0; h < heads; h++) {
      int64_t at = (r * heads + h) * dim, of = (r * groups + h * groups / heads) * dim;
      real scale = inverse_norm(dim, v + of);
      if (dy) leave_out(dim, dz + at, v + of, dy + at, accumulate_y);
      if (dv) add_value_gradient(dim, y + at, v + of, scale, dz + at, dv + of);
    }
  }
}

void KERNEL(exclude_backward)(const ch_team *team, int64_t rows, int64_t heads, int64_t groups, int64_t dim,
                              const void *y, const void *v, const void *dz, void *dy, bool accumulate_y,
                              void *dv, bool accumulate_v) {
  FOR_RANGE(rows, rows > 1 && rows * heads * dim >= CH_PARALLEL_ELEMENTS,
            exclude_back_rows(first, last, heads, groups, dim, y, v, dz, dy, accumulate_y, dv, accumulate_v));
}
