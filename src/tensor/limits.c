/* Measuring the machine's limits: multiply-adds in registers, and reading from memory. */
#include "tensor/limits.h"

#include <omp.h>

#include "base/memory.h"
#include "tensor/kernels.h"

/* Far more than the caches of one socket that two cores get; each pass is a few hundredths of a second. */
static const int64_t READ_BYTES = INT64_C(1) << 30, PROBE_BYTES = INT64_C(1) << 28;
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

static ch_read_probe open_probe(int64_t bytes) {
  ch_read_probe probe = {.data = ch_pages_alloc((size_t)bytes), .count = bytes / (int64_t)sizeof(float)};
  if (probe.data)
    ch_kernels_best(CH_F32)->fill(probe.count, 1, probe.data); /* by the threads that will read it */
  return probe;
}

ch_read_probe ch_read_probe_open(void) {
  return open_probe(PROBE_BYTES);
}

double ch_read_probe_rate(const ch_read_probe *probe) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  if (!probe->data) return 0;
  double start = omp_get_wtime(), kept = 0, read = 0;
#pragma omp parallel reduction(+ : kept, read)
  {
    int64_t part = probe->count / omp_get_num_threads();
    kept += kernels->read_loop(part, probe->data + part * omp_get_thread_num());
    read += (double)(part * (int64_t)sizeof(float));
  }
  return kept == 0.125 ? 0 : read / (omp_get_wtime() - start);
}

void ch_read_probe_close(ch_read_probe *probe) {
  if (probe->data) ch_pages_free(probe->data, (size_t)probe->count * sizeof(float));
  *probe = (ch_read_probe){0};
}

double ch_measure_read_bandwidth(void) {
  ch_read_probe probe = open_probe(READ_BYTES);
  double best = 0;
  for (int repeat = 0; repeat < READ_REPEATS; repeat++) {
    double rate = ch_read_probe_rate(&probe);
    if (rate > best) best = rate;
  }
  ch_read_probe_close(&probe);
  return best;
}
