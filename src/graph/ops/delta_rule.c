/* The gated delta rule over sequences (tensor/delta_rule.h). */
#include "graph/ops/fixed_state.h"
#include "graph/ops/shapes.h"

enum { Q, K, V, DECAY, BETA, OPERANDS };

typedef struct delta {
  int64_t heads;
  ch_kept_state kept;
  int documents; /* index of the input, or 0 */
} delta;

static const delta *delta_rule_attributes_of(const ch_node *node) {
  return node->attributes;
}

static int64_t columns(const ch_node *node, int i) {
  return ch_node_columns(node->in[i]);
}

static ch_status delta_rule_shape(ch_node *node, ch_error *error) {
  const int64_t heads = delta_rule_attributes_of(node)->heads, value_heads = columns(node, BETA);
  if (heads < 1 || columns(node, Q) != columns(node, K) || columns(node, K) % heads != 0 ||
      value_heads % heads != 0 || columns(node, V) % value_heads != 0 || columns(node, DECAY) != value_heads)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "queries of %lld, keys of %lld, values of %lld, decays of %lld and steps of %lld elements do "
        "not fit %lld heads",
        (long long)columns(node, Q), (long long)columns(node, K), (long long)columns(node, V),
        (long long)columns(node, DECAY), (long long)value_heads, (long long)heads);
  CH_TRY(ch_check_kept_state(node, &delta_rule_attributes_of(node)->kept, error));
  return ch_shape_as_input(node, V);
}

static ch_delta_rule delta_rule_describe(const ch_run *run, const ch_node *node) {
  const int64_t heads = delta_rule_attributes_of(node)->heads, value_heads = columns(node, BETA);
  return (ch_delta_rule){.team = run->team,
                         .sequences = node->graph->sequences,
                         .length = node->graph->length,
                         .heads = heads,
                         .value_heads = value_heads,
                         .key_dim = columns(node, K) / heads,
                         .value_dim = columns(node, V) / value_heads};
}

static int64_t kept_states(const ch_delta_rule *a) {
  return a->sequences * a->value_heads * (ch_delta_chunks(a->length) - 1) * a->key_dim * a->value_dim;
}

/* Returns the number of saved elements: states at the start of all chunks but the first, and all tokens' errors. */
static int64_t delta_rule_saved(const ch_node *node) {
  const ch_run nobody = {0};
  const ch_delta_rule a = delta_rule_describe(&nobody, node);
  return kept_states(&a) + ch_node_count(node);
}

static size_t delta_rule_scratch(const ch_run *run, const ch_node *node, bool backward) {
  const ch_delta_rule a = delta_rule_describe(run, node);
  return run->kernels->delta_rule_scratch(&a, backward);
}

static ch_delta_rule delta_rule_bind(const ch_run *run, const ch_node *node) {
  const int documents = delta_rule_attributes_of(node)->documents;
  ch_delta_rule a = delta_rule_describe(run, node);
  a.q = ch_run_value(run, node->in[Q]);
  a.k = ch_run_value(run, node->in[K]);
  a.v = ch_run_value(run, node->in[V]);
  a.decay = ch_run_value(run, node->in[DECAY]);
  a.beta = ch_run_value(run, node->in[BETA]);
  if (documents) a.document_start = ch_run_value(run, node->in[documents]);
  a.kept_states = ch_run_saved(run, node);
  if (a.kept_states)
    a.kept_errors = (char *)a.kept_states + (size_t)kept_states(&a) * ch_dtype_size(run->kernels->dtype);
  a.scratch = ch_run_scratch(run);
  return a;
}

static ch_status delta_rule_forward(ch_run *run, const ch_node *node) {
  ch_delta_rule a = delta_rule_bind(run, node);
  a.out = ch_run_output(run, node);
  a.states =
      ch_kept_states(run, &delta_rule_attributes_of(node)->kept, &a.state_stride, &a.order, &a.tokens_before);
  run->kernels->delta_rule_forward(&a);
  return CH_OK;
}

static ch_status delta_rule_backward(ch_run *run, const ch_node *node) {
  const ch_delta_rule a = delta_rule_bind(run, node);
  ch_delta_rule_gradient g = {.out = ch_run_output_gradient(run, node)};
  g.q = ch_run_gradient(run, node, Q, &g.add_q);
  g.k = ch_run_gradient(run, node, K, &g.add_k);
  g.v = ch_run_gradient(run, node, V, &g.add_v);
  g.decay = ch_run_gradient(run, node, DECAY, &g.add_decay);
  g.beta = ch_run_gradient(run, node, BETA, &g.add_beta);
  run->kernels->delta_rule_backward(&a, &g);
  return CH_OK;
}

/* Returns the FLOPs of the recurrence: the state is read for the error and for the output, and written. */
static double delta_rule_flops(const ch_node *node) {
  const ch_run nobody = {0};
  const ch_delta_rule a = delta_rule_describe(&nobody, node);
  return 6.0 * (double)ch_node_rows(node) * (double)(a.value_heads * a.key_dim * a.value_dim);
}

static const ch_op op = {.name = "delta_rule",
                         .shape = delta_rule_shape,
                         .saved = delta_rule_saved,
                         .scratch = delta_rule_scratch,
                         .forward = delta_rule_forward,
                         .backward = delta_rule_backward,
                         .backward_reads = CH_READS_INPUTS,
                         .flops = delta_rule_flops};

ch_node *ch_op_delta_rule(ch_graph *graph, const ch_delta_operands *operands, ch_node *document_start,
                          int64_t heads, const ch_kept_state *kept) {
  ch_node *in[OPERANDS + 1] = {operands->q,     operands->k,    operands->v,
                               operands->decay, operands->beta, document_start};
  delta attributes = {.heads = heads};
  if (document_start) attributes.documents = OPERANDS;
  if (kept) attributes.kept = *kept;
  return ch_graph_node(graph, &op, document_start ? OPERANDS + 1 : OPERANDS, in, &attributes,
                       sizeof attributes);
}
