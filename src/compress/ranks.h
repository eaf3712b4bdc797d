/* Which matrix gets which rank, when all of them share one budget of parameters. */
#ifndef CH_COMPRESS_RANKS_H
#define CH_COMPRESS_RANKS_H

#include <stdint.h>

typedef struct ch_ranked {
  int64_t cost; /* parameters of a unit of rank: out + in */
  int64_t most; /* the full rank */
  const double
      *values;   /* [most] squared singular values, the largest first: what each unit takes off the error */
  double weight; /* of that error among the others' */
  int64_t rank;  /* what it has; raised */
} ch_ranked;

/* Spends `budget` parameters unit by unit, each where a parameter lowers the error most among those that can still pay
   for it; ties go to the first. Returns what is left: less than any unit that would lower an error. */
int64_t ch_allocate_ranks(ch_ranked *matrices, int count, int64_t budget);
/* The error that is left: sum over matrices of weight times the values behind the rank. */
double ch_error_left(const ch_ranked *matrices, int count);

#endif
