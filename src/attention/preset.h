/* Presets: short names of mechanisms in `compare`. Each changes the shape that all compared models share. */
#ifndef CH_ATTENTION_PRESET_H
#define CH_ATTENTION_PRESET_H

#include "config/config.h"

/* A preset: one name of `compare`, such as "gqa" or "gqa:4". */
typedef struct ch_preset {
  const char *name;
  const char *number;  /* meaning of N in "name:N", or NULL if the name has no number */
  const char *summary; /* description in one line, for --help */
  /* Changes the shared base (multi-head attention, with the type already set to the mechanism's) to this preset;
     NULL: no changes. `number` is N, or 0 if the user gave none. `where` names the preset in messages. */
  ch_status (*apply)(ch_config *config, int64_t number, const char *where, ch_error *error);
} ch_preset;

/* The ch_preset.number of presets whose N is the number of key-value heads. */
extern const char ch_preset_counts_groups[];
/* Presets N key-value heads, or for 0 the smallest divisor of the query heads that is at least 2 and at least a quarter
   of them (rounded down). One query head has one key-value head. */
ch_status ch_preset_grouped(ch_config *config, int64_t number, const char *where, ch_error *error);
/* Sets the number of key-value heads. Fails if it does not divide the query heads; the error names the numbers
   that do. */
ch_status ch_preset_groups(ch_config *config, int64_t groups, const char *where, ch_error *error);

/* Presets of weight sharing, written after a mechanism and a plus sign ("mfa+masa-qkvo"); the last has no name.
   Experts are written this way too (experiment/lineup/presets.h). */
extern const ch_preset ch_sharing_presets[];

#endif
