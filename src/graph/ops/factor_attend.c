/* Few queries over factors of keys and values in the cache (tensor/factor_attend.h). Inference only. */
#include "graph/ops/append.h"

enum { Q, FACTORS, DOCUMENTS = FACTORS + CH_FACTORS };

static const ch_factor_spec *spec_of(const ch_node *node) {
  return node->attributes;
}

static int64_t dim_of(const ch_node *node) {
  return ch_node_columns(node->in[Q]) / spec_of(node)->heads;
}

static ch_status shape(ch_node *node, ch_error *error) {
  const ch_factor_spec *s = spec_of(node);
  int64_t dim = dim_of(node),
          widths[CH_FACTORS] = {s->heads * s->k_rank, s->k_rank * dim, s->heads * s->v_rank, s->v_rank * dim};
  for (int i = 0; i < CH_FACTORS; i++)
    if (!node->in[FACTORS + i]->streamed || !node->in[FACTORS + i]->op->stateful ||
        ch_node_columns(node->in[FACTORS + i]) != widths[i])
      return ch_fail(error, CH_ERROR_CONFIG, "factor %d of %lld elements must lie in the cache", i,
                     (long long)widths[i]);
  return ch_shape_as_input(node, Q);
}

static ch_factor_attend describe(const ch_run *run, const ch_node *node) {
  const ch_factor_spec *s = spec_of(node);
  return (ch_factor_attend){.team = run->team,
                            .sequences = node->graph->sequences,
                            .queries = node->graph->length,
                            .heads = s->heads,
                            .dim = dim_of(node),
                            .k_rank = s->k_rank,
                            .v_rank = s->v_rank,
                            .scale = s->scale,
                            .slopes = s->slopes};
}

static size_t scratch(const ch_run *run, const ch_node *node, bool backward) {
  (void)backward;
  ch_factor_attend args = describe(run, node);
  return run->kernels->factor_attend_scratch(&args);
}

static ch_status forward(ch_run *run, const ch_node *node) {
  ch_factor_attend args = describe(run, node);
  args.q = ch_run_value(run, node->in[Q]);
  args.out = ch_run_output(run, node);
  args.past = run->cache->length;
  if (node->inputs > DOCUMENTS) args.document_start = ch_run_value(run, node->in[DOCUMENTS]);
  for (int i = 0; i < CH_FACTORS; i++) args.factor[i] = ch_states_of(run, node->in[FACTORS + i]);
  args.scratch = ch_run_scratch(run);
  run->kernels->factor_attend(&args);
  return CH_OK;
}

static double flops(const ch_node *node) {
  const ch_factor_spec *s = spec_of(node);
  return 2.0 * (double)ch_node_rows(node) * ch_graph_context(node->graph, true) *
         (double)(s->heads * (s->k_rank + s->v_rank) * (dim_of(node) + 1));
}

static const ch_op op = {.name = "factor_attend",
                         .shape = shape,
                         .scratch = scratch,
                         .forward = forward,
                         .flops = flops,
                         .reads_states = true};

ch_node *ch_op_factor_attend(ch_graph *graph, ch_node *q, ch_node *a_k, ch_node *b_k, ch_node *a_v,
                             ch_node *b_v, ch_node *document_start, const ch_factor_spec *spec) {
  return ch_graph_node(graph, &op, document_start ? 6 : 5,
                       (ch_node *[]){q, a_k, b_k, a_v, b_v, document_start}, spec, sizeof *spec);
}
