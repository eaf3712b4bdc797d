/* Measuring the machine's limits: multiply-adds in registers, and reading from memory. */
#include "tensor/limits.h"

#include <omp.h>
#include <stdint.h>

#include "base/memory.h"
#include "tensor/kernels.h"

/* Far more than the caches of one socket that two cores get; each pass is a few hundredths of a second. */
static const int64_t READ_BYTES = INT64_C(1) << 30;
enum { FMA_ROUNDS = 1 << 20, FMA_REPEATS = 12, READ_REPEATS = 6 };

double ch_measure_fma_peak_f32(void) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  double best = 0, kept = 0;
  for (int repeat = 0; repeat < FMA_REPEATS; repeat++) {
    double flops = 0, start = 0, end = 0;
#pragma omp parallel reduction(+ : flops, kept)
    {
      double own;
#pragma omp barrier
#pragma omp master
      start = omp_get_wtime();
      kept += kernels->fma_loop(FMA_ROUNDS, 1e-6 * (repeat + 1), &own);
      flops += own;
#pragma omp barrier
#pragma omp master
      end = omp_get_wtime();
    }
    if (flops / (end - start) > best) best = flops / (end - start);
  }
  return kept == 0.125 ? 0 : best; /* using the sum, so that no loop is left out */
}

double ch_measure_read_bandwidth(void) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  float *memory = ch_pages_alloc((size_t)READ_BYTES);
  if (!memory) return 0;
  int64_t n = READ_BYTES / (int64_t)sizeof *memory;
  kernels->fill(n, 1, memory); /* by the threads that will read it */
  double best = 0, kept = 0;
  for (int repeat = 0; repeat < READ_REPEATS; repeat++) {
    double start = omp_get_wtime();
#pragma omp parallel reduction(+ : kept)
    {
      int64_t part = n / omp_get_num_threads();
      kept += kernels->read_loop(part, memory + part * omp_get_thread_num());
    }
    double rate = (double)READ_BYTES / (omp_get_wtime() - start);
    if (rate > best) best = rate;
  }
  ch_pages_free(memory, (size_t)READ_BYTES);
  return kept == 0.125 ? 0 : best;
}
