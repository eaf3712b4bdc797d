/* Helpers of the attention tests: random cases, and naive attention in double. */
#ifndef TESTS_TENSOR_ATTEND_TESTING_H
#define TESTS_TENSOR_ATTEND_TESTING_H

#include "tensor/kernel_testing.h"
#include "tensor/tile_producers.h"
#include "team_testing.h"

typedef struct attend_case {
  int64_t sequences, queries, heads, kv_heads, key_dim, value_dim;
  int64_t past; /* tokens before the first query in sequence 0; other sequences have at most as many */
  bool causal, alibi, documents;
  /* types of keys and values; CH_F64: the table's own. If they are block-quantised, heads, the gaps between them and
     `extra` are whole blocks (blocks_producer). */
  ch_dtype state_type[2];
  int64_t extra;    /* elements between the states of two tokens, and between two sequences */
  int64_t apart[3]; /* elements between two heads of queries, keys, values */
  bool shared;      /* true if values are the first elements of the keys; needs value_dim <= key_dim */
  bool produced;    /* true if tiles are written into scratch (copying_producer) */
  int64_t tail;     /* elements of keys that are in a separate tile (splitting_producer) */
  bool may_round;   /* true if products may round their factors; inputs are then exact in BF16 */
  double soft_cap;  /* soft cap of scores; 0: none */
  double q_scale;   /* standard deviation of the queries; large ones make the softmax sharp; 0: 1 */
} attend_case;

/* A case's tensors, in double. Their values are exact in F32; states are exact in their own type. */
typedef struct attend_data {
  attend_case shape;
  int64_t tokens; /* maximum tokens of a sequence */
  int64_t q_size, out_size, lse_size, state_size[2], token_stride[2], sequence_stride[2];
  int64_t q_head, q_token, head_stride[2];
  double *q, *state[2];
  void *blocks[2]; /* block-quantised states, or NULL */
  int32_t *past, *document_start;
  double *slopes;
  double scale;
  /* expected values, and their allowed errors in units of the table's eps */
  double *out, *lse, *out_bound, *lse_bound;
  /* additional errors if all queries and weights are rounded, in units of their relative rounding error */
  double *out_rounding, *lse_rounding;
} attend_data;

static inline int64_t pick(ch_random *random, int64_t lowest, int64_t highest) {
  return lowest + (int64_t)ch_random_below(random, (uint64_t)(highest - lowest + 1));
}

static inline bool is_block_quantised(ch_dtype type) {
  return type == CH_Q8_0 || type == CH_Q4_0;
}

/* Packs n values into blocks, and replaces the values by those of the blocks. */
static inline void *pack_blocks(ch_dtype type, int64_t n, double *values) {
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  void *blocks = malloc(ch_dtype_bytes(type, n));
  assert_non_null(blocks);
  kernels->pack_states(all_threads(), 1, n, values, type, blocks);
  kernels->unpack_states(1, n, blocks, 0, type, values);
  return blocks;
}

/* Returns `value` rounded to the type. For CH_F64 it is rounded to F32. */
static inline double as_stored(ch_dtype type, double value) {
  if (type == CH_F64 || type == CH_F32) return (float)value;
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  uint16_t half;
  kernels->convert_to(all_threads(), 1, &value, type, &half);
  kernels->convert_from(all_threads(), 1, &half, type, &value);
  return value;
}

/* query_at returns the index of the first element of a head's query. state_at returns the index of
   the first element of a head's key (part 0) or value (part 1). */
static inline int64_t query_at(const attend_data *d, int64_t s, int64_t i, int64_t h) {
  return (s * d->shape.queries + i) * d->q_token + h * d->q_head;
}

static inline int64_t state_at(const attend_data *d, int part, int64_t s, int64_t j, int64_t g) {
  return s * d->sequence_stride[part] + j * d->token_stride[part] + g * d->head_stride[part];
}

