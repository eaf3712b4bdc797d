/* Short causal convolutions with SiLU: what one call of their kernels reads and writes. */
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
  const int32_t *document_start;             /* as ch_delta_rule's */
  /* The taps - 1 rows of x before the first token, of sequence s at s * state_stride [taps - 1, channels], or
     at order[s] * state_stride, if order [sequences] [host] is not NULL; NULL: there are none. Of them
     tokens_before [sequences] [host] are real, the newest ones. */
  void *states;
  int64_t state_stride;
  const int32_t *order;
  const int32_t *tokens_before;
  void *y;
  void *scratch; /* ch_kernels.short_conv_scratch bytes */
} ch_short_conv;

/* Addresses of gradients. Each gradient is overwritten or added to; NULL: not wanted. */
typedef struct ch_short_conv_gradient {
  const void *y; /* of the output */
  void *x, *weight;
  bool add_x, add_weight;
} ch_short_conv_gradient;

#endif
