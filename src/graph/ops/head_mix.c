/* y[g] = sum over j of mix[g, j] x[j], where x[j] and y[g] are heads of a row (MEA eqs. 10-12). */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

static int64_t out_heads(const ch_node *node) {
  return node->in[1]->shape[0];
}

static int64_t in_heads(const ch_node *node) {
  return node->in[1]->shape[1];
}

static int64_t head_dim(const ch_node *node) {
  return ch_node_columns(node->in[0]) / in_heads(node);
}

static ch_status head_mix_shape(ch_node *node, ch_error *error) {
  const ch_node *x = node->in[0], *mix = node->in[1];
  if (mix->rank != 2 || ch_node_columns(x) % mix->shape[1] != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "rows of %lld elements are not %lld heads",
                   (long long)ch_node_columns(x), (long long)mix->shape[mix->rank - 1]);
  return ch_shape_matrix(node, ch_node_rows(x), mix->shape[0] * head_dim(node));
}

static size_t head_mix_scratch(const ch_run *run, const ch_node *node, bool backward) {
  if (!backward) return 0;
  return run->kernels->sum_scratch(run->team, ch_node_count(node->in[1]));
}

static ch_status head_mix_forward(ch_run *run, const ch_node *node) {
  run->kernels->head_mix(run->team, ch_node_rows(node), in_heads(node), out_heads(node), head_dim(node),
                         ch_run_value(run, node->in[1]), in_heads(node), 1, ch_run_value(run, node->in[0]),
                         ch_run_output(run, node), false);
  return CH_OK;
}

/* dx is dy mixed by the transpose. */
static ch_status head_mix_backward(ch_run *run, const ch_node *node) {
  const void *dy = ch_run_output_gradient(run, node);
  bool accumulate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate);
  if (dx)
    run->kernels->head_mix(run->team, ch_node_rows(node), out_heads(node), in_heads(node), head_dim(node),
                           ch_run_value(run, node->in[1]), 1, in_heads(node), dy, dx, accumulate);
  void *dmix = ch_run_gradient(run, node, 1, &accumulate);
  if (dmix)
    run->kernels->head_mix_gradient(run->team, ch_node_rows(node), in_heads(node), out_heads(node),
                                    head_dim(node), ch_run_value(run, node->in[0]), dy, dmix, accumulate,
                                    ch_run_scratch(run));
  return CH_OK;
}

static double head_mix_flops(const ch_node *node) {
  return 2.0 * (double)ch_node_count(node) * (double)in_heads(node);
}

static ch_column_range head_mix_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  (void)i, (void)wanted;
  return (ch_column_range){0, ch_node_columns(node->in[0])};
}

static void head_mix_stream(const ch_stream_call *call) {
  const ch_node *node = call->node;
  int64_t dim = head_dim(node), first = call->wanted.first / dim, heads = call->wanted.count / dim;
  const char *mix = ch_run_value(call->run, node->in[1]);
  mix += (size_t)(first * in_heads(node)) * ch_dtype_size(call->run->kernels->dtype);
  call->run->kernels->head_mix(call->run->team, call->count, in_heads(node), heads, dim, mix, in_heads(node),
                               1, call->in[0].data, call->space, false);
}

static const ch_op op = {.name = "head_mix",
                         .shape = head_mix_shape,
                         .scratch = head_mix_scratch,
                         .forward = head_mix_forward,
                         .backward = head_mix_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .flops = head_mix_flops,
                         .stream = head_mix_stream,
                         .stream_needs = head_mix_stream_needs};

ch_node *ch_op_head_mix(ch_graph *graph, ch_node *x, ch_node *mix) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){x, mix}, NULL, 0);
}
