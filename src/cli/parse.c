/* Parses GNU long options by the table of a command. Errors name the nearest option or the valid range, which
 * getopt_long cannot do. */
#include "cli/parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static int option_count(const ch_command *command) {
  int count = 0;
  while (command->options && command->options[count].name) count++;
  return count;
}

/* Returns the names of a table's options, and "help"; malloc'd. */
static const char **option_names(const ch_command *command) {
  int count = option_count(command), used = 0;
  const char **names = malloc(((size_t)count + 2) * sizeof *names);
  if (!names) return NULL;
  for (int i = 0; i < count; i++)
    if (*command->options[i].name) names[used++] = command->options[i].name;
  names[used++] = "help";
  names[used] = NULL;
  return names;
}

static bool has_name(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name) != 0) names++;
  return *names != NULL;
}

/* Returns a hint about choosing GPUs for options with which other programs choose them, or NULL. */
static const char *gpu_hint(const char *name, const char *const *own) {
  static const char *const theirs[] = {"cuda",   "device", "devices",  "gpu", "gpus",
                                       "n-gpus", "ngpus",  "num-gpus", NULL};
  if (!has_name(theirs, name) || (has_name(own, "device") && strncmp(name, "device", 6) == 0)) return NULL;
  return has_name(own, "engine")
             ? "--engine pytorch --device cuda:0,cuda:1 names the GPUs to train on"
             : "only train, compare and sweep use GPUs, with --engine pytorch --device cuda:0,cuda:1";
}

static ch_status unknown_option(const ch_command *command, const char *word, ch_error *error) {
  const char *start = word + strspn(word, "-");
  char name[64] = {0};
  size_t length = strcspn(start, "=");
  memcpy(name, start, length < sizeof name - 1 ? length : sizeof name - 1);
  const char **names = option_names(command);
  const char *near = names && *name ? ch_nearest_name(name, names) : NULL;
  const char *gpus = names ? gpu_hint(name, names) : NULL;
  int shown = (int)(length + (size_t)(start - word));
  if (gpus)
    ch_fail(error, CH_ERROR_ARGUMENT, "unknown option %.*s; %s", shown, word, gpus);
  else if (near)
    ch_fail(error, CH_ERROR_ARGUMENT, "unknown option %.*s; did you mean --%s?", shown, word, near);
  else
    ch_fail(error, CH_ERROR_ARGUMENT, "unknown option %.*s; `crosshead %s --help` lists the options", shown,
            word, command->name);
  free(names);
  return CH_ERROR_ARGUMENT;
}

static ch_status store_count(const ch_option *option, const char *value, void *at, ch_error *error) {
  int64_t count;
  if (!ch_parse_count(value, &count))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--%s: '%s' is not a count; write a whole number like 500, 10k or 1.5M", option->name,
                   value);
  memcpy(at, &count, sizeof count);
  return CH_OK;
}

static ch_status store_number(const ch_option *option, const char *value, void *at, ch_error *error) {
  double number;
  if (!ch_parse_number(value, &number))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s: '%s' is not a finite number; write one like 0.8 or 3e-4",
                   option->name, value);
  memcpy(at, &number, sizeof number);
  return CH_OK;
}

static ch_status store_time(const ch_option *option, const char *value, void *at, ch_error *error) {
  double seconds;
  if (!ch_parse_duration(value, &seconds) || seconds <= 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s: '%s' is not a time; write one like 90s, 30m or 2h",
                   option->name, value);
  memcpy(at, &seconds, sizeof seconds);
  return CH_OK;
}

static ch_status store_choice(const ch_option *option, const char *value, void *at, ch_error *error) {
  ch_text list = {0};
  for (const char *const *choice = option->choices; *choice; choice++) {
    if (strcmp(*choice, value) == 0) {
      memcpy(at, choice, sizeof *choice);
      ch_text_free(&list);
      return CH_OK;
    }
    ch_text_printf(&list, "%s%s", choice == option->choices ? "" : choice[1] ? ", " : " or ", *choice);
  }
  ch_fail(error, CH_ERROR_ARGUMENT, "--%s: '%s' is not known; it is one of %s", option->name, value,
          list.data ? list.data : "");
  ch_text_free(&list);
  return CH_ERROR_ARGUMENT;
}

