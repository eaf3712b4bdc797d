/* Matrices shared across layers in the reference. Every use of a matrix composes it anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/mechanisms/mechanism.h"

/* Widths of layer embeddings, and of the MLP that computes coefficients. */
enum { EMBEDDING = 64, WIDTH = 64 };

static bool is_shared(const reference_config *c, const char *name) {
  for (int i = 0; i < c->sharing.count; i++)
    if (strcmp(c->sharing.names[i], name) == 0) return true;
  return false;
}

/* --- sizes --- */

/* Returns a size from the checkpoint, or 0. */
static int64_t stored_size(const reference_config *c, int what, int at, const char *name) {
  for (int i = 0; i < c->stored_count; i++)
    if ((int)c->stored[i].what == what && c->stored[i].at == at && strcmp(c->stored[i].name, name) == 0)
      return c->stored[i].size;
  return 0;
}

/* Returns the group of a layer, or 0 if there are no groups. */
static int group_of(const reference_config *c, int layer) {
  int group = 0;
  while (group + 1 < c->sharing.group_count && layer >= c->sharing.group_ends[group]) group++;
  return group;
}

/* Returns the number of atoms of a group: that of the config, but at most one per layer, or else that of the
   checkpoint. A common dictionary may have more atoms than layers. */
static int64_t atoms_in(const reference_config *c, int group, const char *name) {
  int64_t layers = c->layers;
  if (c->sharing.common) return c->sharing.atoms;
  if (!c->sharing.atoms) return stored_size(c, REFERENCE_ATOMS, group, name);
  if (c->sharing.group_count)
    layers = c->sharing.group_ends[group] - (group ? c->sharing.group_ends[group - 1] : 0);
  return c->sharing.atoms < layers ? c->sharing.atoms : layers;
}

/* Returns true if the layer's first factor is the basis of its group: there are groups, and the layer has no first
   factor of its own. */
static bool has_basis(const reference_config *c, int layer, const char *name) {
  return c->sharing.type == REFERENCE_LOW_RANK && c->sharing.group_count &&
         !stored_size(c, REFERENCE_FACTORS, layer, name);
}

static int64_t rank_in(const reference_config *c, int layer, const char *name) {
  if (c->sharing.rank) return c->sharing.rank;
  return has_basis(c, layer, name) ? stored_size(c, REFERENCE_BASIS, group_of(c, layer), name)
                                   : stored_size(c, REFERENCE_FACTORS, layer, name);
}

/* --- matrices --- */

static const double *atoms_of(reference_run *run, const char *name, int64_t out, int64_t in) {
  char full[128];
  int group = group_of(run->config, run->layer);
  if (run->config->sharing.group_count)
    snprintf(full, sizeof full, "model.dictionary.%d.%s.atoms", group, name);
  else if (run->config->sharing.common)
    snprintf(full, sizeof full, "model.dictionary.common_%dx%d.atoms", (int)out, (int)in);
  else
    snprintf(full, sizeof full, "model.dictionary.%s.atoms", name);
  return reference_atoms(run, full, atoms_in(run->config, group, name), out, in);
}

/* Applies "model.dictionary.{name}.mlp.{layer}": y [out] = W x + b. */
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

/* Returns the layer's coefficients c_l [S] (MASA eq. 2): a vector, or the output of the MLP for the layer's
   embedding. */
