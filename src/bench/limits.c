/* Measures the machine's limits: arithmetic in registers, and reading from memory and caches. Benchmarks report the
 * share of a limit that they reach, so that machines can be compared. */
#define _GNU_SOURCE
#include "bench/limits.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/limits_dots.h"
#include "bench/timing.h"
#include "tensor/kernels.h"

/* Bytes that are read to measure memory. They are far more than the caches hold, and a pass needs a few hundredths of
   a second. */
static const int64_t READ_BYTES = INT64_C(1) << 29, PROBE_BYTES = INT64_C(1) << 28;
enum { PAGE = 4096, ROUNDS = 1 << 20, REPEATS = 12, READ_REPEATS = 6, MOST_REPEATS = REPEATS };
/* Bytes that each thread reads in one repetition when a cache is measured. */
static const int64_t CACHE_READ_BYTES = INT64_C(1) << 27;

/* Does one thread's share of the work. *done receives the FLOPs or bytes. The returned sum depends on all of the work,
   and on `repeat`. */
typedef double (*thread_work)(const void *context, int repeat, double *done);

/* The work of all threads together. */
typedef struct team {
  thread_work one;
  const void *context;
  int repeat;
  double done; /* FLOPs or bytes of the last repetition, of all threads */
  double kept; /* total of the returned sums, so that the compiler removes no loop */
} team;

static ch_status run_team(void *context, ch_error *error) {
  team *t = context;
  double done = 0, kept = 0;
  (void)error;
#pragma omp parallel reduction(+ : done, kept)
  {
    double own = 0;
    kept += t->one(t->context, t->repeat, &own);
    done += own;
  }
  t->repeat++;
  t->done = done;
  t->kept += kept;
  return CH_OK;
}

/* Returns the rate of all threads together: the best or the median of several runs. */
static double rate_of(thread_work one, const void *context, int repeats, ch_limit_kind kind) {
  double seconds[MOST_REPEATS];
  team t = {.one = one, .context = context};
  ch_timed_work work = {.context = &t, .once = run_team, .seconds = seconds};
  ch_error error;
  if (ch_time(&(ch_timing){.least = repeats, .most = repeats}, 1, &work, &error) != CH_OK) return 0;
  double taken = kind == CH_LIMIT_BEST ? ch_shortest_time(&work) : ch_timed_median(&work);
  return t.kept == 0.125 ? 0 : t.done / taken;
}

/* --- arithmetic ----------------------------------------------------------------------------------------- */

static double multiply_add(const void *context, int repeat, double *done) {
  const ch_kernels *kernels = context;
  return kernels->fma_loop(ROUNDS, 1e-6 * (repeat + 1), done);
}

double ch_measure_fma_peak_f32(ch_limit_kind kind) {
  return rate_of(multiply_add, ch_kernels_best(CH_F32), REPEATS, kind);
}

static double dot(const void *context, int repeat, double *done) {
  const ch_dot_loop *loop = context;
  return (*loop)(ROUNDS, repeat, done);
}

/* Returns the peak rate of `loop` in operations per second. Returns 0 if the processor does not have its instructions
   (`loop` is NULL), or if the kernels in use are of an instruction set without them, as some tests choose. */
static double dot_peak(ch_dot_loop loop, ch_limit_kind kind) {
  const ch_kernels *used = ch_kernels_best(CH_F32);
  if (used == ch_kernels_for(CH_F32, CH_ISA_PLAIN) || used == ch_kernels_for(CH_F32, CH_ISA_AVX2)) return 0;
  return loop ? rate_of(dot, &loop, REPEATS, kind) : 0;
}

double ch_measure_dot_peak_bf16(ch_limit_kind kind) {
  return dot_peak(ch_dot_loop_bf16(), kind);
}

double ch_measure_dot_peak_int8(ch_limit_kind kind) {
  return dot_peak(ch_dot_loop_int8(), kind);
}

/* --- reading -------------------------------------------------------------------------------------------- */

