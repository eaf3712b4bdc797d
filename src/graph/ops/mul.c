/* y = a * b, element by element; b may be a vector, or a parameter, that repeats along the rows. */
#include "graph/stream.h"
#include "graph/ops/shapes.h"

static bool repeated(const ch_node *node) {
  const ch_node *a = node->in[0], *b = node->in[1];
  return b->rank == 1 || (b->kind == CH_NODE_PARAM &&
                          (ch_node_rows(b) != ch_node_rows(a) || ch_node_columns(b) != ch_node_columns(a)));
}

/* Returns the elements of a row of the products: a whole row, or the length of the vector. */
static int64_t mul_width(const ch_node *node) {
  return repeated(node) ? ch_node_count(node->in[1]) : ch_node_columns(node);
}

static ch_status mul_shape(ch_node *node, ch_error *error) {
  if (!repeated(node))
    CH_TRY(ch_same_shapes(node->in[0], node->in[1], error));
  else if (ch_node_columns(node->in[0]) % mul_width(node) != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "a vector of %lld elements does not divide rows of %lld",
                   (long long)mul_width(node), (long long)ch_node_columns(node->in[0]));
  return ch_shape_as_input(node, 0);
}

static size_t mul_scratch(const ch_run *run, const ch_node *node, bool backward) {
  if (!backward || !repeated(node)) return 0;
  return run->kernels->sum_scratch(run->team, mul_width(node));
}

static ch_status mul_forward(ch_run *run, const ch_node *node) {
  run->kernels->mul(run->team, ch_node_count(node) / mul_width(node), mul_width(node),
                    ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]), repeated(node),
                    ch_run_output(run, node), false);
  return CH_OK;
}

static ch_status mul_backward(ch_run *run, const ch_node *node) {
  int64_t n = mul_width(node), rows = ch_node_count(node) / n;
  const void *dy = ch_run_output_gradient(run, node);
  bool accumulate;
  void *da = ch_run_gradient(run, node, 0, &accumulate);
  if (da)
    run->kernels->mul(run->team, rows, n, dy, ch_run_value(run, node->in[1]), repeated(node), da, accumulate);
  void *db = ch_run_gradient(run, node, 1, &accumulate);
  const void *a = ch_run_value(run, node->in[0]);
  if (db && repeated(node))
    run->kernels->dot_rows(run->team, rows, n, dy, a, db, accumulate, ch_run_scratch(run));
  else if (db)
    run->kernels->mul(run->team, rows, n, dy, a, false, db, accumulate);
  return CH_OK;
}

static ch_column_range mul_stream_needs(const ch_node *node, int i, ch_column_range wanted) {
  (void)i;
  return repeated(node) ? ch_whole_groups(wanted, mul_width(node)) : wanted;
}

static void mul_stream(const ch_stream_call *call) {
  const ch_kernels *kernels = call->run->kernels;
  if (repeated(call->node))
    kernels->mul(call->run->team, call->count * (call->wanted.count / mul_width(call->node)),
                 mul_width(call->node), call->in[0].data, ch_run_value(call->run, call->node->in[1]), true,
                 call->space, false);
  else
    kernels->mul(call->run->team, call->count, call->wanted.count, call->in[0].data, call->in[1].data, false,
                 call->space, false);
}

static const ch_op op = {.name = "mul",
                         .shape = mul_shape,
                         .scratch = mul_scratch,
                         .forward = mul_forward,
                         .backward = mul_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1),
                         .cheap = true,
                         .stream = mul_stream,
                         .stream_needs = mul_stream_needs};

ch_node *ch_op_mul(ch_graph *graph, ch_node *a, ch_node *b) {
  return ch_graph_node(graph, &op, 2, (ch_node *[]){a, b}, NULL, 0);
}
