/* A layernorm in two halves: the moments of a row when a token is written, and the normalisation of columns when
 * they are read. */
#include "graph/ops/shapes.h"
#include "graph/stream.h"

typedef struct moments {
  double eps;
} moments;

static ch_status moments_shape(ch_node *node, ch_error *error) {
  (void)error;
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), 2);
}

static ch_status moments_forward(ch_run *run, const ch_node *node) {
  run->kernels->row_moments(ch_node_rows(node), ch_node_columns(node->in[0]), ch_run_value(run, node->in[0]),
                            ((const moments *)node->attributes)->eps, ch_run_output(run, node));
  return CH_OK;
}

static const ch_op op = {.name = "moments", .shape = moments_shape, .forward = moments_forward};

ch_node *ch_op_moments(ch_graph *graph, ch_node *x, double eps) {
  return ch_graph_node(graph, &op, 1, &x, &(moments){eps}, sizeof(moments));
}

static ch_status normalise_shape(ch_node *node, ch_error *error) {
  int64_t n = ch_node_columns(node->in[0]);
  if (ch_node_columns(node->in[1]) != 2)
    return ch_fail(error, CH_ERROR_CONFIG, "a row has two moments, not %lld",
                   (long long)ch_node_columns(node->in[1]));
  CH_TRY(ch_vector_of(node->in[2], n, "weight", error));
  CH_TRY(ch_vector_of(node->in[3], n, "bias", error));
  return ch_shape_as_input(node, 0);
}

static ch_column_range moments_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  (void)node;
  return i == 1 ? (ch_column_range){0, 2} : wanted;
}

static void moments_stream(const ch_stream_call *call) {
  size_t at = (size_t)call->wanted.first * ch_dtype_size(call->run->kernels->dtype);
  call->run->kernels->normalise(call->count, call->wanted.count, call->in[0].data, call->in[1].data,
                                (const char *)ch_run_value(call->run, call->node->in[2]) + at,
                                (const char *)ch_run_value(call->run, call->node->in[3]) + at, call->space);
}

static const ch_op normalise_op = {.name = "normalise",
                                   .shape = normalise_shape,
                                   .stream = moments_stream,
                                   .stream_needs = moments_stream_needs};

ch_node *ch_op_normalise_states(ch_graph *graph, ch_node *x, ch_node *row_moments, ch_node *weight,
                                ch_node *bias) {
  return ch_graph_node(graph, &normalise_op, 4, (ch_node *[]){x, row_moments, weight, bias}, NULL, 0);
}
