/* Samples by thresholds. Partial selection finds the cut of the ranking, and a token is drawn in the order of ids. A
   first pass finds the largest logit of every block. With a small top-k, blocks without a candidate are not read
   again. */
#include "infer/sampling.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/random.h"

enum { BLOCK = 64, LANES = 4 };

/* The cut of a ranking: every weight above `value` passes, and the first `ties` that equal it. */
typedef struct cut {
  float value;
  int64_t ties;
} cut;

void ch_sampler_defaults(ch_sampler *sampler, uint64_t seed) {
  ch_random random;
  ch_random_seed(&random, seed, 0);
  *sampler = (ch_sampler){.temperature = 1, .top_k = 0, .top_p = 1};
  memcpy(sampler->state, random.state, sizeof sampler->state);
}

ch_status ch_sampling_check(const ch_sampler *sampler, ch_error *error) {
  if (!isfinite(sampler->temperature) || sampler->temperature < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the temperature is %g; it must be 0 (greedy) or more",
                   sampler->temperature);
  if (sampler->top_k < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "top-k is %d; it must be 0 (all tokens) or more",
                   sampler->top_k);
  if (!(sampler->top_p >= 0 && sampler->top_p <= 1))
    return ch_fail(error, CH_ERROR_ARGUMENT, "top-p is %g; it must be between 0 and 1", sampler->top_p);
  return CH_OK;
}

static int64_t blocks_of(int64_t n) {
  return (n + BLOCK - 1) / BLOCK;
}

size_t ch_sampling_scratch(int64_t vocabulary) {
  return (size_t)vocabulary * (2 * sizeof(float) + sizeof(int32_t)) +
         (size_t)blocks_of(vocabulary) * sizeof(float);
}

/* --- sums and weights ----------------------------------------------------------------------------------- */

static inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Returns an integer that orders like the float. +inf and positive NaN are 0x7f800000 or more, and negative NaN is
   less than -inf. */
static inline int32_t place_of(float x) {
  int32_t bits = (int32_t)bits_of(x);
  return bits ^ (bits >> 31 & INT32_MAX);
}

/* Returns the largest value of a whole block. Sets *broken if one is NaN or +inf. Compares integers, which
   the compiler vectorises. */
static float peak_of_block(const float *x, bool *broken) {
  int32_t most[LANES], least[LANES];
  for (int j = 0; j < LANES; j++) most[j] = least[j] = place_of(x[j]);
  for (int i = LANES; i < BLOCK; i += LANES)
    for (int j = 0; j < LANES; j++) {
      int32_t place = place_of(x[i + j]);
      most[j] = place > most[j] ? place : most[j];
      least[j] = place < least[j] ? place : least[j];
    }
  int32_t top = most[0], bottom = least[0];
  for (int j = 1; j < LANES; j++) {
    top = most[j] > top ? most[j] : top;
    bottom = least[j] < bottom ? least[j] : bottom;
  }
  *broken = top >= place_of(INFINITY) || bottom < place_of(-INFINITY);
  return float_of((uint32_t)(top ^ (top >> 31 & INT32_MAX)));
}

static float peak_of(const float *x, int64_t n, bool *broken) {
  if (n >= BLOCK) return peak_of_block(x, broken);
  float peak = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    peak = x[i] > peak ? x[i] : peak;
    *broken |= !(x[i] < INFINITY);
  }
  return peak;
}

/* Finds the id of the largest logit, the lowest of equal ones. Writes the largest logit of every block to peaks
   [blocks_of(n)], unless peaks is NULL. */
static ch_status find_likeliest(const float *logits, int64_t n, float *peaks, int64_t *likeliest,
                                ch_error *error) {
  float most = -INFINITY;
  int64_t first = 0;
  for (int64_t at = 0; at < n; at += BLOCK) {
    bool broken = false;
    float peak = peak_of(logits + at, n - at, &broken);
    if (broken)
      for (int64_t i = at;; i++)
        if (!(logits[i] < INFINITY))
          return ch_fail(
              error, CH_ERROR_NUMERIC,
              "the logit of token %lld is %s; the model is damaged, or its cache's type is too narrow",
              (long long)i, isnan(logits[i]) ? "not a number" : "infinite");
    if (peaks) peaks[at / BLOCK] = peak;
    if (peak > most) first = at;
    most = peak > most ? peak : most;
  }
  if (most == -INFINITY)
    return ch_fail(error, CH_ERROR_NUMERIC, "no token has a finite logit; the model is damaged");
  while (logits[first] < most) first++;
  *likeliest = first;
  return CH_OK;
}

