/* Declarations for the operations that attend. */
#ifndef CH_GRAPH_OPS_ATTEND_H
#define CH_GRAPH_OPS_ATTEND_H

#include "graph/ops/shapes.h"

/* Sizes, scale and mask of a call on the node's graph. All pointers are NULL, except the slopes. */
ch_attend ch_attend_sizes(const ch_run *run, const ch_node *node, const ch_attend_spec *spec);
/* A copy of the spec whose slopes live as long as the graph; false after a failure. */
bool ch_attend_keep(ch_graph *graph, const ch_attend_spec *spec, ch_attend_spec *kept);

/* The rows of keys in the cache that `keys` refers to: how many come before the first query's, and which
   tokens they are. */
void ch_attend_cached(const ch_run *run, const ch_node *keys, ch_attend *args);
/* Tokens that a query of the node sees, for counting FLOPs. */
double ch_attend_context(const ch_node *node, const ch_attend_spec *spec);

#endif
