/* Reads files, whole or by memory map. Writes them under a temporary name and renames them, so that no reader ever
 * sees half a file.
 *
 * This file does not interpret contents, and deletes only its own temporary files. */
#define _GNU_SOURCE
#include "base/file.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files are written in pieces of WRITE_BYTES, at multiples of it. File systems that store files in large pages then map
   large pages, and weights are read faster (bench/measurements.md). */
enum { WRITE_BYTES = 2 << 20 };

static ch_status system_error(ch_error *error, const char *what, const char *path) {
  return ch_fail(error, CH_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

static ch_status open_regular(const char *path, int *descriptor, size_t *size, ch_error *error) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(error, "open", path);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    close(fd);
    return system_error(error, "stat", path);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return ch_fail(error, CH_ERROR_IO, "%s is %s; a file is needed", path,
                   S_ISDIR(info.st_mode) ? "a directory" : "a special file");
  }
  *descriptor = fd;
  *size = (size_t)info.st_size;
  return CH_OK;
}

ch_status ch_map_open(const char *path, ch_map *map, ch_error *error) {
  *map = (ch_map){0};
  int fd = -1;
  size_t size = 0;
  CH_TRY(open_regular(path, &fd, &size, error));
  if (size > 0) {
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      close(fd);
      return system_error(error, "map", path);
    }
    map->data = data;
  }
  map->size = size;
  close(fd);
  return CH_OK;
}

void ch_map_close(ch_map *map) {
  if (map->data) munmap((void *)map->data, map->size);
  *map = (ch_map){0};
}

void ch_map_touch(const void *data, size_t bytes) {
  enum { STEP = 1 << 16 }; /* bytes that a page fault maps on Linux, if they are cached */
  if ((double)bytes > ch_machine_memory() / 2) return; /* the system would evict the first pages again */
  volatile unsigned char sink;
  for (size_t at = 0; at < bytes; at += STEP) sink = ((const unsigned char *)data)[at];
  (void)sink;
}

void ch_map_forget(const ch_map *map, const void *data, size_t bytes) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)map->data, end = start + map->size;
  uintptr_t first = (uintptr_t)data, last = first + bytes;
  if (first < start) first = start;
  if (last > end) last = end;
  first = (first + page - 1) / page * page;
  last = last / page * page;
  if (map->data && first < last) madvise((void *)first, last - first, MADV_DONTNEED);
}

ch_status ch_read_file(const char *path, size_t limit, char **text, size_t *size, ch_error *error) {
  *text = NULL;
  int fd = -1;
  size_t bytes = 0;
  CH_TRY(open_regular(path, &fd, &bytes, error));
  if (bytes > limit) {
    close(fd);
    return ch_fail(error, CH_ERROR_FORMAT, "%s is too large: %zu bytes; the limit is %zu", path, bytes,
                   limit);
  }
  char *buffer = malloc(bytes + 1);
  size_t done = 0;
  ch_status status =
      buffer ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory for the %zu bytes of %s", bytes, path);
  while (status == CH_OK && done < bytes) {
    ssize_t got = read(fd, buffer + done, bytes - done);
    if (got > 0)
      done += (size_t)got;
    else if (got == 0)
      status = ch_fail(error, CH_ERROR_IO,
                       "%s has only %zu of its %zu bytes; nothing may change it while it is read", path, done,
                       bytes);
    else if (errno != EINTR)
      status = system_error(error, "read", path);
  }
  close(fd);
  if (status != CH_OK) {
    free(buffer);
    return status;
  }
  buffer[bytes] = 0;
  *text = buffer;
  if (size) *size = bytes;
  return CH_OK;
}

/* Fails if the path is a directory, a device or a pipe: renaming would replace it by a file. */
static ch_status check_replaceable(const char *path, ch_error *error) {
  struct stat info;
  if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return CH_OK;
  return ch_fail(error, CH_ERROR_IO, "cannot write %s: it is %s; name a file", path,
                 S_ISDIR(info.st_mode) ? "a directory" : "a special file");
}

ch_status ch_writer_open(ch_writer *writer, const char *path, ch_error *error) {
  *writer = (ch_writer){0};
  CH_TRY(check_replaceable(path, error));
  size_t length = strlen(path);
  writer->path = strdup(path);
  writer->temporary = malloc(length + 32);
  writer->buffer = malloc(WRITE_BYTES);
  ch_status status = CH_OK;
  if (!writer->path || !writer->temporary || !writer->buffer) {
    status = ch_no_memory(error);
  } else {
    snprintf(writer->temporary, length + 32, "%s.tmp.%ld", path, (long)getpid());
    writer->file = fopen(writer->temporary, "wbe");
    if (!writer->file) status = system_error(error, "create", path);
  }
  if (status == CH_OK) {
    setvbuf(writer->file, writer->buffer, _IOFBF, WRITE_BYTES);
    return CH_OK;
  }
  free(writer->temporary); /* ch_writer_abort must not remove a file that this writer did not create */
  writer->temporary = NULL;
  ch_writer_abort(writer);
  return status;
}

