/* Loops of nothing but dot instructions, for bench/limits.c. */
#ifndef CH_BENCH_LIMITS_DOTS_H
#define CH_BENCH_LIMITS_DOTS_H

#include <stdint.h>

/* Runs `rounds` rounds on one thread; *operations gets two for every product. 16 sums of 16 lanes start from
   their number, of BF16 plus seed; a round adds 1 * 1 + 1 * 1 to each lane, of integers (seed + 1)^2. Returns
   the sum of all. */
typedef double (*ch_dot_loop)(int64_t rounds, int seed, double *operations);

/* Return NULL if this processor has no such instruction. */
ch_dot_loop ch_dot_loop_bf16(void);
ch_dot_loop ch_dot_loop_int8(void);

#endif
