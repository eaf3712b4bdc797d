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
  CH_WRITES_DIRECTORY, /* or one file: written next to its name and renamed when complete */
  CH_WRITES_JOB        /* a directory in which a job continues where it was interrupted */
} ch_writes;

/* The number of names of the command's list in a value. */
typedef enum ch_lists {
  CH_LISTS_NONE,
  CH_LISTS_ONE,
  CH_LISTS_SEVERAL /* separated by commas */
} ch_lists;

/* One long option. Its value is stored in the command's argument struct at `offset`. */
typedef struct ch_option {
  const char *name; /* without the dashes; NULL closes a table; "" is a heading whose text is `help` */
  ch_option_type type;
  size_t offset;              /* offsetof(struct, member) */
  const char *metavar;        /* what --help shows for the value */
  const char *default_value;  /* as the user would type it; NULL = NULL/0/false and "not given" */
  const char *bare;           /* of a text: what the option means without a value; NULL: it needs one */
  double min, max;            /* inclusive bounds of COUNT and NUMBER; both 0 = any count / any finite number;
                                 max < min = no upper bound */
  const char *const *choices; /* NULL-terminated, for CH_OPTION_CHOICE */
  /* The library's name of the setting, as in its errors, if it differs from the option's with underscores. */
  const char *setting;
  const char *help;  /* one sentence */
  bool required;     /* leaving it out is wrong usage */
  const char *alias; /* another name that means the same, or NULL */
  ch_writes writes;  /* of a path: the kind of output */
  ch_lists lists;    /* the names of the command's list that shells complete */
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

/* Rows that many commands have. The program looks after --force and --threads before a command runs. */
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
  /* "CONFIG", "MODEL [FILE]"; "" for none. Each word is one argument, [X] optional, X... one or more. */
  const char *positional;
  /* The option that one argument too many probably belongs to, for the message: "data"; NULL: none. */
  const char *meant;
  const char *summary;     /* one line */
  const char *description; /* paragraphs for --help and the man page, one line each, "\n\n" between */
  const char *examples;    /* command lines, one per line */
  /* A list after the options in --help: its heading, and a function that fills entry `index` (the name as typed, and
     its meaning) and returns false after the last. Both NULL: none. */
  const char *list_title;
  bool (*list)(int index, ch_text *entry, ch_text *meaning);
  const ch_option *options;
  /* Fills the zeroed argument struct before options are read; NULL: zeros are right. */
  void (*defaults)(void *arguments);
  size_t arguments_size; /* size of the argument struct; its FIRST member is `const char
                            *positional[CH_POSITIONAL_MAX]`, NULL after the last one */
  bool over_ranks;       /* several processes of one job may run it together (cli/job.h) */
  /* Runs with the filled struct; returns CH_OK or fills *error. CH_ERROR_ARGUMENT gives exit status 2,
     anything else 1. */
  ch_status (*run)(const void *arguments, ch_error *error);
} ch_command;
/* The members of a command that are its code. */
#define CH_RUNS(table, type, function) .options = table, .arguments_size = sizeof(type), .run = function

/* All commands, NULL-terminated, in the order --help lists them (cli/commands.c). */
extern const ch_command *const ch_commands[];
/* Commands of the build that --help does not list. */
extern const ch_command *const ch_hidden_commands[];

/* Returns true if the user gave the option on the command line (not only its default). */
bool ch_option_given(const void *arguments, const char *name);

/* Returns the path to write an option's output to. It is renamed to the user's path when the command succeeds. */
const char *ch_output_path(const void *arguments, const char *option);

enum { CH_MESSAGE_SIZE = 1400 };
/* Writes an error's message with the settings that it names spelt as options of the running command; returns `out`. */
const char *ch_message_of(const ch_error *error, char out[CH_MESSAGE_SIZE]);

/* Returns false once a write to standard output has failed (full disk, closed pipe). A command that streams
 * stops then. */
bool ch_output_alive(void);

/* Parses argv, handles --help/--version, runs, prints errors; returns the process's exit status. */
int ch_command_main(int argc, char **argv);

#endif
