/* Attention of few queries over factors of keys and values (Tensor Product Attention).
 *
 * For each token the cache has A_k [H, R_k], B_k [R_k, d], A_v [H, R_v], B_v [R_v, d]; a head's key is (1/R_k)
 * A_k[h] B_k, its value (1/R_v) A_v[h] B_v. Neither is materialised: with weights p,
 *
 *   q_h . k_h         = (1/R_k) sum over r of A_k[h, r] (q_h . B_k[r])
 *   sum of p_h v_h    = (1/R_v) sum over tokens and r of (p_h A_v[h, r]) B_v[r] */
#ifndef CH_TENSOR_FACTOR_ATTEND_H
#define CH_TENSOR_FACTOR_ATTEND_H

#include "tensor/attend.h"

enum { CH_FACTOR_A_K, CH_FACTOR_B_K, CH_FACTOR_A_V, CH_FACTOR_B_V, CH_FACTORS };

typedef struct ch_factor_attend {
  const ch_team *team;
  int64_t sequences, queries, heads, dim, k_rank, v_rank;
  const void *q;                 /* [sequences, queries, heads, dim] */
  void *out;                     /* [sequences, queries, heads, dim] */
  double scale;                  /* factor of scores, without 1 / R_k */
  double soft_cap;               /* c: scores are c tanh(score / c); 0: no cap */
  const double *slopes;          /* ALiBi slopes [heads], or NULL */
  int64_t window, sinks;         /* tokens of the window, 0: no window; first tokens that stay visible */
  const void *sink_logits;       /* [heads] of the table's type: one more term e^z in each softmax; or NULL */
  const int32_t *past;           /* [sequences] rows of factors before the first query's */
  const ch_row_places *places;   /* [sequences] tokens of a ring's rows, or NULL: row r is token r */
  const int32_t *first_token;    /* [sequences] token of the first query, with `places`; or NULL */
  const int32_t *document_start; /* [sequences, queries] first token each query sees, or NULL */
  ch_state_view factor[CH_FACTORS]; /* factors of every token, of any type that a cache has */
  void *scratch;                    /* ch_kernels.factor_attend_scratch bytes, any alignment and content */
} ch_factor_attend;

#endif
