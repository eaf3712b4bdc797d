/* Choosing the next token from logits: temperature, top-k, top-p; no allocation and no sorting of the vocabulary. */
#ifndef CH_INFER_SAMPLING_H
#define CH_INFER_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/random.h"

/* How the next token is chosen. Tokens are ranked by logit, equal ones by the lower id. */
typedef struct ch_sampling {
  double temperature; /* logits are divided by it; 0 = always the first of the ranking */
  int64_t top_k;      /* keep the k first; 0 = all */
  double top_p;       /* then keep the fewest first ones whose probabilities reach p; 1 = all */
} ch_sampling;

/* Settings out of range are errors that name the one. */
ch_status ch_sampling_check(const ch_sampling *sampling, ch_error *error);
/* Bytes of scratch that ch_sample_token needs. */
size_t ch_sampling_scratch(int64_t vocabulary);
/* Draws a token from logits [vocabulary]: with the kept tokens in order of their ids, the one at which the running sum
   of probabilities passes a uniform number. The same random state and logits always give the same token; a temperature
   of 0 draws no number. -inf logits are never drawn; NaN and +inf are CH_ERROR_NUMERIC. scratch may be NULL when the
   temperature is 0. */
ch_status ch_sample_token(const ch_sampling *sampling, ch_random *random, const float *logits,
                          int64_t vocabulary, void *scratch, int32_t *token, ch_error *error);

#endif
