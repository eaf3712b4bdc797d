/* Softmax attention over states, in the streaming loop of tensor/attend.h. */
#include "graph/ops/attending.h"

#include <string.h>

#include "graph/ops/append.h"
#include "graph/stream.h"
#include "tensor/tile_producers.h"

typedef struct attend {
  ch_attend_spec spec;  /* must be the first member (ch_attend_spec_of) */
  int documents, sinks; /* indices of the inputs, or 0 */
} attend;

/* One of the three operands. */
typedef struct operand {
  int64_t heads, dim, offset, stride;
  bool wider; /* true if the node may have other columns too */
  bool one;   /* true if all heads have the same columns; the stride is 0 */
} operand;

static operand operand_of(const ch_attend_spec *spec, int input) {
  const ch_head_columns *columns[] = {&spec->q_columns, &spec->key_columns, &spec->value_columns};
  operand o = {.heads = input == 0 ? spec->heads : spec->kv_heads,
               .dim = input == 2 ? spec->value_dim : spec->key_dim,
               .offset = columns[input]->offset,
               .stride = columns[input]->stride,
               .one = (input == 1 && spec->one_key) || (input == 2 && spec->one_value)};
  o.wider = o.offset > 0 || o.stride > 0;
  if (o.stride <= 0) o.stride = o.dim;
  if (o.one) o.stride = 0;
  return o;
}

/* Returns true if a head of one operand shares columns with a head of another operand. If `own_may`, ignores two heads
   with the same index that begin at the same column. */
static bool overlap(const operand *a, const operand *b, bool own_may) {
  for (int64_t i = 0; i < a->heads; i++)
    for (int64_t j = 0; j < b->heads; j++) {
      int64_t of_a = a->offset + i * a->stride, of_b = b->offset + j * b->stride;
      if (own_may && i == j && of_a == of_b) continue;
      if (of_a < of_b + b->dim && of_b < of_a + a->dim) return true;
    }
  return false;
}

static ch_status check_columns(const ch_node *node, const ch_attend_spec *spec, ch_error *error) {
  static const char *const names[] = {"queries", "keys", "values"};
  for (int i = 0; i < 3; i++) {
    operand o = operand_of(spec, i);
    int64_t end = o.offset + (o.heads - 1) * o.stride + o.dim, columns = ch_node_columns(node->in[i]);
    if (o.one && !node->in[i]->streamed)
      return ch_fail(error, CH_ERROR_CONFIG, "attend: %s that all heads share must come from the cache",
                     names[i]);
    if (o.offset < 0 || (!o.one && o.stride < o.dim) || end > columns || (!o.wider && end < columns))
      return ch_fail(error, CH_ERROR_CONFIG,
                     "attend: %lld %s of %lld from column %lld, %lld apart, do not fit %lld columns",
                     (long long)o.heads, names[i], (long long)o.dim, (long long)o.offset, (long long)o.stride,
                     (long long)columns);
    for (int j = 0; j < i; j++) {
      operand other = operand_of(spec, j);
      if (node->in[i] == node->in[j] && overlap(&other, &o, j == 1))
        return ch_fail(error, CH_ERROR_CONFIG, "attend: %s and %s share columns of one node", names[j],
                       names[i]);
    }
  }
  return CH_OK;
}

static ch_status attend_shape(ch_node *node, ch_error *error) {
  const attend *attributes = node->attributes;
  const ch_attend_spec *spec = &attributes->spec;
  if (spec->heads < 1 || spec->kv_heads < 1 || spec->heads % spec->kv_heads != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "%lld query heads cannot share %lld key-value heads evenly",
                   (long long)spec->heads, (long long)spec->kv_heads);
  if (node->in[1]->streamed != node->in[2]->streamed)
    return ch_fail(error, CH_ERROR_CONFIG, "keys and values must both come from the cache or neither");
  CH_TRY(check_columns(node, spec, error));
  if (attributes->sinks && spec->heads % ch_node_count(node->in[attributes->sinks]) != 0)
    return ch_fail(error, CH_ERROR_CONFIG, "attend: %lld sinks cannot serve %lld heads evenly",
                   (long long)ch_node_count(node->in[attributes->sinks]), (long long)spec->heads);
  return ch_shape_matrix(node, ch_node_rows(node->in[0]), spec->heads * spec->value_dim);
}

static int64_t attend_saved(const ch_node *node) {
  const attend *attributes = node->attributes;
  return ch_node_rows(node) * attributes->spec.heads; /* log-sum-exp */
}

