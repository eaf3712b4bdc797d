/* Short causal convolutions with SiLU: the arguments of their kernels. */
#ifndef CH_TENSOR_SHORT_CONV_H
#define CH_TENSOR_SHORT_CONV_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/team.h"

enum { CH_MAX_CONV_TAPS = 64 };

typedef struct ch_short_conv {
  const ch_team *team;
  int64_t sequences, length, channels, taps; /* taps from 1 to CH_MAX_CONV_TAPS */
  const void *x;                             /* [sequences, length, channels] */
  const void *weight;                        /* [channels, taps], the token itself last; NULL: one tap of 1 */
  /* [sequences, length] first token of each token's document, or NULL: every document starts at token 0 */
  const int32_t *document_start;
  /* The taps - 1 rows of x before the first token. Sequence s has [taps - 1, channels] at s * state_stride, or
     at order[s] * state_stride. NULL: there are none. */
  void *states;
  int64_t state_stride;
  const int32_t *order; /* [sequences] [host] place of each sequence in `states`; NULL: in order */
  /* [sequences] [host] number of earlier tokens; as many of the state's newest rows hold real tokens */
  const int32_t *tokens_before;
  void *y;       /* [sequences, length, channels] */
  void *scratch; /* ch_kernels.short_conv_scratch bytes */
} ch_short_conv;

/* Addresses of gradients. */
typedef struct ch_short_conv_gradient {
  const void *y;          /* the output's gradient, which is read */
  void *x, *weight;       /* gradients to compute; NULL: skipped */
  bool add_x, add_weight; /* true adds to the gradient, false overwrites it */
} ch_short_conv_gradient;

#endif
