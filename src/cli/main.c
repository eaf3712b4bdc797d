/* The crosshead program. */
#include "cli/command.h"

int main(int argc, char **argv) {
  return ch_command_main(argc, argv);
}
