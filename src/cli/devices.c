/* Counts the GPUs that PyTorch sees and starts a process for each group of them, so that one command uses all devices.
 * The processes are ranks of one job (job.c). */
#define _GNU_SOURCE
#include "cli/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/job.h"

enum { MOST_DEVICES = 1024 };

/* Returns the number that `PYTHON -c CODE` prints, or -1 if it fails. */
static int ask_python(const char *python, const char *code) {
  ch_text command = {0};
  int number = -1;
  /* the interpreter's name is a variable of the shell, so it may have any characters */
  ch_text_printf(&command, "\"$CROSSHEAD_PYTHON\" -c '%s' 2>/dev/null", code);
  setenv("CROSSHEAD_PYTHON", python, 1);
  FILE *output = command.data && !command.failed ? popen(command.data, "re") : NULL;
  if (output && fscanf(output, "%d", &number) != 1) number = -1;
  if (output) pclose(output);
  ch_text_free(&command);
  return number;
}

static int count_names(const char *list) {
  int count = 1;
  for (; (list = strchr(list, ',')); list++) count++;
  return count;
}

/* Returns the number of GPUs that PyTorch sees, or -1 if PyTorch cannot run. */
static int count_gpus(const char *given) {
  char *python = ch_python_of(given);
  int gpus = python ? ask_python(python, "import torch; print(torch.cuda.device_count())") : -1;
  free(python);
  return gpus;
}

/* Returns a name `count` times, separated by commas; "cuda" gets numbers. NULL: out of memory. */
static char *repeat(const char *name, int count, ch_error *error) {
  ch_text list = {0};
  for (int i = 0; i < count; i++) {
    ch_text_printf(&list, "%s%s", i ? "," : "", name);
    if (strcmp(name, "cuda") == 0) ch_text_printf(&list, ":%d", i);
  }
  if (!list.failed) return list.data;
  ch_text_free(&list);
  ch_no_memory(error);
  return NULL;
}

ch_status ch_devices_name(const char *python, int64_t each, bool all, const char **device, ch_error *error) {
  const char *name = *device ? *device : each > 1 ? "cuda" : NULL;
  if (each > MOST_DEVICES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--ranks-per-run is %lld; at most %d devices are supported",
                   (long long)each, MOST_DEVICES);
  if (name && !strchr(name, ',') && !strchr(name, ':') && (each > 1 || (all && strcmp(name, "cuda") == 0))) {
    int gpus = strcmp(name, "cuda") == 0 ? count_gpus(python) : 0;
    if (!*device && gpus <= 0) name = "cpu";
    if (gpus > 0 && gpus < each)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--ranks-per-run is %lld, but PyTorch sees %d GPU%s; give at most as many",
                     (long long)each, gpus, gpus == 1 ? "" : "s");
    int count = all && gpus > 0 ? gpus : (int)each;
    if (count > 1) name = repeat(name, count, error); /* never freed */
    if (!name) return CH_ERROR_MEMORY;
  }
  int count = name ? count_names(name) : 1;
  if (count > MOST_DEVICES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--device names %d devices; at most %d are supported", count,
                   MOST_DEVICES);
  if (count % each != 0 || (!all && each > 1 && count != each))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--device names %d device%s, but --ranks-per-run is %lld; give %s%lld names", count,
                   count == 1 ? "" : "s", (long long)each, all ? "a multiple of " : "", (long long)each);
  *device = name;
  return CH_OK;
}

ch_status ch_devices_spread(ch_compare_workers *workers, ch_error *error) {
  if (workers->engine == CH_ENGINE_NATIVE) {
    if (!workers->device && !workers->python) return CH_OK;
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s needs --engine pytorch",
                   workers->device ? "device" : "python");
  }
  if (ch_job_ranks())
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--engine pytorch starts a process for each --device itself; start it without mpirun");
  CH_TRY(ch_devices_name(workers->python, workers->ranks_per_run, true, &workers->device, error));
  int count = workers->device ? count_names(workers->device) : 1;
  return ch_job_fork(count / (int)workers->ranks_per_run, error);
}
