/* The modules of the reference: knocking, head mixing, QK norm, head norm, exclusive attention. */
#include <math.h>
#include <stdio.h>

#include "private.h"

/* --- knocking (KHA eqs. 5-9) --- */

static bool knocks(const reference_config *c, char which) {
  return c->knock.type != REFERENCE_NO_KNOCK && (which == 'q'   ? c->knock.q
                                                 : which == 'k' ? c->knock.k
                                                                : c->knock.v);
}

/* Multiplies every head of x by "self_attn.{which}_knock{part}.weight": [dim, dim] for all heads, or with `per_head`
   [heads, dim, dim]. */
static double *knock_product(reference_run *run, char which, const char *part, const double *x, int64_t heads,
                             int64_t dim) {
  char name[64];
  snprintf(name, sizeof name, "self_attn.%c_knock%s.weight", which, part);
  bool own = run->config->knock.per_head;
  const double *weight =
      own ? reference_matrices(run, name, heads, dim, dim) : reference_matrix(run, name, dim, dim);
  double *y = reference_zeros(run, run->length * heads * dim);
  for (int64_t head = 0; head < run->length * heads; head++) {
    const double *map = own ? weight + head % heads * dim * dim : weight;
    for (int64_t o = 0; o < dim; o++)
      for (int64_t i = 0; i < dim; i++) y[head * dim + o] += map[o * dim + i] * x[head * dim + i];
  }
  return y;
}

double *reference_knocked(reference_run *run, char which, double *x, int64_t heads, int64_t dim) {
  const reference_config *c = run->config;
  if (!knocks(c, which)) return x;
  if (c->knock.type == REFERENCE_KNOCK_LINEAR) return knock_product(run, which, "", x, heads, dim);
  double *gate = knock_product(run, which, ".gate", x, heads, dim);
  bool mlp = c->knock.type == REFERENCE_KNOCK_MLP;
  double *up = mlp ? knock_product(run, which, ".up", x, heads, dim) : x;
  for (int64_t i = 0; i < run->length * heads * dim; i++) gate[i] = 2 * up[i] * reference_sigmoid(gate[i]);
  return mlp ? knock_product(run, which, ".down", gate, heads, dim) : gate;
}

/* --- head mixing (MEA eqs. 10-12) --- */

int64_t reference_components(const reference_run *run, char which) {
  const reference_config *c = run->config;
  return (which == 'k' ? c->mix_k : c->mix_v) ? c->components[run->layer] : 0;
}

double *reference_mixed(reference_run *run, char which, const double *component) {
  const reference_config *c = run->config;
  int64_t components = reference_components(run, which), d = c->head_dim;
  char mix_name[64];
  snprintf(mix_name, sizeof mix_name, "self_attn.%c_mix.weight", which);
  int64_t groups = reference_groups(c, which);
  const double *mix = reference_matrix(run, mix_name, groups, components);
  double *heads = reference_zeros(run, run->length * groups * d);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t g = 0; g < groups; g++)
      for (int64_t j = 0; j < components; j++)
        for (int64_t i = 0; i < d; i++)
          heads[(t * groups + g) * d + i] +=
              mix[g * components + j] * component[(t * components + j) * d + i];
  return heads;
}

/* --- norms --- */

void reference_qk_norm(reference_run *run, char which, double *x, int64_t heads, int64_t dim) {
  if (!run->config->qk_norm) return;
  char name[64];
  snprintf(name, sizeof name, "self_attn.%c_norm.weight", which);
  int64_t together = run->config->qk_norm_all ? heads : 1;
  reference_rmsnorm(x, run->length * heads / together, dim * together,
                    reference_vector(run, name, dim * together), run->config->eps);
}

void reference_head_norm(reference_run *run, double *context, int64_t heads, int64_t dim) {
  if (!run->config->head_norm) return;
  reference_rmsnorm(context, run->length * heads, dim,
                    reference_vector(run, "self_attn.head_norm.weight", dim), run->config->eps);
}

/* --- exclusive attention --- */

void reference_exclude(reference_run *run, double *context, const double *values, int64_t dim) {
  const reference_config *c = run->config;
  if (!c->exclusive) return;
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < c->heads; h++) {
      double *y = context + (t * c->heads + h) * dim, norm = 0, along = 0;
      const double *v = values + (t * c->value_groups + h * c->value_groups / c->heads) * dim;
      for (int64_t i = 0; i < dim; i++) norm += v[i] * v[i];
      norm = fmax(sqrt(norm), 1e-12);
      for (int64_t i = 0; i < dim; i++) along += y[i] * v[i] / norm;
      for (int64_t i = 0; i < dim; i++) y[i] -= along * v[i] / norm;
    }
}
