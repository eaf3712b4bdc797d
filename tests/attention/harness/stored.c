/* Checks 16-bit and block-quantised caches against the definition. Every stored state must be the value of its format
 * that is nearest to the state of the definition; near a tie, both neighbours are allowed. The logits must be those
 * that the definition computes from the stored states. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "infer/session.h"
#include "properties.h"

enum { BLOCK = 32 };

/* The error of F32, relative to the largest of a token's states. */
static const double noise = 2e-5;

/* --- formats ------------------------------------------------------------------------------------------------ */

static double from_f16(const unsigned char *bytes) {
  unsigned bits = bytes[0] | (unsigned)bytes[1] << 8, exponent = bits >> 10 & 31;
  double fraction = bits & 1023,
         size = exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24);
  return bits >> 15 ? -size : size;
}

static double from_bf16(const unsigned char *bytes) {
  uint32_t bits = (uint32_t)(bytes[0] | bytes[1] << 8) << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return (double)x;
}

/* Returns the step between numbers of a float format near x. */
static double step_near(double x, int mantissa, int least) {
  int exponent = x == 0 ? least : ilogb(x);
  return ldexp(1, (exponent < least ? least : exponent) - mantissa);
}

/* Returns the distance from x to the nearest of scale * (low ... high). */
static double off_steps(double x, double scale, double low, double high) {
  double q = scale == 0 ? 0 : fmin(fmax(nearbyint(x / scale), low), high);
  return fabs(scale * q - x);
}

/* --- one part of a token's states --------------------------------------------------------------------------- */

/* Replaces x [width] by the stored values. Returns true if they are as near to x as the format allows. `open` is the
   error of x. */
static bool read_floats(const unsigned char *stored, ch_dtype dtype, double *x, int64_t width, double open) {
  bool near = true;
  for (int64_t i = 0; i < width; i++) {
    double value = dtype == CH_F16 ? from_f16(stored + 2 * i) : from_bf16(stored + 2 * i);
    double step = dtype == CH_F16 ? step_near(x[i], 10, -14) : step_near(x[i], 7, -126);
    near = near && fabs(value - x[i]) <= step / 2 + open;
    x[i] = value;
  }
  return near;
}

/* Returns the squared error of ggml's method, which stores the value of largest magnitude as -8. */
static double squares_of_fours(const double *x, int64_t count) {
  double extreme = 0, sum = 0;
  for (int64_t i = 0; i < count; i++)
    if (fabs(x[i]) > fabs(extreme)) extreme = x[i];
  for (int64_t i = 0; i < count; i++) {
    double off = off_steps(x[i], -extreme / 8, -8, 7);
    sum += off * off;
  }
  return sum;
}

static bool read_block(const unsigned char *stored, ch_dtype dtype, double *x, int64_t count, double open) {
  double scale = from_f16(stored), most = 0, squares = 0, allowed = squares_of_fours(x, count);
  bool near = true, eight = dtype == CH_Q8_0;
  for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(x[i]));
  if (eight) near = fabs(scale - most / 127) <= step_near(most / 127, 10, -14) / 2 + open / 127;
  for (int64_t i = 0; i < count; i++) {
    int nibble = stored[2 + i % 16] >> (i < 16 ? 0 : 4) & 15;
    double value = scale * (eight ? (double)(signed char)stored[2 + i] : nibble - 8);
    double off = fabs(value - x[i]);
    near = near && off <= off_steps(x[i], scale, eight ? -127 : -8, eight ? 127 : 7) + open;
    squares += off * off;
    x[i] = value;
  }
  /* The tolerance covers the rounding of the scale to F16. */
  if (!eight) near = near && squares <= 1.02 * allowed + 1e-3 * most * most;
  return near;
}

