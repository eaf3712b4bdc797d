/* The Vision Transformer: the layers before and after the blocks of a model of images. */
#ifndef CH_MODEL_VIT_H
#define CH_MODEL_VIT_H

#include "attention/mechanism.h"
#include "model/transformer.h"

/* Declares "model.patch_embed" (a linear layer over flattened patches [C, patch, patch]), "model.cls_token" and
   "model.position_embeddings". */
void ch_vit_declare_embedding(const ch_config *config, ch_params *params);
/* Declares "classifier" over the class token. */
void ch_vit_declare_head(const ch_config *config, ch_params *params);

/* Computes the tokens of all images from pixels, the class token first. */
ch_node *ch_vit_embedding(ch_builder *builder);
/* Computes the head's output for each image from the tokens after the last block. */
ch_node *ch_vit_head(ch_builder *builder, ch_node *x, const ch_model_graph *shape);

#endif
