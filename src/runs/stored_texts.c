/* Converts JSON, the machine and times to the texts that the store holds. */
#define _GNU_SOURCE
#include "runs/stored_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/text.h"
#include "bench/machine.h"

const char *ch_stored_json(ch_arena *arena, const json_t *value) {
  if (!value) return ch_arena_strdup(arena, "{}");
  char *text = ch_json_dump(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
  const char *kept = text ? ch_arena_strdup(arena, text) : NULL;
  free(text);
  return kept;
}

const char *ch_stored_machine(ch_arena *arena, json_t *more) {
  const ch_machine machine = ch_machine_here();
  json_t *object = ch_machine_to_json(&machine);
  bool whole = object && (!more || json_object_update(object, more) == 0);
  const char *kept = whole ? ch_stored_json(arena, object) : NULL;
  json_decref(object);
  return kept;
}

const char *ch_utc_ago(double seconds, char buffer[CH_UTC_SIZE]) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  double then = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - seconds;
  int64_t whole = (int64_t)then;
  size_t used = strlen(ch_format_utc(whole, buffer)) - 1; /* without its Z */
  snprintf(buffer + used, CH_UTC_SIZE - used, ".%03dZ", (int)(1000 * (then - (double)whole)));
  return buffer;
}
