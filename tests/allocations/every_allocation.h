/* Runs a job repeatedly: its first allocation fails, then its second, and so on until all succeed. Each time the job
 * must end with a status and a one-line message, free all memory and leave no partial file.
 *
 * Allocations of threading and linear algebra libraries never fail here, for the reason in failing.h. */
#ifndef TESTS_ALLOCATIONS_EVERY_ALLOCATION_H
#define TESTS_ALLOCATIONS_EVERY_ALLOCATION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <dirent.h>
#include <omp.h>
#include <signal.h>

#include "allocations/failing.h"
#include "base/error.h"
#include "base/file.h"

/* A job releases everything that it creates, except files under `directory`. */
typedef ch_status job(const char *directory, ch_error *error);

static const char *current;
static long current_n;

static void tell_and_end(int number) {
  fprintf(stderr, "%s: signal %d with allocation %ld failing\n", current, number, current_n);
  signal(number, SIG_DFL);
  raise(number);
}

/* Counts the files below a directory and removes them. */
static int left_files(const char *directory) {
  int count = 0;
  DIR *open = opendir(directory);
  for (struct dirent *entry; open && (entry = readdir(open));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char *path = ch_path_join(directory, entry->d_name);
    if (ch_is_directory(path)) {
      count += left_files(path);
      rmdir(path);
    } else {
      count++;
      unlink(path);
    }
    free(path);
  }
  if (open) closedir(open);
  return count;
}

/* Runs a job as described above. If `whole`, files may be left after an error, because the job writes several, each of
   them complete. */
static inline void check_every_allocation(const char *name, job *work, bool whole) {
  char directory[64];
  snprintf(directory, sizeof directory, "%s/crosshead-test-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (!mkdtemp(directory)) fail_msg("no directory can be made at %s", directory);
  ch_error error = {0};
  current = name;
  /* the first run also makes the allocations that a process makes once */
  if (work(directory, &error) != CH_OK) fail_msg("%s: %s", name, error.message);
  left_files(directory);
  bool reached = true;
  for (current_n = 1; reached; current_n++) {
    error = (ch_error){0};
    failing_start(current_n);
    ch_status status = work(directory, &error);
    reached = failing_stop();
    long lost = failing_left();
    if (lost != 0)
      fail_msg("%s: allocation %ld failed, and %ld others were lost (%s)", name, current_n, lost,
               error.message);
    if (status != CH_OK && (status != error.status || !*error.message || strchr(error.message, '\n')))
      fail_msg("%s: allocation %ld failed with status %d and the message \"%s\"", name, current_n, status,
               error.message);
    if (status != CH_OK && !reached) fail_msg("%s: %s, though nothing failed", name, error.message);
    if (status != CH_OK && status != CH_ERROR_MEMORY && getenv("EVERY_MESSAGE"))
      print_message("%s %ld: %s\n", name, current_n, error.message);
    int left = left_files(directory);
    if (status != CH_OK && left > 0 && !whole)
      fail_msg("%s: allocation %ld failed, and %d files were left", name, current_n, left);
  }
  rmdir(directory);
  print_message("%s: %ld allocations\n", name, current_n - 2);
  assert_true(current_n > 10);
}

/* Runs the tests with one thread, so that every run of a job has the same allocations. */
#define RUN_ON_ONE_THREAD(tests)                                                                             \
  (omp_set_num_threads(1), signal(SIGSEGV, tell_and_end), signal(SIGABRT, tell_and_end),                     \
   cmocka_run_group_tests(tests, NULL, NULL))

#endif
