/* Layers with a state of constant size: Gated DeltaNet, one token after the other. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/mechanisms/mechanism.h"

/* Returns silu(conv(W x)) with "linear_attn.{letter}_proj" and "linear_attn.{letter}_conv1d". There are zeros before
   the document. */
static double *convolved(reference_run *run, char letter, const double *x, int64_t width) {
  const reference_config *c = run->config;
  const int64_t taps = c->linear.conv;
  char name[64];
  snprintf(name, sizeof name, "linear_attn.%c_proj.weight", letter);
  const double *z = reference_apply(run, x, c->hidden, reference_matrix(run, name, width, c->hidden), width);
  double *y = reference_zeros(run, run->length * width);
  snprintf(name, sizeof name, "linear_attn.%c_conv1d.weight", letter);
  const double *w = taps ? reference_matrices(run, name, width, 1, taps) : NULL;
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t i = 0; i < width; i++) {
      double sum = taps ? 0 : z[t * width + i];
      for (int64_t s = 0; s < taps; s++) {
        int64_t from = t - taps + 1 + s;
        if (from >= (run->start ? run->start[t] : 0)) sum += w[i * taps + s] * z[from * width + i];
      }
      y[t * width + i] = sum * reference_sigmoid(sum);
    }
  return y;
}

/* Divides every head of x [length][heads][dim] by its L2 norm, in place. */
static void to_length_one(reference_run *run, double *x, int64_t heads, int64_t dim) {
  for (int64_t i = 0; i < run->length * heads; i++, x += dim) {
    double squares = 1e-6;
    for (int64_t j = 0; j < dim; j++) squares += x[j] * x[j];
    for (int64_t j = 0; j < dim; j++) x[j] /= sqrt(squares);
  }
}

/* Returns one number per value head from "linear_attn.{letter}_proj". */
static double *gate(reference_run *run, char letter, const double *x) {
  const reference_config *c = run->config;
  char name[64];
  snprintf(name, sizeof name, "linear_attn.%c_proj.weight", letter);
  return reference_apply(run, x, c->hidden, reference_matrix(run, name, c->linear.value_heads, c->hidden),
                         c->linear.value_heads);
}

/* Updates the state by one token: S = a S; S += k (b (v - S^T k))^T; o = S^T q. */
static void step(int64_t keys, int64_t values, double a, double b, const double *q, const double *k,
                 const double *v, double *S, double *o) {
  for (int64_t i = 0; i < keys * values; i++) S[i] *= a;
  for (int64_t j = 0; j < values; j++) {
    double recalled = 0;
    for (int64_t i = 0; i < keys; i++) recalled += S[i * values + j] * k[i];
    for (int64_t i = 0; i < keys; i++) S[i * values + j] += k[i] * b * (v[j] - recalled);
    for (int64_t i = 0; i < keys; i++) o[j] += S[i * values + j] * q[i];
  }
}

/* Computes the output of value head h over the whole sequence, into o [length][value heads][d_v]. */
static void recur(reference_run *run, int64_t h, const double *q, const double *k, const double *v,
                  const double *a, const double *b, double *o) {
  const reference_config *c = run->config;
  const int64_t H = c->linear.heads, V = c->linear.value_heads, n = c->linear.head_dim,
                m = c->linear.value_head_dim, of = h * H / V;
  double *S = reference_zeros(run, n * m);
  for (int64_t t = 0; t < run->length; t++) {
    if (run->start && run->start[t] == t) memset(S, 0, (size_t)(n * m) * sizeof *S);
    step(n, m, a[t * V + h], b[t * V + h], q + (t * H + of) * n, k + (t * H + of) * n, v + (t * V + h) * m, S,
         o + (t * V + h) * m);
  }
}

double *reference_linear_attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  const int64_t H = c->linear.heads, V = c->linear.value_heads, n = c->linear.head_dim,
                m = c->linear.value_head_dim, rows = run->length;
  double *q = convolved(run, 'q', x, H * n), *k = convolved(run, 'k', x, H * n),
         *v = convolved(run, 'v', x, V * m), *a = gate(run, 'a', x), *b = gate(run, 'b', x);
  const double *A_log = reference_vector(run, "linear_attn.A_log", V),
               *dt_bias = reference_vector(run, "linear_attn.dt_bias", V);
  to_length_one(run, q, H, n);
  to_length_one(run, k, H, n);
  for (int64_t i = 0; i < rows * H * n; i++) q[i] /= sqrt((double)n);
  for (int64_t i = 0; i < rows * V; i++) {
    a[i] = exp(-exp(A_log[i % V]) * log(1 + exp(a[i] + dt_bias[i % V])));
    b[i] = (c->linear.negative ? 2 : 1) * reference_sigmoid(b[i]);
  }
  double *o = reference_zeros(run, rows * V * m);
  for (int64_t h = 0; h < V; h++) recur(run, h, q, k, v, a, b, o);
  reference_rmsnorm(o, rows * V, m, reference_vector(run, "linear_attn.o_norm.weight", m), c->eps);
  if (c->linear.gate) {
    const double *g = reference_apply(
        run, x, c->hidden, reference_matrix(run, "linear_attn.g_proj.weight", V * m, c->hidden), V * m);
    for (int64_t i = 0; i < rows * V * m; i++) o[i] *= g[i] * reference_sigmoid(g[i]);
  }
  return reference_apply(run, o, V * m, reference_matrix(run, "linear_attn.o_proj.weight", c->hidden, V * m),
                         c->hidden);
}

int64_t reference_linear_parameters(const reference_config *c) {
  const int64_t keys = c->linear.heads * c->linear.head_dim, V = c->linear.value_heads,
                values = V * c->linear.value_head_dim, D = c->hidden;
  return 2 * keys * D + values * D + 2 * V * D + 2 * V + c->linear.conv * (2 * keys + values) +
         (c->linear.gate ? values * D : 0) + c->linear.value_head_dim + D * values;
}

int64_t reference_linear_state(const reference_config *c) {
  const int64_t keys = c->linear.heads * c->linear.head_dim,
                values = c->linear.value_heads * c->linear.value_head_dim;
  return keys / c->linear.heads * values +
         (c->linear.conv > 1 ? c->linear.conv - 1 : 0) * (2 * keys + values);
}
