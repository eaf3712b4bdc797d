/* Texts of a recorded run that do not come from its log: JSON, the machine, times. */
#ifndef CH_RUNS_STORED_TEXTS_H
#define CH_RUNS_STORED_TEXTS_H

#include <jansson.h>

#include "base/arena.h"

/* Returns the value in the form of the store ("{}" for NULL), in the arena; NULL if out of memory. */
const char *ch_stored_json(ch_arena *arena, const json_t *value);
/* Describes this machine as JSON in the arena, with the members of `more` (NULL: none). */
const char *ch_stored_machine(ch_arena *arena, json_t *more);

/* Writes the time `seconds` ago, "2026-11-20T12:00:00.123Z", to the buffer of 32 and returns it. */
const char *ch_utc_ago(double seconds, char buffer[32]);

#endif
