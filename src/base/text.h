/* Small helpers for text: growing strings, nearest names, and counts, sizes and durations as text. */
#ifndef CH_BASE_TEXT_H
#define CH_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing string; zero-initialise it. `failed` is true after an allocation failed; check it once at the end. */
typedef struct ch_text {
  char *data;
  size_t size, capacity;
  bool failed;
} ch_text;

void ch_text_put(ch_text *text, const char *bytes, size_t size);
void ch_text_puts(ch_text *text, const char *string);
void ch_text_printf(ch_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ch_text_vprintf(ch_text *text, const char *format, va_list list) __attribute__((format(printf, 2, 0)));
void ch_text_free(ch_text *text);

/* Returns the name in `names` (NULL-terminated) that `word` probably means, ignoring case: one that begins with the
   word, one with which the word begins, or the nearest by edit distance. Returns NULL if none is near enough. */
const char *ch_nearest_name(const char *word, const char *const *names);

/* Parses "10M" as 10000000 (k, M, G or B, T: powers of 1000; KiB, MiB, GiB, TiB: powers of 1024; 1.5M is allowed).
   Returns false if it is not a count. */
bool ch_parse_count(const char *text, int64_t *count);
/* Parses a number of bytes like a count; "24GB" is "24G". A lone B means bytes, not billions: "200B" is 200. */
bool ch_parse_bytes(const char *text, int64_t *bytes);
/* Parses a whole string as a finite number. */
bool ch_parse_number(const char *text, double *number);
/* Parses "30m" as 1800 seconds (s, m, h, d; 1.5h and 1h30m are allowed). Returns false if it is not a
   duration. */
bool ch_parse_duration(const char *text, double *seconds);
/* Writes 12345678 as "12.3 M" to buffer, and returns it. */
const char *ch_format_count(double count, char *buffer, size_t size);
/* Writes 12345678 as "12.3 MB" to buffer, and returns it. */
const char *ch_format_bytes(double bytes, char *buffer, size_t size);
bool ch_ends_with(const char *text, const char *end);
/* Returns true if `names` (NULL-terminated) has the name. */
bool ch_in_list(const char *name, const char *const *names);
/* Returns the noun after a count: `one` after 1, else `many`. */
const char *ch_plural(int64_t count, const char *one, const char *many);
/* Returns "a" or "an" for the word, by its first letter. */
const char *ch_article(const char *word);
/* Writes 3725 as "1h02m" to buffer, and returns it. */
const char *ch_format_duration(double seconds, char *buffer, size_t size);

enum { CH_UTC_SIZE = 32 };
/* Writes seconds since 1970 as "2026-01-31T23:59:59Z" to buffer, and returns it. */
const char *ch_format_utc(int64_t seconds, char buffer[CH_UTC_SIZE]);

#endif
