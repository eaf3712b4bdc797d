/* Attention of the reference: scores with ALiBi, the masked softmax, weighted values. */
#include <math.h>

#include "private.h"

/* Returns the published slope of a head. If the number of heads is a power of two, slopes are a geometric series. If
   not, they are the series of the power below, then every second slope of the power above. */
static double alibi_slope(int64_t head, int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  if (head < power) return pow(2, -8.0 * (double)(head + 1) / (double)power);
  int64_t place = 2 * (head - power); /* index in the series of 2 * power heads */
  return pow(2, -8.0 * (double)(place + 1) / (double)(2 * power));
}

double reference_capped(double x, double cap) {
  return cap > 0 ? cap * tanh(x / cap) : x;
}

void reference_scores(reference_run *run, int64_t head, int64_t t, const double *q, const double *keys,
                      int64_t stride, int64_t dim, double scale, double *scores) {
  for (int64_t j = 0; j <= reference_last(run, t); j++) {
    double product = 0;
    for (int64_t i = 0; i < dim; i++) product += q[i] * keys[j * stride + i];
    scores[j] = reference_capped(product * scale, run->config->score_cap);
    if (run->config->position == REFERENCE_ALIBI)
      scores[j] -= alibi_slope(head, run->config->heads) * (double)(t - j);
  }
}

/* Returns true if query t sees key j. Keys after the last visible one are excluded by the callers. */
static bool sees(const reference_run *run, int64_t t, int64_t j) {
  const reference_config *c = run->config;
  int64_t first = run->start ? run->start[t] : 0;
  if (j < first) return false;
  return !c->slides[run->layer] || t - j < c->window || j - first < c->sinks;
}

double reference_softmax(reference_run *run, int64_t t, double *scores) {
  int64_t last = reference_last(run, t);
  double largest = -INFINITY, sum = 0;
  for (int64_t j = 0; j <= last; j++)
    if (sees(run, t, j)) largest = fmax(largest, scores[j]);
  for (int64_t j = 0; j <= last; j++)
    if (sees(run, t, j)) sum += exp(scores[j] - largest);
  for (int64_t j = 0; j <= last; j++) scores[j] = sees(run, t, j) ? exp(scores[j] - largest) / sum : 0;
  return largest + log(sum);
}

double reference_sink_factor(reference_run *run, int64_t head, double log_sum) {
  if (!run->config->sink_logits) return 1;
  const double *sinks = reference_vector(run, "self_attn.sinks", run->config->heads);
  return reference_sigmoid(log_sum - sinks[head]);
}

int64_t reference_last(const reference_run *run, int64_t t) {
  return run->config->image.size ? run->length - 1 : t;
}

void reference_gather(reference_run *run, int64_t t, const double *weights, double factor,
                      const double *values, int64_t stride, int64_t dim, double *sum) {
  for (int64_t j = 0; j <= reference_last(run, t); j++)
    for (int64_t i = 0; i < dim; i++) sum[i] += factor * weights[j] * values[j * stride + i];
}

double *reference_attend_apart(reference_run *run, int64_t key_groups, const double *q, const double *keys,
                               int64_t key_dim, int64_t value_groups, const double *values, int64_t value_dim,
                               double scale) {
  int64_t heads = run->config->heads;
  double *out = reference_zeros(run, run->length * heads * value_dim);
  double *weights = reference_zeros(run, run->length);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < heads; h++) {
      int64_t g = h * key_groups / heads, of_values = h * value_groups / heads;
      reference_scores(run, h, t, q + (t * heads + h) * key_dim, keys + g * key_dim, key_groups * key_dim,
                       key_dim, scale, weights);
      double factor = reference_sink_factor(run, h, reference_softmax(run, t, weights));
      reference_gather(run, t, weights, factor, values + of_values * value_dim, value_groups * value_dim,
                       value_dim, out + (t * heads + h) * value_dim);
    }
  return out;
}

double *reference_attend(reference_run *run, int64_t groups, const double *q, const double *keys,
                         int64_t key_dim, const double *values, int64_t value_dim, double scale) {
  return reference_attend_apart(run, groups, q, keys, key_dim, groups, values, value_dim, scale);
}
