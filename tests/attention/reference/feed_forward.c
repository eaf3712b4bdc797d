/* Feed-forward layers of the reference: dense networks and mixtures of experts. */
#include <math.h>
#include <stdio.h>

#include "private.h"

static const double *mlp_matrix(reference_run *run, const char *part, const char *name, int64_t rows,
                                int64_t columns) {
  char full[96];
  snprintf(full, sizeof full, "mlp.%s%s_proj.weight", part, name);
  return reference_matrix(run, full, rows, columns);
}

/* Applies "mlp.{part}{name}_proj.weight", and the bias if the model's networks have biases. */
static double *biased(reference_run *run, const char *part, const char *name, const double *x, int64_t in,
                      int64_t out) {
  char full[96];
  double *y = reference_apply(run, x, in, mlp_matrix(run, part, name, out, in), out);
  if (!run->config->mlp_bias) return y;
  snprintf(full, sizeof full, "mlp.%s%s_proj.bias", part, name);
  const double *bias = reference_vector(run, full, out);
  for (int64_t i = 0; i < run->length * out; i++) y[i] += bias[i % out];
  return y;
}

/* Returns gpt-oss's g sigmoid(alpha g) (u + 1), where g and u are clamped. */
static double clamped(const reference_config *c, double gate, double up) {
  double g = fmin(gate, c->swiglu_limit), u = fmax(fmin(up, c->swiglu_limit), -c->swiglu_limit);
  return g * reference_sigmoid(c->swiglu_alpha * g) * (u + 1);
}

/* Computes W_down (f(W_gate x) * (W_up x)), or W_down f(W_up x), with the tensors
   "mlp.{part}{gate,up,down}_proj". */
static double *network(reference_run *run, const char *part, const double *x, int64_t width) {
  const reference_config *c = run->config;
  double *inner = biased(run, part, c->gated ? "gate" : "up", x, c->hidden, width);
  const double *up = c->gated ? biased(run, part, "up", x, c->hidden, width) : NULL;
  for (int64_t i = 0; i < run->length * width; i++)
    inner[i] = c->clamped ? clamped(c, inner[i], up[i]) : c->activation(inner[i]) * (up ? up[i] : 1);
  return biased(run, part, "down", inner, width, c->hidden);
}

/* Returns the weights [length][experts] of all experts for every token. Experts that are not chosen have zero. */
static double *route(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t experts = c->experts;
  const double *router = reference_matrix(run, "mlp.gate.weight", experts, c->hidden);
  const double *bias =
      c->loss_free ? reference_vector(run, "mlp.gate.e_score_correction_bias", experts) : NULL;
  double *p = reference_apply(run, x, c->hidden, router, experts);
  const double *shift = c->router_bias ? reference_vector(run, "mlp.gate.bias", experts) : NULL;
  for (int64_t i = 0; shift && i < run->length * experts; i++) p[i] += shift[i % experts];
  double *weights = reference_zeros(run, run->length * experts);
  for (int64_t t = 0; t < run->length; t++) {
    double *share = p + t * experts, *weight = weights + t * experts, largest = -INFINITY, sum = 0;
    for (int64_t e = 0; e < experts; e++) largest = fmax(largest, share[e]);
    for (int64_t e = 0; e < experts; e++) sum += exp(share[e] - largest);
    for (int64_t e = 0; e < experts; e++) share[e] = exp(share[e] - largest) / sum;
    double chosen_sum = 0;
    for (int64_t k = 0; k < c->active; k++) {
      int64_t best = -1;
      for (int64_t e = 0; e < experts; e++)
        if (weight[e] == 0 &&
            (best < 0 || share[e] + (bias ? bias[e] : 0) > share[best] + (bias ? bias[best] : 0)))
          best = e;
      weight[best] = share[best];
      chosen_sum += share[best];
    }
    for (int64_t e = 0; c->active > 1 && e < experts; e++) weight[e] /= chosen_sum;
  }
  return weights;
}

/* Runs every expert on every token. Returns the sum of the results by weight, plus the shared experts. */
static double *mixture(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  const double *weights = route(run, x);
  double *sum = c->shared_experts > 0
                    ? network(run, "shared_experts.", x, c->shared_experts * c->expert_width)
                    : reference_zeros(run, run->length * c->hidden);
  for (int64_t e = 0; e < c->experts; e++) {
    char part[32];
    snprintf(part, sizeof part, "experts.%d.", (int)e);
    const double *y = network(run, part, x, c->expert_width);
    for (int64_t t = 0; t < run->length; t++)
      for (int64_t i = 0; i < c->hidden; i++)
        sum[t * c->hidden + i] += weights[t * c->experts + e] * y[t * c->hidden + i];
  }
  return sum;
}

double *reference_feed_forward(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  if (c->experts > 0 && run->layer >= c->dense_layers && !c->dense[run->layer]) return mixture(run, x);
  return network(run, "", x, c->intermediate);
}
