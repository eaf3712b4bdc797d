/* generate with one text, which is printed as it is written. */
#ifndef CH_CLI_GENERATE_ONE_H
#define CH_CLI_GENERATE_ONE_H

#include "cli/prompts.h"
#include "infer/generate.h"
#include "infer/model.h"

typedef struct ch_one_text {
  ch_timeline *timeline;
  const ch_tokenizer *tokenizer;
  const ch_model *model;
  const ch_prompt *prompt;
  const ch_generation_options *common; /* sampling, ends and length */
  uint64_t seed;
  const char *cache_dtype, *trace; /* trace: a file's name, or NULL */
  double open_seconds;
  bool keep_dictionary, echo, json;
} ch_one_text;

/* Writes the text, then the figures. */
ch_status ch_generate_one(const ch_one_text *one, ch_error *error);

#endif
