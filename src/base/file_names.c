/* Recognises the kind of a directory by the names in it. */
#include "base/file_names.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static const char middle[] = ".tmp.";

bool ch_is_one_of(const char *const *names, const char *name) {
  for (; *names; names++) {
    size_t length = strlen(*names);
    if (strncmp(name, *names, length) != 0) continue;
    if (!name[length] || strncmp(name + length, middle, sizeof middle - 1) == 0) return true;
  }
  return false;
}

static bool is_itself(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool ch_holds_nothing(const char *directory) {
  DIR *listing = opendir(directory);
  bool empty = listing != NULL;
  for (const struct dirent *entry; empty && (entry = readdir(listing));) empty = is_itself(entry->d_name);
  if (listing) closedir(listing);
  return empty;
}

bool ch_holds_prepared_text(const char *directory) {
  static const char *const prepared[] = {CH_DATA_TOKENS,          CH_DATA_RECORD,  "tokenizer.json",
                                         "tokenizer_config.json", "tokenizer.bin", NULL};
  DIR *listing = opendir(directory);
  bool data = false, other = !listing;
  for (const struct dirent *entry; !other && (entry = readdir(listing));) {
    if (is_itself(entry->d_name)) continue;
    data |= strncmp(entry->d_name, "data.", strlen("data.")) == 0;
    other = !ch_is_one_of(prepared, entry->d_name);
  }
  if (listing) closedir(listing);
  return data && !other;
}

bool ch_find_foreign_to_run(const char *directory, char *name, size_t size) {
  static const char *const derived[] = {
      CH_DATA_TOKENS,  CH_DATA_RECORD,          CH_TRAIN_LOG, "tokenizer.json", "tokenizer_config.json",
      "tokenizer.bin", CH_TRAIN_CONTROL_RECORD, NULL};
  DIR *listing = opendir(directory);
  bool found = false;
  for (const struct dirent *entry; listing && !found && (entry = readdir(listing));) {
    found =
        !is_itself(entry->d_name) && !ch_is_one_of(derived, entry->d_name) && !strstr(entry->d_name, middle);
    if (found) snprintf(name, size, "%s", entry->d_name);
  }
  if (listing) closedir(listing);
  return found;
}
