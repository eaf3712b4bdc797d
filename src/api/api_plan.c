/* The public functions that predict which models fit into a memory. */
#include <crosshead/plan.h>

#include <stdlib.h>

#include "api/adapters.h"
#include "planner/candidates.h"
#include "report/capacity_text.h"

void ch_capacity_defaults(ch_capacity_settings *settings) {
  *settings = (ch_capacity_settings){.users = 1};
}

ch_status ch_capacity_plan(const ch_capacity_settings *settings, ch_capacity **capacity, ch_error *error) {
  if (!settings || !capacity) return ch_refuse_null(error, settings ? "the result pointer" : "the settings");
  *capacity = NULL;
  ch_capacity *made = calloc(1, sizeof *made);
  if (!made) return ch_no_memory(error);
  ch_status status = ch_capacity_answer(settings, made, error);
  if (status == CH_OK)
    *capacity = made;
  else
    ch_capacity_free(made);
  return status;
}

void ch_capacity_free(ch_capacity *capacity) {
  if (!capacity) return;
  ch_arena_free(&capacity->arena);
  free(capacity);
}

int32_t ch_capacity_count(const ch_capacity *capacity) {
  return capacity->count;
}

const ch_capacity_candidate *ch_capacity_candidate_at(const ch_capacity *capacity, int32_t index) {
  return index >= 0 && index < capacity->count ? &capacity->candidates[index] : NULL;
}

const ch_capacity_estimate *ch_capacity_estimate_at(const ch_capacity *capacity, int32_t index,
                                                    int32_t device) {
  if (index < 0 || index >= capacity->count || device < 0 || device >= capacity->device_count) return NULL;
  return &capacity->expected[device * CH_CAPACITY_MOST + index];
}

ch_status ch_capacity_json(const ch_capacity *capacity, char **json, ch_error *error) {
  return ch_api_json(ch_capacity_to_json(capacity), json, error);
}

ch_status ch_capacity_text(const ch_capacity *capacity, char **text, ch_error *error) {
  ch_text lines = {0};
  ch_capacity_write(capacity, &lines);
  return ch_api_text(&lines, text, error);
}
