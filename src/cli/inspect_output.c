/* Inspects the path of an output. Names decide: --force does not delete a directory with an entry that Crosshead does
 * not write. */
#define _GNU_SOURCE
#include "cli/inspect_output.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_names.h"

enum { MOST_DEPTH = 4, OPEN_FILES = 16 };

/* Names of the files in directories that commands write, and in Hugging Face's model directories. */
static const char *const known[] = {"config.json",
                                    "model.safetensors",
                                    "model.safetensors.index.json",
                                    "tokenizer.json",
                                    "tokenizer.bin",
                                    "tokenizer.model",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "chat_template.jinja",
                                    "chat_template.json",
                                    "preprocessor_config.json",
                                    "processor_config.json",
                                    "generation_config.json",
                                    "report.json",
                                    "report.html",
                                    CH_TRAIN_CHECKPOINT,
                                    CH_TRAIN_LOG,
                                    CH_TRAIN_CONTROL_RECORD,
                                    CH_DATA_TOKENS,
                                    CH_DATA_RECORD,
                                    CH_COMPARE_SETTINGS,
                                    CH_SWEEP_SETTINGS,
                                    CH_COMPARE_RESULTS,
                                    CH_COMPARE_RESULT,
                                    NULL};

/* Files by which a directory is recognised. The first match decides. */
static const struct {
  const char *name, *what;
  bool nested; /* true if the directory has directories of runs */
} marks[] = {{CH_COMPARE_SETTINGS, "a comparison", true},
             {CH_SWEEP_SETTINGS, "a sweep", true},
             {CH_TRAIN_CONTROL_RECORD, "a training run with its control", true},
             {CH_TRAIN_CHECKPOINT, "a training run", false},
             {CH_TRAIN_LOG, "a training run", false},
             {"model.safetensors", "a model", false},
             {"model.safetensors.index.json", "a model", false},
             {CH_COMPARE_RESULTS, "a coordinate check", false},
             {CH_DATA_TOKENS, "a prepared text", false}};
enum { MARKS = sizeof marks / sizeof *marks };

/* Returns true for names like "model-00001-of-00003.safetensors". */
static bool is_shard(const char *name) {
  int first, last, end = 0;
  return sscanf(name, "model-%5d-of-%5d.safetensors%n", &first, &last, &end) == 2 && end && !name[end];
}

static bool is_known(const char *name) {
  const char *end = strrchr(name, '.');
  return ch_is_one_of(known, name) || is_shard(name) || (end && strcmp(end, ".jinja") == 0);
}

/* Finds the first unknown entry below `directory`. Returns false if there is none. */
static bool find_stranger(const char *directory, const char *before, int depth, char *stranger, size_t size) {
  DIR *listing = opendir(directory);
  bool found = !listing;
  if (!listing) snprintf(stranger, size, "%s%s", before, "what cannot be read");
  for (const struct dirent *entry; !found && (entry = readdir(listing));) {
    struct stat info;
    char inside[256];
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    char *path = ch_path_join(directory, name);
    bool seen = path && lstat(path, &info) == 0;
    bool templates = strcmp(name, "additional_chat_templates") == 0;
    if (seen && S_ISDIR(info.st_mode) && (depth > 0 || templates)) {
      snprintf(inside, sizeof inside, "%.120s%.120s/", before, name);
      found = find_stranger(path, inside, depth > 0 ? depth - 1 : 0, stranger, size);
    } else if (!seen || !S_ISREG(info.st_mode) || !is_known(name)) {
      snprintf(stranger, size, "%.40s%.50s", before, name);
      found = true;
    }
    free(path);
  }
  if (listing) closedir(listing);
  return found;
}

/* Recognises the formats that commands write: JSON, safetensors (JSON after eight bytes), GGUF. */
static void look_at_file(const char *path, ch_occupant *s) {
  char first[9] = {0};
  FILE *file = fopen(path, "rbe");
  size_t got = file ? fread(first, 1, sizeof first, file) : 0;
  if (file) fclose(file);
  bool json = *first == '{' || *first == '[', gguf = memcmp(first, "GGUF", 4) == 0;
  bool tensors = got == sizeof first && first[8] == '{';
  s->what = gguf           ? "a GGUF file"
            : tensors      ? "a safetensors file"
            : json         ? "a JSON file"
            : file && !got ? "a file"
                           : NULL;
  if (!s->what) snprintf(s->stranger, sizeof s->stranger, "a file of an unknown kind");
}

ch_occupant ch_inspect_output(const char *path) {
  ch_occupant s = {.kind = CH_HOLDS_NOTHING};
  struct stat info;
  if (stat(path, &info) != 0) return s;
  if (ch_holds_nothing(path)) {
    s.kind = CH_HOLDS_EMPTY_DIRECTORY;
  } else if (S_ISDIR(info.st_mode)) {
    int mark = 0;
    while (mark < MARKS && !ch_directory_has(path, marks[mark].name)) mark++;
    s.kind = CH_HOLDS_DIRECTORY;
    s.what = mark < MARKS ? marks[mark].what : NULL;
    find_stranger(path, "", mark < MARKS && marks[mark].nested ? MOST_DEPTH : 0, s.stranger,
                  sizeof s.stranger);
  } else {
    s.kind = CH_HOLDS_FILE;
    if (S_ISREG(info.st_mode))
      look_at_file(path, &s);
    else
      snprintf(s.stranger, sizeof s.stranger, "a special file");
  }
  return s;
}

static int delete_one(const char *path, const struct stat *info, int type, struct FTW *place) {
  (void)info, (void)type;
  return place->level > 0 ? remove(path) : 0;
}

bool ch_delete_inside(const char *path) {
  return nftw(path, delete_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0;
}

bool ch_delete_tree(const char *path) {
  return ch_delete_inside(path) && remove(path) == 0;
}
