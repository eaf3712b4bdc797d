/* xoshiro256** (Blackman & Vigna) seeded by splitmix64; normals by the polar method. */
#include "base/random.h"

#include <math.h>

static uint64_t splitmix64(uint64_t *x) {
  uint64_t z = (*x += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint64_t rotate(uint64_t x, int by) {
  return (x << by) | (x >> (64 - by));
}

void ch_random_seed(ch_random *random, uint64_t seed, uint64_t stream) {
  uint64_t a = seed, b = stream ^ 0xd1b54a32d192ed03u;
  for (int i = 0; i < 4; i++) random->state[i] = splitmix64(&a) ^ rotate(splitmix64(&b), 17 * i + 1);
}

uint64_t ch_random_u64(ch_random *random) {
  uint64_t *s = random->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotate(s[3], 45);
  return result;
}

double ch_random_uniform(ch_random *random) {
  return (double)(ch_random_u64(random) >> 11) * 0x1p-53;
}

uint64_t ch_random_below(ch_random *random, uint64_t bound) {
  uint64_t reject = -bound % bound, x;
  do x = ch_random_u64(random);
  while (x < reject);
  return x % bound;
}

double ch_random_normal(ch_random *random) {
  double u, v, s;
  do {
    u = 2 * ch_random_uniform(random) - 1;
    v = 2 * ch_random_uniform(random) - 1;
    s = u * u + v * v;
  } while (s >= 1 || s == 0);
  return u * sqrt(-2 * log(s) / s);
}

uint64_t ch_random_stream_of(const char *text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return hash;
}

/* Runs four Feistel rounds on the smallest even number of bits that holds 0 … n − 1. Repeats them until the result is
   below n. */
uint64_t ch_random_permute(uint64_t i, uint64_t n, uint64_t key) {
  int half = 1;
  while (half < 31 && (UINT64_C(1) << (2 * half)) < n) half++;
  uint64_t mask = (UINT64_C(1) << half) - 1;
  do {
    uint64_t left = i >> half, right = i & mask;
    for (uint64_t round = 0; round < 4; round++) {
      uint64_t mixed = (right + 1) * 0x9e3779b97f4a7c15u + key + round * 0xbf58476d1ce4e5b9u;
      mixed = (mixed ^ (mixed >> 29)) * 0x94d049bb133111ebu;
      uint64_t next = left ^ ((mixed ^ (mixed >> 32)) & mask);
      left = right;
      right = next;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}
