/* Measures the matrix products of training and prefill in GFLOP/s: by oneDNN's matmul primitive, its sgemm, its matmul
 * with weights packed at every call, OpenBLAS, the kernel for few rows (gemv), and the function that ch_gemm chooses.
 * Usage: bench_gemm [part of a name]. Threads: OMP_NUM_THREADS. OPENBLAS_LIBRARY names the OpenBLAS to load. */
#include <dlfcn.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/limits.h"
#include "bench/packed.h"
#include "tensor/gemm.h"
#include "bench/timing.h"
#include "tensor/gemm_library.h"

enum { ROUNDS = 5, WAYS = 6, MOST_TIMES = 1 << 15 };
static const double ROUND_SECONDS = 0.04;

typedef void (*cblas_sgemm_function)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                                     float alpha, const float *a, int lda, const float *b, int ldb,
                                     float beta, float *c, int ldc);

typedef struct bench {
  const ch_kernels *kernels;
  ch_gemm *gemm;
  ch_gemm_library *library;
  ch_packed *packed;
  cblas_sgemm_function cblas_sgemm;
  float *a, *b, *c;
} bench;

/* Computes a product. Returns false if that is not possible. */
typedef bool (*way_function)(bench *b, const ch_gemm_shape *s);

static bool by_choice(bench *b, const ch_gemm_shape *s) {
  return ch_gemm_run(b->gemm, s->transpose_a, s->transpose_b, s->m, s->n, s->k, b->a, s->lda, b->b, s->ldb,
                     b->c, s->ldc, s->accumulate, NULL) == CH_OK;
}

static bool by_matmul(bench *b, const ch_gemm_shape *s) {
  return ch_gemm_library_matmul(b->library, s, b->a, b->b, b->c, NULL) == CH_OK;
}

static bool by_sgemm(bench *b, const ch_gemm_shape *s) {
  return ch_gemm_library_sgemm(b->library, s, b->a, b->b, b->c, NULL) == CH_OK;
}

static bool by_packed(bench *b, const ch_gemm_shape *s) {
  return ch_packed_run(b->packed, s, b->a, b->b, b->c);
}

static bool by_openblas(bench *b, const ch_gemm_shape *s) {
  enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
  if (!b->cblas_sgemm) return false;
  b->cblas_sgemm(ROW_MAJOR, s->transpose_a ? TRANSPOSED : PLAIN, s->transpose_b ? TRANSPOSED : PLAIN,
                 (int)s->m, (int)s->n, (int)s->k, 1, b->a, (int)s->lda, b->b, (int)s->ldb,
                 s->accumulate ? 1 : 0, b->c, (int)s->ldc);
  return true;
}

static bool by_gemv(bench *b, const ch_gemm_shape *s) {
  if (s->transpose_a || !s->transpose_b || s->m > 128) return false;
  b->kernels->gemv(ch_team_here(), s->m, s->k, b->a, CH_F32, 1, &(ch_product){s->n, b->b, NULL, b->c},
                   s->accumulate);
  return true;
}

static const way_function ways[WAYS] = {by_choice, by_matmul, by_sgemm, by_packed, by_openblas, by_gemv};
static const char *const way_names[WAYS] = {"chosen", "matmul", "sgemm", "packed", "OpenBLAS", "gemv"};

/* The context of a timed product. */
typedef struct way_call {
  way_function way;
  bench *b;
  const ch_gemm_shape *s;
} way_call;

static ch_status call_way(void *context, ch_error *error) {
  const way_call *c = context;
  (void)error;
  c->way(c->b, c->s);
  return CH_OK;
}

static void time_product(bench *b, const char *name, const ch_gemm_shape *s) {
  static double seconds[WAYS][MOST_TIMES];
  way_call calls[WAYS];
  ch_timed_work works[WAYS];
  /* serving: index in `works` of each function, or -1 if it cannot compute the product */
  int serving[WAYS], count = 0;
  ch_packed_forget(b->packed); /* drops the shape of the previous product */
  for (int w = 0; w < WAYS; w++) {
    calls[w] = (way_call){ways[w], b, s};
    serving[w] = ways[w](b, s) ? count++ : -1;
    if (serving[w] >= 0)
      works[serving[w]] =
          (ch_timed_work){.context = &calls[w], .once = call_way, .seconds = seconds[serving[w]]};
  }
  ch_timing timing = {.least = ROUNDS,
                      .most = MOST_TIMES,
                      .turn_seconds = ROUND_SECONDS,
                      .enough_seconds = ROUNDS * ROUND_SECONDS * count};
  ch_time(&timing, count, works, NULL);
  printf("%-34s", name);
  for (int w = 0; w < WAYS; w++)
    if (serving[w] >= 0)
      printf(" %8.0f",
             2e-9 * (double)s->m * (double)s->n * (double)s->k / ch_shortest_time(&works[serving[w]]));
    else
      printf(" %8s", "-");
  printf("\n");
  fflush(stdout);
}

