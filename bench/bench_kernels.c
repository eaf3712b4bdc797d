/* Measures the kernels that memory limits in bytes per second, and tile products in FLOPs per second. Each rate is
 * also a share of the limit that this machine reached in the same run. Usage: bench_kernels [part of a name].
 * Threads: OMP_NUM_THREADS; instruction set: CROSSHEAD_ISA. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/limits.h"
#include "bench/timing.h"
#include "tensor/kernels.h"

/* A buffer of ELEMENTS has 128 MiB, more than the caches of most machines, so that every pass reads memory. */
enum { ELEMENTS = 1 << 25, BUFFERS = 4, ROUNDS = 5, MOST_TIMES = 1 << 16 };
static const double ROUND_SECONDS = 0.06;

typedef struct bench {
  const ch_kernels *k;
  float *buffer[BUFFERS]; /* buffers of ELEMENTS, one after the other in memory */
  float *scratch;
  void *room; /* memory for the rows of gemv_bf16 and gemv_split */
  int32_t *ids;
  double peak, bandwidth; /* limits of all threads, in FLOPs and in bytes per second */
  const char *filter;
} bench;

typedef struct work {
  const bench *b;
  int64_t rows, n, extra;
  ch_dtype dtype;
  bool flag;
} work;

typedef void (*work_function)(const work *w);

/* Reads the buffers on all threads. On a shared machine the rate changes from second to second, so each kernel is
   measured in turns with reading. */
static ch_status read_buffers(void *context, ch_error *error) {
  const bench *b = context;
  double kept = 0;
  (void)error;
#pragma omp parallel reduction(+ : kept)
  {
    int64_t part = ELEMENTS / omp_get_num_threads();
    for (int i = 0; i < BUFFERS; i++)
      kept += b->k->read_loop(part, b->buffer[i] + part * omp_get_thread_num());
  }
  b->scratch[0] = (float)kept;
  return CH_OK;
}

typedef struct kernel_call {
  work_function function;
  const work *w;
} kernel_call;

static ch_status call_kernel(void *context, ch_error *error) {
  const kernel_call *c = context;
  (void)error;
  c->function(c->w);
  return CH_OK;
}

/* Returns the shortest time of one call in seconds. *best_read receives the best rate of reading, in bytes per
   second. */
static double best_time(work_function function, const work *w, double *best_read) {
  static double seconds[2][MOST_TIMES];
  kernel_call call = {function, w};
  ch_timed_work works[2] = {
      {.context = &call, .once = call_kernel, .seconds = seconds[0]},
      {.context = (void *)(uintptr_t)w->b, .once = read_buffers, .seconds = seconds[1]}};
  ch_timing timing = {.least = ROUNDS,
                      .most = MOST_TIMES,
                      .turn_seconds = ROUND_SECONDS,
                      .enough_seconds = 2 * ROUNDS * ROUND_SECONDS};
  ch_time(&timing, 2, works, NULL);
  *best_read = (double)ELEMENTS * BUFFERS * sizeof(float) / ch_shortest_time(&works[1]);
  return ch_shortest_time(&works[0]);
}

static void report_bytes(const bench *b, const char *name, work_function function, work w, double bytes) {
  if (b->filter && !strstr(name, b->filter)) return;
  w.b = b;
  double read, rate = bytes / best_time(function, &w, &read);
  printf("%-40s %8.1f GB/s     %5.1f %% of %.1f GB/s read beside it\n", name, rate * 1e-9, 100 * rate / read,
         read * 1e-9);
}

static void report_flops(const bench *b, const char *name, work_function function, work w, double flops,
                         double peak) {
  if (b->filter && !strstr(name, b->filter)) return;
  w.b = b;
  double read, rate = flops / best_time(function, &w, &read);
  printf("%-40s %8.1f GFLOP/s  %5.1f %% of the peak\n", name, rate * 1e-9, 100 * rate / peak);
}

/* --- timed calls -------------------------------------------------------------------------------------------- */

static void do_add(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->add(ch_team_here(), w->n, p[0], p[1], p[2]);
}

