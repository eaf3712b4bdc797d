/* The reference's mechanisms that keep keys and values by head: gqa, gta, diff, talking. */
#include <math.h>

#include "private.h"

/* Queries [length][heads][d] up to and with the QK norm, not yet rotated. */
static double *queries(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  double *q = reference_project(run, "q_proj", x, c->hidden, c->heads * c->head_dim);
  q = reference_knocked(run, 'q', q, c->heads, c->head_dim);
  reference_qk_norm(run, 'q', q, c->heads, c->head_dim);
  return q;
}

/* Rotated queries, rotated keys and values as gqa, diff and talking have them. */
static void project_all(reference_run *run, const double *x, double **q, double **k, double **v) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim;
  *q = queries(run, x);
  reference_rope(run, *q, c->heads, d, d);
  *k = reference_knocked(run, 'k', reference_heads(run, "k_proj", 'k', x), c->groups, d);
  reference_qk_norm(run, 'k', *k, c->groups, d);
  reference_rope(run, *k, c->groups, d, d);
  *v = reference_knocked(run, 'v', reference_heads(run, "v_proj", 'v', x), c->groups, d);
}

static double *output(reference_run *run, const double *context, int64_t width) {
  return reference_project(run, "o_proj", context, width, run->config->hidden);
}

/* --- 1.1 --- */

double *reference_gqa(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim;
  double *q, *k, *v;
  project_all(run, x, &q, &k, &v);
  double *context = reference_attend(run, c->groups, q, k, d, v, d, 1 / sqrt((double)d));
  reference_head_norm(run, context, c->heads, d);
  return output(run, context, c->heads * d);
}

/* --- 1.2: t_g is the value, and the first half of the key --- */

double *reference_gta(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim, half = d / 2;
  double *q = queries(run, x);
  reference_rope(run, q, c->heads, d, half);
  double *tied = reference_knocked(run, 'v', reference_heads(run, "kv_proj", 'v', x), c->groups, d);
  double *rotary = reference_project(run, "k_rope_proj", x, c->hidden, half);
  reference_rope(run, rotary, 1, half, half);
  double *k = reference_zeros(run, run->length * c->groups * d);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t g = 0; g < c->groups; g++)
      for (int64_t i = 0; i < d; i++)
        k[(t * c->groups + g) * d + i] =
            i < half ? tied[(t * c->groups + g) * d + i] : rotary[t * half + i - half];
  double *context = reference_attend(run, c->groups, q, k, d, tied, d, 1 / sqrt((double)d));
  reference_head_norm(run, context, c->heads, d);
  return output(run, context, c->heads * d);
}

/* --- 1.6 --- */

static double dot_of(reference_run *run, const char *a_name, const char *b_name) {
  int64_t d = run->config->head_dim;
  const double *a = reference_vector(run, a_name, d), *b = reference_vector(run, b_name, d);
  double sum = 0;
  for (int64_t i = 0; i < d; i++) sum += a[i] * b[i];
  return sum;
}

/* lambda [heads / 2]. */
static double *lambdas(reference_run *run, double initial) {
  const reference_config *c = run->config;
  double *lambda = reference_zeros(run, c->heads / 2);
  double one = 0;
  if (!c->lambda_a_pair)
    one = exp(dot_of(run, "self_attn.lambda_q1", "self_attn.lambda_k1")) -
          exp(dot_of(run, "self_attn.lambda_q2", "self_attn.lambda_k2")) + initial;
  for (int64_t p = 0; p < c->heads / 2; p++)
    lambda[p] = c->lambda_a_pair ? reference_vector(run, "self_attn.lambda", c->heads / 2)[p] : one;
  return lambda;
}

double *reference_diff(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim, pairs = c->heads / 2;
  double *q, *k, *v, initial = 0.8 - 0.6 * exp(-0.3 * run->layer);
  project_all(run, x, &q, &k, &v);
  const double *lambda = lambdas(run, initial);
  double *context = reference_zeros(run, run->length * pairs * 2 * d);
  double *weights = reference_zeros(run, run->length);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t p = 0; p < pairs; p++) {
      int64_t pair = p * c->groups / c->heads; /* of key-value heads */
      for (int64_t side = 0; side < 2; side++) {
        int64_t head = 2 * p + side;
        reference_scores(run, head, t, q + (t * c->heads + head) * d, k + (2 * pair + side) * d,
                         c->groups * d, d, 1 / sqrt((double)d), weights);
        reference_softmax(run, t, weights);
        /* The two values of a pair lie side by side. */
        reference_gather(t, weights, side ? -lambda[p] : 1, v + 2 * pair * d, c->groups * d, 2 * d,
                         context + (t * pairs + p) * 2 * d);
      }
    }
  reference_head_norm(run, context, pairs, 2 * d);
  for (int64_t i = 0; c->head_norm && i < run->length * pairs * 2 * d; i++) context[i] *= 1 - initial;
  return output(run, context, c->heads * d);
}

/* --- 1.7 --- */

/* mixed[h][j] = sum_i mix[h, i] rows[i][j] for j <= t; rows [heads][length]. */
static double *mix_rows(reference_run *run, const char *name, bool on, double *rows, int64_t t) {
  if (!on) return rows;
  int64_t heads = run->config->heads, length = run->length;
  const double *mix = reference_matrix(run, name, heads, heads);
  double *mixed = reference_zeros(run, heads * length);
  for (int64_t h = 0; h < heads; h++)
    for (int64_t i = 0; i < heads; i++)
      for (int64_t j = 0; j <= t; j++) mixed[h * length + j] += mix[h * heads + i] * rows[i * length + j];
  return mixed;
}

double *reference_talking(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim, length = run->length;
  double *q, *k, *v;
  project_all(run, x, &q, &k, &v);
  double *context = reference_zeros(run, length * c->heads * d);
  for (int64_t t = 0; t < length; t++) {
    double *rows = reference_zeros(run, c->heads * length);
    for (int64_t h = 0; h < c->heads; h++)
      reference_scores(run, h, t, q + (t * c->heads + h) * d, k + h * d, c->heads * d, d, 1 / sqrt((double)d),
                       rows + h * length);
    rows = mix_rows(run, "self_attn.logit_mix.weight", c->mix_logits, rows, t);
    for (int64_t h = 0; h < c->heads; h++) reference_softmax(run, t, rows + h * length);
    rows = mix_rows(run, "self_attn.weight_mix.weight", c->mix_weights, rows, t);
    for (int64_t h = 0; h < c->heads; h++)
      reference_gather(t, rows + h * length, 1, v + h * d, c->heads * d, d, context + (t * c->heads + h) * d);
  }
  reference_head_norm(run, context, c->heads, d);
  return output(run, context, c->heads * d);
}
