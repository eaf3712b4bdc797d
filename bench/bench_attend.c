/* Measures streaming attention: training and prefill in FLOPs per second, as shares of the multiply-add peak;
 * decoding in microseconds, as a share of the slower of two limits, the read bandwidth for the states and the
 * multiply-add peak. Limits and kernels are measured in turns, so that a busy machine slows both. A causal product
 * counts only the keys that each query sees. Usage: bench_attend [part of a name]. Threads: OMP_NUM_THREADS;
 * instruction set: CROSSHEAD_ISA. */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/timing.h"
#include "tensor/tile_producers.h"

enum { ROUNDS = 8, MOST_TIMES = 1 << 16, FMA_ROUNDS = 1 << 18, MOST_SEQUENCES = 64 };
/* Passes of at most 16 queries read the states of so many layers in turn that caches cannot hold them: at least this
   many bytes. */
static const int64_t LEAST_BYTES = INT64_C(1) << 29;
static const double ROUND_SECONDS = 0.1;

/* Every sequence has `past` tokens before its first query. value_dim = 0 means key_dim. */
typedef struct shape {
  const char *name;
  int64_t sequences, queries, past, heads, kv_heads, key_dim, value_dim;
  ch_dtype states;
  enum { IN_PLACE, VALUES_IN_KEYS, TIED, PRODUCED_KEYS, PRODUCED } kind;
} shape;

static const shape training[] = {
    {"train A: 16 x 256, 6 heads of 64", 16, 256, 0, 6, 6, 64, 0, CH_F32, 0},
    {"train B: 4 x 512, 12 heads of 64", 4, 512, 0, 12, 12, 64, 0, CH_F32, 0},
    {"train B, 4 key-value heads", 4, 512, 0, 12, 4, 64, 0, CH_F32, 0},
    {"train B, 1 key-value head", 4, 512, 0, 12, 1, 64, 0, CH_F32, 0},
    {"train 12 x 256, 12 heads of 32", 12, 256, 0, 12, 12, 32, 0, CH_F32, 0},
    {"train B, MLA, 12 heads of 96 / 64", 4, 512, 0, 12, 12, 96, 64, CH_F32, 0},
    {"train B, MFA, 14 heads of 128 on one", 4, 512, 0, 14, 1, 128, 0, CH_F32, 0},
    {"train B, differential, 6 heads of 64 / 128", 4, 512, 0, 6, 6, 64, 128, CH_F32, 0},
    {"train 1 x 2048, 8 heads of 128", 1, 2048, 0, 8, 8, 128, 0, CH_F32, 0},
    {"train 1 x 2048, MLA, 8 heads of 192 / 128", 1, 2048, 0, 8, 8, 192, 128, CH_F32, 0},
};

static const shape prefills[] = {
    {"prefill 512, 12 heads of 64", 1, 512, 0, 12, 12, 64, 0, CH_F32, 0},
    {"prefill 512 after 7680", 1, 512, 7680, 12, 12, 64, 0, CH_F32, 0},
    {"prefill 512 after 7680, BF16 cache, 4 kv heads", 1, 512, 7680, 12, 4, 64, 0, CH_BF16, 0},
    {"prefill 512 after 7680, MLA, 12 of 320 / 256", 1, 512, 7680, 12, 1, 320, 256, CH_F32, VALUES_IN_KEYS},
    {"prefill 512 after 7680, MLA, BF16", 1, 512, 7680, 12, 1, 320, 256, CH_BF16, VALUES_IN_KEYS},
    {"prefill 512 after 7680, produced, 12 of 64", 1, 512, 7680, 12, 12, 64, 0, CH_F32, PRODUCED},
};

