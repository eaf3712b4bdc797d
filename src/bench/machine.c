/* Reads processor, cores, memory and system from /proc, sysconf and uname. */
#include "bench/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tensor/kernels.h"

/* Copies a text without its control characters and the bytes outside ASCII. */
static void copy_plain(char *to, size_t size, const char *from) {
  size_t used = 0;
  for (; *from && used + 1 < size; from++)
    if (*from >= ' ' && *from < 127) to[used++] = *from;
  to[used] = 0;
}

static void processor_name(char *name, size_t size) {
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "re");
  name[0] = 0;
  while (file && !name[0] && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (colon && strncmp(line, "model name", 10) == 0)
      copy_plain(name, size, colon + 1 + strspn(colon + 1, " "));
  }
  if (file) fclose(file);
}

ch_machine ch_machine_here(void) {
  struct utsname system;
  ch_machine machine = {0};
  processor_name(machine.processor, sizeof machine.processor);
  if (uname(&system) == 0) {
    char all[sizeof system.sysname + sizeof system.release + sizeof system.machine + 2];
    snprintf(all, sizeof all, "%s %s %s", system.sysname, system.release, system.machine);
    copy_plain(machine.system, sizeof machine.system, all);
    if (!machine.processor[0]) copy_plain(machine.processor, sizeof machine.processor, system.machine);
  }
  long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  machine.cores = cores > 0 ? cores : 0;
  machine.threads = ch_team_of(0).threads;
  machine.memory_bytes = pages > 0 && page > 0 ? (int64_t)pages * page : 0;
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  if (kernels) copy_plain(machine.kernels, sizeof machine.kernels, kernels->name);
  return machine;
}

json_t *ch_machine_to_json(const ch_machine *machine) {
  return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "processor", machine->processor, "system",
                   machine->system, "kernels", machine->kernels, "cores", (json_int_t)machine->cores,
                   "threads", (json_int_t)machine->threads, "memory_bytes",
                   (json_int_t)machine->memory_bytes);
}
