/* Short causal convolutions, channel by channel, and SiLU after them: y = silu(z), z_t = sum over j of w_j
 * x_{t-j}.
 *
 * The last tap of the weights [channels, taps] is the token itself. The weights are transposed into rows of
 * channels once per call. Rows of x from before the first token come from a state of taps - 1 rows. Before
 * the beginning of a text or document they are zero. */
#include "tensor/kernels/vector/math.h"
#include "tensor/kernels/vector/partials.h"

/* Transposes the weights: row j has those of the tokens j places back. Without weights, there is one tap of 1. */
static void turn_weights(const ch_short_conv *a, real *rows) {
  for (int64_t c = 0; a->weight && c < a->channels; c++)
    for (int64_t j = 0; j < a->taps; j++)
      rows[j * a->channels + c] = ((const real *)a->weight)[c * a->taps + a->taps - 1 - j];
  for (int64_t c = 0; !a->weight && c < a->channels; c++) rows[c] = 1;
}

static real *states_of(const ch_short_conv *a, int64_t sequence) {
  return (real *)a->states + (a->order ? a->order[sequence] : sequence) * a->state_stride;
}

/* Returns the row of x j places before token t, or NULL if it is zero. */
static const real *row_before(const ch_short_conv *a, int64_t sequence, int64_t t, int64_t j) {
  const int64_t start = a->document_start ? a->document_start[sequence * a->length + t] : 0;
  if (t - j >= start) return (const real *)a->x + (sequence * a->length + t - j) * a->channels;
  if (start > 0 || !a->states || a->tokens_before[sequence] < j - t) return NULL;
  return states_of(a, sequence) + (a->taps - 1 + t - j) * a->channels;
}

/* Lists the rows of x that row `row` of y depends on, newest first, and returns their number. */
static int64_t rows_seen(const ch_short_conv *a, int64_t row, const real *rows[CH_MAX_CONV_TAPS]) {
  const int64_t sequence = row / a->length, t = row % a->length;
  int64_t seen = 0;
  while (seen < a->taps && (rows[seen] = row_before(a, sequence, t, seen))) seen++;
  return seen;
}

ALWAYS_INLINE vec sum_taps(const ch_short_conv *a, const real *weights, const real *const *rows, int64_t seen,
                           int64_t c) {
  vec z = splat(0);
  for (int64_t j = 0; j < seen; j++)
    z = vec_fma(load_some(weights + j * a->channels + c, a->channels - c),
                load_some(rows[j] + c, a->channels - c), z);
  return z;
}

static void forward_rows(const ch_short_conv *a, const real *weights, int64_t first, int64_t last) {
  const real *rows[CH_MAX_CONV_TAPS];
  for (int64_t r = first; r < last; r++) {
    const int64_t seen = rows_seen(a, r, rows);
    real *y = (real *)a->y + r * a->channels;
    for (int64_t c = 0; c < a->channels; c += VL) {
      vec z = sum_taps(a, weights, rows, seen, c);
      store_some(y + c, z * vec_sigmoid(z), a->channels - c);
    }
  }
}

size_t KERNEL(short_conv_scratch)(const ch_short_conv *a, bool backward) {
  const int64_t turned = a->taps * a->channels, kept = backward ? 2 * a->team->threads * turned : 0;
  return (size_t)(turned + kept) * sizeof(real);
}

void KERNEL(short_conv_forward)(const ch_short_conv *a) {
  const ch_team *team = a->team;
  const int64_t rows = a->sequences * a->length;
  real *weights = a->scratch;
  turn_weights(a, weights);
  FOR_RANGE(rows, rows > 1 && rows * a->channels * a->taps >= CH_PARALLEL_ELEMENTS,
            forward_rows(a, weights, first, last));
}

/* Saves the last taps - 1 rows of every sequence. If a sequence is shorter than that, older rows move up. */
void KERNEL(short_conv_keep)(const ch_short_conv *a) {
  const int64_t kept = a->taps - 1, own = a->length < kept ? a->length : kept, older = kept - own;
  for (int64_t s = 0; s < a->sequences; s++) {
    real *state = states_of(a, s);
    if (older > 0 && a->tokens_before[s] > 0)
      memmove(state, state + own * a->channels, (size_t)(older * a->channels) * sizeof(real));
    memcpy(state + older * a->channels, (const real *)a->x + ((s + 1) * a->length - own) * a->channels,
           (size_t)(own * a->channels) * sizeof(real));
  }
}

