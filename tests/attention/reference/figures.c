/* Computes the costs of a model by the formulas of the definitions, not by counting its tensors. */
#include <string.h>

#include "attention/mechanisms/mechanism.h"

/* Returns true if the layer expands mla's latent. It then has its own knocking of keys and values and its own gate. */
static bool expands(const reference_config *c, int layer) {
  return c->group_expands || layer % c->group_size == 0;
}

/* Returns true if the layer reads the keys and values of another layer, and has no projections for them. */
static bool follows(const reference_config *c, int layer) {
  return layer % c->kv_group != 0;
}

static bool makes_keys_or_values(const char *projection) {
  static const char *const names[] = {"k_proj",    "v_proj", "kv_proj", "k_rope_proj", "kv_a_proj_with_mqa",
                                      "kv_b_proj", "v_reuse"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(projection, names[i]) == 0) return true;
  return false;
}

/* --- parameters of one layer's attention --- */

static int64_t mechanism_parameters(const reference_config *c, int layer) {
  projection_shape shapes[MOST_PROJECTIONS];
  int count = c->type->projections(c, layer, shapes);
  int64_t parameters = c->type->others ? c->type->others(c, layer) : 0;
  for (int i = 0; i < count; i++)
    if (!follows(c, layer) || !makes_keys_or_values(shapes[i].name))
      parameters += shapes[i].out * shapes[i].in;
  return parameters + (c->sink_logits ? c->heads : 0);
}

/* Returns the number of bias parameters in a layer of a mechanism with keys and values by head. */
static int64_t bias_parameters(const reference_config *c, int layer) {
  int64_t output = c->output_bias ? c->hidden : 0;
  if (!c->biases) return output;
  if (follows(c, layer)) return output + c->heads * c->head_dim;
  return output +
         (c->heads + reference_component_heads(c, 'k', layer) + reference_component_heads(c, 'v', layer)) *
             c->head_dim;
}

static int64_t knocking_parameters(const reference_config *c, int layer) {
  int64_t key = c->key_dim * c->key_dim, value = c->value_dim * c->value_dim;
  int64_t matrices = c->knock.type == REFERENCE_KNOCK_MLP ? 3 : c->knock.type == REFERENCE_NO_KNOCK ? 0 : 1;
  bool own = expands(c, layer) && !follows(c, layer), each = c->knock.per_head;
  return matrices * ((c->knock.q ? (each ? c->heads : 1) * key : 0) +
                     (c->knock.k && own ? (each ? c->key_groups : 1) * key : 0) +
                     (c->knock.v && own ? (each ? c->value_groups : 1) * value : 0));
}

static int64_t module_parameters(const reference_config *c, int layer) {
  int64_t h = c->components[layer], n = 0;
  if (h && !follows(c, layer)) n += ((c->mix_k ? c->key_groups : 0) + (c->mix_v ? c->value_groups : 0)) * h;
  if (c->qk_norm && c->qk_norm_all)
    n += (c->heads + c->key_groups) * c->head_dim;
  else if (c->qk_norm)
    n += (expands(c, layer) && !follows(c, layer) ? 2 : 1) * c->qk_norm_dim;
  if (c->head_norm) n += c->context_dim;
  return n + bias_parameters(c, layer) + knocking_parameters(c, layer);
}

/* --- the whole model --- */

/* Returns the number of elements in a network's biases. Gated networks have two biases of the inner width. */
static int64_t network_biases(const reference_config *c, bool gated, int64_t width) {
  return c->mlp_bias ? (gated ? 2 : 1) * width + c->hidden : 0;
}

static void count_feed_forward(const reference_config *c, int layer, int64_t *all, int64_t *active) {
  int64_t expert = 3 * c->hidden * c->expert_width + network_biases(c, true, c->expert_width);
  if (c->experts == 0 || layer < c->dense_layers || c->dense[layer]) {
    int64_t dense =
        (c->gated ? 3 : 2) * c->hidden * c->intermediate + network_biases(c, c->gated, c->intermediate);
    *all += dense;
    *active += dense;
    return;
  }
  int64_t wide = c->shared_experts * c->expert_width;
  int64_t always = c->experts * (c->hidden + c->loss_free + c->router_bias);
  if (wide > 0) always += 3 * c->hidden * wide + network_biases(c, true, wide);
  *all += always + c->experts * expert;
  *active += always + c->active * expert;
}

/* Returns the width of the space that heads share. By default, it is head_dim times the fewest key, value or component
   heads of any layer. */
static int64_t shared_latent_dim(const reference_config *c) {
  if (c->type->shared_latent_dim) return c->type->shared_latent_dim(c);
  int64_t heads = c->key_groups < c->value_groups ? c->key_groups : c->value_groups;
  for (int layer = 0; layer < c->layers; layer++)
    if (!c->is_linear[layer] && c->components[layer] && c->components[layer] < heads)
      heads = c->components[layer];
  return heads * c->head_dim;
}

static bool has_attention(const reference_config *c) {
  for (int layer = 0; layer < c->layers; layer++)
    if (!c->is_linear[layer]) return true;
  return false;
}

static void count_attention(const reference_config *c, int layer, reference_figures *figures) {
  if (c->is_linear[layer]) {
    figures->parameters_attention += reference_linear_parameters(c);
    figures->state_elements += reference_linear_state(c);
    return;
  }
  if (!follows(c, layer)) figures->cache_elements += c->type->cache(c, layer);
  figures->parameters_attention += mechanism_parameters(c, layer) + module_parameters(c, layer);
  if (expands(c, layer)) figures->parameters_gate_embedding += c->vocab * c->gate_dim;
}

void reference_count(const reference_config *c, reference_figures *figures) {
  memset(figures, 0, sizeof *figures);
  int64_t norm = c->layernorm ? 2 * c->hidden : c->hidden;
  /* Starts with the final norm, and adds each layer's norms and feed-forward network. */
  int64_t rest = c->post ? 0 : norm, rest_active = rest;
  for (int layer = 0; layer < c->layers; layer++) {
    count_attention(c, layer, figures);
    int64_t norms = c->parallel ? 1 : c->both ? 4 : 2;
    rest += norms * norm;
    rest_active += norms * norm;
    count_feed_forward(c, layer, &rest, &rest_active);
  }
  figures->parameters_attention += reference_shared_parameters(c);
  figures->parameters_embedding = (c->tied ? 1 : 2) * c->vocab * c->hidden;
  if (c->position == REFERENCE_LEARNED) figures->parameters_embedding += c->places * c->hidden;
  int64_t always = figures->parameters_attention + figures->parameters_embedding;
  figures->parameters_total = always + rest + figures->parameters_gate_embedding;
  figures->parameters_active = always + rest_active;
  figures->parameters_stored = figures->parameters_total + reference_uncounted_parameters(c);
  if (!has_attention(c)) return;
  figures->total_effective_rank =
      c->type->total_effective_rank ? c->type->total_effective_rank(c) : c->heads * c->key_dim;
  figures->shared_latent_dim = shared_latent_dim(c);
}

int64_t reference_uncounted_scalars(const reference_config *c) {
  int64_t groups = 0;
  for (int layer = 0; layer < c->layers; layer++)
    groups += c->gate_dim > 0 && c->gate_norm && expands(c, layer) && !c->is_linear[layer];
  return 2 * groups;
}
