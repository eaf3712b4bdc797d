/* Talking-heads attention: heads are mixed at every (query, key) pair, before and after the softmax
 * (tensor/kernels/attention/talking.h). */
#include "graph/ops/attending.h"
#include "graph/ops/append.h"
#include "tensor/tile_producers.h"

/* Inputs: q, keys, values, then the others that exist. */
typedef struct talking {
  ch_attend_spec spec;                  /* must be the first member (ch_attend_spec_of) */
  int logit_mix, weight_mix, documents; /* indices of the inputs, or 0 */
} talking;

static ch_status check_mix(const ch_node *node, int input, const char *what, int64_t heads, ch_error *error) {
  const ch_node *mix = node->in[input];
  if (input == 0 || (mix->rank == 2 && mix->shape[0] == heads && mix->shape[1] == heads)) return CH_OK;
  char text[96];
  return ch_fail(error, CH_ERROR_CONFIG, "the mix of %s has shape %s; it must be [%lld, %lld]", what,
                 ch_shape_text(mix->rank, mix->shape, text, sizeof text), (long long)heads, (long long)heads);
}

static ch_status talking_attend_shape(ch_node *node, ch_error *error) {
  const talking *attributes = node->attributes;
  const ch_attend_spec *spec = &attributes->spec;
  if (spec->heads < 1 || spec->heads != spec->kv_heads)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld query heads need as many key-value heads, not %lld",
                   (long long)spec->heads, (long long)spec->kv_heads);
  for (int i = 1; i < 3; i++)
    if (node->in[i]->streamed && !node->in[i]->op->stateful)
      return ch_fail(error, CH_ERROR_CONFIG, "states are read as they are in the cache");
  const ch_head_columns *columns[] = {&spec->q_columns, &spec->key_columns, &spec->value_columns};
  for (int i = 0; i < 3; i++)
    if (columns[i]->offset || columns[i]->stride)
      return ch_fail(error, CH_ERROR_CONFIG, "heads that talk must be contiguous");
  if (ch_node_columns(node->in[0]) != spec->heads * spec->key_dim ||
      ch_node_columns(node->in[1]) != spec->heads * spec->key_dim ||
      ch_node_columns(node->in[2]) != spec->heads * spec->value_dim)
    return ch_fail(error, CH_ERROR_CONFIG, "queries, keys and values do not have heads * dim columns");
  CH_TRY(check_mix(node, attributes->logit_mix, "logits", spec->heads, error));
  CH_TRY(check_mix(node, attributes->weight_mix, "weights", spec->heads, error));
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), spec->heads * spec->value_dim);
}

static int64_t talking_attend_saved(const ch_node *node) {
  const talking *attributes = node->attributes;
  return ch_node_rows(node) * attributes->spec.heads; /* log-sum-exp */
}

/* Sets the sizes and the source of keys and values: this run, or the cache through the stream. */
static ch_status talking_attend_describe(const ch_run *run, const ch_node *node, ch_stream *stream,
                                         ch_attend *args) {
  const ch_attend_spec *spec = &((const talking *)node->attributes)->spec;
  *args = ch_attend_sizes(run, node, spec);
  args->producer = &ch_tile_producer_dense;
  if (!node->in[1]->streamed) return CH_OK;
  args->producer = &ch_tile_producer_stream;
  args->context = stream;
  return ch_stream_open(
      stream, run, &(ch_stream_end){.node = node->in[1], .stride = spec->key_dim, .dim = spec->key_dim},
      &(ch_stream_end){.node = node->in[2], .stride = spec->value_dim, .dim = spec->value_dim});
}

static void talking_attend_bind(const ch_run *run, const ch_node *node, ch_attend *args,
                                ch_head_mixes *mixes) {
  const talking *attributes = node->attributes;
  args->q = ch_run_value(run, node->in[0]);
  args->out = ch_run_output(run, node);
  args->lse = ch_run_saved(run, node);
  for (int i = 0; i < 2; i++) args->parts[i] = ch_states_of(run, node->in[1 + i]);
  if (node->in[1]->streamed) ch_attend_cached(run, node->in[1], args);
  if (attributes->documents) args->document_start = ch_run_value(run, node->in[attributes->documents]);
  args->scratch = ch_run_scratch(run);
  if (attributes->logit_mix) mixes->logits = ch_run_value(run, node->in[attributes->logit_mix]);
  if (attributes->weight_mix) mixes->weights = ch_run_value(run, node->in[attributes->weight_mix]);
}

