/* Streaming attention's backward pass: the division of its work and the state of a task, for
 * attend_backward.c and attend_backward_panel.c. */
#ifndef CH_KERNELS_ATTENTION_ATTEND_BACKWARD_H
#define CH_KERNELS_ATTENTION_ATTEND_BACKWARD_H

#include "tensor/kernels/attention/attend_panel.h"

/* The division of the work: `parts` tasks per key-value head and sequence. dK and dV are added up in place if
   that is possible in whole vectors, else in a buffer [queries, key_padded + value_padded]: one per task if a
   head has several tasks, else one per thread. */
typedef struct backward_plan {
  int64_t columns, panels, parts, tasks;
  int64_t chunk;                    /* tasks that a thread fetches at once */
  int64_t key_padded, value_padded; /* key_dim and value_dim rounded up to whole vectors */
  bool buffered, bf16_dot; /* true if dK and dV are in buffers; true if products are BF16 dot products */
} backward_plan;

/* A thread's scratch memory; [columns] is PANEL at most. With BF16 dot products some layouts hold pairs: two
   BF16 elements in one 32-bit lane, either neighbours of a rounded row (pairs_of) or the same element of two
   rows. */
typedef struct backward_space {
  query_columns columns;
  /* [key_dim, columns] scaled, and [value_dim, columns]; with BF16 dots pairs of rows */
  real *q_packed, *dout_packed;
  real *q, *dout;              /* [columns, padded], q scaled; with BF16 dots pairs of rows */
  real *dq;                    /* [columns, key_padded] */
  real *lse, *delta;           /* [columns] */
  real *weights, *dscores;     /* P^T, dS^T [BLOCK, columns]; with BF16 dots then rounded rows */
  real *keys;                  /* [BLOCK, key_padded]; with BF16 dots pairs of rows */
  real *key_rows, *value_rows; /* only with BF16 dots: [BLOCK, pairs_of(dim)], rounded rows */
  real *dscore_pairs;          /* only with BF16 dots: [BLOCK / 2, columns], pairs of rows */
} backward_space;

/* The rows of tokens in which a task accumulates dK and dV. */
typedef struct state_gradient {
  real *dk, *dv;
  int64_t k_stride, v_stride;
} state_gradient;

/* One task: a key-value head of a sequence, or a part of its panels. */
typedef struct backward_task {
  const ch_attend *args;
  const ch_attend_gradient *gradient;
  const backward_plan *plan;
  backward_space *space;
  int64_t sequence, kv_head, part;
  state_gradient into;
  int64_t cleared;   /* rows of `into` that are initialised */
  fetch_queue later; /* memory that the next panel will touch */
} backward_task;

#define attend_backward_allocate KERNEL(attend_backward_allocate)
#define attend_backward_panel KERNEL(attend_backward_panel)
#define attend_clear_until KERNEL(attend_clear_until)

void attend_backward_allocate(const ch_attend *args, const backward_plan *plan, scratch_arena *arena,
                              backward_space *space);
/* Processes all keys that a panel of queries sees: accumulates its part of dK and dV, and writes its dQ. */
void attend_backward_panel(backward_task *task, int64_t panel);
/* Initialises the rows of dK and dV up to `end` before anything is added to them. A task initialises rows step by step,
   while it computes others. */
void attend_clear_until(backward_task *task, int64_t end);

/* Returns the tokens from `first` on of a part of the states, as a tile. */
static inline ch_tile state_tile(const ch_state_view *part, int64_t sequence, int64_t first, int64_t dim) {
  int64_t at = sequence * part->sequence_stride + first * part->token_stride;
  return (ch_tile){(const real *)part->data + at, CH_KERNEL_DTYPE, part->token_stride,
                   ch_head_stride(part, dim)};
}

static inline int64_t panel_columns(const backward_plan *plan, int64_t panel) {
  return plan->columns - panel * PANEL < PANEL ? plan->columns - panel * PANEL : PANEL;
}

#endif
