/* Writes completion scripts for bash, zsh and fish from the command tables. */
#include <string.h>

#include "cli/help.h"

/* Escapes text for single quotes of a shell. Newlines become spaces. The characters in `extra` also get a backslash. */
static void put_quoted(ch_text *script, const char *text, const char *extra) {
  for (; *text; text++) {
    if (*text == '\'')
      ch_text_puts(script, "'\\''");
    else if (*text == '\n')
      ch_text_puts(script, " ");
    else {
      if (strchr(extra, *text)) ch_text_puts(script, "\\");
      ch_text_put(script, text, 1);
    }
  }
}

static size_t first_word(const char *name) {
  return strcspn(name, " ");
}

/* Returns true if no earlier command has the same first word. */
static bool opens_word(const ch_command *const *command) {
  size_t length = first_word((*command)->name);
  for (const ch_command *const *c = ch_commands; c != command; c++)
    if (first_word((*c)->name) == length && memcmp((*c)->name, (*command)->name, length) == 0) return false;
  return true;
}

static bool in_family(const ch_command *command, const ch_command *first) {
  size_t length = first_word(first->name);
  return strncmp(command->name, first->name, length) == 0 && command->name[length] == ' ';
}

/* Returns true if commands of two words begin with the command's first word. */
static bool is_family(const ch_command *first) {
  for (const ch_command *const *c = ch_commands; *c; c++)
    if (in_family(*c, first)) return true;
  return false;
}

/* Writes the second words of a family. */
static void put_second_words(ch_text *script, const ch_command *first, const char *between) {
  bool any = false;
  for (const ch_command *const *c = ch_commands; *c; c++) {
    if (!in_family(*c, first)) continue;
    ch_text_printf(script, "%s%s", any ? between : "", (*c)->name + first_word((*c)->name) + 1);
    any = true;
  }
}

static void put_first_words(ch_text *script) {
  for (const ch_command *const *c = ch_commands; *c; c++)
    if (opens_word(c)) ch_text_printf(script, "%.*s ", (int)first_word((*c)->name), (*c)->name);
}

/* Writes the names of the command's list: "gqa[:N]" gives gqa, "arc, arc_easy" gives two names. In zsh a colon ends a
 * name, so without `colons` names with a number are left out. */
static void put_listed(ch_text *script, const ch_command *command, bool colons) {
  bool more = true;
  const char *between = "";
  for (int i = 0; more; i++) {
    ch_text entry = {0}, meaning = {0};
    more = command->list(i, &entry, &meaning);
    for (const char *p = more && entry.data ? entry.data : ""; *p; p += strspn(p, ", ")) {
      size_t length = strcspn(p, ","), word = strcspn(p, "[,");
      if (colons || !memchr(p, ':', word)) {
        ch_text_printf(script, "%s%.*s", between, (int)word, p);
        between = " ";
      }
      p += length;
    }
    script->failed |= entry.failed || meaning.failed;
    ch_text_free(&entry);
    ch_text_free(&meaning);
  }
}

/* Writes the possible values of the option, if the program knows them. */
static void put_values(ch_text *script, const ch_command *command, const ch_option *option, bool colons) {
  if (option->type == CH_OPTION_CHOICE)
    for (const char *const *choice = option->choices; *choice; choice++)
      ch_text_printf(script, "%s%s", choice == option->choices ? "" : " ", *choice);
  else if (option->lists)
    put_listed(script, command, colons);
}

static bool has_values(const ch_option *option) {
  return option->type == CH_OPTION_CHOICE || option->lists;
}

