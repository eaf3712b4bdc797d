/* A small table of planned passes with linear search. */
#include "model/pass_table.h"

#include <stdlib.h>

typedef struct planned_pass {
  ch_runner *runner;
  int64_t sequences, length, capacity, context;
  ch_head head;
  uint64_t last_use;
} planned_pass;

struct ch_pass_table {
  ch_engine *engine;
  const ch_config *config;
  const ch_params *params;
  uint64_t clock;
  int capacity;
  planned_pass passes[];
};

ch_status ch_pass_table_create(ch_engine *engine, const ch_config *config, const ch_params *params,
                               int capacity, ch_pass_table **result, ch_error *error) {
  ch_pass_table *table = calloc(1, sizeof *table + (size_t)capacity * sizeof *table->passes);
  *result = table;
  if (!table) return ch_no_memory(error);
  *table = (ch_pass_table){.engine = engine, .config = config, .params = params, .capacity = capacity};
  return CH_OK;
}

void ch_pass_table_free(ch_pass_table *table) {
  if (!table) return;
  for (int i = 0; i < table->capacity; i++) ch_runner_free(table->passes[i].runner);
  free(table);
}

ch_status ch_pass_table_find(ch_pass_table *table, const ch_model_graph *shape, ch_runner **runner,
                             ch_error *error) {
  planned_pass *oldest = &table->passes[0];
  for (int i = 0; i < table->capacity; i++) {
    planned_pass *pass = &table->passes[i];
    if (pass->runner && pass->sequences == shape->sequences && pass->length == shape->length &&
        pass->head == shape->head && pass->capacity == shape->capacity && pass->context == shape->context) {
      pass->last_use = ++table->clock;
      *runner = pass->runner;
      return CH_OK;
    }
    if (pass->last_use < oldest->last_use) oldest = pass;
  }
  ch_runner_free(oldest->runner);
  *oldest = (planned_pass){.sequences = shape->sequences,
                           .length = shape->length,
                           .capacity = shape->capacity,
                           .context = shape->context,
                           .head = shape->head,
                           .last_use = ++table->clock};
  CH_TRY(ch_runner_create(table->engine, table->config, table->params, shape, false, &oldest->runner, error));
  *runner = oldest->runner;
  return CH_OK;
}
