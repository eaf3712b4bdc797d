/* Attention of single queries over gated latents in the cache, tokens of one id together
 * (tensor/gated_attend.h). Inference only. */
#include "graph/ops/append.h"
#include "graph/token_groups.h"

/* Inputs: q, latents, gates, kv_b, and with a norm also moments, weight, bias. */
enum { Q, LATENTS, GATES, KV_B, MOMENTS, WEIGHT, BIAS };

static ch_status gated_attend_shape(ch_node *node, ch_error *error) {
  const ch_gated_spec *s = node->attributes;
  int64_t width = s->heads * (s->nope + s->value);
  if (node->graph->length != 1 || !node->in[LATENTS]->streamed || !node->in[GATES]->streamed)
    return ch_fail(error, CH_ERROR_CONFIG, "needs one query per sequence and states in the cache");
  if (ch_node_columns(node->in[Q]) != s->heads * (s->nope + s->rope) ||
      ch_node_columns(node->in[LATENTS]) != s->latent + s->rope ||
      ch_node_columns(node->in[GATES]) != width || ch_node_count(node->in[KV_B]) != width * s->latent)
    return ch_fail(error, CH_ERROR_CONFIG, "queries, latents, gates and their matrix do not fit together");
  return ch_shape_matrix(node, ch_node_rows(node->in[Q]), s->heads * s->value);
}

static ch_gated_attend gated_attend_describe(const ch_run *run, const ch_node *node) {
  const ch_gated_spec *s = node->attributes;
  return (ch_gated_attend){.team = run->team,
                           .sequences = node->graph->sequences,
                           .heads = s->heads,
                           .latent = s->latent,
                           .rope = s->rope,
                           .nope = s->nope,
                           .value = s->value,
                           .scale = s->scale,
                           .slopes = s->slopes};
}

static size_t gated_attend_scratch(const ch_run *run, const ch_node *node, bool backward) {
  (void)backward;
  ch_gated_attend args = gated_attend_describe(run, node);
  return run->kernels->gated_attend_scratch(&args);
}

static ch_status gated_attend_forward(ch_run *run, const ch_node *node) {
  ch_gated_attend args = gated_attend_describe(run, node);
  args.q = ch_run_value(run, node->in[Q]);
  args.out = ch_run_output(run, node);
  args.kv_b = ch_run_value(run, node->in[KV_B]);
  args.kv_b_dtype = ch_run_dtype(run, node->in[KV_B]);
  args.latents = ch_states_of(run, node->in[LATENTS]);
  args.gates = ch_states_of(run, node->in[GATES]);
  args.groups = ch_token_groups_of(run->groups);
  args.scratch = ch_run_scratch(run);
  if (node->inputs > MOMENTS) {
    args.moments = ch_states_of(run, node->in[MOMENTS]);
    args.gamma = ch_run_value(run, node->in[WEIGHT]);
    args.beta = ch_run_value(run, node->in[BIAS]);
  }
  run->kernels->gated_attend(&args);
  return CH_OK;
}

/* Counts a product with a folded query [c + r] and a sum [c] for every token. Counts folding the query and
   unfolding its sum for every id, and assumes as many different ids as possible. */
static double gated_attend_flops(const ch_node *node) {
  const ch_gated_spec *s = node->attributes;
  double tokens = ch_graph_context(node->graph, true);
  double ids = tokens < (double)s->ids ? tokens : (double)s->ids;
  return 2.0 * (double)(ch_node_rows(node) * s->heads) *
         (tokens * (double)(2 * s->latent + s->rope) + ids * (double)(s->latent * (s->nope + s->value)));
}

static const ch_op op = {.name = "gated_attend",
                         .shape = gated_attend_shape,
                         .scratch = gated_attend_scratch,
                         .forward = gated_attend_forward,
                         .flops = gated_attend_flops,
                         .reads_states = true};

ch_node *ch_op_gated_attend(ch_graph *graph, ch_node *q, ch_node *latents, ch_node *gates, ch_node *kv_b,
                            ch_node *moments, ch_node *weight, ch_node *bias, const ch_gated_spec *spec) {
  ch_node *in[] = {q, latents, gates, kv_b, moments, weight, bias};
  return ch_graph_node(graph, &op, moments ? 7 : 4, in, spec, sizeof *spec);
}
