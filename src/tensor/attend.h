/* The streaming attention loop's interface: queries, states behind a tile producer, mask, outputs.
 *
 * Softmax attention over blocks of tokens with a running maximum and sum; T x T scores are never stored. The
 * producer knows how a block of states is stored. It gives the loop a tile of keys and values for one
 * key-value head: in place if the memory already is a tile, or computed into cache-resident scratch
 * (converted, rotated, mixed, expanded ...). The backward pass recomputes tiles from the log-sum-exp of the
 * forward pass. */
#ifndef CH_TENSOR_ATTEND_H
#define CH_TENSOR_ATTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/team.h"
#include "tensor/tensor.h"

/* Tokens per block, and the maximum number of parts of the states. For few queries that share keys, blocks are
   longer, so that the queries are laid out less often. */
enum { CH_ATTEND_BLOCK = 64, CH_ATTEND_LONG_BLOCK = 128, CH_MAX_STATE_PARTS = 4 };

/* One part of the states of all sequences: element [sequence, token, i]. */
typedef struct ch_state_view {
  const void *data;
  ch_dtype dtype;
  int64_t token_stride;    /* elements between tokens */
  int64_t sequence_stride; /* elements between sequences */
  int64_t head_stride;     /* elements between key-value heads; 0: heads are adjacent */
  const int32_t *order;    /* [sequences] [host] each sequence's position in memory; NULL: in order */
} ch_state_view;

/* Returns the number of elements before token t of a sequence. */
static inline int64_t ch_state_at(const ch_state_view *view, int64_t sequence, int64_t t) {
  return (view->order ? view->order[sequence] : sequence) * view->sequence_stride + t * view->token_stride;
}

static inline int64_t ch_head_stride(const ch_state_view *part, int64_t dim) {
  return part->head_stride > 0 ? part->head_stride : dim;
}

/* The strides of queries whose heads are not contiguous. Zeros: [heads, dim] per token. */
typedef struct ch_head_strides {
  int64_t head, token; /* elements between heads, and between tokens */
} ch_head_strides;

/* A tile: row t of head g starts at data + g * head_stride + t * stride, in elements of `dtype`. The type is
   the table's own, or F16 or BF16, which the loop widens as it reads, or a block-quantised type if the loop
   accepts it (takes_blocks). */
typedef struct ch_tile {
  const void *data;
  ch_dtype dtype;
  int64_t stride, head_stride;
} ch_tile;

/* The tokens first … first+count-1 of a sequence, key-value heads head … head+heads-1. */
typedef struct ch_tile_span {
  int64_t sequence, head, heads, first, count;
} ch_tile_span;

struct ch_attend;

/* The keys and values of a span: [heads, count, key_dim] and [heads, count, value_dim]. The last tail_dim
   elements of the keys may be in `tail`, for example those that all heads share. `tail` has the type of
   `keys`, and key_dim - tail_dim is then a multiple of CH_TAIL_UNIT. */
enum { CH_TAIL_UNIT = 16 };
typedef struct ch_tiles {
  ch_tile keys, tail, values;
  int64_t tail_dim; /* elements of a key in `tail`; 0: keys are whole */
} ch_tiles;

typedef struct ch_tile_producer {
  const char *name;
  /* Produces the tiles of a span; count <= CH_ATTEND_LONG_BLOCK. `scratch` belongs to the calling thread. The tiles
     stay valid until the thread's next call. Prefill calls `produce` for one head at a time, decoding for all at once,
     so that token-major memory is read in order. A producer without scratch returns the memory itself, and the tile
     continues in memory for the tokens that follow. Many threads call `produce` at once. */
  void (*produce)(const struct ch_attend *args, const ch_tile_span *span, void *scratch, ch_tiles *tiles);
  /* Returns the size of `scratch`, in elements of the table's type. */
  int64_t (*scratch_elements)(const struct ch_attend *args, int64_t heads, int64_t count);
} ch_tile_producer;

/* Maps the rows of a ring to tokens. Row r is token r before row `sinks`, token r + newer from there to row
   `turn` - 1, and token r + older from `turn` on. */
typedef struct ch_row_places {
  int64_t sinks, turn, newer, older;
} ch_row_places;