/* Times the products of a linear layer [out, in] on `rows` tokens: the forward product and, with `backward`, those of
   both gradients, each also added to an earlier gradient. */
static void time_layer(bench *b, const char *filter, int64_t rows, int64_t out, int64_t in, bool backward) {
  const struct {
    const char *name;
    ch_gemm_shape shape;
  } products[] = {
      {"y = x W^T", {rows, out, in, in, in, out, false, true, false, false, false, false}},
      {"dx = dy W", {rows, in, out, out, in, in, false, false, false, false, false, false}},
      {"dx += dy W", {rows, in, out, out, in, in, false, false, true, false, false, false}},
      {"dW = dy^T x", {out, in, rows, out, in, in, true, false, false, false, false, false}},
      {"dW += dy^T x", {out, in, rows, out, in, in, true, false, true, false, false, false}},
  };
  for (int p = 0; p < (backward ? 5 : 1); p++) {
    char name[80];
    snprintf(name, sizeof name, "%-13s%5lld x [%lld, %lld]", products[p].name, (long long)rows,
             (long long)out, (long long)in);
    if (!filter || strstr(name, filter)) time_product(b, name, &products[p].shape);
  }
}

static cblas_sgemm_function load_openblas(void) {
  const char *name = getenv("OPENBLAS_LIBRARY");
  void *library = dlopen(name ? name : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  cblas_sgemm_function function = NULL;
  if (library) *(void **)&function = dlsym(library, "cblas_sgemm");
  const char *(*config)(void) = NULL;
  if (library) *(void **)&config = dlsym(library, "openblas_get_config");
  printf("OpenBLAS: %s\n", config ? config() : "not found");
  return function;
}

int main(int count, char **arguments) {
  static const int64_t training[][3] = {
      {4096, 384, 384}, {4096, 1024, 384}, {4096, 384, 1024}, {1024, 8192, 384}, /* shape A */
      {2048, 768, 768}, {2048, 2048, 768}, {2048, 768, 2048}, {512, 32000, 768}, /* shape B */
  };
  static const int64_t prefill_rows[] = {4, 8, 12, 16, 24, 32, 64, 128, 256, 512};
  static const int64_t prefill[][2] = {{768, 768}, {2048, 768}, {768, 2048}};
  const char *filter = count > 1 ? arguments[1] : NULL;
  const size_t bytes = (size_t)32000 * 2048 * sizeof(float);
  const ch_team team = ch_team_of(0); /* must outlive b.gemm */
  bench b = {.kernels = ch_kernels_best(CH_F32), .packed = ch_packed_create()};
  b.a = ch_pages_alloc(bytes), b.b = ch_pages_alloc(bytes), b.c = ch_pages_alloc(bytes);
  ch_error error;
  if (!b.a || !b.b || !b.c || !b.packed) return fprintf(stderr, "memory is out for the buffers\n"), 1;
  if (ch_gemm_create(b.kernels, &team, &b.gemm, &error) || ch_gemm_library_create(&b.library, &error))
    return fprintf(stderr, "%s\n", error.message), 1;
  b.cblas_sgemm = load_openblas();
  b.kernels->fill(ch_team_here(), (int64_t)(bytes / sizeof(float)), 0.5, b.a);
  b.kernels->fill(ch_team_here(), (int64_t)(bytes / sizeof(float)), 1e-6, b.b);
  b.kernels->fill(ch_team_here(), (int64_t)(bytes / sizeof(float)), 0, b.c);
  printf("%d threads; measured multiply-add peak: %.0f GFLOP/s\n%-34s", omp_get_max_threads(),
         1e-9 * ch_measure_fma_peak_f32(CH_LIMIT_BEST), "GFLOP/s");
  for (int w = 0; w < WAYS; w++) printf(" %8s", way_names[w]);
  printf("\n");
  for (size_t t = 0; t < sizeof training / sizeof *training; t++)
    time_layer(&b, filter, training[t][0], training[t][1], training[t][2], true);
  for (size_t s = 0; s < sizeof prefill / sizeof *prefill; s++)
    for (size_t r = 0; r < sizeof prefill_rows / sizeof *prefill_rows; r++)
      time_layer(&b, filter, prefill_rows[r], prefill[s][0], prefill[s][1], false);
  for (size_t r = 0; r < 6; r++) time_layer(&b, filter, prefill_rows[r], 32000, 768, false);
  printf("measured multiply-add peak at the end: %.0f GFLOP/s\n",
         1e-9 * ch_measure_fma_peak_f32(CH_LIMIT_BEST));
  ch_gemm_free(b.gemm);
  ch_gemm_library_free(b.library);
  ch_packed_free(b.packed);
  ch_pages_free(b.a, bytes), ch_pages_free(b.b, bytes), ch_pages_free(b.c, bytes);
  return 0;
}
