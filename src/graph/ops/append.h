/* The operation that appends states to the cache, as other operations see it. */
#ifndef CH_GRAPH_OPS_APPEND_H
#define CH_GRAPH_OPS_APPEND_H

#include "graph/ops/shapes.h"
#include "graph/stream.h"

typedef struct ch_append {
  int layer, part;
  ch_dtype dtype; /* that the cache stores it in */
} ch_append;

/* Where an attention operation reads states: in the cache, or - without one - in the node's own value. */
ch_state_view ch_states_of(const ch_run *run, const ch_node *node);

#endif
