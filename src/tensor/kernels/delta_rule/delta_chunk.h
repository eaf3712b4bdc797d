/* The chunked form of the gated delta rule, for its forward and backward passes.
 *
 * A chunk has n tokens and starts from the state S_0. With c_i = a_1 ... a_i and G_ij = a_{j+1} ... a_i for i
 * >= j, the state after token i is S_i = c_i S_0 + sum over j <= i of G_ij k_j (b_j e_j)^T. The errors e_i =
 * v_i - (a_i S_{i-1})^T k_i solve a triangular system (the UT form of a product of Householder-like
 * matrices):
 *
 *   (I + M diag(b)) E = V - diag(c) K S_0,   M = G o K K^T below the diagonal
 *   O = diag(c) Q S_0 + P diag(b) E,         P = G o Q K^T on and below it
 *   S_n = c_n S_0 + sum over j of G_nj k_j (b_j e_j)^T
 *
 * All of it is products of small matrices, in scratch memory, with rows padded to whole vectors by zeros. */
#ifndef CH_KERNELS_DELTA_RULE_DELTA_CHUNK_H
#define CH_KERNELS_DELTA_RULE_DELTA_CHUNK_H

#include "tensor/kernels/vector/math.h"
#include "tensor/kernels/products/tile_product.h"

enum { CHUNK = CH_DELTA_CHUNK, STRIP = 16 /* rows of a triangular matrix in one product */ };

/* Sizes of one call: rows of keys and values, in scratch memory. */
typedef struct delta_sizes {
  int64_t group;            /* value heads of a head */
  int64_t key_ld, value_ld; /* key_dim and value_dim, filled up to whole vectors */
  int64_t state;            /* elements of a state in scratch memory: [key_dim, value_ld] */
} delta_sizes;

static inline int64_t whole_vectors(int64_t n) {
  return (n + VL - 1) / VL * VL;
}

static inline delta_sizes delta_sizes_of(const ch_delta_rule *a) {
  int64_t value_ld = whole_vectors(a->value_dim);
  return (delta_sizes){.group = a->value_heads / a->heads,
                       .key_ld = whole_vectors(a->key_dim),
                       .value_ld = value_ld,
                       .state = a->key_dim * value_ld};
}

/* A chunk of one sequence and head; its rows are tokens first ... first + count - 1. */
typedef struct delta_chunk {
  int64_t sequence, head, first, count;
  real *keys, *queries;      /* [CHUNK, key_ld] */
  real *keys_across;         /* [key_dim, CHUNK] transposed keys, zero after the last token */
  real *key_key, *key_query; /* K K^T and Q K^T [CHUNK, CHUNK], on and below the diagonal */
  real *decays;              /* G [CHUNK, CHUNK] of one value head, zero above the diagonal */
  real *since;               /* c [CHUNK] of one value head */
  real *steps;               /* b [CHUNK] of one value head */
  real *mixing;              /* P [CHUNK, CHUNK] of one value head */
  real *solving;             /* [CHUNK, CHUNK] of one value head: -M diag(b) forward, -diag(b) M backward */
} delta_chunk;

/* Scratch memory that is divided into pieces of whole cache lines. Without a base, only its size is counted. */
typedef struct delta_arena {
  char *base;
  size_t used;
} delta_arena;

static inline real *take_reals(delta_arena *at, int64_t count) {
  real *taken = at->base ? (real *)(void *)(at->base + at->used) : NULL;
  at->used += ((size_t)count * sizeof(real) + 63) / 64 * 64;
  return taken;
}

static inline void take_chunk(const ch_delta_rule *a, const delta_sizes *sizes, delta_arena *at,
                              delta_chunk *chunk) {
  *chunk = (delta_chunk){.keys = take_reals(at, CHUNK * sizes->key_ld),
                         .queries = take_reals(at, CHUNK * sizes->key_ld),
                         .keys_across = take_reals(at, a->key_dim * CHUNK),
                         .key_key = take_reals(at, CHUNK * CHUNK),
                         .key_query = take_reals(at, CHUNK * CHUNK),
                         .decays = take_reals(at, CHUNK * CHUNK),
                         .since = take_reals(at, CHUNK),
                         .steps = take_reals(at, CHUNK),
                         .mixing = take_reals(at, CHUNK * CHUNK),
                         .solving = take_reals(at, CHUNK * CHUNK)};
}

/* --- rows ----------------------------------------------------------------------------------------------- */

/* Returns the index of token t of a chunk among all tokens. */
static inline int64_t token_of(const ch_delta_rule *a, const delta_chunk *c, int64_t t) {
  return c->sequence * a->length + c->first + t;
}

static inline bool begins_document(const ch_delta_rule *a, const delta_chunk *c, int64_t t) {
  return a->document_start && a->document_start[token_of(a, c, t)] == c->first + t;
}

/* Copies rows of `dim` elements, `stride` apart, to rows `ld` apart, with zeros after the elements. */
static inline void gather_rows(int64_t rows, int64_t dim, const real *from, int64_t stride, real *to,
                               int64_t ld) {
  for (int64_t r = 0; r < rows; r++) {
    memcpy(to + r * ld, from + r * stride, (size_t)dim * sizeof(real));
    memset(to + r * ld + dim, 0, (size_t)(ld - dim) * sizeof(real));
  }
}

/* to [columns, to_ld] = from [rows, from_ld] transposed; zeros after the last row. */
static inline void transpose(int64_t rows, int64_t columns, const real *from, int64_t from_ld, real *to,
                             int64_t to_ld) {
  for (int64_t r = 0; r < to_ld; r += STRIP)
    for (int64_t c = 0; c < columns; c++)
      for (int64_t i = r; i < r + STRIP && i < to_ld; i++)
        to[c * to_ld + i] = i < rows ? from[i * from_ld + c] : 0;
}