static ch_status store_word(const ch_option *option, const char *value, ch_words *words, ch_error *error) {
  int count = 0;
  while (words->list[count]) count++;
  if (count == CH_MOST_WORDS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s can be given at most %d times", option->name,
                   CH_MOST_WORDS);
  words->list[count] = value;
  return CH_OK;
}

static ch_status check_bounds(const ch_option *option, double value, const char *written, ch_error *error) {
  if (option->min == 0 && option->max == 0) return CH_OK;
  bool above = option->max >= option->min;
  if (value >= option->min && (!above || value <= option->max)) return CH_OK;
  if (!above)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s: %s is too small; it must be at least %.10g", option->name,
                   written, option->min);
  return ch_fail(error, CH_ERROR_ARGUMENT, "--%s: %s is out of range; it must be from %.10g to %.10g",
                 option->name, written, option->min, option->max);
}

/* Stores one value in the argument struct. `value` is NULL for a flag. */
static ch_status store(const ch_option *option, const char *value, void *arguments, ch_error *error) {
  void *at = (char *)arguments + option->offset;
  int64_t count;
  double number;
  switch (option->type) {
  case CH_OPTION_FLAG:
    memcpy(at, &(bool){true}, sizeof(bool));
    return CH_OK;
  case CH_OPTION_PATH:
    if (!*value)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s: the name is empty; give %s", option->name,
                     option->metavar ? option->metavar : "a path");
    memcpy(at, &value, sizeof value);
    return CH_OK;
  case CH_OPTION_TEXT:
    memcpy(at, &value, sizeof value);
    return CH_OK;
  case CH_OPTION_CHOICE:
    return store_choice(option, value, at, error);
  case CH_OPTION_COUNT:
    CH_TRY(store_count(option, value, at, error));
    memcpy(&count, at, sizeof count);
    return check_bounds(option, (double)count, value, error);
  case CH_OPTION_NUMBER:
    CH_TRY(store_number(option, value, at, error));
    memcpy(&number, at, sizeof number);
    return check_bounds(option, number, value, error);
  case CH_OPTION_TIME:
    return store_time(option, value, at, error);
  case CH_OPTION_WORDS:
    return store_word(option, value, at, error);
  }
  return CH_OK;
}

static bool is_named(const char *name, const char *word, size_t length) {
  return name && *name && strlen(name) == length && memcmp(name, word, length) == 0;
}

/* Reads one option, whose value is in the same word or the next. *used receives the number of words read. */
static ch_status parse_option(const ch_command *command, int argc, char **argv, ch_command_line *parsed,
                              int *used, ch_error *error) {
  const char *word = argv[0], *equals = strchr(word, '=');
  size_t length = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
  *used = 1;
  for (int i = 0; word[1] == '-' && i < option_count(command); i++) {
    const ch_option *option = &command->options[i];
    if (!is_named(option->name, word + 2, length) && !is_named(option->alias, word + 2, length)) continue;
    const char *value = equals ? equals + 1 : NULL;
    if (option->type == CH_OPTION_FLAG && value)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s has no value; leave out '=%s'", option->name, value);
    if (option->type != CH_OPTION_FLAG && !value) {
      bool absent = argc < 2 || strncmp(argv[1], "--", 2) == 0;
      if (absent && !option->bare)
        return ch_fail(error, CH_ERROR_ARGUMENT, "--%s needs a value; write --%s %s", option->name,
                       option->name, option->metavar ? option->metavar : "VALUE");
      value = absent ? option->bare : argv[1];
      *used = absent ? 1 : 2;
    }
    parsed->given[i] = true;
    return store(option, value, parsed->arguments, error);
  }
  return unknown_option(command, word, error);
}

void ch_positional_count(const ch_command *command, int *least, int *most) {
  *least = *most = 0;
  for (const char *p = command->positional; p && *p; p += strcspn(p, " ")) {
    p += strspn(p, " ");
    if (!*p) break;
    size_t length = strcspn(p, " ");
    *most = length > 3 && strncmp(p + length - 3, "...", 3) == 0 ? CH_POSITIONAL_MAX - 1 : *most + 1;
    if (*p != '[') ++*least;
  }
}

