/* Finds the command, parses its arguments, runs it, and turns the outcome into an exit status. */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crosshead/version.h>

#include "base/text.h"
#include "cli/destination.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/parse.h"

enum { EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

/* The command line being run; the program runs one command in its life. */
static struct {
  const ch_command *command;
  ch_parsed parsed;
  ch_destinations outputs;
} running;

bool ch_option_given(const void *arguments, const char *name) {
  if (!running.command || arguments != running.parsed.arguments) return false;
  for (int i = 0; running.command->options && running.command->options[i].name; i++)
    if (strcmp(running.command->options[i].name, name) == 0) return running.parsed.given[i];
  return false;
}

const char *ch_output_path(const void *arguments, const char *option) {
  return arguments == running.parsed.arguments ? ch_destinations_path(&running.outputs, option) : NULL;
}

static bool has_name(const ch_option *option, const char *setting) {
  size_t i = 0;
  for (; option->name[i] && setting[i]; i++)
    if (option->name[i] != setting[i] && (option->name[i] != '-' || setting[i] != '_')) return false;
  return option->name[i] == setting[i];
}

/* The option that sets a setting comes before one that is called like it. */
static void spell_as_option(const char *setting, char *out, size_t size, void *user) {
  const ch_command *command = user;
  const ch_option *found = NULL;
  for (const ch_option *o = command ? command->options : NULL; o && o->name; o++) {
    bool sets = o->setting && strcmp(o->setting, setting) == 0;
    if (sets || (!found && has_name(o, setting))) found = o;
    if (sets) break;
  }
  snprintf(out, size, "%s%s", found ? "--" : "", found ? found->name : setting);
}

static const char *write_message(const ch_command *command, const ch_error *error,
                                 char out[CH_MESSAGE_SIZE]) {
  ch_error_spell(error, spell_as_option, (void *)(uintptr_t)command, out, CH_MESSAGE_SIZE);
  return out;
}

const char *ch_message_of(const ch_error *error, char out[CH_MESSAGE_SIZE]) {
  return write_message(running.command, error, out);
}

/* "crosshead train: sentence". */
static void print_error(const char *command, const char *message) {
  fflush(stdout);
  fprintf(stderr, "crosshead%s%s: %s\n", *command ? " " : "", command, message);
}

/* How many of argv's words name the command in `list` (one or two), or 0; two before one. */
static int match(const ch_command *const *list, int argc, char **argv, const ch_command **found) {
  int words = 0;
  for (; *list; list++) {
    const char *name = (*list)->name, *space = strchr(name, ' ');
    size_t first = space ? (size_t)(space - name) : strlen(name);
    if (strlen(argv[0]) != first || memcmp(name, argv[0], first) != 0) continue;
    if (space && (argc < 2 || strcmp(space + 1, argv[1]) != 0)) continue;
    if (words == 2) continue;
    *found = *list;
    words = space ? 2 : 1;
  }
  return words;
}

int ch_find_command(int argc, char **argv, const ch_command **found) {
  int words = match(ch_commands, argc, argv, found);
  return words ? words : match(ch_hidden_commands, argc, argv, found);
}

/* True when `word` is the first word of commands of two words. */
static bool is_family(const char *word) {
  size_t length = strlen(word);
  for (const ch_command *const *c = ch_commands; *c; c++)
    if (strncmp((*c)->name, word, length) == 0 && (*c)->name[length] == ' ') return true;
  return false;
}

/* The names that may follow: after a family's first word, the second words. */
static void list_names(const char *family, const char *names[], int most) {
  size_t skip = family ? strlen(family) + 1 : 0;
  int count = 0;
  for (const ch_command *const *c = ch_commands; *c && count < most; c++)
    if (!family || (strncmp((*c)->name, family, skip - 1) == 0 && (*c)->name[skip - 1] == ' '))
      names[count++] = (*c)->name + skip;
  names[count] = NULL;
}

static void print_unknown(int argc, char **argv) {
  enum { MOST = 128 };
  const char *names[MOST + 1], *family = is_family(argv[0]) ? argv[0] : NULL;
  list_names(family, names, MOST);
  ch_error error;
  if (family && argc < 2) {
    ch_fail(&error, CH_ERROR_ARGUMENT, "a command is missing; write `crosshead %s %s`, or --help to see all",
            family, names[0]);
  } else {
    const char *word = family ? argv[1] : argv[0], *near = ch_nearest_name(word, names);
    if (near)
      ch_fail(&error, CH_ERROR_ARGUMENT, "unknown command '%.64s'; did you mean '%s'?", word, near);
    else
      ch_fail(&error, CH_ERROR_ARGUMENT, "unknown command '%.64s'; `crosshead --help` lists the commands",
              word);
  }
  print_error(family ? family : "", error.message);
}

/* Applies --threads where it is given. */
static void set_threads(const ch_command *command, const ch_parsed *parsed) {
  for (int i = 0; command->options && command->options[i].name; i++)
    if (strcmp(command->options[i].name, "threads") == 0 && parsed->given[i])
      ch_cli_threads(
          *(const int64_t *)(const void *)((char *)parsed->arguments + command->options[i].offset));
}

/* Tidies up beside a call that cannot be cancelled: what the command has not finished goes away. */
static void leave(void) {
  ch_error error = {0};
  bool writes = running.outputs.count > 0;
  ch_destinations_close(&running.outputs, CH_ERROR_INTERRUPTED, &error);
  fprintf(stderr, "%scrosshead %s: interrupted%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
          running.command->name, writes ? "; nothing was written" : "");
}

/* With several processes, rank 0 is responsible for the outputs. */
static ch_status run_between_outputs(const ch_command *command, ch_error *error) {
  bool leads = ch_job_leads();
  ch_status status = leads ? ch_destinations_open(command, &running.parsed, &running.outputs, error) : CH_OK;
  CH_TRY(ch_job_agree(status, error));
  set_threads(command, &running.parsed);
  running.command = command;
  ch_interrupt_on_leaving(leave);
  status = command->run(running.parsed.arguments, error);
  running.command = NULL;
  leads = ch_job_leads(); /* the command may have made several processes */
  status = leads ? ch_destinations_close(&running.outputs, status, error) : status;
  return ch_job_agree(status, error);
}

/* Exit status as in shells: 128 plus the signal's number. */
static int exit_status_of(ch_status status) {
  int number = ch_job_signal(ch_interrupt_number());
  if (status == CH_OK) return EXIT_SUCCESS;
  if (status == CH_ERROR_INTERRUPTED && number) return EXIT_SIGNAL + number;
  return status == CH_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILURE;
}

static int run(const ch_command *command, int argc, char **argv) {
  ch_error error = {0};
  ch_status status = command->over_ranks ? ch_job_join(&error) : CH_OK;
  if (status == CH_OK) status = ch_parse_command_line(command, argc, argv, &running.parsed, &error);
  if (status == CH_OK && !running.parsed.help) status = ch_environment_check(&error);
  status = ch_job_agree(status, &error);
  bool leads = ch_job_leads();
  if (status == CH_OK && running.parsed.help && leads)
    ch_print_command_help(command, stdout);
  else if (status == CH_OK && !running.parsed.help)
    status = run_between_outputs(command, &error);
  ch_parsed_free(&running.parsed);
  leads = ch_job_leads();
  char message[CH_MESSAGE_SIZE];
  if (status != CH_OK && leads) print_error(command->name, write_message(command, &error, message));
  int exit_status = exit_status_of(status);
  /* A launcher may end all processes when it sees one end with a failure, so they end together, after the sentence. */
  ch_job_leave();
  return exit_status;
}

static int dispatch(int argc, char **argv) {
  if (argc < 2) {
    ch_print_program_help(stderr);
    return EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    ch_print_program_help(stdout);
    return EXIT_SUCCESS;
  }
  if (strcmp(argv[1], "--version") == 0) {
    puts("crosshead " CH_VERSION_STRING);
    return EXIT_SUCCESS;
  }
  const ch_command *command = NULL;
  int words = ch_find_command(argc - 1, argv + 1, &command);
  if (words) return run(command, argc - 1 - words, argv + 1 + words);
  if (argv[1][0] == '-') {
    ch_error error;
    ch_fail(&error, CH_ERROR_ARGUMENT,
            "unknown option '%.64s'; write a command first (`crosshead --help` lists them)", argv[1]);
    print_error("", error.message);
  } else if (is_family(argv[1]) && argc > 2 &&
             (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
    ch_print_family_help(argv[1], stdout);
    return EXIT_SUCCESS;
  } else {
    print_unknown(argc - 1, argv + 1);
  }
  return EXIT_USAGE;
}

int ch_command_main(int argc, char **argv) {
  ch_output_begin();
  int exit_status = dispatch(argc, argv);
  char reason[256];
  if (!ch_output_end(reason, sizeof reason)) {
    if (exit_status == EXIT_SUCCESS) print_error("", reason);
    if (exit_status == EXIT_SUCCESS) exit_status = EXIT_FAILURE;
  }
  return exit_status;
}
