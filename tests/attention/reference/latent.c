/* The reference's mechanisms that factorise: mla with its embedding gate and layer groups, mfa, mfa_kr. */
#include <math.h>
#include <string.h>

#include "private.h"

/* --- 1.3, 2.5 --- */

/* Queries [length][heads][n + r]: the n non-rotary dims knocked, the r others rotated. */
static double *latent_queries(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t n = c->nope, dim = c->nope + c->rotary, width = c->heads * dim;
  double *q;
  if (c->q_rank > 0) {
    double *a = reference_project(run, "q_a_proj", x, c->hidden, c->q_rank);
    reference_rmsnorm(a, run->length, c->q_rank,
                      reference_vector(run, "self_attn.q_a_layernorm.weight", c->q_rank), c->eps);
    q = reference_project(run, "q_b_proj", a, c->q_rank, width);
  } else {
    q = reference_project(run, "q_proj", x, c->hidden, width);
  }
  double *plain = reference_zeros(run, run->length * c->heads * n);
  for (int64_t i = 0; i < run->length * c->heads; i++)
    memcpy(plain + i * n, q + i * dim, (size_t)n * sizeof *q);
  plain = reference_knocked(run, 'q', plain, c->heads, n);
  for (int64_t i = 0; i < run->length * c->heads; i++)
    memcpy(q + i * dim, plain + i * n, (size_t)n * sizeof *q);
  reference_rope(run, q, c->heads, dim, c->rotary);
  return q;
}

/* EG-MLA eqs. 1-14: kv [length][heads * (n + v)] gated by the token's embedding, then normalised. */
static void embedding_gate(reference_run *run, double *kv) {
  const reference_config *c = run->config;
  if (c->gate_dim == 0) return;
  int64_t width = c->heads * (c->nope + c->values);
  const double *table = reference_matrix(run, "self_attn.kv_gate_embed.weight", c->vocab, c->gate_dim);
  double *rows = reference_zeros(run, run->length * c->gate_dim);
  for (int64_t t = 0; t < run->length; t++)
    memcpy(rows + t * c->gate_dim, table + run->tokens[t] * c->gate_dim, (size_t)c->gate_dim * sizeof *rows);
  const double *projection = reference_projection(run, "kv_gate_proj", width, c->gate_dim);
  const double *gate = reference_apply(run, rows, c->gate_dim, projection, width);
  for (int64_t i = 0; i < run->length * width; i++) kv[i] = c->gate_adds ? kv[i] + gate[i] : kv[i] * gate[i];
  if (c->gate_norm)
    reference_layernorm(kv, run->length, width, reference_vector(run, "self_attn.kv_gate_norm.weight", width),
                        reference_vector(run, "self_attn.kv_gate_norm.bias", width), 1e-5);
}

/* The keys, values and rotary key that the layers of a group share. What is behind kv_b_proj - knocking, gate - is
   shared with it. */
static void latent_states(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t length = run->length, n = c->nope, v = c->values, r = c->rotary, rows = c->latent + r;
  double *both = reference_project(run, "kv_a_proj_with_mqa", x, c->hidden, rows);
  double *latent = reference_zeros(run, length * c->latent), *rotary = reference_zeros(run, length * r);
  for (int64_t t = 0; t < length; t++) {
    memcpy(latent + t * c->latent, both + t * rows, (size_t)c->latent * sizeof *latent);
    memcpy(rotary + t * r, both + t * rows + c->latent, (size_t)r * sizeof *rotary);
  }
  reference_rmsnorm(latent, length, c->latent,
                    reference_vector(run, "self_attn.kv_a_layernorm.weight", c->latent), c->eps);
  reference_rope(run, rotary, 1, r, r);

  double *kv = reference_project(run, "kv_b_proj", latent, c->latent, c->heads * (n + v));
  double *keys = reference_zeros(run, length * c->heads * n),
         *values = reference_zeros(run, length * c->heads * v);
  for (int64_t i = 0; i < length * c->heads; i++) {
    memcpy(keys + i * n, kv + i * (n + v), (size_t)n * sizeof *kv);
    memcpy(values + i * v, kv + i * (n + v) + n, (size_t)v * sizeof *kv);
  }
  keys = reference_knocked(run, 'k', keys, c->heads, n);
  values = reference_knocked(run, 'v', values, c->heads, v);
  for (int64_t i = 0; i < length * c->heads; i++) {
    memcpy(kv + i * (n + v), keys + i * n, (size_t)n * sizeof *kv);
    memcpy(kv + i * (n + v) + n, values + i * v, (size_t)v * sizeof *kv);
  }
  embedding_gate(run, kv);
  for (int64_t i = 0; i < length * c->heads; i++) {
    memcpy(keys + i * n, kv + i * (n + v), (size_t)n * sizeof *kv);
    memcpy(values + i * v, kv + i * (n + v) + n, (size_t)v * sizeof *kv);
  }
  run->group_keys = keys;
  run->group_values = values;
  run->group_rotary = rotary;
}

double *reference_mla(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t n = c->nope, r = c->rotary, dim = n + r;
  if (run->layer % c->group_size == 0) latent_states(run, x);
  double *q = latent_queries(run, x);
  double *k = reference_zeros(run, run->length * c->heads * dim);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < c->heads; h++) {
      double *key = k + (t * c->heads + h) * dim;
      memcpy(key, run->group_keys + (t * c->heads + h) * n, (size_t)n * sizeof *key);
      memcpy(key + n, run->group_rotary + t * r, (size_t)r * sizeof *key);
    }
  double *context =
      reference_attend(run, c->heads, q, k, dim, run->group_values, c->values, 1 / sqrt((double)dim));
  reference_head_norm(run, context, c->heads, c->values);
  return reference_project(run, "o_proj", context, c->heads * c->values, c->hidden);
}

/* --- 1.4, 1.5 --- */

/* v = k + alpha * (N k) with the key as projected: [length][C]. */
static double *reused_values(reference_run *run, const double *k, int64_t dim) {
  double *v = reference_apply(run, k, dim, reference_projection(run, "v_reuse", dim, dim), dim);
  const double *gate = reference_vector(run, "self_attn.v_reuse.gate", dim);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t i = 0; i < dim; i++) v[t * dim + i] = k[t * dim + i] + gate[i] * v[t * dim + i];
  return v;
}

double *reference_mfa(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t dim = c->head_dim, q_rank = c->q_rank;
  double *a = reference_project(run, "q_a_proj", x, c->hidden, q_rank);
  if (c->q_a_norm)
    reference_rmsnorm(a, run->length, q_rank, reference_vector(run, "self_attn.q_a_layernorm.weight", q_rank),
                      c->eps);
  double *q = reference_project(run, "q_b_proj", a, q_rank, c->heads * dim);
  q = reference_knocked(run, 'q', q, c->heads, dim);
  reference_qk_norm(run, 'q', q, c->heads, dim);
  reference_rope(run, q, c->heads, dim, dim);

  double *k = reference_project(run, "k_proj", x, c->hidden, dim);
  double *v = c->type == REFERENCE_MFA_KR
                  ? reused_values(run, k, dim)
                  : reference_knocked(run, 'v', reference_project(run, "v_proj", x, c->hidden, dim), 1, dim);
  k = reference_knocked(run, 'k', k, 1, dim);
  reference_qk_norm(run, 'k', k, 1, dim);
  reference_rope(run, k, 1, dim, dim);

  double *context = reference_attend(run, 1, q, k, dim, v, dim, 1 / sqrt((double)dim));
  reference_head_norm(run, context, c->heads, dim);
  return reference_project(run, "o_proj", context, c->heads * dim, c->hidden);
}