/* Shapes of decoding, most of them with one sequence and one query. */
static const shape decoding[] = {
    {"decode MHA 12 of 64 at 4096", 1, 1, 4095, 12, 12, 64, 0, CH_F32, 0},
    {"decode MHA 12 of 64 at 16384", 1, 1, 16383, 12, 12, 64, 0, CH_F32, 0},
    {"decode MHA 12 of 64 at 16384, F16", 1, 1, 16383, 12, 12, 64, 0, CH_F16, 0},
    {"decode MHA 12 of 64 at 16384, BF16", 1, 1, 16383, 12, 12, 64, 0, CH_BF16, 0},
    {"decode MHA 16 of 128 at 16384", 1, 1, 16383, 16, 16, 128, 0, CH_F32, 0},
    {"decode MHA 16 of 128 at 16384, BF16", 1, 1, 16383, 16, 16, 128, 0, CH_BF16, 0},
    {"decode GQA 12/4 of 64 at 16384", 1, 1, 16383, 12, 4, 64, 0, CH_F32, 0},
    {"decode GQA 12/4 of 64 at 16384, BF16", 1, 1, 16383, 12, 4, 64, 0, CH_BF16, 0},
    {"decode GQA 32/8 of 128 at 16384, BF16", 1, 1, 16383, 32, 8, 128, 0, CH_BF16, 0},
    {"decode GTA 12/4 of 64 at 16384", 1, 1, 16383, 12, 4, 64, 0, CH_F32, TIED},
    {"decode MQA 12/1 of 64 at 4096", 1, 1, 4095, 12, 1, 64, 0, CH_F32, 0},
    {"decode MQA 12/1 of 64 at 16384", 1, 1, 16383, 12, 1, 64, 0, CH_F32, 0},
    {"decode MQA 12/1 of 64 at 16384, BF16", 1, 1, 16383, 12, 1, 64, 0, CH_BF16, 0},
    {"decode MFA 14/1 of 128 at 4096", 1, 1, 4095, 14, 1, 128, 0, CH_F32, 0},
    {"decode MFA 14/1 of 128 at 16384", 1, 1, 16383, 14, 1, 128, 0, CH_F32, 0},
    {"decode MFA 14/1 of 128 at 16384, BF16", 1, 1, 16383, 14, 1, 128, 0, CH_BF16, 0},
    {"decode MFA 14/1 of 256 at 16384", 1, 1, 16383, 14, 1, 256, 0, CH_F32, 0},
    {"decode MFA 14/1 of 256 at 16384, BF16", 1, 1, 16383, 14, 1, 256, 0, CH_BF16, 0},
    {"decode MFA 14/1 of 256, keys produced", 1, 1, 16383, 14, 1, 256, 0, CH_F32, PRODUCED_KEYS},
    {"decode MLA 12/1 of 320 / 256 at 4096", 1, 1, 4095, 12, 1, 320, 256, CH_F32, VALUES_IN_KEYS},
    {"decode MLA 12/1 of 320 / 256 at 16384", 1, 1, 16383, 12, 1, 320, 256, CH_F32, VALUES_IN_KEYS},
    {"decode MLA 12/1 of 320 / 256 at 16384, BF16", 1, 1, 16383, 12, 1, 320, 256, CH_BF16, VALUES_IN_KEYS},
    {"decode MLA 16/1 of 576 / 512 at 16384", 1, 1, 16383, 16, 1, 576, 512, CH_F32, VALUES_IN_KEYS},
    {"decode MLA 16/1 of 576 / 512 at 16384, BF16", 1, 1, 16383, 16, 1, 576, 512, CH_BF16, VALUES_IN_KEYS},
    {"decode GQA 12/4 of 64, produced", 1, 1, 16383, 12, 4, 64, 0, CH_F32, PRODUCED},
    {"decode 8 sequences at 2048, MHA", 8, 1, 2047, 12, 12, 64, 0, CH_F32, 0},
    {"decode 4 queries at 16384, MHA", 1, 4, 16380, 12, 12, 64, 0, CH_F32, 0},
};

typedef struct bench {
  const ch_kernels *k;
  const shape *shape;
  ch_team team;
  ch_attend args;
  ch_attend_gradient gradient;
  int32_t past[MOST_SEQUENCES];
  int64_t tokens; /* tokens of all sequences */
  int parts;      /* parts of the states: 1 if values are in keys, else 2 */
  int64_t layers, value_dim;
  size_t layer_bytes[2]; /* bytes of each part in a layer */
  void *memory[16];
  size_t bytes[16];
  int memories;
} bench;

static void *reserve(bench *b, int64_t count, ch_dtype dtype) {
  size_t size = ch_dtype_size(dtype), bytes = (size_t)count * size;
  char *values = ch_pages_alloc(bytes);
  if (!values) {
    fprintf(stderr, "bench_attend: no memory for %zu bytes\n", bytes);
    exit(1);
  }
  b->memory[b->memories] = values;
  b->bytes[b->memories++] = bytes;
  float some[1009];
  for (int i = 0; i < 1009; i++) some[i] = (float)(i * 79 % 1009) / 1009 - 0.5f;
  for (int64_t at = 0; at < count; at += 1009)
    b->k->convert_to(ch_team_here(), count - at < 1009 ? count - at : 1009, some, dtype,
                     values + (size_t)at * size);
  return values;
}

