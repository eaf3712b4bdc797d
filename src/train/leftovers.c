/* Removing the temporary files of ch_writer. */
#define _GNU_SOURCE
#include "train/leftovers.h"

#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static bool is_leftover(const char *entry, const char *name) {
  static const char middle[] = ".tmp.";
  size_t length = strlen(name);
  return strncmp(entry, name, length) == 0 && strncmp(entry + length, middle, sizeof middle - 1) == 0;
}

void ch_remove_leftovers(const char *directory, const char *const *names) {
  DIR *open_directory = opendir(directory);
  if (!open_directory) return;
  for (const struct dirent *entry; (entry = readdir(open_directory));)
    for (const char *const *name = names; *name; name++)
      if (is_leftover(entry->d_name, *name)) unlinkat(dirfd(open_directory), entry->d_name, 0);
  closedir(open_directory);
}
