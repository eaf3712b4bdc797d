/* The streaming attention loop's interface: queries, states behind a tile producer, mask, outputs.
 *
 * Softmax attention over blocks of tokens with a running maximum and sum; T x T scores are never stored. What a
 * block of states looks like in memory is the producer's business: it hands the loop a tile of keys and values for
 * one key-value head, in place when the memory already is one, or written into cache-resident scratch (converted,
 * rotated, mixed, expanded ...). The backward pass recomputes tiles from the log-sum-exp kept by the forward pass.
 */
#ifndef CH_TENSOR_ATTEND_H
#define CH_TENSOR_ATTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

enum { CH_ATTEND_BLOCK = 64, CH_MAX_STATE_PARTS = 4 };

/* One part of the states that tokens left behind, for all sequences: element [sequence, token, i]. */
typedef struct ch_state_view {
  const void *data;
  ch_dtype dtype;
  int64_t token_stride;    /* elements between tokens */
  int64_t sequence_stride; /* elements between sequences */
} ch_state_view;

/* A tile: rows are tokens of the block, `real` elements, rows `stride` elements apart. */
typedef struct ch_tile {
  const void *data;
  int64_t stride;
} ch_tile;

struct ch_attend;

/* Makes the key tile [count, key_dim] and the value tile [count, value_dim] of tokens first … first+count-1
   (count <= CH_ATTEND_BLOCK) of `sequence` for key-value head `head`. `scratch` is the thread's own, of
   scratch_elements reals. */
typedef struct ch_tile_producer {
  const char *name;
  void (*produce)(const struct ch_attend *args, int64_t sequence, int64_t head, int64_t first, int64_t count,
                  void *scratch, ch_tile *keys, ch_tile *values);
  int64_t (*scratch_elements)(const struct ch_attend *args);
} ch_tile_producer;

typedef struct ch_attend {
  int64_t sequences, queries; /* queries per sequence, consecutive positions */
  int64_t heads, kv_heads, key_dim, value_dim;
  const void *q; /* [sequences, queries, heads, key_dim] */
  void *out;     /* [sequences, queries, heads, value_dim] */
  void *lse;     /* [sequences, heads, queries], kept for the backward pass; or NULL */
  double scale;
  const double *slopes;           /* ALiBi slopes [heads] or NULL: score += -slope * (i - j) */
  bool causal;                    /* query i sees keys 0 … past+i; else all past+queries keys */
  const int32_t *past;            /* [sequences] tokens before the first query, or NULL for 0 */
  const int32_t *document_start;  /* [sequences, queries] first key each query sees, or NULL for 0 */
  ch_state_view parts[CH_MAX_STATE_PARTS];
  const ch_tile_producer *producer;
  void *scratch; /* ch_kernels.attend_scratch bytes */
} ch_attend;

/* Gradients, dense and of the table's type; only for states in memory of that type (training). */
typedef struct ch_attend_gradient {
  const void *dout; /* as out */
  void *dq;         /* as q, or NULL */
  void *dk, *dv;    /* [sequences, queries, kv_heads, dim], or NULL */
  bool accumulate_q, accumulate_k, accumulate_v;
} ch_attend_gradient;

#endif
