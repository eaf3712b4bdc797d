/* The registry: every command, in the order of --help. A command whose first word is NAME is defined in
   cli/cmd_NAME.c. */
#include <string.h>

#include "cli/help.h"

extern const ch_command ch_cmd_absorb;
extern const ch_command ch_cmd_compare;
extern const ch_command ch_cmd_bench;
extern const ch_command ch_cmd_completion;
extern const ch_command ch_cmd_compress;
extern const ch_command ch_cmd_config;
extern const ch_command ch_cmd_eval;
extern const ch_command ch_cmd_export;
extern const ch_command ch_cmd_fit;
extern const ch_command ch_cmd_forward;
extern const ch_command ch_cmd_generate;
extern const ch_command ch_cmd_help;
extern const ch_command ch_cmd_import;
extern const ch_command ch_cmd_info;
extern const ch_command ch_cmd_manual;
extern const ch_command ch_cmd_plan;
extern const ch_command ch_cmd_quantize;
extern const ch_command ch_cmd_runs;
extern const ch_command ch_cmd_runs_add;
extern const ch_command ch_cmd_runs_compare;
extern const ch_command ch_cmd_runs_delete;
extern const ch_command ch_cmd_runs_show;
extern const ch_command ch_cmd_serve;
extern const ch_command ch_cmd_sweep;
extern const ch_command ch_cmd_tokenize;
extern const ch_command ch_cmd_tokenizer_train;
extern const ch_command ch_cmd_train;

const ch_command *const ch_commands[] = {
    &ch_cmd_compare,         &ch_cmd_sweep,       &ch_cmd_fit,
    &ch_cmd_config,          &ch_cmd_train,       &ch_cmd_eval,
    &ch_cmd_generate,        &ch_cmd_serve,       &ch_cmd_forward,
    &ch_cmd_bench,           &ch_cmd_plan,        &ch_cmd_compress,
    &ch_cmd_absorb,          &ch_cmd_quantize,    &ch_cmd_import,
    &ch_cmd_export,          &ch_cmd_info,        &ch_cmd_tokenize,
    &ch_cmd_tokenizer_train, &ch_cmd_runs,        &ch_cmd_runs_show,
    &ch_cmd_runs_compare,    &ch_cmd_runs_delete, &ch_cmd_runs_add,
    &ch_cmd_completion,      &ch_cmd_help,        NULL,
};

const ch_command *const ch_hidden_commands[] = {&ch_cmd_manual, NULL};

/* Returns the number of argv's words (2, 1 or 0) that name a command of `list`. */
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

bool ch_is_family(const char *word) {
  size_t length = strlen(word);
  for (const ch_command *const *c = ch_commands; *c; c++)
    if (strncmp((*c)->name, word, length) == 0 && (*c)->name[length] == ' ') return true;
  return false;
}