static inline double score_of(const attend_data *d, int64_t s, int64_t i, int64_t h, int64_t j,
                              double *size) {
  const attend_case *c = &d->shape;
  int64_t g = h * c->kv_heads / c->heads;
  const double *q = d->q + query_at(d, s, i, h), *k = d->state[0] + state_at(d, 0, s, j, g);
  double sum = 0, magnitude = 0;
  for (int64_t e = 0; e < c->key_dim; e++) {
    sum += q[e] * k[e];
    magnitude += fabs(q[e] * k[e]);
  }
  sum *= d->scale;
  if (c->soft_cap > 0) sum = c->soft_cap * tanh(sum / c->soft_cap);
  double bias = d->slopes ? -d->slopes[h] * (double)(d->past[s] + i - j) : 0;
  if (size) *size = magnitude * d->scale + fabs(bias);
  return sum + bias;
}

static inline bool sees(const attend_data *d, int64_t s, int64_t i, int64_t j) {
  const attend_case *c = &d->shape;
  int64_t end = d->past[s] + (c->causal ? i + 1 : c->queries);
  int64_t first = d->document_start ? d->document_start[s * c->queries + i] : 0;
  return j >= first && j < end;
}

static inline void expect_forward(attend_data *d) {
  const attend_case *c = &d->shape;
  double *p = zeros(d->tokens);
  for (int64_t s = 0; s < c->sequences; s++)
    for (int64_t i = 0; i < c->queries; i++)
      for (int64_t h = 0; h < c->heads; h++) {
        int64_t end = d->past[s] + c->queries, g = h * c->kv_heads / c->heads;
        double max = -INFINITY, sum = 0, largest = 0;
        for (int64_t j = 0; j < end; j++) {
          double size = 0;
          p[j] = sees(d, s, i, j) ? score_of(d, s, i, h, j, &size) : -INFINITY;
          if (p[j] > max) max = p[j];
          if (size > largest) largest = size;
        }
        for (int64_t j = 0; j < end; j++) {
          p[j] = p[j] == -INFINITY ? 0 : exp(p[j] - max);
          sum += p[j];
        }
        /* The error of a score is the relative error of its weight. The last term is the error of sums. */
        double error = 2 * largest * (2 + sqrt((double)c->key_dim)) + 16 + sqrt((double)end);
        int64_t row = (s * c->queries + i) * c->heads + h, lse = (s * c->heads + h) * c->queries + i;
        d->lse[lse] = sum == 0 ? -INFINITY : max + log(sum);
        d->lse_bound[lse] = error + fabs(max);
        d->lse_rounding[lse] = c->may_round ? 0 : largest;
        for (int64_t e = 0; e < c->value_dim; e++) {
          double total = 0, magnitude = 0;
          for (int64_t j = 0; j < end; j++) {
            double v = d->state[1][state_at(d, 1, s, j, g) + e];
            if (p[j] == 0) continue;
            total += p[j] / sum * v;
            magnitude += p[j] / sum * fabs(v);
          }
          d->out[row * c->value_dim + e] = total;
          d->out_bound[row * c->value_dim + e] = error * magnitude;
          d->out_rounding[row * c->value_dim + e] = (c->may_round ? 1 : 2 * largest + 1) * magnitude;
        }
      }
  free(p);
}

static inline void choose_masks(ch_random *random, attend_data *d) {
  const attend_case *c = &d->shape;
  d->past = calloc((size_t)c->sequences, sizeof *d->past);
  for (int64_t s = 0; s < c->sequences; s++)
    d->past[s] = s == 0 ? (int32_t)c->past : (int32_t)pick(random, 0, c->past);
  if (c->documents) {
    d->document_start = calloc((size_t)(c->sequences * c->queries), sizeof *d->document_start);
    for (int64_t s = 0; s < c->sequences; s++) {
      int32_t start = (int32_t)pick(random, 0, d->past[s]);
      for (int64_t i = 0; i < c->queries; i++) {
        if (ch_random_below(random, 10) == 0) start = (int32_t)(d->past[s] + i);
        d->document_start[s * c->queries + i] = start;
      }
    }
  }
  if (c->alibi) {
    d->slopes = zeros(c->heads);
    for (int64_t h = 0; h < c->heads; h++)
      d->slopes[h] = (float)exp2(-8.0 * (double)(h + 1) / (double)c->heads);
  }
}

