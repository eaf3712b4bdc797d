/* Rates of streaming attention: training and prefill in operations per second, as shares of the multiply-add peak;
 * decoding in bytes of cache per second, as shares of the read bandwidth. Limits are measured in turns with the
 * kernels, so that a busy machine slows both. Causal products are counted as half of the square. Usage: bench_attend
 * [part of a name]. Threads: OMP_NUM_THREADS; instruction set: CROSSHEAD_ISA. */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/tile_producers.h"

enum { ROUNDS = 8, FMA_ROUNDS = 1 << 18, MOST_SEQUENCES = 64 };
/* States of several layers, as many as no cache holds, are read in turns. */
static const int64_t LEAST_BYTES = INT64_C(1) << 29;
static const double ROUND_SECONDS = 0.1;

/* past = tokens before the first query, the same in every sequence. */
typedef struct shape {
  const char *name;
  int64_t sequences, queries, past, heads, kv_heads, dim;
  ch_dtype states;
} shape;

static const shape training[] = {
    {"train A: 16 x 256, 6 heads of 64", 16, 256, 0, 6, 6, 64, CH_F32},
    {"train B: 4 x 512, 12 heads of 64", 4, 512, 0, 12, 12, 64, CH_F32},
    {"train B, 4 key-value heads", 4, 512, 0, 12, 4, 64, CH_F32},
    {"train B, 1 key-value head", 4, 512, 0, 12, 1, 64, CH_F32},
    {"train 1 x 2048, 8 heads of 128", 1, 2048, 0, 8, 8, 128, CH_F32},
};

static const shape prefills[] = {
    {"prefill 512, 12 heads of 64", 1, 512, 0, 12, 12, 64, CH_F32},
    {"prefill 512 after 7680", 1, 512, 7680, 12, 12, 64, CH_F32},
    {"prefill 512 after 7680, BF16 cache, 4 kv heads", 1, 512, 7680, 12, 4, 64, CH_BF16},
};

static const shape decoding[] = {
    {"decode MHA at 16384, 12 heads of 64", 1, 1, 16383, 12, 12, 64, CH_F32},
    {"decode MHA at 16384, 8 heads of 128", 1, 1, 16383, 8, 8, 128, CH_F32},
    {"decode MHA at 16384, F16", 1, 1, 16383, 12, 12, 64, CH_F16},
    {"decode MHA at 16384, BF16", 1, 1, 16383, 12, 12, 64, CH_BF16},
    {"decode GQA 12/4 at 32768", 1, 1, 32767, 12, 4, 64, CH_F32},
    {"decode GQA 32/8 of 128 at 32768, BF16", 1, 1, 32767, 32, 8, 128, CH_BF16},
    {"decode MQA 12/1 at 131072", 1, 1, 131071, 12, 1, 64, CH_F32},
    {"decode 8 sequences at 2048, MHA", 8, 1, 2047, 12, 12, 64, CH_F32},
    {"decode 4 queries at 16384, MHA", 1, 4, 16380, 12, 12, 64, CH_F32},
};

typedef struct bench {
  const ch_kernels *k;
  const shape *shape;
  ch_attend args;
  ch_attend_gradient gradient;
  int32_t past[MOST_SEQUENCES];
  int64_t tokens; /* of all sequences */
  int64_t layers;
  size_t layer_bytes[2]; /* of keys, of values */
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
    b->k->convert_to(count - at < 1009 ? count - at : 1009, some, dtype, values + (size_t)at * size);
  return values;
}

static void open_bench(bench *b, const shape *s, bool backward) {
  *b = (bench){.k = ch_kernels_best(CH_F32), .shape = s, .tokens = s->sequences * (s->past + s->queries)};
  int64_t width = s->kv_heads * s->dim, queries = s->sequences * s->queries * s->heads;
  b->args = (ch_attend){.sequences = s->sequences,
                        .queries = s->queries,
                        .heads = s->heads,
                        .kv_heads = s->kv_heads,
                        .key_dim = s->dim,
                        .value_dim = s->dim,
                        .q = reserve(b, queries * s->dim, CH_F32),
                        .out = reserve(b, queries * s->dim, CH_F32),
                        .scale = 1 / sqrt((double)s->dim),
                        .causal = true,
                        .producer = ch_tile_producer_for(b->k, s->states, s->states)};
  b->layer_bytes[0] = b->layer_bytes[1] = (size_t)(b->tokens * width) * ch_dtype_size(s->states);
  b->layers = s->queries > 16 ? 1 : LEAST_BYTES / (int64_t)(2 * b->layer_bytes[0]) + 1;
  for (int p = 0; p < 2; p++)
    b->args.parts[p] = (ch_state_view){.data = reserve(b, b->layers * b->tokens * width, s->states),
                                       .dtype = s->states,
                                       .token_stride = width,
                                       .sequence_stride = (s->past + s->queries) * width};
  for (int64_t i = 0; i < s->sequences; i++) b->past[i] = (int32_t)s->past;
  if (s->past > 0) b->args.past = b->past;
  size_t scratch = b->k->attend_scratch(&b->args, false);
  if (backward) {
    b->args.lse = reserve(b, queries, CH_F32);
    b->gradient = (ch_attend_gradient){.dout = reserve(b, queries * s->dim, CH_F32),
                                       .dq = reserve(b, queries * s->dim, CH_F32),
                                       .dk = reserve(b, b->tokens * width, CH_F32),
                                       .dv = reserve(b, b->tokens * width, CH_F32)};
    size_t more = b->k->attend_scratch(&b->args, true);
    if (more > scratch) scratch = more;
  }
  b->args.scratch = reserve(b, (int64_t)(scratch / sizeof(float)) + 1, CH_F32);
}

