/* Where the matrix of a projection comes from. A mechanism asks for "the q_proj of this layer" and does not know
 * whether it is a tensor of its own, a combination of shared atoms, another layer's, or a product of two. */
#ifndef CH_ATTENTION_WEIGHT_SOURCE_H
#define CH_ATTENTION_WEIGHT_SOURCE_H

#include "attention/mechanism.h"

typedef struct ch_weight_source {
  const char *name;
  /* Declares the tensors that give projection `name` [out, in] of the declaration's layer; `std` is the spread a dense
     matrix would start with. */
  void (*declare)(ch_declaration *declaration, const char *name, int64_t out, int64_t in, double std);
  /* The matrix [out, in] as a graph value: a leaf, or operations on leaves. */
  ch_node *(*weight)(ch_builder *builder, const char *name);
} ch_weight_source;

/* The source that the config asks for. */
const ch_weight_source *ch_weight_source_of(const ch_config *config);

#endif
