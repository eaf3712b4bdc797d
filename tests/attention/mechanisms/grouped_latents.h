/* Latents that groups of heads read, in one or several branches (field sections 3 and 5): the definition. */
#ifndef TESTS_ATTENTION_GROUPED_LATENTS_H
#define TESTS_ATTENTION_GROUPED_LATENTS_H

#include <math.h>
#include <string.h>

#include "mechanism.h"

/* Returns columns first ... first + width - 1 of x [rows][all]. */
static inline double *columns_of(reference_run *run, const double *x, int64_t rows, int64_t all,
                                 int64_t first, int64_t width) {
  double *y = reference_zeros(run, rows * width);
  for (int64_t r = 0; r < rows; r++) memcpy(y + r * width, x + r * all + first, (size_t)width * sizeof *y);
  return y;
}

/* Returns the queries [length][heads][n + r]. */
static inline double *grouped_queries(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t n = c->nope, dim = n + c->rotary, all = run->length * c->heads;
  double *q;
  if (c->q_rank) {
    double *a = reference_project(run, "q_a_proj", x, c->hidden, c->q_rank);
    reference_rmsnorm(a, run->length, c->q_rank,
                      reference_vector(run, "self_attn.q_a_layernorm.weight", c->q_rank), c->eps);
    for (int64_t i = 0; c->latent_scale && i < run->length * c->q_rank; i++)
      a[i] *= sqrt((double)c->hidden / (double)c->q_rank);
    q = reference_project(run, "q_b_proj", a, c->q_rank, c->heads * dim);
  } else
    q = reference_project(run, "q_proj", x, c->hidden, c->heads * dim);
  double *plain = reference_knocked(run, 'q', columns_of(run, q, all, dim, 0, n), c->heads, n);
  for (int64_t i = 0; i < all; i++) memcpy(q + i * dim, plain + i * n, (size_t)n * sizeof *q);
  reference_rope(run, q, c->heads, dim, c->rotary);
  return q;
}

/* Returns the latents [length][m][w] and, in *rotary, the rotated key [length][r], both as the cache stores them. */
static inline double *grouped_states(reference_run *run, const double *x, double **rotary) {
  const reference_config *c = run->config;
  int64_t w = c->latent / c->latent_heads, r = c->rotary, all = c->latent + r;
  const double *weight;
  double *both = reference_project(run, "kv_a_proj_with_mqa", x, c->hidden, all);
  double *latents = columns_of(run, both, run->length, all, 0, c->latent);
  *rotary = columns_of(run, both, run->length, all, c->latent, r);
  weight = reference_vector(run, "self_attn.kv_a_layernorm.weight", c->latent);
  for (int64_t i = 0; i < run->length * c->latent_heads; i++)
    reference_rmsnorm(latents + i * w, 1, w, weight + i % c->latent_heads * w, c->eps);
  for (int64_t i = 0; c->latent_scale && i < run->length * c->latent; i++)
    latents[i] *= sqrt((double)c->hidden / (double)w);
  reference_rope(run, *rotary, 1, r, r);
  for (int64_t t = 0; t < run->length; t++) {
    memcpy(both + t * all, latents + t * c->latent, (size_t)c->latent * sizeof *both);
    memcpy(both + t * all + c->latent, *rotary + t * r, (size_t)r * sizeof *both);
  }
  reference_append(run, "latent", both, all);
  *rotary = columns_of(run, both, run->length, all, c->latent, r);
  return columns_of(run, both, run->length, all, 0, c->latent);
}

/* Computes the keys [length][heads][n + r] and values [length][heads][v] of one branch. */
static inline void branch_of(reference_run *run, const double *latents, const double *rotary,
                             const double *matrix, int64_t branch, double **k, double **v) {
  const reference_config *c = run->config;
  int64_t w = c->latent / c->latent_heads, p = c->latent_heads / c->branches, rows = c->nope + c->values,
          n = c->nope, dim = n + c->rotary;
  double *keys = reference_zeros(run, run->length * c->heads * n);
  *v = reference_zeros(run, run->length * c->heads * c->values);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < c->heads; h++) {
      const double *latent = latents + t * c->latent + (branch * p + h * p / c->heads) * w;
      for (int64_t i = 0; i < rows; i++) {
        const double *row = matrix + ((branch * c->heads + h) * rows + i) * w;
        double *to =
            i < n ? &keys[(t * c->heads + h) * n + i] : &(*v)[(t * c->heads + h) * c->values + i - n];
        for (int64_t j = 0; j < w; j++) *to += row[j] * latent[j];
      }
    }
  keys = reference_knocked(run, 'k', keys, c->heads, n);
  *v = reference_knocked(run, 'v', *v, c->heads, c->values);
  *k = reference_zeros(run, run->length * c->heads * dim);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < c->heads; h++) {
      double *key = *k + (t * c->heads + h) * dim;
      memcpy(key, keys + (t * c->heads + h) * n, (size_t)n * sizeof *key);
      memcpy(key + n, rotary + t * c->rotary, (size_t)c->rotary * sizeof *key);
    }
}

static inline double *grouped_attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t dim = c->nope + c->rotary, width = c->heads * c->values;
  double *rotary, *latents = grouped_states(run, x, &rotary), *q = grouped_queries(run, x),
                  *context = reference_zeros(run, run->length * width);
  const double *matrix = reference_projection(
      run, "kv_b_proj", c->branches * c->heads * (c->nope + c->values), c->latent / c->latent_heads);
  for (int64_t b = 0; b < c->branches; b++) {
    double *k, *v;
    branch_of(run, latents, rotary, matrix, b, &k, &v);
    double *own = reference_attend(run, c->heads, q, k, dim, v, c->values, 1 / sqrt((double)dim));
    for (int64_t i = 0; i < run->length * width; i++)
      context[i] += own[i] / (c->branch_scale ? sqrt((double)c->branches) : 1);
  }
  reference_head_norm(run, context, c->heads, c->values);
  return reference_project(run, "o_proj", context, width, c->hidden);
}

static inline void complete_grouped(reference_config *c) {
  c->key_dim = c->nope;
  c->value_dim = c->context_dim = c->values;
}

static inline int grouped_projections(const reference_config *c, int layer,
                                      projection_shape shapes[MOST_PROJECTIONS]) {
  (void)layer;
  int64_t D = c->hidden, query = c->heads * (c->nope + c->rotary);
  int n = 0;
  if (c->q_rank) {
    shapes[n++] = (projection_shape){"q_a_proj", c->q_rank, D};
    shapes[n++] = (projection_shape){"q_b_proj", query, c->q_rank};
  } else
    shapes[n++] = (projection_shape){"q_proj", query, D};
  shapes[n++] = (projection_shape){"kv_a_proj_with_mqa", c->latent + c->rotary, D};
  shapes[n++] = (projection_shape){"kv_b_proj", c->branches * c->heads * (c->nope + c->values),
                                   c->latent / c->latent_heads};
  shapes[n++] = (projection_shape){"o_proj", D, c->heads * c->values};
  return n;
}

static inline int64_t grouped_others(const reference_config *c, int layer) {
  (void)layer;
  return c->q_rank + c->latent;
}

static inline int64_t grouped_cache(const reference_config *c, int layer) {
  (void)layer;
  return c->latent + c->rotary;
}

static inline int64_t grouped_rank(const reference_config *c) {
  return c->branches * c->heads * c->nope;
}

static inline int64_t grouped_shared_dim(const reference_config *c) {
  return c->latent;
}

#endif
