/* The weights of a token's chosen experts, and the loss that balances the experts' loads.
 *
 * The balance loss of a sequence of T tokens is the Switch Transformer's (eqs. 4-6) for `active` choices per
 * token:
 *   coefficient * E * sum over e of f_e P_e,  f_e = choices of e / (T active),  P_e = mean softmax(logits)_e.
 * It is not part of the graph's value: only its gradient is added, times ch_routing.balance_seed. It is computed
 * per sequence, so it does not depend on the number of sequences in a run. */
#include "graph/ops/shapes.h"

typedef struct route {
  ch_routing_rule rule;
  double balance_coefficient;
} route;

static ch_status route_shape(ch_node *node, ch_error *error) {
  const ch_node *logits = node->in[0], *chosen = node->in[1];
  if (chosen->dtype != CH_I32 || ch_node_rows(chosen) != ch_node_rows(logits))
    return ch_fail(error, CH_ERROR_CONFIG, "needs the integers of the experts that each row of logits chose");
  return ch_shape_as_input(node, 1);
}

/* Returns the bytes of the balance loss's gradient for every sequence and expert, and of the sum that
   ch_kernels.route_backward returns for every row. */
static size_t route_scratch(const ch_run *run, const ch_node *node, bool backward) {
  const ch_graph *graph = node->graph;
  int64_t pulls = graph->sequences * ch_node_columns(node->in[0]);
  return backward ? (size_t)(pulls + ch_node_rows(node)) * ch_dtype_size(run->kernels->dtype) : 0;
}

static ch_status route_forward(ch_run *run, const ch_node *node) {
  const route *attributes = node->attributes;
  run->kernels->route_forward(run->team, ch_node_rows(node), &attributes->rule,
                              ch_run_value(run, node->in[0]), ch_run_value(run, node->in[1]),
                              ch_run_output(run, node));
  return CH_OK;
}

static void add_balance_loss(ch_routing *routing, double term) {
  routing->balance_loss += term;
  if (routing->terms) routing->terms[routing->term_count++] = term;
}

/* Consecutive sequences with equal numbers of tokens that are not padding. */
typedef struct stretch {
  int64_t first, sequences;
  int64_t text; /* tokens of each sequence that are not padding */
} stretch;

/* pull [sequences, E] = seed * coefficient * E / T * f_e, where T is the number of tokens that are not
   padding. */
static void find_pulls(const ch_run *run, const ch_node *node, stretch of, char *pull) {
  const route *attributes = node->attributes;
  int64_t experts = attributes->rule.experts, active = attributes->rule.active;
  const int32_t *chosen = ch_run_value(run, node->in[1]);
  double unit = run->routing->balance_seed * attributes->balance_coefficient * (double)experts /
                ((double)of.text * (double)of.text * (double)active);
  run->kernels->balance_pulls(of.sequences, of.text * active, experts, unit,
                              chosen + of.first * node->graph->length * active,
                              pull + (size_t)(of.first * experts) * ch_dtype_size(node->dtype));
}

/* Computes the gradient of `rows` rows from row `first` on. `pull` has a row for every `length` of these rows, or
   is NULL. */
static void go_back(const ch_run *run, const ch_node *node, int64_t first, int64_t rows, int64_t length,
                    const void *pull, void *pulled, char *dlogits, bool accumulate) {
  const route *attributes = node->attributes;
  const ch_routing_rule *rule = &attributes->rule;
  size_t size = ch_dtype_size(node->dtype), wide = (size_t)(first * rule->experts) * size,
         narrow = (size_t)(first * rule->active) * size;
  run->kernels->route_backward(run->team, rows, rule, (const char *)ch_run_value(run, node->in[0]) + wide,
                               (const int32_t *)ch_run_value(run, node->in[1]) + first * rule->active,
                               (const char *)ch_run_output_gradient(run, node) + narrow, pull, length, pulled,
                               dlogits + wide, accumulate);
}

static ch_status route_backward(ch_run *run, const ch_node *node) {
  const route *attributes = node->attributes;
  bool accumulate,
      balanced = run->routing && run->routing->balance_seed != 0 && attributes->balance_coefficient != 0;
  char *dlogits = ch_run_gradient(run, node, 0, &accumulate);
  if (!dlogits) return CH_OK;
  int64_t rows = ch_node_rows(node), sequences = node->graph->sequences, length = node->graph->length;
  size_t size = ch_dtype_size(node->dtype);
  if (!balanced) {
    go_back(run, node, 0, rows, length, NULL, NULL, dlogits, accumulate);
    return CH_OK;
  }
  const int64_t *text = run->routing->text;
  char *pull = ch_run_scratch(run), *pulled = pull + (size_t)(sequences * attributes->rule.experts) * size;
  if (!text) {
    find_pulls(run, node, (stretch){0, sequences, length}, pull);
    go_back(run, node, 0, rows, length, pull, pulled, dlogits, accumulate);
    add_balance_loss(run->routing, run->kernels->sum(rows, pulled));
    return CH_OK;
  }
  double loss = 0;
  for (int64_t s = 0; s < sequences; s++) {
    char *own = pull + (size_t)(s * attributes->rule.experts) * size;
    int64_t counted = text[s], first = s * length;
    if (counted > 0) {
      find_pulls(run, node, (stretch){s, 1, counted}, pull);
      go_back(run, node, first, counted, counted, own, pulled, dlogits, accumulate);
      loss += run->kernels->sum(counted, pulled);
    }
    if (counted < length)
      go_back(run, node, first + counted, length - counted, length, NULL, NULL, dlogits, accumulate);
  }
  add_balance_loss(run->routing, loss);
  return CH_OK;
}

static const ch_op op = {.name = "route",
                         .shape = route_shape,
                         .scratch = route_scratch,
                         .forward = route_forward,
                         .backward = route_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1)};

ch_node *ch_op_route(ch_graph *graph, ch_node *logits, ch_node *chosen, const ch_route_spec *spec) {
  route attributes = {.balance_coefficient = spec->balance_coefficient};
  if (logits && chosen)
    attributes.rule = (ch_routing_rule){.experts = ch_node_columns(logits),
                                        .active = ch_node_columns(chosen),
                                        .renormalise = spec->renormalise,
                                        .scale = spec->scale,
                                        .sigmoid = spec->sigmoid};
  return ch_graph_node(graph, &op, 2, (ch_node *[]){logits, chosen}, &attributes, sizeof attributes);
}
