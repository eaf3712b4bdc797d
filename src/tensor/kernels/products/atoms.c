/* Weights that layers share: combinations of a dictionary's atoms (MASA eq. 2), and their gradient in one
 * pass. */
#include "tensor/kernels/vector/stored_states.h"
#include "tensor/kernels/vector/partials.h"

/* The elements of a weight that are summed over all atoms while they stay in L1. */
enum { BLOCK = 1024 };

ALWAYS_INLINE void combine_range(const ch_dtype dtype, int64_t first, int64_t last, int64_t n, int64_t atoms,
                                 const real *coefficients, const char *x, real *y) {
  for (int64_t at = first; at < last; at += BLOCK) {
    int64_t end = at + BLOCK < last ? at + BLOCK : last;
    for (int64_t s = 0; s < atoms; s++) {
      const char *atom = x + s * n * state_size(dtype);
      vec c = splat(coefficients[s]);
      for (int64_t i = at; i < end; i += VL)
        put(y + i, c * load_state(dtype, atom, i, end - i), end - i, s > 0);
    }
  }
}

static void combine_typed(ch_dtype dtype, int64_t first, int64_t last, int64_t n, int64_t atoms,
                          const real *coefficients, const char *x, real *y) {
  if (dtype == CH_F16)
    combine_range(CH_F16, first, last, n, atoms, coefficients, x, y);
  else if (dtype == CH_BF16)
    combine_range(CH_BF16, first, last, n, atoms, coefficients, x, y);
  else
    combine_range(CH_KERNEL_DTYPE, first, last, n, atoms, coefficients, x, y);
}

void KERNEL(combine_forward)(const ch_team *team, int64_t n, int64_t atoms, const void *coefficients,
                             const void *x, ch_dtype dtype, void *y) {
#pragma omp parallel num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    combine_typed(dtype, first, last, n, atoms, coefficients, x, y);
  }
}

/* Computes the gradients of every atom and its coefficient from a block of dy. The block stays in the cache
   meanwhile. */
static void spread_block(int64_t at, int64_t end, int64_t n, int64_t atoms, const real *coefficients,
                         const real *x, const real *dy, real *dx, bool accumulate, real *products) {
  for (int64_t s = 0; s < atoms; s++) {
    vec c = splat(coefficients[s]), sum = splat(0);
    for (int64_t i = at; i < end; i += VL) {
      vec d = load_some(dy + i, end - i);
      if (products) sum = vec_fma(d, load_some(x + s * n + i, end - i), sum);
      if (!dx) continue;
      vec share = c * d;
      KEEP_LOADED(share); /* rounds the product before it is added */
      put(dx + s * n + i, share, end - i, accumulate);
    }
    if (products) products[s] += lanes_sum(sum);
  }
}

/* Computes the gradients of every atom and its coefficient from part `part` of dy. */
static void spread_part(int part, int parts, int64_t n, int64_t atoms, const real *coefficients,
                        const real *x, const real *dy, real *dx, bool accumulate, real *products) {
  if (products) memset(products, 0, (size_t)atoms * sizeof(real));
  int64_t first, last;
  vector_part(n, part, parts, &first, &last);
  for (int64_t at = first; at < last; at += BLOCK)
    spread_block(at, at + BLOCK < last ? at + BLOCK : last, n, atoms, coefficients, x, dy, dx, accumulate,
                 products);
}

void KERNEL(combine_backward)(const ch_team *team, int64_t n, int64_t atoms, const void *coefficients,
                              const void *x, const void *dy, void *dx, bool accumulate, void *dcoefficients,
                              bool accumulate_coefficients, void *scratch) {
  const int parts = parts_of_team(team, n >= CH_PARALLEL_ELEMENTS);
#pragma omp parallel num_threads(team->workers) if (parts > 1)
  EACH_PART(part, parts)
  spread_part(part, parts, n, atoms, coefficients, x, dy, dx, accumulate,
              dcoefficients ? (real *)scratch + part * atoms : NULL);
  if (dcoefficients) sum_partials(parts, atoms, scratch, 0, atoms, dcoefficients, accumulate_coefficients);
}
