/* Opens models that are split over several GGUF files. The first file has the metadata; the tensors are spread over
 * all files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/gguf.h"

/* llama.cpp's names: BASE-00001-of-00003.gguf */
enum { ENDING = sizeof "-00001-of-00003.gguf" - 1, MOST_PARTS = 99999 };

typedef struct split {
  int64_t number, count; /* number: index of the part, from 0; count: number of parts */
} split;

static ch_status read_split(const ch_gguf *file, split *of, ch_error *error) {
  *of = (split){0, 1};
  CH_TRY(ch_gguf_whole(file, "split.count", false, &of->count, error));
  if (of->count <= 1) return CH_OK;
  CH_TRY(ch_gguf_whole(file, "split.no", true, &of->number, error));
  if (of->count <= MOST_PARTS && of->number >= 0 && of->number < of->count) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s: \"split.no\" is %" PRId64 " and \"split.count\" %" PRId64
                 "; parts are counted from 0, and there are at most %d",
                 file->where, of->number, of->count, MOST_PARTS);
}

/* Reads the part's number, counted from 1, and the number of parts from the end of a path. Returns false if the path
   does not end in them. */
static bool parse_name(const char *path, int *number, int *count) {
  size_t length = strlen(path);
  int end = 0;
  return length > ENDING && sscanf(path + length - ENDING, "-%5d-of-%5d.gguf%n", number, count, &end) == 2 &&
         end == ENDING;
}

/* Returns the path of a part, numbered from 1; the caller frees it. */
static char *path_of(const char *path, int64_t number, int64_t count) {
  size_t length = strlen(path);
  char *part = malloc(length + 1);
  if (part)
    snprintf(part, length + 1, "%.*s-%05d-of-%05d.gguf", (int)(length - ENDING), path, (int)number,
             (int)count);
  return part;
}

static ch_status check_name(const char *path, const split *of, ch_error *error) {
  int number = 0, count = 0;
  long long is = of->number + 1, all = of->count;
  if (!parse_name(path, &number, &count))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is part %lld of %lld of a split model; it must be named NAME-%05lld-of-%05lld.gguf",
                   path, is, all, is, all);
  if (number != is || count != all)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is part %lld of %lld of a split model, but its name says otherwise; it must end in "
                   "-%05lld-of-%05lld.gguf",
                   path, is, all, is, all);
  if (of->number == 0) return CH_OK;
  char *first = path_of(path, 1, of->count);
  ch_status status =
      ch_fail(error, CH_ERROR_FORMAT, "%s is part %lld of %lld of a split model; give the first, %s", path,
              is, all, first ? ch_path_name(first) : "which has the metadata");
  free(first);
  return status;
}

static ch_status open_part(const char *first, int64_t number, int64_t count, ch_gguf *part, ch_error *error) {
  char *path = path_of(first, number + 1, count);
  split of;
  if (!path) return ch_no_memory(error);
  ch_status status = ch_is_file(path)
                         ? ch_gguf_open(path, part, error)
                         : ch_fail(error, CH_ERROR_IO,
                                   "%s is part 1 of %" PRId64 " of a split model, and part %" PRId64
                                   ", %s, is missing; all parts must be in one directory",
                                   first, count, number + 1, ch_path_name(path));
  if (status == CH_OK) status = read_split(part, &of, error);
  if (status == CH_OK && (of.number != number || of.count != count))
    status = ch_fail(error, CH_ERROR_FORMAT,
                     "%s is part %" PRId64 " of %" PRId64
                     " of a split model, but its name is that of part %" PRId64 " of %" PRId64,
                     path, of.number + 1, of.count, number + 1, count);
  free(path);
  return status;
}

/* Moves the tensors of a part into the whole model's list. */
static ch_status take_tensors(ch_gguf *file, ch_gguf *part, ch_error *error) {
  size_t count = (size_t)(file->tensor_count + part->tensor_count);
  ch_gguf_tensor *all = realloc(file->tensors, (count + 1) * sizeof *all);
  if (!all) return ch_no_memory(error);
  file->tensors = all;
  if (part->tensor_count)
    memcpy(all + file->tensor_count, part->tensors, (size_t)part->tensor_count * sizeof *all);
  file->tensor_count = (int64_t)count;
  part->tensor_count = 0;
  return CH_OK;
}

static ch_status check_tensors(const ch_gguf *file, ch_error *error) {
  char quoted[100];
  int64_t all = file->tensor_count;
  for (int64_t i = 1; i < file->tensor_count; i++)
    if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
      return ch_fail(error, CH_ERROR_FORMAT, "%s: tensor %s is in two parts", file->where,
                     ch_json_quote(file->tensors[i].name, quoted, sizeof quoted));
  CH_TRY(ch_gguf_whole(file, "split.tensors.count", false, &all, error));
  if (all == file->tensor_count) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s: its parts have %" PRId64 " tensors together, but \"split.tensors.count\" is %" PRId64
                 "; they are not of one model",
                 file->where, file->tensor_count, all);
}

static ch_status open_others(const char *path, int64_t count, ch_gguf *file, ch_error *error) {
  file->parts = calloc((size_t)count, sizeof *file->parts);
  if (!file->parts) return ch_no_memory(error);
  for (int64_t i = 1; i < count; i++) {
    ch_gguf *part = &file->parts[file->part_count++];
    CH_TRY(open_part(path, i, count, part, error));
    CH_TRY(take_tensors(file, part, error));
  }
  if (file->tensor_count)
    qsort(file->tensors, (size_t)file->tensor_count, sizeof *file->tensors, ch_gguf_by_name);
  return check_tensors(file, error);
}

ch_status ch_gguf_open_parts(const char *path, ch_gguf *file, ch_error *error) {
  split of;
  CH_TRY(ch_gguf_open(path, file, error));
  CH_TRY(read_split(file, &of, error));
  if (of.count <= 1) return CH_OK;
  CH_TRY(check_name(path, &of, error));
  return open_others(path, of.count, file, error);
}
