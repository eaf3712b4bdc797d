/* Log-likelihoods the slow way, for comparison: all logits of a plain pass, softmax in double. */
#ifndef CH_TESTS_BRUTE_FORCE_H
#define CH_TESTS_BRUTE_FORCE_H

#include <math.h>

#include "infer/api_forward.h"

/* Returns the sum of -log p of tokens first ... length - 1, each from all tokens before it. */
static double brute_force_nll(const ch_model *model, const int32_t *tokens, int64_t length, int64_t first) {
  ch_forward_request request = {.tokens = tokens, .sequences = 1, .length = length};
  ch_forward_result result;
  ch_error error = {0};
  if (ch_forward(model, &request, &result, &error) != CH_OK) fail_msg("%s", error.message);
  int64_t vocabulary = model->config.vocab_size;
  double nll = 0;
  for (int64_t t = first; t < length; t++) {
    const float *logits = result.logits + (t - 1) * vocabulary;
    double most = -INFINITY, sum = 0;
    for (int64_t v = 0; v < vocabulary; v++) most = fmax(most, (double)logits[v]);
    for (int64_t v = 0; v < vocabulary; v++) sum += exp((double)logits[v] - most);
    nll += most + log(sum) - (double)logits[tokens[t]];
  }
  ch_forward_result_free(&result);
  return nll;
}

#endif
