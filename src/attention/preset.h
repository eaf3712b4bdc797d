/* Presets: mechanisms by short names, made from a shape that all compared models share. */
#ifndef CH_ATTENTION_PRESET_H
#define CH_ATTENTION_PRESET_H

#include "config/config.h"

/* One name that `compare` knows: "gqa", "gqa:4". */
typedef struct ch_preset {
  const char *name;
  const char *number;  /* what N of "name:N" counts, or NULL when the name takes no number */
  const char *summary; /* one line, for --help */
  /* Turns the shared base - multi-head attention, its type already set to the mechanism whose it is - into this; NULL: nothing is
     left to do. number: N, or 0 when the user gave none. `where` names the preset in messages. */
  ch_status (*apply)(ch_config *config, int64_t number, const char *where, ch_error *error);
} ch_preset;

/* What several mechanisms' presets count, and do: N key-value heads, or a quarter of the query heads, at least 2. */
extern const char ch_preset_counts_groups[];
ch_status ch_preset_grouped(ch_config *config, int64_t number, const char *where, ch_error *error);
/* Exactly so many key-value heads; an error says which numbers would do. */
ch_status ch_preset_groups(ch_config *config, int64_t groups, const char *where, ch_error *error);

/* Presets of what layers share, to stand behind a mechanism's ("mfa+masa-qkvo"); the last has no name. */
extern const ch_preset ch_sharing_presets[];

#endif
