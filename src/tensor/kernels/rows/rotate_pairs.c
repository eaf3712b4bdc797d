/* Rotary positions: rotates pairs of a head's dims by angles from a table. */
#include "tensor/kernels/vector/lanes.h"
#include "tensor/kernels/vector/narrow.h"
#include "tensor/kernels/vector/stored_states.h"

static void table_rows(int64_t first, int64_t last, int64_t half, const int32_t *positions,
                       const double *frequencies, real *table) {
  for (int64_t r = first; r < last; r++) {
    real *cosines = table + r * 2 * half, *sines = cosines + half;
    for (int64_t i = 0; i < half; i++) {
      double angle = positions[r] * frequencies[i];
      cosines[i] = (real)cos(angle);
      sines[i] = (real)sin(angle);
    }
  }
}

void KERNEL(rope_table)(const ch_team *team, int64_t rows, int64_t rotary, const int32_t *positions,
                        const double *frequencies, void *table) {
  int64_t half = rotary / 2;
  FOR_RANGE(rows, rows > 1 && rows * half >= 256,
            table_rows(first, last, half, positions, frequencies, table));
}

/* Rotates the pairs (i, i + half). sign is -1 to rotate back. */
ALWAYS_INLINE void turn_half(int64_t half, const real *c, const real *s, real sign, const real *x, real *y,
                             bool accumulate) {
  for (int64_t i = 0; i < half; i += VL) {
    int64_t left = half - i;
    vec cosine = load_narrow(c + i, left), sine = load_narrow(s + i, left) * sign;
    vec a = load_narrow(x + i, left), b = load_narrow(x + half + i, left);
    vec first = vec_fnma(b, sine, a * cosine), second = vec_fma(a, sine, b * cosine);
    if (accumulate) {
      first += load_narrow(y + i, left);
      second += load_narrow(y + half + i, left);
    }
    store_narrow(y + i, first, left);
    store_narrow(y + half + i, second, left);
  }
}

#define SWAPPED_LANE(lane, unit) ((lane) ^ 1 ^ (0 * (unit)))
#define LOWER_TWICE(lane, unit) ((lane) / 2 + 0 * (unit))
#define UPPER_TWICE(lane, unit) (VL / 2 + (lane) / 2 + 0 * (unit))

/* Rotates the pairs of one vector: a' = a cosine - b sine, b' = b cosine + a sine. The sines of a are
   negated. */
ALWAYS_INLINE void turn_pairs(const real *x, real *y, vec cosine, vec sine, int64_t left, bool accumulate) {
  vec v = load_some(x, left);
  put(y, vec_fma(SHUFFLE(v, v, SWAPPED_LANE, 0), sine, v * cosine), left, accumulate);
}

/* Rotates the pairs (2i, 2i + 1) of all heads of a row. The heads begin `stride` elements apart. */
ALWAYS_INLINE void turn_interleaved(int64_t half, const real *c, const real *s, real sign, int64_t heads,
                                    int64_t stride, const real *x, real *y, bool accumulate) {
  vec signs = {0};
  for (int i = 0; i < VL; i++) signs[i] = i % 2 ? sign : -sign;
  for (int64_t i = 0; i < half; i += VL) {
    int64_t left = 2 * (half - i);
    vec cosine = load_some(c + i, half - i), sine = load_some(s + i, half - i);
    vec cosines[] = {SHUFFLE(cosine, cosine, LOWER_TWICE, 0), SHUFFLE(cosine, cosine, UPPER_TWICE, 0)};
    vec sines[] = {SHUFFLE(sine, sine, LOWER_TWICE, 0) * signs, SHUFFLE(sine, sine, UPPER_TWICE, 0) * signs};
    for (int64_t h = 0; h < heads; h++) {
      const real *in = x + h * stride + 2 * i;
      real *out = y + h * stride + 2 * i;
      if (left >= 2 * VL) {
        turn_pairs(in, out, cosines[0], sines[0], VL, accumulate);
        turn_pairs(in + VL, out + VL, cosines[1], sines[1], VL, accumulate);
      } else {
        turn_pairs(in, out, cosines[0], sines[0], left, accumulate);
        if (left > VL) turn_pairs(in + VL, out + VL, cosines[1], sines[1], left - VL, accumulate);
      }
    }
  }
}

