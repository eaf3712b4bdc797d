/* Generations inside the library: over a session of the caller's, with texts that share the memory of a
   prompt. */
#ifndef CH_INFER_GENERATION_H
#define CH_INFER_GENERATION_H

#include <crosshead/generation.h>

#include "infer/sampling.h"
#include "infer/session.h"
#include "text/text_stream.h"

/* The arrangement of rounds. */
typedef struct ch_generation_manner {
  /* tokens of a prompt that a round reads; 0: all prompts that have a place are read before a step */
  int64_t chunk;
  bool reuses; /* whole chunks of earlier prompts stay in the cache and are reused */
  /* The session, of one sequence, continues its tokens, and afterwards holds every token written. */
  bool continues;
} ch_generation_manner;

/* Creates a generation over a session, which must outlive it. If tokenizer is NULL, no text is decoded. */
ch_status ch_generation_over(ch_session *session, const ch_tokenizer *tokenizer,
                             const ch_generation_manner *manner, ch_generation **generation, ch_error *error);
/* Makes the generation own the session: it is freed with the generation. */
void ch_generation_own(ch_generation *generation, ch_session *session);

/* Fields of a request that only the library itself sets. */
typedef struct ch_generation_extra {
  /* [end_count] ids that end the text; they and the prompt last as long as the request */
  const int32_t *ends;
  int end_count;
  ch_sampler *sampler; /* draws in place of the request's, and has advanced at its end */
} ch_generation_extra;

/* Like ch_generation_add; extra may be NULL. Consecutive requests with an extra whose prompts are the same
   memory compute it once. */
ch_status ch_generation_put(ch_generation *generation, const ch_generation_request *asked,
                            const ch_generation_extra *extra, int64_t *id, ch_error *error);
/* Makes the checks of ch_generation_put without adding the request. */
ch_status ch_generation_check(const ch_generation *generation, const ch_generation_request *asked,
                              ch_error *error);
/* Returns true once the session's own progress callback has cancelled. Requests without a place have then
   ended without events. */
bool ch_generation_stopped(const ch_generation *generation);

#endif
