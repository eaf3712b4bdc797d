/* y = scale * x * sigmoid(gate). */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

typedef struct sigmoid_gate {
  double scale;
} sigmoid_gate;

static double sigmoid_gate_scale_of(const ch_node *node) {
  return ((const sigmoid_gate *)node->attributes)->scale;
}

static ch_status sigmoid_gate_forward(ch_run *run, const ch_node *node) {
  run->kernels->sigmoid_gate_forward(run->team, ch_node_count(node), sigmoid_gate_scale_of(node),
                                     ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                     ch_run_output(run, node));
  return CH_OK;
}

static ch_status sigmoid_gate_backward(ch_run *run, const ch_node *node) {
  bool accumulate_x, accumulate_gate;
  void *dx = ch_run_gradient(run, node, 0, &accumulate_x);
  void *dgate = ch_run_gradient(run, node, 1, &accumulate_gate);
  run->kernels->sigmoid_gate_backward(run->team, ch_node_count(node), sigmoid_gate_scale_of(node),
                                      ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                      ch_run_output_gradient(run, node), dx, accumulate_x, dgate,
                                      accumulate_gate);
  return CH_OK;
}

static void sigmoid_gate_stream(const ch_stream_call *call) {
  call->run->kernels->sigmoid_gate_forward(call->run->team, call->count * call->wanted.count,
                                           sigmoid_gate_scale_of(call->node), call->in[0].data,
                                           call->in[1].data, call->space);
}

static const ch_op op = {.name = "sigmoid_gate",
                         .shape = ch_shape_of_equal_inputs,
                         .forward = sigmoid_gate_forward,
                         .backward = sigmoid_gate_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .cheap = true,
                         .stream = sigmoid_gate_stream};

ch_node *ch_op_sigmoid_gate(ch_graph *graph, ch_node *x, ch_node *gate, double scale) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){x, gate}, &(sigmoid_gate){scale}, sizeof(sigmoid_gate));
}