ch_attend ch_attend_sizes(const ch_run *run, const ch_node *node, const ch_attend_spec *spec) {
  return (ch_attend){.team = run->team,
                     .sequences = node->graph->sequences,
                     .queries = node->graph->length,
                     .heads = spec->heads,
                     .kv_heads = spec->kv_heads,
                     .key_dim = spec->key_dim,
                     .value_dim = spec->value_dim,
                     .scale = spec->scale,
                     .soft_cap = spec->soft_cap,
                     .slopes = spec->slopes,
                     .causal = spec->causal,
                     .window = spec->window,
                     .sinks = spec->sinks,
                     .may_round = node->graph->compute == CH_BF16};
}

/* Describes the keys in the cache. A single query sees all rows of a ring, whose tokens may have any
   order. */
void ch_attend_cached(const ch_run *run, const ch_node *keys, ch_attend *args) {
  const ch_append *place = ch_append_behind(keys);
  args->past = run->cache->length;
  if (!place || !place->window) return;
  args->past = run->cache->rows_before;
  args->places = run->cache->places;
  args->first_token = run->cache->length;
  if (args->queries == 1) args->window = args->sinks = 0;
}

bool ch_attend_keep(ch_graph *graph, const ch_attend_spec *spec, ch_attend_spec *kept) {
  *kept = *spec;
  if (!spec->slopes) return true;
  double *slopes = ch_arena_alloc(&graph->arena, (size_t)spec->heads * sizeof *slopes);
  if (slopes)
    memcpy(slopes, spec->slopes, (size_t)spec->heads * sizeof *slopes);
  else
    ch_graph_no_memory(graph);
  kept->slopes = slopes;
  return slopes != NULL;
}

static ch_attend attend_describe(const ch_run *run, const ch_node *node) {
  const attend *attributes = node->attributes;
  return ch_attend_sizes(run, node, &attributes->spec);
}

static ch_state_view attend_part_of(const ch_run *run, const ch_node *node, int input) {
  const attend *attributes = node->attributes;
  operand o = operand_of(&attributes->spec, input);
  ch_state_view view = ch_states_of(run, node->in[input]);
  view.data = (const char *)view.data + (size_t)o.offset * ch_dtype_size(view.dtype);
  view.head_stride = o.stride;
  return view;
}

/* Chooses the source of keys and values: this run, or the cache through the stream. */
static ch_status choose_producer(const ch_run *run, const ch_node *node, ch_attend *args, ch_stream *stream) {
  const attend *attributes = node->attributes;
  args->producer = &ch_tile_producer_dense;
  if (!node->in[1]->streamed) return CH_OK;
  operand keys = operand_of(&attributes->spec, 1), values = operand_of(&attributes->spec, 2);
  args->producer = &ch_tile_producer_stream;
  args->context = stream;
  return ch_stream_open(stream, run, &(ch_stream_end){node->in[1], keys.offset, keys.stride, keys.dim},
                        &(ch_stream_end){node->in[2], values.offset, values.stride, values.dim});
}

/* Returns the bytes of log-sum-exps in scratch, which sinks need if no backward pass saves them. */
static size_t lse_bytes(const ch_run *run, const ch_attend *args) {
  return ((size_t)(args->sequences * args->heads * args->queries) * ch_dtype_size(run->kernels->dtype) + 63) &
         ~(size_t)63;
}

static void attend_bind(const ch_run *run, const ch_node *node, const ch_stream *stream, ch_attend *args) {
  const attend *attributes = node->attributes;
  operand q = operand_of(&attributes->spec, 0);
  args->q = (const char *)ch_run_value(run, node->in[0]) + (size_t)q.offset * ch_dtype_size(node->dtype);
  args->q_strides = (ch_head_strides){q.stride, ch_node_columns(node->in[0])};
  args->out = ch_run_output(run, node);
  args->lse = ch_run_saved(run, node);
  if (node->in[1]->streamed) {
    ch_attend_cached(run, node->in[1], args);
    ch_stream_parts(stream, args->parts);
  } else
    for (int i = 0; i < 2; i++) args->parts[i] = attend_part_of(run, node, 1 + i);
  if (attributes->documents) args->document_start = ch_run_value(run, node->in[attributes->documents]);
  args->scratch = ch_run_scratch(run);
  if (!attributes->sinks || args->lse) return;
  args->lse = args->scratch;
  args->scratch = (char *)args->scratch + lse_bytes(run, args);
}

/* --- many queries with tiles that cost products --------------------------------------------------------- */