static void do_swiglu(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->swiglu_forward(ch_team_here(), w->n, p[0], p[1], p[2]);
}

static void do_swiglu_backward(const work *w) { /* in place, as in training */
  float *const *p = w->b->buffer;
  w->b->k->swiglu_backward(ch_team_here(), w->n, p[0], p[1], p[2], p[3], false, p[2], false);
}

static void do_gelu(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->gelu_forward(ch_team_here(), w->n, p[0], p[1]);
}

static void do_gelu_backward(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->gelu_backward(ch_team_here(), w->n, p[0], p[1], p[2], false);
}

static void do_rmsnorm(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->rmsnorm_forward(ch_team_here(), w->rows, w->n, 1, p[0], p[3], 1e-5, p[1], p[2]);
}

static void do_rmsnorm_backward(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->rmsnorm_backward(ch_team_here(), w->rows, w->n, 1, p[0], p[3], p[3] + w->n, p[1], p[2], true,
                            p[3] + w->n, true, w->b->scratch);
}

static void do_layernorm(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->layernorm_forward(ch_team_here(), w->rows, w->n, p[0], p[3], p[3], 1e-5, p[1], p[2]);
}

static void do_rope(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->rope(ch_team_here(), w->rows, w->extra, w->n, w->n, false, w->flag, false, p[3], p[0], p[1],
                false);
}

static void do_embedding(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->embedding_forward(ch_team_here(), w->rows, w->n, w->b->ids, p[0], w->dtype, p[1]);
}

static void do_embedding_backward(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->embedding_backward(ch_team_here(), w->rows, w->n, w->extra, w->b->ids, p[0], p[1], true);
}

static void do_cross_entropy(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->cross_entropy(ch_team_here(), w->rows, w->n, 0, 0, p[0], w->b->ids, p[1], w->flag ? p[2] : NULL);
}

static void do_adamw(const work *w) {
  float *const *p = w->b->buffer;
  w->b->k->adamw(ch_team_here(), w->n, p[0], p[1], p[2], p[3], 1, 1e-12, 0.9, 0.95, 1e-8, 0.1, 1, 1);
}

static void do_sum_squares(const work *w) {
  w->b->scratch[0] = (float)w->b->k->sum_squares(ch_team_here(), w->n, w->b->buffer[0]);
}

static void do_convert_from(const work *w) {
  w->b->k->convert_from(ch_team_here(), w->n, w->b->buffer[0], w->dtype, w->b->buffer[1]);
}

static void do_convert_to(const work *w) {
  w->b->k->convert_to(ch_team_here(), w->n, w->b->buffer[0], w->dtype, w->b->buffer[1]);
}

/* Returns a product with the next weights [extra, n]. `rows` rows of x are first in `scratch`, and the results follow.
   Successive calls go through all buffers, so that no weights are in a cache. */
static ch_product next_product(const work *w) {
  static int64_t offset; /* offset of the weights in the buffers, in bytes */
  int64_t bytes = w->n * w->extra * (int64_t)ch_dtype_size(w->dtype);
  int64_t room = BUFFERS * (int64_t)ELEMENTS * (int64_t)sizeof(float);
  offset = offset + 2 * bytes > room ? 0 : offset + bytes;
  return (ch_product){w->extra, (char *)w->b->buffer[0] + offset, NULL, w->b->scratch + w->rows * w->n};
}

static void do_gemv(const work *w) {
  const ch_product product = next_product(w);
  w->b->k->gemv(ch_team_here(), w->rows, w->n, w->b->scratch, w->dtype, 1, &product, false);
}

static void do_gemv_bf16(const work *w) {
  const ch_product product = next_product(w);
  w->b->k->gemv_bf16(ch_team_here(), w->rows, w->n, (const uint16_t *)w->b->scratch, w->b->room, 1, &product,
                     false);
}

static void do_gemv_split(const work *w) {
  const ch_product product = next_product(w);
  w->b->k->gemv_split(ch_team_here(), w->rows, w->n, w->b->scratch, CH_F32, w->b->room, 1, &product, false);
}