/* The producers from here to copy_both copy tiles instead of computing them. */
static int64_t copied_keys(const ch_attend *args, int64_t heads, int64_t count) {
  return heads * count * args->key_dim;
}

static int64_t copied_both(const ch_attend *args, int64_t heads, int64_t count) {
  return heads * count * (args->key_dim + args->value_dim);
}

static ch_tile copy_tile(const ch_tile *from, const ch_tile_span *span, int64_t dim, float *scratch) {
  for (int64_t g = 0; g < span->heads; g++)
    for (int64_t t = 0; t < span->count; t++)
      memcpy(scratch + (g * span->count + t) * dim,
             (const float *)from->data + g * from->head_stride + t * from->stride,
             (size_t)dim * sizeof *scratch);
  return (ch_tile){scratch, CH_F32, dim, span->count * dim};
}

static void copy_keys(const ch_attend *args, const ch_tile_span *span, void *scratch, ch_tiles *tiles) {
  ch_tile_producer_dense.produce(args, span, NULL, tiles);
  tiles->keys = copy_tile(&tiles->keys, span, args->key_dim, scratch);
}

static void copy_both(const ch_attend *args, const ch_tile_span *span, void *scratch, ch_tiles *tiles) {
  copy_keys(args, span, scratch, tiles);
  tiles->values = copy_tile(&tiles->values, span, args->value_dim,
                            (float *)scratch + copied_keys(args, span->heads, span->count));
}

/* Finds the tiles of gta: the first half of a value is the first half of its key, and all heads share the second half
   of the key. */
static void find_tied(const ch_attend *args, const ch_tile_span *span, void *scratch, ch_tiles *tiles) {
  ch_tile_producer_dense.produce(args, span, scratch, tiles);
  tiles->tail = tiles->values;
  tiles->tail.head_stride = 0;
  tiles->tail_dim = args->key_dim / 2;
  tiles->values = tiles->keys;
}

static int64_t no_scratch(const ch_attend *args, int64_t heads, int64_t count) {
  (void)args, (void)heads, (void)count;
  return 0;
}

static const ch_tile_producer tied = {"tied", find_tied, no_scratch};
static const ch_tile_producer producing_keys = {"keys", copy_keys, copied_keys},
                              producing_both = {"both", copy_both, copied_both};

static void open_states(bench *b, const shape *s) {
  const int64_t key_width = s->kv_heads * s->key_dim;
  const int64_t widths[] = {key_width, s->kind == TIED ? s->key_dim / 2 : s->kv_heads * b->value_dim};
  b->parts = s->kind == VALUES_IN_KEYS ? 1 : 2;
  b->layers = 1;
  for (int p = 0; p < b->parts; p++)
    b->layer_bytes[p] = (size_t)(b->tokens * widths[p]) * ch_dtype_size(s->states);
  if (s->queries <= 16) b->layers += LEAST_BYTES / (int64_t)(b->layer_bytes[0] + b->layer_bytes[1]);
  for (int p = 0; p < b->parts; p++)
    b->args.parts[p] = (ch_state_view){.data = reserve(b, b->layers * b->tokens * widths[p], s->states),
                                       .dtype = s->states,
                                       .token_stride = widths[p],
                                       .sequence_stride = (s->past + s->queries) * widths[p],
                                       .head_stride = p == 0 || s->kind == TIED ? s->key_dim : b->value_dim};
  if (b->parts == 1) b->args.parts[1] = b->args.parts[0];
  b->args.producer = s->kind == PRODUCED        ? &producing_both
                     : s->kind == PRODUCED_KEYS ? &producing_keys
                     : s->kind == TIED          ? &tied
                                                : &ch_tile_producer_dense;
}

