/* EG-MLA's grouped decoding (tensor/gated_attend.h): ids in blocks, folded into the query and out of the sums by small
 * matrix products; tokens one after the other, all heads at once, under a running softmax.
 */
#include "tensor/kernels/attend_columns.h"
#include "tensor/kernels/attend_states.h"
#include "tensor/kernels/lanes.h"

/* Ids folded at once, and tokens whose scores are held: a group of more tokens is met in pieces. */
enum { IDS = 16, TOKENS = 128 };

/* A piece of a group: tokens first … first+count-1 of the sequence's list, for row `row` of the block of ids. */
typedef struct piece {
  int64_t row, first, count;
} piece;

/* What one thread works in; heads are padded to whole vectors in rows of scores. */
typedef struct gated_space {
  real *max, *sum, *shift,
      *rows;    /* running: [padded], [padded], [padded], [heads, v]: weighted, gated values */
  real *folded; /* [IDS, heads, c] */
  real *sums;   /* [IDS, heads, c] */
  real *query, *product, *turned;  /* [IDS, widest], [widest, IDS] twice */
  real *weight;                    /* one head's rows of kv_b, widened */
  real *scores;                    /* [TOKENS, padded] */
  real *states, *scalars;          /* [TOKENS, c + r padded], [TOKENS, 2] */
  real *rope, *base_query, *fixed; /* [heads, r] scaled; [heads, n] scaled; [2, padded]: q.gamma and q.beta */
} gated_space;

static int64_t padded_heads(const ch_gated_attend *a) {
  return round_up(a->heads, VL);
}

static int64_t state_width(const ch_gated_attend *a) {
  return round_up(a->latent + a->rope, VL);
}

static void carve_gated(const ch_gated_attend *a, carver *from, gated_space *s) {
  int64_t padded = padded_heads(a), widest = a->nope > a->value ? a->nope : a->value;
  if (a->latent > widest) widest = a->latent;
  widest = round_up(widest, VL);
  s->max = carve_reals(from, padded);
  s->sum = carve_reals(from, padded);
  s->shift = carve_reals(from, padded);
  s->rows = carve_reals(from, a->heads * a->value);
  s->folded = carve_reals(from, IDS * a->heads * a->latent + VL);
  s->sums = carve_reals(from, IDS * a->heads * a->latent + VL);
  s->query = carve_reals(from, IDS * widest);
  s->product = carve_reals(from, IDS * widest);
  s->turned = carve_reals(from, IDS * widest);
  s->weight = carve_reals(from, widest * a->latent);
  s->scores = carve_reals(from, TOKENS * padded);
  s->states = carve_reals(from, TOKENS * state_width(a));
  s->scalars = carve_reals(from, TOKENS * 2);
  s->rope = carve_reals(from, a->heads * a->rope + VL);
  s->base_query = carve_reals(from, a->heads * a->nope + VL);
  s->fixed = carve_reals(from, 2 * padded);
}

/* Rows first … first+rows-1 of kv_b as reals: in place, or widened. */
static const real *kv_b_rows(const ch_gated_attend *a, int64_t first, int64_t rows, real *space) {
  int64_t n = rows * a->latent;
  const char *at = (const char *)a->kv_b + first * a->latent * state_size(a->kv_b_dtype);
  if (a->kv_b_dtype == CH_KERNEL_DTYPE) return (const real *)(const void *)at;
  for (int64_t i = 0; i < n; i += VL)
    store_some(space + i,
               a->kv_b_dtype == CH_F16 ? load_state(CH_F16, at, i, n - i) : load_state(CH_BF16, at, i, n - i),
               n - i);
  return space;
}

static int64_t head_width(const ch_gated_attend *a) {
  return a->nope + a->value;
}

static real gamma_of(const ch_gated_attend *a, int64_t i) {
  return a->gamma ? ((const real *)a->gamma)[i] : 1;
}

static real beta_of(const ch_gated_attend *a, int64_t i) {
  return a->beta ? ((const real *)a->beta)[i] : 0;
}

