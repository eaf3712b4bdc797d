/* Tests every mechanism in every way of sharing. All projections that every layer has are shared. */
#include <stdio.h>
#include <string.h>

#include "mechanisms/mechanism.h"

/* Writes the names of the projections that every layer has, as in the definition: "'q_proj', 'k_proj'". */
static void put_projections(const combination *plain, char *text, size_t size) {
  reference_config config;
  projection_shape first[MOST_PROJECTIONS], second[MOST_PROJECTIONS];
  size_t used = 0;
  reference_config_parse(plain->json, &config);
  int count = config.type->projections(&config, 0, first);
  int others = config.type->projections(&config, 1, second);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < others; j++)
      if (strcmp(first[i].name, second[j].name) == 0)
        used += (size_t)snprintf(text + used, size - used, "%s'%s'", used ? ", " : "", first[i].name);
}

int main(void) {
  static combination_list list;
  static const char *const ways[] = {
      "'type': 'masa', 'atoms': 2",       "'type': 'masa', 'atoms': 2, 'coefficients': 'mlp'",
      "'type': 'sequential', 'atoms': 2", "'type': 'repeat', 'atoms': 2",
      "'type': 'low_rank', 'rank': 3",    NULL};
  static const char *const layers[] = {"'num_hidden_layers': 3", NULL};
  for (const tested_mechanism *const *m = tested_mechanisms(); *m; m++)
    for (const tried *t = (*m)->with_experts; t->attention; t++) {
      combination_list plain = {.count = 0};
      char projections[200], sharing[300];
      crossing sizes[1], both[1];
      cross(layers, (const char *const[]){t->sizes, NULL}, sizes, 1);
      add_combination(&plain, sizes[0].text, (*m)->name, t->attention);
      put_projections(&plain.items[0], projections, sizeof projections);
      for (const char *const *way = ways; *way; way++) {
        snprintf(sharing, sizeof sharing, "'sharing': {%s, 'projections': [%s]}", *way, projections);
        cross((const char *const[]){sizes[0].text, NULL}, (const char *const[]){sharing, NULL}, both, 1);
        add_combination(&list, both[0].text, (*m)->name, t->attention);
      }
    }
  return run_combinations(&list);
}
