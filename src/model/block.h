/* What models are made of, layer by layer: x += Attn(norm(x)); x += FFN(norm(x)). The norms are RMSNorms in models of
 * text and LayerNorms with a bias in those of images. */
#ifndef CH_MODEL_BLOCK_H
#define CH_MODEL_BLOCK_H

#include "attention/mechanism.h"

/* Declares the tensors of the declaration's layer. */
void ch_block_declare(ch_declaration *declaration);
/* The layer being built. */
ch_node *ch_block(ch_builder *builder, ch_node *x);

/* A norm of rows of hidden_size: "{name}.weight", and "{name}.bias" where the model's norms have one. */
void ch_model_norm_declare(const ch_config *config, ch_params *params, const char *name);
ch_node *ch_model_norm(ch_builder *builder, ch_node *x, const char *name);

#endif
