/* Collects the tokens that end a text of a model. */
#ifndef CH_INFER_END_TOKENS_H
#define CH_INFER_END_TOKENS_H

#include "config/config.h"
#include "text/tokenizer.h"

enum { CH_MAX_END_TOKENS = 16 };

/* The ids that end a text of this model: eos_token_id of DIRECTORY/generation_config.json and config.json,
   the tokenizer's end token, and its beginning token (where another text begins, this one is over). tokenizer
   may be NULL. Returns how many. */
ch_status ch_end_tokens(const char *directory, const ch_config *config, const ch_tokenizer *tokenizer,
                        int32_t ids[CH_MAX_END_TOKENS], int *count, ch_error *error);

#endif