static inline attend_data *make_attend_data(ch_random *random, attend_case c) {
  attend_data *d = calloc(1, sizeof *d);
  d->shape = c;
  d->tokens = c.past + c.queries;
  d->scale = 1 / sqrt((double)c.key_dim);
  if (c.may_round) d->scale = exp2(round(log2(d->scale))); /* scaled queries stay exact */
  d->q_head = c.key_dim + c.apart[0];
  d->q_token = (c.heads - 1) * d->q_head + c.key_dim + (c.apart[0] > 0 ? c.extra : 0);
  d->q_size = c.sequences * c.queries * d->q_token;
  d->out_size = c.sequences * c.queries * c.heads * c.value_dim;
  d->lse_size = c.sequences * c.heads * c.queries;
  d->q = random_values(random, d->q_size, c.q_scale > 0 ? c.q_scale : 1);
  for (int64_t i = 0; i < d->q_size && c.may_round; i++) d->q[i] = as_stored(CH_BF16, d->q[i]);
  const int64_t dims[2] = {c.key_dim, c.value_dim};
  for (int p = 0; p < 2; p++) {
    d->head_stride[p] = dims[p] + c.apart[1 + p];
    d->token_stride[p] = (c.kv_heads - 1) * d->head_stride[p] + dims[p] + c.extra;
    d->sequence_stride[p] = d->tokens * d->token_stride[p] + c.extra;
    /* The memory ends with the last token. */
    d->state_size[p] = (c.sequences - 1) * d->sequence_stride[p] + (d->tokens - 1) * d->token_stride[p] +
                       (c.kv_heads - 1) * d->head_stride[p] + dims[p];
    d->state[p] = random_values(random, d->state_size[p], 1);
    if (is_block_quantised(c.state_type[p]))
      d->blocks[p] = pack_blocks(c.state_type[p], d->state_size[p], d->state[p]);
    else
      for (int64_t i = 0; i < d->state_size[p]; i++)
        d->state[p][i] = as_stored(c.may_round ? CH_BF16 : c.state_type[p], d->state[p][i]);
  }
  if (c.shared) {
    free(d->state[1]), free(d->blocks[1]);
    d->blocks[1] = NULL;
    d->state[1] = d->state[0], d->state_size[1] = d->state_size[0];
    d->head_stride[1] = d->head_stride[0], d->token_stride[1] = d->token_stride[0];
    d->sequence_stride[1] = d->sequence_stride[0];
  }
  choose_masks(random, d);
  d->out = zeros(d->out_size), d->out_bound = zeros(d->out_size), d->out_rounding = zeros(d->out_size);
  d->lse = zeros(d->lse_size), d->lse_bound = zeros(d->lse_size), d->lse_rounding = zeros(d->lse_size);
  expect_forward(d);
  return d;
}

static inline void free_attend_data(attend_data *d) {
  if (!d->shape.shared) free(d->state[1]);
  free(d->blocks[0]), free(d->blocks[1]);
  free(d->q), free(d->state[0]), free(d->past), free(d->document_start), free(d->slopes);
  free(d->out), free(d->lse), free(d->out_bound), free(d->lse_bound), free(d->out_rounding),
      free(d->lse_rounding);
  free(d);
}

static inline const char *describe(const attend_case *c) {
  static char text[300];
  snprintf(
      text, sizeof text,
      "attend %lld x %lld queries, past %lld, heads %lld / %lld, dims %lld / %lld%s%s%s%s%s%s, states %s "
      "%s, q %g, cap %g",
      (long long)c->sequences, (long long)c->queries, (long long)c->past, (long long)c->heads,
      (long long)c->kv_heads, (long long)c->key_dim, (long long)c->value_dim, c->causal ? ", causal" : "",
      c->alibi ? ", alibi" : "", c->documents ? ", documents" : "", c->may_round ? ", rounded" : "",
      c->apart[0] + c->apart[1] + c->apart[2] > 0 ? ", heads apart" : "",
      c->shared     ? ", values in keys"
      : c->produced ? ", produced"
      : c->tail > 0 ? ", keys of two parts"
                    : "",
      ch_dtype_name(c->state_type[0]), ch_dtype_name(c->state_type[1]), c->q_scale, c->soft_cap);
  return text;
}

