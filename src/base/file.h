/* Files: reading, writing so that no reader sees half a file, copying, directories and paths. */
#ifndef CH_BASE_FILE_H
#define CH_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* A read-only mapping of a whole file. */
typedef struct ch_map {
  const unsigned char *data; /* contents of the file; NULL if it is empty */
  size_t size;
} ch_map;

/* Maps `path` read-only. Fails for directories and special files. Release with ch_map_close. */
ch_status ch_map_open(const char *path, ch_map *map, ch_error *error);
void ch_map_close(ch_map *map);
/* Touches mapped memory, so that later readers do not wait for page faults or for the disk. Does nothing if `bytes`
   is more than half of the machine's memory. */
void ch_map_touch(const void *data, size_t bytes);
/* Releases the pages of the mapping that are inside `data`. The next access reads them from the file again. */
void ch_map_forget(const ch_map *map, const void *data, size_t bytes);

/* Reads a whole text file into malloc'd memory with a closing NUL. `size` may be NULL. Fails if the file has more
   than `limit` bytes. */
ch_status ch_read_file(const char *path, size_t limit, char **text, size_t *size, ch_error *error);

/* A file that is written under a temporary name and then renamed: readers see the old file or the complete new
   one. */
typedef struct ch_writer {
  FILE *file;
  char *path, *temporary, *buffer;
} ch_writer;

ch_status ch_writer_open(ch_writer *writer, const char *path, ch_error *error);
/* Appends bytes. A full disk is reported here or in ch_writer_commit. */
ch_status ch_writer_put(ch_writer *writer, const void *data, size_t bytes, ch_error *error);
/* Flushes, syncs to disk and renames into place. On failure the temporary file is removed. */
ch_status ch_writer_commit(ch_writer *writer, ch_error *error);
/* Removes the temporary file; harmless after a commit. */
void ch_writer_abort(ch_writer *writer);
/* Writes a whole file: opens, appends and commits. */
ch_status ch_write_file(const char *path, const void *data, size_t bytes, ch_error *error);

/* Copies a file under a temporary name and renames it; `to` is replaced. */
ch_status ch_copy_file(const char *from, const char *to, ch_error *error);
/* Returns true if two paths name the same file or directory. Returns false if one does not exist. */
bool ch_same_file(const char *a, const char *b);

/* Creates a directory and its parents, unless it exists. */
ch_status ch_make_directory(const char *path, ch_error *error);
bool ch_is_directory(const char *path);
bool ch_is_file(const char *path);
/* Returns true if a directory has a file `name`. */
bool ch_directory_has(const char *directory, const char *name);
/* Returns the last part of a path: "b" of "a/b". */
const char *ch_path_name(const char *path);
/* Returns "directory/name" in malloc'd memory, or NULL if out of memory. */
char *ch_path_join(const char *directory, const char *name);
/* Returns the directory of a file, for ch_path_join: "a/b" gives "a/", "b" gives "."; NULL if out of memory. The
   caller frees it. */
char *ch_path_directory(const char *path);
/* Writes the distinctive part of a model's path, cut to `size`: "mine" for "configs/mine.json",
   "models/mine/config.json" and "models/mine/". */
void ch_path_stem(const char *path, char *stem, size_t size);

#endif