static void open_bench(bench *b, const shape *s, bool backward) {
  *b = (bench){.k = ch_kernels_best(CH_F32), .shape = s, .tokens = s->sequences * (s->past + s->queries)};
  b->value_dim = s->value_dim > 0 ? s->value_dim : s->key_dim;
  int64_t queries = s->sequences * s->queries * s->heads;
  b->team = ch_team_of(0);
  b->args = (ch_attend){.team = &b->team,
                        .sequences = s->sequences,
                        .queries = s->queries,
                        .heads = s->heads,
                        .kv_heads = s->kv_heads,
                        .key_dim = s->key_dim,
                        .value_dim = b->value_dim,
                        .q = reserve(b, queries * s->key_dim, CH_F32),
                        .out = reserve(b, queries * b->value_dim, CH_F32),
                        .scale = 1 / sqrt((double)s->key_dim),
                        .causal = true};
  open_states(b, s);
  for (int64_t i = 0; i < s->sequences; i++) b->past[i] = (int32_t)s->past;
  if (s->past > 0) b->args.past = b->past;
  size_t scratch = b->k->attend_scratch(&b->args, false);
  if (backward) {
    b->args.lse = reserve(b, queries, CH_F32);
    b->gradient = (ch_attend_gradient){.dout = reserve(b, queries * b->value_dim, CH_F32),
                                       .dq = reserve(b, queries * s->key_dim, CH_F32),
                                       .dk = reserve(b, b->tokens * s->kv_heads * s->key_dim, CH_F32),
                                       .dv = reserve(b, b->tokens * s->kv_heads * b->value_dim, CH_F32)};
    size_t more = b->k->attend_scratch(&b->args, true);
    if (more > scratch) scratch = more;
  }
  b->args.scratch = reserve(b, (int64_t)(scratch / sizeof(float)) + 1, CH_F32);
}

static void close_bench(bench *b) {
  for (int i = 0; i < b->memories; i++) ch_pages_free(b->memory[i], b->bytes[i]);
}

/* The context of a timed call. */
typedef struct timed_part {
  const bench *b;
  double done; /* FLOPs or bytes of one repetition */
  double kept; /* total of results, so that the compiler removes no loop */
} timed_part;

/* Multiplies and adds on all threads. */
static ch_status multiply_add(void *context, ch_error *error) {
  timed_part *part = context;
  double flops = 0, kept = 0;
  (void)error;
#pragma omp parallel reduction(+ : flops, kept)
  {
    double own;
    kept += part->b->k->fma_loop(FMA_ROUNDS, 1e-6, &own);
    flops += own;
  }
  part->done = flops;
  part->kept += kept;
  return CH_OK;
}

/* Reads the states of all layers. */
static ch_status read_states(void *context, ch_error *error) {
  timed_part *timed = context;
  const bench *b = timed->b;
  double kept = 0, bytes = 0;
  (void)error;
#pragma omp parallel reduction(+ : kept, bytes)
  for (int p = 0; p < b->parts; p++) {
    size_t part = (size_t)b->layers * b->layer_bytes[p] / (size_t)omp_get_num_threads() / 64 * 64;
    kept += b->k->read_loop((int64_t)(part / sizeof(float)),
                            (const char *)b->args.parts[p].data + part * (size_t)omp_get_thread_num());
    bytes += (double)part;
  }
  timed->done = bytes;
  timed->kept += kept;
  return CH_OK;
}

/* Runs a pass through all layers. */
static ch_status attend_forward(void *context, ch_error *error) {
  const bench *b = ((timed_part *)context)->b;
  ch_attend args = b->args;
  (void)error;
  for (int64_t layer = 0; layer < b->layers; layer++) {
    for (int p = 0; p < 2; p++)
      args.parts[p].data = (const char *)b->args.parts[p].data + (size_t)layer * b->layer_bytes[p % b->parts];
    b->k->attend_forward(&args);
  }
  return CH_OK;
}

static ch_status attend_backward(void *context, ch_error *error) {
  const bench *b = ((timed_part *)context)->b;
  (void)error;
  b->k->attend_backward(&b->args, &b->gradient);
  return CH_OK;
}

/* The best results of all repetitions. Noise can only make a result worse. */
typedef struct figures {
  double forward, backward;   /* seconds per layer */
  double multiply_adds, read; /* limits of the machine, in FLOPs and in bytes per second */
} figures;

