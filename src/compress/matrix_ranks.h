/* Assigns ranks to matrices that share one budget of parameters. */
#ifndef CH_COMPRESS_MATRIX_RANKS_H
#define CH_COMPRESS_MATRIX_RANKS_H

#include <stdint.h>

#include "compress/compress.h"

typedef struct ch_ranked_matrix {
  int64_t cost; /* parameters of a unit of rank: out + in */
  int64_t most; /* the full rank */
  /* [most] squared singular values, the largest first: by how much each reduces the error */
  const double *values;
  double weight; /* of that error among the others' */
  int64_t rank;  /* what it has; raised */
} ch_ranked_matrix;

/* Spends `budget` parameters unit by unit, each where a parameter lowers the error most among those that can still pay
   for it; ties go to the first. Returns what is left: less than any unit that would lower an error. */
int64_t ch_allocate_ranks(ch_ranked_matrix *matrices, int count, int64_t budget);
/* Spends `budget` parameters so that ranks are in proportion to parts [count], each at least `least` and at most the
 * full rank. What whole units of rank leave over goes, unit by unit, where most of one is missing. Values and weights
 * are not read. Returns what is left. */
int64_t ch_proportional_ranks(ch_ranked_matrix *matrices, const double *parts, int count, int64_t least,
                              int64_t budget);
/* Returns a matrix' [out, in] part of the ranks. By CH_RANKS_SHARE it is the rank at which its factors have
 * as many parameters as the matrix, by CH_RANKS_PROJECTION the largest rank. */
double ch_rank_part(ch_ranks rule, int64_t out, int64_t in);
/* One of the ways to write a family of matrices: what it costs before any rank, and what ranks are worth then. */
typedef struct ch_ranked_choice {
  int64_t cost;
  const ch_ranked_matrix *members; /* [members]; their ranks are not read */
} ch_ranked_choice;

typedef struct ch_ranked_family {
  const ch_ranked_choice *choices; /* [choice_count] */
  int choice_count, members, chosen;
} ch_ranked_family;

/* Takes one choice for every family and ranks for all members, so that what is left of the error is small: those that
 * one price for a parameter leads to, whichever of them, and then what exchanging single choices improves. `members`
 * gets all families' members, one family after the other, with their ranks. Returns the error that is left, or -1
 * when even the cheapest choices cost more than the budget. */
double ch_choose_and_rank(ch_ranked_family *families, int count, int64_t budget, ch_ranked_matrix *members);
/* Returns the remaining error: the sum over matrices of weight times the values beyond the rank. */
double ch_error_left(const ch_ranked_matrix *matrices, int count);

#endif
