/* The factors of large products in a graph that computes in BF16 (graph->compute). These nodes have no gradient.
 * An operation that multiplies them also has the unrounded value as an input, which gets the gradient. */
#ifndef CH_GRAPH_OPS_FACTORS_H
#define CH_GRAPH_OPS_FACTORS_H

#include "graph/ops/shapes.h"

/* Returns true if a product with this many rows of x multiplies rounded factors. In a graph that computes in BF16
   all products do, except those with states in the cache and, in training, those with few rows. */
bool ch_is_rounded(const ch_graph *graph, const ch_node *x, int64_t rows);
/* Rounds x to BF16. */
ch_node *ch_op_rounded(ch_graph *graph, ch_node *x);
/* Packs a weight [out, in] in BF16 as the second factor of many products (ch_gemm_pack): W^T for the forward
   pass, and W for the gradients. If it depends only on parameters, it is computed once for all micro-batches
   of a step. */
ch_node *ch_op_packed(ch_graph *graph, ch_node *weight);
/* Returns the packed W^T. ch_packed_for_gradient returns the packed W. */
const void *ch_packed_for_value(ch_run *run, const ch_node *packed);
const void *ch_packed_for_gradient(ch_run *run, const ch_node *packed);

/* Packs a rounded x [rows, in] as the second factor of dW = dy^T x. */
ch_node *ch_op_packed_x(ch_graph *graph, ch_node *rounded, int64_t in);
/* Like ch_op_linear, in a graph for training whose products are rounded. */
ch_node *ch_op_linear_bf16(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *bias);
/* Like ch_op_lm_loss, in a graph for training whose products are rounded. The node must be the root. */
ch_node *ch_op_lm_loss_bf16(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *targets, double cap);

#endif
