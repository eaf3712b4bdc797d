/* Texts of a recorded run: JSON, the machine, times. */
#ifndef CH_RUNS_STORED_TEXTS_H
#define CH_RUNS_STORED_TEXTS_H

#include <jansson.h>

#include "base/arena.h"

/* Returns the value as compact JSON in the arena; "{}" for NULL. Returns NULL if out of memory. */
const char *ch_stored_json(ch_arena *arena, const json_t *value);
/* Returns a description of this machine as JSON in the arena, with the members of `more` (NULL: none) added. Returns
 * NULL if out of memory. */
const char *ch_stored_machine(ch_arena *arena, json_t *more);

/* Writes the time `seconds` ago, such as "2026-11-20T12:00:00.123Z", to the 32-byte buffer and returns it. */
const char *ch_utc_ago(double seconds, char buffer[32]);

#endif
