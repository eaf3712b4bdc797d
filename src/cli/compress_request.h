/* The arguments of crosshead compress, and their conversion to settings. */
#ifndef CH_CLI_COMPRESS_REQUEST_H
#define CH_CLI_COMPRESS_REQUEST_H

#include <crosshead/compress.h>
#include <crosshead/model.h>

#include "cli/command.h"
#include "cli/parse.h"

typedef struct ch_compress_arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *method, *out, *layers, *budget, *cache, *calibration, *text, *keep, *dtype, *ranks, *weighting;
  int64_t component_heads, calibration_tokens, groups, atoms, group_size, threads;
  double ratio;
  bool force, profile, data_free, json;
} ch_compress_arguments;

/* The names of the methods in the order of ch_compression, NULL-terminated. */
extern const char *const ch_compress_method_names[];
/* The names of ch_ranks, from CH_RANKS_SHARE on, and of ch_error_weighting. Both lists are NULL-terminated. */
extern const char *const ch_compress_rank_names[], *const ch_compress_weighting_names[];

/* Fills in the settings. Fails for options of other methods, missing options, and malformed ranges and shares. */
ch_status ch_compress_read(const ch_compress_arguments *arguments, ch_compress_settings *settings,
                           ch_error *error);

#endif