static ch_read_probe open_probe(int64_t bytes) {
  ch_read_probe probe = {.data = ch_pages_alloc((size_t)bytes), .count = bytes / (int64_t)sizeof(float)};
  /* each thread writes the part that it reads later, so that the part is in the thread's own memory node */
  if (probe.data) ch_kernels_best(CH_F32)->fill(ch_team_here(), probe.count, 1, probe.data);
  return probe;
}

ch_read_probe ch_read_probe_open(void) {
  return open_probe(PROBE_BYTES);
}

/* Reads one thread's share of one pass. */
static double read_part(const void *context, int repeat, double *done) {
  const ch_read_probe *probe = context;
  int64_t part = probe->count / omp_get_num_threads();
  *done = (double)(part * (int64_t)sizeof(float));
  return repeat + ch_kernels_best(CH_F32)->read_loop(part, probe->data + part * omp_get_thread_num());
}

double ch_read_probe_rate(const ch_read_probe *probe) {
  team t = {.one = read_part, .context = probe};
  if (!probe->data) return 0;
  double start = ch_clock();
  run_team(&t, NULL);
  return t.kept == 0.125 ? 0 : t.done / (ch_clock() - start);
}

void ch_read_probe_close(ch_read_probe *probe) {
  if (probe->data) ch_pages_free(probe->data, (size_t)probe->count * sizeof(float));
  *probe = (ch_read_probe){0};
}

double ch_measure_read_bandwidth(ch_limit_kind kind) {
  ch_read_probe probe = open_probe(READ_BYTES);
  double rate = probe.data ? rate_of(read_part, &probe, READ_REPEATS, kind) : 0;
  ch_read_probe_close(&probe);
  return rate;
}

typedef struct cache_part {
  const char *data;
  int64_t bytes; /* bytes per thread */
} cache_part;

static double read_again(const void *context, int repeat, double *done) {
  const cache_part *c = context;
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  const char *own = c->data + c->bytes * omp_get_thread_num();
  double sum = repeat;
  for (int64_t read = 0; read < CACHE_READ_BYTES; read += c->bytes, *done += (double)c->bytes)
    sum += kernels->read_loop(c->bytes / (int64_t)sizeof(float), own);
  return sum;
}

static double cached_bandwidth(int64_t bytes, ch_limit_kind kind) {
  ch_read_probe probe = open_probe(bytes * ch_team_of(0).threads);
  cache_part c = {.data = (const char *)probe.data, .bytes = bytes};
  double rate = probe.data ? rate_of(read_again, &c, REPEATS, kind) : 0;
  ch_read_probe_close(&probe);
  return rate;
}

double ch_measure_read_bandwidth_of(int64_t bytes, ch_limit_kind kind) {
  int64_t share = bytes / ch_team_of(0).threads / PAGE * PAGE;
  return cached_bandwidth(share > PAGE ? share : PAGE, kind);
}

/* Reads the first line of a small file. Returns false if there is none. */
static bool read_line(const char *path, char *line, int size) {
  FILE *file = fopen(path, "re");
  bool got = file && fgets(line, size, file);
  if (file) fclose(file);
  return got;
}

/* Returns the number of processors in a list such as "0-3,8-11". */
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

/* Returns one thread's share of the first processor's cache of a level, in bytes, or 0 if it is unknown. Linux's files
 * are read because sysconf may not know the caches of virtual machines. */
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
    if (sharing > ch_team_of(0).threads) sharing = ch_team_of(0).threads;
    return bytes / (sharing > 0 ? sharing : 1);
  }
}

/* Returns half of a cache, because other data is in it too. */
static int64_t half_of(int64_t bytes) {
  return bytes / 2 / PAGE * PAGE;
}

double ch_measure_read_bandwidth_l2(void) {
  int64_t bytes = half_of(cache_share(2));
  return bytes > 0 ? cached_bandwidth(bytes, CH_LIMIT_BEST) : 0;
}

double ch_measure_read_bandwidth_l3(void) {
  int64_t bytes = half_of(cache_share(3));
  return bytes > 0 && bytes >= 2 * cache_share(2) ? cached_bandwidth(bytes, CH_LIMIT_BEST) : 0;
}
