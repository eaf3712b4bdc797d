/* Reading /proc: run queues and load. */
#include "tensor/contention.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* /proc/PID/task/TID/schedstat: nanoseconds run, nanoseconds waited, time slices. */
static bool add_thread(const char *name, ch_waiting *waiting) {
  char path[64];
  unsigned long long ran, waited;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", name);
  FILE *file = fopen(path, "r");
  bool known = file && fscanf(file, "%llu %llu", &ran, &waited) == 2;
  if (file) fclose(file);
  if (known)
    *waiting = (ch_waiting){waiting->ran + 1e-9 * (double)ran, waiting->waited + 1e-9 * (double)waited};
  return known;
}

bool ch_read_waiting(ch_waiting *waiting) {
  *waiting = (ch_waiting){0};
  DIR *threads = opendir("/proc/self/task");
  if (!threads) return false;
  int known = 0;
  for (struct dirent *entry; (entry = readdir(threads));)
    if (entry->d_name[0] != '.') known += add_thread(entry->d_name, waiting);
  closedir(threads);
  return known > 0;
}

bool ch_machine_is_busy(void) {
  double minute;
  int running;
  FILE *file = fopen("/proc/loadavg", "r");
  bool known = file && fscanf(file, "%lf %*f %*f %d/", &minute, &running) == 2;
  if (file) fclose(file);
  /* This thread runs, and perhaps a second one of the program that opens files. */
  double others = known ? fmin(running - 2, round(minute)) : 0;
  return 2 * others >= (double)sysconf(_SC_NPROCESSORS_ONLN);
}
