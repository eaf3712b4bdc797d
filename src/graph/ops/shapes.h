/* Checks and shape rules that several operations share. */
#ifndef CH_GRAPH_OPS_SHAPES_H
#define CH_GRAPH_OPS_SHAPES_H

#include "graph/plan.h"
#include "graph/ops.h"

/* Fails unless the two nodes have the same shape. */
ch_status ch_same_shapes(const ch_node *a, const ch_node *b, ch_error *error);
/* Fails unless `node` is a vector of n elements. */
ch_status ch_vector_of(const ch_node *node, int64_t n, const char *what, ch_error *error);
/* Shape rule: the shape of the first input. */
ch_status ch_shape_of_first_input(ch_node *node, ch_error *error);
/* Shape rule: the shape of the first input; fails if the second input has another shape. */
ch_status ch_shape_of_equal_inputs(ch_node *node, ch_error *error);
/* Shape rule: a row of the table [vocabulary, width] for every integer id. */
ch_status ch_shape_of_table_rows(ch_node *node, ch_error *error);

#endif
