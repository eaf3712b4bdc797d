/* EG-MLA's decoding (tensor/gated_attend.h). Frequent ids are folded into the query and unfolded from the
 * sums, in blocks of ids, by small matrix products. Between folding and unfolding, their tokens are processed
 * one after the other, all heads at once, with a running softmax. Tokens of rare ids are expanded
 * (gated_expand.c). */
#include "tensor/kernels/attention/gated_space.h"

/* A piece of a group: tokens first … first+count-1 of the sequence's list. `row` is the index of the group's id
   in the block of ids. */
typedef struct piece {
  int64_t row, first, count;
} piece;

static void allocate_gated(const ch_gated_attend *a, scratch_arena *arena, gated_space *s) {
  int64_t padded = padded_heads(a), widest = a->nope > a->value ? a->nope : a->value;
  if (a->latent > widest) widest = a->latent;
  widest = round_up(widest, VL);
  s->max = arena_reals(arena, padded);
  s->sum = arena_reals(arena, padded);
  s->shift = arena_reals(arena, padded);
  s->rows = arena_reals(arena, a->heads * a->value);
  s->folded = arena_reals(arena, IDS * a->heads * a->latent + VL);
  s->sums = arena_reals(arena, IDS * a->heads * a->latent + VL);
  s->query = arena_reals(arena, IDS * widest);
  s->product = arena_reals(arena, IDS * widest);
  s->turned = arena_reals(arena, IDS * widest);
  s->weight = arena_reals(arena, head_width(a) * a->latent);
  s->scores = arena_reals(arena, TOKENS * padded);
  s->states = arena_reals(arena, TOKENS * state_width(a));
  s->scalars = arena_reals(arena, TOKENS * 2);
  s->across = arena_reals(arena, round_up(a->latent + a->rope, VL) * EXPANDED);
  s->products = arena_reals(arena, round_up(a->nope + a->value, VL) * EXPANDED);
  s->gates = arena_reals(arena, round_up(a->nope + a->value, VL) * EXPANDED);
  s->rope = arena_reals(arena, a->heads * a->rope + VL);
  s->base_query = arena_reals(arena, a->heads * a->nope + VL);
  s->fixed = arena_reals(arena, 2 * padded);
}

/* Does the part of a query's work that all ids share. */
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

/* folded[id, h, :] = W_UK^T (q * gamma * gate of the id). */
static void fold_queries(const ch_gated_attend *a, const int32_t *id, int64_t ids, const gated_space *s) {
  for (int64_t h = 0; h < a->heads; h++) {
    for (int64_t b = 0; b < ids; b++) {
      const real *gate = gates_of(a, id[b]) + h * head_width(a), *base = s->base_query + h * a->nope;
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

/* Computes the scores of one token for all heads. VL dot products are summed at once. */
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
          latent = vec_fma(load_some(folded + h * a->latent + i, a->latent - i),
                           load_some(state + i, a->latent - i), latent);
        for (int64_t i = 0; i < a->rope; i += VL)
          rope = vec_fma(load_some(s->rope + h * a->rope + i, a->rope - i),
                         load_some(state + a->latent + i, a->rope - i), rope);
      }
      lanes[j] = vec_fma(latent, std, rope);
    }
    vec score = sum_lanes(lanes) - mean * load(s->fixed + first) + load(s->fixed + padded + first);
    store(scores + first, score);
    for (int64_t h = first; a->slopes && h < first + VL && h < a->heads; h++)
      scores[h] -= (real)a->slopes[h] * (real)distance;
  }
}

/* Turns scores into weights on the scale of the running maximum, which may grow. */
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

/* Adds a weighted token to the sum of latents of its id, for all heads. */
static void add_token(const ch_gated_attend *a, const real *weights, const real *state, const real scalars[2],
                      const gated_space *s, real *sums) {
  for (int64_t h = 0; h < a->heads; h++) {
    real weight = weights[h] * scalars[1];
    vec factor = splat(weight);
    s->shift[h] += weight * scalars[0];
    for (int64_t i = 0; i < a->latent; i += VL) {
      real *at = sums + h * a->latent + i;
      store_some(at, vec_fma(factor, load_some(state + i, a->latent - i), load_some(at, a->latent - i)),
                 a->latent - i);
    }
  }
}

/* Processes the pieces collected so far: their scores, weights and sums. */
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

