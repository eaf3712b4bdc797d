/* Compares programs, instruction sets and thread counts of a job's ranks. */
#define _GNU_SOURCE
#include "ranks/program.h"

#include <dlfcn.h>
#include <string.h>

#include "base/file.h"
#include "text/hash.h"

static uint64_t hash_file(const char *path) {
  ch_map map;
  if (ch_map_open(path, &map, NULL) != CH_OK) return 0;
  uint64_t hash = ch_hash_bytes(map.data, map.size, 2);
  ch_map_close(&map);
  return hash;
}

/* Returns a hash of the program's file and of the file that this function was loaded from: the program or a library. */
static uint64_t hash_program(void) {
  Dl_info self;
  static const char mark;
  bool known = dladdr(&mark, &self) != 0 && self.dli_fname && strchr(self.dli_fname, '/');
  return ch_hash_mix(hash_file("/proc/self/exe") + 1, (known ? hash_file(self.dli_fname) : 0) + 1);
}

ch_status ch_ranks_compare_programs(ch_rank_group *ranks, const char *kernels, int threads, ch_error *error) {
  if (!ranks) return CH_OK;
  const ch_rank_fact facts[] = {{"another program", hash_program()},
                                {"another set of instructions (CROSSHEAD_ISA)", ch_hash_text(kernels)},
                                {"another number of threads", (uint64_t)threads}};
  return ch_ranks_compare(ranks, facts, sizeof facts / sizeof *facts, error);
}
