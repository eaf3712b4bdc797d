/* Thin helpers over jansson: strict parsing, values as text for messages, and writing of strings and numbers. */
#ifndef CH_BASE_JSON_H
#define CH_BASE_JSON_H

#include <jansson.h>

#include "base/error.h"
#include "base/text.h"

/* Copies a JSON text, with integers beyond 64 bits as real numbers, and NaN, Infinity and -Infinity as strings. Python
   writes both, and keys that this library does not read may have them. Returns false, without a copy, if the text has
   neither. */
bool ch_json_tolerate(const char *text, size_t size, ch_text *copy);

/* Parses `size` bytes whose root must be an object, with the changes of ch_json_tolerate. Fails for duplicate keys,
   trailing bytes, bad UTF-8 and numbers that overflow. The message names `where`, the line and, if there is one, the
   key before the error. */
ch_status ch_json_parse(const char *text, size_t size, const char *where, json_t **root, ch_error *error);

/* Like ch_json_parse, for a file of at most `limit` bytes. */
ch_status ch_json_read(const char *path, size_t limit, json_t **root, ch_error *error);

/* Reads a 64-bit integer, written as an integer or with a zero fraction (64.0). Returns false for other values. */
bool ch_json_whole(const json_t *value, int64_t *whole);

/* Returns the number at a key of an object, or `missing` if there is no number. */
double ch_json_number_at(const json_t *object, const char *key, double missing);
/* Returns the text at a key of an object, or "" if there is no text. */
const char *ch_json_text_at(const json_t *object, const char *key);

/* Writes a value for a message: "an object", or the JSON text of any other value, in ASCII and shortened. Returns
   buffer. */
const char *ch_json_show(const json_t *value, char *buffer, size_t size);
/* Writes a name from a file for a message: quoted, escaped and shortened. Returns buffer. */
const char *ch_json_quote(const char *name, char *buffer, size_t size);

/* Like json_dumps, but returns NULL if out of memory. json_dumps may then omit keys. The caller frees the text. */
char *ch_json_dump(const json_t *value, size_t flags);

/* Writes a value to a file of a directory, and releases the value. A value of NULL means out of memory, and fails. */
ch_status ch_json_write(const char *directory, const char *name, json_t *value, size_t flags,
                        ch_error *error);

/* Appends a new value to *list. If out of memory, releases the list and sets *list to NULL. */
void ch_json_append(json_t **list, json_t *value);

/* Returns a JSON number, or JSON's null if `number` is not finite; NULL if out of memory. */
json_t *ch_json_finite(double number);

/* Appends a JSON string, escaped. */
void ch_json_put_string(ch_text *json, const char *string);
/* Like ch_json_put_string, for `size` bytes of UTF-8, which may include any control characters. */
void ch_json_put_bytes(ch_text *json, const char *bytes, size_t size);
/* Appends the shortest text that reads back as the same double, with a point or an exponent: 10000.0, 1e-05. Whole
   numbers from 1e15 on may have neither. */
void ch_json_put_number(ch_text *json, double number);

#endif
