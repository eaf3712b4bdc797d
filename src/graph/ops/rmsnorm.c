/* y = x / sqrt(mean(x^2) + eps) * weight, over whole rows or over each head. All heads share the weight, or each
 * has a slice of it. */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

typedef struct rmsnorm {
  double eps;
  int64_t slices; /* slices of the weight; group i of a row has slice i % slices */
} rmsnorm;

static int64_t slices(const ch_node *node) {
  return ((const rmsnorm *)node->attributes)->slices;
}

/* Returns the number of elements that one norm covers. */
static int64_t rmsnorm_width(const ch_node *node) {
  return node->in[1]->shape[0] / slices(node);
}

static int64_t rmsnorm_groups(const ch_node *node) {
  return ch_node_count(node) / rmsnorm_width(node);
}

static ch_status rmsnorm_shape(ch_node *node, ch_error *error) {
  const ch_node *x = node->in[0], *weight = node->in[1];
  if (weight->rank != 1 || slices(node) < 1 || weight->shape[0] % slices(node) != 0 ||
      ch_node_columns(x) % weight->shape[0] != 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "a weight of %lld elements in %lld slices does not divide rows of %lld",
                   (long long)ch_node_count(weight), (long long)slices(node), (long long)ch_node_columns(x));
  return ch_shape_as_input(node, 0);
}

static int64_t rmsnorm_saved(const ch_node *node) {
  return rmsnorm_groups(node); /* 1/sqrt(...) of every group */
}

static size_t rmsnorm_scratch(const ch_run *run, const ch_node *node, bool backward) {
  return backward ? run->kernels->sum_scratch(run->team, node->in[1]->shape[0]) : 0;
}

static ch_status rmsnorm_forward(ch_run *run, const ch_node *node) {
  const rmsnorm *attributes = node->attributes;
  run->kernels->rmsnorm_forward(run->team, rmsnorm_groups(node), rmsnorm_width(node), slices(node),
                                ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                attributes->eps, ch_run_output(run, node), ch_run_saved(run, node));
  return CH_OK;
}

static ch_status rmsnorm_backward(ch_run *run, const ch_node *node) {
  bool accumulate_x, accumulate_weight;
  void *dx = ch_run_gradient(run, node, 0, &accumulate_x);
  void *dweight = ch_run_gradient(run, node, 1, &accumulate_weight);
  run->kernels->rmsnorm_backward(run->team, rmsnorm_groups(node), rmsnorm_width(node), slices(node),
                                 ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                                 ch_run_saved(run, node), ch_run_output_gradient(run, node), dx, accumulate_x,
                                 dweight, accumulate_weight, ch_run_scratch(run));
  return CH_OK;
}

/* Returns columns that begin with a group of the first slice and include all slices. */
static ch_column_range rmsnorm_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  (void)i;
  return ch_whole_groups(wanted, node->in[1]->shape[0]);
}

static void rmsnorm_stream(const ch_stream_call *call) {
  const rmsnorm *attributes = call->node->attributes;
  int64_t n = rmsnorm_width(call->node);
  call->run->kernels->rmsnorm_forward(
      call->run->team, call->count * (call->wanted.count / n), n, slices(call->node), call->in[0].data,
      ch_run_value(call->run, call->node->in[1]), attributes->eps, call->space, NULL);
}

#define RMSNORM                                                                                              \
  .name = "rmsnorm", .shape = rmsnorm_shape, .saved = rmsnorm_saved, .scratch = rmsnorm_scratch,             \
  .forward = rmsnorm_forward, .backward = rmsnorm_backward,                                                  \
  .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1), .cheap = true, .stream = rmsnorm_stream

static const ch_op op = {RMSNORM, .stream_needs = rmsnorm_stream_needs};
/* RMSNorm over whole rows, which cannot be computed in parts. */
static const ch_op of_rows = {RMSNORM, .stream_whole = true};

ch_node *ch_op_rmsnorm_sliced(ch_graph *graph, ch_node *x, ch_node *weight, int64_t heads, double eps) {
  bool rows = x && weight && weight->shape[0] == ch_node_columns(x);
  return ch_graph_node(graph, rows ? &of_rows : &op, 2, (ch_node *[]){x, weight}, &(rmsnorm){eps, heads},
                       sizeof(rmsnorm));
}

ch_node *ch_op_rmsnorm(ch_graph *graph, ch_node *x, ch_node *weight, double eps) {
  return ch_op_rmsnorm_sliced(graph, x, weight, 1, eps);
}
