/* mla with separate latents for keys and for values, or with a latent for only one of them. */
#ifndef TESTS_ATTENTION_LATENTS_APART_H
#define TESTS_ATTENTION_LATENTS_APART_H

#include <string.h>

#include "mechanism.h"

static bool latents_are_apart(const reference_config *c) {
  return c->key_latent > 0 || c->value_latent > 0;
}

/* Joins rows of a and of b, or with `back` splits them again. */
static void part_rows(const reference_run *run, double *joined, double *a, int64_t a_width, double *b,
                      int64_t b_width, bool back) {
  for (int64_t t = 0; t < run->length; t++) {
    double *row = joined + t * (a_width + b_width);
    for (int64_t i = 0; i < a_width; i++)
      *(back ? a + t * a_width + i : row + i) = back ? row[i] : a[t * a_width + i];
    for (int64_t i = 0; i < b_width; i++)
      *(back ? b + t * b_width + i : row + a_width + i) = back ? row[a_width + i] : b[t * b_width + i];
  }
}

/* Sets run->group_keys, the keys without rotation [length][heads][n], and run->group_rotary, the rotary key
   [length][r] of all heads. */
static void keys_apart(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t r = c->rotary, all = c->heads * c->nope, width = c->key_latent ? c->key_latent : all;
  double *written = reference_zeros(run, run->length * width), *rotary;
  if (c->key_latent) {
    double *both = reference_project(run, "k_a_proj_with_mqa", x, c->hidden, width + r);
    rotary = reference_zeros(run, run->length * r);
    part_rows(run, both, written, width, rotary, r, true);
    reference_rmsnorm(written, run->length, width,
                      reference_vector(run, "self_attn.k_a_layernorm.weight", width), c->eps);
  } else {
    written =
        reference_knocked(run, 'k', reference_project(run, "k_proj", x, c->hidden, all), c->heads, c->nope);
    rotary = reference_project(run, "k_rope_proj", x, c->hidden, r);
  }
  if (!c->qk_norm) reference_rope(run, rotary, 1, r, r); /* else whole_keys rotates after its norm */
  double *kept = reference_zeros(run, run->length * (width + r));
  part_rows(run, kept, written, width, rotary, r, false);
  reference_append(run, c->key_latent ? "k_latent" : "k", kept, width + r);
  part_rows(run, kept, written, width, rotary, r, true);
  run->group_rotary = rotary;
  run->group_keys = written;
  if (c->key_latent)
    run->group_keys = reference_knocked(run, 'k', reference_project(run, "k_b_proj", written, width, all),
                                        c->heads, c->nope);
}

/* Sets run->group_values, the values [length][heads][v]. */
static void values_apart(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t all = c->heads * c->values, width = c->value_latent;
  if (width == 0) {
    run->group_values =
        reference_knocked(run, 'v', reference_project(run, "v_proj", x, c->hidden, all), c->heads, c->values);
    reference_append(run, "v", run->group_values, all);
    return;
  }
  double *latent = reference_project(run, "v_a_proj", x, c->hidden, width);
  reference_rmsnorm(latent, run->length, width,
                    reference_vector(run, "self_attn.v_a_layernorm.weight", width), c->eps);
  reference_append(run, "v_latent", latent, width);
  run->group_values = reference_knocked(run, 'v', reference_project(run, "v_b_proj", latent, width, all),
                                        c->heads, c->values);
}

/* Lists the projections of keys and values of the first layer of a group. */
static int projections_apart(const reference_config *c, projection_shape *shapes) {
  int64_t D = c->hidden, keys = c->heads * c->nope, values = c->heads * c->values;
  int n = 0;
  if (c->key_latent) {
    shapes[n++] = (projection_shape){"k_a_proj_with_mqa", c->key_latent + c->rotary, D};
    shapes[n++] = (projection_shape){"k_b_proj", keys, c->key_latent};
  } else {
    shapes[n++] = (projection_shape){"k_proj", keys, D};
    shapes[n++] = (projection_shape){"k_rope_proj", c->rotary, D};
  }
  if (c->value_latent) {
    shapes[n++] = (projection_shape){"v_a_proj", c->value_latent, D};
    shapes[n++] = (projection_shape){"v_b_proj", values, c->value_latent};
  } else
    shapes[n++] = (projection_shape){"v_proj", values, D};
  return n;
}

static int64_t cache_apart(const reference_config *c) {
  return (c->key_latent ? c->key_latent : c->heads * c->nope) + c->rotary +
         (c->value_latent ? c->value_latent : c->heads * c->values);
}

static int64_t shared_dim_apart(const reference_config *c) {
  int64_t keys = c->key_latent ? c->key_latent : c->heads * c->nope,
          values = c->value_latent ? c->value_latent : c->heads * c->values;
  return keys < values ? keys : values;
}

#endif
