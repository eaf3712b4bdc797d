/* y = (x - mean) / sqrt(var + eps) * weight + bias over whole rows. */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

typedef struct layernorm {
  double eps;
} layernorm;

static ch_status layernorm_shape(ch_node *node, ch_error *error) {
  int64_t n = ch_node_columns(node->in[0]);
  CH_TRY(ch_vector_of(node->in[1], n, "weight", error));
  CH_TRY(ch_vector_of(node->in[2], n, "bias", error));
  return ch_shape_as_input(node, 0);
}

static int64_t layernorm_saved(const ch_node *node) {
  return 2 * ch_node_rows(node); /* mean and 1/std of every row */
}

static size_t layernorm_scratch(const ch_run *run, const ch_node *node, bool backward) {
  if (!backward) return 0;
  return run->kernels->sum_scratch(run->team, 2 * ch_node_columns(node));
}

static ch_status layernorm_forward(ch_run *run, const ch_node *node) {
  const layernorm *attributes = node->attributes;
  run->kernels->layernorm_forward(run->team, ch_node_rows(node), ch_node_columns(node),
                                  ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                  ch_run_value(run, node->in[2]), attributes->eps, ch_run_output(run, node),
                                  ch_run_saved(run, node));
  return CH_OK;
}

static ch_status layernorm_backward(ch_run *run, const ch_node *node) {
  bool accumulate_x, accumulate_weight, accumulate_bias;
  void *dx = ch_run_gradient(run, node, 0, &accumulate_x);
  void *dweight = ch_run_gradient(run, node, 1, &accumulate_weight);
  void *dbias = ch_run_gradient(run, node, 2, &accumulate_bias);
  run->kernels->layernorm_backward(run->team, ch_node_rows(node), ch_node_columns(node),
                                   ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                   ch_run_saved(run, node), ch_run_output_gradient(run, node), dx,
                                   accumulate_x, dweight, dbias, accumulate_weight, ch_run_scratch(run));
  return CH_OK;
}

static void layernorm_stream(const ch_stream_call *call) {
  const ch_node *node = call->node;
  call->run->kernels->layernorm_forward(call->run->team, call->count, ch_node_columns(node), call->in[0].data,
                                        ch_run_value(call->run, node->in[1]),
                                        ch_run_value(call->run, node->in[2]),
                                        ((const layernorm *)node->attributes)->eps, call->space, NULL);
}

static const ch_op op = {.name = "layernorm",
                         .shape = layernorm_shape,
                         .saved = layernorm_saved,
                         .scratch = layernorm_scratch,
                         .forward = layernorm_forward,
                         .backward = layernorm_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .cheap = true,
                         .stream = layernorm_stream,
                         .stream_whole = true};

ch_node *ch_op_layernorm(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *bias, double eps) {
  return ch_graph_node(graph, &op, 3, (ch_node *[]){x, weight, bias}, &(layernorm){eps}, sizeof(layernorm));
}