/* Returns exp(x) for x <= 0 to a few ulp, and 0 for x below -87. It compares bits, which order negative numbers by
   size, so that the compiler vectorises it. */
static inline float exp_of_negative(float x) {
  const uint32_t least = 0xc2ae0000u; /* -87 */
  uint32_t bits = bits_of(x);
  float bounded = float_of(bits > least ? least : bits);
  float n = bounded * 1.44269504f + 12582912.0f; /* rounds to an integer, which is in the low bits */
  uint32_t power = (bits_of(n) << 23) + 0x3f800000u;
  n -= 12582912.0f;
  float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * float_of(bits > least ? 0 : power);
}

/* Converts logits to weights exp((logit - largest) / temperature). */
static void make_weights(const float *logits, int64_t n, float largest, double temperature, float *weights) {
  /* the bounds avoid 0 * inf and inf * 0 and change no result for the logits of a real model */
  float inverse = (float)fmin(fmax(1 / temperature, 1e-30), 1e30);
  for (int64_t i = 0; i < n; i++) weights[i] = exp_of_negative((logits[i] - largest) * inverse);
}

static double sum_of(const float *x, int64_t n) {
  double lanes[8] = {0};
  int64_t whole = n - n % 8;
  for (int64_t i = 0; i < whole; i += 8)
    for (int j = 0; j < 8; j++) lanes[j] += (double)x[i + j];
  for (int64_t i = whole; i < n; i++) lanes[0] += (double)x[i];
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/* --- selection ------------------------------------------------------------------------------------------ */

static void swap(float *a, float *b) {
  float t = *a;
  *a = *b;
  *b = t;
}

/* Returns a pivot from a pseudo-random place, so that ordered input is not slow. */
static float pivot_of(const float *x, int64_t n, uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return n > 0 ? x[(*state >> 33) % (uint64_t)n] : 0;
}

/* Orders x as: larger than the pivot [0, *larger), equal [*larger, *smaller), smaller. */
static void partition(float *x, int64_t n, float pivot, int64_t *larger, int64_t *smaller) {
  int64_t low = 0, middle = 0, high = n;
  while (middle < high)
    if (x[middle] > pivot)
      swap(&x[low++], &x[middle++]);
    else if (x[middle] < pivot)
      swap(&x[middle], &x[--high]);
    else
      middle++;
  *larger = low;
  *smaller = high;
}

/* Moves the k largest of x to its front. Returns the smallest of them. 1 <= k <= n. */
static float select_largest(float *x, int64_t n, int64_t k) {
  uint64_t state = 0;
  for (;;) {
    float pivot = pivot_of(x, n, &state);
    int64_t larger, smaller;
    partition(x, n, pivot, &larger, &smaller);
    if (k <= larger) {
      n = larger;
    } else if (k <= smaller) {
      return pivot;
    } else {
      x += smaller;
      n -= smaller;
      k -= smaller;
    }
  }
}

/* Returns the k-th largest of x [n]; pool [n]. Collects only values that can still be among the k largest. */
static float largest_at(const float *x, int64_t n, int64_t k, float *pool) {
  int64_t room = 4 * k + 1024, count = 0;
  if (room > n) room = n;
  float least = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (x[i] < least) continue;
    if (count == room) {
      least = select_largest(pool, count, k);
      count = k;
      if (x[i] < least) continue;
    }
    pool[count++] = x[i];
  }
  return select_largest(pool, count, k);
}

/* Collects the logits that are at least `least`, and their ids. Returns their number. */
static int64_t collect(const float *logits, int64_t n, const float *peaks, float least, float *kept,
                       int32_t *ids) {
  int64_t count = 0;
  for (int64_t at = 0; at < n; at += BLOCK) {
    if (peaks[at / BLOCK] < least) continue;
    for (int64_t i = at; i < n && i < at + BLOCK; i++) {
      if (logits[i] < least) continue;
      kept[count] = logits[i];
      ids[count++] = (int32_t)i;
    }
  }
  return count;
}

/* Copies the k largest logits to `kept`, in the order of their ids; of equal ones, the lowest ids are kept. Returns
   their number. A peak is the largest logit of a block, so k logits are at least as large as the k-th largest peak. */