static const double *coefficients_of(reference_run *run, const char *name) {
  const reference_config *c = run->config;
  char full[128];
  if (!c->sharing.mlp) {
    snprintf(full, sizeof full, "self_attn.%s.coefficients", name);
    return reference_vector(run, full, atoms_in(c, group_of(c, run->layer), name));
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
  int64_t count = atoms_in(run->config, group_of(run->config, run->layer), name);
  for (int64_t s = 0; s < count; s++)
    for (int64_t i = 0; i < out * in; i++) weight[i] += coefficients[s] * atoms[s * out * in + i];
  return weight;
}

/* Adds to a weight the product B A of the layer's "{name}.b.weight" and "{name}.a.weight", or its group's basis. */
static void add_product(reference_run *run, const char *name, int64_t rank, int64_t out, int64_t in,
                        double *weight) {
  char full[128];
  const double *a;
  if (has_basis(run->config, run->layer, name) && !strstr(name, ".residual")) {
    snprintf(full, sizeof full, "model.dictionary.%d.%s.basis", group_of(run->config, run->layer), name);
    a = reference_model_tensor(run, full, 2, rank, in);
  } else {
    snprintf(full, sizeof full, "self_attn.%s.a.weight", name);
    a = reference_matrix(run, full, rank, in);
  }
  snprintf(full, sizeof full, "self_attn.%s.b.weight", name);
  const double *b = reference_matrix(run, full, out, rank);
  for (int64_t o = 0; o < out; o++)
    for (int64_t i = 0; i < in; i++)
      for (int64_t r = 0; r < rank; r++) weight[o * in + i] += b[o * rank + r] * a[r * in + i];
}

static const double *product(reference_run *run, const char *name, int64_t out, int64_t in) {
  double *weight = reference_zeros(run, out * in);
  add_product(run, name, rank_in(run->config, run->layer, name), out, in, weight);
  return weight;
}

/* Returns a projection's matrix without its residual. */
static const double *plain_projection(reference_run *run, const char *name, int64_t out, int64_t in) {
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

const double *reference_projection(reference_run *run, const char *name, int64_t out, int64_t in) {
  const double *plain = plain_projection(run, name, out, in);
  int64_t rank = stored_size(run->config, REFERENCE_RESIDUAL, run->layer, name);
  if (!rank) return plain;
  char residual[64];
  snprintf(residual, sizeof residual, "%s.residual", name);
  double *weight = reference_zeros(run, out * in);
  memcpy(weight, plain, (size_t)(out * in) * sizeof *weight);
  add_product(run, residual, rank, out, in, weight);
  return weight;
}

/* --- figures --- */

/* Finds the shape of a layer's projection. Returns false if the layer has no such projection. */
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

/* Returns the shape of a shared projection, which is equal in every layer that has it. */
static projection_shape shape_of(const reference_config *c, const char *name) {
  projection_shape shape = {0};
  if (!in_layer(c, 0, name, &shape)) fail_msg("the reference knows no projection %s", name);
  return shape;
}

/* Returns the number of layers that have a projection. If the layers of a group share a latent, only one of these
   layers has some of the projections. */
static int64_t layers_of(const reference_config *c, const char *name) {
  int64_t layers = 0;
  projection_shape shape;
  for (int layer = 0; layer < c->layers; layer++) layers += in_layer(c, layer, name, &shape);
  return layers;
}

/* Returns true if there are common dictionaries, and an earlier projection has this shape. */
static bool has_dictionary(const reference_config *c, int projection, projection_shape shape) {
  for (int i = 0; c->sharing.common && i < projection; i++) {
    projection_shape other = shape_of(c, c->sharing.names[i]);
    if (other.out == shape.out && other.in == shape.in) return true;
  }
  return false;
}

static int64_t residual_parameters(const reference_config *c) {
  int64_t parameters = 0;
  for (int i = 0; i < c->stored_count; i++) {
    projection_shape shape;
    if (c->stored[i].what == REFERENCE_RESIDUAL && in_layer(c, c->stored[i].at, c->stored[i].name, &shape))
      parameters += c->stored[i].size * (shape.out + shape.in);
  }
  return parameters;
}

/* Returns the sum of the atoms of all groups that have a layer with the projection. */
static int64_t atoms_of_groups(const reference_config *c, const char *name) {
  int64_t atoms = 0;
  projection_shape shape;
  for (int layer = 0, counted = -1; layer < c->layers; layer++) {
    int group = group_of(c, layer);
    if (group == counted || !in_layer(c, layer, name, &shape)) continue;
    atoms += atoms_in(c, group, name);
    counted = group;
  }
  return atoms;
}

int64_t reference_shared_parameters(const reference_config *c) {
  int64_t change = residual_parameters(c);
  for (int i = 0; i < c->sharing.count; i++) {
    projection_shape shape = shape_of(c, c->sharing.names[i]);
    int64_t dense = shape.out * shape.in, layers = layers_of(c, c->sharing.names[i]);
    change -= layers * dense;
    if (c->sharing.type == REFERENCE_LOW_RANK) {
      for (int layer = 0, counted = -1; layer < c->layers; layer++) {
        const char *name = c->sharing.names[i];
        if (!in_layer(c, layer, name, &shape)) continue;
        int group = has_basis(c, layer, name) ? group_of(c, layer) : -1;
        change += rank_in(c, layer, name) * shape.out;
        if (group < 0 || group != counted) change += rank_in(c, layer, name) * shape.in;
        if (group >= 0) counted = group;
      }
      continue;
    }
    if (!has_dictionary(c, i, shape)) change += atoms_of_groups(c, c->sharing.names[i]) * dense;
    if (c->sharing.type != REFERENCE_MASA) continue;
    for (int layer = 0; layer < c->layers; layer++)
      if (in_layer(c, layer, c->sharing.names[i], &shape))
        change += atoms_in(c, group_of(c, layer), c->sharing.names[i]);
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