static bool read_token(const unsigned char *stored, ch_dtype dtype, double *x, int64_t width) {
  bool near = true;
  double most = 0;
  for (int64_t i = 0; i < width; i++) most = fmax(most, fabs(x[i]));
  if (dtype == CH_F16 || dtype == CH_BF16) return read_floats(stored, dtype, x, width, noise * most);
  for (int64_t i = 0; i < width; i += BLOCK, stored += dtype == CH_Q8_0 ? 34 : 18)
    near &= read_block(stored, dtype, x + i, width - i < BLOCK ? width - i : BLOCK, noise * most);
  return near;
}

/* --- all states of a model ---------------------------------------------------------------------------------- */

typedef struct kept {
  const specimen *specimen;
  const ch_cache *cache;
  ch_layer_parts *parts; /* [layers] */
  int64_t wrong, all;    /* parts of tokens' states: wrong ones, and all */
} kept;

static void keep(void *context, int64_t sequence, int layer, const char *part, double *x, int64_t length,
                 int64_t width) {
  kept *k = context;
  for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
    const ch_state_part *known = &k->parts[layer].part[p];
    if (known->width == 0 || strcmp(known->name, part) != 0) continue;
    assert_int_equal(known->width, width);
    const ch_state_view *view = &k->cache->views[layer][p];
    for (int64_t t = 0; t < length; t++) {
      int64_t at = sequence * view->sequence_stride + t * view->token_stride;
      const unsigned char *stored = (const unsigned char *)view->data + ch_dtype_bytes(view->dtype, at);
      k->wrong += !read_token(stored, view->dtype, x + t * width, width);
      k->all++;
    }
    return;
  }
  fail_msg("layer %d has no part %s in its cache", layer, part);
}

/* Compares logits with those that the definition computes from the stored states. */
static void check_against_stored(const specimen *s, const ch_session *session, const double *logits) {
  kept k = {.specimen = s, .cache = ch_session_cache(session)};
  const char *name = ch_dtype_name(k.cache->types.of[0]);
  char what[64];
  k.parts = calloc((size_t)s->config.num_hidden_layers, sizeof *k.parts);
  ch_state_parts(&s->config, k.parts);
  reference_memory memory = {keep, &k};
  reference_config definition = s->definition;
  reference_weights weights = s->definition_weights;
  definition.memory = &memory;
  int64_t count = s->sequences * s->length * s->vocab;
  double *expected = malloc((size_t)count * sizeof *expected);
  reference_forward(&definition, &weights, s->tokens, s->sequences, s->length, NULL, expected);
  if (k.wrong > 0 || k.all == 0)
    complain(s, "%s: %lld of %lld states are not as near as can be", name, (long long)k.wrong,
             (long long)k.all);
  snprintf(what, sizeof what, "logits of states in %s", name);
  expect_near(s, what, count, logits, expected, s->largest, 5e-5);
  free(expected);
  free(k.parts);
}

void check_stored_states(laboratory *lab, const specimen *s) {
  (void)lab;
  if (ch_linear_layers(&s->config) == s->config.num_hidden_layers) return; /* all states are F32 */
  /* in rings, the first tokens have been overwritten */
  if (ch_any_layer_slides(&s->config) && ch_window_and_sinks(&s->config) < s->length) return;
  static const ch_dtype dtypes[] = {CH_BF16, CH_F16, CH_Q8_0, CH_Q4_0};
  double *logits = malloc((size_t)(s->sequences * s->length * s->vocab) * sizeof *logits);
  for (int i = 0; i < 4; i++) {
    ch_session *session = specimen_session(s, s->sequences, s->length, dtypes[i]);
    bool fed = session && feed_tokens(s, session, 0, s->sequences, 0, (s->length + 1) / 2, logits);
    for (int64_t t = (s->length + 1) / 2; fed && t < s->length; t++)
      fed = feed_tokens(s, session, 0, s->sequences, t, 1, logits);
    if (fed) check_against_stored(s, session, logits);
    ch_session_free(session);
  }
  free(logits);
}