/* Returns the token in row `row`. If places is NULL, the token is `row` itself. */
static inline int64_t ch_token_of_row(const ch_row_places *places, int64_t row) {
  if (!places || row < places->sinks) return row;
  return row + (row < places->turn ? places->newer : places->older);
}

/* Returns the number of rows from `row` on, at most `count`, that hold consecutive tokens. */
static inline int64_t ch_consecutive_rows(const ch_row_places *places, int64_t row, int64_t count) {
  if (!places) return count;
  int64_t end = row < places->sinks ? places->sinks : row < places->turn ? places->turn : INT64_MAX;
  return end - row < count ? end - row : count;
}

typedef struct ch_attend {
  const ch_team *team;
  int64_t sequences, queries; /* queries per sequence, consecutive positions */
  int64_t heads, kv_heads, key_dim, value_dim;
  const void *q; /* [sequences, queries, heads, key_dim] */
  ch_head_strides q_strides;
  void *out; /* [sequences, queries, heads, value_dim] */
  void *lse; /* [sequences, heads, queries] log-sum-exps, saved for the backward pass; or NULL */
  double scale;
  /* c: scores are c tanh(scale q k / c), before their bias; 0: no cap. Talking heads have no cap. */
  double soft_cap;
  const double *slopes; /* ALiBi slopes [heads] or NULL: score += -slope * (past + i - j) */
  bool causal;          /* true: query i sees keys 0 … past+i; false: all past+queries keys */
  bool may_round;      /* true if factors of products may be rounded to BF16; sums stay in the table's type */
  int64_t window;      /* query i sees key j only if i - j < window, or if j is a sink; 0: no window */
  int64_t sinks;       /* number of first tokens of a text that stay visible in spite of the window */
  const int32_t *past; /* [sequences] rows of states before the first query's, or NULL for 0 */
  /* [sequences] tokens of the rows, for states in a ring; NULL: row r is token r. Masks count rows, ALiBi's
     distances count tokens. */
  const ch_row_places *places;
  const int32_t *first_token;    /* [sequences] token of the first query, with `places`; or NULL */
  const int32_t *document_start; /* [sequences, queries] first key each query sees, or NULL for 0 */
  /* The keys to use are first_key ... end_key - 1; end_key 0: up to the last. Only the forward pass over many
     queries reads the two members. */
  int64_t first_key, end_key;
  /* true if earlier keys were already used: `out` and `lse`, which must be given, are continued */
  bool continues;
  ch_state_view parts[CH_MAX_STATE_PARTS]; /* may share memory: values that are the first elements of keys */
  const ch_tile_producer *producer;
  const void *context; /* data of the producer, or NULL */
  /* true if the producer may return block-quantised tiles; set by the loop. A head must be whole blocks. */
  bool takes_blocks;
  void *scratch; /* ch_kernels.attend_scratch bytes, any alignment and content */
} ch_attend;

/* Gradients, of the table's type. The states must be of that type too, and all of them must be of this pass
   (training): parts[0] and parts[1] are read in place, and past is NULL. Nothing is written between heads
   that are not adjacent. A query that sees no key has output 0, log-sum-exp -infinity and no gradient.
   Gradients may share memory if all that share it are accumulated. */
typedef struct ch_attend_gradient {
  const void *dout; /* gradient of `out`, in its layout */
  void *dq;         /* gradient of q, in its layout; or NULL */
  void *dk, *dv;    /* gradients of parts[0] and parts[1], in their layouts; or NULL */
  bool accumulate_q, accumulate_k, accumulate_v;
} ch_attend_gradient;

/* Talking heads: matrices [heads, heads] over the heads of every (query, key) pair, of the table's type;
   NULL: the heads are not mixed. `logits` mixes the scores with their bias before the mask, `weights` mixes
   the softmax's output. */
typedef struct ch_head_mixes {
  const void *logits, *weights;
} ch_head_mixes;

/* Gradients of ch_head_mixes, [heads, heads] each, or NULL. */
typedef struct ch_head_mixes_gradient {
  void *dlogits, *dweights;
  bool accumulate_logits, accumulate_weights;
} ch_head_mixes_gradient;

#endif
