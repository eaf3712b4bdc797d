/* Head mixing (MEA eqs. 10-12): a layer projects h' component heads, and its G keys (or values) are learned linear
 * combinations of them,
 *
 *   K[g] = sum over j of k_mix[g, j] K_component[j].
 *
 * The cache stores components if they are fewer, else keys (or values). */
#include "attention/mechanism.h"

static const double noise = 0.02;

void ch_head_mix_declare(ch_declaration *declaration, unsigned on) {
  const ch_config *c = declaration->config;
  int64_t components = ch_mixed_components(c, declaration->layer, on);
  if (!components) return;
  ch_declare_head_matrix(declaration, on == CH_ON_K ? "k_mix.weight" : "v_mix.weight", ch_heads_of(c, on),
                         components, CH_PARAM_INIT_ONE_HOT, noise);
}

ch_node *ch_mix_heads(ch_builder *builder, unsigned on, ch_node *components) {
  if (!ch_mixed_components(builder->config, builder->layer, on)) return components;
  return ch_op_head_mix(builder->graph, components,
                        ch_attention_param(builder, on == CH_ON_K ? "k_mix.weight" : "v_mix.weight"));
}

int64_t ch_projected_heads(const ch_config *config, int layer, unsigned on) {
  int64_t components = ch_mixed_components(config, layer, on);
  return components ? components : ch_heads_of(config, on);
}

int64_t ch_cached_heads(const ch_config *config, int layer, unsigned on) {
  int64_t projected = ch_projected_heads(config, layer, on);
  return projected < ch_heads_of(config, on) ? projected : ch_heads_of(config, on);
}

bool ch_mixed_on_read(const ch_config *config, int layer, unsigned on) {
  return ch_projected_heads(config, layer, on) < ch_heads_of(config, on);
}
