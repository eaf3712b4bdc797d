/* Writes help texts, wrapped to 80 columns. */
#include "cli/help.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, OPTION_INDENT = 2, HELP_COLUMN = 26 };

/* Returns the number of characters of a UTF-8 text, which are its columns in Latin scripts. */
static int columns(const char *text, size_t size) {
  int n = 0;
  for (size_t i = 0; i < size; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
  return n;
}

/* Appends words wrapped at WIDTH. The cursor is at `column`; further lines start at `indent`. */
static void put_wrapped(ch_text *out, const char *words, int column, int indent) {
  bool first = true;
  for (const char *p = words; *p;) {
    p += strspn(p, " \n");
    size_t length = strcspn(p, " \n");
    if (!length) break;
    int wide = columns(p, length);
    if (!first && column + 1 + wide > WIDTH) {
      ch_text_printf(out, "\n%*s", indent, "");
      column = indent;
    } else if (!first) {
      ch_text_put(out, " ", 1);
      column++;
    }
    ch_text_put(out, p, length);
    column += wide;
    first = false;
    p += length;
  }
  ch_text_put(out, "\n", 1);
}

/* Writes paragraphs separated by empty lines. Lines that start with a space are not wrapped. */
static void put_paragraphs(ch_text *out, const char *text) {
  for (const char *p = text; p && *p;) {
    size_t length = strcspn(p, "\n");
    char *line = malloc(length + 1);
    if (!line) {
      out->failed = true;
      return;
    }
    memcpy(line, p, length);
    line[length] = 0;
    if (*line == ' ' || !*line)
      ch_text_printf(out, "%s\n", line);
    else
      put_wrapped(out, line, 0, 0);
    free(line);
    p += length;
    p += *p == '\n';
  }
}

/* Writes "--lr NUMBER" or "--json". */
static void put_synopsis(const ch_option *option, ch_text *text) {
  ch_text_printf(text, "--%s", option->name);
  if (option->type != CH_OPTION_FLAG)
    ch_text_printf(text, option->bare ? " [%s]" : " %s", option->metavar ? option->metavar : "VALUE");
}

void ch_option_notes(const ch_option *option, ch_text *notes) {
  if (option->type == CH_OPTION_CHOICE)
    for (const char *const *choice = option->choices; *choice; choice++)
      ch_text_printf(notes, "%s%s", choice == option->choices ? "" : choice[1] ? ", " : " or ", *choice);
  if (option->required)
    ch_text_printf(notes, "%srequired", notes->size ? "; " : "");
  else if (option->default_value && *option->default_value)
    ch_text_printf(notes, "%sdefault: %s", notes->size ? "; " : "", option->default_value);
  if (option->alias) ch_text_printf(notes, "%salso --%s", notes->size ? "; " : "", option->alias);
}

static void put_entry(ch_text *out, const char *left, const char *help) {
  ch_text_printf(out, "%*s%s", OPTION_INDENT, "", left);
  int column = OPTION_INDENT + columns(left, strlen(left));
  if (column + 2 > HELP_COLUMN) {
    ch_text_printf(out, "\n%*s", HELP_COLUMN, "");
  } else {
    ch_text_printf(out, "%*s", HELP_COLUMN - column, "");
  }
  put_wrapped(out, help, HELP_COLUMN, HELP_COLUMN);
}

static void put_option(ch_text *out, const ch_option *option) {
  ch_text left = {0}, notes = {0}, help = {0};
  put_synopsis(option, &left);
  ch_option_notes(option, &notes);
  ch_text_puts(&help, option->help ? option->help : "");
  if (notes.size) ch_text_printf(&help, " (%s)", notes.data);
  if (left.failed || notes.failed || help.failed)
    out->failed = true;
  else
    put_entry(out, left.data, help.data);
  ch_text_free(&left);
  ch_text_free(&notes);
  ch_text_free(&help);
}

static void put_options(ch_text *out, const ch_command *command) {
  bool headed = false;
  for (const ch_option *option = command->options; option && option->name; option++) {
    if (!*option->name) {
      ch_text_printf(out, "\n%s:\n", option->help);
    } else {
      if (!headed) ch_text_puts(out, "\nOptions:\n");
      put_option(out, option);
    }
    headed = true;
  }
  if (!headed) ch_text_puts(out, "\nOptions:\n");
  put_entry(out, "--help", "Print this text and exit.");
}

static void put_list(ch_text *out, const ch_command *command) {
  bool more = true;
  ch_text_printf(out, "\n%s:\n", command->list_title);
  for (int i = 0; more; i++) {
    ch_text entry = {0}, meaning = {0};
    more = command->list(i, &entry, &meaning);
    if (entry.data && meaning.data) put_entry(out, entry.data, meaning.data);
    out->failed |= entry.failed || meaning.failed;
    ch_text_free(&entry);
    ch_text_free(&meaning);
  }
}

static void put_usage(ch_text *out, const ch_command *command) {
  ch_text usage = {0};
  int indent = columns(command->name, strlen(command->name)) + 18;
  ch_text_printf(&usage, "crosshead %s %s", command->name, command->positional ? command->positional : "");
  for (const ch_option *option = command->options; option && option->name; option++) {
    if (!option->required) continue;
    ch_text_puts(&usage, " ");
    put_synopsis(option, &usage);
  }
  if (command->options && command->options[0].name) ch_text_puts(&usage, " [OPTION]...");
  ch_text_puts(out, "Usage: ");
  if (usage.data) put_wrapped(out, usage.data, 7, indent);
  out->failed |= usage.failed;
  ch_text_free(&usage);
}

static void put_examples(ch_text *out, const char *examples) {
  ch_text_puts(out, "\nExamples:\n");
  for (const char *p = examples; *p;) {
    size_t length = strcspn(p, "\n");
    ch_text_printf(out, "  %.*s\n", (int)length, p);
    p += length;
    p += *p == '\n';
  }
}

static void print_text(ch_text *text, FILE *stream) {
  if (text->data && !text->failed) fwrite(text->data, 1, text->size, stream);
  ch_text_free(text);
}

void ch_print_command_help(const ch_command *command, FILE *stream) {
  ch_text out = {0};
  put_usage(&out, command);
  ch_text_puts(&out, "\n");
  put_wrapped(&out, command->summary, 0, 0);
  if (command->description && *command->description) {
    ch_text_puts(&out, "\n");
    put_paragraphs(&out, command->description);
  }
  put_options(&out, command);
  if (command->list) put_list(&out, command);
  if (command->examples && *command->examples) put_examples(&out, command->examples);
  print_text(&out, stream);
}

void ch_print_program_help(FILE *stream) {
  ch_text out = {0};
  ch_text_puts(&out, "Usage: crosshead COMMAND [ARGUMENT]... [OPTION]...\n\n");
  put_wrapped(&out,
              "Compare attention mechanisms for language models - their quality, the size of their key-value "
              "cache and "
              "their speed - by training them side by side on your text, on this machine.",
              0, 0);
  ch_text_puts(&out, "\nCommands:\n");
  for (const ch_command *const *c = ch_commands; *c; c++) put_entry(&out, (*c)->name, (*c)->summary);
  ch_text_puts(&out, "\nOptions:\n");
  put_entry(&out, "--help", "Print this text and exit.");
  put_entry(&out, "--version", "Print the version and exit.");
  ch_text_puts(&out, "\n`crosshead COMMAND --help` explains a command.\n");
  print_text(&out, stream);
}

void ch_print_family_help(const char *word, FILE *stream) {
  ch_text out = {0};
  ch_text_printf(&out, "Usage: crosshead %s COMMAND [ARGUMENT]... [OPTION]...\n\nCommands:\n", word);
  size_t length = strlen(word);
  for (const ch_command *const *c = ch_commands; *c; c++)
    if (strncmp((*c)->name, word, length) == 0 && (*c)->name[length] == ' ')
      put_entry(&out, (*c)->name, (*c)->summary);
  ch_text_printf(&out, "\n`crosshead %s COMMAND --help` explains a command.\n", word);
  print_text(&out, stream);
}