/* From MANY_QUERIES queries per key-value head on, tiles are laid out once for all queries: up to LAID_TOKENS
   tokens at a time, in about LAID_ELEMENTS elements. */
enum { MANY_QUERIES = 65, LAID_TOKENS = 512, LAID_ELEMENTS = 4 << 20 };

/* Returns the number of tokens whose tiles are laid out at once, or 0 if each block of queries produces its own
   tiles. */
static int64_t laid_tokens(const ch_attend *args, const ch_stream *stream) {
  if (args->producer != &ch_tile_producer_stream || ch_stream_flops(stream) == 0) return 0;
  if (args->queries * (args->heads / args->kv_heads) < MANY_QUERIES) return 0;
  int64_t tokens = LAID_TOKENS;
  while (tokens > CH_ATTEND_BLOCK && ch_stream_laid_elements(stream, args->kv_heads, tokens) > LAID_ELEMENTS)
    tokens /= 2;
  return tokens;
}

/* Returns the arguments for one of the sequences. */
static ch_attend alone(const ch_attend *args, const ch_kernels *kernels, int64_t sequence) {
  const size_t element = ch_dtype_size(kernels->dtype);
  const int64_t row = sequence * args->queries;
  ch_attend one = *args;
  one.sequences = 1;
  one.q = (const char *)args->q + (size_t)(row * args->q_strides.token) * element;
  one.out = (char *)args->out + (size_t)(row * args->heads * args->value_dim) * element;
  if (args->past) one.past = args->past + sequence;
  if (args->document_start) one.document_start = args->document_start + row;
  return one;
}

/* The scratch memory of laying out: log-sum-exps, which last from one span of tokens to the next, the tiles, and
   attention's own scratch. */
typedef struct laid_space {
  /* tiles: offset of the tiles; own: offset of attention's scratch; bytes: size of all */
  size_t tiles, own, bytes;
} laid_space;

static laid_space space_of(const ch_run *run, const ch_attend *args, const ch_stream *stream,
                           int64_t tokens) {
  const size_t element = ch_dtype_size(run->kernels->dtype), line = 63;
  ch_attend one = *args;
  one.sequences = 1;
  one.producer = &ch_tile_producer_laid;
  laid_space space = {.tiles = ((size_t)(args->queries * args->heads) * element + line) & ~line};
  space.own = space.tiles + (size_t)ch_stream_laid_elements(stream, args->kv_heads, tokens) * element;
  space.bytes = space.own + run->kernels->attend_scratch(&one, false);
  return space;
}

/* Attends a sequence over spans of tokens, one after the other. */
static ch_status attend_laid(const ch_run *run, const ch_attend *args, const ch_stream *stream,
                             int64_t sequence, int64_t tokens) {
  const laid_space space = space_of(run, args, stream, tokens);
  const int64_t end = (args->past ? args->past[sequence] : 0) + args->queries;
  char *scratch = args->scratch;
  ch_laid_tiles laid;
  ch_attend one = alone(args, run->kernels, sequence);
  one.producer = &ch_tile_producer_laid;
  one.context = &laid;
  one.lse = scratch;
  if (args->lse)
    one.lse = (char *)args->lse +
              (size_t)(sequence * args->heads * args->queries) * ch_dtype_size(run->kernels->dtype);
  one.scratch = scratch + space.own;
  for (int64_t first = 0; first < end; first += tokens) {
    one.first_key = first;
    one.end_key = end - first < tokens ? end : first + tokens;
    one.continues = first > 0;
    const ch_tile_span span = {sequence, 0, args->kv_heads, first, one.end_key - first};
    CH_TRY(ch_stream_lay(stream, &span, scratch + space.tiles, &laid));
    run->kernels->attend_forward(&one);
  }
  return CH_OK;
}

static size_t attend_scratch(const ch_run *run, const ch_node *node, bool backward) {
  ch_attend args = attend_describe(run, node);
  ch_stream stream;
  if (choose_producer(run, node, &args, &stream) != CH_OK) return 0; /* the run reports why */
  const attend *attributes = node->attributes;
  const size_t lse = attributes->sinks ? lse_bytes(run, &args) : 0;
  int64_t tokens = laid_tokens(&args, &stream);
  if (tokens > 0) return lse + space_of(run, &args, &stream, tokens).bytes;
  return lse + run->kernels->attend_scratch(&args, backward);
}

