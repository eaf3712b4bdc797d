/* Status names and error messages.
 *
 * A message names settings in braces, "{steps} must be positive". The error records the positions of the names, so that
 * a front end can spell them as its own options. Long words are shortened, and control characters become question
 * marks. Nothing here prints. */
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

/* Sizes in bytes. A message may quote text of a file or an argument. Words longer than LONGEST_WORD are cut to their
   first HEAD and last TAIL bytes. ROOM is the size of buffers. */
enum { LONGEST_WORD = 160, HEAD = 100, TAIL = 50, ROOM = 8192 };
/* While a message is written, these characters surround the names of settings. */
enum { BEGIN = 1, END = 2 };

static bool is_shown(utf8proc_int32_t character) {
  /* marks that change the direction of the text after them */
  bool turns = character == 0x200e || character == 0x200f || (character >= 0x202a && character <= 0x202e) ||
               (character >= 0x2066 && character <= 0x2069);
  utf8proc_category_t category = utf8proc_category(character);
  return !turns && category != UTF8PROC_CATEGORY_CC && category != UTF8PROC_CATEGORY_ZL &&
         category != UTF8PROC_CATEGORY_ZP;
}

/* Replaces control characters, marks of text direction and bytes that are not UTF-8 by question marks. BEGIN and END
   stay. */
static void make_printable(char *message) {
  char *to = message;
  for (const char *from = message; *from;) {
    utf8proc_int32_t character;
    utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)from, -1, &character);
    if (bytes > 0 && (is_shown(character) || character == BEGIN || character == END)) {
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

/* Shortens long words, which are names from a file, to their beginning and end. */
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

/* Removes BEGIN and END from the message and records the positions of names. */
static void set_names(ch_error *error, char *message) {
  const int most = sizeof error->names / sizeof *error->names;
  char *to = message;
  short begin = -1;
  error->name_count = 0;
  for (const char *from = message; *from; from++) {
    short at = (short)(to - message);
    if (*from == BEGIN)
      begin = at;
    else if (*from != END)
      *to++ = *from;
    else if (begin >= 0 && error->name_count < most)
      error->names[error->name_count++] = (ch_error_name){begin, (short)(at - begin)}, begin = -1;
  }
  *to = 0;
  error->setting[0] = 0;
  if (error->name_count)
    snprintf(error->setting, sizeof error->setting, "%.*s", error->names[0].length,
             message + error->names[0].at);
}

/* Cleans and shortens the message, and stores it in the error. */
static void set_message(ch_error *error, char *message) {
  static const char more[] = "...";
  make_printable(message);
  shorten_words(message);
  set_names(error, message);
  size_t length = strlen(message), most = sizeof error->message - 1;
  if (length > most) {
    length = most - strlen(more);
    while (inside_character(message[length])) length--;
    strcpy(message + length, more);
    while (error->name_count > 0 && (size_t)(error->names[error->name_count - 1].at +
                                             error->names[error->name_count - 1].length) > length)
      error->name_count--;
  }
  strcpy(error->message, message);
}

/* Returns the length of "{name}" or "{%s}" at `format`, or 0 if there is none. */
static size_t name_length(const char *format) {
  if (strncmp(format, "{%s}", 4) == 0) return 4;
  size_t length = *format == '{' ? strspn(format + 1, "abcdefghijklmnopqrstuvwxyz_0123456789") : 0;
  return length && format[length + 1] == '}' ? length + 2 : 0;
}

/* Copies a format with `begin` and `end` in the place of the braces of names. */
static void mark_names(const char *format, char begin, char end, char out[ROOM]) {
  size_t size = 0;
  while (*format && size + 1 < ROOM) {
    size_t length = name_length(format);
    if (length == 0 || size + length >= ROOM) {
      out[size++] = *format++;
      continue;
    }
    memcpy(out + size, format, length);
    out[size] = begin;
    size += length;
    out[size - 1] = end;
    format += length;
  }
  out[size] = 0;
}

/* Formats twice, with exchanged marks. A mark that is the same in both texts comes from an argument and is replaced by
   a question mark. */
static void format_message(const char *format, va_list args, char message[ROOM]) {
  char marked[ROOM], other[ROOM];
  va_list again;
  va_copy(again, args);
  mark_names(format, BEGIN, END, marked);
  vsnprintf(message, ROOM, marked, args);
  mark_names(format, END, BEGIN, marked);
  vsnprintf(other, ROOM, marked, again);
  va_end(again);
  for (size_t i = 0; message[i]; i++)
    if ((message[i] == BEGIN || message[i] == END) && message[i] == other[i]) message[i] = '?';
}

ch_status ch_fail(ch_error *error, ch_status status, const char *format, ...) {
  if (error) {
    char message[ROOM];
    va_list args;
    va_start(args, format);
    format_message(format, args, message);
    va_end(args);
    error->status = status;
    set_message(error, message);
  }
  return status;
}

ch_status ch_fail_as(ch_error *error, ch_status status, const ch_error *cause) {
  if (error) {
    *error = *cause;
    error->status = status;
  }
  return status;
}

ch_status ch_no_memory(ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "out of memory");
}

static void spell_between_marks(const char *setting, char *out, size_t size, void *user) {
  (void)user;
  snprintf(out, size, "%c%s%c", BEGIN, setting, END);
}

ch_status ch_refuse_null(ch_error *error, const char *what) {
  return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL", what);
}

ch_status ch_fail_in(ch_error *error, const char *prefix) {
  if (!error) return CH_ERROR_ARGUMENT;
  char place[ROOM / 2], message[ROOM], marked[sizeof error->message + 2 * sizeof error->names];
  snprintf(place, sizeof place, "%s", prefix);
  for (char *at = place; *at; at++)
    if (*at == BEGIN || *at == END) *at = '?';
  ch_error_spell(error, spell_between_marks, NULL, marked, sizeof marked);
  snprintf(message, sizeof message, "%s: %s", place, marked);
  set_message(error, message);
  return error->status;
}

void ch_error_spell(const ch_error *error, ch_setting_speller spell, void *user, char *out, size_t size) {
  size_t at = 0, used = 0;
  for (int i = 0; i <= error->name_count && used < size; i++) {
    ch_error_name name = {(short)strlen(error->message), 0};
    if (i < error->name_count) name = error->names[i];
    used +=
        (size_t)snprintf(out + used, size - used, "%.*s", (int)((size_t)name.at - at), error->message + at);
    at = (size_t)(name.at + name.length);
    if (i == error->name_count || used >= size) continue;
    char setting[64];
    snprintf(setting, sizeof setting, "%.*s", name.length, error->message + name.at);
    spell(setting, out + used, size - used, user);
    used += strlen(out + used);
  }
}
