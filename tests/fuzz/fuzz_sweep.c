/* Fuzz target: results of sweeps. Accepted results are judged and written. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "experiment/findings/sweep_results.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_POINTS = 24 }; /* fits of more points are slow */

static void judge(ch_sweep_result *run, ch_arena *arena) {
  ch_sweep_choice choice = {.name = run->name};
  ch_sweep sweep = {
      .budget = 1e9, .runs = run, .count = 1, .planned = 1, .choices = &choice, .mechanisms = 1};
  ch_sweep_result again;
  json_t *object = ch_sweep_result_to_json(run, false);
  if (object && ch_sweep_result_from_json(object, "again", arena, &again, NULL) != CH_OK) abort();
  json_decref(object);
  if (run->validation_points > MOST_POINTS) return;
  if (ch_sweep_judge(&sweep, NULL) != CH_OK) abort();
  ch_arena_free(&sweep.about.arena);
  json_decref(ch_sweep_result_to_json(run, true));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ch_error error = {0};
  ch_arena arena = {0};
  ch_sweep_result run;
  json_t *root = NULL;
  ch_status status = ch_json_parse((const char *)data, size, "input", &root, &error);
  if (status == CH_OK) status = ch_sweep_result_from_json(root, "input", &arena, &run, &error);
  if (status != CH_OK && (status != error.status || !*error.message)) abort();
  if (status == CH_OK) judge(&run, &arena);
  json_decref(root);
  ch_arena_free(&arena);
  return 0;
}
