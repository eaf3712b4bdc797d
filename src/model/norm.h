/* The norms of the residual stream: RMSNorm or LayerNorm, before or after each half of a block, or both. */
#ifndef CH_MODEL_NORM_H
#define CH_MODEL_NORM_H

#include "attention/mechanism.h"

/* A kind of norm over rows of hidden_size. */
typedef struct ch_norm_kind {
  const char *name; /* value of "norm" in config.json */
  bool biased;      /* true if it also has a "{name}.bias" */
  ch_node *(*build)(const ch_builder *builder, ch_node *x, ch_node *weight, ch_node *bias);
} ch_norm_kind;

/* Returns the names of all kinds, NULL-terminated. The first is the default of text models. */
const char *const *ch_norm_names(void);

/* Declares the tensors of a norm: "{name}.weight", and "{name}.bias" if the kind has one. */
void ch_model_norm_declare(const ch_config *config, ch_params *params, const char *name);
/* Applies the norm of that name to x. */
ch_node *ch_model_norm(ch_builder *builder, ch_node *x, const char *name);

/* Declares the norm before the head, "model.norm". Models whose blocks end in a norm have none; ch_final_norm
   then returns x. */
void ch_final_norm_declare(const ch_config *config, ch_params *params);
ch_node *ch_final_norm(ch_builder *builder, ch_node *x);

#endif
