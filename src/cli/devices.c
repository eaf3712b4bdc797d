/* Counting devices, and making a process for each. */
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
  /* The shell sees the interpreter's name as a variable, whatever characters it has. */
  ch_text_printf(&command, "\"$CROSSHEAD_PYTHON\" -c '%s' 2>/dev/null", code);
  setenv("CROSSHEAD_PYTHON", python, 1);
  FILE *output = command.data && !command.failed ? popen(command.data, "re") : NULL;
  if (output && fscanf(output, "%d", &number) != 1) number = -1;
  if (output) pclose(output);
  ch_text_free(&command);
  return number;
}

/* "cuda:0,cuda:1,…" for all GPUs, the caller's; NULL after a failure. */
static char *all_gpus(int count) {
  ch_text list = {0};
  for (int i = 0; i < count; i++) ch_text_printf(&list, "%scuda:%d", i ? "," : "", i);
  if (!list.failed) return list.data;
  ch_text_free(&list);
  return NULL;
}

static int count_names(const char *list) {
  int count = 1;
  for (; (list = strchr(list, ',')); list++) count++;
  return count;
}

ch_status ch_devices_spread(ch_compare_workers *workers, ch_error *error) {
  if (workers->engine == CH_ENGINE_NATIVE) {
    if (!workers->device && !workers->python) return CH_OK;
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s is for --engine pytorch",
                   workers->device ? "device" : "python");
  }
  if (ch_job_ranks())
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--engine pytorch makes a process for each --device itself; start it without mpirun");
  if (workers->device && strcmp(workers->device, "cuda") == 0) {
    char *python = ch_python_of(workers->python);
    int gpus = python ? ask_python(python, "import torch; print(torch.cuda.device_count())") : -1;
    free(python);
    if (gpus > 1) workers->device = all_gpus(gpus); /* for the rest of the program */
  }
  int count = workers->device ? count_names(workers->device) : 1;
  if (count > MOST_DEVICES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--device names %d devices; %d are the most", count,
                   MOST_DEVICES);
  return ch_job_fork(count, error);
}