static figures measure(const bench *b, bool backward, bool decode) {
  /* THIRD is the backward pass if it is measured, else reading */
  enum { FORWARD, MULTIPLY_ADDS, THIRD, WORKS };
  static double seconds[WORKS][MOST_TIMES];
  timed_part parts[WORKS] = {{.b = b}, {.b = b}, {.b = b}};
  ch_timed_work works[WORKS] = {
      {.context = &parts[FORWARD], .once = attend_forward, .seconds = seconds[FORWARD]},
      {.context = &parts[MULTIPLY_ADDS], .once = multiply_add, .seconds = seconds[MULTIPLY_ADDS]},
      {.context = &parts[THIRD],
       .once = backward ? attend_backward : read_states,
       .seconds = seconds[THIRD]}};
  int count = backward || decode ? WORKS : THIRD;
  ch_timing timing = {.least = ROUNDS,
                      .most = MOST_TIMES,
                      .turn_seconds = ROUND_SECONDS,
                      .enough_seconds = ROUNDS * ROUND_SECONDS * count};
  ch_time(&timing, count, works, NULL);
  figures f = {.forward = ch_shortest_time(&works[FORWARD]) / (double)b->layers,
               .multiply_adds = parts[MULTIPLY_ADDS].done / ch_shortest_time(&works[MULTIPLY_ADDS])};
  double third = count > THIRD ? ch_shortest_time(&works[THIRD]) : 0;
  if (backward) f.backward = third;
  if (decode) f.read = parts[THIRD].done / third;
  return f;
}

/* Returns the FLOPs of `with_keys` products with keys and `with_values` products with values. The forward pass has one
   of each, the backward pass three with keys and two with values. */
static double forward_flops(const bench *b, double with_keys, double with_values) {
  const shape *s = b->shape;
  double keys = (double)s->past + (double)(s->queries + 1) / 2;
  return 2.0 * (double)(s->sequences * s->heads * s->queries) * keys *
         (with_keys * (double)s->key_dim + with_values * (double)b->value_dim);
}

static void report_training(const shape *s) {
  bench b;
  open_bench(&b, s, true);
  figures f = measure(&b, true, false);
  double forward = forward_flops(&b, 1, 1), backward = forward_flops(&b, 3, 2);
  printf("%-48s forward %6.1f GFLOP/s (%2.0f %%), backward %6.1f (%2.0f %%), both %2.0f %% of %.0f\n",
         s->name, forward / f.forward * 1e-9, 100 * forward / f.forward / f.multiply_adds,
         backward / f.backward * 1e-9, 100 * backward / f.backward / f.multiply_adds,
         100 * (forward + backward) / (f.forward + f.backward) / f.multiply_adds, f.multiply_adds * 1e-9);
  close_bench(&b);
}

static void report_prefill(const shape *s) {
  bench b;
  open_bench(&b, s, false);
  figures f = measure(&b, false, false);
  double flops = forward_flops(&b, 1, 1);
  printf("%-48s forward %6.1f GFLOP/s (%2.0f %%) of %.0f\n", s->name, flops / f.forward * 1e-9,
         100 * flops / f.forward / f.multiply_adds, f.multiply_adds * 1e-9);
  close_bench(&b);
}

static void report_decoding(const shape *s) {
  bench b;
  open_bench(&b, s, false);
  figures f = measure(&b, false, true);
  double bytes = (double)(b.layer_bytes[0] + b.layer_bytes[1]), flops = forward_flops(&b, 1, 1);
  double reading = bytes / f.read, computing = flops / f.multiply_adds;
  printf("%-46s %5.0f us, %3.0f %% of the limit: %5.1f of %.1f GB/s%s, %4.0f of %.0f GFLOP/s%s\n", s->name,
         f.forward * 1e6, 100 * fmax(reading, computing) / f.forward, bytes / f.forward * 1e-9, f.read * 1e-9,
         reading > computing ? " *" : "", flops / f.forward * 1e-9, f.multiply_adds * 1e-9,
         computing >= reading ? " *" : "");
  close_bench(&b);
}

int main(int argc, char **argv) {
  const char *filter = argc > 1 ? argv[1] : "";
  printf("%s, %d threads\n", ch_kernels_best(CH_F32)->name, ch_team_of(0).threads);
  for (size_t i = 0; i < sizeof training / sizeof *training; i++)
    if (strstr(training[i].name, filter)) report_training(&training[i]);
  for (size_t i = 0; i < sizeof prefills / sizeof *prefills; i++)
    if (strstr(prefills[i].name, filter)) report_prefill(&prefills[i]);
  for (size_t i = 0; i < sizeof decoding / sizeof *decoding; i++)
    if (strstr(decoding[i].name, filter)) report_decoding(&decoding[i]);
  return 0;
}