void ch_completion_bash(ch_text *script) {
  ch_text_puts(
      script, "# bash completion for crosshead; `crosshead completion bash` wrote it.\n"
              "# Values of an option: words, and whether several may follow each other with , or + between.\n"
              "_crosshead_values() {\n"
              "  local before=\n"
              "  [[ ${2-} ]] && before=${current%\"${current##*[,+]}\"}\n"
              "  COMPREPLY=($(compgen -P \"$before\" -W \"$1\" -- \"${current#\"$before\"}\"))\n}\n"
              "_crosshead() {\n"
              "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
              "  local command=${COMP_WORDS[1]} words=\n"
              "  COMPREPLY=()\n"
              "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W '");
  put_first_words(script);
  ch_text_puts(script, "--help --version' -- \"$current\"))\n    return\n  fi\n"
                       "  case $command in\n"
                       "  help) ((COMP_CWORD == 2)) && words='");
  put_first_words(script);
  ch_text_puts(script, "' ;;\n  completion) words='bash zsh fish' ;;\n");
  for (const ch_command *const *c = ch_commands; *c; c++) {
    if (!is_family(*c) || !opens_word(c)) continue;
    ch_text_printf(script, "  %.*s)\n    case ${COMP_WORDS[2]} in ", (int)first_word((*c)->name), (*c)->name);
    put_second_words(script, *c, " | ");
    ch_text_puts(script, ") command+=\" ${COMP_WORDS[2]}\" ;; esac\n    ((COMP_CWORD == 2)) && words='");
    put_second_words(script, *c, " ");
    ch_text_puts(script, " --help' ;;\n");
  }
  ch_text_puts(script, "  esac\n  case \"$command $previous\" in\n");
  for (const ch_command *const *c = ch_commands; *c; c++)
    for (const ch_option *o = (*c)->options; o && o->name; o++) {
      if (!*o->name || o->type == CH_OPTION_FLAG) continue;
      ch_text_printf(script, "  '%s --%s') ", (*c)->name, o->name);
      if (has_values(o)) {
        ch_text_puts(script, "_crosshead_values '");
        put_values(script, *c, o, true);
        ch_text_puts(script, o->lists == CH_LISTS_SEVERAL ? "' several; " : "'; ");
      }
      ch_text_puts(script, "return ;;\n");
    }
  ch_text_puts(script, "  esac\n  if [[ $current == --* ]]; then\n    case $command in\n");
  for (const ch_command *const *c = ch_commands; *c; c++) {
    ch_text_printf(script, "    '%s') words='", (*c)->name);
    for (const ch_option *o = (*c)->options; o && o->name; o++)
      if (*o->name) ch_text_printf(script, "--%s ", o->name);
    ch_text_puts(script, "--help' ;;\n");
  }
  ch_text_puts(script, "    esac\n  fi\n"
                       "  # Nothing here means: a file name.\n"
                       "  [[ $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
                       "complete -o default -o bashdefault -F _crosshead crosshead\n");
}

static void put_zsh_options(ch_text *script, const ch_command *command) {
  ch_text_printf(script, "  '%s')\n    _arguments", command->name);
  for (const ch_option *o = command->options; o && o->name; o++) {
    if (!*o->name) continue;
    ch_text_printf(script, " \\\n      '--%s%s[", o->name, o->type == CH_OPTION_FLAG ? "" : "=");
    put_quoted(script, o->help ? o->help : "", "[]\\:");
    ch_text_puts(script, "]");
    if (o->type != CH_OPTION_FLAG) {
      ch_text_puts(script, o->bare ? "::" : ":");
      put_quoted(script, o->metavar ? o->metavar : "value", "[]\\:");
      ch_text_puts(script, ":");
    }
    if (o->type == CH_OPTION_PATH) ch_text_puts(script, "_files");
    if (has_values(o)) {
      ch_text_puts(script, o->lists == CH_LISTS_SEVERAL ? " _values -s , name " : "(");
      put_values(script, command, o, false);
      ch_text_puts(script, o->lists == CH_LISTS_SEVERAL ? "" : ")");
    }
    ch_text_puts(script, "'");
  }
  const char *rest = strcmp(command->name, "completion") == 0 ? "shell:(bash zsh fish)" : "file:_files";
  ch_text_printf(script, " \\\n      '--help[Print help and exit.]' \\\n      '*:%s' ;;\n", rest);
}

