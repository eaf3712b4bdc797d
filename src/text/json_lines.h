/* JSON lines as a text: the "text" of every object is a document. */
#ifndef CH_TEXT_JSON_LINES_H
#define CH_TEXT_JSON_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/file.h"

/* Returns true when a file is meant as JSON lines: by its name (.jsonl, .ndjson, .json), or because its first
   line is a JSON object. */
bool ch_is_json_lines(const char *path, const char *text, size_t size);

/* Writes the documents, with CH_DOCUMENT_MARKER between them, to a file without a name in TMPDIR (or /tmp)
   and maps it. Blank lines are skipped. Errors name `path` and the line: no JSON object, one without a string
   "text". */
ch_status ch_json_lines_map(const char *path, const char *text, size_t size, ch_map *map, ch_error *error);

#endif
