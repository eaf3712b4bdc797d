/* Short causal convolutions with SiLU, channel by channel (tensor/short_conv.h). */
#include "graph/ops/fixed_state.h"
#include "graph/ops/shapes.h"

typedef struct short_conv {
  int64_t taps;
  ch_kept_state kept;
  int weight, documents; /* indices of the inputs, or 0 */
} short_conv;

static const short_conv *short_conv_attributes_of(const ch_node *node) {
  return node->attributes;
}

static ch_status short_conv_shape(ch_node *node, ch_error *error) {
  const short_conv *s = short_conv_attributes_of(node);
  if (s->weight && (ch_node_count(node->in[s->weight]) != s->taps * ch_node_columns(node->in[0]) ||
                    s->taps > CH_MAX_CONV_TAPS))
    return ch_fail(error, CH_ERROR_CONFIG, "weights of %lld elements for %lld taps do not fit %lld channels",
                   (long long)ch_node_count(node->in[s->weight]), (long long)s->taps,
                   (long long)ch_node_columns(node->in[0]));
  CH_TRY(ch_check_kept_state(node, &s->kept, error));
  return ch_shape_as_input(node, 0);
}

static ch_short_conv short_conv_describe(const ch_run *run, const ch_node *node) {
  return (ch_short_conv){.team = run->team,
                         .sequences = node->graph->sequences,
                         .length = node->graph->length,
                         .channels = ch_node_columns(node),
                         .taps = short_conv_attributes_of(node)->taps};
}

static ch_short_conv short_conv_bind(const ch_run *run, const ch_node *node) {
  const short_conv *s = short_conv_attributes_of(node);
  ch_short_conv args = short_conv_describe(run, node);
  args.x = ch_run_value(run, node->in[0]);
  if (s->weight) args.weight = ch_run_value(run, node->in[s->weight]);
  if (s->documents) args.document_start = ch_run_value(run, node->in[s->documents]);
  args.scratch = ch_run_scratch(run);
  return args;
}

static size_t short_conv_scratch(const ch_run *run, const ch_node *node, bool backward) {
  const ch_short_conv args = short_conv_describe(run, node);
  return run->kernels->short_conv_scratch(&args, backward);
}

static ch_status short_conv_forward(ch_run *run, const ch_node *node) {
  ch_short_conv args = short_conv_bind(run, node);
  args.y = ch_run_output(run, node);
  args.states = ch_kept_states(run, &short_conv_attributes_of(node)->kept, &args.state_stride, &args.order,
                               &args.tokens_before);
  run->kernels->short_conv_forward(&args);
  if (args.states) run->kernels->short_conv_keep(&args);
  return CH_OK;
}

static ch_status short_conv_backward(ch_run *run, const ch_node *node) {
  const ch_short_conv args = short_conv_bind(run, node);
  ch_short_conv_gradient gradient = {.y = ch_run_output_gradient(run, node)};
  gradient.x = ch_run_gradient(run, node, 0, &gradient.add_x);
  if (args.weight)
    gradient.weight =
        ch_run_gradient(run, node, short_conv_attributes_of(node)->weight, &gradient.add_weight);
  run->kernels->short_conv_backward(&args, &gradient);
  return CH_OK;
}

static double short_conv_flops(const ch_node *node) {
  return short_conv_attributes_of(node)->weight
             ? 2.0 * (double)(ch_node_count(node) * short_conv_attributes_of(node)->taps)
             : 0;
}

static const ch_op op = {.name = "short_conv",
                         .shape = short_conv_shape,
                         .scratch = short_conv_scratch,
                         .forward = short_conv_forward,
                         .backward = short_conv_backward,
                         .backward_reads = CH_READS_INPUTS,
                         .flops = short_conv_flops,
                         .cheap = true};

ch_node *ch_op_short_conv(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *document_start,
                          const ch_kept_state *kept) {
  ch_node *in[3] = {x};
  short_conv attributes = {.taps = weight ? weight->shape[weight->rank - 1] : 1};
  int inputs = 1;
  if (weight) in[attributes.weight = inputs++] = weight;
  if (document_start) in[attributes.documents = inputs++] = document_start;
  if (kept && attributes.taps > 1) attributes.kept = *kept;
  return ch_graph_node(graph, &op, inputs, in, &attributes, sizeof attributes);
}
