/* A forward reader over JSON text for tables too large to build a tree of (a vocabulary, a list of
   merges). */
#ifndef CH_TEXT_JSON_SCAN_H
#define CH_TEXT_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

typedef struct ch_json_scan {
  const char *name; /* the file's name, for messages */
  const char *start, *at, *end;
  bool fresh;     /* true after a container was opened: no comma is due */
  ch_text buffer; /* bytes of the last string that had escapes */
} ch_json_scan;

/* Begins to scan a text. It must be UTF-8 and outlive the scan. Release with ch_json_scan_end. */
ch_status ch_json_scan_begin(ch_json_scan *scan, const char *name, const char *text, size_t size,
                             ch_error *error);
void ch_json_scan_end(ch_json_scan *scan);

/* Returns the first character of the next value or token, or 0 at the end of the text. */
char ch_json_peek(ch_json_scan *scan);
/* Consumes '{' or '['. */
ch_status ch_json_enter(ch_json_scan *scan, char bracket, ch_error *error);
/* Call before each element. Consumes the comma, or consumes the closing bracket and sets *more to false. */
ch_status ch_json_more(ch_json_scan *scan, char closing, bool *more, ch_error *error);
/* Reads a string. *text is valid until the next string with escapes. Its bytes may include NUL. */
ch_status ch_json_string(ch_json_scan *scan, const char **text, size_t *size, ch_error *error);
/* Reads a string and the colon after it. */
ch_status ch_json_key(ch_json_scan *scan, const char **text, size_t *size, ch_error *error);
ch_status ch_json_integer(ch_json_scan *scan, int64_t *value, ch_error *error);
/* Passes over any value and gives its text; only brackets and strings are checked. */
ch_status ch_json_skip(ch_json_scan *scan, const char **text, size_t *size, ch_error *error);
/* Fails if anything but white space follows. */
ch_status ch_json_finish(ch_json_scan *scan, ch_error *error);

#endif
