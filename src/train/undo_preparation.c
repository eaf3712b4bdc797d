/* Removes the files that a failed attempt to train wrote before its first step. */
#define _GNU_SOURCE
#include "train/undo_preparation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_names.h"

/* The files that training, a comparison and a sweep write before their first step. */
static const char *const prepared[] = {
    CH_DATA_TOKENS, CH_DATA_RECORD,          "tokenizer.json",    "tokenizer_config.json", "tokenizer.bin",
    CH_TRAIN_LOG,   CH_TRAIN_CONTROL_RECORD, CH_COMPARE_SETTINGS, CH_SWEEP_SETTINGS,       NULL};

/* Returns the length of the longest start of the path that is an existing directory; 0 if there is none. */
static size_t find_standing(char *path) {
  size_t length = strlen(path);
  while (length > 0) {
    char after = path[length];
    path[length] = 0;
    bool there = ch_is_directory(path);
    path[length] = after;
    if (there) return length;
    while (length > 0 && path[length - 1] != '/') length--;
    while (length > 1 && path[length - 1] == '/') length--;
  }
  return 0;
}

void ch_preparation_begin(ch_preparation *attempt, const char *directory) {
  *attempt = (ch_preparation){.directory = strdup(directory)};
  if (!attempt->directory) return;
  size_t length = strlen(directory);
  while (length > 1 && directory[length - 1] == '/') length--;
  attempt->directory[length] = 0;
  attempt->standing = find_standing(attempt->directory);
  for (unsigned i = 0; prepared[i]; i++) {
    char *path = ch_path_join(directory, prepared[i]);
    if (!path || access(path, F_OK) == 0) attempt->present |= 1u << i;
    free(path);
  }
}

static void remove_files(const ch_preparation *attempt) {
  for (unsigned i = 0; prepared[i]; i++) {
    if (attempt->present & 1u << i) continue;
    const char *const names[] = {prepared[i], NULL};
    char *path = ch_path_join(attempt->directory, prepared[i]);
    struct stat info; /* a log that is not empty belongs to a run that began */
    bool began = path && strcmp(prepared[i], CH_TRAIN_LOG) == 0 && stat(path, &info) == 0 && info.st_size > 0;
    if (path && !began) unlink(path);
    free(path);
    ch_remove_leftovers(attempt->directory, names);
  }
}

void ch_preparation_undo(ch_preparation *attempt) {
  if (!attempt->directory) return;
  int directory = open(attempt->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  /* The lock of train/data.c: another run may be preparing its text here. */
  bool ours = flock(directory, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  if (ours) remove_files(attempt);
  close(directory);
  if (!ours) return;
  size_t length = strlen(attempt->directory);
  while (length > attempt->standing && length > 0) {
    attempt->directory[length] = 0;
    if (rmdir(attempt->directory) != 0) return;
    while (length > 0 && attempt->directory[length - 1] != '/') length--;
    while (length > 1 && attempt->directory[length - 1] == '/') length--;
  }
}

void ch_preparation_end(ch_preparation *attempt) {
  free(attempt->directory);
  *attempt = (ch_preparation){0};
}
