/* Reads /proc/stat: the share of the machine that other programs used during a measurement. */
#include "bench/load.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/progress.h"

static const double least_seconds = 0.05, tolerated = 0.25;

/* Returns the busy seconds of all processors since the machine's start, or -1. Idle time and waits for devices do not
 * count; time that a host took from a virtual machine does. */
static double processor_seconds(void) {
  double t[8];
  FILE *file = fopen("/proc/stat", "re");
  bool known = file && fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4],
                              &t[5], &t[6], &t[7]) == 8;
  if (file) fclose(file);
  double ticks = (double)sysconf(_SC_CLK_TCK);
  return known && ticks > 0 ? (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / ticks : -1;
}

static double seconds_of(struct timeval time) {
  return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

ch_load ch_load_now(void) {
  struct rusage usage;
  ch_load now = {.all = processor_seconds(), .clock = ch_clock()};
  if (getrusage(RUSAGE_SELF, &usage) == 0) now.own = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  return now;
}

double ch_load_of_others(const ch_load *from, const ch_load *to) {
  double seconds = to->clock - from->clock;
  if (from->all < 0 || to->all < 0 || seconds < least_seconds) return 0;
  double others = ((to->all - from->all) - (to->own - from->own)) / seconds;
  return others > 0 ? others : 0;
}

bool ch_load_disturbs(double others, int threads, int processors) {
  return others > (double)(processors > threads ? processors - threads : 0) + tolerated;
}

bool ch_load_disturbed(const ch_load *from, const ch_load *to, int threads) {
  return ch_load_disturbs(ch_load_of_others(from, to), threads, (int)sysconf(_SC_NPROCESSORS_ONLN));
}
