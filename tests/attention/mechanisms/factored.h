/* The factorised query of mfa and mfa_kr, and its combinations. */
#ifndef TESTS_ATTENTION_FACTORED_H
#define TESTS_ATTENTION_FACTORED_H

#include "mechanism.h"

/* Sets the width of S_q to head_dim if the config has no width. */
static void complete_factored_query(reference_config *c) {
  if (c->q_rank == 0) c->q_rank = c->head_dim;
}

/* Returns Q_h S_q x [length][heads][C], knocked, normed and rotated. */
static double *factored_queries(reference_run *run, const double *x) {
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
  return q;
}

/* Lists the projections of the query, and o_proj. */
static int factored_query_projections(const reference_config *c, projection_shape shapes[MOST_PROJECTIONS]) {
  int64_t heads = c->heads * c->head_dim;
  shapes[0] = (projection_shape){"q_a_proj", c->q_rank, c->hidden};
  shapes[1] = (projection_shape){"q_b_proj", heads, c->q_rank};
  shapes[2] = (projection_shape){"o_proj", c->hidden, heads};
  return 3;
}

static void cross_queries(combination_list *list, const char *type, const char *const *knocking) {
  static const char *const queries[] = {"", "'q_a_norm': true, 'qk_norm': true",
                                        "'q_lora_rank': 5, 'head_norm': true",
                                        "'q_lora_rank': 11, 'q_a_norm': true, 'qk_norm': true", NULL};
  static const char *const sizes[] = {"'head_dim': 10", "'head_dim': 7, 'position': 'alibi'",
                                      "'head_dim': 10, 'position': 'none'",
                                      "'head_dim': 6, 'rope_interleaved': true", NULL};
  crossing attention[24];
  int count = cross(queries, knocking, attention, 24);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (size == sizes || size == sizes + 1 + i % 3) add_combination(list, *size, type, attention[i].text);
}

static void add_factored_combinations(combination_list *list, const char *type, const char *const *knocking) {
  cross_queries(list, type, knocking);
  const char *everything = "'q_lora_rank': 3, 'q_a_norm': true, 'qk_norm': true, 'head_norm': true, "
                           "'knocking': {'type': 'mlp', 'on': ['q', 'k']}";
  add_combination_of(list, 3, 1, "'head_dim': 8", type, everything);
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'head_dim': 12", type, everything);
  add_combination_of(list, 1, 9, "'num_attention_heads': 1, 'head_dim': 2, 'hidden_act': 'gelu'", type,
                     everything);
  add_combination(list, "'num_key_value_heads': 1, 'head_dim': 8", type, everything);
}

#endif