/* to [rows, ld] = sign * factor[r] * from; ld is whole vectors. */
static inline void scale_rows(int64_t rows, int64_t ld, const real *factor, real sign, const real *from,
                              real *to) {
  for (int64_t r = 0; r < rows; r++) {
    vec by = splat(sign * factor[r]);
    for (int64_t i = 0; i < ld; i += VL) store(to + r * ld + i, by * load(from + r * ld + i));
  }
}

/* --- products with triangular matrices [CHUNK, CHUNK] --------------------------------------------------- */

/* C [rows, n] (+)= L B. L is zero above the diagonal. */
static inline void lower_times(int64_t rows, int64_t n, const real *lower, const real *b, int64_t ldb,
                               real *c, int64_t ldc, bool accumulate) {
  for (int64_t r = 0; r < rows; r += STRIP) {
    int64_t end = r + STRIP < rows ? r + STRIP : rows;
    KERNEL(tile_product)(end - r, n, end, lower + r * CHUNK, CHUNK, 1, b, ldb, c + r * ldc, ldc, accumulate);
  }
}

/* C [rows, n] (+)= L^T B. */
static inline void lower_across_times(int64_t rows, int64_t n, const real *lower, const real *b, int64_t ldb,
                                      real *c, int64_t ldc, bool accumulate) {
  for (int64_t r = 0; r < rows; r += STRIP) {
    int64_t end = r + STRIP < rows ? r + STRIP : rows;
    KERNEL(tile_product)
    (end - r, n, rows - r, lower + r * CHUNK + r, 1, CHUNK, b + r * ldb, ldb, c + r * ldc, ldc, accumulate);
  }
}

/* Computes the part on and below the diagonal of C [rows, rows] = A B, with A [rows, k] and B [k, CHUNK]. The
   rest is undefined. */
static inline void lower_product(int64_t rows, int64_t k, const real *a, int64_t lda, const real *b,
                                 real *c) {
  for (int64_t r = 0; r < rows; r += STRIP) {
    int64_t end = r + STRIP < rows ? r + STRIP : rows;
    KERNEL(tile_product)
    (end - r, whole_vectors(end), k, a + r * lda, lda, 1, b, CHUNK, c + r * CHUNK, CHUNK, false);
  }
}

/* --- a chunk -------------------------------------------------------------------------------------------- */

/* Reads the part of a chunk that all value heads of a head share. */
static inline void read_chunk(const ch_delta_rule *a, const delta_sizes *sizes, delta_chunk *c) {
  const int64_t stride = a->heads * a->key_dim, at = token_of(a, c, 0) * stride + c->head * a->key_dim;
  gather_rows(c->count, a->key_dim, (const real *)a->k + at, stride, c->keys, sizes->key_ld);
  gather_rows(c->count, a->key_dim, (const real *)a->q + at, stride, c->queries, sizes->key_ld);
  transpose(c->count, a->key_dim, c->keys, sizes->key_ld, c->keys_across, CHUNK);
  lower_product(c->count, a->key_dim, c->keys, sizes->key_ld, c->keys_across, c->key_key);
  lower_product(c->count, a->key_dim, c->queries, sizes->key_ld, c->keys_across, c->key_query);
}

/* Decay factors below this count as zero: their products would be denormal, and slow. */
#define LEAST_DECAY ((real)1e-30)

/* Computes G, c and b of a value head. A row of G is the previous row times a_i, so that close tokens keep
   all their digits. */
static inline void read_decays(const ch_delta_rule *a, delta_chunk *c, int64_t value_head) {
  real before = 1;
  memset(c->decays, 0, CHUNK * CHUNK * sizeof(real));
  for (int64_t i = 0; i < c->count; i++) {
    const int64_t at = token_of(a, c, i) * a->value_heads + value_head;
    const real decay = begins_document(a, c, i) ? 0 : real_exp(((const real *)a->decay)[at]);
    real *row = c->decays + i * CHUNK;
    for (int64_t j = 0; j < i; j += VL) {
      vec product = load(row - CHUNK + j) * decay;
      store(row + j, choose(product > splat(LEAST_DECAY), product, splat(0)));
    }
    row[i] = 1;
    before *= decay;
    if (before < LEAST_DECAY) before = 0;
    c->since[i] = before;
    c->steps[i] = ((const real *)a->beta)[at];
  }
}

/* Returns the number of columns of row i of a triangular matrix that products read. */
static inline int64_t strip_end(const delta_chunk *c, int64_t i) {
  int64_t end = i / STRIP * STRIP + STRIP;
  return end < c->count ? end : c->count;
}

/* Computes P and the matrix of the triangular system: -diag(b) M if `by_rows`, else -M diag(b). */
static inline void weigh_chunk(delta_chunk *c, bool by_rows) {
  for (int64_t i = 0; i < c->count; i++) {
    const int64_t row = i * CHUNK, end = strip_end(c, i);
    vec step = splat(-c->steps[i]);
    for (int64_t j = 0; j < end; j += VL) {
      vec decay = load(c->decays + row + j), keys = load(c->key_key + row + j);
      vec kept = choose(decay != splat(0), keys * decay, splat(0)),
          queries = load(c->key_query + row + j) * decay;
      store(c->solving + row + j, by_rows ? step * kept : -kept * load_some(c->steps + j, c->count - j));
      store(c->mixing + row + j, choose(decay != splat(0), queries, splat(0)));
    }
    c->solving[row + i] = 0;
  }
}

#endif
