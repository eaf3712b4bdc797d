/* Writes the manual page crosshead(1) from the command tables. */
#include <string.h>

#include <crosshead/version.h>

#include "cli/help.h"

/* Writes text in roff, with backslashes, dashes, and dots and apostrophes at the start of lines escaped. */
static void put_escaped(ch_text *page, const char *text, size_t size) {
  bool at_start = true;
  for (size_t i = 0; i < size; i++) {
    if (at_start && (text[i] == '.' || text[i] == '\'')) ch_text_puts(page, "\\&");
    if (text[i] == '\\')
      ch_text_puts(page, "\\e");
    else if (text[i] == '-')
      ch_text_puts(page, "\\-");
    else
      ch_text_put(page, text + i, 1);
    at_start = text[i] == '\n';
  }
}

static void puts_escaped(ch_text *page, const char *text) {
  put_escaped(page, text, strlen(text));
}

static void put_section(ch_text *page, const char *title) {
  ch_text_printf(page, ".SH %s\n", title);
}

/* Writes each line as a paragraph. Lines that start with a space are an example. */
static void put_paragraphs(ch_text *page, const char *text) {
  bool example = false;
  for (const char *p = text; *p;) {
    size_t length = strcspn(p, "\n");
    bool indented = *p == ' ';
    if (indented != example) ch_text_puts(page, indented ? ".PP\n.EX\n" : ".EE\n");
    if (!indented && length) ch_text_puts(page, ".PP\n");
    if (length) {
      put_escaped(page, p, length);
      ch_text_puts(page, "\n");
    }
    example = indented;
    p += length;
    p += *p == '\n';
  }
  if (example) ch_text_puts(page, ".EE\n");
}

static void put_option(ch_text *page, const ch_option *option) {
  if (!*option->name) {
    ch_text_puts(page, ".PP\n.I ");
    puts_escaped(page, option->help);
    ch_text_puts(page, "\n");
    return;
  }
  ch_text notes = {0};
  ch_option_notes(option, &notes);
  ch_text_puts(page, ".TP\n\\fB\\-\\-");
  puts_escaped(page, option->name);
  ch_text_puts(page, "\\fR");
  if (option->type != CH_OPTION_FLAG) {
    ch_text_puts(page, option->bare ? " [\\fI" : " \\fI");
    puts_escaped(page, option->metavar ? option->metavar : "VALUE");
    ch_text_puts(page, option->bare ? "\\fR]" : "\\fR");
  }
  ch_text_puts(page, "\n");
  puts_escaped(page, option->help ? option->help : "");
  if (notes.size) {
    ch_text_puts(page, " (");
    puts_escaped(page, notes.data);
    ch_text_puts(page, ")");
  }
  ch_text_puts(page, "\n");
  page->failed |= notes.failed;
  ch_text_free(&notes);
}

static void put_list(ch_text *page, const ch_command *command) {
  bool more = true;
  ch_text_puts(page, ".PP\n.I ");
  puts_escaped(page, command->list_title);
  ch_text_puts(page, "\n");
  for (int i = 0; more; i++) {
    ch_text entry = {0}, meaning = {0};
    more = command->list(i, &entry, &meaning);
    if (entry.data && meaning.data) {
      ch_text_puts(page, ".TP\n\\fB");
      puts_escaped(page, entry.data);
      ch_text_puts(page, "\\fR\n");
      puts_escaped(page, meaning.data);
      ch_text_puts(page, "\n");
    }
    page->failed |= entry.failed || meaning.failed;
    ch_text_free(&entry);
    ch_text_free(&meaning);
  }
}

static void put_command(ch_text *page, const ch_command *command) {
  ch_text_puts(page, ".SS crosshead ");
  puts_escaped(page, command->name);
  if (command->positional && *command->positional) {
    ch_text_puts(page, " ");
    puts_escaped(page, command->positional);
  }
  ch_text_puts(page, "\n");
  puts_escaped(page, command->summary);
  ch_text_puts(page, "\n");
  if (command->description) put_paragraphs(page, command->description);
  for (const ch_option *option = command->options; option && option->name; option++) put_option(page, option);
  if (command->list) put_list(page, command);
  if (command->examples && *command->examples) {
    ch_text_puts(page, ".PP\nExamples:\n.PP\n.RS\n.EX\n");
    puts_escaped(page, command->examples);
    ch_text_puts(page, "\n.EE\n.RE\n");
  }
}

