/* Collects the tokens that end a text of a model. */
#ifndef CH_INFER_END_TOKENS_H
#define CH_INFER_END_TOKENS_H

#include "config/config.h"
#include "text/tokenizer.h"

enum { CH_MAX_END_TOKENS = 16 };

/* Lists the ids that end a text of the model, and their number: eos_token_id of DIRECTORY/generation_config.json
   and config.json, the tokenizer's end token, and its beginning token, because another text begins there. tokenizer
   may be NULL. */
ch_status ch_end_tokens(const char *directory, const ch_config *config, const ch_tokenizer *tokenizer,
                        int32_t ids[CH_MAX_END_TOKENS], int *count, ch_error *error);

#endif
