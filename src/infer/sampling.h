/* Draws the next token from logits: temperature, top-k, top-p. It does not allocate or sort the vocabulary. */
#ifndef CH_INFER_SAMPLING_H
#define CH_INFER_SAMPLING_H

#include <crosshead/generate.h>

#include "base/error.h"

/* Fails if a setting is out of range; the error names it. */
ch_status ch_sampling_check(const ch_sampler *sampler, ch_error *error);
/* Returns the bytes of scratch that ch_sample_token needs. */
size_t ch_sampling_scratch(int64_t vocabulary);
/* Draws a token from logits [vocabulary]: of the tokens that pass the filters, in the order of their ids, the one at
   which the running sum of probabilities exceeds a uniform number. Filters rank tokens by logit, equal ones by the
   lower id. The same sampler and logits always give the same token. With temperature 0 no number is drawn, and the
   first token of the ranking is returned. -inf logits are never drawn; NaN and +inf are CH_ERROR_NUMERIC. scratch may
   be NULL if the temperature is 0. */
ch_status ch_sample_token(ch_sampler *sampler, const float *logits, int64_t vocabulary, void *scratch,
                          int32_t *token, ch_error *error);

#endif
