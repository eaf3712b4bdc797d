/* JSON and times as they are kept. */
#define _GNU_SOURCE
#include "runs/kept_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "train/machine.h"

const char *ch_kept_json(ch_arena *arena, const json_t *value) {
  char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  const char *kept = ch_arena_strdup(arena, text ? text : "{}");
  free(text);
  return kept;
}

const char *ch_kept_machine(ch_arena *arena) {
  ch_machine machine;
  ch_machine_describe(&machine);
  json_t *object = ch_machine_to_json(&machine);
  const char *kept = object ? ch_kept_json(arena, object) : NULL;
  json_decref(object);
  return kept;
}

const char *ch_utc_ago(double seconds, char buffer[32]) {
  struct timespec now;
  struct tm parts;
  clock_gettime(CLOCK_REALTIME, &now);
  double then = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - seconds;
  time_t whole = (time_t)then;
  gmtime_r(&whole, &parts);
  size_t used = strftime(buffer, 32, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(buffer + used, 32 - used, ".%03dZ", (int)(1000 * (then - (double)whole)));
  return buffer;
}
