/* Shared by the tests of tokenizers and token files. */
#ifndef TEXT_TEST_H
#define TEXT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/random.h"
#include "text/tokenizer.h"

#define SKIP_UNLESS(path)                                                                                    \
  do {                                                                                                       \
    if (access(path, R_OK) != 0) {                                                                           \
      print_message("[ skipped ] %s is not here\n", path);                                                   \
      skip();                                                                                                \
    }                                                                                                        \
  } while (0)

/* Fails the test with error.message if the call fails. */
#define ASSERT_OK(call)                                                                                      \
  do {                                                                                                       \
    if ((call) != CH_OK) fail_msg("%s", error.message);                                                      \
  } while (0)

#define ASSERT_FAILS(call, status, part)                                                                     \
  do {                                                                                                       \
    error.message[0] = 0;                                                                                    \
    assert_int_equal(call, status);                                                                          \
    if (!strstr(error.message, part)) fail_msg("\"%s\" lacks \"%s\"", error.message, part);                  \
  } while (0)

static inline ch_tokenizer *open_tokenizer(const char *path) {
  ch_tokenizer *tokenizer = NULL;
  ch_error error;
  ASSERT_OK(ch_tokenizer_open(path, &tokenizer, &error));
  return tokenizer;
}

static inline void encode(const ch_tokenizer *tokenizer, const char *text, size_t size, unsigned flags,
                          ch_ids *ids) {
  ch_error error;
  ids->size = 0;
  ASSERT_OK(ch_tokenizer_encode(tokenizer, text, size, flags, ids, &error));
}

/* Creates a new directory under /tmp and returns its path. Release both with remove_directory. */
static inline char *new_directory(void) {
  char name[] = "/tmp/crosshead-text-XXXXXX";
  assert_non_null(mkdtemp(name));
  return strdup(name);
}

/* Removes a directory with its contents and frees the name. */
static inline void remove_directory(char *directory) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  assert_int_equal(system(command), 0);
  free(directory);
}

static inline char *write_beside(const char *directory, const char *name, const char *text, size_t size) {
  ch_error error;
  char *path = ch_path_join(directory, name);
  ASSERT_OK(ch_write_file(path, text, size, &error));
  return path;
}

/* Replaces `text` by random text of pieces that tokenizers treat specially, with invalid UTF-8 if `broken`. */
static inline void random_text(ch_random *random, size_t pieces, int broken, ch_text *text) {
  static const char *const parts[] = {"a",
                                      "b",
                                      "the",
                                      "word",
                                      "Z",
                                      " ",
                                      " ",
                                      " ",
                                      "  ",
                                      "\n",
                                      "\n\n",
                                      "\r\n",
                                      "\t",
                                      "\v",
                                      "\f",
                                      "'s",
                                      "'S",
                                      "'re",
                                      "'Re",
                                      "'",
                                      "'l",
                                      "'lL",
                                      "1",
                                      "23",
                                      "4567",
                                      ".",
                                      ",",
                                      "!?",
                                      "-",
                                      "(",
                                      "<|",
                                      "|>",
                                      "\x01",
                                      "\x7f",
                                      "é",
                                      "É",
                                      "ß",
                                      "ſ",
                                      "e\u0301",
                                      "日本",
                                      "א",
                                      "😀",
                                      "½",
                                      "²",
                                      "Ⅷ",
                                      "٣",
                                      "\u00a0",
                                      "\xc2\x85",
                                      "\u2003",
                                      "\u2028",
                                      "\u3000",
                                      "\u180e",
                                      "\u200b",
                                      "\ufeff",
                                      "ｆ",
                                      "한",
                                      "\u1100\u1161\u11a8",
                                      "q\u0307\u0323",
                                      "K",
                                      "_",
                                      "▁",
                                      "<s>",
                                      "<|endoftext|>"};
  static const char *const bad[] = {"\xff",         "\x80",         "\xc3",     "\xe2\x82",
                                    "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\xaf", "\xf5"};
  text->size = 0;
  ch_text_puts(text, "");
  for (size_t i = 0; i < pieces; i++) {
    if (broken && ch_random_below(random, 8) == 0)
      ch_text_puts(text, bad[ch_random_below(random, 8)]);
    else
      ch_text_puts(text, parts[ch_random_below(random, sizeof parts / sizeof *parts)]);
  }
}

#endif
