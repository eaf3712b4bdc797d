/* Passes every file of the directories on the command line to a fuzz target once, to detect bugs that return. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
  ch_map map;
  ch_error error;
  if (ch_map_open(path, &map, &error) != CH_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  /* In a copy on the heap, sanitizers see reads after its end. */
  uint8_t *copy = malloc(map.size ? map.size : 1);
  if (copy && map.size) memcpy(copy, map.data, map.size);
  if (copy) LLVMFuzzerTestOneInput(copy, map.size);
  free(copy);
  ch_map_close(&map);
  return copy ? 0 : 1;
}

static int replay_directory(const char *path, int *count) {
  DIR *directory = opendir(path);
  if (!directory) {
    perror(path);
    return 1;
  }
  int failed = 0;
  for (struct dirent *entry; (entry = readdir(directory));) {
    char *file = ch_path_join(path, entry->d_name);
    if (file && ch_is_file(file)) {
      failed |= replay_file(file);
      ++*count;
    }
    free(file);
  }
  closedir(directory);
  return failed;
}

int main(int argc, char **argv) {
  int count = 0, failed = 0;
  for (int i = 1; i < argc; i++) failed |= replay_directory(argv[i], &count);
  printf("%d inputs replayed\n", count);
  return failed || count == 0;
}