ch_status ch_writer_put(ch_writer *writer, const void *data, size_t bytes, ch_error *error) {
  if (bytes > 0 && fwrite(data, 1, bytes, writer->file) != bytes)
    return system_error(error, "write", writer->path);
  return CH_OK;
}

static void sync_directory_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *directory = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
  int fd = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(directory);
}

ch_status ch_writer_commit(ch_writer *writer, ch_error *error) {
  ch_status status = CH_OK;
  if (fflush(writer->file) != 0 || fsync(fileno(writer->file)) != 0)
    status = system_error(error, "write", writer->path);
  if (fclose(writer->file) != 0 && status == CH_OK) status = system_error(error, "write", writer->path);
  writer->file = NULL;
  if (status == CH_OK && rename(writer->temporary, writer->path) != 0)
    status = system_error(error, "rename into", writer->path);
  if (status == CH_OK) {
    sync_directory_of(writer->path);
    free(writer->temporary);
    writer->temporary = NULL;
  }
  ch_writer_abort(writer);
  return status;
}

void ch_writer_abort(ch_writer *writer) {
  if (writer->file) fclose(writer->file);
  if (writer->temporary) unlink(writer->temporary);
  free(writer->buffer);
  free(writer->temporary);
  free(writer->path);
  *writer = (ch_writer){0};
}

ch_status ch_write_file(const char *path, const void *data, size_t bytes, ch_error *error) {
  ch_writer writer;
  CH_TRY(ch_writer_open(&writer, path, error));
  ch_status status = ch_writer_put(&writer, data, bytes, error);
  if (status == CH_OK) return ch_writer_commit(&writer, error);
  ch_writer_abort(&writer);
  return status;
}

ch_status ch_make_directory(const char *path, ch_error *error) {
  char *copy = strdup(path);
  if (!copy) return ch_no_memory(error);
  ch_status status = CH_OK;
  for (char *p = copy + 1; status == CH_OK; p++) {
    if (*p != '/' && *p != 0) continue;
    char kept = *p;
    *p = 0;
    if (mkdir(copy, 0777) != 0 && errno != EEXIST) status = system_error(error, "create directory", path);
    if (!kept) break;
    *p = kept;
  }
  free(copy);
  if (status == CH_OK && !ch_is_directory(path))
    status = ch_fail(error, CH_ERROR_IO, "cannot create directory %s: a file with that name exists", path);
  return status;
}

bool ch_is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool ch_is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

char *ch_path_join(const char *directory, const char *name) {
  size_t length = strlen(directory);
  const char *separator = length && directory[length - 1] != '/' ? "/" : "";
  size_t bytes = length + strlen(name) + 2;
  char *path = malloc(bytes);
  if (path) snprintf(path, bytes, "%s%s%s", directory, separator, name);
  return path;
}

bool ch_directory_has(const char *directory, const char *name) {
  char *path = ch_path_join(directory, name);
  bool has = path && ch_is_file(path);
  free(path);
  return has;
}

const char *ch_path_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

char *ch_path_directory(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
}

/* Returns true if the first `length` bytes of path end in `end`. */
static bool ends_in(const char *path, size_t length, const char *end) {
  size_t size = strlen(end);
  return length > size && strncmp(path + length - size, end, size) == 0;
}

void ch_path_stem(const char *path, char *stem, size_t size) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  if (ends_in(path, length, "/config.json")) length -= strlen("/config.json");
  while (length > 1 && path[length - 1] == '/') length--;
  size_t start = length;
  while (start > 0 && path[start - 1] != '/') start--;
  if (ends_in(path + start, length - start, ".json")) length -= strlen(".json");
  snprintf(stem, size, "%.*s", (int)(length - start), path + start);
}

ch_status ch_copy_file(const char *from, const char *to, ch_error *error) {
  ch_map map;
  CH_TRY(ch_map_open(from, &map, error));
  ch_status status = ch_write_file(to, map.data, map.size, error);
  ch_map_close(&map);
  return status;
}

bool ch_same_file(const char *a, const char *b) {
  struct stat first, second;
  return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}
