/* Attention of few queries over factors of keys and values in the cache (tensor/factor_attend.h). Inference
 * only. */
#include <string.h>

#include "graph/ops/append.h"
#include "graph/ops/attending.h"

enum { Q, FACTORS, BEHIND = FACTORS + CH_FACTORS };

typedef struct factor {
  ch_factor_spec spec;
  int documents, sinks; /* indices of the inputs, or 0 */
} factor;

static const ch_factor_spec *spec_of(const ch_node *node) {
  return &((const factor *)node->attributes)->spec;
}

static int64_t dim_of(const ch_node *node) {
  return ch_node_columns(node->in[Q]) / spec_of(node)->heads;
}

static ch_status factor_attend_shape(ch_node *node, ch_error *error) {
  const ch_factor_spec *s = spec_of(node);
  int64_t dim = dim_of(node),
          widths[CH_FACTORS] = {s->heads * s->k_rank, s->k_rank * dim, s->heads * s->v_rank, s->v_rank * dim};
  for (int i = 0; i < CH_FACTORS; i++)
    if (!node->in[FACTORS + i]->streamed || !node->in[FACTORS + i]->op->stateful ||
        ch_node_columns(node->in[FACTORS + i]) != widths[i])
      return ch_fail(error, CH_ERROR_CONFIG, "factor %d of %lld elements must be in the cache", i,
                     (long long)widths[i]);
  return ch_shape_as_input(node, Q);
}

static ch_factor_attend factor_attend_describe(const ch_run *run, const ch_node *node) {
  const ch_factor_spec *s = spec_of(node);
  return (ch_factor_attend){.team = run->team,
                            .sequences = node->graph->sequences,
                            .queries = node->graph->length,
                            .heads = s->heads,
                            .dim = dim_of(node),
                            .k_rank = s->k_rank,
                            .v_rank = s->v_rank,
                            .scale = s->scale,
                            .soft_cap = s->soft_cap,
                            .slopes = s->slopes,
                            .window = s->window,
                            .sinks = s->sinks};
}

static size_t factor_attend_scratch(const ch_run *run, const ch_node *node, bool backward) {
  (void)backward;
  ch_factor_attend args = factor_attend_describe(run, node);
  return run->kernels->factor_attend_scratch(&args);
}

static ch_status factor_attend_forward(ch_run *run, const ch_node *node) {
  ch_factor_attend args = factor_attend_describe(run, node);
  args.q = ch_run_value(run, node->in[Q]);
  args.out = ch_run_output(run, node);
  const factor *attributes = node->attributes;
  ch_attend seen = {.window = args.window, .sinks = args.sinks, .queries = args.queries};
  ch_attend_cached(run, node->in[FACTORS], &seen);
  args.window = seen.window;
  args.sinks = seen.sinks;
  args.past = seen.past;
  args.places = seen.places;
  args.first_token = seen.first_token;
  if (attributes->documents) args.document_start = ch_run_value(run, node->in[attributes->documents]);
  if (attributes->sinks) args.sink_logits = ch_run_value(run, node->in[attributes->sinks]);
  for (int i = 0; i < CH_FACTORS; i++) args.factor[i] = ch_states_of(run, node->in[FACTORS + i]);
  args.scratch = ch_run_scratch(run);
  run->kernels->factor_attend(&args);
  return CH_OK;
}

static double factor_attend_flops(const ch_node *node) {
  const ch_factor_spec *s = spec_of(node);
  return 2.0 * (double)ch_node_rows(node) *
         ch_graph_context_within(node->graph, true, s->window ? s->window + s->sinks : 0) *
         (double)(s->heads * (s->k_rank + s->v_rank) * (dim_of(node) + 1));
}

static const ch_op op = {.name = "factor_attend",
                         .shape = factor_attend_shape,
                         .scratch = factor_attend_scratch,
                         .forward = factor_attend_forward,
                         .flops = factor_attend_flops,
                         .reads_states = true};

ch_node *ch_op_factor_attend(ch_graph *graph, ch_node *q, ch_node *a_k, ch_node *b_k, ch_node *a_v,
                             ch_node *b_v, ch_node *document_start, ch_node *sinks,
                             const ch_factor_spec *spec) {
  factor attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.spec = *spec;
  ch_node *in[BEHIND + 2] = {q, a_k, b_k, a_v, b_v};
  int inputs = BEHIND;
  if (document_start) in[attributes.documents = inputs++] = document_start;
  if (sinks) in[attributes.sinks = inputs++] = sinks;
  return ch_graph_node(graph, &op, inputs, in, &attributes, sizeof attributes);
}
