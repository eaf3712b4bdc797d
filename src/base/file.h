/* Files: memory-mapped reading, and writing that is never seen half done. */
#ifndef CH_BASE_FILE_H
#define CH_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* A read-only mapping of a whole file. */
typedef struct ch_map {
  const unsigned char *data; /* NULL for an empty file */
  size_t size;
} ch_map;

/* Maps PATH read-only; directories and special files are errors. Release with ch_map_close. */
ch_status ch_map_open(const char *path, ch_map *map, ch_error *error);
void ch_map_close(ch_map *map);
/* Touches all of the mapped memory, so that later readers do not wait for page faults. Does nothing if that
   is more than half of the machine's memory. Reads a file that is not in the page cache from disk. */
void ch_map_touch(const void *data, size_t bytes);
/* Releases the pages of the mapping that `data` covers: the next access reads them from the file again. */
void ch_map_forget(const ch_map *map, const void *data, size_t bytes);

/* Reads a whole text file into malloc'd memory with a closing NUL (files over `limit` bytes are errors). */
ch_status ch_read_file(const char *path, size_t limit, char **text, size_t *size, ch_error *error);

/* A file written under a temporary name and renamed: readers see the old file or the complete new one. */
typedef struct ch_writer {
  FILE *file;
  char *path, *temporary, *buffer;
} ch_writer;

ch_status ch_writer_open(ch_writer *writer, const char *path, ch_error *error);
/* Appends; a full disk is reported here or in ch_writer_commit. */
ch_status ch_writer_put(ch_writer *writer, const void *data, size_t bytes, ch_error *error);
/* Flushes, syncs to disk and renames into place. On failure the temporary file is removed. */
ch_status ch_writer_commit(ch_writer *writer, ch_error *error);
/* Removes the temporary file; harmless after a commit. */
void ch_writer_abort(ch_writer *writer);
/* Makes the three calls in one. */
ch_status ch_write_file(const char *path, const void *data, size_t bytes, ch_error *error);

/* Copies a file under a temporary name and renames it; `to` is replaced. */
ch_status ch_copy_file(const char *from, const char *to, ch_error *error);
/* Returns true if two paths name the same file or directory; false when one is not there. */
bool ch_same_file(const char *a, const char *b);

/* Creates a directory and its parents; an existing directory is fine. */
ch_status ch_make_directory(const char *path, ch_error *error);
bool ch_is_directory(const char *path);
bool ch_is_file(const char *path);
/* Returns true if a directory has a file `name`. */
bool ch_directory_has(const char *directory, const char *name);
/* The last part of a path: "b" of "a/b". */
const char *ch_path_name(const char *path);
/* Returns "directory/name" in malloc'd memory, or NULL if out of memory. */
char *ch_path_join(const char *directory, const char *name);
/* Returns the directory of a file, for ch_path_join: "a/b" gives "a/", "b" gives ".". The caller frees it.
   NULL if out of memory. */
char *ch_path_directory(const char *path);
/* Writes the part of a model's path that tells it from others, cut to size: "mine" for "configs/mine.json",
   "models/mine/config.json" and "models/mine/". */
void ch_path_stem(const char *path, char *stem, size_t size);

#endif
