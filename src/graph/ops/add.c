/* y = a + b; a may be a weight in its stored type. */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

static ch_status add_forward(ch_run *run, const ch_node *node) {
  int64_t n = ch_node_count(node);
  const ch_kernels *kernels = run->kernels;
  const void *a = ch_run_value(run, node->in[0]), *b = ch_run_value(run, node->in[1]);
  const ch_tensor *stored = ch_run_param(run, node->in[0]);
  if (!stored || stored->dtype == kernels->dtype) {
    kernels->add(run->team, n, a, b, ch_run_output(run, node));
    return CH_OK;
  }
  kernels->convert_from(run->team, n, a, stored->dtype, ch_run_output(run, node));
  kernels->copy_or_add(run->team, n, b, ch_run_output(run, node), true);
  return CH_OK;
}

static ch_status add_backward(ch_run *run, const ch_node *node) {
  for (int i = 0; i < 2; i++) {
    bool accumulate;
    void *gradient = ch_run_gradient(run, node, i, &accumulate);
    if (gradient)
      run->kernels->copy_or_add(run->team, ch_node_count(node), ch_run_output_gradient(run, node), gradient,
                                accumulate);
  }
  return CH_OK;
}

static void add_stream(const ch_stream_call *call) {
  call->run->kernels->add(call->run->team, call->count * call->wanted.count, call->in[0].data,
                          call->in[1].data, call->space);
}

static const ch_op op = {.name = "add",
                         .shape = ch_shape_of_equal_inputs,
                         .forward = add_forward,
                         .backward = add_backward,
                         .stream = add_stream};

ch_node *ch_op_add(ch_graph *graph, ch_node *a, ch_node *b) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){a, b}, NULL, 0);
}