static size_t talking_attend_scratch(const ch_run *run, const ch_node *node, bool backward) {
  ch_attend args;
  ch_stream stream;
  if (talking_attend_describe(run, node, &stream, &args) != CH_OK) return 0; /* the run reports why */
  return run->kernels->talking_scratch(&args, backward);
}

static ch_status talking_attend_forward(ch_run *run, const ch_node *node) {
  ch_attend args;
  ch_stream stream;
  CH_TRY(talking_attend_describe(run, node, &stream, &args));
  ch_head_mixes mixes = {NULL, NULL};
  talking_attend_bind(run, node, &args, &mixes);
  run->kernels->talking_forward(&args, &mixes);
  return CH_OK;
}

static ch_status talking_attend_backward(ch_run *run, const ch_node *node) {
  const talking *attributes = node->attributes;
  ch_attend args;
  ch_stream stream;
  CH_TRY(talking_attend_describe(run, node, &stream, &args));
  ch_head_mixes mixes = {NULL, NULL};
  talking_attend_bind(run, node, &args, &mixes);
  ch_attend_gradient gradient = {.dout = ch_run_output_gradient(run, node)};
  gradient.dq = ch_run_gradient(run, node, 0, &gradient.accumulate_q);
  gradient.dk = ch_run_gradient(run, node, 1, &gradient.accumulate_k);
  gradient.dv = ch_run_gradient(run, node, 2, &gradient.accumulate_v);
  ch_head_mixes_gradient to = {0};
  if (attributes->logit_mix)
    to.dlogits = ch_run_gradient(run, node, attributes->logit_mix, &to.accumulate_logits);
  if (attributes->weight_mix)
    to.dweights = ch_run_gradient(run, node, attributes->weight_mix, &to.accumulate_weights);
  run->kernels->talking_backward(&args, &gradient, &mixes, &to);
  return CH_OK;
}

/* Counts the products for scores and for weighted values, and the mixes of every pair. */
static double talking_attend_flops(const ch_node *node) {
  const talking *attributes = node->attributes;
  const ch_attend_spec *spec = &attributes->spec;
  double keys = ch_attend_context(node, spec);
  int64_t mixes = (attributes->logit_mix != 0) + (attributes->weight_mix != 0);
  return 2.0 * (double)ch_node_rows(node) * keys *
         (double)(spec->heads * (spec->key_dim + spec->value_dim + mixes * spec->heads));
}

static const ch_op op = {.name = "talking_attend",
                         .shape = talking_attend_shape,
                         .saved = talking_attend_saved,
                         .scratch = talking_attend_scratch,
                         .forward = talking_attend_forward,
                         .backward = talking_attend_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1) | CH_READS_INPUT(2) |
                                           CH_READS_INPUT(3) | CH_READS_INPUT(4) | CH_READS_OUTPUT,
                         .flops = talking_attend_flops,
                         .reads_states = true};

ch_node *ch_op_talking_attend(ch_graph *graph, ch_node *q, ch_node *keys, ch_node *values, ch_node *logit_mix,
                              ch_node *weight_mix, ch_node *document_start, const ch_attend_spec *spec) {
  talking attributes = {.logit_mix = 0};
  ch_node *in[6] = {q, keys, values};
  int inputs = 3;
  if (logit_mix) in[attributes.logit_mix = inputs++] = logit_mix;
  if (weight_mix) in[attributes.weight_mix = inputs++] = weight_mix;
  if (document_start) in[attributes.documents = inputs++] = document_start;
  if (!ch_attend_keep(graph, spec, &attributes.spec)) return NULL;
  return ch_graph_node(graph, &op, inputs, in, &attributes, sizeof attributes);
}
