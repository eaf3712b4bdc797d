/* Sharing matrices across layers, as the reference does it: every matrix is made anew from the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/mechanisms/mechanism.h"

enum { EMBEDDING = 64, WIDTH = 64 }; /* of the MLP that gives coefficients */

static bool is_shared(const reference_config *c, const char *name) {
  for (int i = 0; i < c->sharing.count; i++)
    if (strcmp(c->sharing.names[i], name) == 0) return true;
  return false;
}

/* --- matrices --- */

static const double *atoms_of(reference_run *run, const char *name, int64_t out, int64_t in) {
  char full[128];
  if (run->config->sharing.common)
    snprintf(full, sizeof full, "model.dictionary.common_%dx%d.atoms", (int)out, (int)in);
  else
    snprintf(full, sizeof full, "model.dictionary.%s.atoms", name);
  return reference_atoms(run, full, run->config->sharing.atoms, out, in);
}

/* "model.dictionary.{name}.mlp.{layer}": y [out] = W x + b. */
static double *mlp_layer(reference_run *run, const char *name, int layer, const double *x, int64_t in,
                         int64_t out) {
  char full[128];
  snprintf(full, sizeof full, "model.dictionary.%s.mlp.%d.weight", name, layer);
  const double *weight = reference_model_tensor(run, full, 2, out, in);
  snprintf(full, sizeof full, "model.dictionary.%s.mlp.%d.bias", name, layer);
  const double *bias = reference_model_tensor(run, full, 1, out, 1);
  double *y = reference_zeros(run, out);
  for (int64_t o = 0; o < out; o++) {
    y[o] = bias[o];
    for (int64_t i = 0; i < in; i++) y[o] += weight[o * in + i] * x[i];
  }
  return y;
}

static void gelu(double *x, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] *= 0.5 * (1 + erf(x[i] / sqrt(2)));
}

/* c_l [S] of the layer (MASA eq. 2), its own vector or what the MLP makes of the layer's embedding. */
static const double *coefficients_of(reference_run *run, const char *name) {
  const reference_config *c = run->config;
  char full[128];
  if (!c->sharing.mlp) {
    snprintf(full, sizeof full, "self_attn.%s.coefficients", name);
    return reference_vector(run, full, c->sharing.atoms);
  }
  snprintf(full, sizeof full, "model.dictionary.%s.block_embedding", name);
  const double *embedding = reference_model_tensor(run, full, 2, c->layers, EMBEDDING);
  double *x = mlp_layer(run, name, 0, embedding + run->layer * EMBEDDING, EMBEDDING, WIDTH);
  gelu(x, WIDTH);
  x = mlp_layer(run, name, 1, x, WIDTH, WIDTH);
  gelu(x, WIDTH);
  return mlp_layer(run, name, 2, x, WIDTH, c->sharing.atoms);
}

static const double *combined_atoms(reference_run *run, const char *name, int64_t out, int64_t in) {
  const double *atoms = atoms_of(run, name, out, in), *coefficients = coefficients_of(run, name);
  double *weight = reference_zeros(run, out * in);
  for (int64_t s = 0; s < run->config->sharing.atoms; s++)
    for (int64_t i = 0; i < out * in; i++) weight[i] += coefficients[s] * atoms[s * out * in + i];
  return weight;
}

/* B A, with the rank of the config. */
static const double *product(reference_run *run, const char *name, int64_t out, int64_t in) {
  int64_t rank = run->config->sharing.rank;
  char full[128];
  snprintf(full, sizeof full, "self_attn.%s.a.weight", name);
  const double *a = reference_matrix(run, full, rank, in);
  snprintf(full, sizeof full, "self_attn.%s.b.weight", name);
  const double *b = reference_matrix(run, full, out, rank);
  double *weight = reference_zeros(run, out * in);
  for (int64_t o = 0; o < out; o++)
    for (int64_t i = 0; i < in; i++)
      for (int64_t r = 0; r < rank; r++) weight[o * in + i] += b[o * rank + r] * a[r * in + i];
  return weight;
}

const double *reference_projection(reference_run *run, const char *name, int64_t out, int64_t in) {
  const reference_config *c = run->config;
  int64_t atoms = c->sharing.atoms;
  char full[128];
  snprintf(full, sizeof full, "self_attn.%s.weight", name);
  if (!is_shared(c, name)) return reference_matrix(run, full, out, in);
  switch (c->sharing.type) {
  case REFERENCE_MASA:
    return combined_atoms(run, name, out, in);
  case REFERENCE_SEQUENTIAL:
    return atoms_of(run, name, out, in) + run->layer * atoms / c->layers * out * in;
  case REFERENCE_REPEAT:
    return atoms_of(run, name, out, in) + run->layer % atoms * out * in;
  case REFERENCE_LOW_RANK:
    return product(run, name, out, in);
  case REFERENCE_NO_SHARING:
    break;
  }
  fail_msg("%s is shared in no way", name);
  return NULL;
}

/* --- figures --- */

/* The projection of a layer, or false. */
static bool in_layer(const reference_config *c, int layer, const char *name, projection_shape *shape) {
  projection_shape shapes[MOST_PROJECTIONS];
  int count = c->type->projections(c, layer, shapes);
  for (int i = 0; i < count; i++)
    if (strcmp(shapes[i].name, name) == 0) {
      *shape = shapes[i];
      return true;
    }
  return false;
}

/* The same in every layer that has it, as the first one does. */
static projection_shape shape_of(const reference_config *c, const char *name) {
  projection_shape shape = {0};
  if (!in_layer(c, 0, name, &shape)) fail_msg("the reference knows no projection %s", name);
  return shape;
}

/* Layers that have a matrix: of a group that shares latents one alone. */
static int64_t layers_of(const reference_config *c, const char *name) {
  int64_t layers = 0;
  projection_shape shape;
  for (int layer = 0; layer < c->layers; layer++) layers += in_layer(c, layer, name, &shape);
  return layers;
}

/* Whether a projection before this one has a dictionary of this shape for both. */
static bool has_dictionary(const reference_config *c, int projection, projection_shape shape) {
  for (int i = 0; c->sharing.common && i < projection; i++) {
    projection_shape other = shape_of(c, c->sharing.names[i]);
    if (other.out == shape.out && other.in == shape.in) return true;
  }
  return false;
}

int64_t reference_shared_parameters(const reference_config *c) {
  int64_t change = 0, S = c->sharing.atoms;
  for (int i = 0; i < c->sharing.count; i++) {
    projection_shape shape = shape_of(c, c->sharing.names[i]);
    int64_t dense = shape.out * shape.in, layers = layers_of(c, c->sharing.names[i]);
    change -= layers * dense;
    if (c->sharing.type == REFERENCE_LOW_RANK) {
      change += layers * c->sharing.rank * (shape.out + shape.in);
      continue;
    }
    if (!has_dictionary(c, i, shape)) change += S * dense;
    if (c->sharing.type == REFERENCE_MASA) change += layers * S;
  }
  return change;
}

int64_t reference_uncounted_parameters(const reference_config *c) {
  int64_t S = c->sharing.atoms;
  int64_t mlp = WIDTH * EMBEDDING + WIDTH + WIDTH * WIDTH + WIDTH + S * WIDTH + S;
  if (c->sharing.type != REFERENCE_MASA || !c->sharing.mlp) return 0;
  int64_t uncounted = c->sharing.count * (c->layers * EMBEDDING + mlp);
  for (int i = 0; i < c->sharing.count; i++) uncounted -= layers_of(c, c->sharing.names[i]) * S;
  return uncounted;
}