void ch_manual(ch_text *page) {
  ch_text_puts(page, ".TH CROSSHEAD 1 \"\" \"Crosshead " CH_VERSION_STRING "\" \"User Commands\"\n");
  put_section(page, "NAME");
  ch_text_puts(page, "crosshead \\- compare attention mechanisms by quality, key\\-value cache and speed\n");
  put_section(page, "SYNOPSIS");
  ch_text_puts(page, ".B crosshead\n.I COMMAND\n.RI [ ARGUMENT ]...\n.RI [ OPTION ]...\n");
  put_section(page, "DESCRIPTION");
  ch_text_puts(
      page,
      "Crosshead trains language models that differ in their attention side by side on the same text. "
      "It compares their quality, bytes of key\\-value cache per token and speed, and recommends one.\n"
      "A model is a directory with\n.IR config.json ,\n.I model.safetensors\nand\n.IR tokenizer.json .\n"
      ".PP\nOptions are long and may be written\n.B \\-\\-name value\nor\n.BR \\-\\-name=value ;\n"
      ".B \\-\\-\nends them. Counts accept the suffixes k, M, G, T (powers of 1000) and KiB, MiB, GiB, TiB.\n"
      "Every command has\n.BR \\-\\-help .\n");
  put_section(page, "COMMANDS");
  for (const ch_command *const *c = ch_commands; *c; c++) put_command(page, *c);
  put_section(page, "EXIT STATUS");
  ch_text_puts(page, "0 on success, 1 when the work failed, 2 when the command line was wrong, 128 plus the "
                     "signal's number when the program was interrupted (SIGINT 130, SIGTERM 143, SIGUSR1 "
                     "138, SIGUSR2 140) and has saved what can be saved. The reason is one "
                     "sentence on standard error.\n");
  put_section(page, "ENVIRONMENT");
  ch_text_puts(
      page,
      ".TP\n.B CROSSHEAD_RUNS\nThe file in which runs are recorded for\n.BR \"crosshead runs\" ,\n"
      "unless\n.B \\-\\-runs\nnames another;\n.B none\nrecords nothing. Default:\n"
      ".I runs.sqlite\nnext to the output.\n"
      ".TP\n.B OMP_NUM_THREADS\nThe number of threads to use, without\n.BR \\-\\-threads ;\n"
      "all cores when not set.\n"
      ".TP\n.BR OMP_WAIT_POLICY \", \" GOMP_SPINCOUNT \", \" OPENBLAS_NUM_THREADS\n"
      "How threads wait, and how many of them OpenBLAS uses. If they are not set, the program keeps "
      "waits short and gives OpenBLAS one thread, except in compress.\n"
      ".TP\n.B CROSSHEAD_MPI\nThe file of the module that connects the processes of a job, instead of the "
      "installed one.\n"
      ".TP\n.B TMPDIR\nThe directory of temporary files; /tmp when not set.\n"
      ".TP\n.B CROSSHEAD_PYTHON\nThe Python that\n.B \\-\\-engine pytorch\nstarts; without it that "
      "of an active virtual environment\n(VIRTUAL_ENV), or python3.\n"
      ".TP\n.B CROSSHEAD_API_KEY\nA key that\n.B serve\nrequires from its clients.\n"
      ".TP\n.B CROSSHEAD_WORKERS\nIf it is\n.BR all ,\nall threads compute at all times. Otherwise "
      "fewer of them compute while other programs keep the processors busy; results are the same. If it "
      "is\n.BR varied ,\n"
      "their number changes at every step, in a fixed order, for tests.\n"
      ".TP\n.B CROSSHEAD_ISA\nThe highest instruction set to use:\n.BR plain ,\n.BR avx2 ,\n"
      ".BR avx512 ,\n.B avx512_vnni\nor\n.BR avx512_bf16 ;\nthe fastest that the processor "
      "has when not set. One that the processor does not have is an error.\n");
}
