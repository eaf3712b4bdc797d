/* Random numbers (xoshiro256**) with a state of 32 bytes, which checkpoints store. */
#ifndef CH_BASE_RANDOM_H
#define CH_BASE_RANDOM_H

#include <stdint.h>

typedef struct ch_random {
  uint64_t state[4];
} ch_random;

/* Starts a sequence of numbers, which depends only on seed and stream. Different streams are independent. */
void ch_random_seed(ch_random *random, uint64_t seed, uint64_t stream);
uint64_t ch_random_u64(ch_random *random);
/* Returns a number that is uniform in [0, 1). */
double ch_random_uniform(ch_random *random);
/* Returns a number that is uniform in 0 … bound − 1, without bias; bound > 0. */
uint64_t ch_random_below(ch_random *random, uint64_t bound);
/* Returns a standard normal number. */
double ch_random_normal(ch_random *random);
/* Returns element i of a permutation of 0 … n − 1 (n at most 2^62) that `key` selects: a shuffled order with random
   access. */
uint64_t ch_random_permute(uint64_t i, uint64_t n, uint64_t key);
/* Returns a stream number from a text (FNV-1a), so that a tensor's initial values depend on its name but not on its
   place among the tensors. */
uint64_t ch_random_stream_of(const char *text);

#endif
