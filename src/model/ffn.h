/* The feed-forward half of a block: one network, or a mixture of experts. */
#ifndef CH_MODEL_FFN_H
#define CH_MODEL_FFN_H

#include "attention/mechanism.h"

void ch_ffn_declare(ch_declaration *declaration);
ch_node *ch_ffn(ch_builder *builder, ch_node *x);

/* A SwiGLU network of its own: the tensors "model.layers.{i}.mlp.{part}{gate,up,down}_proj.weight". */
void ch_swiglu_declare(ch_declaration *declaration, ch_param_kind kind, const char *part, int64_t width);
ch_node *ch_swiglu(ch_builder *builder, ch_node *x, const char *part);
/* The leaf of "model.layers.{i}.mlp.{name}.weight"; NULL and a graph error when nobody declared it. */
ch_node *ch_ffn_param(ch_builder *builder, const char *name);

/* moe.c: a mixture of experts, in the layers that the config says. */
bool ch_moe_in_layer(const ch_config *config, int layer);
void ch_moe_declare(ch_declaration *declaration);
ch_node *ch_moe(ch_builder *builder, ch_node *x);

#endif
