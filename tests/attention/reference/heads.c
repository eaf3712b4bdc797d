/* What mechanisms that keep keys and values by head have in common: projecting them, and their sizes. */
#include "attention/mechanisms/mechanism.h"

/* Queries [length][heads][d] up to and with the QK norm, not yet rotated. */
double *reference_queries(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  double *q = reference_project(run, "q_proj", x, c->hidden, c->heads * c->head_dim);
  q = reference_knocked(run, 'q', q, c->heads, c->head_dim);
  reference_qk_norm(run, 'q', q, c->heads, c->head_dim);
  return q;
}

/* Rotated queries, rotated keys and values as gqa, diff and talking have them. */
void reference_queries_keys_values(reference_run *run, const double *x, double **q, double **k, double **v) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim;
  *q = reference_queries(run, x);
  reference_rope(run, *q, c->heads, d, d);
  *k = reference_knocked(run, 'k', reference_heads(run, "k_proj", 'k', x), c->groups, d);
  reference_qk_norm(run, 'k', *k, c->groups, d);
  reference_rope(run, *k, c->groups, d, d);
  *v = reference_knocked(run, 'v', reference_heads(run, "v_proj", 'v', x), c->groups, d);
}

int64_t reference_component_heads(const reference_config *c, bool mixed, int layer) {
  return mixed && c->components[layer] ? c->components[layer] : c->groups;
}

int64_t reference_cached_heads(const reference_config *c, bool mixed, int layer) {
  int64_t components = reference_component_heads(c, mixed, layer);
  return components < c->groups ? components : c->groups;
}

int reference_projections_by_head(const reference_config *c, int layer, struct projection_shape *shapes) {
  int64_t D = c->hidden, d = c->head_dim;
  shapes[0] = (projection_shape){"q_proj", c->heads * d, D};
  shapes[1] = (projection_shape){"k_proj", reference_component_heads(c, c->mix_k, layer) * d, D};
  shapes[2] = (projection_shape){"v_proj", reference_component_heads(c, c->mix_v, layer) * d, D};
  shapes[3] = (projection_shape){"o_proj", D, c->heads * d};
  return 4;
}

int64_t reference_cache_by_head(const reference_config *c, int layer) {
  return (reference_cached_heads(c, c->mix_k, layer) + reference_cached_heads(c, c->mix_v, layer)) *
         c->head_dim;
}
