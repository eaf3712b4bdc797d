/* Cross entropy of stored logits, with label smoothing, and the rank of the target among them. lm_loss.c is
   for heads with too many logits to store. */
#include "graph/ops/shapes.h"

typedef struct cross_entropy {
  double smoothing;
} cross_entropy;

static ch_status cross_entropy_shape(ch_node *node, ch_error *error) {
  const ch_node *logits = node->in[0], *targets = node->in[1];
  if (targets->dtype != CH_I32 || ch_node_count(targets) != ch_node_rows(logits))
    return ch_fail(error, CH_ERROR_CONFIG, "needs one integer target a row");
  return ch_shape_matrix(node, ch_node_rows(logits), 1);
}

/* Returns the bytes of a copy of the logits, which gradients replace, and of the losses. */
static size_t cross_entropy_scratch(const ch_run *run, const ch_node *node, bool backward) {
  if (!backward) return 0;
  return (size_t)(ch_node_count(node->in[0]) + ch_node_rows(node)) * ch_dtype_size(run->kernels->dtype);
}

/* Computes the losses. If `scale` is not NULL, replaces logits [rows, K] by their gradients. */
static void pass(ch_run *run, const ch_node *node, void *logits, void *loss, const void *scale) {
  const cross_entropy *attributes = node->attributes;
  run->kernels->cross_entropy(run->team, ch_node_rows(node), ch_node_columns(node->in[0]),
                              attributes->smoothing, 0, logits, ch_run_value(run, node->in[1]), loss, scale);
}

static ch_status cross_entropy_forward(ch_run *run, const ch_node *node) {
  pass(run, node, (void *)(uintptr_t)ch_run_value(run, node->in[0]), ch_run_output(run, node), NULL);
  return CH_OK;
}

static ch_status cross_entropy_backward(ch_run *run, const ch_node *node) {
  bool accumulate;
  int64_t count = ch_node_count(node->in[0]);
  void *gradient = ch_run_gradient(run, node, 0, &accumulate);
  char *logits = ch_run_scratch(run);
  if (!gradient) return CH_OK;
  run->kernels->copy_or_add(run->team, count, ch_run_value(run, node->in[0]), logits, false);
  pass(run, node, logits, logits + (size_t)count * ch_dtype_size(node->dtype),
       ch_run_output_gradient(run, node));
  run->kernels->copy_or_add(run->team, count, logits, gradient, accumulate);
  return CH_OK;
}

static const ch_op op = {.name = "cross_entropy",
                         .shape = cross_entropy_shape,
                         .scratch = cross_entropy_scratch,
                         .forward = cross_entropy_forward,
                         .backward = cross_entropy_backward,
                         .backward_reads = CH_READS_INPUT(0)};

ch_node *ch_op_cross_entropy(ch_graph *graph, ch_node *logits, ch_node *targets, double smoothing) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){logits, targets}, &(cross_entropy){smoothing},
                       sizeof(cross_entropy));
}

static ch_status forward_rank(ch_run *run, const ch_node *node) {
  run->kernels->target_ranks(run->team, ch_node_rows(node), ch_node_columns(node->in[0]),
                             ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                             ch_run_output(run, node));
  return CH_OK;
}

static const ch_op rank = {.name = "target_rank", .shape = cross_entropy_shape, .forward = forward_rank};

ch_node *ch_op_target_rank(ch_graph *graph, ch_node *logits, ch_node *targets) {
  return ch_graph_node(graph, &rank, 2, (ch_node *[]){logits, targets}, NULL, 0);
}
