/* The weights of a token's heads (Mixture-of-Head): `shared` heads first, then `routed` ones, of which every
 * token has chosen `active`.
 *
 *   [a1, a2] = 2 softmax(stage)      u = shared * softmax(shared logits)
 *   weights = [a1 u; a2 r], r the chosen heads' weights, 0 for the others;
 *   without shared heads weights = r */
#ifndef CH_TENSOR_HEAD_WEIGHTS_H
#define CH_TENSOR_HEAD_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/team.h"

typedef struct ch_head_weights {
  const ch_team *team;
  int64_t rows, shared, routed, active; /* shared + routed heads; 1 <= active <= routed */
  const int32_t *chosen;                /* [rows, active] heads in 0 ... routed - 1 */
  const void *chosen_weights;           /* [rows, active] */
  const void *shared_logits;            /* [rows, shared]; NULL with fewer than two: u = 1 */
  const void *stage_logits;             /* [rows, 2]; NULL without shared heads */
} ch_head_weights;

/* Gradients of chosen_weights, shared_logits and stage_logits; NULL: not computed. */
typedef struct ch_head_weights_gradient {
  void *chosen_weights, *shared_logits, *stage_logits;
  bool accumulate_chosen, accumulate_shared, accumulate_stage;
} ch_head_weights_gradient;

#endif
