/* Loops that do nothing but dot instructions, for bench/limits.c. */
#ifndef CH_BENCH_LIMITS_DOTS_H
#define CH_BENCH_LIMITS_DOTS_H

#include <stdint.h>

/* Runs `rounds` rounds on one thread and returns the sum of all lanes. *operations receives the number of operations,
   two for every product. There are 16 sums of 16 lanes. BF16: sum i starts at i + seed, and a round adds
   1 * 1 + 1 * 1 to each lane. Integers: sum i starts at i, and a round adds (seed + 1)^2. */
typedef double (*ch_dot_loop)(int64_t rounds, int seed, double *operations);

/* Returns the loop, or NULL if this processor does not have the instruction. */
ch_dot_loop ch_dot_loop_bf16(void);
ch_dot_loop ch_dot_loop_int8(void);

#endif
