/* Status names and error messages. */
#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

const char *ch_status_name(ch_status status) {
  static const char *const names[] = {"ok",     "argument", "io",          "format", "config",
                                      "memory", "numeric",  "interrupted", "full"};
  if ((unsigned)status >= sizeof names / sizeof *names) return "unknown";
  return names[status];
}

/* Text of a file or an argument may be quoted in a message. The message stays one short line without control characters. */
enum { LONGEST_WORD = 160, HEAD = 100, TAIL = 50, ROOM = 8192 };

static bool is_shown(utf8proc_int32_t character) {
  bool turns = character == 0x200e || character == 0x200f || (character >= 0x202a && character <= 0x202e) ||
               (character >= 0x2066 && character <= 0x2069); /* the direction of what follows */
  utf8proc_category_t category = utf8proc_category(character);
  return !turns && category != UTF8PROC_CATEGORY_CC && category != UTF8PROC_CATEGORY_ZL &&
         category != UTF8PROC_CATEGORY_ZP;
}

/* Question marks in the place of control characters and of bytes that are not UTF-8. */
static void make_printable(char *message) {
  char *to = message;
  for (const char *from = message; *from;) {
    utf8proc_int32_t character;
    utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)from, -1, &character);
    if (bytes > 0 && is_shown(character)) {
      memmove(to, from, (size_t)bytes);
      to += bytes;
    } else {
      *to++ = '?';
    }
    from += bytes > 0 ? bytes : 1;
  }
  *to = 0;
}

static bool inside_character(char byte) {
  return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Words that no sentence has, which are names out of a file, keep their beginning and end. */
static void shorten_words(char *message) {
  for (char *word = message; *(word += strspn(word, " "));) {
    size_t length = strcspn(word, " ");
    char *end = word + length;
    if (length > LONGEST_WORD) {
      char *head = word + HEAD;
      const char *tail = end - TAIL;
      while (inside_character(*head)) head--;
      while (inside_character(*tail)) tail++;
      size_t kept = (size_t)(end - tail);
      memcpy(head, "...", 3);
      memmove(head + 3, tail, strlen(tail) + 1);
      end = head + 3 + kept;
    }
    word = end;
  }
}

/* Makes the message fit and be fit to show, and puts it into the error. */
static void set_message(ch_error *error, char *message) {
  static const char more[] = "...";
  make_printable(message);
  shorten_words(message);
  size_t length = strlen(message), most = sizeof error->message - 1;
  if (length > most) {
    length = most - strlen(more);
    while (inside_character(message[length])) length--;
    strcpy(message + length, more);
  }
  strcpy(error->message, message);
}

ch_status ch_fail(ch_error *error, ch_status status, const char *format, ...) {
  if (error) {
    char message[ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    error->status = status;
    set_message(error, message);
  }
  return status;
}

ch_status ch_no_memory(ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "out of memory");
}

ch_status ch_fail_in(ch_error *error, const char *prefix) {
  if (!error) return CH_ERROR_ARGUMENT;
  char message[ROOM];
  snprintf(message, sizeof message, "%.*s: %s", ROOM / 2, prefix, error->message);
  set_message(error, message);
  return error->status;
}
