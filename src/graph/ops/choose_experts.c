/* Chooses the experts of every token. The choice has no gradient. route.c computes the weights of the experts. */
#include "graph/ops/shapes.h"

typedef struct choose_experts {
  ch_choice_spec spec;
  int layer;
} choose_experts;

static ch_status choose_experts_shape(ch_node *node, ch_error *error) {
  const ch_choice_spec *spec = &((const choose_experts *)node->attributes)->spec;
  int64_t experts = ch_node_columns(node->in[0]);
  if (experts > CH_MAX_EXPERTS || spec->active < 1 || spec->active > experts)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld of %lld experts; 1 to all of at most %d can be chosen",
                   (long long)spec->active, (long long)experts, CH_MAX_EXPERTS);
  if (spec->groups > 1 &&
      (experts % spec->groups != 0 || spec->active_groups < 1 || spec->active_groups > spec->groups ||
       spec->active > spec->active_groups * (experts / spec->groups)))
    return ch_fail(error, CH_ERROR_CONFIG, "%lld of %lld groups of experts cannot be chosen from",
                   (long long)spec->active_groups, (long long)spec->groups);
  if (node->inputs == 2) CH_TRY(ch_vector_of(node->in[1], experts, "bias", error));
  node->dtype = CH_I32;
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), spec->active);
}

static ch_status choose_experts_forward(ch_run *run, const ch_node *node) {
  const choose_experts *attributes = node->attributes;
  int64_t experts = ch_node_columns(node->in[0]);
  int32_t *chosen = ch_run_output(run, node);
  const ch_choice_spec *spec = &attributes->spec;
  const ch_routing_rule rule = {.experts = experts,
                                .active = spec->active,
                                .sigmoid = spec->sigmoid,
                                .groups = spec->groups,
                                .active_groups = spec->active_groups};
  run->kernels->choose_experts(run->team, ch_node_rows(node), &rule, ch_run_value(run, node->in[0]),
                               node->inputs == 2 ? ch_run_value(run, node->in[1]) : NULL, chosen);
  if (attributes->layer < 0 || !run->routing || !run->routing->load) return CH_OK;
  int64_t *load = run->routing->load + attributes->layer * experts, length = node->graph->length;
  const int64_t *text = run->routing->text;
  if (!text) run->kernels->count_choices(ch_node_count(node), chosen, load);
  for (int64_t s = 0; text && s < node->graph->sequences; s++)
    run->kernels->count_choices(text[s] * spec->active, chosen + s * length * spec->active, load);
  return CH_OK;
}

static const ch_op op = {.name = "choose", .shape = choose_experts_shape, .forward = choose_experts_forward};

ch_node *ch_op_choose_experts(ch_graph *graph, ch_node *logits, ch_node *bias, const ch_choice_spec *spec,
                              int layer) {
  return ch_graph_node(graph, &op, bias ? 2 : 1, (ch_node *[]){logits, bias}, &(choose_experts){*spec, layer},
                       sizeof(choose_experts));
}
