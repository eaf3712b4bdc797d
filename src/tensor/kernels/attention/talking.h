/* Talking-heads attention's units and blocks: a unit is a block of queries of one sequence with all heads,
 * and reads the keys it sees 64 at a time. The forward and the backward pass share them.
 *
 * Heads are mixed at every (query, key) pair, so neither the softmax nor the weighted sum can be computed
 * head by head as in attend_forward.c:
 *
 *   S_h = scale Q_h K_h^T - slope_h distance      L_g = sum_h A[g, h] S_h      P_g = softmax(L_g)
 *   W_o = sum_g B[o, g] P_g                       O_o = W_o V_o
 *
 * A tile holds one of S, L, P, W for all heads, a unit's queries and a block's keys: [heads, rows, ld] with
 * keys in the lanes, so that mixing heads is one product [heads, heads] x [heads, rows ld]. Weights are mixed
 * after they are normalised, so a unit reads its keys twice: once for the softmax's sums, once for the
 * values. Logits of the first pass are saved for the second as far as KEPT allows; later ones are computed
 * again. T x T logits are never stored. */
#ifndef CH_KERNELS_ATTENTION_TALKING_H
#define CH_KERNELS_ATTENTION_TALKING_H

#include "tensor/kernels/attention/attend_panel.h"

enum {
  KEPT = 1 << 18,      /* reals that a thread saves between its passes */
  TILE_REALS = 1 << 15 /* reals that a tile should not exceed */
};

/* The division of the queries, and the sizes of tiles that follow from it. */
typedef struct talking_shape {
  int64_t rows;  /* queries of a unit, at most PANEL */
  int64_t units; /* units of a sequence */
  int64_t plane; /* reals from head to head of the largest tile */
  int64_t key_padded, value_padded;
} talking_shape;

/* Consecutive queries of one sequence, and the keys each of them sees. */
typedef struct talking_unit {
  int64_t sequence, query, rows;
  int64_t first, end;           /* range of the keys that any query sees: first … end-1 */
  int64_t first_sink, end_sink; /* visible sinks before `first`: first_sink … end_sink-1 (may be empty) */
  int64_t blocks, sink_blocks;  /* number of blocks of keys, of which the first sink_blocks hold sinks */
  visible_keys keys[PANEL];
  int64_t position[PANEL];
  const ch_row_places *places; /* tokens of the sequence's rows, or NULL: row r is token r */
} talking_unit;

/* Keys first … first+count-1; ld is count rounded up to whole vectors. The heads of a tile are `plane` reals apart:
   one cache line more than a head's elements, so that equal elements of heads are in different sets of the cache. */
typedef struct talking_block {
  int64_t first, count, ld, plane;
} talking_block;

/* The memory for reading states: produced tiles, one head's rows as reals, and these rows transposed. */
typedef struct state_space {
  real *tile, *rows, *packed;
} state_space;

static inline talking_shape shape_units(const ch_attend *args, int64_t wanted) {
  talking_shape shape = {.rows = TILE_REALS / (BLOCK * args->heads) / TILE_ROWS * TILE_ROWS,
                         .key_padded = round_up(args->key_dim, VL),
                         .value_padded = round_up(args->value_dim, VL)};
  if (shape.rows > PANEL) shape.rows = PANEL;
  if (shape.rows < TILE_ROWS) shape.rows = TILE_ROWS;
  while (shape.rows > 4 * TILE_ROWS &&
         args->sequences * ((args->queries + shape.rows - 1) / shape.rows) < wanted)
    shape.rows /= 2;
  if (shape.rows > args->queries) shape.rows = args->queries;
  shape.units = (args->queries + shape.rows - 1) / shape.rows;
  shape.plane = shape.rows * BLOCK + 64 / (int64_t)sizeof(real);
  return shape;
}