static void do_tile(const work *w) {
  float *const *p = w->b->buffer;
  int64_t m = w->rows, n = w->n, k = w->extra;
  for (int i = 0; i < 50; i++) /* one product is too short to be timed */
    w->b->k->tile_product(m, n, k, p[0], w->flag ? 1 : k, w->flag ? m : 1, p[1], n, p[2], n, true);
}

/* --- the lists ---------------------------------------------------------------------------------------------- */

static void bench_elementwise(const bench *b) {
  const int64_t n = ELEMENTS, rows = ELEMENTS / 768;
  const double f = sizeof(float);
  report_bytes(b, "add", do_add, (work){.n = n}, 3 * f * (double)n);
  report_bytes(b, "swiglu_forward", do_swiglu, (work){.n = n}, 3 * f * (double)n);
  report_bytes(b, "swiglu_backward", do_swiglu_backward, (work){.n = n}, 5 * f * (double)n);
  report_bytes(b, "gelu_forward", do_gelu, (work){.n = n}, 2 * f * (double)n);
  report_bytes(b, "gelu_backward", do_gelu_backward, (work){.n = n}, 3 * f * (double)n);
  report_bytes(b, "sum_squares", do_sum_squares, (work){.n = n}, f * (double)n);
  report_bytes(b, "adamw", do_adamw, (work){.n = n}, 7 * f * (double)n);
  report_bytes(b, "rmsnorm_forward 768", do_rmsnorm, (work){.rows = rows, .n = 768},
               2 * f * (double)rows * 768);
  report_bytes(b, "rmsnorm_forward 64", do_rmsnorm, (work){.rows = n / 64, .n = 64}, 2 * f * (double)n);
  report_bytes(b, "rmsnorm_backward 768", do_rmsnorm_backward, (work){.rows = rows, .n = 768},
               4 * f * (double)rows * 768);
  report_bytes(b, "layernorm_forward 768", do_layernorm, (work){.rows = rows, .n = 768},
               2 * f * (double)rows * 768);
  report_bytes(b, "rope halves 12 x 64", do_rope, (work){.rows = rows, .n = 64, .extra = 12},
               2 * f * (double)rows * 768);
  report_bytes(b, "rope interleaved 12 x 64", do_rope,
               (work){.rows = rows, .n = 64, .extra = 12, .flag = true}, 2 * f * (double)rows * 768);
  report_bytes(b, "embedding_forward F32", do_embedding, (work){.rows = 4096, .n = 768, .dtype = CH_F32},
               2 * f * 4096 * 768);
  report_bytes(b, "embedding_forward BF16", do_embedding, (work){.rows = 4096, .n = 768, .dtype = CH_BF16},
               1.5 * f * 4096 * 768);
  report_bytes(b, "embedding_backward", do_embedding_backward, (work){.rows = 4096, .n = 768, .extra = 32000},
               3 * f * 4096 * 768);
  report_bytes(b, "cross_entropy 32000, loss", do_cross_entropy, (work){.rows = 512, .n = 32000},
               f * 512 * 32000);
  report_bytes(b, "cross_entropy 32000, loss and gradient", do_cross_entropy,
               (work){.rows = 512, .n = 32000, .flag = true}, 2 * f * 512 * 32000);
  report_bytes(b, "convert_from F16", do_convert_from, (work){.n = n, .dtype = CH_F16}, 1.5 * f * (double)n);
  report_bytes(b, "convert_from BF16", do_convert_from, (work){.n = n, .dtype = CH_BF16},
               1.5 * f * (double)n);
  report_bytes(b, "convert_to F16", do_convert_to, (work){.n = n, .dtype = CH_F16}, 1.5 * f * (double)n);
  report_bytes(b, "convert_to BF16", do_convert_to, (work){.n = n, .dtype = CH_BF16}, 1.5 * f * (double)n);
}