/* Simulates producers that compute their tiles: copies tiles, with gaps full of NaNs between rows and heads. */
enum { ROW_GAP = 3, HEAD_GAP = 5 };

static inline int64_t copied_elements(int64_t dim, int64_t heads, int64_t count) {
  return heads * (count * (dim + ROW_GAP) + HEAD_GAP);
}

static inline ch_tile copied_tile(const ch_state_view *part, const ch_tile_span *span, int64_t dim,
                                  void *scratch) {
  ch_tile tile = {scratch, part->dtype, dim + ROW_GAP, span->count * (dim + ROW_GAP) + HEAD_GAP};
  size_t size = ch_dtype_size(part->dtype);
  memset(scratch, 0xff, (size_t)copied_elements(dim, span->heads, span->count) * size);
  for (int64_t g = 0; g < span->heads; g++)
    for (int64_t t = 0; t < span->count; t++) {
      int64_t from = span->sequence * part->sequence_stride + (span->first + t) * part->token_stride +
                     (span->head + g) * ch_head_stride(part, dim);
      memcpy((char *)scratch + (size_t)(g * tile.head_stride + t * tile.stride) * size,
             (const char *)part->data + (size_t)from * size, (size_t)dim * size);
    }
  return tile;
}

static inline void produce_copies(const ch_attend *args, const ch_tile_span *span, void *scratch,
                                  ch_tiles *tiles) {
  size_t key_bytes =
      (size_t)copied_elements(args->key_dim, span->heads, span->count) * ch_dtype_size(args->parts[0].dtype);
  *tiles =
      (ch_tiles){.keys = copied_tile(&args->parts[0], span, args->key_dim, scratch),
                 .values = copied_tile(&args->parts[1], span, args->value_dim, (char *)scratch + key_bytes)};
}

static inline int64_t copies_elements(const ch_attend *args, int64_t heads, int64_t count) {
  return copied_elements(args->key_dim, heads, count) + copied_elements(args->value_dim, heads, count);
}

static const ch_tile_producer copying_producer = {
    .name = "copies", .produce = produce_copies, .scratch_elements = copies_elements};

/* Leaves keys and values in place, with the last elements of the keys as a separate tile. ch_attend.context
   gives their number. */
static inline void produce_split(const ch_attend *args, const ch_tile_span *span, void *scratch,
                                 ch_tiles *tiles) {
  ch_tile_producer_dense.produce(args, span, scratch, tiles);
  tiles->tail_dim = *(const int64_t *)args->context;
  tiles->tail = tiles->keys;
  tiles->tail.data = (const char *)tiles->keys.data +
                     (size_t)(args->key_dim - tiles->tail_dim) * ch_dtype_size(tiles->keys.dtype);
}

static inline int64_t split_elements(const ch_attend *args, int64_t heads, int64_t count) {
  (void)args, (void)heads, (void)count;
  return 0;
}

static const ch_tile_producer splitting_producer = {
    .name = "split", .produce = produce_split, .scratch_elements = split_elements};

/* Unpacks a tile of block-quantised states into scratch, in the element type of the table ch_attend.context. */
static inline ch_tile widened_tile(const ch_attend *args, const ch_tile *tile, const ch_tile_span *span,
                                   int64_t dim, void *scratch) {
  const ch_kernels *kernels = args->context;
  ch_tile out = {scratch, kernels->dtype, dim, span->count * dim};
  for (int64_t g = 0; g < span->heads; g++)
    for (int64_t t = 0; t < span->count; t++) {
      const char *from =
          (const char *)tile->data + ch_dtype_bytes(tile->dtype, g * tile->head_stride + t * tile->stride);
      kernels->unpack_states(1, dim, from, 0, tile->dtype,
                             (char *)scratch +
                                 (size_t)(g * out.head_stride + t * dim) * ch_dtype_size(out.dtype));
    }
  return out;
}

