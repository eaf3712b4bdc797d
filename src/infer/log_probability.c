/* Log-probabilities and the likeliest tokens. */
#include "infer/log_probability.h"

#include <math.h>

#include "base/error.h"

double ch_log_sum_exp(const float *logits, int64_t vocabulary) {
  double most = logits[0], sum = 0;
  for (int64_t v = 1; v < vocabulary; v++)
    if (logits[v] > most) most = logits[v];
  for (int64_t v = 0; v < vocabulary; v++) sum += exp(logits[v] - most);
  return most + log(sum);
}

/* Returns true if a comes before b in the result: the likelier token, of equal ones the lower id. */
static bool comes_before(const float *logits, int32_t a, int32_t b) {
  return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

/* Restores the heap top [count] after entry i has changed. The heap's first entry is its least likely token. */
static void sift_down(const float *logits, ch_token_probability *top, int32_t count, int32_t i) {
  for (int32_t child = 2 * i + 1; child < count; i = child, child = 2 * i + 1) {
    if (child + 1 < count && comes_before(logits, top[child].token, top[child + 1].token)) child++;
    if (!comes_before(logits, top[i].token, top[child].token)) return;
    ch_token_probability kept = top[i];
    top[i] = top[child];
    top[child] = kept;
  }
}

void ch_likeliest(const float *logits, int64_t vocabulary, double log_sum, ch_token_probability *top,
                  int32_t count) {
  for (int32_t i = 0; i < count; i++) top[i].token = i;
  for (int32_t i = count / 2 - 1; i >= 0; i--) sift_down(logits, top, count, i);
  for (int32_t v = count; v < vocabulary; v++)
    if (comes_before(logits, v, top[0].token)) {
      top[0].token = v;
      sift_down(logits, top, count, 0);
    }
  for (int32_t last = count - 1; last > 0; last--) { /* the last of the order goes to the end */
    ch_token_probability kept = top[0];
    top[0] = top[last];
    top[last] = kept;
    sift_down(logits, top, last, 0);
  }
  for (int32_t i = 0; i < count; i++) top[i].log_probability = logits[top[i].token] - log_sum;
}

/* Checks the arguments of both public functions. *log_sum: ch_log_sum_exp of the logits. */
static ch_status check_logits(const float *logits, int64_t vocab_size, const void *result, double *log_sum,
                              ch_error *error) {
  if (!logits || !result)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s NULL", logits ? "the result pointer is" : "the logits are");
  if (vocab_size < 1 || vocab_size > INT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT, "a vocabulary of %lld tokens is not possible",
                   (long long)vocab_size);
  *log_sum = ch_log_sum_exp(logits, vocab_size);
  if (isfinite(*log_sum)) return CH_OK;
  return ch_fail(error, CH_ERROR_NUMERIC, "the logits give no probabilities: one is NaN or infinite");
}

ch_status ch_log_probability(const float *logits, int64_t vocab_size, int32_t token, double *log_probability,
                             ch_error *error) {
  double log_sum = 0;
  CH_TRY(check_logits(logits, vocab_size, log_probability, &log_sum, error));
  if (token < 0 || token >= vocab_size)
    return ch_fail(error, CH_ERROR_ARGUMENT, "token %d is outside the vocabulary of 0 to %lld", token,
                   (long long)vocab_size - 1);
  *log_probability = logits[token] - log_sum;
  return CH_OK;
}

ch_status ch_top_tokens(const float *logits, int64_t vocab_size, ch_token_probability *top, int32_t count,
                        ch_error *error) {
  double log_sum = 0;
  CH_TRY(check_logits(logits, vocab_size, top, &log_sum, error));
  if (count < 1 || count > vocab_size)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the number of likeliest tokens is %d; it must be from 1 to %lld", count,
                   (long long)vocab_size);
  ch_likeliest(logits, vocab_size, log_sum, top, count);
  return CH_OK;
}