/* --- backward ------------------------------------------------------------------------------------------- */

/* Computes dz = dy silu'(z) of row r, and adds to the gradient of the weights: dw_j += dz x_{t-j}. */
static void row_gradient(const ch_short_conv *a, const real *weights, const void *dy, int64_t r, real *dz,
                         real *dweights) {
  const real *rows[CH_MAX_CONV_TAPS];
  const int64_t seen = rows_seen(a, r, rows);
  for (int64_t c = 0; c < a->channels; c += VL) {
    const int64_t left = a->channels - c;
    vec z = sum_taps(a, weights, rows, seen, c), s = vec_sigmoid(z);
    vec d = load_some((const real *)dy + r * a->channels + c, left) * silu_slope(z, s);
    store_some(dz + c, d, left);
    for (int64_t j = 0; dweights && j < seen; j++)
      put(dweights + j * a->channels + c, d * load_some(rows[j] + c, left), left, true);
  }
}

/* dx_t = sum over j of w_j dz_{t+j}, over the tokens that see t. */
static void write_row(const ch_short_conv *a, const real *weights, const real *ring, int64_t r, real *dx,
                      bool accumulate) {
  const int64_t t = r % a->length;
  int64_t seen = 1;
  while (seen < a->taps && t + seen < a->length && (!a->document_start || a->document_start[r + seen] <= t))
    seen++;
  for (int64_t c = 0; c < a->channels; c += VL) {
    const int64_t left = a->channels - c;
    vec d = splat(0);
    for (int64_t j = 0; j < seen; j++)
      d = vec_fma(load_some(weights + j * a->channels + c, left),
                  load_some(ring + (r + j) % a->taps * a->channels + c, left), d);
    put(dx + r * a->channels + c, d, left, accumulate);
  }
}

/* Computes rows first ... last - 1, starting with the last. A ring holds dz of the current row and of the
   taps - 1 rows after it. Some of these rows belong to another part. */
static void backward_rows(const ch_short_conv *a, const ch_short_conv_gradient *g, const real *weights,
                          int64_t first, int64_t last, real *ring, real *dweights) {
  int64_t end = last + a->taps - 1 < a->sequences * a->length ? last + a->taps - 1 : a->sequences * a->length;
  for (int64_t r = end - 1; r >= first; r--) {
    row_gradient(a, weights, g->y, r, ring + r % a->taps * a->channels, r < last ? dweights : NULL);
    if (g->x && r < last) write_row(a, weights, ring, r, g->x, g->add_x);
  }
}

/* Adds up the parts' gradients of the weights of channels first ... last - 1, and transposes them back. */
static void write_weights(const ch_short_conv *a, const ch_short_conv_gradient *g, int parts,
                          const real *dweights, int64_t first, int64_t last) {
  const int64_t turned = a->taps * a->channels;
  for (int64_t c = first; c < last; c++)
    for (int64_t j = 0; j < a->taps; j++) {
      real sum = 0, *to = (real *)g->weight + c * a->taps + a->taps - 1 - j;
      for (int p = 0; p < parts; p++) sum += dweights[p * 2 * turned + j * a->channels + c];
      *to = g->add_weight ? *to + sum : sum;
    }
}

void KERNEL(short_conv_backward)(const ch_short_conv *a, const ch_short_conv_gradient *g) {
  const int64_t rows = a->sequences * a->length, turned = a->taps * a->channels;
  const int parts = parts_of_team(a->team, rows * turned >= CH_PARALLEL_ELEMENTS);
  real *weights = a->scratch, *space = weights + turned; /* space: for each part its sums and its ring */
  turn_weights(a, weights);
#pragma omp parallel num_threads(a->team->workers) if (parts > 1)
  {
    EACH_PART(part, parts) {
      real *dweights = space + part * 2 * turned;
      int64_t first, last;
      thread_range(rows, part, parts, &first, &last);
      memset(dweights, 0, (size_t)turned * sizeof(real));
      backward_rows(a, g, weights, first, last, dweights + turned, g->weight ? dweights : NULL);
    }
#pragma omp barrier
    EACH_PART(part, parts) {
      int64_t first, last;
      thread_range(a->channels, part, parts, &first, &last);
      if (g->weight) write_weights(a, g, parts, space, first, last);
    }
  }
}
