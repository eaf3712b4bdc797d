/* The two forms of attention over gated latents: a thread's working memory, and the functions that read the
 * stored states. */
#ifndef CH_KERNELS_ATTENTION_GATED_SPACE_H
#define CH_KERNELS_ATTENTION_GATED_SPACE_H

#include "tensor/kernels/attention/attend_columns.h"
#include "tensor/kernels/vector/stored_states.h"
#include "tensor/kernels/vector/quantised_blocks.h"
#include "tensor/kernels/vector/lanes.h"

enum {
  IDS = 32,     /* ids folded at once */
  TOKENS = 128, /* tokens whose scores are held; a larger group is processed in pieces */
  EXPANDED = 64 /* tokens expanded at once */
};

/* A thread's scratch memory; heads are padded to whole vectors in rows of scores. */
typedef struct gated_space {
  /* Running maximum, sum of weights, and sum of weight * mean / std, each [padded]; running sums of weighted,
     gated values [heads, v]. */
  real *max, *sum, *shift, *rows;
  real *folded;                    /* [IDS, heads, c] folded queries */
  real *sums;                      /* [IDS, heads, c] weighted sums of latents */
  real *query, *product, *turned;  /* [IDS, widest], [widest, IDS], [widest, IDS] */
  real *weight;                    /* one head's rows of kv_b, widened */
  real *scores;                    /* [TOKENS, padded] */
  real *states, *scalars;          /* [TOKENS, c + r filled up to whole blocks], [TOKENS, 2] mean and 1/std */
  real *across, *products, *gates; /* [c + r, EXPANDED], [n + v, EXPANDED], [n + v, EXPANDED] */
  real *rope, *base_query, *fixed; /* [heads, r]; [heads, n] times gamma; [2, padded] q.gamma and q.beta */
} gated_space;

static inline int64_t padded_heads(const ch_gated_attend *a) {
  return round_up(a->heads, VL);
}

static inline int64_t state_width(const ch_gated_attend *a) {
  return round_up(a->latent + a->rope, GROUP);
}

/* Returns rows first … first+rows-1 of kv_b as reals: in place, or widened. */
static inline const real *kv_b_rows(const ch_gated_attend *a, int64_t first, int64_t rows, real *space) {
  int64_t n = rows * a->latent;
  const char *at = (const char *)a->kv_b + first * a->latent * state_size(a->kv_b_dtype);
  if (a->kv_b_dtype == CH_KERNEL_DTYPE) return (const real *)(const void *)at;
  for (int64_t i = 0; i < n; i += VL)
    store_some(space + i,
               a->kv_b_dtype == CH_F16 ? load_state(CH_F16, at, i, n - i) : load_state(CH_BF16, at, i, n - i),
               n - i);
  return space;
}

static inline int64_t head_width(const ch_gated_attend *a) {
  return a->nope + a->value;
}

static inline real gamma_of(const ch_gated_attend *a, int64_t i) {
  return a->gamma ? ((const real *)a->gamma)[i] : 1;
}

static inline real beta_of(const ch_gated_attend *a, int64_t i) {
  return a->beta ? ((const real *)a->beta)[i] : 0;
}

static inline const real *gates_of(const ch_gated_attend *a, int32_t id) {
  return (const real *)a->gates.data + id * a->gates.token_stride;
}

/* Prefetches a head's gates for some ids, which are far apart; a head past the last one has none. */
static inline void fetch_gates(const ch_gated_attend *a, const int32_t *id, int64_t count, int64_t head) {
  int64_t width = head_width(a);
  for (int64_t i = 0; i < count && head < a->heads; i++)
    fetch((const char *)(gates_of(a, id[i]) + head * width), width * (int64_t)sizeof(real));
}

/* Copies the states of `count` tokens as reals, and their moments, mean and 1/std (0 and 1 without a
   norm). */
static inline void take_tokens(const ch_gated_attend *a, int64_t sequence, const int32_t *token,
                               int64_t count, real *states, real *scalars) {
  const ch_dtype dtype = a->latents.dtype;
  int64_t width = a->latent + a->rope, padded = state_width(a);
  for (int64_t t = 0; t < count; t++) {
    int64_t at = ch_state_at(&a->latents, sequence, token[t]);
    const char *row = (const char *)a->latents.data + ch_dtype_bytes(dtype, at);
    if (ch_dtype_is_block_quantised(dtype))
      KERNEL(unpack_states)(1, padded, row, 0, dtype, states + t * padded);
    for (int64_t i = 0; i < width && !ch_dtype_is_block_quantised(dtype); i += VL) {
      vec v = dtype == CH_F16    ? load_state(CH_F16, row, i, width - i)
              : dtype == CH_BF16 ? load_state(CH_BF16, row, i, width - i)
                                 : load_state(CH_KERNEL_DTYPE, row, i, width - i);
      store(states + t * padded + i, v);
    }
    const real *moments = (const real *)a->moments.data + ch_state_at(&a->moments, sequence, token[t]);
    scalars[2 * t] = a->gamma ? moments[0] : 0;
    scalars[2 * t + 1] = a->gamma ? moments[1] : 1;
  }
}

/* y [columns, ldy] = the transpose of x [rows, ldx], in whole vectors. y must have room for rows and columns rounded
   up; elements without a row of x become zeros. */
static inline void turn(const real *x, int64_t rows, int64_t ldx, int64_t columns, real *y, int64_t ldy) {
  for (int64_t r = 0; r < round_up(rows, VL); r += VL)
    for (int64_t c = 0; c < columns; c += VL) {
      vec square[VL];
      for (int64_t j = 0; j < VL; j++)
        square[j] = r + j < rows ? load_some(x + (r + j) * ldx + c, columns - c) : splat(0);
      transpose_lanes(square);
      for (int64_t j = 0; j < VL; j++) store(y + (c + j) * ldy + r, square[j]);
    }
}

/* Attends to up to EXPANDED tokens by expanding each of them. `last` is the position of the newest token. All folded
   ids must have been unfolded before. */
#define gated_expand KERNEL(gated_expand)
void gated_expand(const ch_gated_attend *a, int64_t sequence, const int32_t *token, const int32_t *id,
                  int64_t count, int64_t last, const gated_space *s);

#endif
