/* EG-MLA's decoding by expansion, for rare ids: a block of tokens goes through one product with each head's
 * rows of kv_b. The lanes are tokens, so gates, scores and weights need no sums across lanes. */
#include "tensor/kernels/attention/gated_space.h"

enum { VECTORS = EXPANDED / VL };

/* The part of a block that all heads share. */
typedef struct expanded_block {
  const ch_gated_attend *a;
  const gated_space *s;
  const int32_t *id;
  int64_t count, vectors; /* tokens of the block; vectors that hold them */
  vec mean[VECTORS], std[VECTORS], distance[VECTORS];
} expanded_block;

/* Transposes the gates of a head, so that tokens are along the lanes: [n + v, EXPANDED]. */
static void turn_gates(const expanded_block *b, int64_t head) {
  const ch_gated_attend *a = b->a;
  int64_t width = head_width(a);
  for (int64_t t = 0; t < b->count; t += VL)
    for (int64_t i = 0; i < width; i += VL) {
      vec square[VL];
      for (int64_t j = 0; j < VL; j++)
        square[j] =
            t + j < b->count ? load_some(gates_of(a, b->id[t + j]) + head * width + i, width - i) : splat(0);
      transpose_lanes(square);
      for (int64_t j = 0; j < VL; j++) store(b->s->gates + (i + j) * EXPANDED + t, square[j]);
    }
}

/* Returns the scores of a vector of tokens; -infinity in lanes without a token. */
static vec score(const expanded_block *b, int64_t head, int64_t v) {
  const ch_gated_attend *a = b->a;
  const gated_space *s = b->s;
  vec nope = splat(0), rope = splat(0);
  for (int64_t i = 0; i < a->nope; i++)
    nope = vec_fma(splat(s->base_query[head * a->nope + i]) * load(s->gates + i * EXPANDED + v * VL),
                   load(s->products + i * EXPANDED + v * VL), nope);
  for (int64_t i = 0; i < a->rope; i++)
    rope = vec_fma(splat(s->rope[head * a->rope + i]), load(s->across + (a->latent + i) * EXPANDED + v * VL),
                   rope);
  vec all = (nope - b->mean[v] * s->fixed[head]) * b->std[v] + rope + s->fixed[padded_heads(a) + head];
  if (a->slopes) all -= b->distance[v] * (real)a->slopes[head];
  for (int64_t j = b->count - v * VL; j < VL; j++) all[j] = -(real)INFINITY;
  return all;
}

/* Brings a head's running sums to a new maximum. */
static void rescale(const ch_gated_attend *a, const gated_space *s, int64_t head, real max) {
  real factor = real_exp(s->max[head] - max);
  s->max[head] = max;
  s->sum[head] *= factor;
  s->shift[head] *= factor;
  for (int64_t i = 0; i < a->value; i++) s->rows[head * a->value + i] *= factor;
}

/* rows[head, :] += the block's weighted, gated values; `weight` includes 1/std. */
static void add_values(const expanded_block *b, int64_t head, const vec weight[VECTORS]) {
  const ch_gated_attend *a = b->a;
  real *row = b->s->rows + head * a->value;
  for (int64_t first = 0; first < a->value; first += VL) {
    vec lanes[VL];
    int64_t left = a->value - first;
    for (int64_t j = 0; j < VL; j++) {
      int64_t at = (a->nope + first + j) * EXPANDED;
      lanes[j] = splat(0);
      for (int64_t v = 0; v < b->vectors && j < left; v++)
        lanes[j] = vec_fma(weight[v] * load(b->s->gates + at + v * VL), load(b->s->products + at + v * VL),
                           lanes[j]);
    }
    put(row + first, sum_lanes(lanes), left, true);
  }
}

static void expand_head(const expanded_block *b, int64_t head) {
  const ch_gated_attend *a = b->a;
  const gated_space *s = b->s;
  int64_t width = head_width(a);
  turn_gates(b, head);
  fetch_gates(a, b->id, b->count, head + 1);
  const real *rows = kv_b_rows(a, head * width, width, s->weight);
  KERNEL(tile_product)
  (width, b->vectors * VL, a->latent, rows, a->latent, 1, s->across, EXPANDED, s->products, EXPANDED, false);
  vec scores[VECTORS], weight[VECTORS], sum = splat(0), shift = splat(0), peak = splat(s->max[head]);
  for (int64_t v = 0; v < b->vectors; v++) {
    scores[v] = score(b, head, v);
    peak = vec_max(scores[v], peak);
  }
  real max = lanes_max(peak);
  if (max != s->max[head]) rescale(a, s, head, max);
  for (int64_t v = 0; v < b->vectors; v++) {
    vec p = vec_exp(scores[v] - max);
    sum += p;
    weight[v] = p * b->std[v];
    shift = vec_fma(weight[v], b->mean[v], shift);
  }
  s->sum[head] += lanes_sum(sum);
  s->shift[head] += lanes_sum(shift);
  add_values(b, head, weight);
}

void gated_expand(const ch_gated_attend *a, int64_t sequence, const int32_t *token, const int32_t *id,
                  int64_t count, int64_t last, const gated_space *s) {
  expanded_block b = {.a = a, .s = s, .id = id, .count = count, .vectors = (count + VL - 1) / VL};
  real mean[EXPANDED] = {0}, std[EXPANDED] = {0}, distance[EXPANDED] = {0};
  take_tokens(a, sequence, token, count, s->states, s->scalars);
  turn(s->states, count, state_width(a), a->latent + a->rope, s->across, EXPANDED);
  for (int64_t t = 0; t < count; t++) {
    mean[t] = s->scalars[2 * t];
    std[t] = s->scalars[2 * t + 1];
    distance[t] = (real)(last - token[t]);
  }
  for (int64_t v = 0; v < b.vectors; v++) {
    b.mean[v] = load(mean + v * VL);
    b.std[v] = load(std + v * VL);
    b.distance[v] = load(distance + v * VL);
  }
  fetch_gates(a, id, count, 0);
  for (int64_t h = 0; h < a->heads; h++) expand_head(&b, h);
}