static ch_status attend_forward(ch_run *run, const ch_node *node) {
  ch_attend args = attend_describe(run, node);
  ch_stream stream;
  CH_TRY(choose_producer(run, node, &args, &stream));
  attend_bind(run, node, &stream, &args);
  int64_t tokens = laid_tokens(&args, &stream);
  for (int64_t s = 0; tokens > 0 && s < args.sequences; s++)
    CH_TRY(attend_laid(run, &args, &stream, s, tokens));
  if (tokens == 0) run->kernels->attend_forward(&args);
  const attend *attributes = node->attributes;
  if (attributes->sinks)
    run->kernels->attend_sinks(&args, ch_node_count(node->in[attributes->sinks]),
                               ch_run_value(run, node->in[attributes->sinks]));
  return CH_OK;
}

/* Returns the address of an operand's gradient. If the gradient has columns outside the operand, or shared with
   another operand, it is zeroed before the first addition. */
static void *gradient_of(const ch_run *run, const ch_node *node, int input, bool *accumulate) {
  const attend *attributes = node->attributes;
  operand o = operand_of(&attributes->spec, input);
  char *gradient = ch_run_gradient(run, node, input, accumulate);
  if (!gradient) return NULL;
  if (!*accumulate && (o.wider || node->in[1] == node->in[2])) {
    run->kernels->fill(run->team, ch_node_count(node->in[input]), 0, gradient);
    *accumulate = true;
  }
  return gradient + (size_t)o.offset * ch_dtype_size(node->dtype);
}

static ch_status attend_backward(ch_run *run, const ch_node *node) {
  ch_attend args = attend_describe(run, node);
  ch_stream stream;
  CH_TRY(choose_producer(run, node, &args, &stream));
  attend_bind(run, node, &stream, &args);
  ch_attend_gradient gradient = {.dout = ch_run_output_gradient(run, node)};
  gradient.dq = gradient_of(run, node, 0, &gradient.accumulate_q);
  gradient.dk = gradient_of(run, node, 1, &gradient.accumulate_k);
  gradient.dv = gradient_of(run, node, 2, &gradient.accumulate_v);
  run->kernels->attend_backward(&args, &gradient);
  const attend *attributes = node->attributes;
  bool accumulate;
  void *dsinks = attributes->sinks ? ch_run_gradient(run, node, attributes->sinks, &accumulate) : NULL;
  if (dsinks)
    run->kernels->attend_sinks_backward(&args, gradient.dout, ch_node_count(node->in[attributes->sinks]),
                                        ch_run_value(run, node->in[attributes->sinks]), dsinks, accumulate);
  return CH_OK;
}

double ch_attend_context(const ch_node *node, const ch_attend_spec *spec) {
  return ch_graph_context_within(node->graph, spec->causal, spec->window ? spec->window + spec->sinks : 0);
}

/* Counts the products for scores and for weighted values. */
static double attend_flops(const ch_node *node) {
  const attend *attributes = node->attributes;
  const ch_attend_spec *spec = &attributes->spec;
  return 2.0 * (double)ch_node_rows(node) * ch_attend_context(node, spec) *
         (double)(spec->heads * (spec->key_dim + spec->value_dim));
}

static const ch_op op = {.name = "attend",
                         .shape = attend_shape,
                         .saved = attend_saved,
                         .scratch = attend_scratch,
                         .forward = attend_forward,
                         .backward = attend_backward,
                         .backward_reads = CH_READS_INPUT(0) | CH_READS_INPUT(1) | CH_READS_INPUT(2) |
                                           CH_READS_INPUT(3) | CH_READS_INPUT(4) | CH_READS_OUTPUT,
                         .flops = attend_flops,
                         .reads_states = true};

ch_node *ch_op_attend(ch_graph *graph, ch_node *q, ch_node *keys, ch_node *values, ch_node *document_start,
                      ch_node *sinks, const ch_attend_spec *spec) {
  attend attributes;
  memset(&attributes, 0, sizeof attributes);
  ch_node *in[5] = {q, keys, values};
  int inputs = 3;
  if (document_start) in[attributes.documents = inputs++] = document_start;
  if (sinks) in[attributes.sinks = inputs++] = sinks;
  if (!ch_attend_keep(graph, spec, &attributes.spec)) return NULL;
  return ch_graph_node(graph, &op, inputs, in, &attributes, sizeof attributes);
}

const ch_attend_spec *ch_attend_spec_of(const ch_node *node) {
  bool attends =
      node->kind == CH_NODE_OP && (node->op == &op || strcmp(node->op->name, "talking_attend") == 0);
  return attends ? (const ch_attend_spec *)node->attributes : NULL;
}