static inline talking_unit unit_number(const ch_attend *args, const talking_shape *shape, int64_t sequence,
                                       int64_t number) {
  talking_unit unit = {.sequence = sequence,
                       .query = number * shape->rows,
                       .first = INT64_MAX,
                       .first_sink = INT64_MAX,
                       .places = args->places ? &args->places[sequence] : NULL};
  int64_t past = args->first_token ? args->first_token[sequence] : tokens_before(args, sequence);
  int64_t left = args->queries - unit.query;
  unit.rows = left < shape->rows ? left : shape->rows;
  for (int64_t r = 0; r < unit.rows; r++) {
    const visible_keys keys = keys_of_query(args, sequence, unit.query + r);
    unit.position[r] = past + unit.query + r;
    unit.keys[r] = keys;
    if (keys.first < unit.first) unit.first = keys.first;
    if (keys.end > unit.end) unit.end = keys.end;
    if (keys.sink == keys.end_sink) continue;
    if (keys.sink < unit.first_sink) unit.first_sink = keys.sink;
    if (keys.end_sink > unit.end_sink) unit.end_sink = keys.end_sink;
  }
  if (unit.end_sink > unit.first) unit.end_sink = unit.first;
  if (unit.end_sink > unit.first_sink)
    unit.sink_blocks = (unit.end_sink - unit.first_sink + BLOCK - 1) / BLOCK;
  unit.blocks = unit.sink_blocks + (unit.end > unit.first ? (unit.end - unit.first + BLOCK - 1) / BLOCK : 0);
  return unit;
}

static inline talking_block block_number(const talking_unit *unit, int64_t number) {
  const bool sinks = number < unit->sink_blocks;
  const int64_t begin = sinks ? unit->first_sink : unit->first - unit->sink_blocks * BLOCK,
                end = sinks ? unit->end_sink : unit->end;
  talking_block block = {.first = begin + number * BLOCK, .count = BLOCK};
  if (block.count > end - block.first) block.count = end - block.first;
  block.ld = round_up(block.count, VL);
  block.plane = unit->rows * block.ld + 64 / (int64_t)sizeof(real);
  return block;
}

static inline void allocate_state_space(const ch_attend *args, const talking_shape *shape,
                                        scratch_arena *arena, state_space *space) {
  int64_t widest = shape->key_padded > shape->value_padded ? shape->key_padded : shape->value_padded;
  space->tile = arena_reals(arena, args->producer->scratch_elements(args, args->heads, BLOCK));
  space->rows = arena_reals(arena, BLOCK * widest);
  space->packed = arena_reals(arena, BLOCK * widest);
}

static inline void produce_block(const ch_attend *args, const talking_unit *unit, const talking_block *block,
                                 const state_space *space, ch_tiles *tiles) {
  ch_tile_span span = {
      .sequence = unit->sequence, .heads = args->heads, .first = block->first, .count = block->count};
  args->producer->produce(args, &span, space->tile, tiles);
}

/* Copies the unit's rows of a tensor [sequences, queries, heads, dim], times `scale`, to out [heads, rows,
   dim]. */
static inline void gather_rows(const ch_attend *args, const talking_unit *unit, const void *tensor,
                               int64_t dim, real scale, real *out) {
  const real *from =
      (const real *)tensor + (unit->sequence * args->queries + unit->query) * args->heads * dim;
  for (int64_t h = 0; h < args->heads; h++)
    for (int64_t r = 0; r < unit->rows; r++, out += dim)
      for (int64_t k = 0; k < dim; k += VL)
        store_some(out + k, load_some(from + (r * args->heads + h) * dim + k, dim - k) * scale, dim - k);
}

/* tile_h [rows, ld] = X_h Y_h^T for every head: X [heads, rows, dim] and the block's keys or values Y. */
static inline void multiply_states(const ch_attend *args, const talking_unit *unit,
                                   const talking_block *block, const real *x, const ch_tile *states,
                                   int64_t dim, const state_space *space, real *tile) {
  for (int64_t h = 0; h < args->heads; h++) {
    int64_t stride;
    const real *rows = head_rows(states, h, block->count, dim, false, space->rows, &stride);
    row_list list;
    for (int64_t i = 0; i < block->count; i++) list.row[i] = rows + i * stride;
    pack_transposed(false, &list, block->count, dim, 1, space->packed, block->ld);
    KERNEL(tile_product)
    (unit->rows, block->ld, dim, x + h * unit->rows * dim, dim, 1, space->packed, block->ld,
     tile + h * block->plane, block->ld, false);
  }
}

