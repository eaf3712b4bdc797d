/* crosshead manual: prints the man page. The build installs it as crosshead.1. */
#include "cli/output.h"
#include "cli/help.h"
#include "cli/parse.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
} arguments;

static ch_status run(const void *given, ch_error *error) {
  (void)given;
  ch_text page = {0};
  ch_manual(&page);
  return ch_print_text(&page, error);
}

const ch_command ch_cmd_manual = {
    .name = "manual",
    .positional = "",
    .summary = "Print the manual page crosshead(1) in man format.",
    .examples = "crosshead manual > crosshead.1",
    .arguments_size = sizeof(arguments),
    .run = run,
};