/* The arguments of a call of rope. */
typedef struct rope_call {
  int64_t heads, head_dim, rotary;
  bool leading, interleaved, accumulate;
  real sign;
  const real *table, *x;
  real *y;
} rope_call;

static void turn_rows(const rope_call *c, int64_t first, int64_t last) {
  int64_t half = c->rotary / 2, kept = c->head_dim - c->rotary;
  int64_t turned = c->leading ? 0 : kept, copied = c->leading ? c->rotary : 0;
  for (int64_t r = first; r < last; r++) {
    const real *cosines = c->table + r * c->rotary, *sines = cosines + half;
    for (int64_t h = 0; h < c->heads; h++) {
      const real *in = c->x + (r * c->heads + h) * c->head_dim;
      real *out = c->y + (r * c->heads + h) * c->head_dim;
      if (c->accumulate)
        for (int64_t i = copied; i < copied + kept; i++) out[i] += in[i];
      else if (out != in)
        memcpy(out + copied, in + copied, (size_t)kept * sizeof(real));
      if (!c->interleaved) turn_half(half, cosines, sines, c->sign, in + turned, out + turned, c->accumulate);
    }
    int64_t row = r * c->heads * c->head_dim + turned;
    if (c->interleaved && c->accumulate)
      turn_interleaved(half, cosines, sines, c->sign, c->heads, c->head_dim, c->x + row, c->y + row, true);
    else if (c->interleaved)
      turn_interleaved(half, cosines, sines, c->sign, c->heads, c->head_dim, c->x + row, c->y + row, false);
  }
}

void KERNEL(rope)(const ch_team *team, int64_t rows, int64_t heads, int64_t head_dim, int64_t rotary,
                  bool leading, bool interleaved, bool inverse, const void *table, const void *x, void *y,
                  bool accumulate) {
  const rope_call call = {heads,      head_dim,         rotary, leading, interleaved,
                          accumulate, inverse ? -1 : 1, table,  x,       y};
  FOR_RANGE(rows, rows > 1 && rows * heads * head_dim >= CH_PARALLEL_ELEMENTS, turn_rows(&call, first, last));
}

/* --- angles of consecutive positions, without a sine ---------------------------------------------------- */

void KERNEL(rope_levels)(int64_t rotary, const double *frequencies, void *levels) {
  int64_t half = rotary / 2;
  real *row = levels;
  double step = 1;
  for (int level = 0; level < CH_ROPE_LEVELS; level++, step *= CH_ROPE_LEVEL)
    for (int digit = 0; digit < CH_ROPE_LEVEL; digit++, row += rotary)
      for (int64_t i = 0; i < half; i++) {
        row[i] = (real)cos(digit * step * frequencies[i]);
        row[half + i] = (real)sin(digit * step * frequencies[i]);
      }
}

/* Computes the cosines and sines of the sums of two rows of angles; `sum` may be a. */
ALWAYS_INLINE void add_angles(int64_t half, const real *a, const real *b, real *sum) {
  for (int64_t i = 0; i < half; i += VL) {
    int64_t left = half - i;
    vec ca = load_some(a + i, left), sa = load_some(a + half + i, left);
    vec cb = load_some(b + i, left), sb = load_some(b + half + i, left);
    store_some(sum + i, vec_fnma(sa, sb, ca * cb), left);
    store_some(sum + half + i, vec_fma(ca, sb, sa * cb), left);
  }
}

/* Computes the cosines and sines of the summed angles of all digits of a position except the lowest. */
static void high_angles(int64_t position, int64_t rotary, const real *levels, real *base) {
  int64_t rest = position / CH_ROPE_LEVEL;
  const real *level = levels + CH_ROPE_LEVEL * rotary;
  memcpy(base, level + rest % CH_ROPE_LEVEL * rotary, (size_t)rotary * sizeof(real));
  for (int l = 2; l < CH_ROPE_LEVELS; l++) {
    rest /= CH_ROPE_LEVEL;
    level += CH_ROPE_LEVEL * rotary;
    if (rest > 0) add_angles(rotary / 2, base, level + rest % CH_ROPE_LEVEL * rotary, base);
  }
}

