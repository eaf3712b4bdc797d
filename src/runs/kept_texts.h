/* Texts of a kept run that do not come from its log: JSON, the machine, times. */
#ifndef CH_RUNS_KEPT_TEXTS_H
#define CH_RUNS_KEPT_TEXTS_H

#include <jansson.h>

#include "base/arena.h"

/* The value as it is kept ("{}" for NULL), in the arena; NULL when memory is out. */
const char *ch_kept_json(ch_arena *arena, const json_t *value);
/* This machine, as JSON in the arena. */
const char *ch_kept_machine(ch_arena *arena);

/* The time `seconds` ago: "2026-11-20T12:00:00.123Z"; buffer of 32. */
const char *ch_utc_ago(double seconds, char buffer[32]);

#endif
