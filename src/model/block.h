/* A block of the model: attention and a feed-forward network, each with a norm and a residual connection. */
#ifndef CH_MODEL_BLOCK_H
#define CH_MODEL_BLOCK_H

#include "attention/mechanism.h"

/* Declares the tensors of the declaration's layer. */
void ch_block_declare(ch_declaration *declaration);
/* Adds the block of the layer being built. */
ch_node *ch_block(ch_builder *builder, ch_node *x);

#endif
