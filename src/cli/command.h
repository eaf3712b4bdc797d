/* Commands as tables: one declaration gives parsing, --help, the man page and shell completion. */
#ifndef CH_CLI_COMMAND_H
#define CH_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

typedef enum ch_option_type {
  CH_OPTION_FLAG,   /* bool;         --json */
  CH_OPTION_TEXT,   /* const char *; --prompt TEXT */
  CH_OPTION_PATH,   /* const char *; completed as a file name */
  CH_OPTION_COUNT,  /* int64_t;      --tokens 10M */
  CH_OPTION_NUMBER, /* double;       --lr 3e-4 */
  CH_OPTION_CHOICE, /* const char *; one of `choices` */
  CH_OPTION_TIME,   /* double, seconds; --budget 30m */
  CH_OPTION_WORDS   /* ch_words;     --cors A --cors B */
} ch_option_type;

/* The values of an option that may be repeated; NULL-terminated. */
enum { CH_MOST_WORDS = 64 };
typedef struct ch_words {
  const char *list[CH_MOST_WORDS + 1];
} ch_words;

/* The kind of output at the path of an option; cli/destination.h creates and replaces it. */
typedef enum ch_writes {
  CH_WRITES_NOTHING,
  CH_WRITES_FILE,
  CH_WRITES_DIRECTORY, /* a directory or one file: written next to its path and renamed when complete */
  CH_WRITES_JOB        /* a directory in which a job continues where it was interrupted */
} ch_writes;

/* The number of names from the command's list in a value. */
typedef enum ch_lists {
  CH_LISTS_NONE,
  CH_LISTS_ONE,
  CH_LISTS_SEVERAL /* one or more names, separated by commas */
} ch_lists;

/* One long option. Its value is stored in the command's argument struct at `offset`. */
typedef struct ch_option {
  const char *name; /* name without the dashes; NULL ends a table; "" is a heading whose text is `help` */
  ch_option_type type;
  size_t offset;             /* offset of the value in the argument struct */
  const char *metavar;       /* placeholder of the value in --help */
  const char *default_value; /* default as typed by a user; NULL: no default */
  const char *bare;          /* value of a TEXT option that is given without one; NULL: it needs one */
  /* inclusive bounds of a COUNT or NUMBER; both 0: no bounds; max < min: no upper bound */
  double min, max;
  const char *const *choices; /* valid values of a CHOICE, NULL-terminated */
  /* The library's name of the setting in errors, if it is not the option's name with underscores; or NULL. */
  const char *setting;
  const char *help;  /* one sentence for --help */
  bool required;     /* true if leaving it out is an error */
  const char *alias; /* another name of the option, or NULL */
  ch_writes writes;  /* kind of output at a PATH */
  ch_lists lists;    /* number of names from the command's list in the value, for shell completion */
} ch_option;

/* Rows of a table. Further members follow the help: .default_value = "16". */
#define CH_HEADING(text)                                                                                     \
  { .name = "", .help = text }
#define CH_FLAG_OPTION(option, at, ...)                                                                      \
  { .name = option, .type = CH_OPTION_FLAG, .offset = at, .help = __VA_ARGS__ }
#define CH_TEXT_OPTION(option, at, value, ...)                                                               \
  { .name = option, .type = CH_OPTION_TEXT, .offset = at, .metavar = value, .help = __VA_ARGS__ }
#define CH_PATH_OPTION(option, at, value, ...)                                                               \
  { .name = option, .type = CH_OPTION_PATH, .offset = at, .metavar = value, .help = __VA_ARGS__ }
#define CH_WORDS_OPTION(option, at, value, ...)                                                              \
  { .name = option, .type = CH_OPTION_WORDS, .offset = at, .metavar = value, .help = __VA_ARGS__ }
#define CH_TIME_OPTION(option, at, value, ...)                                                               \
  { .name = option, .type = CH_OPTION_TIME, .offset = at, .metavar = value, .help = __VA_ARGS__ }
