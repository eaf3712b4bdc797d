/* The factors of large products in BF16: a value rounded once for all its products, and a weight in the layout of
 * a product. */
#include "graph/ops/factors.h"

bool ch_is_rounded(const ch_graph *graph, const ch_node *x, int64_t rows) {
  return graph->compute == CH_BF16 && (!graph->trainable || ch_gemm_is_large(rows)) && !x->streamed;
}

static ch_status factors_shape(ch_node *node, ch_error *error) {
  (void)error;
  node->dtype = CH_BF16;
  return ch_shape_as_input(node, 0);
}

static ch_status factors_forward(ch_run *run, const ch_node *node) {
  run->kernels->convert_to(run->team, ch_node_count(node), ch_run_value(run, node->in[0]), CH_BF16,
                           ch_run_output(run, node));
  return CH_OK;
}

static const ch_op rounding = {
    .name = "round", .shape = factors_shape, .forward = factors_forward, .cheap = true};

ch_node *ch_op_rounded(ch_graph *graph, ch_node *x) {
  return ch_graph_node(graph, &rounding, 1, &x, NULL, 0);
}

/* --- weights -------------------------------------------------------------------------------------------- */

static ch_status packed_shape(ch_node *node, ch_error *error) {
  const ch_node *weight = node->in[0];
  if (weight->rank != 2) return ch_fail(error, CH_ERROR_CONFIG, "needs a matrix");
  int64_t out = weight->shape[0], in = weight->shape[1];
  node->dtype = CH_BF16;
  return ch_shape_matrix(node, 1, ch_gemm_packed_count(in, out) + ch_gemm_packed_count(out, in));
}

/* Packs W and W^T; W^T is first in the output. */
static ch_status pack(ch_run *run, const ch_node *node) {
  const ch_node *weight = node->in[0];
  int64_t out = weight->shape[0], in = weight->shape[1];
  uint16_t *packed = ch_run_output(run, node);
  return ch_gemm_pack(run->gemm, out, in, ch_run_value(run, weight), ch_run_dtype(run, weight), in,
                      packed + ch_gemm_packed_count(in, out), packed, run->error);
}

static bool factors_takes_rounded(const ch_node *node, int i) {
  (void)node;
  return i == 0;
}

static const ch_op packing = {
    .name = "round weight", .shape = packed_shape, .forward = pack, .takes_rounded = factors_takes_rounded};

ch_node *ch_op_packed(ch_graph *graph, ch_node *weight) {
  return ch_graph_node(graph, &packing, 1, &weight, NULL, 0);
}

const void *ch_packed_for_value(ch_run *run, const ch_node *packed) {
  return ch_run_value(run, packed);
}

const void *ch_packed_for_gradient(ch_run *run, const ch_node *packed) {
  const ch_node *weight = packed->in[0];
  return (const uint16_t *)ch_run_value(run, packed) +
         ch_gemm_packed_count(weight->shape[1], weight->shape[0]);
}

static ch_status packed_x_shape(ch_node *node, ch_error *error) {
  const int64_t *in = node->attributes;
  (void)error;
  node->dtype = CH_BF16;
  return ch_shape_matrix(node, 1, ch_gemm_packed_count(ch_node_count(node->in[0]) / *in, *in));
}

static ch_status pack_x(ch_run *run, const ch_node *node) {
  const int64_t *in = node->attributes;
  return ch_gemm_pack(run->gemm, ch_node_count(node->in[0]) / *in, *in, ch_run_value(run, node->in[0]),
                      CH_BF16, *in, ch_run_output(run, node), NULL, run->error);
}

static const ch_op packing_x = {.name = "pack", .shape = packed_x_shape, .forward = pack_x, .late = true};

ch_node *ch_op_packed_x(ch_graph *graph, ch_node *rounded, int64_t in) {
  return ch_graph_node(graph, &packing_x, 1, &rounded, &in, sizeof in);
}
