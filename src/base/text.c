/* Growing strings, similar names, and the parsing and printing of counts and durations. */
#include "base/text.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static bool reserve(ch_text *text, size_t more) {
  if (text->failed) return false;
  if (text->capacity - text->size > more) return true;
  size_t capacity = text->capacity ? text->capacity * 2 : 256;
  while (capacity - text->size <= more) capacity *= 2;
  char *data = realloc(text->data, capacity);
  if (!data) return !(text->failed = true);
  text->data = data;
  text->capacity = capacity;
  return true;
}

void ch_text_put(ch_text *text, const char *bytes, size_t size) {
  if (!reserve(text, size)) return;
  if (size) memcpy(text->data + text->size, bytes, size);
  text->size += size;
  text->data[text->size] = 0;
}

void ch_text_puts(ch_text *text, const char *string) {
  ch_text_put(text, string, strlen(string));
}

void ch_text_vprintf(ch_text *text, const char *format, va_list list) {
  va_list again;
  va_copy(again, list);
  int length = vsnprintf(NULL, 0, format, list);
  if (length >= 0 && reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->size, (size_t)length + 1, format, again);
    text->size += (size_t)length;
  }
  va_end(again);
}

void ch_text_printf(ch_text *text, const char *format, ...) {
  va_list list;
  va_start(list, format);
  ch_text_vprintf(text, format, list);
  va_end(list);
}

void ch_text_free(ch_text *text) {
  free(text->data);
  *text = (ch_text){0};
}

/* Returns the number of letters that were changed, left out, added or exchanged with their neighbour. Ignores case. */
static int edit_distance(const char *a, const char *b) {
  enum { LONGEST = 63 };
  int rows[3][LONGEST + 1], na = (int)strlen(a), nb = (int)strlen(b);
  if (na > LONGEST || nb > LONGEST) return INT_MAX;
  for (int i = 0; i <= na; i++) {
    int *row = rows[i % 3];
    const int *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= nb; j++) {
      if (i == 0) {
        row[j] = j;
        continue;
      }
      int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
      int least = above[j - 1] + (x != y);
      if (above[j] + 1 < least) least = above[j] + 1;
      if (row[j - 1] + 1 < least) least = row[j - 1] + 1;
      bool exchanged =
          i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]);
      if (exchanged && second[j - 2] + 1 < least) least = second[j - 2] + 1;
      row[j] = least;
    }
  }
  return rows[na % 3][nb];
}

/* A word that begins a name is short for it ("kha", kha-linear). A word that begins with a name of at least four
   letters is a longer form of it ("evaluate", eval). Otherwise about one letter in three may be wrong. */
const char *ch_nearest_name(const char *word, const char *const *names) {
  enum { LEAST_BEGINNING = 2, LEAST_NAME = 4 };
  const size_t length = strlen(word);
  const char *best = NULL;
  int limit = length > 4 ? (int)(length + 1) / 3 : length > 1, nearest = limit + 1;
  for (const char *const *name = names; length >= LEAST_BEGINNING && *name; name++)
    if (strncasecmp(*name, word, length) == 0) return *name;
  for (; *names; names++) {
    const size_t own = strlen(*names);
    int distance = edit_distance(word, *names);
    if (own >= LEAST_NAME && own < length && strncasecmp(*names, word, own) == 0) distance = 1;
    if (distance < nearest) {
      nearest = distance;
      best = *names;
    }
  }
  return best;
}

bool ch_parse_number(const char *text, double *number) {
  if (!*text || isspace((unsigned char)*text)) return false;
  char *end;
  *number = strtod(text, &end);
  return *end == 0 && isfinite(*number);
}

bool ch_parse_duration(const char *text, double *seconds) {
  static const char units[] = "smhd";
  static const double factors[] = {1, 60, 3600, 86400};
  *seconds = 0;
  do {
    if (!isdigit((unsigned char)*text) && *text != '.') return false;
    char *end;
    double number = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (!unit || !isfinite(number)) return false;
    *seconds += number * factors[unit - units];
    text = end + 1;
  } while (*text);
  return isfinite(*seconds);
}

bool ch_parse_count(const char *text, int64_t *count) {
  static const struct {
    const char *name;
    double factor;
  } suffixes[] = {{"", 1},
                  {"k", 1e3},
                  {"K", 1e3},
                  {"M", 1e6},
                  {"G", 1e9},
                  {"B", 1e9},
                  {"T", 1e12},
                  {"KiB", 1024.0},
                  {"MiB", 1048576.0},
                  {"GiB", 1073741824.0},
                  {"TiB", 1099511627776.0}};
  if (!isdigit((unsigned char)*text) && *text != '.') return false;
  char *end;
  double value = strtod(text, &end);
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    if (strcmp(end, suffixes[i].name) != 0) continue;
    value *= suffixes[i].factor;
    if (!(value >= 0 && value < 9e18) || value != floor(value)) return false;
    *count = (int64_t)value;
    return true;
  }
  return false;
}

bool ch_parse_bytes(const char *text, int64_t *bytes) {
  char word[32];
  size_t length = strlen(text);
  if (length < 2 || length >= sizeof word) return ch_parse_count(text, bytes);
  bool named = text[length - 1] == 'B', decimal = named && strchr("kKMGT0123456789.", text[length - 2]);
  if (named && !decimal && text[length - 2] != 'i') return false;
  snprintf(word, sizeof word, "%.*s", (int)(length - decimal), text);
  return ch_parse_count(word, bytes);
}

const char *ch_article(const char *word) {
  return *word && strchr("AEIOaeio", *word) ? "an" : "a";
}

const char *ch_plural(int64_t count, const char *one, const char *many) {
  return count == 1 ? one : many;
}

const char *ch_format_count(double count, char *buffer, size_t size) {
  static const char *const units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (fabs(count) >= 999.5 && unit < 4) {
    count /= 1000;
    unit++;
  }
  snprintf(buffer, size, unit && fabs(count) < 99.95 ? "%.1f%s" : "%.0f%s", count, units[unit]);
  return buffer;
}

const char *ch_format_bytes(double bytes, char *buffer, size_t size) {
  char count[32];
  ch_format_count(bytes, count, sizeof count);
  snprintf(buffer, size, "%s%sB", count, strchr(count, ' ') ? "" : " ");
  return buffer;
}

const char *ch_format_duration(double seconds, char *buffer, size_t size) {
  long s = seconds > 0 ? (long)(seconds + 0.5) : 0;
  if (s < 60)
    snprintf(buffer, size, "%lds", s);
  else if (s < 3600)
    snprintf(buffer, size, "%ldm%02lds", s / 60, s % 60);
  else
    snprintf(buffer, size, "%ldh%02ldm", s / 3600, s / 60 % 60);
  return buffer;
}

const char *ch_format_utc(int64_t seconds, char buffer[CH_UTC_SIZE]) {
  struct tm parts;
  time_t time = (time_t)seconds;
  size_t used = gmtime_r(&time, &parts) ? strftime(buffer, CH_UTC_SIZE, "%Y-%m-%dT%H:%M:%SZ", &parts) : 0;
  buffer[used] = 0;
  return buffer;
}

bool ch_in_list(const char *name, const char *const *names) {
  for (; *names; names++)
    if (strcmp(name, *names) == 0) return true;
  return false;
}

bool ch_ends_with(const char *text, const char *end) {
  size_t size = strlen(text), tail = strlen(end);
  return size >= tail && strcmp(text + size - tail, end) == 0;
}
