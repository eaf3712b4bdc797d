/* Functions that the gated delta rule's files share. */
#ifndef CH_KERNELS_DELTA_RULE_DELTA_PARTS_H
#define CH_KERNELS_DELTA_RULE_DELTA_PARTS_H

#include "tensor/kernels/delta_rule/delta_chunk.h"

/* Computes few tokens one by one, in the memory of the states (delta_steps.c). */
#define delta_steps KERNEL(delta_steps)
void delta_steps(const ch_delta_rule *a);
/* Returns the bytes of scratch memory of a thread in the backward pass (delta_backward.c). */
#define delta_backward_bytes KERNEL(delta_backward_bytes)
size_t delta_backward_bytes(const ch_delta_rule *a, const delta_sizes *sizes);

static inline char *aligned(void *scratch) {
  return (char *)(((uintptr_t)scratch + 63) / 64 * 64);
}

static inline bool begins_at_zero(const ch_delta_rule *a, int64_t sequence) {
  return !a->states || a->tokens_before[sequence] == 0;
}

static inline real *state_of(const ch_delta_rule *a, int64_t sequence, int64_t value_head) {
  const int64_t place = a->order ? a->order[sequence] : sequence;
  return (real *)a->states + place * a->state_stride + value_head * a->key_dim * a->value_dim;
}

/* Returns the saved state at the beginning of a chunk other than the first. */
static inline real *kept_state(const ch_delta_rule *a, int64_t sequence, int64_t value_head, int64_t chunk) {
  int64_t of = sequence * a->value_heads + value_head;
  return (real *)a->kept_states +
         (of * (ch_delta_chunks(a->length) - 1) + chunk - 1) * a->key_dim * a->value_dim;
}

/* Copies or adds the first `dim` elements of rows `ld` apart to rows `stride` apart. */
static inline void scatter_rows(int64_t rows, int64_t dim, const real *from, int64_t ld, real *to,
                                int64_t stride, bool accumulate) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < dim; i += VL)
      put(to + r * stride + i, load_some(from + r * ld + i, dim - i), dim - i, accumulate);
}

#endif
