/* MT19937 as published by Matsumoto and Nishimura, and the draws of Python's random module and of numpy from it. */
#include "eval/tasks/python_random.h"

#include <stdlib.h>

enum { N = CH_PYTHON_STATE, M = 397 };

static void seed_words(ch_python_random *r, uint32_t seed) {
  r->state[0] = seed;
  for (uint32_t i = 1; i < N; i++)
    r->state[i] = 1812433253u * (r->state[i - 1] ^ (r->state[i - 1] >> 30)) + i;
}

/* Seeds by init_by_array with a key of one word, as Python does for an integer below 2^32. */
void ch_python_seed(ch_python_random *r, uint32_t seed) {
  uint32_t *s = r->state, i = 1;
  seed_words(r, 19650218u);
  for (int k = 0; k < N; k++) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525u)) + seed;
    if (++i == N) s[0] = s[N - 1], i = 1;
  }
  for (int k = 0; k < N - 1; k++) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941u)) - i;
    if (++i == N) s[0] = s[N - 1], i = 1;
  }
  s[0] = 0x80000000u;
  r->next = N;
}

static void refill(ch_python_random *r) {
  uint32_t *s = r->state;
  for (int i = 0; i < N; i++) {
    uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % N] & 0x7fffffffu);
    s[i] = s[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
  }
  r->next = 0;
}

uint32_t ch_python_word(ch_python_random *r) {
  if (r->next == N) refill(r);
  uint32_t y = r->state[r->next++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

double ch_python_uniform(ch_python_random *r) {
  uint32_t a = ch_python_word(r) >> 5, b = ch_python_word(r) >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

/* Draws as Python's randbelow: as many bits as `bound` has, until they are below it. bound < 2^32. */
int64_t ch_python_below(ch_python_random *r, int64_t bound) {
  int bits = 64 - __builtin_clzll((unsigned long long)bound);
  for (;;) {
    int64_t drawn = ch_python_word(r) >> (32 - bits);
    if (drawn < bound) return drawn;
  }
}

/* Draws `count` different places of a population that is much larger. A place that was drawn before is drawn again. */
static bool sample_few(ch_python_random *r, int64_t population, int64_t count, int64_t *chosen) {
  unsigned char *drawn = calloc((size_t)population / 8 + 1, 1);
  if (!drawn) return false;
  for (int64_t i = 0; i < count;) {
    int64_t place = ch_python_below(r, population);
    unsigned char bit = (unsigned char)(1 << (place & 7));
    if (drawn[place >> 3] & bit) continue;
    drawn[place >> 3] |= bit;
    chosen[i++] = place;
  }
  free(drawn);
  return true;
}

bool ch_python_sample(ch_python_random *r, int64_t population, int64_t count, int64_t *chosen) {
  int64_t set_size = 21; /* Python keeps a set of drawn places for larger populations, else a list of all */
  if (count > 5)
    for (int64_t power = 1; power <= 3 * count;) set_size = 21 + (power *= 4);
  if (population > set_size) return sample_few(r, population, count, chosen);
  int64_t *pool = malloc(((size_t)population + 1) * sizeof *pool);
  if (!pool) return false;
  for (int64_t i = 0; i < population; i++) pool[i] = i;
  for (int64_t i = 0; i < count; i++) {
    int64_t place = ch_python_below(r, population - i);
    chosen[i] = pool[place];
    pool[place] = pool[population - i - 1];
  }
  free(pool);
  return true;
}

void ch_python_shuffle(ch_python_random *r, int64_t *places, int64_t count) {
  for (int64_t i = count - 1; i > 0; i--) {
    int64_t other = ch_python_below(r, i + 1), kept = places[i];
    places[i] = places[other];
    places[other] = kept;
  }
}

void ch_numpy_seed(ch_python_random *r, uint32_t seed) {
  seed_words(r, seed);
  r->next = N;
}

/* Draws as many bits as the range has, until the number is in the range. */
int64_t ch_numpy_randint(ch_python_random *r, int64_t low, int64_t high) {
  uint32_t last = (uint32_t)(high - low - 1), mask = last;
  for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
  for (;;) {
    uint32_t drawn = ch_python_word(r) & mask;
    if (drawn <= last) return low + drawn;
  }
}
