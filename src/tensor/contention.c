/* Reads run queues and load from /proc. */
#include "tensor/contention.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Adds a thread's running and waiting time from /proc/PID/task/TID/schedstat, whose fields are nanoseconds
   run, nanoseconds waited, time slices. */
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

/* Returns the number of this process's threads for which `counts` returns true. */
static int count_threads(bool (*counts)(const char *name, ch_waiting *waiting), ch_waiting *waiting) {
  int count = 0;
  DIR *threads = opendir("/proc/self/task");
  for (struct dirent *entry; threads && (entry = readdir(threads));)
    if (entry->d_name[0] != '.') count += counts(entry->d_name, waiting);
  if (threads) closedir(threads);
  return count;
}

bool ch_read_waiting(ch_waiting *waiting) {
  *waiting = (ch_waiting){0};
  return count_threads(add_thread, waiting) > 0;
}

/* Returns true if the state in /proc/PID/task/TID/stat (number, name in parentheses, state) is R. */
static bool is_running(const char *name, ch_waiting *unused) {
  char path[64], text[128] = "";
  (void)unused;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", name);
  FILE *file = fopen(path, "r");
  bool known = file && fgets(text, sizeof text, file);
  if (file) fclose(file);
  const char *end = known ? strrchr(text, ')') : NULL;
  return end && end[1] == ' ' && end[2] == 'R';
}

bool ch_machine_is_busy(void) {
  double minute;
  int running;
  FILE *file = fopen("/proc/loadavg", "r");
  bool known = file && fscanf(file, "%lf %*f %*f %d/", &minute, &running) == 2;
  if (file) fclose(file);
  double others = known ? fmin(running - count_threads(is_running, NULL), round(minute)) : 0;
  return 2 * others >= (double)sysconf(_SC_NPROCESSORS_ONLN);
}
