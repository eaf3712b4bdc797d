/* A panel of the forward pass of attention: its start, its step for a block of keys and values, its end. */
#include "tensor/kernels/attention/attend_panel.h"

bool attend_is_split_kv(const ch_attend *args) {
  int64_t columns = args->queries * (args->heads / args->kv_heads), heads = args->sequences * args->kv_heads;
  bool alone = args->queries == 1; /* the choice does not depend on the number of sequences */
  return columns <= 16 ||
         (columns <= PANEL && (alone || heads * ((columns + 15) / 16) < 4 * (int64_t)args->team->threads));
}

/* Restores the state of a panel from its outputs and log-sum-exps. */
static void resume_panel(const ch_attend *args, int64_t sequence, column_place at, forward_panel *panel) {
  const query_columns *c = &panel->columns;
  const token_rows out = output_rows(args, args->out);
  const int64_t padded = round_up(args->value_dim, VL);
  for (int64_t i = 0; i < c->count; i++, next_column(&at)) {
    c->max[i] = ((const real *)args->lse)[lse_of(args, sequence, &at)];
    c->sum[i] = c->max[i] > -(real)INFINITY ? 1 : 0;
    copy_row(row_of(args, &out, sequence, &at), args->value_dim, 1, panel->sum + i * padded);
  }
}

void attend_start_panel(const ch_attend *args, int64_t sequence, int64_t kv_head, int64_t first,
                        int64_t count, forward_panel *panel) {
  clear_columns(args, &panel->columns);
  column_place begin = place_of(args, kv_head, first), at = begin;
  for (int64_t i = 0; i < count; i++, next_column(&at))
    add_column(args, &panel->columns, sequence, at.query, at.head);
  finish_columns(&panel->columns);
  row_list list;
  token_rows q = query_rows(args, args->q);
  list_rows(args, &q, sequence, begin, count, &list);
  panel->bf16_dot = uses_bf16_dot(args);
  if (panel->bf16_dot)
    pack_transposed(true, &list, count, args->key_dim, (real)args->scale, panel->q, panel->columns.padded);
  else
    pack_transposed(false, &list, count, args->key_dim, (real)args->scale, panel->q, panel->columns.padded);
  panel->first_column = first;
  panel->started = args->continues;
  if (args->continues) resume_panel(args, sequence, begin, panel);
}

void attend_rescale(real *sums, int64_t padded, const real *factors, int64_t count) {
  for (int64_t lane = 0; lane < VL && lane < count; lane++) {
    if (factors[lane] == 1) continue;
    real *row = sums + lane * padded;
    for (int64_t k = 0; k < padded; k += VL) store(row + k, load(row + k) * factors[lane]);
  }
}

void attend_meet_block(const ch_attend *args, forward_panel *panel, int64_t first, int64_t rows,
                       const block_rows *block, real *scores, const upcoming *next_keys,
                       const upcoming *next_values) {
  query_columns *c = &panel->columns;
  int64_t padded = round_up(args->value_dim, VL);
  block_shape shape;
  shape_block(c, first, rows, &shape);
  score_block(&shape, panel->bf16_dot, block->keys, block->key_stride, args->key_dim, panel->q, scores,
              next_keys);
  if (args->soft_cap > 0) cap_block(&shape, args->soft_cap, scores);
  for (int64_t v = 0; v < shape.vectors; v++) {
    real factors[VL];
    bool moved = softmax_vector(c, v, first, shape.clear[v], shape.seen[v], scores, shape.ld, scores,
                                shape.ld, factors);
    if (moved && panel->started)
      attend_rescale(panel->sum + v * VL * padded, padded, factors, c->count - v * VL);
  }
  if (panel->bf16_dot)
    pair_up_weights(&shape, scores);
  else if (shape.masked)
    clear_unseen(&shape, scores);
  sum_over_keys(&shape, panel->bf16_dot, c->count, scores, block->values, block->value_stride,
                args->value_dim, panel->sum, panel->started, next_values);
  panel->started = true;
}

void attend_write(const ch_attend *args, int64_t sequence, const column_place *at, const real *weighted,
                  real scale, real lse) {
  token_rows rows = output_rows(args, args->out);
  real *out = (real *)(uintptr_t)row_of(args, &rows, sequence, at);
  int64_t dim = args->value_dim, k = 0;
  if (scale == 0) /* the column saw no key */
    memset(out, 0, (size_t)dim * sizeof(real));
  else
    for (; k < dim; k += VL) store_narrow(out + k, load(weighted + k) * scale, dim - k);
  if (args->lse) ((real *)args->lse)[lse_of(args, sequence, at)] = lse;
}
