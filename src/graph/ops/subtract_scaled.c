/* y = a - lambda * b for groups of a row, one lambda each or one for all (differential attention). */
#include "graph/ops/shapes.h"

typedef struct subtract_scaled {
  int64_t groups;
} subtract_scaled;

static int64_t subtract_scaled_groups(const ch_node *node) {
  return ((const subtract_scaled *)node->attributes)->groups;
}

static bool single(const ch_node *node) {
  return node->in[2]->shape[0] == 1;
}

static ch_status subtract_scaled_shape(ch_node *node, ch_error *error) {
  CH_TRY(ch_same_shapes(node->in[0], node->in[1], error));
  if (ch_node_columns(node->in[0]) % subtract_scaled_groups(node) != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "rows of %lld elements are not %lld groups",
                   (long long)ch_node_columns(node->in[0]), (long long)subtract_scaled_groups(node));
  if (!single(node)) CH_TRY(ch_vector_of(node->in[2], subtract_scaled_groups(node), "lambda", error));
  return ch_shape_as_input(node, 0);
}

static size_t subtract_scaled_scratch(const ch_run *run, const ch_node *node, bool backward) {
  return backward ? run->kernels->sum_scratch(run->team, subtract_scaled_groups(node)) : 0;
}

static ch_status subtract_scaled_forward(ch_run *run, const ch_node *node) {
  run->kernels->subtract_scaled_forward(
      run->team, ch_node_rows(node), subtract_scaled_groups(node),
      ch_node_columns(node) / subtract_scaled_groups(node), ch_run_value(run, node->in[0]),
      ch_run_value(run, node->in[1]), ch_run_value(run, node->in[2]), single(node), ch_run_output(run, node));
  return CH_OK;
}

static ch_status subtract_scaled_backward(ch_run *run, const ch_node *node) {
  const void *dy = ch_run_output_gradient(run, node);
  bool accumulate, accumulate_lambda;
  void *da = ch_run_gradient(run, node, 0, &accumulate);
  if (da) run->kernels->copy_or_add(run->team, ch_node_count(node), dy, da, accumulate);
  void *db = ch_run_gradient(run, node, 1, &accumulate);
  void *dlambda = ch_run_gradient(run, node, 2, &accumulate_lambda);
  run->kernels->subtract_scaled_backward(run->team, ch_node_rows(node), subtract_scaled_groups(node),
                                         ch_node_columns(node) / subtract_scaled_groups(node),
                                         ch_run_value(run, node->in[1]), ch_run_value(run, node->in[2]),
                                         single(node), dy, db, accumulate, dlambda, accumulate_lambda,
                                         ch_run_scratch(run));
  return CH_OK;
}

static const ch_op op = {.name = "subtract_scaled",
                         .shape = subtract_scaled_shape,
                         .scratch = subtract_scaled_scratch,
                         .forward = subtract_scaled_forward,
                         .backward = subtract_scaled_backward,
                         .backward_reads = CH_READS_INPUT(1) | CH_READS_INPUT(2),
                         .cheap = true};

ch_node *ch_op_subtract_scaled(ch_graph *graph, ch_node *a, ch_node *b, ch_node *lambda, int64_t groups) {
  return ch_graph_node(graph, &op, 3, (ch_node *[]){a, b, lambda}, &(subtract_scaled){groups},
                       sizeof(subtract_scaled));
}
