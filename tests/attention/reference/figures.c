/* What a model costs, by the formulas of the definitions rather than by counting its tensors. */
#include <string.h>

#include "private.h"

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Heads that the projection of a state makes in a layer, and heads that its cache keeps. */
static int64_t component_heads(const reference_config *c, bool mixed, int layer) {
  return mixed && c->components[layer] ? c->components[layer] : c->groups;
}

static int64_t cached_heads(const reference_config *c, bool mixed, int layer) {
  return least(component_heads(c, mixed, layer), c->groups);
}

static bool first_of_group(const reference_config *c, int layer) {
  return c->type != REFERENCE_MLA || layer % c->group_size == 0;
}

static int64_t cache_of_layer(const reference_config *c, int layer) {
  int64_t d = c->head_dim;
  switch (c->type) {
  case REFERENCE_GQA:
  case REFERENCE_DIFF:
  case REFERENCE_TALKING:
    return (cached_heads(c, c->mix_k, layer) + cached_heads(c, c->mix_v, layer)) * d;
  case REFERENCE_GTA:
    return cached_heads(c, c->mix_v, layer) * d + d / 2;
  case REFERENCE_MLA:
    return first_of_group(c, layer) ? c->latent + c->rotary : 0;
  case REFERENCE_MFA:
    return 2 * d;
  case REFERENCE_MFA_KR:
    return d;
  }
  return 0;
}

/* --- parameters of one layer's attention --- */

static int64_t mechanism_parameters(const reference_config *c, int layer) {
  int64_t D = c->hidden, H = c->heads, d = c->head_dim;
  int64_t k = component_heads(c, c->mix_k, layer), v = component_heads(c, c->mix_v, layer);
  int64_t q_rank = c->q_rank, query = c->nope + c->rotary, up = c->nope + c->values;
  switch (c->type) {
  case REFERENCE_GQA:
    return 2 * H * d * D + (k + v) * d * D;
  case REFERENCE_DIFF:
    return 2 * H * d * D + (k + v) * d * D + (c->lambda_a_pair ? H / 2 : 4 * d);
  case REFERENCE_TALKING:
    return 2 * H * d * D + (k + v) * d * D + (c->mix_logits ? H * H : 0) + (c->mix_weights ? H * H : 0);
  case REFERENCE_GTA:
    return 2 * H * d * D + v * d * D + d / 2 * D;
  case REFERENCE_MLA:
    return (q_rank ? D * q_rank + q_rank + q_rank * H * query : D * H * query) +
           (first_of_group(c, layer) ? D * (c->latent + c->rotary) + c->latent + c->latent * H * up : 0) +
           H * c->values * D;
  case REFERENCE_MFA:
    return D * q_rank + q_rank * H * d + 2 * D * d + H * d * D + (c->q_a_norm ? q_rank : 0);
  case REFERENCE_MFA_KR:
    return D * q_rank + q_rank * H * d + D * d + d * d + d + H * d * D + (c->q_a_norm ? q_rank : 0);
  }
  return 0;
}

/* Of mechanisms by head. */
static int64_t bias_parameters(const reference_config *c, int layer) {
  if (!c->biases) return 0;
  return (c->heads + component_heads(c, c->mix_k, layer) + component_heads(c, c->mix_v, layer)) * c->head_dim;
}

static int64_t knocking_parameters(const reference_config *c, int layer) {
  bool latent = c->type == REFERENCE_MLA;
  int64_t key = latent ? c->nope : c->head_dim, value = latent ? c->values : c->head_dim;
  int64_t matrices = c->knock.type == REFERENCE_KNOCK_MLP ? 3 : c->knock.type == REFERENCE_NO_KNOCK ? 0 : 1;
  bool own = first_of_group(c, layer);
  return matrices * ((c->knock.q ? key * key : 0) + (c->knock.k && own ? key * key : 0) +
                     (c->knock.v && own ? value * value : 0));
}

static int64_t module_parameters(const reference_config *c, int layer) {
  int64_t h = c->components[layer], width = c->heads * (c->nope + c->values), n = 0;
  if (h) n += ((c->mix_k ? 1 : 0) + (c->mix_v ? 1 : 0)) * c->groups * h;
  if (c->qk_norm) n += 2 * c->head_dim;
  if (c->head_norm)
    n += c->type == REFERENCE_DIFF ? 2 * c->head_dim : c->type == REFERENCE_MLA ? c->values : c->head_dim;
  if (c->gate_dim && first_of_group(c, layer)) n += c->gate_dim * width + (c->gate_norm ? 2 * width : 0);
  return n + bias_parameters(c, layer) + knocking_parameters(c, layer);
}

/* --- the whole model --- */

static void count_feed_forward(const reference_config *c, int layer, int64_t *all, int64_t *active) {
  int64_t expert = 3 * c->hidden * c->expert_width;
  if (c->experts == 0 || layer < c->dense_layers) {
    int64_t dense = (c->gelu ? 2 : 3) * c->hidden * c->intermediate;
    *all += dense;
    *active += dense;
    return;
  }
  int64_t always = c->shared_experts * expert + c->experts * c->hidden + (c->loss_free ? c->experts : 0);
  *all += always + c->experts * expert;
  *active += always + c->active * expert;
}

/* Per layer where heads are mixed, if they are anywhere. */
static int64_t shared_latent_dim(const reference_config *c) {
  if (c->type == REFERENCE_MLA) return c->latent;
  if (c->type == REFERENCE_MFA || c->type == REFERENCE_MFA_KR) return c->head_dim;
  int64_t heads = c->groups;
  for (int layer = 0; layer < c->layers; layer++)
    if (c->components[layer]) heads = least(heads, c->components[layer]);
  return heads * c->head_dim;
}

void reference_count(const reference_config *c, reference_figures *figures) {
  memset(figures, 0, sizeof *figures);
  int64_t rest = c->hidden, rest_active = c->hidden; /* the final norm */
  for (int layer = 0; layer < c->layers; layer++) {
    figures->cache_elements += cache_of_layer(c, layer);
    figures->parameters_attention += mechanism_parameters(c, layer) + module_parameters(c, layer);
    if (first_of_group(c, layer)) figures->parameters_gate_embedding += c->vocab * c->gate_dim;
    rest += 2 * c->hidden;
    rest_active += 2 * c->hidden;
    count_feed_forward(c, layer, &rest, &rest_active);
  }
  figures->parameters_attention += reference_shared_parameters(c);
  figures->parameters_embedding = (c->tied ? 1 : 2) * c->vocab * c->hidden;
  int64_t always = figures->parameters_attention + figures->parameters_embedding;
  figures->parameters_total = always + rest + figures->parameters_gate_embedding;
  figures->parameters_active = always + rest_active;
  figures->parameters_stored = figures->parameters_total + reference_uncounted_parameters(c);
  figures->total_effective_rank = c->heads * (c->type == REFERENCE_MLA ? c->nope : c->head_dim);
  figures->shared_latent_dim = shared_latent_dim(c);
}

int64_t reference_uncounted_scalars(const reference_config *c) {
  int64_t groups = 0;
  for (int layer = 0; layer < c->layers; layer++)
    groups += c->gate_dim > 0 && c->gate_norm && first_of_group(c, layer);
  return 2 * groups;
}