/* Writes word n, from 0, of the command's positional arguments ("MODEL [FILE]"). */
static void positional_name(const ch_command *command, int n, char *name, size_t size) {
  const char *p = command->positional;
  while (n-- > 0) {
    p += strcspn(p, " ");
    p += strspn(p, " ");
  }
  size_t length = strcspn(p, " ");
  if (length >= size) length = size - 1;
  memcpy(name, p, length);
  name[length] = 0;
}

/* Fails if required options or positional arguments are missing. */
static ch_status check_complete(const ch_command *command, const ch_command_line *parsed, int positional,
                                ch_error *error) {
  int least, most;
  ch_positional_count(command, &least, &most);
  if (positional < least) {
    char name[64];
    positional_name(command, positional, name, sizeof name);
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is missing; write `crosshead %s %s`", name, command->name,
                   command->positional);
  }
  for (int i = 0; i < option_count(command); i++) {
    const ch_option *option = &command->options[i];
    if (option->required && !parsed->given[i])
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s is missing; give --%s %s", option->name, option->name,
                     option->metavar ? option->metavar : "VALUE");
  }
  return CH_OK;
}

static ch_status set_defaults(const ch_command *command, void *arguments, ch_error *error) {
  if (command->defaults) command->defaults(arguments);
  for (int i = 0; i < option_count(command); i++) {
    const ch_option *option = &command->options[i];
    if (*option->name && option->default_value)
      CH_TRY(store(option, option->default_value, arguments, error));
  }
  return CH_OK;
}

/* Fails for an argument that the command does not take. */
static ch_status unexpected(const ch_command *command, const char *word, int most,
                            const ch_command_line *parsed, ch_error *error) {
  for (int i = 0; command->meant && i < option_count(command); i++)
    if (strcmp(command->options[i].name, command->meant) == 0 && !parsed->given[i])
      return ch_fail(error, CH_ERROR_ARGUMENT, "unexpected argument '%.200s'; did you mean --%s '%.200s'?",
                     word, command->meant, word);
  return ch_fail(error, CH_ERROR_ARGUMENT, "unexpected argument '%s'; write `crosshead %s%s%s`", word,
                 command->name, most ? " " : " [OPTION]...", command->positional);
}

static ch_status parse_words(const ch_command *command, int argc, char **argv, ch_command_line *parsed,
                             ch_error *error) {
  CH_TRY(set_defaults(command, parsed->arguments, error));
  int least, most, positional = 0;
  ch_positional_count(command, &least, &most);
  bool options_ended = false;
  for (int i = 0; i < argc;) {
    const char *word = argv[i];
    if (!options_ended && word[0] == '-' && word[1]) {
      int used = 1;
      if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        parsed->help = true;
        return CH_OK;
      }
      if (strcmp(word, "--") == 0)
        options_ended = true;
      else
        CH_TRY(parse_option(command, argc - i, argv + i, parsed, &used, error));
      i += used;
      continue;
    }
    if (positional == CH_POSITIONAL_MAX - 1)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "'%s' is one argument too many; crosshead %s accepts at most %d", word, command->name,
                     CH_POSITIONAL_MAX - 1);
    if (positional == most) return unexpected(command, word, most, parsed, error);
    ((const char **)parsed->arguments)[positional++] = word;
    i++;
  }
  return check_complete(command, parsed, positional, error);
}

ch_status ch_parse_command_line(const ch_command *command, int argc, char **argv, ch_command_line *parsed,
                                ch_error *error) {
  size_t size = command->arguments_size;
  if (size < CH_POSITIONAL_MAX * sizeof(char *)) size = CH_POSITIONAL_MAX * sizeof(char *);
  *parsed =
      (ch_command_line){.arguments = calloc(1, size), .given = calloc((size_t)option_count(command) + 1, 1)};
  ch_status status = CH_OK;
  if (!parsed->arguments || !parsed->given)
    status = ch_no_memory(error);
  else
    status = parse_words(command, argc, argv, parsed, error);
  if (status != CH_OK) ch_parsed_free(parsed);
  return status;
}

void ch_parsed_free(ch_command_line *parsed) {
  free(parsed->arguments);
  free(parsed->given);
  *parsed = (ch_command_line){0};
}
