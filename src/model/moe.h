/* A mixture of experts: the router, the experts that it chooses for each token, and shared experts. */
#ifndef CH_MODEL_MOE_H
#define CH_MODEL_MOE_H

#include "attention/mechanism.h"

/* Returns true if the layer has experts. */
bool ch_moe_in_layer(const ch_config *config, int layer);
/* Returns the number of layers before `layer` that have experts. For num_hidden_layers,
   all layers are counted. */
int ch_moe_layers_before(const ch_config *config, int layer);
void ch_moe_declare(ch_declaration *declaration);
ch_node *ch_moe(ch_builder *builder, ch_node *x);

#endif
