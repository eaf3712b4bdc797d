/* Joins the job in which a launcher (mpirun, srun) started this process. Without a launcher, MPI is not loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ranks/launch.h"
#include "ranks/ranks.h"

/* The directory of the module, from the build; "" in a build without MPI. */
#ifndef CH_MPI_MODULE_DIRECTORY
#define CH_MPI_MODULE_DIRECTORY ""
#endif
enum { BUILT_WITH_MPI = sizeof CH_MPI_MODULE_DIRECTORY > 1 };

static const char module_name[] = "crosshead-mpi.so";

/* Returns the value of the first environment variable in `names` that is a number from 0 to INT_MAX. Returns
   `otherwise` if there is none. */
static int number_in(const char *const *names, int otherwise) {
  for (; *names; names++) {
    double number;
    const char *value = getenv(*names);
    if (value && ch_parse_number(value, &number) && number >= 0 && number <= INT_MAX) return (int)number;
  }
  return otherwise;
}

/* Returns the number of processes that the launcher started: Open MPI, MPICH (and Slurm with PMI-2), or Slurm with
   PMIx. */
static int expected_count(void) {
  static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
  static const char *const tasks[] = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", NULL};
  int count = number_in(sizes, 0);
  if (count > 0) return count;
  return getenv("PMIX_RANK") ? number_in(tasks, 1) : 1;
}

int ch_launched_rank(void) {
  static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", NULL};
  return expected_count() > 1 ? number_in(ranks, 0) : 0;
}

/* --- the module ----------------------------------------------------------------------------------------- */

/* Opens the module that CROSSHEAD_MPI names, or else searches for it: relative to this library and this program, as in
   the build and in an installation, then in CH_MPI_MODULE_DIRECTORY. */
static void *open_module(void) {
  static const char *const places[] = {"", "crosshead/", "../lib/crosshead/", NULL};
  const char *named = getenv("CROSSHEAD_MPI");
  if (named && *named) return dlopen(named, RTLD_NOW | RTLD_GLOBAL);
  Dl_info self;
  char path[PATH_MAX], program[PATH_MAX] = "";
  void *module = NULL;
  bool known = dladdr((void *)(uintptr_t)module_name, &self) != 0 && self.dli_fname;
  if (!realpath("/proc/self/exe", program)) program[0] = 0;
  const char *files[] = {known ? self.dli_fname : "", program};
  for (int f = 0; f < 2; f++)
    for (int i = 0; !module && places[i]; i++) {
      const char *slash = strrchr(files[f], '/');
      int length = slash ? snprintf(path, sizeof path, "%.*s%s%s", (int)(slash + 1 - files[f]), files[f],
                                    places[i], module_name)
                         : -1;
      if (length > 0 && (size_t)length < sizeof path) module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
  if (!module && BUILT_WITH_MPI)
    module = dlopen(CH_MPI_MODULE_DIRECTORY "/crosshead-mpi.so", RTLD_NOW | RTLD_GLOBAL);
  return module;
}

static ch_status no_module(int count, ch_error *error) {
  const char *reason = dlerror();
  if (!BUILT_WITH_MPI && !getenv("CROSSHEAD_MPI"))
    return ch_fail(error, CH_ERROR_IO,
                   "%d processes were started together, but this build has no MPI; build Crosshead where MPI "
                   "is installed, or start one process",
                   count);
  return ch_fail(error, CH_ERROR_IO, "%d processes were started together, but MPI cannot be loaded: %s",
                 count, reason ? reason : module_name);
}

ch_status ch_join_ranks(ch_rank_group **ranks, ch_error *error) {
  *ranks = NULL;
  int expected = expected_count(), rank = 0, count = 0;
  if (expected < 2) return CH_OK;
  void *module = open_module(), *context = NULL;
  if (!module) return no_module(expected, error);
  ch_transport_opener open;
  void *symbol = dlsym(module, CH_TRANSPORT_OPENER);
  memcpy(&open, &symbol, sizeof open);
  const char *reason = "the module is of another version";
  const ch_transport *transport = open ? open(&context, &rank, &count, &reason) : NULL;
  if (!transport) return ch_fail(error, CH_ERROR_IO, "MPI does not start: %s", reason);
  if (count != expected) {
    transport->leave(context);
    return ch_fail(error, CH_ERROR_IO,
                   "the launcher started %d processes, but MPI sees %d; start them with the mpirun of the "
                   "same MPI, or with srun and PMIx",
                   expected, count);
  }
  ch_status status = ch_ranks_create(transport, context, rank, count, ranks, error);
  if (status != CH_OK) transport->leave(context);
  return status;
}
