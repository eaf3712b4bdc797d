/* Recognises the kind of a directory by its file names, and removes temporary files of killed programs. */
#define _GNU_SOURCE
#include "base/file_names.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static const char middle[] = ".tmp.";

/* Returns true if `entry` is a temporary file of `name`: "model.safetensors.tmp.4711" of "model.safetensors". */
static bool is_leftover(const char *entry, const char *name) {
  size_t length = strlen(name);
  return strncmp(entry, name, length) == 0 && strncmp(entry + length, middle, sizeof middle - 1) == 0;
}

bool ch_is_one_of(const char *const *names, const char *entry) {
  for (; *names; names++)
    if (strcmp(entry, *names) == 0 || is_leftover(entry, *names)) return true;
  return false;
}

void ch_remove_leftovers(const char *directory, const char *const *names) {
  DIR *listing = opendir(directory);
  for (const struct dirent *entry; listing && (entry = readdir(listing));)
    for (const char *const *name = names; *name; name++)
      if (is_leftover(entry->d_name, *name)) unlinkat(dirfd(listing), entry->d_name, 0);
  if (listing) closedir(listing);
}

/* Finds the first entry that is not in `names`. If `but_temporary`, temporary files are skipped. Returns false if there
   is none. */
static bool find_other(const char *directory, const char *const *names, bool but_temporary, char *other,
                       size_t size) {
  DIR *listing = opendir(directory);
  bool found = false;
  for (const struct dirent *entry; listing && !found && (entry = readdir(listing));) {
    bool itself = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    found =
        !itself && !ch_is_one_of(names, entry->d_name) && !(but_temporary && strstr(entry->d_name, middle));
    if (found) snprintf(other, size, "%s", entry->d_name);
  }
  if (listing) closedir(listing);
  return found;
}

bool ch_holds_nothing(const char *directory) {
  char name[2];
  return ch_is_directory(directory) &&
         !find_other(directory, (const char *const[]){NULL}, false, name, sizeof name);
}

bool ch_holds_prepared_text(const char *directory) {
  static const char *const names[] = {CH_DATA_TOKENS,          CH_DATA_RECORD,  "tokenizer.json",
                                      "tokenizer_config.json", "tokenizer.bin", NULL};
  const char *const *tokenizers = names + 2;
  char name[2];
  return ch_is_directory(directory) && !find_other(directory, names, false, name, sizeof name) &&
         find_other(directory, tokenizers, false, name, sizeof name);
}

bool ch_find_foreign_to_run(const char *directory, char *name, size_t size) {
  static const char *const derived[] = {
      CH_DATA_TOKENS,  CH_DATA_RECORD,          CH_TRAIN_LOG, "tokenizer.json", "tokenizer_config.json",
      "tokenizer.bin", CH_TRAIN_CONTROL_RECORD, NULL};
  return find_other(directory, derived, true, name, size);
}
