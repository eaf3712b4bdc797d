/* Projections, norms and rotations of the reference. */
#include <math.h>
#include <stdio.h>

#include "private.h"

double *reference_apply(reference_run *run, const double *x, int64_t in, const double *weight, int64_t out) {
  double *y = reference_zeros(run, run->length * out);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t o = 0; o < out; o++)
      for (int64_t i = 0; i < in; i++) y[t * out + o] += weight[o * in + i] * x[t * in + i];
  return y;
}

double *reference_project(reference_run *run, const char *name, const double *x, int64_t in, int64_t out) {
  char full[96];
  double *y = reference_apply(run, x, in, reference_projection(run, name, out, in), out);
  snprintf(full, sizeof full, "self_attn.%s.bias", name);
  if (!reference_has(run, full)) return y;
  const double *bias = reference_vector(run, full, out);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t o = 0; o < out; o++) y[t * out + o] += bias[o];
  return y;
}

void reference_rmsnorm(double *x, int64_t count, int64_t n, const double *weight, double eps) {
  for (int64_t c = 0; c < count; c++, x += n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += x[i] * x[i];
    for (int64_t i = 0; i < n; i++) x[i] = x[i] / sqrt(squares / (double)n + eps) * weight[i];
  }
}

void reference_layernorm(double *x, int64_t count, int64_t n, const double *weight, const double *bias,
                         double eps) {
  reference_layernorm_of(x, x, count, n, weight, bias, eps);
}

void reference_layernorm_of(const double *of, double *x, int64_t count, int64_t n, const double *weight,
                            const double *bias, double eps) {
  for (int64_t c = 0; c < count; c++, x += n, of += n) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++) mean += of[i] / (double)n;
    for (int64_t i = 0; i < n; i++) variance += (of[i] - mean) * (of[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) x[i] = (x[i] - mean) / sqrt(variance + eps) * weight[i] + bias[i];
  }
}

/* Returns the radians per position of rotary pair i of n / 2. "linear" divides by the factor. "llama3" divides
   frequencies whose wavelength is above context / low, keeps those whose wavelength is below context / high, and
   interpolates the others. */
static double frequency(const reference_config *c, int64_t i, int64_t n) {
  double base = pow(c->theta, -2.0 * (double)i / (double)n), kept = 0;
  if (c->scaling.llama3) {
    double turns = c->scaling.context * base / (2 * acos(-1)); /* rotations within the original context */
    kept = fmin(1, fmax(0, (turns - c->scaling.low) / (c->scaling.high - c->scaling.low)));
  }
  return kept * base + (1 - kept) * base / c->scaling.factor;
}

void reference_rope(reference_run *run, double *x, int64_t heads, int64_t dim, int64_t rotary) {
  const reference_config *c = run->config;
  if (c->position != REFERENCE_ROPE || c->unturned[run->layer]) return;
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < heads; h++) {
      double *part = x + (t * heads + h) * dim + (c->rotary_share < 1 ? 0 : dim - rotary);
      for (int64_t i = 0; i < rotary / 2; i++) {
        double slow = pow(c->local_theta, -2.0 * (double)i / (double)rotary);
        double angle = (double)t * (c->local[run->layer] ? slow : frequency(c, i, rotary));
        double *a = part + (c->interleaved ? 2 * i : i),
               *b = part + (c->interleaved ? 2 * i + 1 : i + rotary / 2);
        double first = *a, second = *b;
        *a = first * cos(angle) - second * sin(angle);
        *b = second * cos(angle) + first * sin(angle);
      }
    }
}

double reference_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
