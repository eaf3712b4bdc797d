/* Reads JSON lines object by object with jansson. */
#define _GNU_SOURCE
#include "text/json_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "text/documents.h"

/* Fields that are not read may hold numbers too large for 64 bits. */
enum { PARSING = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL };

static size_t blanks(const char *text, size_t size) {
  size_t n = 0;
  while (n < size && strchr(" \t\r\n", text[n]) && text[n]) n++;
  return n;
}

static size_t line_size(const char *text, size_t size) {
  const char *newline = memchr(text, '\n', size);
  return newline ? (size_t)(newline - text) : size;
}

bool ch_is_json_lines(const char *path, const char *text, size_t size) {
  if (ch_ends_with(path, ".jsonl") || ch_ends_with(path, ".ndjson") || ch_ends_with(path, ".json"))
    return true;
  size_t from = blanks(text, size);
  if (from == size || text[from] != '{') return false;
  json_t *first = json_loadb(text + from, line_size(text + from, size - from), PARSING, NULL);
  bool is = json_is_object(first);
  json_decref(first);
  return is;
}

static ch_status write_document(const char *path, long long number, const char *line, size_t size, FILE *out,
                                bool first, ch_error *error) {
  json_error_t why;
  json_t *object = json_loadb(line, size, PARSING, &why), *text = json_object_get(object, "text");
  ch_status status = CH_OK;
  if (!json_is_object(object))
    status = ch_fail(
        error, CH_ERROR_FORMAT,
        "%s, line %lld is not a JSON object%s%s; JSON lines have one on every line, {\"text\": \"...\"}, and "
        "plain text needs a name that does not end in .json or .jsonl",
        path, number, object ? "" : ": ", object ? "" : why.text);
  else if (!json_is_string(text))
    status = ch_fail(
        error, CH_ERROR_FORMAT,
        "%s, line %lld: the object has no %s\"text\"; each line must have its document there, {\"text\": "
        "\"...\"}",
        path, number, text ? "string " : "");
  else {
    if (!first) fputs(CH_DOCUMENT_MARKER, out);
    fwrite(json_string_value(text), 1, json_string_length(text), out);
  }
  json_decref(object);
  return status;
}

static ch_status write_documents(const char *path, const char *text, size_t size, FILE *out,
                                 ch_error *error) {
  bool first = true;
  long long number = 0;
  for (size_t at = 0; at < size;) {
    size_t length = line_size(text + at, size - at);
    number++;
    if (blanks(text + at, length) < length) {
      CH_TRY(write_document(path, number, text + at, length, out, first, error));
      first = false;
    }
    at += length + 1;
  }
  return CH_OK;
}

/* Opens a file that is deleted when it is closed. */
static FILE *open_nameless(void) {
  const char *directory = getenv("TMPDIR");
  char *name = NULL;
  if (!directory || !*directory) directory = "/tmp";
  int file = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 && asprintf(&name, "%s/crosshead-XXXXXX", directory) >= 0) {
    file = mkostemp(name, O_CLOEXEC);
    if (file >= 0) unlink(name);
    free(name);
  }
  FILE *stream = file >= 0 ? fdopen(file, "w+") : NULL;
  if (!stream && file >= 0) close(file);
  return stream;
}

ch_status ch_json_lines_map(const char *path, const char *text, size_t size, ch_map *map, ch_error *error) {
  char again[64];
  *map = (ch_map){0};
  FILE *out = open_nameless();
  if (!out)
    return ch_fail(error, CH_ERROR_IO,
                   "cannot create a temporary file for the text of %s: %s; TMPDIR may name "
                   "another folder",
                   path, strerror(errno));
  ch_status status = write_documents(path, text, size, out, error);
  if (status == CH_OK && (fflush(out) != 0 || ferror(out)))
    status = ch_fail(error, CH_ERROR_IO,
                     "cannot write the text of %s to a temporary file: %s; TMPDIR may name "
                     "another folder",
                     path, strerror(errno));
  snprintf(again, sizeof again, "/proc/self/fd/%d", fileno(out));
  if (status == CH_OK) status = ch_map_open(again, map, error);
  fclose(out);
  return status;
}