#define CH_COUNT_OPTION(option, at, value, least, most, ...)                                                 \
  {                                                                                                          \
    .name = option, .type = CH_OPTION_COUNT, .offset = at, .metavar = value, .min = least, .max = most,      \
    .help = __VA_ARGS__                                                                                      \
  }
#define CH_NUMBER_OPTION(option, at, value, least, most, ...)                                                \
  {                                                                                                          \
    .name = option, .type = CH_OPTION_NUMBER, .offset = at, .metavar = value, .min = least, .max = most,     \
    .help = __VA_ARGS__                                                                                      \
  }
#define CH_CHOICE_OPTION(option, at, value, names, ...)                                                      \
  {                                                                                                          \
    .name = option, .type = CH_OPTION_CHOICE, .offset = at, .metavar = value, .choices = names,              \
    .help = __VA_ARGS__                                                                                      \
  }

/* Rows of many commands. The program handles --force and --threads before a command runs. */
#define CH_FORCE_OPTION(at)                                                                                  \
  CH_FLAG_OPTION("force", at,                                                                                \
                 "Replace an output that exists already. Only outputs of Crosshead and model directories "   \
                 "are replaced.")
#define CH_JSON_OPTION(at) CH_FLAG_OPTION("json", at, "Print one JSON object.")
#define CH_THREADS_OPTION(at)                                                                                \
  CH_COUNT_OPTION("threads", at, "N", 1, 1024,                                                               \
                  "Number of threads (default: OMP_NUM_THREADS, else all cores).")

typedef struct ch_command {
  const char *name; /* "train", or "tokenizer train" for a command of two words */
  /* Positional arguments: "CONFIG", "MODEL [FILE]"; "" for none. [X] is optional, X... is one or more, [X]... is any
     number. */
  const char *positional;
  /* Option that a surplus argument probably belongs to, for the error message: "data"; or NULL. */
  const char *meant;
  const char *summary;     /* one line for the list of commands */
  const char *description; /* paragraphs for --help and the man page, one line each, separated by "\n\n" */
  const char *examples;    /* command lines, one per line */
  /* A list after the options in --help: its heading, and a function that fills entry `index` (the name as typed, its
     meaning) and returns false after the last. Both NULL: no list. */
  const char *list_title;
  bool (*list)(int index, ch_text *entry, ch_text *meaning);
  const ch_option *options;
  /* Fills the zeroed argument struct before options are read; NULL: it stays zeroed. */
  void (*defaults)(void *arguments);
  /* Size of the argument struct. Its FIRST member is `const char *positional[CH_POSITIONAL_MAX]`, NULL-terminated. */
  size_t arguments_size;
  bool over_ranks; /* true if several processes of one job may run it together (cli/job.h) */
  /* Runs with the filled struct; returns CH_OK or fills *error. CH_ERROR_ARGUMENT gives exit status 2,
     CH_ERROR_INTERRUPTED after a signal 128 plus the signal's number, any other error 1. */
  ch_status (*run)(const void *arguments, ch_error *error);
} ch_command;
/* The members of a command for its options and its function. */
#define CH_RUNS(table, type, function) .options = table, .arguments_size = sizeof(type), .run = function

/* All commands, NULL-terminated, in the order --help lists them (cli/commands.c). */
extern const ch_command *const ch_commands[];
/* Commands that only the build uses. --help does not list them. */
extern const ch_command *const ch_hidden_commands[];

/* Returns true if the option was given on the command line. */
bool ch_option_given(const void *arguments, const char *name);

/* Returns the path to write an option's output to. If it is not the user's path, it is renamed to that path when the
   command succeeds. */
const char *ch_output_path(const void *arguments, const char *option);

enum { CH_MESSAGE_SIZE = 1400 };
/* Writes an error's message with the settings that it names spelt as options of the running command; returns `out`. */
const char *ch_message_of(const ch_error *error, char out[CH_MESSAGE_SIZE]);

/* Returns false once a write to standard output has failed (full disk, closed pipe). Commands that stream then
 * stop. */
bool ch_output_alive(void);

/* Parses argv, handles --help and --version, runs the command and prints its error. Returns the exit status. */
int ch_command_main(int argc, char **argv);

#endif