static void bench_gemv(const bench *b) {
  static const int64_t shapes[][2] = {{768, 768}, {768, 2048}, {2048, 768}, {768, 32000}};
  static const int64_t rows[] = {1, 2, 4, 8, 16};
  const struct {
    const char *name;
    ch_dtype dtype;
    work_function function;
    bool there; /* true if this machine's kernel table has the function */
  } ways[] = {
      {"gemv F32", CH_F32, do_gemv, true},
      {"gemv F16", CH_F16, do_gemv, true},
      {"gemv BF16", CH_BF16, do_gemv, true},
      {"gemv_bf16 BF16", CH_BF16, do_gemv_bf16, b->k->gemv_bf16 != NULL},
      {"gemv_split BF16", CH_BF16, do_gemv_split, b->k->gemv_split != NULL},
  };
  for (int s = 0; s < 4; s++)
    for (int r = 0; r < 5; r++)
      for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!ways[i].there) continue;
        char name[80];
        snprintf(name, sizeof name, "%s [%lld, %lld] x %lld", ways[i].name, (long long)shapes[s][1],
                 (long long)shapes[s][0], (long long)rows[r]);
        report_bytes(
            b, name, ways[i].function,
            (work){.rows = rows[r], .n = shapes[s][0], .extra = shapes[s][1], .dtype = ways[i].dtype},
            (double)(shapes[s][0] * shapes[s][1]) * (double)ch_dtype_size(ways[i].dtype));
      }
}

static void bench_tiles(const bench *b) {
  static const int64_t shapes[][3] = {{64, 64, 64},  {64, 128, 64}, {64, 256, 64},
                                      {64, 64, 128}, {64, 63, 65},  {17, 64, 64}};
  double one_core = b->peak / omp_get_max_threads();
  for (int s = 0; s < 6; s++)
    for (int transposed = 0; transposed < 2; transposed++) {
      char name[80];
      snprintf(name, sizeof name, "tile_product %lld x %lld x %lld%s", (long long)shapes[s][0],
               (long long)shapes[s][1], (long long)shapes[s][2], transposed ? ", A^T" : "");
      report_flops(b, name, do_tile,
                   (work){.rows = shapes[s][0], .n = shapes[s][1], .extra = shapes[s][2], .flag = transposed},
                   100.0 * (double)(shapes[s][0] * shapes[s][1] * shapes[s][2]), one_core);
    }
}

int main(int count, char **arguments) {
  bench b = {.k = ch_kernels_best(CH_F32), .filter = count > 1 ? arguments[1] : NULL};
  const size_t bytes = (size_t)BUFFERS * ELEMENTS * sizeof(float);
  float *memory = ch_pages_alloc(bytes);
  if (!memory) return fprintf(stderr, "memory is out for the buffers\n"), 1;
  for (int i = 0; i < BUFFERS; i++) {
    b.buffer[i] = memory + (size_t)i * ELEMENTS;
    b.k->fill(ch_team_here(), ELEMENTS, 1e-3 * (i + 1), b.buffer[i]);
  }
  b.scratch = calloc(1 << 20, sizeof(float));
  b.ids = malloc((1 << 17) * sizeof *b.ids);
  /* This is enough for gemv_split with the most rows and the longest ones of bench_gemv. gemv_bf16 needs less. */
  const size_t room_bytes = (size_t)omp_get_max_threads() * ch_gemv_split_room(16, 2048);
  b.room = ch_pages_alloc(room_bytes);
  if (!b.scratch || !b.ids || !b.room) return fprintf(stderr, "memory is out for the buffers\n"), 1;
  for (int i = 0; i < 1 << 17; i++) b.ids[i] = (int32_t)(((uint32_t)i * 2654435761u) >> 8) % 32000;
  b.peak = ch_measure_fma_peak_f32(CH_LIMIT_BEST);
  b.bandwidth = ch_measure_read_bandwidth(CH_LIMIT_BEST);
  printf("kernels: %s, %d threads; measured: %.0f GFLOP/s multiply-add peak, %.1f GB/s read bandwidth\n",
         b.k->name, omp_get_max_threads(), b.peak * 1e-9, b.bandwidth * 1e-9);
  bench_elementwise(&b);
  bench_gemv(&b);
  bench_tiles(&b);
  ch_pages_free(memory, bytes);
  ch_pages_free(b.room, room_bytes);
  free(b.scratch);
  free(b.ids);
  return 0;
}