static void close_bench(bench *b) {
  for (int i = 0; i < b->memories; i++) ch_pages_free(b->memory[i], b->bytes[i]);
}

/* Multiply-adds per second of all threads at this moment. */
static double fma_rate(const ch_kernels *k) {
  double flops = 0, kept = 0, start = omp_get_wtime();
#pragma omp parallel reduction(+ : flops, kept)
  {
    double own;
    kept += k->fma_loop(FMA_ROUNDS, 1e-6, &own);
    flops += own;
  }
  return kept == 0.125 ? 0 : flops / (omp_get_wtime() - start);
}

/* Bytes per second at which the states of all layers can be read at this moment. */
static double read_rate(const bench *b) {
  size_t bytes = (size_t)b->layers * b->layer_bytes[0];
  double kept = 0, start = omp_get_wtime();
#pragma omp parallel reduction(+ : kept)
  {
    size_t part = bytes / (size_t)omp_get_num_threads() / 64 * 64;
    for (int p = 0; p < 2; p++)
      kept += b->k->read_loop((int64_t)(part / sizeof(float)),
                              (const char *)b->args.parts[p].data + part * (size_t)omp_get_thread_num());
  }
  return kept == 0.125 ? 0 : 2 * (double)bytes / (omp_get_wtime() - start);
}

/* Seconds of one layer, in a pass through all. */
static double forward_seconds(const bench *b) {
  ch_attend args = b->args;
  double start = omp_get_wtime();
  for (int64_t layer = 0; layer < b->layers; layer++) {
    for (int p = 0; p < 2; p++)
      args.parts[p].data = (const char *)b->args.parts[p].data + (size_t)layer * b->layer_bytes[p];
    b->k->attend_forward(&args);
  }
  return (omp_get_wtime() - start) / (double)b->layers;
}

/* Best seconds of a call: noise only ever adds. Beside it the best rate that the limit had in the same time. */
static double best_forward(const bench *b, double *limit, bool decode) {
  double best = 1e30;
  *limit = 0;
  for (int round = 0; round < ROUNDS; round++) {
    double end = omp_get_wtime() + ROUND_SECONDS;
    do {
      double seconds = forward_seconds(b);
      if (seconds < best) best = seconds;
    } while (omp_get_wtime() < end);
    double rate = decode ? read_rate(b) : fma_rate(b->k);
    if (rate > *limit) *limit = rate;
  }
  return best;
}

static double best_backward(const bench *b) {
  double best = 1e30;
  for (int round = 0; round < ROUNDS; round++) {
    double now = omp_get_wtime(), end = now + ROUND_SECONDS;
    while (now < end) {
      b->k->attend_backward(&b->args, &b->gradient);
      double after = omp_get_wtime();
      if (after - now < best) best = after - now;
      now = after;
    }
  }
  return best;
}

/* Of the two products of the forward pass. */
static double forward_flops(const shape *s) {
  double keys = (double)s->past + (double)(s->queries + 1) / 2;
  return 4.0 * (double)(s->sequences * s->heads * s->queries * s->dim) * keys;
}

static void report_training(const shape *s) {
  bench b;
  open_bench(&b, s, true);
  double peak, forward = best_forward(&b, &peak, false), backward = best_backward(&b),
               flops = forward_flops(s);
  printf("%-48s forward %6.1f GFLOP/s (%2.0f %%), backward %6.1f (%2.0f %%), both %2.0f %% of %.0f\n",
         s->name, flops / forward * 1e-9, 100 * flops / forward / peak, 2.5 * flops / backward * 1e-9,
         250 * flops / backward / peak, 350 * flops / (forward + backward) / peak, peak * 1e-9);
  close_bench(&b);
}

static void report_prefill(const shape *s) {
  bench b;
  open_bench(&b, s, false);
  double peak, forward = best_forward(&b, &peak, false), flops = forward_flops(s);
  printf("%-48s forward %6.1f GFLOP/s (%2.0f %%) of %.0f\n", s->name, flops / forward * 1e-9,
         100 * flops / forward / peak, peak * 1e-9);
  close_bench(&b);
}

static void report_decoding(const shape *s) {
  bench b;
  open_bench(&b, s, false);
  double limit, seconds = best_forward(&b, &limit, true);
  double bytes = 2.0 * (double)(b.tokens * s->kv_heads * s->dim) * (double)ch_dtype_size(s->states);
  printf("%-48s %6.1f GB/s (%3.0f %% of %.1f read beside it), %.0f us\n", s->name, bytes / seconds * 1e-9,
         100 * bytes / seconds / limit, limit * 1e-9, seconds * 1e6);
  close_bench(&b);
}

int main(int argc, char **argv) {
  const char *filter = argc > 1 ? argv[1] : "";
  printf("%s, %d threads\n", ch_kernels_best(CH_F32)->name, ch_threads());
  for (size_t i = 0; i < sizeof training / sizeof *training; i++)
    if (strstr(training[i].name, filter)) report_training(&training[i]);
  for (size_t i = 0; i < sizeof prefills / sizeof *prefills; i++)
    if (strstr(prefills[i].name, filter)) report_prefill(&prefills[i]);
  for (size_t i = 0; i < sizeof decoding / sizeof *decoding; i++)
    if (strstr(decoding[i].name, filter)) report_decoding(&decoding[i]);
  return 0;
}
