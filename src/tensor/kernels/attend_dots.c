/* Streaming attention over few queries, by dot products: each key is multiplied with the few queries that read its
 * head as vectors along the head's dimension, so that keys are used as they lie in memory and no lane is wasted.
 *
 * One column a head (every query head has keys of its own) is attend_singles.c's; more columns go through the tiles of
 * attend_group.c, or as pairs of BF16 through attend_pairs.c. 16-bit elements are widened as they are loaded.
 */
#include "tensor/kernels/attend_group.h"
#include "tensor/kernels/attend_pairs.h"
#include "tensor/kernels/attend_singles.h"

void attend_carve_dots(const ch_attend *args, const few_plan *plan, carver *from, few_space *space) {
  (void)args;
  space->scores = carve_reals(from, (plan->block + TILE_KEYS) * plan->total + VL);
  space->weights = carve_reals(from, plan->block * plan->total);
  space->q = carve_reals(from, plan->total * plan->key_padded);
  carve_columns(from, plan->total, &space->columns);
  if (plan->group_columns > 1)
    attend_carve_group(plan, from, space);
  else
    attend_carve_singles(plan, from, space);
#ifdef __AVX512BF16__
  space->paired =
      carve(from, plan->total / plan->pitch * (plan->key_padded / 2) * PAIR_COLUMNS, sizeof(int32_t));
  if (may_pair(args, plan))
    space->widened = carve(from, plan->block * args->kv_heads * (args->key_dim + args->value_dim), 2);
#endif
}

void attend_start_dots(const ch_attend *args, const few_plan *plan, int64_t sequence, few_space *space,
                       const few_state *state) {
  query_columns *c = &space->columns;
  c->max = state->max;
  c->sum = state->sum;
  clear_columns(args, c);
  token_rows q = query_rows(args, args->q);
  for (int64_t g = 0; g < args->kv_heads; g++) {
    column_place at = place_of(args, g, 0);
    for (int64_t i = 0; i < plan->group_columns; i++, next_column(&at)) {
      copy_row(row_of(args, &q, sequence, &at), args->key_dim, (real)args->scale,
               space->q + c->count * plan->key_padded);
      add_column(args, c, sequence, at.query, at.head);
    }
  }
  finish_columns(c);
  if (plan->group_columns > 1)
    attend_start_group(plan, args->kv_heads, space);
  else
    attend_start_singles(args, plan, space);
#ifdef __AVX512BF16__
  if (may_pair(args, plan)) attend_start_pairs(args, plan, space);
#endif
  memset(state->rows, 0, (size_t)(c->count * plan->value_padded) * sizeof(real));
}

/* --- a block ------------------------------------------------------------------------------------------------- */

/* Scores of all columns become weights of a block. Scores are `ld` apart. */
static void weigh(const few_plan *plan, const few_block *block, const few_space *space,
                  const few_state *state, int64_t ld) {
  const query_columns *c = &space->columns;
  bool masked = needs_mask(c, block->first, block->count);
  for (int64_t v = 0; v < c->padded / VL; v++) {
    real factors[VL];
    bool moved = masked ? softmax_vector(true, c, v, block->first, block->count, space->scores, ld,
                                         space->weights, plan->total, factors)
                        : softmax_vector(false, c, v, block->first, block->count, space->scores, ld,
                                         space->weights, plan->total, factors);
    if (moved)
      attend_rescale(state->rows + v * VL * plan->value_padded, plan->value_padded, factors,
                     c->count - v * VL);
  }
}

void attend_dot_block(const ch_attend *args, const few_plan *plan, const few_block *block,
                      const few_space *space, const few_state *state) {
#ifdef __AVX512BF16__
  if (are_pairs(args, plan, &block->tiles)) {
    ch_tiles tiles;
    attend_pair_scores(args, plan, block, space, &tiles);
    weigh(plan, block, space, state, plan->total);
    attend_pair_sums(args, plan, block, space, &tiles, state->rows);
    return;
  }
#endif
  if (plan->group_columns > 1) {
    fetch_stream stream = {.count = 0};
    attend_group_scores(args, plan, block, space, &stream);
    weigh(plan, block, space, state, plan->total);
    attend_group_sums(args, plan, block, space, state->rows, &stream);
    return;
  }
  attend_single_scores(args, plan, block, space);
  weigh(plan, block, space, state, space->columns.count);
  attend_single_sums(args, plan, block, space, state->rows);
}