/* Passes block-quantised states as they are stored if the loop reads blocks, or else unpacked. */
static inline void produce_blocks(const ch_attend *args, const ch_tile_span *span, void *scratch,
                                  ch_tiles *tiles) {
  ch_tile *tile[2] = {&tiles->keys, &tiles->values};
  const int64_t dims[2] = {args->key_dim, args->value_dim};
  *tiles = (ch_tiles){0};
  for (int p = 0; p < 2; p++) {
    const ch_state_view *part = &args->parts[p];
    int64_t head_stride = ch_head_stride(part, dims[p]);
    int64_t at =
        span->sequence * part->sequence_stride + span->first * part->token_stride + span->head * head_stride;
    *tile[p] = (ch_tile){(const char *)part->data + ch_dtype_bytes(part->dtype, at), part->dtype,
                         part->token_stride, head_stride};
    if (!is_block_quantised(part->dtype) || args->takes_blocks) continue;
    *tile[p] = widened_tile(args, tile[p], span, dims[p], scratch);
    scratch = (char *)scratch + (size_t)(span->heads * span->count * dims[p]) * ch_dtype_size(tile[p]->dtype);
  }
}

static inline int64_t blocks_elements(const ch_attend *args, int64_t heads, int64_t count) {
  int64_t dims = (is_block_quantised(args->parts[0].dtype) ? args->key_dim : 0) +
                 (is_block_quantised(args->parts[1].dtype) ? args->value_dim : 0);
  return args->takes_blocks ? 0 : heads * count * dims;
}

static const ch_tile_producer blocks_producer = {
    .name = "blocks", .produce = produce_blocks, .scratch_elements = blocks_elements};

/* Creates the arguments of a call on a table: states in their types, queries in the table's type. Free them with
   free_attend_args. */
static inline ch_attend make_attend_args(const attend_data *d, const ch_kernels *kernels) {
  const attend_case *c = &d->shape;
  ch_attend args = {.team = all_threads(),
                    .sequences = c->sequences,
                    .queries = c->queries,
                    .heads = c->heads,
                    .kv_heads = c->kv_heads,
                    .key_dim = c->key_dim,
                    .value_dim = c->value_dim,
                    .q = reals_from(kernels, d->q_size, d->q),
                    .q_strides = {c->apart[0] > 0 ? d->q_head : 0, c->apart[0] > 0 ? d->q_token : 0},
                    .out = reals_from(kernels, d->out_size, NULL),
                    .lse = reals_from(kernels, d->lse_size, NULL),
                    .scale = d->scale,
                    .soft_cap = c->soft_cap,
                    .slopes = d->slopes,
                    .causal = c->causal,
                    .may_round = c->may_round,
                    .past = c->past > 0 ? d->past : NULL,
                    .document_start = d->document_start};
  ch_dtype types[2];
  for (int p = 0; p < 2; p++) {
    types[p] = c->state_type[p] == CH_F64 ? kernels->dtype : c->state_type[p];
    void *data = malloc(ch_dtype_bytes(types[p], d->state_size[p]));
    assert_non_null(data);
    if (is_block_quantised(types[p]))
      memcpy(data, d->blocks[c->shared ? 0 : p], ch_dtype_bytes(types[p], d->state_size[p]));
    else
      ch_kernels_for(CH_F64, CH_ISA_PLAIN)
          ->convert_to(all_threads(), d->state_size[p], d->state[p], types[p], data);
    args.parts[p] = (ch_state_view){.data = data,
                                    .dtype = types[p],
                                    .token_stride = d->token_stride[p],
                                    .sequence_stride = d->sequence_stride[p],
                                    .head_stride = c->shared || c->apart[1 + p] > 0 ? d->head_stride[p] : 0};
  }
  if (c->shared) {
    free((void *)(uintptr_t)args.parts[1].data);
    args.parts[1].data = args.parts[0].data;
  }
  args.producer = c->produced                                                    ? &copying_producer
                  : is_block_quantised(types[0]) || is_block_quantised(types[1]) ? &blocks_producer
                                                                                 : &ch_tile_producer_dense;
  if (args.producer == &blocks_producer) args.context = kernels;
  assert_non_null(args.producer);
  if (c->tail > 0) {
    args.producer = &splitting_producer;
    args.context = &c->tail;
  }
  return args;
}

