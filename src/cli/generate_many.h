/* crosshead generate with several texts in one batch. */
#ifndef CH_CLI_GENERATE_MANY_H
#define CH_CLI_GENERATE_MANY_H

#include <crosshead/generate.h>

#include "cli/prompts.h"

typedef struct ch_many_texts {
  ch_session *session;
  int64_t sequences; /* number of the session's sequences: texts generated at a time */
  const ch_prompts *prompts;
  int64_t samples;           /* texts per prompt */
  uint64_t seed;             /* seed of the first sample; sample i of a prompt has seed + i */
  const ch_sampler *sampler; /* temperature, top_k and top_p of all texts */
  int64_t max_tokens;
  const char *cache_dtype;
  bool echo, json;
} ch_many_texts;

/* Generates all texts, then prints them and the figures. */
ch_status ch_generate_many(const ch_many_texts *many, ch_error *error);

#endif