void ch_completion_zsh(ch_text *script) {
  ch_text_puts(script,
               "#compdef crosshead\n# zsh completion for crosshead; `crosshead completion zsh` wrote it.\n"
               "_crosshead() {\n  local -a commands\n  commands=(\n");
  for (const ch_command *const *c = ch_commands; *c; c++) {
    if (!opens_word(c)) continue;
    ch_text_printf(script, "    '%.*s:", (int)first_word((*c)->name), (*c)->name);
    put_quoted(script, (*c)->summary, "\\");
    ch_text_puts(script, "'\n");
  }
  ch_text_puts(script,
               "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
               "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n"
               "  help)\n    (( CURRENT == 2 )) && _describe command commands\n    return ;;\n");
  for (const ch_command *const *c = ch_commands; *c; c++) {
    if (!is_family(*c) || !opens_word(c)) continue;
    ch_text_printf(script, "  %.*s)\n    if (( CURRENT == 2 )); then\n      commands=(\n",
                   (int)first_word((*c)->name), (*c)->name);
    for (const ch_command *const *d = c; *d; d++) {
      if (!in_family(*d, *c)) continue;
      ch_text_printf(script, "        '%s:", (*d)->name + first_word((*d)->name) + 1);
      put_quoted(script, (*d)->summary, "\\");
      ch_text_puts(script, "'\n");
    }
    ch_text_puts(script,
                 "      )\n      _describe command commands\n      [[ $words[2] == -* ]] || return\n    fi\n"
                 "    case $words[2] in\n    (");
    put_second_words(script, *c, "|");
    ch_text_puts(script, ") command+=\" $words[2]\"; shift words; (( CURRENT-- )) ;;\n    esac ;;\n");
  }
  ch_text_puts(script, "  esac\n  case $command in\n");
  for (const ch_command *const *c = ch_commands; *c; c++)
    if (strcmp((*c)->name, "help") != 0) put_zsh_options(script, *c);
  ch_text_puts(script, "  esac\n}\nif [[ $funcstack[1] == _crosshead ]]; then\n  _crosshead \"$@\"\nelse\n"
                       "  compdef _crosshead crosshead\nfi\n");
}

void ch_completion_fish(ch_text *script) {
  ch_text_puts(script,
               "# fish completion for crosshead; `crosshead completion fish` wrote it.\n"
               "# True when the command line so far begins with the given command words.\n"
               "function __crosshead_in\n  set -l words (commandline -opc)\n  set -l n (count $argv)\n"
               "  test (count $words) -gt $n; or return 1\n"
               "  set -l last (math $n + 1)\n"
               "  test $n -eq 0; or test \"$words[2..$last]\" = \"$argv\"\nend\n"
               "# True when exactly those words are given, so that another command word may follow.\n"
               "function __crosshead_at\n  set -l words (commandline -opc)\n"
               "  test (count $words) -eq (math (count $argv) + 1); and __crosshead_in $argv\nend\n"
               "complete -c crosshead -n __crosshead_at -f -l version -d 'Print the version and exit.'\n"
               "complete -c crosshead -f -l help -d 'Print help and exit.'\n"
               "complete -c crosshead -n '__crosshead_in completion' -f -a 'bash zsh fish'\n");
  for (const ch_command *const *c = ch_commands; *c; c++) {
    const char *name = (*c)->name;
    size_t length = first_word(name);
    if (opens_word(c)) {
      for (int in_help = 0; in_help < 2; in_help++) {
        ch_text_printf(script, "complete -c crosshead -n '__crosshead_at%s' -f -a %.*s -d '",
                       in_help ? " help" : "", (int)length, name);
        put_quoted(script, (*c)->summary, "\\");
        ch_text_puts(script, "'\n");
      }
    }
    if (name[length]) {
      ch_text_printf(script, "complete -c crosshead -n '__crosshead_at %.*s' -f -a %s -d '", (int)length,
                     name, name + length + 1);
      put_quoted(script, (*c)->summary, "\\");
      ch_text_puts(script, "'\n");
    }
    for (const ch_option *o = (*c)->options; o && o->name; o++) {
      if (!*o->name) continue;
      ch_text_printf(script, "complete -c crosshead -n '__crosshead_in %s' -l %s ", name, o->name);
      if (o->type == CH_OPTION_PATH)
        ch_text_puts(script, "-r -F ");
      else if (o->type == CH_OPTION_FLAG)
        ch_text_puts(script, "-f ");
      else
        ch_text_puts(script, "-x ");
      if (has_values(o)) {
        bool several = o->lists == CH_LISTS_SEVERAL;
        ch_text_puts(script, several ? "-a '(__fish_complete_list , \"string split \\\" \\\" \\\"" : "-a '");
        put_values(script, *c, o, true);
        ch_text_puts(script, several ? "\\\"\")' " : "' ");
      }
      ch_text_puts(script, "-d '");
      put_quoted(script, o->help ? o->help : "", "\\");
      ch_text_puts(script, "'\n");
    }
  }
}
