/* Attention of single queries over gated latents (EG-MLA). Tokens with one id are processed together.
 *
 * A cached token t of id i has, for head h, with W_UK, W_UV the head's rows of kv_b and all products by
 * element,
 *
 *   k = gamma_k (W_UK c_t * g_i - mean_t) / std_t + beta_k,     and v correspondingly.
 *
 * Nothing but c_t, mean_t and std_t depends on the token, so that all tokens of an id share one folded query
 * f = W_UK^T (q * gamma_k * g_i) and one folded sum of latents:
 *
 *   q . k           = (f . c_t - mean_t (q . gamma_k)) / std_t + q . beta_k
 *   sum of a_t v_t  = gamma_v (sum over ids of g_i * W_UV (sum of a_t c_t / std_t)
 *                     - sum of a_t mean_t / std_t) + beta_v
 *
 * Folding costs U c (n + v) multiply-adds per head for U ids and 2 T c for their T tokens. Expanding all tokens costs
 * T c (n + v). An id that occurs once costs about the same either way. But expanded tokens share one product with one
 * matrix, and each folded id has its own query and sum. The kernel chooses by their costs. */
#ifndef CH_TENSOR_GATED_ATTEND_H
#define CH_TENSOR_GATED_ATTEND_H

#include "tensor/attend.h"

/* The tokens 0, 1, ... of a sequence, grouped by id: group g, of id[g], has the tokens token[first[g]] …
   token[first[g + 1] - 1]. */
typedef struct ch_id_groups {
  int64_t count;
  const int32_t *id, *first, *token;
} ch_id_groups;

/* The processing of ids. CH_GATED_CHOSEN expands rare ids and folds frequent ids, by the cost of each. CH_GATED_FOLDED
   folds all ids, and CH_GATED_EXPANDED expands all. */
typedef enum ch_gated_form { CH_GATED_CHOSEN, CH_GATED_FOLDED, CH_GATED_EXPANDED } ch_gated_form;

typedef struct ch_gated_attend {
  const ch_team *team;
  ch_gated_form form;
  int64_t sequences, heads;
  int64_t latent, rope, nope, value; /* c, r, n, v */
  const void *q;                     /* [sequences, heads, n + r] */
  void *out;                         /* [sequences, heads, v] */
  double scale;
  const double *slopes; /* ALiBi slopes [heads], or NULL */
  const void *kv_b;     /* [heads * (n + v), c] of kv_b_dtype: the table's type, F16 or BF16 */
  ch_dtype kv_b_dtype;
  const void *gamma, *beta; /* [heads * (n + v)], or NULL: no norm */
  /* latents: [c + r] per token, may be block-quantised; gates: [heads * (n + v)] per id; moments: [2] per
     token, mean and 1/std */
  ch_state_view latents, gates, moments;
  const ch_id_groups *groups; /* [sequences] */
  void *scratch;              /* ch_kernels.gated_attend_scratch bytes, any alignment and content */
} ch_gated_attend;

#endif
