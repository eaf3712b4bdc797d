/* Sink logits: each head's softmax has one more term e^z, with a learned z, whose value is zero.
 *
 *   O' = O sigmoid(lse - z),   lse' = log(e^lse + e^z),   dz = -sum over queries of e^(z - lse') (dO' . O')
 *
 * With lse' in place of lse the backward pass of attention gives the gradients of queries, keys and
 * values. */
#include "tensor/kernels/vector/math.h"

/* Computes sigmoid(lse - z) and log(e^lse + e^z). The lse of a query that sees no key is -infinity. */
static void join(real lse, real z, real *share, real *joined) {
  const real most = lse > z ? lse : z, sum = real_exp(lse - most) + real_exp(z - most);
  *share = real_exp(lse - most) / sum;
  *joined = most + real_log(sum);
}

void KERNEL(attend_sinks)(const ch_attend *args, int64_t count, const void *sinks) {
  const real *z = sinks;
  real *lse = args->lse, *out = args->out;
  const int64_t rows = args->sequences * args->queries;
#pragma omp parallel for num_threads(args->team->workers) if (rows * args->heads * args->value_dim >         \
                                                              CH_PARALLEL_ELEMENTS)
  for (int64_t row = 0; row < rows; row++)
    for (int64_t h = 0; h < args->heads; h++) {
      real *own = lse + (row / args->queries * args->heads + h) * args->queries + row % args->queries,
           *y = out + (row * args->heads + h) * args->value_dim, share;
      join(*own, z[h % count], &share, own);
      for (int64_t k = 0; k < args->value_dim; k++) y[k] *= share;
    }
}

/* Computes the gradient of the sinks. A single thread computes each sink, so the order of its sum is fixed. */
void KERNEL(attend_sinks_backward)(const ch_attend *args, const void *dout, int64_t count, const void *sinks,
                                   void *dsinks, bool accumulate) {
  const real *z = sinks, *lse = args->lse;
  real *dz = dsinks;
  const int64_t rows = args->sequences * args->queries, dim = args->value_dim;
#pragma omp parallel for num_threads(args->team->workers) if (rows * args->heads * dim > CH_PARALLEL_ELEMENTS)
  for (int64_t n = 0; n < count; n++) {
    double sum = 0;
    for (int64_t h = n; h < args->heads; h += count)
      for (int64_t row = 0; row < rows; row++) {
        const int64_t at = (row * args->heads + h) * dim;
        const real *x = (const real *)args->out + at, *dx = (const real *)dout + at,
                   own = lse[(row / args->queries * args->heads + h) * args->queries + row % args->queries];
        real dot = 0;
        for (int64_t k = 0; k < dim; k++) dot = real_fma(x[k], dx[k], dot);
        sum -= (double)(real_exp(z[n] - own) * dot);
      }
    dz[n] = (accumulate ? dz[n] : 0) + (real)sum;
  }
}
