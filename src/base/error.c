/* Status names and error messages. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ch_status_name(ch_status status) {
  static const char *const names[] = {"ok",     "argument", "io",          "format", "config",
                                      "memory", "numeric",  "interrupted", "full"};
  if ((unsigned)status >= sizeof names / sizeof *names) return "unknown";
  return names[status];
}

/* What a file holds may be quoted in a message, which stays one line that no terminal acts on. */
static void keep_to_a_line(char *message) {
  for (; *message; message++)
    if ((unsigned char)*message < ' ' || *message == 0x7f) *message = '?';
}

ch_status ch_fail(ch_error *error, ch_status status, const char *format, ...) {
  if (error) {
    va_list args;
    va_start(args, format);
    error->status = status;
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    keep_to_a_line(error->message);
  }
  return status;
}

ch_status ch_fail_in(ch_error *error, const char *prefix) {
  if (!error) return CH_ERROR_ARGUMENT;
  char old[sizeof error->message];
  memcpy(old, error->message, sizeof old);
  int used = snprintf(error->message, sizeof error->message, "%s: ", prefix);
  if (used > 0 && (size_t)used < sizeof error->message)
    snprintf(error->message + used, sizeof error->message - (size_t)used, "%s", old);
  keep_to_a_line(error->message);
  return error->status;
}
