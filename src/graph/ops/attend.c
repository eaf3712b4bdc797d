/* Softmax attention over states, in the streaming loop of tensor/attend.h. */
#include "graph/ops/remember.h"
#include "tensor/tile_producers.h"

typedef struct attend {
  ch_attend_spec spec;
  bool documents;
} attend;

static ch_status shape(ch_node *node, ch_error *error) {
  const attend *attributes = node->attributes;
  const ch_attend_spec *spec = &attributes->spec;
  if (spec->heads < 1 || spec->kv_heads < 1 || spec->heads % spec->kv_heads != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld query heads cannot share %lld key-value heads evenly",
                   (long long)spec->heads, (long long)spec->kv_heads);
  if (ch_node_columns(node->in[0]) != spec->heads * spec->key_dim ||
      ch_node_columns(node->in[1]) != spec->kv_heads * spec->key_dim ||
      ch_node_columns(node->in[2]) != spec->kv_heads * spec->value_dim)
    return ch_fail(error, CH_ERROR_CONFIG, "queries, keys and values do not have heads * dim columns");
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), spec->heads * spec->value_dim);
}

static int64_t saved(const ch_node *node) {
  const attend *attributes = node->attributes;
  return ch_node_rows(node) * attributes->spec.heads; /* log-sum-exp */
}

static ch_attend describe(const ch_node *node) {
  const attend *attributes = node->attributes;
  const ch_attend_spec *spec = &attributes->spec;
  return (ch_attend){.sequences = node->graph->sequences,
                     .queries = node->graph->length,
                     .heads = spec->heads,
                     .kv_heads = spec->kv_heads,
                     .key_dim = spec->key_dim,
                     .value_dim = spec->value_dim,
                     .scale = spec->scale,
                     .slopes = spec->slopes,
                     .causal = spec->causal};
}

static void bind(const ch_run *run, const ch_node *node, ch_attend *args) {
  const attend *attributes = node->attributes;
  args->q = ch_run_value(run, node->in[0]);
  args->out = ch_run_output(run, node);
  args->lse = ch_run_saved(run, node);
  args->parts[0] = ch_states_of(run, node->in[1]);
  args->parts[1] = ch_states_of(run, node->in[2]);
  args->producer = ch_tile_producer_for(run->kernels, args->parts[0].dtype, args->parts[1].dtype);
  if (ch_is_remembered(node->in[1])) args->past = run->cache->length;
  if (attributes->documents) args->document_start = ch_run_value(run, node->in[3]);
  args->scratch = ch_run_scratch(run);
}

static size_t scratch(const ch_run *run, const ch_node *node, bool backward) {
  ch_attend args = describe(node);
  /* The cache's element type is known only at run time: room for tiles of any type. */
  args.producer = ch_tile_producer_for(run->kernels, CH_BF16, CH_BF16);
  return run->kernels->attend_scratch(&args, backward);
}

static ch_status forward(ch_run *run, const ch_node *node) {
  ch_attend args = describe(node);
  bind(run, node, &args);
  run->kernels->attend_forward(&args);
  return CH_OK;
}

static ch_status backward(ch_run *run, const ch_node *node) {
  ch_attend args = describe(node);
  bind(run, node, &args);
  ch_attend_gradient gradient = {.dout = ch_run_output_gradient(run, node)};
  gradient.dq = ch_run_gradient(run, node, 0, &gradient.accumulate_q);
  gradient.dk = ch_run_gradient(run, node, 1, &gradient.accumulate_k);
  gradient.dv = ch_run_gradient(run, node, 2, &gradient.accumulate_v);
  run->kernels->attend_backward(&args, &gradient);
  return CH_OK;
}

/* Scores and weighted values; a causal training pass over T tokens meets (T + 1) / 2 keys a query on average. */
static double flops(const ch_node *node) {
  const attend *attributes = node->attributes;
  const ch_attend_spec *spec = &attributes->spec;
  double length = (double)node->graph->length;
  double keys = spec->causal ? (length + 1) / 2 : length;
  return 2.0 * (double)ch_node_rows(node) * keys * (double)(spec->heads * (spec->key_dim + spec->value_dim));
}

static const ch_op op = {.name = "attend",
                         .shape = shape,
                         .saved = saved,
                         .scratch = scratch,
                         .forward = forward,
                         .backward = backward,
                         .backward_reads =
                             CH_READS_INPUT(0) | CH_READS_INPUT(1) | CH_READS_INPUT(2) | CH_READS_OUTPUT,
                         .flops = flops};

ch_node *ch_op_attend(ch_graph *graph, ch_node *q, ch_node *keys, ch_node *values, ch_node *document_start,
                      const ch_attend_spec *spec) {
  attend attributes = {.spec = *spec, .documents = document_start != NULL};
  if (spec->slopes) {
    double *slopes = ch_arena_alloc(&graph->arena, (size_t)spec->heads * sizeof *slopes);
    if (!slopes) return ch_graph_fail(graph, "no memory for ALiBi slopes");
    for (int64_t h = 0; h < spec->heads; h++) slopes[h] = spec->slopes[h];
    attributes.spec.slopes = slopes;
  }
  return ch_graph_node(graph, &op, document_start ? 4 : 3, (ch_node *[]){q, keys, values, document_start},
                       &attributes, sizeof attributes);
}