ALWAYS_INLINE void widen_row(const ch_dtype dtype, const char *x, int64_t n, real *y) {
  int64_t i = 0;
  fetch(x + CH_FETCH_AHEAD, n * state_size(dtype));
  for (; i + VL <= n; i += VL) store(y + i, load_state(dtype, x, i, VL));
  if (i < n) store_part(y + i, load_state(dtype, x, i, n - i), n - i);
}

/* Converts row t of x, of any type, to a row of y. */
static void take_row(const ch_rope_states *c, int64_t t, real *y) {
  int64_t n = c->heads * c->head_dim;
  const char *x = (const char *)c->x + t * c->x_stride * state_size(c->x_dtype);
  if (c->x_dtype == CH_F16)
    widen_row(CH_F16, x, n, y);
  else if (c->x_dtype == CH_BF16)
    widen_row(CH_BF16, x, n, y);
  else
    widen_row(CH_KERNEL_DTYPE, x, n, y);
}

/* Rotates the pairs (i, i + half) of a row's heads. Angles are summed in registers, once for all heads. */
ALWAYS_INLINE void turn_half_state(const ch_dtype dtype, const ch_rope_states *c, const real *base,
                                   const real *level, const char *x, real *y) {
  const int64_t half = c->rotary / 2, kept = c->head_dim - c->rotary, size = state_size(dtype);
  const int64_t turned = c->leading ? 0 : kept, copied = c->leading ? c->rotary : 0;
  for (int64_t i = 0; i < half; i += VL) {
    int64_t left = half - i;
    vec ca = load_some(base + i, left), sa = load_some(base + half + i, left);
    vec cb = load_some(level + i, left), sb = load_some(level + half + i, left);
    vec cosine = vec_fnma(sa, sb, ca * cb), sine = vec_fma(ca, sb, sa * cb);
    for (int64_t h = 0; h < c->heads; h++) {
      const char *in = x + (h * c->head_dim + turned) * size;
      real *out = y + h * c->head_dim + turned;
      vec a = load_state(dtype, in, i, left), b = load_state(dtype, in, half + i, left);
      store_some(out + i, vec_fnma(b, sine, a * cosine), left);
      store_some(out + half + i, vec_fma(a, sine, b * cosine), left);
    }
  }
  for (int64_t h = 0; kept > 0 && h < c->heads; h++)
    for (int64_t i = 0; i < kept; i += VL)
      store_some(y + h * c->head_dim + copied + i,
                 load_state(dtype, x + (h * c->head_dim + copied) * size, i, kept - i), kept - i);
  fetch(x + CH_FETCH_AHEAD, c->heads * c->head_dim * size);
}

static void turn_interleaved_state(const ch_rope_states *c, int64_t t, const real *base, const real *level,
                                   real *row, real *out) {
  int64_t half = c->rotary / 2;
  add_angles(half, base, level, row);
  take_row(c, t, out);
  real *turned = out + (c->leading ? 0 : c->head_dim - c->rotary);
  turn_interleaved(half, row, row + half, 1, c->heads, c->head_dim, turned, turned, false);
}

void KERNEL(rope_states)(const ch_rope_states *call, int64_t first, int64_t count, void *y, void *work) {
  real *base = work, *row = base + call->rotary;
  for (int64_t t = 0; t < count; t++) {
    real *out = (real *)y + t * call->heads * call->head_dim;
    const char *x = (const char *)call->x + t * call->x_stride * state_size(call->x_dtype);
    int64_t digit = (first + t) % CH_ROPE_LEVEL;
    const real *level = (const real *)call->levels + digit * call->rotary;
    if (t == 0 || digit == 0) high_angles(first + t, call->rotary, call->levels, base);
    if (call->interleaved)
      turn_interleaved_state(call, t, base, level, row, out);
    else if (call->x_dtype == CH_F16)
      turn_half_state(CH_F16, call, base, level, x, out);
    else if (call->x_dtype == CH_BF16)
      turn_half_state(CH_BF16, call, base, level, x, out);
    else
      turn_half_state(CH_KERNEL_DTYPE, call, base, level, x, out);
  }
}
