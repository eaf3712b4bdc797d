/* Finds a command, parses its arguments, runs it, and turns the outcome into an exit status. Also handles everything
 * that all commands share: threads, outputs, the job, errors. */
#include "cli/command.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crosshead/version.h>

#include "base/text.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/invocation.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/parse.h"

enum { EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

/* Prints "crosshead train: sentence". */
static void print_error(const char *command, const char *message) {
  fflush(stdout);
  fprintf(stderr, "crosshead%s%s: %s\n", *command ? " " : "", command, message);
}

/* Lists the names of all commands, or only the second words of the commands of a family (NULL: no family). */
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
  const char *names[MOST + 1], *family = ch_is_family(argv[0]) ? argv[0] : NULL;
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

/* Applies --threads if it was given. Engines read this number when they are created (tensor/team.h). */
static void set_threads(const ch_command *command, const ch_command_line *parsed) {
  for (int i = 0; command->options && command->options[i].name; i++)
    if (strcmp(command->options[i].name, "threads") == 0 && parsed->given[i])
      omp_set_num_threads(
          (int)*(const int64_t *)(const void *)((char *)parsed->arguments + command->options[i].offset));
}

/* Deletes unfinished outputs and prints a message, while another thread is in a call that cannot be cancelled. */
static void leave(void) {
  ch_error error = {0};
  bool writes = ch_invocation.outputs.count > 0;
  ch_destinations_close(&ch_invocation.outputs, CH_ERROR_INTERRUPTED, &error);
  fprintf(stderr, "%scrosshead %s: interrupted%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
          ch_invocation.command->name, writes ? "; nothing was written" : "");
}

/* Opens a command's outputs, runs it, and closes them. With several processes, rank 0 opens and closes them. */
static ch_status run_between_outputs(const ch_command *command, ch_error *error) {
  bool leads = ch_job_leads();
  ch_status status =
      leads ? ch_destinations_open(command, &ch_invocation.parsed, &ch_invocation.outputs, error) : CH_OK;
  CH_TRY(ch_job_agree(status, error));
  set_threads(command, &ch_invocation.parsed);
  ch_invocation.command = command;
  ch_interrupt_on_leaving(leave);
  status = command->run(ch_invocation.parsed.arguments, error);
  ch_invocation.command = NULL;
  leads = ch_job_leads(); /* the command may have started several processes */
  status = leads ? ch_destinations_close(&ch_invocation.outputs, status, error) : status;
  return ch_job_agree(status, error);
}

/* Returns the exit status. After a signal it is 128 plus the signal's number, as in shells. */
static int exit_status_of(ch_status status) {
  int number = ch_job_signal(ch_interrupt_number());
  if (status == CH_OK) return EXIT_SUCCESS;
  if (status == CH_ERROR_INTERRUPTED && number) return EXIT_SIGNAL + number;
  return status == CH_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILURE;
}

/* Prints the error. If a job cannot continue in its directory, suggests --force. */
static void print_failure(const ch_command *command, ch_status status, const ch_error *error) {
  char message[CH_MESSAGE_SIZE + 64];
  bool job = false, names_out = false;
  for (const ch_option *o = command->options; o && o->name; o++) job |= o->writes == CH_WRITES_JOB;
  ch_command_message(command, error, message);
  for (int i = 0; i < error->name_count; i++)
    names_out |= error->names[i].length == 3 && strncmp(error->message + error->names[i].at, "out", 3) == 0;
  if (job && names_out && status == CH_ERROR_ARGUMENT) strcat(message, "; or replace it with --force");
  print_error(command->name, message);
}

static int run(const ch_command *command, int argc, char **argv) {
  ch_error error = {0};
  ch_status status = command->over_ranks ? ch_job_join(&error) : CH_OK;
  if (status == CH_OK) status = ch_parse_command_line(command, argc, argv, &ch_invocation.parsed, &error);
  if (status == CH_OK && !ch_invocation.parsed.help) status = ch_environment_check(&error);
  status = ch_job_agree(status, &error);
  bool leads = ch_job_leads();
  if (status == CH_OK && ch_invocation.parsed.help && leads)
    ch_print_command_help(command, stdout);
  else if (status == CH_OK && !ch_invocation.parsed.help)
    status = run_between_outputs(command, &error);
  ch_parsed_free(&ch_invocation.parsed);
  leads = ch_job_leads();
  if (status != CH_OK && leads) print_failure(command, status, &error);
  int exit_status = exit_status_of(status);
  /* a launcher may kill all processes when one fails, so they exit together, after the message */
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
  } else if (ch_is_family(argv[1]) && argc > 2 &&
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
