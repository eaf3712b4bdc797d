/* Remembers the verdict on every product that was tried with fewer threads, and fills the matrices of the
 * trials. */
#include "tensor/gemm_trials.h"

/* The number of consecutive elements of the table in which a shape may be stored. */
enum { PLACES = 8 };

static uint32_t mixed(uint32_t hash, uint64_t value) {
  for (int i = 0; i < 2; i++, value >>= 32) hash = (hash ^ (uint32_t)value) * 0x9e3779b1u, hash ^= hash >> 15;
  return hash;
}

static uint32_t place_of(const ch_gemm_shape *s, int workers, int number) {
  const uint32_t flags = (uint32_t)s->transpose_a | (uint32_t)s->transpose_b << 1 |
                         (uint32_t)s->accumulate << 2 | (uint32_t)s->is_rare << 3;
  uint32_t hash = mixed((uint32_t)workers, flags);
  hash = mixed(mixed(mixed(hash, (uint64_t)s->m), (uint64_t)s->n), (uint64_t)s->k);
  return (hash + (uint32_t)number) % CH_GEMM_TRIALS;
}

ch_gemm_verdict ch_gemm_trials_find(const ch_gemm_trials *trials, const ch_gemm_shape *shape, int workers) {
  for (int i = 0; i < PLACES; i++) {
    const ch_gemm_trial *trial = &trials->trials[place_of(shape, workers, i)];
    if (trial->verdict == CH_GEMM_UNTRIED) break;
    if (trial->workers == workers && ch_gemm_same_shape(&trial->shape, shape)) return trial->verdict;
  }
  return CH_GEMM_UNTRIED;
}

void ch_gemm_trials_keep(ch_gemm_trials *trials, const ch_gemm_shape *shape, int workers,
                         ch_gemm_verdict verdict) {
  int number = 0;
  while (number < PLACES && trials->trials[place_of(shape, workers, number)].verdict != CH_GEMM_UNTRIED)
    number++;
  trials->trials[place_of(shape, workers, number % PLACES)] =
      (ch_gemm_trial){.shape = *shape, .workers = workers, .verdict = verdict};
}

void ch_gemm_trials_fill(bool bf16, size_t bytes, uint32_t seed, void *matrix) {
  uint32_t state = seed * 0x9e3779b1u + 1;
  uint16_t *halves = matrix;
  uint32_t *words = matrix;
  for (size_t i = 0; i < bytes / (bf16 ? sizeof *halves : sizeof *words); i++) {
    state = state * 1664525u + 1013904223u;
    /* The sign, an exponent of 2^-15 to 2^0, and the rest at random. */
    const uint32_t bits = ((state ^ state >> 16) & 0x87ffffffu) | 0x38000000u;
    if (bf16)
      halves[i] = (uint16_t)(bits >> 16);
    else
      words[i] = bits;
  }
}
