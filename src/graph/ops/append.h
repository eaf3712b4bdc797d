/* The operation that appends states to the cache: the attributes and functions that other operations use. */
#ifndef CH_GRAPH_OPS_APPEND_H
#define CH_GRAPH_OPS_APPEND_H

#include "graph/ops/shapes.h"
#include "graph/stream.h"

typedef struct ch_append {
  int layer, part;
  ch_dtype dtype;        /* type in which the cache stores the states */
  int64_t window, sinks; /* sizes of the layer's ring; 0: one row for every token */
  int64_t seen;          /* maximum number of tokens that a query sees; 0: all */
  int64_t stage_rows;    /* rows of the value for each sequence, in a pass of several tokens to a ring */
} ch_append;

/* Returns the attributes of the first append that a streamed node depends on, or NULL if there is none. */
const ch_append *ch_append_behind(const ch_node *node);
/* Returns the row of this run's first token among the states of a sequence. */
int64_t ch_first_own_row(const ch_run *run, const ch_node *node, int64_t sequence);
/* Returns the tokens whose states the rows of a sequence hold, or NULL if row r is token r. */
const ch_row_places *ch_places_of(const ch_run *run, const ch_node *node, int64_t sequence);

/* Returns the states that an attention operation reads: in the cache, or, without a cache, in the node's own
   value. */
ch_state_view ch_states_of(const ch_run *run, const ch_node *node);

#endif