/* rows[h, :] += sum over ids of gate * W_UV (sum of latents). */
static void unfold_values(const ch_gated_attend *a, const int32_t *id, int64_t ids, const gated_space *s) {
  int64_t value = round_up(a->value, VL);
  for (int64_t h = 0; h < a->heads; h++) {
    const real *weight = kv_b_rows(a, h * head_width(a) + a->nope, a->value, s->weight);
    turn(s->sums + h * a->latent, IDS, a->heads * a->latent, a->latent, s->turned, IDS);
    KERNEL(tile_product)
    (a->value, IDS, a->latent, weight, a->latent, 1, s->turned, IDS, s->product, IDS, false);
    turn(s->product, a->value, IDS, IDS, s->query, value);
    real *row = s->rows + h * a->value;
    for (int64_t b = 0; b < ids; b++) {
      const real *gate = gates_of(a, id[b]) + h * head_width(a) + a->nope;
      for (int64_t i = 0; i < a->value; i += VL) {
        int64_t left = a->value - i;
        store_some(
            row + i,
            vec_fma(load_some(gate + i, left), load(s->query + b * value + i), load_some(row + i, left)),
            left);
      }
    }
  }
}

/* --- choosing the form ---------------------------------------------------------------------------------- */

/* A thread's share of a sequence: the tokens begin … end-1 of the groups' list, from group `group` on. */
typedef struct share {
  int64_t group, begin, end;
} share;

/* Costs in multiply-adds per head, weighted by the speed of each kind of work. An expanded token is a column of
   one product of kv_b with a block of tokens. A folded id has two small products of its own. A token that uses
   a folded query and adds to a sum reads both from L2. Expanding fills vectors with tokens; folded ids fill
   them with a latent, so a latent narrower than a vector costs as much as a vector. */
typedef struct costs {
  double expanded, folded, met; /* cost per expanded token, per folded id, and per token of a folded id */
  int64_t seldom;               /* ids with at most this many tokens are expanded */
} costs;

/* The speeds of folding and of tokens of folded ids, relative to expanding. */
static const double FOLDED_RATE = 0.75, MET_RATE = 0.2;

static costs costs_of(const ch_gated_attend *a) {
  const int64_t width = a->nope + a->value, latent = round_up(a->latent, VL), rope = round_up(a->rope, VL);
  costs c = {.expanded = (double)(a->latent * width + 2 * width + a->rope),
             .folded = (double)(latent * width) / FOLDED_RATE,
             .met = (double)(2 * latent + rope) / MET_RATE};
  if (a->form == CH_GATED_EXPANDED) c.seldom = INT64_MAX;
  if (a->form == CH_GATED_CHOSEN)
    while (c.expanded * (double)(c.seldom + 1) < c.folded + c.met * (double)(c.seldom + 1) &&
           c.seldom < TOKENS)
      c.seldom++;
  return c;
}

static double cost_of(const costs *c, int64_t tokens) {
  return tokens <= c->seldom ? c->expanded * (double)tokens : c->folded + c->met * (double)tokens;
}

/* Returns the tokens whose cost is from `from` to `to` of the total. A group that is folded is cut only if
   both parts have at least TOKENS tokens. */
static share share_of(const ch_id_groups *groups, const costs *c, double from, double to) {
  share s = {
      .group = groups->count, .begin = groups->first[groups->count], .end = groups->first[groups->count]};
  bool begun = false;
  double done = 0;
  for (int64_t g = 0; g < groups->count; g++) {
    int64_t first = groups->first[g], tokens = groups->first[g + 1] - first;
    double cost = cost_of(c, tokens);
    for (int border = begun; border < 2; border++) {
      double wanted = (border ? to : from) - done;
      if (wanted >= cost) break;
      int64_t cut = (int64_t)(wanted / c->expanded);
      if (tokens > c->seldom) {
        cut = (int64_t)((wanted - c->folded) / c->met);
        if (cut < TOKENS || tokens - cut < TOKENS) cut = 0;
      }
      if (border) {
        s.end = first + cut;
        return s;
      }
      begun = true;
      s.group = g;
      s.begin = first + cut;
    }
    done += cost;
  }
  return s;
}

/* Ids that are folded together, and the tokens of each in this thread's share. */
typedef struct id_block {
  int64_t count;
  int32_t id[IDS];
  int64_t begin[IDS], end[IDS];
} id_block;

