/* The feed-forward half of a block: one network, or a mixture of experts. */
#ifndef CH_MODEL_FFN_H
#define CH_MODEL_FFN_H

#include "attention/mechanism.h"

void ch_ffn_declare(ch_declaration *declaration);
ch_node *ch_ffn(ch_builder *builder, ch_node *x);

#endif