/* What of a query is the same for all ids. */
static void start_query(const ch_gated_attend *a, int64_t sequence, const gated_space *s) {
  int64_t padded = padded_heads(a);
  memset(s->fixed, 0, (size_t)(2 * padded) * sizeof(real));
  for (int64_t h = 0; h < padded; h++) {
    s->max[h] = -(real)INFINITY;
    s->sum[h] = s->shift[h] = 0;
  }
  memset(s->rows, 0, (size_t)(a->heads * a->value) * sizeof(real));
  for (int64_t h = 0; h < a->heads; h++) {
    const real *q = (const real *)a->q + (sequence * a->heads + h) * (a->nope + a->rope);
    for (int64_t i = 0; i < a->nope; i++) {
      int64_t row = h * head_width(a) + i;
      real scaled = q[i] * (real)a->scale;
      s->base_query[h * a->nope + i] = scaled * gamma_of(a, row);
      s->fixed[h] += scaled * gamma_of(a, row);
      s->fixed[padded + h] += scaled * beta_of(a, row);
    }
    for (int64_t i = 0; i < a->rope; i++) s->rope[h * a->rope + i] = q[a->nope + i] * (real)a->scale;
  }
}

static const real *gates_of(const ch_gated_attend *a, int32_t id) {
  return (const real *)a->gates.data + id * a->gates.token_stride;
}

/* folded[id, h, :] = W_UK^T (q * gamma * gate of the id). */
static void fold_queries(const ch_gated_attend *a, const ch_id_groups *groups, int64_t group, int64_t ids,
                         const gated_space *s) {
  for (int64_t h = 0; h < a->heads; h++) {
    for (int64_t b = 0; b < ids; b++) {
      const real *gate = gates_of(a, groups->id[group + b]) + h * head_width(a),
                 *base = s->base_query + h * a->nope;
      for (int64_t i = 0; i < a->nope; i += VL)
        store_some(s->query + b * a->nope + i,
                   load_some(base + i, a->nope - i) * load_some(gate + i, a->nope - i), a->nope - i);
    }
    const real *weight = kv_b_rows(a, h * head_width(a), a->nope, s->weight);
    KERNEL(tile_product)
    (ids, a->latent, a->nope, s->query, a->nope, 1, weight, a->latent, s->folded + h * a->latent,
     a->heads * a->latent, false);
  }
}

/* The states of a piece's tokens as reals, and their moments. */
static void take_tokens(const ch_gated_attend *a, int64_t sequence, const int32_t *token, int64_t count,
                        real *states, real *scalars) {
  int64_t width = a->latent + a->rope, padded = state_width(a), size = state_size(a->latents.dtype);
  for (int64_t t = 0; t < count; t++) {
    int64_t at = sequence * a->latents.sequence_stride + token[t] * a->latents.token_stride;
    const char *row = (const char *)a->latents.data + at * size;
    for (int64_t i = 0; i < width; i += VL) {
      vec v = a->latents.dtype == CH_F16    ? load_state(CH_F16, row, i, width - i)
              : a->latents.dtype == CH_BF16 ? load_state(CH_BF16, row, i, width - i)
                                            : load_state(CH_KERNEL_DTYPE, row, i, width - i);
      store(states + t * padded + i, v);
    }
    const real *moments = (const real *)a->moments.data + sequence * a->moments.sequence_stride +
                          token[t] * a->moments.token_stride;
    scalars[2 * t] = a->gamma ? moments[0] : 0;
    scalars[2 * t + 1] = a->gamma ? moments[1] : 1;
  }
}

/* The scores of one token, all heads: VL dot products are summed at once. */
static void score_token(const ch_gated_attend *a, const real *folded, const real *state,
                        const real scalars[2], int64_t distance, const gated_space *s, real *scores) {
  int64_t padded = padded_heads(a);
  vec std = splat(scalars[1]), mean = splat(scalars[0] * scalars[1]);
  for (int64_t first = 0; first < padded; first += VL) {
    vec lanes[VL];
    for (int64_t j = 0; j < VL; j++) {
      int64_t h = first + j;
      vec latent = splat(0), rope = splat(0);
      if (h < a->heads) {
        for (int64_t i = 0; i < a->latent; i += VL)
          latent +=
              load_some(folded + h * a->latent + i, a->latent - i) * load_some(state + i, a->latent - i);
        for (int64_t i = 0; i < a->rope; i += VL)
          rope += load_some(s->rope + h * a->rope + i, a->rope - i) *
                  load_some(state + a->latent + i, a->rope - i);
      }
      lanes[j] = latent * std + rope;
    }
    vec score = sum_lanes(lanes) - mean * load(s->fixed + first) + load(s->fixed + padded + first);
    store(scores + first, score);
    for (int64_t h = first; a->slopes && h < first + VL && h < a->heads; h++)
      scores[h] -= (real)a->slopes[h] * (real)distance;
  }
}

