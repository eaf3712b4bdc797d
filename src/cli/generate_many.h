/* generate with several texts in step. */
#ifndef CH_CLI_GENERATE_MANY_H
#define CH_CLI_GENERATE_MANY_H

#include "cli/prompts.h"
#include "infer/generate.h"

typedef struct ch_many_texts {
  ch_timeline *timeline; /* as many sequences as go in step */
  const ch_tokenizer *tokenizer;
  const ch_prompts *prompts;
  int64_t samples;                     /* texts of every prompt */
  uint64_t seed;                       /* sample i of a prompt has seed + i */
  const ch_generation_options *common; /* sampling, ends and length of every text */
  const char *cache_dtype;
  bool echo, json;
} ch_many_texts;

/* Writes all texts, then prints them and the figures. */
ch_status ch_generate_many(const ch_many_texts *many, ch_error *error);

#endif
