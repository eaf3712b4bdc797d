/* The table through which everything above src/tensor computes: one set of functions per element type and instruction
 * set, chosen at run time.
 *
 * `real` below is the table's element type: float in every F32 table, double in the F64 table (plain C, the reference
 * of the tests). All matrices are row-major. A function computes with the workers of `team`. Its result depends on
 * team->threads at most (the order of partial sums), never on the number of workers. "threads" in sizes of scratch
 * memory is team->threads. No function allocates memory. Pointers to values point into the table's memory; "[host]"
 * marks pointers to the host's. "rows" are tokens or (token, head) pairs. A pointer marked [or NULL] may be NULL.
 * `accumulate` false overwrites a gradient, true adds to it. */
#ifndef CH_TENSOR_KERNELS_H
#define CH_TENSOR_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/attend.h"
#include "tensor/delta_rule.h"
#include "tensor/factor_attend.h"
#include "tensor/gated_attend.h"
#include "tensor/head_weights.h"
#include "tensor/short_conv.h"
#include "tensor/value_memory.h"
#include "tensor/tensor.h"

enum { CH_MAX_EXPERTS = 1024 };

/* One of several skinny GEMMs with the same x [rows, in]: y [rows, out] = x W^T (+ bias), W [out, in]. */
typedef struct ch_product {
  int64_t out;
  const void *weight, *bias; /* bias [out] of the table's type [or NULL] */
  void *y;
} ch_product;

/* Returns the bytes that gemv_bf16 needs for `rows` rows of `in` elements, in whole lines of 64 bytes. */
static inline size_t ch_gemv_room(int64_t rows, int64_t in) {
  return rows > 1 ? (size_t)rows * (((size_t)in * sizeof(uint16_t) + 63) / 64 * 64) : 0;
}

/* Like ch_gemv_room, for gemv_split, which packs a single row too. */
static inline size_t ch_gemv_split_room(int64_t rows, int64_t in) {
  return (size_t)rows * (((size_t)in * sizeof(float) + 127) / 128 * 128);
}

/* The weights of a token's experts: `scale` times the softmax over all experts, at the chosen ones. With
   `renormalise` the weights of the chosen ones sum to `scale`. */
typedef struct ch_routing_rule {
  int64_t experts, active; /* 1 <= active <= experts <= CH_MAX_EXPERTS */
  bool renormalise;
  double scale;
  bool sigmoid; /* true if the sigmoid of each logit replaces the softmax */
  /* If groups > 1, experts are chosen only from the best active_groups groups. A group's score is its best
     expert's, or with `sigmoid` the sum of its best two. */
  int64_t groups, active_groups;
} ch_routing_rule;

/* A slice of every head of every row: row r's head h begins at element r * row + h * head of `data`. */
typedef struct ch_head_slices {
  const void *data;  /* read, or written by functions whose comments allow it */
  int64_t row, head; /* elements between rows and between heads; head 0: all heads share one slice */
} ch_head_slices;

enum { CH_ROPE_LEVEL = 64, CH_ROPE_LEVELS = 4 };

/* States for rotary positions: row t at element t * x_stride, of x_dtype (the table's type, F16 or BF16). */
typedef struct ch_rope_states {
  int64_t heads, head_dim, rotary;
  bool leading, interleaved; /* leading: the first dims of a head are rotated, not the last */
  const void *levels, *x;    /* the result of rope_levels, the states */
  ch_dtype x_dtype;
  int64_t x_stride;
} ch_rope_states;

typedef struct ch_kernels {
  const char *name;              /* element type and instruction set: "f32 avx512" */
  ch_dtype dtype;                /* type of `real`: CH_F32 or CH_F64 */
  const ch_value_memory *memory; /* memory of the values that the kernels read and write */
  /* true if byte dot products are the fastest way to multiply any number of rows by block-quantised weights */
  bool multiplies_bytes;

  /* A pointer to each kernel of kernel_list.h. */
#define CH_KERNEL(origin, result, name, parameters) result(*name) parameters;
#include "tensor/kernel_list.h"
} ch_kernels;

typedef enum ch_isa {
  CH_ISA_PLAIN,
  CH_ISA_AVX2,
  CH_ISA_AVX512,
  CH_ISA_AVX512_VNNI,
  CH_ISA_AVX512_BF16,
  CH_ISA_COUNT
} ch_isa;

/* Returns the table for an element type (CH_F32 or CH_F64) on an instruction set, or NULL if the build or
   this processor has none. */
const ch_kernels *ch_kernels_for(ch_dtype dtype, ch_isa isa);
/* Fails if CROSSHEAD_ISA is set but names no instruction set of this build and processor. */
ch_status ch_kernels_check(ch_error *error);
/* Returns the fastest table that this processor runs. The environment variable CROSSHEAD_ISA (plain, avx2,
   avx512, avx512_vnni, avx512_bf16) limits it. Without it, avx512_bf16 is used only on processors with BF16
   dot products faster than F32 (kernels.c). */
const ch_kernels *ch_kernels_best(ch_dtype dtype);
/* Returns the table that engines compute with (model/runner.h): ch_kernels_best. Another kind of engine would
   be chosen here. */
const ch_kernels *ch_kernels_of_engines(ch_dtype dtype);

#endif
