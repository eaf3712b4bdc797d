/* Log-probabilities of tokens, and the likeliest tokens, from unmodified logits. */
#ifndef CH_INFER_LOG_PROBABILITY_H
#define CH_INFER_LOG_PROBABILITY_H

#include <crosshead/generate.h>

/* Returns ln of the sum of exp(logits) in double precision. A logit minus it is its log-probability. NaN or
   infinite if a logit is NaN or +infinite. */
double ch_log_sum_exp(const float *logits, int64_t vocabulary);

/* Writes top [count] of ch_top_tokens, given that sum; 1 <= count <= vocabulary. */
void ch_likeliest(const float *logits, int64_t vocabulary, double log_sum, ch_token_probability *top,
                  int32_t count);

#endif
