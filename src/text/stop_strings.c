/* Searches the end of a growing text for stop strings. The text and the stop strings are short, so every position
 * is compared. */
#include "text/stop_strings.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

ch_status ch_stops_check(const char *const *stops, int count, ch_error *error) {
  if (count < 0) return ch_fail(error, CH_ERROR_ARGUMENT, "%d stop strings are not possible", count);
  for (int i = 0; i < count; i++) {
    if (!stops || !stops[i] || !*stops[i])
      return ch_fail(error, CH_ERROR_ARGUMENT, "stop string %d is empty; it would end the text at once", i);
    size_t size = strlen(stops[i]);
    if (ch_utf8_valid_prefix((const unsigned char *)stops[i], size) != size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "stop string %d is not valid UTF-8, so no text can contain it",
                     i);
  }
  return CH_OK;
}

/* Returns the index of the longest stop string that ends where the text does, or -1 if there is none. */
static int longest_complete(const char *const *stops, int count, const char *text, size_t size) {
  int best = -1;
  for (int i = 0; i < count; i++) {
    size_t length = strlen(stops[i]);
    if (length > size || memcmp(text + size - length, stops[i], length) != 0) continue;
    if (best < 0 || length > strlen(stops[best])) best = i;
  }
  return best;
}

/* Returns true if the whole text is the beginning of a stop string, or empty. */
static bool may_begin(const char *const *stops, int count, const char *text, size_t size) {
  for (int i = 0; i < count; i++)
    if (strncmp(stops[i], text, size) == 0) return true;
  return size == 0;
}

size_t ch_stops_search(const char *const *stops, int count, const char *text, size_t size, size_t seen,
                       int *found) {
  for (size_t end = seen + 1; end <= size; end++) {
    *found = longest_complete(stops, count, text, end);
    if (*found >= 0) return end - strlen(stops[*found]);
  }
  *found = -1;
  size_t longest = 0;
  for (int i = 0; i < count; i++)
    if (strlen(stops[i]) > longest) longest = strlen(stops[i]);
  size_t first = size > longest ? size - longest : 0;
  while (!may_begin(stops, count, text + first, size - first)) first++;
  return first;
}
