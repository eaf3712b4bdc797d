/* Decoding attention by dot products: each key is multiplied with the few queries that read its head, as
 * vectors along the head dimension. Keys are used in place, and no lane is wasted.
 *
 * With one column per key-value head (MHA), attend_mha_decode.c does the work; with several columns (GQA),
 * attend_gqa_decode.c, or attend_bf16_dot.c with BF16 dot products. Elements of 16 bits are widened when they
 * are loaded. */
#include "tensor/kernels/attention/attend_gqa_decode.h"
#include "tensor/kernels/attention/attend_bf16_dot.h"
#include "tensor/kernels/attention/attend_mha_decode.h"

void attend_decode_allocate(const ch_attend *args, const decode_plan *plan, scratch_arena *arena,
                            decode_space *space) {
  (void)args;
  space->scores = arena_reals(arena, (plan->block + TILE_KEYS) * plan->total + VL);
  space->weights = arena_reals(arena, plan->block * plan->total);
  space->q = arena_reals(arena, plan->total * plan->key_padded);
  allocate_columns(arena, plan->total, &space->columns);
  if (plan->group_columns > 1)
    attend_gqa_allocate(plan, arena, space);
  else
    attend_mha_allocate(plan, arena, space);
#ifdef __AVX512BF16__
  space->paired = arena_take(arena, plan->total / plan->pitch * (plan->key_padded / 2) * BF16_DOT_COLUMNS,
                             sizeof(int32_t));
  if (may_use_bf16_dot(args, plan))
    space->widened = arena_take(arena, plan->block * args->kv_heads * (args->key_dim + args->value_dim), 2);
#endif
}

void attend_decode_start(const ch_attend *args, const decode_plan *plan, int64_t sequence,
                         decode_space *space, const decode_state *state) {
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
    attend_gqa_start(plan, args->kv_heads, space);
  else
    attend_mha_start(args, plan, space);
#ifdef __AVX512BF16__
  if (may_use_bf16_dot(args, plan)) attend_bf16_dot_start(args, plan, space);
#endif
  memset(state->rows, 0, (size_t)(c->count * plan->value_padded) * sizeof(real));
}

/* --- a block -------------------------------------------------------------------------------------------- */

/* Turns the scores of all columns into weights, for one block. Rows of scores are `ld` elements apart. */
static void weigh(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                  const decode_space *space, const decode_state *state, int64_t ld) {
  const query_columns *c = &space->columns;
  for (int64_t i = 0; args->soft_cap > 0 && i < block->count * ld; i += VL)
    store(space->scores + i, soft_capped(load(space->scores + i), (real)args->soft_cap));
  bool masked = needs_mask(c, block->first, block->count);
  for (int64_t v = 0; v < c->padded / VL; v++) {
    real factors[VL];
    int64_t clear = masked ? rows_clear(c, v * VL, VL, block->first, block->count) : block->count;
    bool moved = softmax_vector(c, v, block->first, clear, block->count, space->scores, ld, space->weights,
                                plan->total, factors);
    if (moved)
      attend_rescale(state->rows + v * VL * plan->value_padded, plan->value_padded, factors,
                     c->count - v * VL);
  }
}

void attend_decode_block(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                         const decode_space *space, const decode_state *state) {
#ifdef __AVX512BF16__
  if (block_uses_bf16_dot(args, plan, &block->tiles)) {
    ch_tiles tiles;
    attend_bf16_dot_scores(args, plan, block, space, &tiles);
    weigh(args, plan, block, space, state, plan->total);
    attend_bf16_dot_sums(args, plan, block, space, &tiles, state->rows);
    return;
  }
#endif
  if (plan->group_columns > 1) {
    fetch_stream stream = {.count = 0};
    attend_gqa_scores(args, plan, block, space, &stream);
    weigh(args, plan, block, space, state, plan->total);
    attend_gqa_sums(args, plan, block, space, state->rows, &stream);
    return;
  }
  attend_mha_scores(args, plan, block, space);
  weigh(args, plan, block, space, state, space->columns.count);
  attend_mha_sums(args, plan, block, space, state->rows);
}