/* Scores become weights on the scale of the running maximum, which may move. */
static void weigh(const ch_gated_attend *a, int64_t count, const gated_space *s) {
  int64_t padded = padded_heads(a);
  for (int64_t v = 0; v < padded; v += VL) {
    vec max = load(s->max + v), peak = max;
    for (int64_t t = 0; t < count; t++) peak = vec_max(load(s->scores + t * padded + v), peak);
    vec factor = vec_exp(max - peak), sum = load(s->sum + v) * factor;
    store(s->max + v, peak);
    store(s->shift + v, load(s->shift + v) * factor);
    for (int64_t j = 0; j < VL && v + j < a->heads; j++) {
      if (factor[j] == 1) continue;
      real *row = s->rows + (v + j) * a->value;
      for (int64_t i = 0; i < a->value; i++) row[i] *= factor[j];
      for (int64_t b = 0; b < IDS; b++) {
        real *latents = s->sums + (b * a->heads + v + j) * a->latent;
        for (int64_t i = 0; i < a->latent; i++) latents[i] *= factor[j];
      }
    }
    for (int64_t t = 0; t < count; t++) {
      vec weight = vec_exp(load(s->scores + t * padded + v) - peak);
      store(s->scores + t * padded + v, weight);
      sum += weight;
    }
    store(s->sum + v, sum);
  }
}

/* Sums of latents of the id of a token, all heads. */
static void add_token(const ch_gated_attend *a, const real *weights, const real *state, const real scalars[2],
                      const gated_space *s, real *sums) {
  for (int64_t h = 0; h < a->heads; h++) {
    real weight = weights[h] * scalars[1];
    vec factor = splat(weight);
    s->shift[h] += weight * scalars[0];
    for (int64_t i = 0; i < a->latent; i += VL) {
      real *at = sums + h * a->latent + i;
      store_some(at, load_some(at, a->latent - i) + factor * load_some(state + i, a->latent - i),
                 a->latent - i);
    }
  }
}

/* Meets the pieces taken so far: their scores, weights and sums. */
static void meet(const ch_gated_attend *a, const ch_id_groups *groups, int64_t last, const piece *pieces,
                 int count, const gated_space *s) {
  int64_t padded = padded_heads(a), width = state_width(a), t = 0, row_width = a->heads * a->latent;
  for (int p = 0; p < count; p++)
    for (int64_t i = 0; i < pieces[p].count; i++, t++)
      score_token(a, s->folded + pieces[p].row * row_width, s->states + t * width, s->scalars + 2 * t,
                  last - groups->token[pieces[p].first + i], s, s->scores + t * padded);
  weigh(a, t, s);
  t = 0;
  for (int p = 0; p < count; p++)
    for (int64_t i = 0; i < pieces[p].count; i++, t++)
      add_token(a, s->scores + t * padded, s->states + t * width, s->scalars + 2 * t, s,
                s->sums + pieces[p].row * row_width);
}

/* y [columns, ldy] = the transpose of x [rows, ldx], in whole vectors: y has room for rows and columns rounded up, and
   zeros where x has no rows. */
static void turn(const real *x, int64_t rows, int64_t ldx, int64_t columns, real *y, int64_t ldy) {
  for (int64_t r = 0; r < round_up(rows, VL); r += VL)
    for (int64_t c = 0; c < columns; c += VL) {
      vec square[VL];
      for (int64_t j = 0; j < VL; j++)
        square[j] = r + j < rows ? load_some(x + (r + j) * ldx + c, columns - c) : splat(0);
      transpose_lanes(square);
      for (int64_t j = 0; j < VL; j++) store(y + (c + j) * ldy + r, square[j]);
    }
}

/* rows[h, :] += sum over ids of gate * W_UV (sum of latents). */
static void unfold_values(const ch_gated_attend *a, const ch_id_groups *groups, int64_t group, int64_t ids,
                          const gated_space *s) {
  int64_t value = round_up(a->value, VL);
  for (int64_t h = 0; h < a->heads; h++) {
    const real *weight = kv_b_rows(a, h * head_width(a) + a->nope, a->value, s->weight);
    turn(s->sums + h * a->latent, IDS, a->heads * a->latent, a->latent, s->turned, IDS);
    KERNEL(tile_product)
    (a->value, IDS, a->latent, weight, a->latent, 1, s->turned, IDS, s->product, IDS, false);
    turn(s->product, a->value, IDS, IDS, s->query, value);
    real *row = s->rows + h * a->value;
    for (int64_t b = 0; b < ids; b++) {
      const real *gate = gates_of(a, groups->id[group + b]) + h * head_width(a) + a->nope;
      for (int64_t i = 0; i < a->value; i += VL) {
        int64_t left = a->value - i;
        store_some(row + i,
                   load_some(row + i, left) + load_some(gate + i, left) * load(s->query + b * value + i),
                   left);
      }
    }
  }
}

