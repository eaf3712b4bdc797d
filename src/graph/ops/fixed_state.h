/* States of a fixed size. Operations that scan a sequence read one at its start and update it. */
#ifndef CH_GRAPH_OPS_FIXED_STATE_H
#define CH_GRAPH_OPS_FIXED_STATE_H

#include "graph/plan.h"
#include "graph/ops.h"

/* Fails if the graph is not F32: the cache stores states of a fixed size in F32, and no kernel converts
   them. */
static inline ch_status ch_check_kept_state(const ch_node *node, const ch_kept_state *kept, ch_error *error) {
  if (!kept->is_kept || node->graph->dtype == CH_F32) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "states of a fixed size are kept in F32 only");
}

/* Returns the states of this run's sequences, or NULL if none are stored. *stride receives the number of elements from
   one state to the next, *order the position of each sequence in memory (ch_state_view.order), and *tokens the number
   of tokens of each sequence [host]. The state of a sequence without tokens is undefined. */
static inline void *ch_kept_states(const ch_run *run, const ch_kept_state *kept, int64_t *stride,
                                   const int32_t **order, const int32_t **tokens) {
  if (!kept->is_kept) return NULL;
  const ch_state_view *view = &run->cache->views[kept->layer][kept->part];
  *stride = view->sequence_stride;
  *order = view->order;
  *tokens = run->cache->length;
  return (void *)(uintptr_t)view->data;
}

#endif
