/* Declarations for the operations that attend. */
#ifndef CH_GRAPH_OPS_ATTEND_H
#define CH_GRAPH_OPS_ATTEND_H

#include "graph/ops/shapes.h"

/* Returns the sizes, scale and mask of a call on the node's graph. All pointers are NULL, except the
   slopes. */
ch_attend ch_attend_sizes(const ch_run *run, const ch_node *node, const ch_attend_spec *spec);
/* Copies the spec, and its slopes to the graph's memory. Returns false after a failure. */
bool ch_attend_keep(ch_graph *graph, const ch_attend_spec *spec, ch_attend_spec *kept);

/* Sets the members of `args` that describe the cached rows of `keys`: past and, for a ring, places and first_token.
   If a single query reads a ring, also sets window and sinks to 0. */
void ch_attend_cached(const ch_run *run, const ch_node *keys, ch_attend *args);
/* Returns the tokens that a query of the node sees, for counting FLOPs. */
double ch_attend_context(const ch_node *node, const ch_attend_spec *spec);

#endif
