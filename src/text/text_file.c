/* Text files as training data: mapped, checked to be text, read piece by piece without staying in memory. */
#define _GNU_SOURCE
#include "text/text_file.h"

#include <stdlib.h>
#include <string.h>

#include "text/hash.h"
#include "text/json_lines.h"
#include "base/mistaken.h"
#include "base/utf8.h"

enum { CHUNK = 8 << 20 };

typedef struct chunk_facts {
  uint64_t hash;
  size_t nuls;
  size_t broken; /* offset of the first byte that is not UTF-8, or NONE */
} chunk_facts;
#define NONE SIZE_MAX

static size_t count_nuls(const unsigned char *p, const unsigned char *end) {
  size_t count = 0;
  for (; (p = memchr(p, 0, (size_t)(end - p))); p++) count++;
  return count;
}

/* Examines a chunk. A character that its border cuts is examined whole: each chunk reads from the first start
   of a character to the first start past its end. */
static chunk_facts look_at(const unsigned char *text, size_t size, size_t from, size_t to) {
  chunk_facts facts = {.hash = ch_hash_bytes(text + from, to - from, 0), .broken = NONE};
  for (int i = 0; i < 3 && from > 0 && from < to && (text[from] & 0xc0) == 0x80; i++) from++;
  facts.nuls = count_nuls(text + from, text + to);
  for (int i = 0; i < 3 && to < size && (text[to] & 0xc0) == 0x80; i++) to++;
  size_t good = ch_utf8_valid_prefix(text + from, to - from);
  if (good < to - from) facts.broken = from + good;
  return facts;
}

static ch_status check_text(ch_text_file *file, ch_error *error) {
  const unsigned char *text = (const unsigned char *)file->text;
  size_t chunks = (file->size + CHUNK - 1) / CHUNK, nuls = 0, broken = NONE;
  if (ch_is_lfs_pointer(text, file->size))
    return ch_refuse_mistaken(file->path, text, file->size, true, error);
  chunk_facts *facts = malloc(chunks * sizeof *facts);
  if (!facts) return ch_no_memory(error);
#pragma omp parallel for schedule(dynamic)
  for (size_t i = 0; i < chunks; i++) {
    size_t from = i * CHUNK, to = i + 1 < chunks ? from + CHUNK : file->size;
    facts[i] = look_at(text, file->size, from, to);
    ch_text_file_release(file, from, to);
  }
  for (size_t i = 0; i < chunks; i++) {
    file->hash = ch_hash_mix(file->hash ^ facts[i].hash, 0x9e3779b97f4a7c15u) + i;
    nuls += facts[i].nuls;
    if (broken == NONE) broken = facts[i].broken;
  }
  free(facts);
  if (nuls > file->size / 1000)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is not text: %.3g %% of its bytes are NUL; UTF-8 text is needed", file->path,
                   100.0 * (double)nuls / (double)file->size);
  if (broken == NONE) return CH_OK;
  size_t mark = (size_t)(text - file->map.data);
  return ch_fail(
      error, CH_ERROR_FORMAT,
      "%s is not UTF-8: the byte 0x%02x at offset %zu (from 0) begins no character; convert the file "
      "to UTF-8, for example with iconv -f latin1 -t utf-8",
      file->path, text[broken], mark + broken);
}

/* Fails for compressed files. They are easy to decompress first. */
static ch_status check_packed(const ch_text_file *file, ch_error *error) {
  static const struct {
    const char *begin, *program;
  } kinds[] = {{"\x1f\x8b", "gzip"}, {"BZh", "bzip2"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"\xfd\x37zXZ", "xz"}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    size_t size = strlen(kinds[i].begin);
    if (file->map.size > size && memcmp(file->map.data, kinds[i].begin, size) == 0)
      return ch_fail(error, CH_ERROR_FORMAT, "%s is compressed with %s; decompress it first: %s -d -k %s",
                     file->path, kinds[i].program, kinds[i].program, file->path);
  }
  return CH_OK;
}

/* Replaces the contents of a file of JSON lines by its documents. */
static ch_status take_json_lines(ch_text_file *file, ch_error *error) {
  ch_map documents;
  CH_TRY(ch_json_lines_map(file->path, file->text, file->size, &documents, error));
  ch_map_close(&file->map);
  file->map = documents;
  file->text = (const char *)documents.data;
  file->size = documents.size;
  return CH_OK;
}

ch_status ch_text_file_open(ch_text_file *file, const char *path, ch_error *error) {
  *file = (ch_text_file){.path = path};
  CH_TRY(ch_map_open(path, &file->map, error));
  ch_status status = check_packed(file, error);
  if (status != CH_OK) {
    ch_text_file_close(file);
    return status;
  }
  size_t mark = file->map.size >= 3 && memcmp(file->map.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  file->text = (const char *)(mark ? file->map.data + mark : file->map.data); /* NULL for an empty file */
  file->size = file->map.size - mark;
  file->documents = file->size > 0 && ch_is_json_lines(path, file->text, file->size);
  if (file->documents) status = take_json_lines(file, error);
  if (status == CH_OK)
    status = file->size == 0 ? ch_fail(error, CH_ERROR_FORMAT, "%s is empty; text is needed", path)
                             : check_text(file, error);
  if (status != CH_OK) ch_text_file_close(file);
  return status;
}

void ch_text_file_close(ch_text_file *file) {
  ch_map_close(&file->map);
  *file = (ch_text_file){0};
}

void ch_text_file_release(const ch_text_file *file, size_t from, size_t to) {
  ch_map_forget(&file->map, file->text + from, to - from);
}

ch_status ch_text_paths(const char *names, char ***paths, size_t *count, ch_error *error) {
  size_t length = strlen(names), most = 1;
  bool whole = ch_is_file(names);
  for (const char *p = names; !whole && (p = strchr(p, ',')); p++) most++;
  char **list = malloc(most * sizeof *list + length + 1);
  if (!list) return ch_no_memory(error);
  char *name = memcpy((char *)(list + most), names, length + 1);
  *count = 0;
  while (name) {
    char *comma = whole ? NULL : strchr(name, ',');
    if (comma) *comma = 0;
    if (*name) list[(*count)++] = name;
    name = comma ? comma + 1 : NULL;
  }
  *paths = list;
  if (*count > 0) return CH_OK;
  free(list);
  *paths = NULL;
  return ch_fail(error, CH_ERROR_ARGUMENT, "no text file is named; give one, or several with commas between");
}

size_t ch_cut_offset(const unsigned char *p) {
  bool before = (unsigned char)((p[0] | 32) - 'a') < 26, after = (unsigned char)((p[2] | 32) - 'a') < 26;
  if (p[1] == ' ') return before && after ? 1 : 0;
  return p[1] == '\n' && p[0] > 0x20 && p[0] < 0x7f && p[2] > 0x20 && p[2] < 0x7f ? 2 : 0;
}
