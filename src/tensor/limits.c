/* Measuring the machine's limits: arithmetic in registers, and reading from memory and caches. */
#define _GNU_SOURCE
#include "tensor/limits.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/kernels.h"
#include "tensor/limits_dots.h"

/* Far more than the caches of one socket that two cores get; each pass is a few hundredths of a second. */
static const int64_t READ_BYTES = INT64_C(1) << 29, PROBE_BYTES = INT64_C(1) << 28;
enum { PAGE = 4096, ROUNDS = 1 << 20, REPEATS = 12, READ_REPEATS = 6 };
/* A thread reads so much in one repeat of a cache's measurement. */
static const int64_t CACHE_READ_BYTES = INT64_C(1) << 27;

/* One thread's share of the work: what was done, in FLOPs or bytes. The sum it returns depends on all of it. */
typedef double (*work)(const void *context, int repeat, double *done);

/* The best rate of all threads together. */
static double best_rate(work one, const void *context) {
  double best = 0, kept = 0;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    double done = 0, start = 0, end = 0;
#pragma omp parallel reduction(+ : done, kept)
    {
      double own = 0;
#pragma omp barrier
#pragma omp master
      start = omp_get_wtime();
      kept += one(context, repeat, &own);
      done += own;
#pragma omp barrier
#pragma omp master
      end = omp_get_wtime();
    }
    if (done / (end - start) > best) best = done / (end - start);
  }
  return kept == 0.125 ? 0 : best; /* using the sum, so that no loop is left out */
}

/* --- arithmetic -------------------------------------------------------------------------------------------------- */

static double multiply_add(const void *context, int repeat, double *done) {
  const ch_kernels *kernels = context;
  return kernels->fma_loop(ROUNDS, 1e-6 * (repeat + 1), done);
}

double ch_measure_fma_peak_f32(void) {
  return best_rate(multiply_add, ch_kernels_best(CH_F32));
}

static double dot(const void *context, int repeat, double *done) {
  const ch_dot_loop *loop = context;
  return (*loop)(ROUNDS, repeat, done);
}

/* The instruction set in use is lowered for tests: what it lacks is no limit of it. */
static double dot_peak(ch_dot_loop loop) {
  const ch_kernels *used = ch_kernels_best(CH_F32);
  if (used == ch_kernels_for(CH_F32, CH_ISA_PLAIN) || used == ch_kernels_for(CH_F32, CH_ISA_AVX2)) return 0;
  return loop ? best_rate(dot, &loop) : 0;
}

double ch_measure_dot_peak_bf16(void) {
  return dot_peak(ch_dot_loop_bf16());
}

double ch_measure_dot_peak_int8(void) {
  return dot_peak(ch_dot_loop_int8());
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

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

typedef struct cached {
  const char *data;
  int64_t bytes; /* a thread */
} cached;

static double read_again(const void *context, int repeat, double *done) {
  const cached *c = context;
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  const char *own = c->data + c->bytes * omp_get_thread_num();
  double sum = repeat;
  for (int64_t read = 0; read < CACHE_READ_BYTES; read += c->bytes, *done += (double)c->bytes)
    sum += kernels->read_loop(c->bytes / (int64_t)sizeof(float), own);
  return sum;
}

static double cached_bandwidth(int64_t bytes) {
  ch_read_probe probe = open_probe(bytes * ch_threads());
  cached c = {.data = (const char *)probe.data, .bytes = bytes};
  double rate = probe.data ? best_rate(read_again, &c) : 0;
  ch_read_probe_close(&probe);
  return rate;
}

/* The first line of a small file; false when there is none. */
static bool read_line(const char *path, char *line, int size) {
  FILE *file = fopen(path, "re");
  bool got = file && fgets(line, size, file);
  if (file) fclose(file);
  return got;
}

/* Processors in a list such as "0-3,8-11". */
static int64_t processors_in(const char *list) {
  int64_t count = 0;
  for (const char *at = list; *at >= '0' && *at <= '9'; at += *at == ',') {
    char *end;
    long first = strtol(at, &end, 10), last = first;
    if (*end == '-') last = strtol(end + 1, &end, 10);
    count += last - first + 1;
    at = end;
  }
  return count;
}

/* What one of this program's threads may count on of the first processor's cache of a level, as Linux tells (in virtual
   machines sysconf may not know); 0 where it does not. */
static int64_t cache_share(int level) {
  for (int index = 0;; index++) {
    char path[80], line[256], *unit;
    int end = snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/", index);
    char *name = path + end;
    strcpy(name, "level");
    if (!read_line(path, line, sizeof line)) return 0;
    if (atoi(line) != level) continue;
    strcpy(name, "size");
    if (!read_line(path, line, sizeof line)) return 0;
    int64_t bytes = strtol(line, &unit, 10);
    bytes *= *unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : 1;
    strcpy(name, "shared_cpu_list");
    int64_t sharing = read_line(path, line, sizeof line) ? processors_in(line) : 1;
    if (sharing > ch_threads()) sharing = ch_threads();
    return bytes / (sharing > 0 ? sharing : 1);
  }
}

/* Half of a cache: programs need some of it. */
static int64_t half_of(int64_t bytes) {
  return bytes / 2 / PAGE * PAGE;
}

double ch_measure_read_bandwidth_l2(void) {
  int64_t bytes = half_of(cache_share(2));
  return bytes > 0 ? cached_bandwidth(bytes) : 0;
}

double ch_measure_read_bandwidth_l3(void) {
  int64_t bytes = half_of(cache_share(3));
  return bytes > 0 && bytes >= 2 * cache_share(2) ? cached_bandwidth(bytes) : 0;
}
