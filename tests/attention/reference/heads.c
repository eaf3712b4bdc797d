/* Projections and sizes of mechanisms with keys and values by head. */
#include "attention/mechanisms/mechanism.h"

/* Returns the queries [length][heads][d] after the QK norm, not yet rotated. */
double *reference_queries(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  double *q = reference_project(run, "q_proj", x, c->hidden, c->heads * c->head_dim);
  q = reference_knocked(run, 'q', q, c->heads, c->head_dim);
  reference_qk_norm(run, 'q', q, c->heads, c->head_dim);
  return q;
}

void reference_append(reference_run *run, const char *part, double *x, int64_t width) {
  const reference_memory *memory = run->config->memory;
  if (memory) memory->keep(memory->context, run->sequence, run->layer, part, x, run->length, width);
}

/* Projects x by "self_attn.{name}" to heads, or to the components from which heads are mixed. */
static double *projected(reference_run *run, const char *name, char which, const double *x, int64_t *count) {
  const reference_config *c = run->config;
  *count = reference_components(run, which);
  if (*count == 0) *count = reference_groups(c, which);
  return reference_project(run, name, x, c->hidden, *count * c->head_dim);
}

/* Mixes components into heads, if x has components. */
static double *mixed(reference_run *run, char which, double *x) {
  return reference_components(run, which) ? reference_mixed(run, which, x) : x;
}

/* Returns true if the layer reads the states of another layer. */
static bool follows(const reference_run *run) {
  return run->layer % run->config->kv_group != 0;
}

double *reference_values(reference_run *run, const char *name, const char *part, const double *x) {
  const reference_config *c = run->config;
  if (follows(run)) return run->kept_values;
  int64_t count, d = c->head_dim, groups = c->value_groups;
  double *v = projected(run, name, 'v', x, &count);
  if (count < groups) reference_append(run, part, v, count * d);
  v = reference_knocked(run, 'v', mixed(run, 'v', v), groups, d);
  if (count >= groups) reference_append(run, part, v, groups * d);
  return run->kept_values = v;
}

/* Returns the number of a head's dims that are rotated. */
static int64_t turned_dims(const reference_config *c) {
  return c->rotary_share < 1 ? (int64_t)((double)c->head_dim * c->rotary_share) : c->head_dim;
}

/* Returns the rotated keys. If there are fewer components than heads, the cache stores the components. Without other
   modules, components are rotated before the mix, because the rotation of all heads is equal. */
static double *finished_keys(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  if (follows(run)) return run->kept_keys;
  int64_t count, d = c->head_dim, groups = c->key_groups;
  double *k = projected(run, "k_proj", 'k', x, &count);
  bool few = count < groups,
       turned = few && !c->qk_norm && (c->knock.type == REFERENCE_NO_KNOCK || !c->knock.k);
  if (turned) reference_rope(run, k, count, d, turned_dims(c));
  if (few) reference_append(run, "k", k, count * d);
  k = mixed(run, 'k', k);
  if (turned) return k;
  k = reference_knocked(run, 'k', k, groups, d);
  reference_qk_norm(run, 'k', k, groups, d);
  reference_rope(run, k, groups, d, turned_dims(c));
  if (!few) reference_append(run, "k", k, groups * d);
  return k;
}

void reference_queries_keys_values(reference_run *run, const double *x, double **q, double **k, double **v) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim;
  *q = reference_queries(run, x);
  reference_rope(run, *q, c->heads, d, turned_dims(c));
  *k = run->kept_keys = finished_keys(run, x);
  *v = reference_values(run, "v_proj", "v", x);
}

int64_t reference_groups(const reference_config *c, char which) {
  return which == 'k' ? c->key_groups : c->value_groups;
}

int64_t reference_component_heads(const reference_config *c, char which, int layer) {
  bool mixed = which == 'k' ? c->mix_k : c->mix_v;
  return mixed && c->components[layer] ? c->components[layer] : reference_groups(c, which);
}

int64_t reference_cached_heads(const reference_config *c, char which, int layer) {
  int64_t components = reference_component_heads(c, which, layer), groups = reference_groups(c, which);
  return components < groups ? components : groups;
}

int reference_projections_by_head(const reference_config *c, int layer, struct projection_shape *shapes) {
  int64_t D = c->hidden, d = c->head_dim;
  shapes[0] = (projection_shape){"q_proj", c->heads * d, D};
  shapes[1] = (projection_shape){"k_proj", reference_component_heads(c, 'k', layer) * d, D};
  shapes[2] = (projection_shape){"v_proj", reference_component_heads(c, 'v', layer) * d, D};
  shapes[3] = (projection_shape){"o_proj", D, c->heads * d};
  return 4;
}

int64_t reference_cache_by_head(const reference_config *c, int layer) {
  return (reference_cached_heads(c, 'k', layer) + reference_cached_heads(c, 'v', layer)) * c->head_dim;
}
