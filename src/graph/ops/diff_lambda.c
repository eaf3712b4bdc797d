/* lambda = exp(q1 . k1) - exp(q2 . k2) + start: differential attention's reparameterised scale. */
#include "graph/ops/shapes.h"

typedef struct diff_lambda {
  double start;
} diff_lambda;

static ch_status diff_lambda_shape(ch_node *node, ch_error *error) {
  for (int i = 0; i < 4; i++) CH_TRY(ch_vector_of(node->in[i], node->in[0]->shape[0], "vector", error));
  node->rank = 1;
  node->shape[0] = 1;
  return CH_OK;
}

static int64_t diff_lambda_saved(const ch_node *node) {
  (void)node;
  return 2; /* two exponentials */
}

static ch_status diff_lambda_forward(ch_run *run, const ch_node *node) {
  const diff_lambda *attributes = node->attributes;
  const void *v[4];
  for (int i = 0; i < 4; i++) v[i] = ch_run_value(run, node->in[i]);
  run->kernels->diff_lambda_forward(node->in[0]->shape[0], v, attributes->start, ch_run_output(run, node),
                                    ch_run_saved(run, node));
  return CH_OK;
}

static ch_status diff_lambda_backward(ch_run *run, const ch_node *node) {
  for (int i = 0; i < 4; i++) {
    bool accumulate;
    void *gradient = ch_run_gradient(run, node, i, &accumulate);
    if (gradient)
      run->kernels->diff_lambda_backward(node->in[0]->shape[0], i, ch_run_value(run, node->in[i ^ 1]),
                                         ch_run_saved(run, node), ch_run_output_gradient(run, node), gradient,
                                         accumulate);
  }
  return CH_OK;
}

static const ch_op op = {.name = "diff_lambda",
                         .shape = diff_lambda_shape,
                         .saved = diff_lambda_saved,
                         .forward = diff_lambda_forward,
                         .backward = diff_lambda_backward,
                         .backward_reads =
                             CH_READS_INPUT(0) | CH_READS_INPUT(1) | CH_READS_INPUT(2) | CH_READS_INPUT(3)};

ch_node *ch_op_diff_lambda(ch_graph *graph, ch_node *q1, ch_node *k1, ch_node *q2, ch_node *k2,
                           double start) {
  return ch_graph_node(graph, &op, 4, (ch_node *[]){q1, k1, q2, k2}, &(diff_lambda){start},
                       sizeof(diff_lambda));
}
