/* Runs the combinations of the mechanism MECHANISM. CMake builds a program from it for every file of
 * attention/mechanisms. */
#include "mechanisms/mechanism.h"

int main(void) {
  static combination_list list;
  tested_mechanism_find(MECHANISM)->combinations(&list);
  add_windows(&list);
  return run_combinations(&list);
}
