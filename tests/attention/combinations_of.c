/* Runs the combinations of one mechanism, MECHANISM: there is a program for every file of
 * attention/mechanisms. */
#include "mechanisms/mechanism.h"

int main(void) {
  static combination_list list;
  tested_mechanism_find(MECHANISM)->combinations(&list);
  add_windows(&list);
  return run_combinations(&list);
}
