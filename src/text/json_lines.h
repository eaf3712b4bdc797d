/* JSON lines as a text: the "text" of every object is a document. */
#ifndef CH_TEXT_JSON_LINES_H
#define CH_TEXT_JSON_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/file.h"

/* Returns true if a file is JSON lines: by its name (.jsonl, .ndjson, .json), or because its first line with
   text is a JSON object. */
bool ch_is_json_lines(const char *path, const char *text, size_t size);

/* Writes the documents, with CH_DOCUMENT_MARKER between them, to a file without a name in TMPDIR (or /tmp)
   and maps it. Blank lines are skipped. A line that is not a JSON object, or has no string "text", is an error
   that names `path` and the line. */
ch_status ch_json_lines_map(const char *path, const char *text, size_t size, ch_map *map, ch_error *error);

#endif
