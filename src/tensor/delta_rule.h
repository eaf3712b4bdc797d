/* The gated delta rule (Yang et al. 2024): the arguments of its kernels.
 *
 * A head has a state S [d_k, d_v], which every token first decays and then corrects towards its own value:
 *
 *   S_t = a_t S_{t-1} + k_t (b_t (v_t - (a_t S_{t-1})^T k_t))^T,   o_t = S_t^T q_t
 *
 * with a_t = e^decay. Value head h has the query and the key of head floor(h heads / value_heads). At the
 * first token of a document a_t is 0: nothing before it counts. */
#ifndef CH_TENSOR_DELTA_RULE_H
#define CH_TENSOR_DELTA_RULE_H

#include <stddef.h>
#include <stdint.h>

#include "tensor/team.h"

/* Tokens of one matrix product. The state passes from chunk to chunk. */
enum { CH_DELTA_CHUNK = 64 };

typedef struct ch_delta_rule {
  const ch_team *team;
  int64_t sequences, length, heads, value_heads, key_dim, value_dim;
  const void *q, *k;        /* [sequences, length, heads, key_dim] */
  const void *v;            /* [sequences, length, value_heads, value_dim] */
  const void *decay, *beta; /* [sequences, length, value_heads]: log a, b */
  /* [sequences, length] first token of each token's document, or NULL: every document starts at token 0 */
  const int32_t *document_start;
  /* The states before the first token. The call replaces them by the states after the last token. Sequence s
     has [value_heads, key_dim, value_dim] at s * state_stride, or at order[s] * state_stride. NULL: states
     begin at zero and are not saved. */
  void *states;
  int64_t state_stride;
  const int32_t *order;         /* [sequences] [host] each sequence's position in `states`; NULL: in order */
  const int32_t *tokens_before; /* [sequences] [host] number of earlier tokens; 0: the state begins at zero */
  void *out;                    /* [sequences, length, value_heads, value_dim] */
  /* Values saved for the backward pass, or NULL. kept_states: the states at the beginning of every chunk but
     the first [sequences, value_heads, chunks - 1, key_dim, value_dim]. kept_errors: v_t - (a_t S_{t-1})^T k_t
     [sequences, length, value_heads, value_dim]. */
  void *kept_states, *kept_errors;
  void *scratch; /* ch_kernels.delta_rule_scratch bytes, any alignment and content */
} ch_delta_rule;

/* Addresses of gradients. */
typedef struct ch_delta_rule_gradient {
  const void *out;                /* the output's gradient, which is read */
  void *q, *k, *v, *decay, *beta; /* gradients to compute; NULL: skipped */
  /* true adds to the gradient, false overwrites it */
  bool add_q, add_k, add_v, add_decay, add_beta;
} ch_delta_rule_gradient;

static inline int64_t ch_delta_chunks(int64_t length) {
  return (length + CH_DELTA_CHUNK - 1) / CH_DELTA_CHUNK;
}

#endif
