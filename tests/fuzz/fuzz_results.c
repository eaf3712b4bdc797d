/* Fuzz target: results of comparisons. Name, seed and number of points of accepted results must be equal after writing
 * and reading. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "experiment/findings/comparison_results.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_and_read(const ch_model_result *model, ch_arena *arena) {
  ch_model_result again;
  ch_error error = {0};
  json_t *object = ch_model_result_to_json(model);
  if (!object) return; /* a number that JSON cannot have */
  if (ch_model_result_from_json(object, "again", arena, &again, &error) != CH_OK) abort();
  if (again.curve_points != model->curve_points || again.seed != model->seed ||
      strcmp(again.name, model->name) != 0)
    abort();
  json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ch_error error = {0};
  ch_arena arena = {0};
  ch_model_result model;
  json_t *root = NULL;
  ch_status status = ch_json_parse((const char *)data, size, "input", &root, &error);
  if (status == CH_OK) status = ch_model_result_from_json(root, "input", &arena, &model, &error);
  if (status != CH_OK && (status != error.status || !*error.message)) abort();
  if (status == CH_OK) write_and_read(&model, &arena);
  json_decref(root);
  ch_arena_free(&arena);
  return 0;
}
