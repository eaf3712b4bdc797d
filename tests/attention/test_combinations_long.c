/* Tests every mechanism on texts longer than the blocks in which attention reads states, with heads wider than a
 * vector register. */
#include "mechanisms/mechanism.h"
#include "sanitized.h"

int main(void) {
  static combination_list list;
  static const char *const context[] = {"'max_position_embeddings': 256", NULL};
  for (const tested_mechanism *const *m = tested_mechanisms(); *m; m++)
    for (const tried *t = (*m)->long_texts; t->attention; t++) {
      crossing sizes[1];
      int64_t i = list.count;
      cross(context, (const char *const[]){t->sizes, NULL}, sizes, 1);
      add_combination_of(&list, 1 + i % 2, 140 + 3 * (i % 4), sizes[0].text, (*m)->name, t->attention);
    }
  return SANITIZED ? run_values_of_combinations(&list) : run_combinations(&list);
}
