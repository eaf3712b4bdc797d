/* Log-probabilities of tokens, and the likeliest tokens, from unmodified logits. */
#ifndef CH_INFER_LOG_PROBABILITY_H
#define CH_INFER_LOG_PROBABILITY_H

#include <crosshead/generate.h>

/* Returns ln of the sum of exp(logits) in double precision. A token's log-probability is its logit minus the
   result. The result is NaN or infinite if a logit is NaN or +infinite, or if all are -infinite. */
double ch_log_sum_exp(const float *logits, int64_t vocabulary);

/* Writes the `count` likeliest tokens as ch_top_tokens does; 1 <= count <= vocabulary. log_sum: ch_log_sum_exp of the
   logits. */
void ch_likeliest(const float *logits, int64_t vocabulary, double log_sum, ch_token_probability *top,
                  int32_t count);

#endif
