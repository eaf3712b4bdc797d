/* A small cache of planned passes of one model, found by their shape. A new plan replaces the least
 * recently used one. */
#ifndef CH_MODEL_PASS_TABLE_H
#define CH_MODEL_PASS_TABLE_H

#include "model/runner.h"

typedef struct ch_pass_table ch_pass_table;

/* Creates a table with room for `capacity` passes. Engine, config and params must outlive the table. */
ch_status ch_pass_table_create(ch_engine *engine, const ch_config *config, const ch_params *params,
                               int capacity, ch_pass_table **table, ch_error *error);
void ch_pass_table_free(ch_pass_table *table);
/* Finds the pass of a shape, and plans it if it is not in the table. Passes differ by sequences, length, head, capacity
   and context. The rest of the shape must be equal in all calls. *runner belongs to the table and is valid until the
   next call. */
ch_status ch_pass_table_find(ch_pass_table *table, const ch_model_graph *shape, ch_runner **runner,
                             ch_error *error);

#endif
