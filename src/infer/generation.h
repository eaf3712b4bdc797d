/* Generations inside the library: over the caller's session, with texts that share the memory of a prompt. */
#ifndef CH_INFER_GENERATION_H
#define CH_INFER_GENERATION_H

#include <crosshead/generation.h>

#include "infer/sampling.h"
#include "infer/session.h"
#include "text/text_stream.h"

/* The mode of a generation. */
typedef struct ch_generation_manner {
  /* prompt tokens read per round; 0: all prompts that have a place are read before a step */
  int64_t chunk;
  bool reuses; /* true if whole chunks of earlier prompts stay in the cache and are reused */
  /* true if the text continues the session's tokens. The session must have one sequence. It then holds every token of
     the text */
  bool continues;
} ch_generation_manner;

/* Creates a generation over a session that must outlive it. If tokenizer is NULL, no text is decoded. */
ch_status ch_generation_over(ch_session *session, const ch_tokenizer *tokenizer,
                             const ch_generation_manner *manner, ch_generation **generation, ch_error *error);
/* Transfers ownership of the session to the generation. */
void ch_generation_own(ch_generation *generation, ch_session *session);

/* Fields of a request that only the library itself sets. */
typedef struct ch_generation_extra {
  /* [end_count] ids that end the text; like the prompt, they must outlive the request */
  const int32_t *ends;
  int end_count;
  ch_sampler *sampler; /* used instead of the request's; its state is updated at the end of a text */
} ch_generation_extra;

/* Adds a request as ch_generation_add does; extra may be NULL. Consecutive requests with an extra whose prompts are
   the same memory compute the prompt once. */
ch_status ch_generation_put(ch_generation *generation, const ch_generation_request *asked,
                            const ch_generation_extra *extra, int64_t *id, ch_error *error);
/* Checks a request as ch_generation_put does, without adding it. */
ch_status ch_generation_check(const ch_generation *generation, const ch_generation_request *asked,
                              ch_error *error);
/* Returns true once the session's progress callback has cancelled. Requests without a place then end without
   events. */
bool ch_generation_stopped(const ch_generation *generation);

#endif
