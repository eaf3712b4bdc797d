/* crosshead generate with one text, printed as it is written. */
#ifndef CH_CLI_GENERATE_ONE_H
#define CH_CLI_GENERATE_ONE_H

#include <crosshead/generate.h>

#include "cli/prompts.h"

typedef struct ch_one_text {
  ch_session *session;
  const ch_model *model;
  const ch_prompt *prompt;
  ch_sampler *sampler;
  int64_t max_tokens;
  uint64_t seed;                   /* the sampler's seed */
  const char *cache_dtype, *trace; /* trace: path of the file to write, or NULL */
  double open_seconds;
  bool keep_dictionary, echo, json;
} ch_one_text;

/* Generates and prints the text, then prints the figures. */
ch_status ch_generate_one(const ch_one_text *one, ch_error *error);

#endif