static inline void free_attend_args(ch_attend *args) {
  free((void *)(uintptr_t)args->q), free(args->out), free(args->lse);
  if (args->parts[1].data != args->parts[0].data) free((void *)(uintptr_t)args->parts[1].data);
  free((void *)(uintptr_t)args->parts[0].data);
}

/* Scratch memory of exactly the size that the kernel reports, full of NaNs, at `offset`, with a guard at its end. */
typedef struct test_scratch {
  char *memory;
  size_t bytes, offset;
} test_scratch;

enum { GUARD = 64 };

static inline void *open_bytes(test_scratch *scratch, const ch_kernels *kernels, size_t bytes,
                               size_t offset) {
  scratch->bytes = bytes;
  scratch->offset = offset * ch_dtype_size(kernels->dtype);
  scratch->memory = malloc(scratch->offset + scratch->bytes + GUARD);
  assert_non_null(scratch->memory);
  memset(scratch->memory, 0xff, scratch->offset + scratch->bytes);
  memset(scratch->memory + scratch->offset + scratch->bytes, 0x5a, GUARD);
  return scratch->memory + scratch->offset;
}

static inline void *open_scratch(test_scratch *scratch, const ch_kernels *kernels, const ch_attend *args,
                                 bool backward, size_t offset) {
  return open_bytes(scratch, kernels, kernels->attend_scratch(args, backward), offset);
}

static inline void close_scratch(test_scratch *scratch, const char *what) {
  for (int i = 0; i < GUARD; i++)
    if (scratch->memory[scratch->offset + scratch->bytes + (size_t)i] != 0x5a)
      fail_msg("%s: wrote past its scratch", what);
  free(scratch->memory);
}

static inline bool has_bf16_dots(const ch_kernels *kernels) {
  return strcmp(kernels->name, "f32 avx512_bf16") == 0;
}

/* Returns the allowed errors of the forward pass on a table. The caller frees them. A table with BF16 dots rounds
   queries and weights to 8 bits if states have no more bits, or if rounding is allowed. It also rounds block-quantised
   states that heads share. */
static inline double *bounds_on(const attend_data *d, const ch_kernels *kernels, int64_t n,
                                const double *bound, const double *rounding) {
  const attend_case *c = &d->shape;
  const ch_dtype *types = c->state_type;
  bool blocks = is_block_quantised(types[0]) || is_block_quantised(types[1]), pairs = true;
  for (int p = 0; p < 2; p++) pairs = pairs && (types[p] == CH_BF16 || is_block_quantised(types[p]));
  bool rounds = has_bf16_dots(kernels) && (c->may_round || pairs);
  double *all = zeros(n);
  for (int64_t i = 0; i < n; i++)
    all[i] =
        bound[i] + (rounds ? ldexp(rounding[i], c->may_round || blocks ? -8 : -9) / table_eps(kernels) : 0);
  return all;
}

static inline void compare_values(const char *what, const ch_kernels *kernels, int threads, const char *name,
                                  int64_t n, const void *got, const double *expected, const double *bound) {
  for (int64_t i = 0; i < n; i++) {
    double value = real_at(kernels, got, i), allowed = bound[i] * table_eps(kernels) + 1e-30;
    if (!(fabs(value - expected[i]) <= allowed) && value != expected[i])
      fail_msg("%s, table %s, %d threads: %s[%lld] is %.9g instead of %.9g (allowed error %.3g)", what,
               kernels->name, threads, name, (long long)i, value, expected[i], allowed);
  }
}

#endif
