/* Thin helpers over jansson: strict parsing, values as people read them in messages, strings and numbers to
 * text. */
#ifndef CH_BASE_JSON_H
#define CH_BASE_JSON_H

#include <jansson.h>

#include "base/error.h"
#include "base/text.h"

/* Copies a JSON text, with whole numbers beyond 64 bits as real ones, and NaN, Infinity and -Infinity as
   strings. Python writes both, and keys that this library does not read may have them. Returns false, without
   a copy, if the text has neither. */
bool ch_json_tolerate(const char *text, size_t size, ch_text *copy);

/* Parses `size` bytes whose root must be an object, with the changes of ch_json_tolerate. Duplicate keys,
   trailing bytes, bad UTF-8 and numbers that overflow are errors. The message names `where`, the line and, if
   there is one, the key before it. */
ch_status ch_json_parse(const char *text, size_t size, const char *where, json_t **root, ch_error *error);

/* Like ch_json_parse, for a file of at most `limit` bytes. */
ch_status ch_json_read(const char *path, size_t limit, json_t **root, ch_error *error);

/* Reads a whole number that fits 64 bits, written as one or with a zero fraction (64.0). */
bool ch_json_whole(const json_t *value, int64_t *whole);

/* Members of an object: a number, or `missing` if it is no number; a text, or "" if it is no text. */
double ch_json_number_at(const json_t *object, const char *key, double missing);
const char *ch_json_text_at(const json_t *object, const char *key);

/* Writes a value for a message: its JSON text in ASCII, shortened, or "an object" or "a list". Returns
   buffer. */
const char *ch_json_show(const json_t *value, char *buffer, size_t size);
/* Writes a name from a file for a message: quoted, escaped, shortened. Returns buffer. */
const char *ch_json_quote(const char *name, char *buffer, size_t size);

/* Like json_dumps, but returns NULL if out of memory; jansson omits a key that it could not write. The caller
   frees the text. */
char *ch_json_dump(const json_t *value, size_t flags);

/* Writes a value to a file of a directory, and releases the value; NULL stands for one that found no memory. */
ch_status ch_json_write(const char *directory, const char *name, json_t *value, size_t flags,
                        ch_error *error);

/* Appends a new value to *list. When memory is out, releases the list, and *list becomes NULL. */
void ch_json_append(json_t **list, json_t *value);

/* Returns a number, or null for one that JSON cannot represent. NULL if out of memory. */
json_t *ch_json_finite(double number);

/* Appends a JSON string, escaped. */
void ch_json_put_string(ch_text *json, const char *string);
/* Like ch_json_put_string, for `size` bytes of UTF-8, whatever control characters they hold. */
void ch_json_put_bytes(ch_text *json, const char *bytes, size_t size);
/* Appends the shortest text that reads back as the same double, with a point or an exponent: 10000.0,
   1e-05. */
void ch_json_put_number(ch_text *json, double number);

#endif