static void meet_ids(const ch_gated_attend *a, int64_t sequence, id_block *block, const gated_space *s) {
  const ch_id_groups *groups = &a->groups[sequence];
  int64_t newest = groups->first[groups->count] - 1, taken = 0;
  piece pieces[IDS + 1];
  int count = 0;
  fold_queries(a, block->id, block->count, s);
  memset(s->sums, 0, (size_t)(IDS * a->heads * a->latent) * sizeof(real));
  for (int64_t b = 0; b < block->count; b++)
    for (int64_t t = block->begin[b], end = block->end[b]; t < end;) {
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
  unfold_values(a, block->id, block->count, s);
  block->count = 0;
}

/* Tokens that are expanded together. */
typedef struct token_block {
  int64_t count;
  int32_t token[EXPANDED], id[EXPANDED];
} token_block;

static void expand_tokens(const ch_gated_attend *a, int64_t sequence, token_block *block,
                          const gated_space *s) {
  const ch_id_groups *groups = &a->groups[sequence];
  gated_expand(a, sequence, block->token, block->id, block->count, groups->first[groups->count] - 1, s);
  block->count = 0;
}

static void read_share(const ch_gated_attend *a, int64_t sequence, const share *part, const costs *c,
                       const gated_space *s) {
  const ch_id_groups *groups = &a->groups[sequence];
  id_block often = {.count = 0};
  token_block seldom = {.count = 0};
  for (int64_t g = part->group; g < groups->count && groups->first[g] < part->end; g++) {
    int64_t first = groups->first[g], last = groups->first[g + 1];
    bool is_seldom = last - first <= c->seldom;
    if (first < part->begin) first = part->begin;
    if (last > part->end) last = part->end;
    if (first >= last) continue;
    if (!is_seldom) {
      often.id[often.count] = groups->id[g];
      often.begin[often.count] = first;
      often.end[often.count++] = last;
      if (often.count == IDS) meet_ids(a, sequence, &often, s);
    }
    for (int64_t t = first; is_seldom && t < last; t++) {
      seldom.id[seldom.count] = groups->id[g];
      seldom.token[seldom.count++] = groups->token[t];
      if (seldom.count == EXPANDED) expand_tokens(a, sequence, &seldom, s);
    }
  }
  if (often.count) meet_ids(a, sequence, &often, s);
  if (seldom.count) expand_tokens(a, sequence, &seldom, s);
}

/* --- threads -------------------------------------------------------------------------------------------- */

/* Adds another thread's sums, on the scale of the larger maximum. */
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
  scratch_arena arena = arena_at(a->scratch);
  arena.base += (size_t)thread * bytes;
  gated_space space;
  allocate_gated(a, &arena, &space);
  return space;
}

static size_t bytes_of_thread(const ch_gated_attend *a) {
  scratch_arena arena = {0};
  gated_space space;
  allocate_gated(a, &arena, &space);
  return arena.used;
}

void KERNEL(gated_attend)(const ch_gated_attend *a) {
  size_t bytes = bytes_of_thread(a);
  const costs c = costs_of(a);
  const int parts = parts_of_team(a->team, true);
  for (int64_t sequence = 0; sequence < a->sequences; sequence++) {
    const ch_id_groups *groups = &a->groups[sequence];
    double all = 0;
    for (int64_t g = 0; g < groups->count; g++) all += cost_of(&c, groups->first[g + 1] - groups->first[g]);
#pragma omp parallel num_threads(a->team->workers) if (parts > 1)
    EACH_PART(part, parts) {
      gated_space space = space_of(a, bytes, part);
      start_query(a, sequence, &space);
      share own =
          share_of(groups, &c, all * part / parts, part + 1 < parts ? all * (part + 1) / parts : INFINITY);
      read_share(a, sequence, &own, &c, &space);
    }
    gated_space whole = space_of(a, bytes, 0);
    for (int other = 1; other < parts; other++) {
      gated_space part = space_of(a, bytes, other);
      merge(a, &whole, &part);
    }
    write_out(a, sequence, &whole);
  }
}

size_t KERNEL(gated_attend_scratch)(const ch_gated_attend *a) {
  return bytes_of_thread(a) * (size_t)a->team->threads + 64;
}