/* y_h [rows, padded] (+)= tile_h Y_h for every head: the sum of the block's keys or values Y with a tile's
   weights. */
static inline void sum_states(const ch_attend *args, const talking_unit *unit, const talking_block *block,
                              const real *tile, const ch_tile *states, int64_t dim, const state_space *space,
                              real *y, bool accumulate) {
  int64_t padded = round_up(dim, VL);
  for (int64_t h = 0; h < args->heads; h++) {
    int64_t stride;
    const real *rows = head_rows(states, h, block->count, dim, true, space->rows, &stride);
    KERNEL(tile_product)
    (unit->rows, padded, block->count, tile + h * block->plane, block->ld, 1, rows, stride,
     y + h * unit->rows * padded, padded, accumulate);
  }
}

/* out_g = sum_h M[g, h] in_h, or with M transposed. */
static inline void mix_heads(const ch_attend *args, const talking_unit *unit, const talking_block *block,
                             const void *matrix, bool transposed, const real *in, real *out) {
  int64_t heads = args->heads;
  KERNEL(tile_product)
  (heads, unit->rows * block->ld, heads, matrix, transposed ? 1 : heads, transposed ? heads : 1, in,
   block->plane, out, block->plane, false);
}

/* ALiBi: S_h -= slope_h (position - key). */
static inline void add_slopes(const ch_attend *args, const talking_unit *unit, const talking_block *block,
                              real *scores) {
  for (int64_t h = 0; h < args->heads; h++)
    for (int64_t r = 0; r < unit->rows; r++) {
      real *row = scores + h * block->plane + r * block->ld, slope = (real)args->slopes[h];
      for (int64_t j = 0; j < block->ld; j++)
        row[j] -= slope * (real)(unit->position[r] - ch_token_of_row(unit->places, block->first + j));
    }
}

/* Sets the scores of keys that a query does not see to -infinity. */
static inline void mask_row(const talking_unit *unit, const talking_block *block, int64_t r, real *row) {
  const visible_keys *keys = &unit->keys[r];
  int64_t begin = keys->first - block->first, end = keys->end - block->first;
  if (end > block->count) end = block->count; /* the lanes after a block's keys are padding */
  for (int64_t j = 0; j < begin && j < block->ld; j++)
    if (block->first + j < keys->sink || block->first + j >= keys->end_sink) row[j] = -(real)INFINITY;
  for (int64_t j = end > 0 ? end : 0; j < block->ld; j++) row[j] = -(real)INFINITY;
}

/* Computes the block's mixed and masked logits. If there is a mix, `scores` receives the unmixed ones;
   otherwise it is not used. */
static inline void logits_of_block(const ch_attend *args, const ch_head_mixes *mixes,
                                   const talking_unit *unit, const talking_block *block, const real *q,
                                   const ch_tile *keys, const state_space *space, real *scores,
                                   real *logits) {
  real *raw = mixes->logits ? scores : logits;
  multiply_states(args, unit, block, q, keys, args->key_dim, space, raw);
  if (args->slopes) add_slopes(args, unit, block, raw);
  if (mixes->logits) mix_heads(args, unit, block, mixes->logits, false, raw, logits);
  for (int64_t h = 0; h < args->heads; h++)
    for (int64_t r = 0; r < unit->rows; r++)
      mask_row(unit, block, r, logits + h * block->plane + r * block->ld);
}

/* row = scale e^(row - base). */
ALWAYS_INLINE void exponentiate_row(real *row, int64_t ld, real base, real scale) {
  for (int64_t j = 0; j < ld; j += VL) store(row + j, vec_exp(load(row + j) - base) * scale);
}

#define talking_backward_scratch KERNEL(talking_backward_scratch)
size_t talking_backward_scratch(const ch_attend *args);

#endif