/* Groups first … last-1. */
static void read_groups(const ch_gated_attend *a, int64_t sequence, int64_t first, int64_t last,
                        const gated_space *s) {
  const ch_id_groups *groups = a->groups[sequence];
  int64_t newest = groups->first[groups->count] - 1;
  for (int64_t group = first; group < last; group += IDS) {
    int64_t ids = last - group < IDS ? last - group : IDS, taken = 0;
    piece pieces[IDS + 1];
    int count = 0;
    fold_queries(a, groups, group, ids, s);
    memset(s->sums, 0, (size_t)(IDS * a->heads * a->latent) * sizeof(real));
    for (int64_t b = 0; b < ids; b++)
      for (int64_t t = groups->first[group + b], end = groups->first[group + b + 1]; t < end;) {
        int64_t n = end - t < TOKENS - taken ? end - t : TOKENS - taken;
        take_tokens(a, sequence, groups->token + t, n, s->states + taken * state_width(a),
                    s->scalars + 2 * taken);
        pieces[count++] = (piece){b, t, n};
        taken += n;
        t += n;
        if (taken < TOKENS) continue;
        meet(a, groups, newest, pieces, count, s);
        taken = count = 0;
      }
    if (count) meet(a, groups, newest, pieces, count, s);
    unfold_values(a, groups, group, ids, s);
  }
}

/* Where a thread's share of the groups begins: by the work of folding and of meeting tokens. */
static int64_t share_of(const ch_gated_attend *a, const ch_id_groups *groups, int thread, int threads) {
  int64_t fold = a->nope + a->value, all = groups->count * fold + 2 * groups->first[groups->count], low = 0,
          high = groups->count, wanted = all / threads * thread;
  if (thread == threads) return groups->count;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (middle * fold + 2 * groups->first[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Adds another thread's part. */
static void merge(const ch_gated_attend *a, const gated_space *into, const gated_space *part) {
  for (int64_t h = 0; h < a->heads; h++) {
    real max = into->max[h] > part->max[h] ? into->max[h] : part->max[h];
    real keep = into->sum[h] == 0 ? 0 : real_exp(into->max[h] - max),
         add = part->sum[h] == 0 ? 0 : real_exp(part->max[h] - max);
    into->max[h] = max;
    into->sum[h] = into->sum[h] * keep + part->sum[h] * add;
    into->shift[h] = into->shift[h] * keep + part->shift[h] * add;
    for (int64_t i = 0; i < a->value; i++) {
      real *row = into->rows + h * a->value + i;
      *row = *row * keep + part->rows[h * a->value + i] * add;
    }
  }
}

static void write_out(const ch_gated_attend *a, int64_t sequence, const gated_space *s) {
  for (int64_t h = 0; h < a->heads; h++) {
    real *out = (real *)a->out + (sequence * a->heads + h) * a->value;
    for (int64_t i = 0; i < a->value; i++) {
      int64_t row = h * head_width(a) + a->nope + i;
      out[i] = gamma_of(a, row) * (s->rows[h * a->value + i] - s->shift[h]) / s->sum[h] + beta_of(a, row);
    }
  }
}

static gated_space space_of(const ch_gated_attend *a, size_t bytes, int thread) {
  carver from = carver_at(a->scratch);
  from.base += (size_t)thread * bytes;
  gated_space space;
  carve_gated(a, &from, &space);
  return space;
}

static size_t bytes_of_thread(const ch_gated_attend *a) {
  carver from = {0};
  gated_space space;
  carve_gated(a, &from, &space);
  return from.used;
}

void KERNEL(gated_attend)(const ch_gated_attend *a) {
  size_t bytes = bytes_of_thread(a);
  for (int64_t sequence = 0; sequence < a->sequences; sequence++) {
    const ch_id_groups *groups = a->groups[sequence];
#pragma omp parallel num_threads(ch_threads())
    {
      int thread = omp_get_thread_num(), threads = omp_get_num_threads();
      gated_space space = space_of(a, bytes, thread);
      start_query(a, sequence, &space);
      read_groups(a, sequence, share_of(a, groups, thread, threads), share_of(a, groups, thread + 1, threads),
                  &space);
#pragma omp barrier
      if (thread == 0) {
        for (int other = 1; other < threads; other++) {
          gated_space part = space_of(a, bytes, other);
          merge(a, &space, &part);
        }
        write_out(a, sequence, &space);
      }
    }
  }
}

size_t KERNEL(gated_attend_scratch)(const ch_gated_attend *a) {
  return bytes_of_thread(a) * (size_t)ch_threads() + 64;
}
