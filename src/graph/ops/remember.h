/* Where the states of all tokens lie: in the cache, or - in training - in the value itself. */
#ifndef CH_GRAPH_OPS_REMEMBER_H
#define CH_GRAPH_OPS_REMEMBER_H

#include "graph/ops/shapes.h"
#include "graph/stream.h"

typedef struct ch_remember {
  int layer, part;
  ch_dtype dtype; /* as it lies in the cache */
} ch_remember;

/* The view an attention op reads, whatever kind of node it was given. */
ch_state_view ch_states_of(const ch_run *run, const ch_node *node);

#endif
