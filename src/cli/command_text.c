/* Writes a command line: words quoted for a shell, counts with suffixes. */
#include "cli/command_text.h"

#include <string.h>

#include "cli/parse.h"

static void put_word(const char *word, ch_text *text) {
  if (*word &&
      !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%")]) {
    ch_text_puts(text, word);
    return;
  }
  ch_text_puts(text, "'");
  for (; *word; word++)
    if (*word == '\'')
      ch_text_puts(text, "'\\''");
    else
      ch_text_put(text, word, 1);
  ch_text_puts(text, "'");
}

/* Writes 2000000 as 2M and 2000 as 2k. */
static void put_count(int64_t count, ch_text *text) {
  if (count && count % 1000000 == 0)
    ch_text_printf(text, "%lldM", (long long)(count / 1000000));
  else if (count && count % 1000 == 0)
    ch_text_printf(text, "%lldk", (long long)(count / 1000));
  else
    ch_text_printf(text, "%lld", (long long)count);
}

void ch_put_command_line(const char *name, const ch_option *options, const void *arguments, ch_text *text) {
  const char *const *positional = arguments; /* the first member of every argument struct */
  ch_text_printf(text, "crosshead %s", name);
  for (int i = 0; i < CH_POSITIONAL_MAX && positional[i]; i++) {
    ch_text_puts(text, " ");
    put_word(positional[i], text);
  }
  for (const ch_option *o = options; o->name; o++) {
    if (!*o->name || !ch_option_given(arguments, o->name)) continue;
    const void *member = (const char *)arguments + o->offset;
    ch_text_printf(text, " --%s", o->name);
    if (o->type == CH_OPTION_FLAG) continue;
    if (o->bare && strcmp(*(const char *const *)member, o->bare) == 0) continue; /* only a TEXT has `bare` */
    ch_text_puts(text, " ");
    if (o->type == CH_OPTION_COUNT)
      put_count(*(const int64_t *)member, text);
    else if (o->type == CH_OPTION_TIME)
      ch_text_printf(text, "%gs", *(const double *)member);
    else if (o->type == CH_OPTION_NUMBER)
      ch_text_printf(text, "%g", *(const double *)member);
    else
      put_word(*(const char *const *)member, text);
  }
}