static int64_t keep_top_k(const float *logits, int64_t n, const float *peaks, int64_t k, float *pool,
                          float *kept, int32_t *ids) {
  int64_t blocks = blocks_of(n);
  if (k <= blocks) memcpy(pool, peaks, (size_t)blocks * sizeof *pool);
  float bound = k <= blocks ? select_largest(pool, blocks, k) : largest_at(logits, n, k, pool);
  int64_t found = collect(logits, n, peaks, bound, kept, ids);
  memcpy(pool, kept, (size_t)found * sizeof *pool);
  float least = select_largest(pool, found, k);
  int64_t ties = k, count = 0;
  for (int64_t i = 0; i < found; i++) ties -= kept[i] > least;
  for (int64_t i = 0; i < found; i++) {
    if (kept[i] < least || (kept[i] == least && ties-- <= 0)) continue;
    kept[count] = kept[i];
    ids[count++] = ids[i];
  }
  return count;
}

/* Returns the cut that keeps the fewest weights whose sum reaches `target`, or all weights if their rounded sum is
   smaller. */
static cut cut_at_sum(float *pool, int64_t n, double target) {
  double above = 0;
  uint64_t state = 0;
  while (n > 0) {
    float pivot = pivot_of(pool, n, &state);
    int64_t larger, smaller;
    partition(pool, n, pivot, &larger, &smaller);
    double sum = above + sum_of(pool, larger);
    double ties = (double)(smaller - larger) * (double)pivot;
    if (sum >= target) {
      n = larger;
    } else if (sum + ties >= target) {
      double wanted = ceil((target - sum) / (double)pivot);
      return (cut){.value = pivot, .ties = wanted < 1 ? 1 : (int64_t)wanted};
    } else {
      above = sum + ties;
      pool += smaller;
      n -= smaller;
    }
  }
  return (cut){.value = 0, .ties = 0};
}

static void apply_cut(cut at, int64_t n, float *weights) {
  for (int64_t i = 0; i < n; i++) {
    bool tied = weights[i] == at.value && at.ties > 0;
    at.ties -= tied;
    weights[i] = tied || weights[i] > at.value ? weights[i] : 0;
  }
}

static void keep_top_p(double top_p, int64_t n, float *weights, float *pool) {
  double total = sum_of(weights, n), target = fmax(top_p * total, 1e-30);
  /* All weights below `least` sum to less than 1 - p of the total, so none of them is needed to reach p. */
  float least = (float)((1 - top_p) * total / (double)n);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) {
    pool[count] = weights[i];
    count += weights[i] >= least && weights[i] > 0;
  }
  apply_cut(cut_at_sum(pool, count, target), n, weights);
}

/* --- drawing -------------------------------------------------------------------------------------------- */

/* Returns the first place at which the running sum exceeds uniform * (sum of all), or -1. Skips whole blocks
   first. */
static int64_t draw(const float *weights, int64_t n, double uniform) {
  enum { STRIDE = 512 };
  double goal = uniform * sum_of(weights, n), sum = 0;
  int64_t first = 0;
  for (; first + STRIDE < n; first += STRIDE) {
    double next = sum + sum_of(weights + first, STRIDE);
    if (next > goal) break;
    sum = next;
  }
  for (int64_t i = first; i < n; i++) {
    sum += (double)weights[i];
    if (weights[i] > 0 && sum > goal) return i;
  }
  return -1; /* the rounded sum is too small */
}

static double uniform(ch_sampler *sampler) {
  ch_random random;
  memcpy(random.state, sampler->state, sizeof random.state);
  double drawn = ch_random_uniform(&random);
  memcpy(sampler->state, random.state, sizeof random.state);
  return drawn;
}

ch_status ch_sample_token(ch_sampler *sampler, const float *logits, int64_t vocabulary, void *scratch,
                          int32_t *token, ch_error *error) {
  int64_t likeliest = 0;
  bool greedy = sampler->temperature == 0;
  float *weights = scratch, *pool = greedy ? NULL : weights + vocabulary,
        *peaks = greedy ? NULL : pool + vocabulary;
  CH_TRY(find_likeliest(logits, vocabulary, peaks, &likeliest, error));
  *token = (int32_t)likeliest;
  if (greedy) return CH_OK;
  int32_t *ids = (int32_t *)(peaks + blocks_of(vocabulary));
  bool some = sampler->top_k > 0 && sampler->top_k < vocabulary;
  int64_t n = some ? keep_top_k(logits, vocabulary, peaks, sampler->top_k, pool, weights, ids) : vocabulary;
  make_weights(some ? weights : logits, n, logits[likeliest], sampler->temperature, weights);
  if (sampler->top_p < 1) keep_top_p(sampler->top_p, n, weights, pool);
  int64_t drawn = draw(weights, n, uniform(sampler));
  if (drawn >= 0) *token = some ? ids[drawn] : (int32_t)drawn;
  return CH_OK;
}
