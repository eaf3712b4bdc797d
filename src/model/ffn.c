/* The feed-forward half of a layer: a mixture of experts if the layer has one, otherwise one network. */
#include "model/ffn.h"

#include "model/moe.h"
#include "model/network.h"

void ch_ffn_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  if (ch_moe_in_layer(c, declaration->layer))
    ch_moe_declare(declaration);
  else
    ch_network_declare(declaration, ch_ffn_of(c), CH_PARAM_FFN, "", c->intermediate_size, c->mlp_bias);
}

ch_node *ch_ffn(ch_builder *builder, ch_node *x) {
  if (ch_moe_in_layer(builder->config, builder->layer)) return ch_moe(builder, x);
  return ch_network(builder, ch_ffn_of(builder->config), x, "");
}
