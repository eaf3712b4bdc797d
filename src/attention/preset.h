/* Presets: short names of mechanisms. Each changes a shape that all compared models share. */
#ifndef CH_ATTENTION_PRESET_H
#define CH_ATTENTION_PRESET_H

#include "config/config.h"

/* One name that `compare` knows: "gqa", "gqa:4". */
typedef struct ch_preset {
  const char *name;
  const char *number;  /* the meaning of N in "name:N", or NULL if the name has no number */
  const char *summary; /* one line, for --help */
  /* Changes the shared base (multi-head attention, with the type already set to the mechanism's) to this
     preset; NULL: no changes. number: N, or 0 if the user gave none. `where` names the preset in messages. */
  ch_status (*apply)(ch_config *config, int64_t number, const char *where, ch_error *error);
} ch_preset;

/* Shared by several mechanisms' presets: N key-value heads, or a quarter of the query heads, at least 2. */
extern const char ch_preset_counts_groups[];
ch_status ch_preset_grouped(ch_config *config, int64_t number, const char *where, ch_error *error);
/* Sets that number of key-value heads; the error of an impossible one names the possible ones. */
ch_status ch_preset_groups(ch_config *config, int64_t groups, const char *where, ch_error *error);

/* Presets of weight sharing, written after a mechanism and a plus sign ("mfa+masa-qkvo"); the last has no
   name. Experts are added in the same way (experiment/lineup/presets.h). */
extern const ch_preset ch_sharing_presets[];

#endif
